"""What it costs to begin: import, --help, and the size of the base install.

    python benchmarks/bench_start.py [--quick] [--json]

The peer of each is the limit that we set ourselves: 0.3 s, 0.5 s, 550 MB. Sizes are of site-packages without pip and
setuptools, in an environment made for the purpose (skipped by --quick), as `pip install --no-compile` leaves it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import Record, cost, options, report, seconds

ROOT = Path(__file__).parents[1]


def command_seconds(*command: str, rounds: int = 7) -> float:
    return min(seconds(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)) for _ in range(rounds))


def install_mebibytes() -> float:
    folder = Path(tempfile.mkdtemp(prefix="bench-start-"))
    try:
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        pip = [folder / "venv/bin/python", "-m", "pip", "install", "--quiet", "--no-compile", str(ROOT)]
        subprocess.run(pip, check=True, stdout=subprocess.DEVNULL)
        [site] = (folder / "venv/lib").glob("python*/site-packages")
        ours = [p for p in site.iterdir() if not p.name.startswith(("pip", "setuptools", "pkg_resources", "_distutils_hack"))]
        sizes = (f.stat().st_size for p in ours for f in ([p] if p.is_file() else p.rglob("*")) if f.is_file())
        return sum(sizes) / 2**20
    finally:
        shutil.rmtree(folder)


def main() -> None:
    chosen = options(__doc__)
    binary = str(Path(sys.executable).parent / "typecase")
    bare = command_seconds(sys.executable, "-c", "pass")
    records: list[Record] = [
        cost(
            "import typecase, above a bare interpreter",
            command_seconds(sys.executable, "-c", "import typecase") - bare,
            0.3,
            "s",
        ),
        cost("typecase --help", command_seconds(binary, "--help"), 0.5, "s"),
    ]
    if not chosen.quick:
        records.append(cost("base install", install_mebibytes(), 550, "MiB"))
    report(records, as_json=chosen.json)


if __name__ == "__main__":
    main()
