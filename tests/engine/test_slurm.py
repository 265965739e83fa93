"""Slurm: the map of every engine through programs that stand in for sbatch, squeue and scancel and start real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.recipe.test_run import NUMBERS, tree
from tests.recipe.toy import Squares
from typecase.engine.protocol import Engine
from typecase.engine.slurm import Slurm
from typecase.errors import FixInput, WorkerLost
from typecase.recipe.run import run_stage

SBATCH = """
import os, re, subprocess, sys
from pathlib import Path
spool, script = Path(os.environ["SPOOL"]), Path(sys.argv[-1])
heads = dict(re.findall(r"^#SBATCH --([a-z-]+)=(.*)$", script.read_text(), re.M))
if "partition" in heads:
    sys.exit("sbatch: error: invalid partition specified: " + heads["partition"])
job = str(len(list(spool.glob("*.heads"))) + 1)
(spool / f"{job}.heads").write_text(repr(heads))
first, last = map(int, heads["array"].split("-"))
for k in range(first, last + 1):
    log = open(heads["output"].replace("%a", str(k)), "wb")
    env = {**os.environ, "SLURM_ARRAY_TASK_ID": str(k)}
    started = subprocess.Popen(["sh", script], env=env, stdout=log, stderr=log, start_new_session=True)
    (spool / f"{job}_{k}.pid").write_text(str(started.pid))
