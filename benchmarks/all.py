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
    done = subprocess.run(command, capture_output=True, text=True)
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
    parser.add_argument("names", nargs="*")
    chosen = parser.parse_args()
    print(f"Measured {date.today()} on {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}.\n")
    for script in sorted(HERE.glob("bench_*.py")):
        if chosen.names and script.stem.removeprefix("bench_") not in chosen.names:
            continue
        if records := records_of(script, chosen.quick):
            print("\n".join(section(script, records, chosen.quick)), flush=True)


if __name__ == "__main__":
    main()
