"""A whole recipe on Ray: the bytes of a run on this machine, for any number of nodes, though workers and nodes are lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import psutil
import pytest
from tokenizers import ByteLevelBPETokenizer

pytest.importorskip("ray")

from tests.engine.nodes import cluster_of, kill_one, remove_one_at_work
from tests.recipe.test_run import tree
from typecase.core.balance import Balance
from typecase.core.selection.policy import Budget
from typecase.engine import ray_answers
from typecase.engine.local import Local
from typecase.engine.protocol import Engine
from typecase.engine.ray import Ray
from typecase.engine.ray_answers import WINDOW
from typecase.errors import WorkerLost
from typecase.recipe.build import Build
from typecase.recipe.dedup import Dedup
from typecase.recipe.ingest import Ingest
from typecase.recipe.progress import Phase, Reporter
from typecase.recipe.rate import Rate
from typecase.recipe.recipe import Recipe
from typecase.recipe.refine import Refine
from typecase.recipe.run import run_stage
from typecase.recipe.select import Select
from typecase.recipe.stage import Given, Report, Stage
from typecase.store.atomic import write_json

pytestmark = pytest.mark.slow

WORDS = ["model", "page", "data", "noise", "step", "token", "corpus", "the", "of", "a", "once", "again", "while", "because"]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    """Ingest to build over 600 documents in 6 files, with copies and boilerplate among them."""
    folder, rng = tmp_path_factory.mktemp("sources"), np.random.default_rng(5)
    texts = [" ".join(rng.choice(WORDS, rng.integers(30, 200))).capitalize() + ".\nShare this page\n" for _ in range(500)]
    texts += [texts[i] for i in rng.integers(0, 500, 100)]
    for k in range(6):
        rows = (json.dumps({"url": f"http://x/{i}", "text": texts[i]}) for i in range(k, len(texts), 6))
        (folder / f"part{k}.jsonl").write_text("\n".join(rows))
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(texts[:50], vocab_size=300, show_progress=False)
    trained.save(str(folder / "tokenizer.json"))
    tokenizer = str(folder / "tokenizer.json")
    return Recipe(
        "web",
        Ingest(inputs=(str(folder / "*.jsonl"),), id_key="url", part_bytes=60_000),
        Rate(),
        Refine(),
        Dedup(),
        Select(budget=Budget(tokens=20_000), tokenizer=tokenizer, seed=1),
        Build(tokenizer=tokenizer, eod=0),
    )


@pytest.fixture(scope="module")
def truth(recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    work = tmp_path_factory.mktemp("here")
    made = recipe.run(work, engine=Local(0))
    assert made[0].manifest.decision["parts"] > 6 and made[-1].manifest.counts["tokens"] > 15_000
    return tree(work)


def test_processes_of_this_machine(recipe: Recipe, truth: dict[str, bytes], tmp_path: Path) -> None:
    recipe.run(tmp_path, engine=Local(2))
    assert tree(tmp_path) == truth


@pytest.mark.parametrize("nodes", [1, 3])
def test_nodes_of_ray(recipe: Recipe, truth: dict[str, bytes], tmp_path: Path, nodes: int) -> None:
    with cluster_of(nodes) as cluster:
        recipe.run(tmp_path, engine=Ray(cluster.address))
    assert tree(tmp_path) == truth


class Watching(Reporter):
    """Calls `event` in every beat after its first task."""

    def __init__(self, event: Callable[[str, int], None]) -> None:
        self.event = event

    @contextmanager
    def phase(self, name: str, *, total: int, done: int) -> Iterator[Phase]:
        yield _Watched(name, self.event)


class _Watched(Phase):
    def __init__(self, name: str, event: Callable[[str, int], None]) -> None:
        self.name, self.event, self.done = name, event, 0

    def advance(self, documents: int, size_bytes: int) -> None:
        self.done += 1
        self.event(self.name, self.done)


def test_workers_killed_and_a_node_gone_in_the_middle_of_a_recipe(
    recipe: Recipe, truth: dict[str, bytes], tmp_path: Path
) -> None:
    kills: list[str] = []
    with cluster_of(3) as cluster:

        def event(beat: str, done: int) -> None:
            if done == 1 and kill_one():
                kills.append(beat)
            if done == 3 and beat == "refine work":
                remove_one_at_work(cluster)
                kills.append("node")

        recipe.run(tmp_path, engine=Ray(cluster.address), reporter=Watching(event))
    assert tree(tmp_path) == truth
    assert "node" in kills and len(kills) > 3


@dataclass(frozen=True, kw_only=True)
class Slow(Stage):
    """Twelve shards. Each try leaves a file in `tried`; those from `gate` on wait until `tried` holds the file "go"; the worker
    of shard `poison` dies whenever it is tried."""

    verb: ClassVar[str] = "slow"
    libraries: ClassVar[tuple[str, ...]] = ()
    holds_model: ClassVar[bool] = False

    gate: int = 12
    poison: int = -1
    tried: str

    def identity(self, engine: Engine) -> dict[str, Any]:
        return {}

    def shards(self, given: Given) -> Sequence[int]:
        return range(12)

    def work(self, given: Given, task: int, decision: Mapping[str, Any], out: Path, scratch: Path) -> Report:
        Path(self.tried, f"{task}-{time.monotonic_ns()}").touch()
        while task >= self.gate and not Path(self.tried, "go").exists():
            time.sleep(0.02)
        if task == self.poison:
            kill_itself()
        write_json(out / f"slow-{task}.json", task)
        return Report({f"slow-{task}.json": 1}, Balance(1, 1))


class SlowModel(Slow):
    holds_model: ClassVar[bool] = True


def kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("kind", [Slow, SlowModel], ids=["tasks", "actors"])
def test_a_lost_node_and_a_lost_worker_cost_one_shard_each(tmp_path: Path, kind: type[Slow]) -> None:
    tried = tmp_path / "tried"
    tried.mkdir()
    stage = kind(gate=6, tried=str(tried))
    with cluster_of(3) as cluster:

        def event(beat: str, done: int) -> None:
            if done == 6:
                while sum(tries_of(tried).values()) < 9:  # until every worker stands at the gate
                    time.sleep(0.05)
                remove_one_at_work(cluster)
                assert kill_one()
                (tried / "go").touch()

        made = run_stage(stage, {}, tmp_path / "out", engine=Ray(cluster.address), reporter=Watching(event))
    assert made.manifest.balance == Balance(12, 12)
    assert sorted(tries_of(tried).values()) == [1] * 10 + [2] * 2
    run_stage(stage, {}, tmp_path / "here")
    assert tree(tmp_path / "out") == tree(tmp_path / "here")


def tries_of(tried: Path) -> Counter[str]:
    return Counter(path.name.split("-")[0] for path in tried.iterdir() if path.name != "go")


def test_a_shard_that_kills_its_workers_is_tried_three_times(tmp_path: Path) -> None:
    tried = tmp_path / "tried"
    tried.mkdir()
    with cluster_of(2) as cluster:
        engine = Ray(cluster.address)
        with pytest.raises(WorkerLost, match="run the same command again"):
            run_stage(Slow(poison=5, tried=str(tried)), {}, tmp_path / "out", engine=engine)
        assert tries_of(tried) == {str(task): 3 if task == 5 else 1 for task in range(12)}
        made = run_stage(Slow(tried=str(tried)), {}, tmp_path / "out", engine=engine)
    assert made.manifest.balance == Balance(12, 12)
    assert sum(1 for _ in tried.iterdir()) == 15, "the others were done already"


def who(n: int) -> tuple[int, str]:
    time.sleep(0.1)
    return os.getpid(), os.environ.get("CUDA_VISIBLE_DEVICES", "")


def test_workers_with_a_model_share_the_gpus_and_others_do_not_wait_for_one() -> None:
    with cluster_of(1, cores=4, gpus=1) as cluster:
        engine = Ray(cluster.address, gpus=0.5)
        assert engine.num_workers == 4
        found = list(engine.map(who, range(20), models=True))
        assert len({pid for pid, _ in found}) == 2 and {card for _, card in found} == {"0"}
        assert len({pid for pid, _ in engine.map(who, range(60))}) > 2


def large(n: int) -> bytes:
    return bytes(4_000_000)


@pytest.mark.parametrize("window, spills", [(WINDOW, False), (60, True)], ids=["as it is", "were it wide"])
def test_the_window_keeps_answers_in_the_memory_of_the_store(
    monkeypatch: pytest.MonkeyPatch, window: int, spills: bool
) -> None:
    monkeypatch.setattr(ray_answers, "WINDOW", window)
    with cluster_of(2) as cluster:
        from ray._private.internal_api import memory_summary

        answers = Ray(cluster.address).map(large, range(120))  # 480 MB in all, through two stores of 80 MB
        for _ in range(2):
            next(answers)
        time.sleep(5.0)  # a slow reader: answers wait for their turn
        assert sum(1 for _ in answers) == 118
        assert ("Spilled" in memory_summary(cluster.address, stats_only=True)) is spills


def test_ctrl_c_ends_everything_and_the_same_run_goes_on(tmp_path: Path) -> None:
    tried = tmp_path / "tried"
    tried.mkdir()
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tests.engine.test_ray_recipe import Slow\n"
        "from typecase.engine.ray import Ray\n"
        "from typecase.recipe.run import run_stage\n"
        "folder = Path(sys.argv[1])\n"
        "run_stage(Slow(gate=3, tried=str(folder / 'tried')), {}, folder / 'out', engine=Ray(workers=2))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    job = subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True)
    while sum(tries_of(tried).values()) < 5:  # three are done, two workers stand at the gate
        assert job.poll() is None
        time.sleep(0.1)
    family = psutil.Process(job.pid).children(recursive=True)
    os.killpg(job.pid, signal.SIGINT)
    _, errors = job.communicate(timeout=60)
    assert job.returncode and errors.strip().endswith("KeyboardInterrupt")
    _, alive = psutil.wait_procs(family, timeout=30)
    assert len(family) > 5 and not alive, "the cluster that the run started ends with it"
    (tried / "go").touch()
    made = run_stage(Slow(gate=3, tried=str(tried)), {}, tmp_path / "out")
    assert made.manifest.balance == Balance(12, 12)
    assert sum(tries_of(tried).values()) == 14, "what was done before Ctrl-C was not done again"
