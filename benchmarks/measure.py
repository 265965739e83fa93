"""Measuring side by side: ours and the peer in turn on the same input, the best of each, as a ratio.

A machine of two shared cores changes speed by a factor of three within minutes, so a figure alone says little: every
record holds the peer's figure of the same minute.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Record:
    """`ours` and `peer` in `unit`; `ratio` above 1 is better than the peer, whichever way the unit counts."""

    name: str
    ours: float
    peer: float
    unit: str
    ratio: float


def options(description: str | None, **more: str) -> argparse.Namespace:
    """The flags that every benchmark has, and extra ones as name=default."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smaller input, under a minute")
    parser.add_argument("--json", action="store_true", help="records instead of a table")
    for name, default in more.items():
        parser.add_argument(f"--{name}", default=default)
    return parser.parse_args()


def seconds(run: Callable[[], object]) -> float:
    """Wall time of one call, with garbage collected before."""
    gc.collect()
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def best_of(runs: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """The shortest time of each of `runs`, called in turn A, B, …, A, B, … so that a slow minute hits all of them."""
    times = [[seconds(run) for run in runs] for _ in range(rounds)]
    return [min(column) for column in zip(*times, strict=True)]


def rate(name: str, amount: float, ours_seconds: float, peer_seconds: float, unit: str) -> Record:
    """A record of `amount` per second; more is better."""
    return Record(name, amount / ours_seconds, amount / peer_seconds, unit, peer_seconds / ours_seconds)


def cost(name: str, ours: float, peer: float, unit: str) -> Record:
    """A record of seconds, bytes or another cost; less is better."""
    return Record(name, ours, peer, unit, peer / ours)


def report(records: Sequence[Record], *, as_json: bool, notes: Sequence[str] = ()) -> None:
    """Prints the records as JSON or as a table with notes beneath."""
    if as_json:
        print(json.dumps([asdict(r) for r in records], indent=1))
        return
    rows = [("", "typecase", "peer", "unit", "ratio")]
    rows += [(r.name, f"{r.ours:,.4g}", f"{r.peer:,.4g}", r.unit, f"{r.ratio:.2f}") for r in records]
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    for row in rows:
        print(f"{row[0]:<{widths[0]}}  " + "  ".join(f"{c:>{w}}" for c, w in zip(row[1:], widths[1:], strict=True)))
    for note in notes:
        print(note)
