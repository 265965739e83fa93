"""The frame: complete or absent, resumable, retried, balanced, the same bytes on every engine."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import orjson
import pytest

from tests.recipe.toy import Squares
from typecase.core.balance import Balance
from typecase.engine.local import Local
from typecase.errors import AlreadyExists, BadRecipe, Conflict, FixInput, WorkerLost
from typecase.recipe.recipe import Recipe, load_recipe
from typecase.recipe.run import partial_folders, run_stage
from typecase.store.manifest import first_damage, read_manifest

NUMBERS = tuple(range(-3, 20))


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_run_is_complete_balanced_and_leaves_nothing_else(tmp_path: Path) -> None:
    made = run_stage(Squares(numbers=NUMBERS), {}, tmp_path / "out")
    assert made.manifest.balance == Balance(23, 10, {"odd": 10}, {"negative": 3})
    assert made.manifest.counts == {"numbers": 23}
    assert made.manifest.decision == {"largest": 19}
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert first_damage(made.folder, made.manifest) is None
    assert read_manifest(made.folder) == made.manifest


@pytest.mark.parametrize("engine", [Local(0), Local(1), Local(3)], ids=str)
def test_every_engine_gives_the_same_bytes(tmp_path: Path, engine: Local) -> None:
    expected = run_stage(Squares(numbers=NUMBERS, num_shards=4), {}, tmp_path / "a")
    made = run_stage(Squares(numbers=NUMBERS, num_shards=4), {}, tmp_path / "b", engine=engine)
    assert tree(made.folder) == tree(expected.folder)


def test_the_same_making_is_found_and_another_is_refused(tmp_path: Path) -> None:
    first = run_stage(Squares(numbers=NUMBERS), {}, tmp_path / "out")
    again = run_stage(Squares(numbers=NUMBERS), {}, tmp_path / "out")
    assert again.reused and not first.reused and again.manifest == first.manifest
    with pytest.raises(AlreadyExists, match="other parameters or inputs"):
        run_stage(Squares(numbers=(1,)), {}, tmp_path / "out")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "precious").write_text("x")
    with pytest.raises(AlreadyExists, match="not an artifact"):
        run_stage(Squares(numbers=NUMBERS), {}, tmp_path / "foreign")
    assert (tmp_path / "foreign" / "precious").read_text() == "x"


def test_a_dead_worker_is_tried_again(tmp_path: Path) -> None:
    fuse = tmp_path / "fuse"
    fuse.write_text("1")
    made = run_stage(Squares(numbers=NUMBERS, fuse=str(fuse), die_at=1), {}, tmp_path / "out", engine=Local(2))
    assert not fuse.exists()
    assert tree(made.folder) == tree(run_stage(Squares(numbers=NUMBERS), {}, tmp_path / "calm").folder)


def test_workers_that_keep_dying_are_reported_and_the_rest_stays(tmp_path: Path) -> None:
    fuse = tmp_path / "fuse"
    fuse.write_text("99")
    stage = Squares(numbers=NUMBERS, fuse=str(fuse), die_at=2)
    with pytest.raises(WorkerLost, match="run the same command again"):
        run_stage(stage, {}, tmp_path / "out", engine=Local(1))
    assert not (tmp_path / "out").exists()
    [partial] = partial_folders(tmp_path)
    assert (partial / "squares-00000.json").is_file()
    before = (partial / "squares-00000.json").stat().st_mtime_ns
    fuse.unlink()
    made = run_stage(stage, {}, tmp_path / "out", engine=Local(1))
    assert (made.folder / "squares-00000.json").stat().st_mtime_ns == before, "a finished shard is not worked again"
    assert not partial_folders(tmp_path)


@pytest.mark.parametrize("damage", ["truncate", "flip", "delete"])
def test_a_damaged_finished_shard_is_worked_again(tmp_path: Path, damage: str) -> None:
    fuse = tmp_path / "fuse"
    fuse.write_text("99")
    stage = Squares(numbers=NUMBERS, fuse=str(fuse), die_at=2)
    with pytest.raises(WorkerLost):
        run_stage(stage, {}, tmp_path / "out", engine=Local(1))
    [partial] = partial_folders(tmp_path)
    victim = partial / "squares-00000.json"
    data = bytearray(victim.read_bytes())
    if damage == "delete":
        victim.unlink()
    elif damage == "truncate":
        victim.write_bytes(data[:-1])
    else:
        data[0] ^= 1
        victim.write_bytes(data)
    fuse.unlink()
    made = run_stage(stage, {}, tmp_path / "out")
    assert tree(made.folder) == tree(run_stage(Squares(numbers=NUMBERS), {}, tmp_path / "calm").folder)


def test_a_second_process_on_the_same_output_is_refused(tmp_path: Path) -> None:
    fuse = tmp_path / "fuse"
    fuse.write_text("99")
    stage = Squares(numbers=NUMBERS, fuse=str(fuse), die_at=2)
    with pytest.raises(WorkerLost):
        run_stage(stage, {}, tmp_path / "out", engine=Local(1))
    [partial] = partial_folders(tmp_path)
    with (partial / ".scratch" / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Conflict, match="another process"):
            run_stage(stage, {}, tmp_path / "out")


def test_leftover_temporary_files_are_swept(tmp_path: Path) -> None:
    fuse = tmp_path / "fuse"
    fuse.write_text("99")
    stage = Squares(numbers=NUMBERS, fuse=str(fuse), die_at=2)
    with pytest.raises(WorkerLost):
        run_stage(stage, {}, tmp_path / "out", engine=Local(1))
    [partial] = partial_folders(tmp_path)
    (partial / ".squares-00002.json.123.tmp").write_text("half")
    fuse.unlink()
    made = run_stage(stage, {}, tmp_path / "out")
    assert sorted(p.name for p in made.folder.iterdir()) == ["manifest.json", *(f"squares-0000{i}.json" for i in range(3))]


SCRIPT = """
import sys, time
from pathlib import Path
from tests.recipe.toy import Squares
from typecase.engine.local import Local
from typecase.recipe.run import run_stage
if __name__ == "__main__":
    run_stage(Squares(numbers=tuple(range(-5, 400)), num_shards=60), {}, Path(sys.argv[1]), engine=Local(2))
