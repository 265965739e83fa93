"""Runs every benchmark and prints one table; `--write` also puts it into RESULTS.md.

python benchmarks/all.py [--quick] [--write] [NAME …]        such as: build reads
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from datetime import date
from pathlib import Path

from measure import Record

HERE = Path(__file__).parent


def records_of(script: Path, quick: bool) -> list[Record]:
    command = [sys.executable, str(script), "--json", *(["--quick"] if quick else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        print(f"{script.name} failed: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return []
    return [Record(**row) for row in json.loads(done.stdout[done.stdout.index("[") :])]


def section(script: Path, records: list[Record], quick: bool) -> list[str]:
    lines = [
        f"## {script.stem.removeprefix('bench_')}",
        "",
        f"`python benchmarks/{script.name}{' --quick' if quick else ''}`",
        "",
    ]
    lines += ["| | typecase | peer | unit | ratio |", "|---|---|---|---|---|"]
    lines += [f"| {r.name} | {r.ours:,.4g} | {r.peer:,.4g} | {r.unit} | {r.ratio:.2f} |" for r in records]
    return [*lines, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("names", nargs="*")
    chosen = parser.parse_args()
    scripts = [s for s in sorted(HERE.glob("bench_*.py")) if not chosen.names or s.stem.removeprefix("bench_") in chosen.names]
    lines = []
    for script in scripts:
        if records := records_of(script, chosen.quick):
            lines += section(script, records, chosen.quick)
            print("\n".join(lines[-len(records) - 7 :]), flush=True)
    if chosen.write:
        path = HERE / "RESULTS.md"
        head = (HERE / "RESULTS.head.md").read_text()
        machine = (
            f"Measured {date.today()} on {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}.\n"
        )
        path.write_text("\n".join([head.rstrip(), "", machine, *lines]))


if __name__ == "__main__":
    main()
