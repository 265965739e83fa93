"""A stage hears every map to its end: the workers of one beat work the next one as well."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from typecase.core.balance import Balance
from typecase.engine.local import Local
from typecase.engine.protocol import Engine
from typecase.recipe.run import run_stage
from typecase.recipe.stage import Given, Report, Stage, Summary
from typecase.store.atomic import write_json


@dataclass(frozen=True, kw_only=True)
class Signed(Stage):
    """Eight shards; each beat leaves the number of its process in `signed`."""

    verb: ClassVar[str] = "signed"
    libraries: ClassVar[tuple[str, ...]] = ()

    signed: str

    def identity(self, engine: Engine) -> dict[str, Any]:
        return {}

    def shards(self, given: Given) -> Sequence[int]:
        return range(8)

    def survey(self, given: Given, shard: int, scratch: Path) -> Summary:
        Path(self.signed, f"survey-{shard}-{os.getpid()}").touch()
        return {}

    def work(self, given: Given, task: int, decision: Mapping[str, Any], out: Path, scratch: Path) -> Report:
        Path(self.signed, f"work-{task}-{os.getpid()}").touch()
        write_json(out / f"signed-{task}.json", task)
        return Report({f"signed-{task}.json": 1}, Balance(1, 1))


def test_workers_stay_from_beat_to_beat_and_stage_to_stage(tmp_path: Path) -> None:
    signed = tmp_path / "signed"
    signed.mkdir()
    for name in ("first", "second"):
        run_stage(Signed(signed=str(signed)), {}, tmp_path / name, engine=Local(2))
    processes = {path.name.rpartition("-")[2] for path in signed.iterdir()}
    assert len(processes) <= 2 and str(os.getpid()) not in processes
