"""Two real processes, started by torchrun, learn what one does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.store.timeline.runs import settings_of, write_run
from tests.train.small_runs import make_words, small_plan, small_shape

torch: Any = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from tests.lm.tiny import one_thread  # noqa: E402
from typecase.errors import BadQuery  # noqa: E402
from typecase.train.checkpoint import latest, load_model, read_card  # noqa: E402
from typecase.train.distributed import join  # noqa: E402
from typecase.train.loop import train  # noqa: E402
from typecase.train.record import DOCUMENTS, SEEN, STEPS  # noqa: E402

assert one_thread

CODE = """
import sys
from tests.train.small_runs import small_plan, small_shape
from typecase.train.loop import train
run, valid, one, two = sys.argv[1:]
train(run, one, small_shape(), small_plan(5, batch=8, micro_batch=2), validation=valid, device="cpu")
train(run, two, small_shape(), small_plan(5, batch=8, micro_batch=3), device="cpu", resume=True)
"""


def run_two(folder: Path, *arguments: str) -> None:
    script = folder / "two.py"
    script.write_text(CODE)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path.cwd()), "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.slow
def test_two_processes_learn_what_one_does(tmp_path: Path) -> None:
    """Padded samples, unlike numbers of micro-batches, a step that is skipped, and a validation set."""
    words = make_words(tmp_path / "words")
    changes = {"train_iters": 5, "iterations_to_skip": [3], "eod_mask_loss": True}
    run = write_run(tmp_path / "run.json", settings_of("megatron-core", str(words), **changes))
    run_two(tmp_path, str(run), str(words), str(tmp_path / "two"), str(tmp_path / "uneven"))
    plan = small_plan(5, batch=8)
    one = train(run, tmp_path / "one", small_shape(), plan, validation=words, device="cpu")
    for name in ("two", "uneven"):
        other = tmp_path / name
        card = read_card(latest(other) or Path())
        assert card.world == 2 and card.tokens == one.tokens and card.updates == 4
        told = pq.read_table(other / STEPS)
        losses = told["loss"].to_pylist()
        assert losses[2] is one.losses[2] is None
        assert losses[:2] + losses[3:] == pytest.approx([loss for loss in one.losses if loss is not None], rel=1e-5)
        assert told["tokens"].to_pylist() == pq.read_table(one.path / STEPS)["tokens"].to_pylist()
        ours, theirs = load_model(other).state_dict(), load_model(one.path).state_dict()
        for key in theirs:
            torch.testing.assert_close(ours[key], theirs[key], rtol=1e-3, atol=1e-4)
        for table in (SEEN, DOCUMENTS):
            mine, wanted = pq.read_table(other / table), pq.read_table(one.path / table)
            assert mine.drop_columns(["loss_sum"]).equals(wanted.drop_columns(["loss_sum"]))
            assert mine["loss_sum"].to_pylist() == pytest.approx(wanted["loss_sum"].to_pylist(), rel=1e-4)
    looked = pq.read_table(tmp_path / "two" / STEPS)["validation"].to_pylist()[-1]
    assert looked == pytest.approx(one.validation, rel=1e-5)


def test_one_process_is_a_world(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    world = join("cpu")
    assert world.leads and world.size == 1
    assert world.total(1.5, 2) == [1.5, 2] and world.gathered("a") == ["a"] and world.any(True) and not world.any(False)
    with pytest.raises(BadQuery, match="device"):
        join("abacus")