print(job)
"""
SQUEUE = """
import os, sys
from pathlib import Path
job = next(a for a in sys.argv if a.startswith("--jobs=")).partition("=")[2]
assert "--array" in sys.argv and "--format=%K" in sys.argv
for path in Path(os.environ["SPOOL"]).glob(f"{job}_*.pid"):
    try:
        state = Path("/proc", path.read_text(), "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        continue
    if state != "Z":
        print(path.stem.partition("_")[2])
"""
SCANCEL = """
import os, signal, sys
from pathlib import Path
for path in Path(os.environ["SPOOL"]).glob(f"{sys.argv[1]}_*.pid"):
    try:
        os.kill(int(path.read_text()), signal.SIGKILL)
    except ProcessLookupError:
        pass
"""


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The stand-ins on PATH; the folder where they note jobs and processes."""
    programs, spool = tmp_path / "bin", tmp_path / "spool"
    programs.mkdir()
    spool.mkdir()
    for name, source in (("sbatch", SBATCH), ("squeue", SQUEUE), ("scancel", SCANCEL)):
        (programs / name).write_text(f"#!{sys.executable}\n{source}")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("SPOOL", str(spool))
    yield spool
    for path in spool.glob("*.pid"):
        with_pid = Path("/proc", path.read_text(), "cmdline")
        if with_pid.exists() and b"typecase.engine.slurm" in with_pid.read_bytes():
            os.kill(int(path.read_text()), signal.SIGKILL)


@pytest.fixture
def engine(tmp_path: Path, spool: Path) -> Slurm:
    shared = tmp_path / "shared"
    shared.mkdir()
    return Slurm(2, str(shared), queue_seconds=0.2)


def square(n: int) -> int:
    time.sleep(0.02 * (n % 3 == 0))
    return n * n


def fails_at_three(n: int) -> int:
    if n == 3:
        raise FixInput("three")
    return n


def dies_at_two(n: int) -> int:
    if n == 2:
        print("out of memory at two", flush=True)
        os._exit(9)
    return n


def dies(n: int) -> int:
    os._exit(9)


def waits(n: int) -> int:
    time.sleep(60)
    return n


def alive(spool: Path) -> list[str]:
    """The command lines of workers that live."""
    lines = []
    for path in spool.glob("*.pid"):
        command = Path("/proc", path.read_text(), "cmdline")
        if command.exists() and (line := command.read_bytes()):
            lines.append(line.decode())
    return lines


def test_answers_come_in_order_and_nothing_is_left(engine: Slurm, spool: Path) -> None:
    assert isinstance(engine, Engine) and engine.num_workers == 2 and not engine.here
    assert list(engine.map(square, range(12))) == [n * n for n in range(12)]
    assert list(engine.map(square, [])) == []
    assert not any(Path(engine.folder).iterdir())


def test_an_error_is_raised_as_itself_at_the_turn_of_its_task(engine: Slurm) -> None:
    answers = engine.map(fails_at_three, range(5))
    assert list(islice(answers, 3)) == [0, 1, 2]
    with pytest.raises(FixInput, match=r"^three$"):
        next(answers)
    assert not any(Path(engine.folder).iterdir())


def test_a_lost_worker_costs_its_own_task(engine: Slurm) -> None:
    answers, found = engine.map(dies_at_two, range(6)), list[Any]()
    while len(found) < 6:
        try:
            found.append(next(answers))
        except WorkerLost as lost:
            found.append(str(lost))
    assert [found[i] for i in (0, 1, 3, 4, 5)] == [0, 1, 3, 4, 5]
    assert "out of memory at two" in found[2] and "run the same command again" in found[2]


def test_a_job_whose_workers_are_all_gone_ends_the_map(engine: Slurm) -> None:
    answers, lost = engine.map(dies, range(40)), 0
    while True:
        try:
            next(answers)
        except WorkerLost:
            lost += 1
        except StopIteration:
            break
    assert lost == 3, "two shards with their workers, then nobody is left for the rest"


def test_a_stage_gives_the_same_bytes_and_is_tried_again(engine: Slurm, tmp_path: Path, spool: Path) -> None:
    fuse = tmp_path / "fuse"
    fuse.write_text("2")
    run_stage(Squares(numbers=NUMBERS, fuse=str(fuse), die_at=1), {}, tmp_path / "out", engine=engine)
    run_stage(Squares(numbers=NUMBERS), {}, tmp_path / "here")
    assert tree(tmp_path / "out") == tree(tmp_path / "here")
    assert len(list(spool.glob("*.heads"))) == 4, "the survey, and the work three times"


def test_options_reach_sbatch_and_a_refusal_reaches_the_user(engine: Slurm, spool: Path) -> None:
    chosen = Slurm(1, engine.folder, options=("--time=10",), models=("--gres=gpu:1",), queue_seconds=0.2)
    assert list(chosen.map(square, [2], models=True)) == [4] and list(chosen.map(square, [3])) == [9]
    first, second = ((spool / f"{job}.heads").read_text() for job in (1, 2))
    assert "'time': '10'" in first and "'gres': 'gpu:1'" in first and "gres" not in second
    with pytest.raises(FixInput, match=r"sbatch refuses .*invalid partition specified: none"):
        next(Slurm(1, engine.folder, options=("--partition=none",)).map(square, [1]))
    for wrong in ({"workers": 0}, {"options": ("time=10",)}):
        with pytest.raises(FixInput):
            Slurm(**wrong)  # type: ignore[arg-type]


def test_an_abandoned_map_cancels_its_job(engine: Slurm, spool: Path) -> None:
    answers = engine.map(waits, range(4))
    while len(alive(spool)) < 2:
        time.sleep(0.05)
    answers.close()  # type: ignore[attr-defined]
    until = time.monotonic() + 20
    while alive(spool) and time.monotonic() < until:
        time.sleep(0.05)
    assert not alive(spool) and not any(Path(engine.folder).iterdir())


def test_functions_of_a_script_work(engine: Slurm, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "from typecase.engine.slurm import Slurm\n"
        "def twice(n):\n"
        "    return n + n\n"
        "if __name__ == '__main__':\n"
        "    print(list(Slurm(1, sys.argv[1]).map(twice, range(3))))\n"
    )
    command = [sys.executable, str(script), engine.folder]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[0, 2, 4]\n"


def test_without_sbatch_the_program_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FixInput, match="no program 'sbatch' here"):
        Slurm(1, str(tmp_path)).map(square, [1])
    assert not any(tmp_path.iterdir())