"""


def wait_for(tmp_path: Path, num_records: int, job: subprocess.Popen[bytes]) -> None:
    """Until the job has so many records, or is over."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and job.poll() is None:
        if len(list(tmp_path.glob(".out.*.partial/.scratch/*-*.json"))) >= num_records:
            return
        time.sleep(0.002)


def test_kill_at_any_instant_then_run_again(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(SCRIPT.replace("num_shards=60", "num_shards=400"))
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    kills = 0
    for num_records in (1, 150, 410, 600):
        job = subprocess.Popen(
            [sys.executable, script, tmp_path / "out"], env=env, start_new_session=True, stderr=subprocess.DEVNULL
        )
        wait_for(tmp_path, num_records, job)
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
            kills += 1
        job.wait()
    assert kills, "the job was over before it could be killed"
    made = run_stage(Squares(numbers=tuple(range(-5, 400)), num_shards=400), {}, tmp_path / "out")
    calm = run_stage(Squares(numbers=tuple(range(-5, 400)), num_shards=400), {}, tmp_path / "calm")
    assert tree(made.folder) == tree(calm.folder)


def test_interrupt_leaves_a_resumable_state(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(SCRIPT.replace("num_shards=60", "num_shards=400"))
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    job = subprocess.Popen(
        [sys.executable, script, tmp_path / "out"], env=env, start_new_session=True, stderr=subprocess.DEVNULL
    )
    wait_for(tmp_path, 3, job)
    os.killpg(job.pid, signal.SIGINT)
    assert job.wait(timeout=30) != 0
    assert partial_folders(tmp_path)


GOOD = """
from dataclasses import dataclass
from tests.recipe.toy import Squares
from typecase.recipe.recipe import Recipe

@dataclass(frozen=True, kw_only=True)
class Mine(Squares):
    verb = "mine"

recipe = Recipe("g", Mine(numbers=(1, 2)))
"""


class TestRecipe:
    def test_a_stage_without_its_role_is_refused_before_anything_runs(self) -> None:
        class Needy(Squares):
            verb = "needy"
            needs = ("tokens",)

        with pytest.raises(BadRecipe, match=r"stage 2 \(needy\) needs tokens, but before it stand only: squares"):
            Recipe("r", Squares(numbers=(1,)), Needy(numbers=(1,)))

    def test_an_empty_recipe_and_a_stranger_are_refused(self) -> None:
        with pytest.raises(BadRecipe, match="no stages"):
            Recipe("r")
        with pytest.raises(BadRecipe, match="is a int, not a stage"):
            Recipe("r", 3)  # type: ignore[arg-type]

    def test_artifacts_lie_by_fingerprint_and_are_reused(self, tmp_path: Path) -> None:
        recipe = Recipe("r", Squares(numbers=(1, 2)))
        [first] = recipe.run(tmp_path)
        assert first.folder.parts[-3:-2] == ("runs",) and first.folder.name == "squares"
        assert first.manifest.fingerprint.startswith(first.folder.parent.name)
        assert recipe.run(tmp_path)[0].reused
        assert Recipe("r", Squares(numbers=(1, 3))).run(tmp_path)[0].folder != first.folder

    def test_a_recipe_file_is_loaded_and_faults_are_named(self, tmp_path: Path) -> None:
        good, bad = tmp_path / "good.py", tmp_path / "bad.py"
        good.write_text(GOOD)
        bad.write_text("x = 1\n")
        assert load_recipe(good).name == "g"
        [made] = load_recipe(good).run(tmp_path / "work", engine=Local(1))
        assert made.manifest.stage == "mine", "a stage of the recipe's own runs in worker processes too"
        with pytest.raises(BadRecipe, match="defines no `recipe"):
            load_recipe(bad)
        with pytest.raises(FixInput, match="no recipe file"):
            load_recipe(tmp_path / "none.py")

    def test_a_sample_needs_a_stage_that_reads(self) -> None:
        with pytest.raises(BadRecipe, match="no stage that can sample"):
            Recipe("r", Squares(numbers=(1,))).sampled(0.1)
        with pytest.raises(BadRecipe, match="above 0"):
            Recipe("r", Squares(numbers=(1,))).sampled(0.0)


def test_a_moved_parent_keeps_the_fingerprint(tmp_path: Path) -> None:
    first = run_stage(Squares(numbers=(2, 4)), {}, tmp_path / "a")
    child = run_stage(Squares(numbers=(6,)), {"docs": first.folder}, tmp_path / "child")
    first.folder.rename(tmp_path / "b")
    moved = run_stage(Squares(numbers=(6,)), {"docs": tmp_path / "b"}, tmp_path / "child")
    assert moved.reused and moved.manifest.fingerprint == child.manifest.fingerprint
    manifest = orjson.loads((tmp_path / "child" / "manifest.json").read_bytes())
    assert manifest["parents"][0]["path"] == "../a"
