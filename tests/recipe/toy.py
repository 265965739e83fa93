"""A small stage for the tests of the frame: numbers in, squares out, odd ones removed, negative ones quarantined."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from typecase.core.balance import Balance
from typecase.recipe.stage import Given, Report, Stage, Summary
from typecase.store.atomic import write_json


@dataclass(frozen=True, kw_only=True)
class Squares(Stage):
    """`die_at`: the worker of that shard kills itself as long as `fuse` exists, which it removes first."""

    verb: ClassVar[str] = "squares"
    needs: ClassVar[tuple[str, ...]] = ()
    wants: ClassVar[tuple[str, ...]] = ("docs",)
    libraries: ClassVar[tuple[str, ...]] = ()

    numbers: tuple[int, ...]
    num_shards: int = 3
    fuse: str = ""
    die_at: int = -1

    def identity(self, engine: object) -> dict[str, Any]:
        return {"numbers": list(self.numbers)}

    def shards(self, given: Given) -> Sequence[tuple[int, tuple[int, ...]]]:
        cuts = [len(self.numbers) * k // self.num_shards for k in range(self.num_shards + 1)]
        return [(k, self.numbers[cuts[k] : cuts[k + 1]]) for k in range(self.num_shards)]

    def survey(self, given: Given, shard: tuple[int, tuple[int, ...]], scratch: Path) -> Summary:
        return {"largest": max((abs(n) for n in shard[1]), default=0)}

    def decide(self, given: Given, summaries: Sequence[Summary], scratch: Path) -> dict[str, Any]:
        return {"largest": max(s["largest"] for s in summaries), "_private": 1}

    def work(
        self, given: Given, task: tuple[int, tuple[int, ...]], decision: Mapping[str, Any], out: Path, scratch: Path
    ) -> Report:
        index, numbers = task
        if index == self.die_at:
            self._burn(out)
        kept = [n * n + decision["largest"] for n in numbers if n >= 0 and n % 2 == 0]
        odd, negative = sum(n >= 0 and n % 2 == 1 for n in numbers), sum(n < 0 for n in numbers)
        write_json(out / f"squares-{index:05d}.json", kept)
        balance = Balance(len(numbers), len(kept), {"odd": odd} if odd else {}, {"negative": negative} if negative else {})
        return Report({f"squares-{index:05d}.json": len(kept)}, balance, {"numbers": len(numbers)})

    def _burn(self, out: Path) -> None:
        fuse = Path(self.fuse)
        if fuse.exists():
            (out / ".half-written.1.tmp").write_text("what a killed writer leaves")
            left = int(fuse.read_text()) - 1
            if left:
                fuse.write_text(str(left))
            else:
                fuse.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
