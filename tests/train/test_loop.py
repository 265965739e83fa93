"""The loop: the same step however it is divided, the same bytes however often it was stopped, and nothing of another run."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.store.timeline.runs import settings_of, write_run
from tests.train.small_runs import make_words, small_plan, small_shape
from typecase.core.edit.edit import Replacement
from typecase.errors import AlreadyExists, BadQuery, BadRecipe, FingerprintMismatch
from typecase.store.atomic import content_hash
from typecase.store.journal.opening import open_journal
from typecase.store.manifest import first_damage, read_manifest
from typecase.store.timeline.timeline import open_timeline

torch: Any = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from tests.lm.tiny import one_thread  # noqa: E402
from typecase.train.batches import open_course  # noqa: E402
from typecase.train.checkpoint import MODEL, OPTIMISER, latest, load_model, read_card, steps  # noqa: E402
from typecase.train.loop import TrainedRun, train  # noqa: E402
from typecase.train.model import GPT, token_losses  # noqa: E402
from typecase.train.record import DOCUMENTS, SEEN, STEPS, StepRow  # noqa: E402
from typecase.train.stopping import Stopped  # noqa: E402

assert one_thread

SHAPE = small_shape()


class Killed(Exception):
    """The power went."""


def killing(after: int) -> Callable[[StepRow], None]:
    def told(row: StepRow) -> None:
        if row.step + 1 == after:
            raise Killed

    return told


def bytes_of(run: Path) -> dict[str, str]:
    """Every file of a run by its bytes."""
    return {str(path.relative_to(run)): content_hash(path) for path in sorted(run.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_words(tmp_path_factory.mktemp("words"))


@pytest.fixture(scope="module")
def whole(words: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainedRun:
    return train(words, tmp_path_factory.mktemp("runs") / "whole", SHAPE, small_plan(), device="cpu")


def test_a_run_learns(words: Path, tmp_path: Path) -> None:
    """The tokens count upwards: a model that has learnt so much is far below the chance of 1 in 61."""
    plan = small_plan(60, learning_rate=1e-2, save_every=100, eval_samples=8)
    done = train(words, tmp_path / "run", SHAPE, plan, validation=words, device="cpu")
    first, last = done.losses[0], done.losses[-1]
    assert first is not None and last is not None and done.validation is not None
    assert abs(first - np.log(61)) < 0.3 and last < 1.5 and done.validation < 1.5
    assert done.tokens == 60 * 6 * 16 and done.flops == SHAPE.flops_per_token * done.tokens and done.steps == 60


@pytest.mark.parametrize("micro", [1, 2, 4])
def test_micro_batches_are_the_same_step(words: Path, whole: TrainedRun, tmp_path: Path, micro: int) -> None:
    done = train(words, tmp_path / "run", SHAPE, small_plan(micro_batch=micro), device="cpu")
    assert done.losses == pytest.approx(whole.losses, rel=1e-5)
    ours, theirs = load_model(done.path).state_dict(), load_model(whole.path).state_dict()
    for name in theirs:
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-3, atol=1e-4)


def test_padded_samples_weigh_by_their_tokens(words: Path, tmp_path: Path) -> None:
    """Micro-batches of other numbers of tokens: their means must not be averaged."""
    settings = settings_of("gpt-neox", str(words), pack_impl="pack_until_overflow", train_iters=4)
    run = write_run(tmp_path / "run.json", settings)
    plan = small_plan(4, batch=8)
    one = train(run, tmp_path / "one", SHAPE, plan, device="cpu")
    many = train(run, tmp_path / "many", SHAPE, replace(plan, micro_batch=1), device="cpu")
    assert 0 < one.tokens < 4 * 8 * 16
    assert many.losses == pytest.approx(one.losses, rel=1e-5)


def test_a_step_is_adamw_written_out(words: Path, tmp_path: Path) -> None:
    """Loshchilov & Hutter 2019, algorithm 2, on the gradients of plain cross-entropy, clipped."""
    plan = small_plan(2, warmup=0, clip=0.5, weight_decay=0.2, min_learning_rate=1e-3)
    done = train(words, tmp_path / "run", SHAPE, plan, device="cpu")
    model = GPT(SHAPE, seed=plan.seed)
    weights = dict(model.named_parameters())
    mean = {name: torch.zeros_like(w) for name, w in weights.items()}
    square = {name: torch.zeros_like(w) for name, w in weights.items()}
    rates = pq.read_table(done.path / STEPS)["learning_rate"].to_pylist()
    with open_course(words, SHAPE, plan) as course:
        for step in range(2):
            batch = course.at(step)
            losses = token_losses(model, torch.from_numpy(batch.ids.copy()), torch.from_numpy(batch.targets.copy()))
            model.zero_grad()
            losses.mean().backward()
            assert done.losses[step] == pytest.approx(float(losses.mean().detach()), rel=1e-5)
            length = torch.sqrt(sum(w.grad.square().sum() for w in weights.values()))
            with torch.no_grad():
                for name, w in weights.items():
                    gradient = w.grad * min(1.0, 0.5 / (length + 1e-6))
                    mean[name] = 0.9 * mean[name] + 0.1 * gradient
                    square[name] = 0.95 * square[name] + 0.05 * gradient.square()
                    first, second = mean[name] / (1 - 0.9 ** (step + 1)), square[name] / (1 - 0.95 ** (step + 1))
                    decay = 0.2 if w.dim() > 1 else 0.0
                    w.sub_(rates[step] * (first / (second.sqrt() + 1e-8) + decay * w))
    for name, weight in load_model(done.path).named_parameters():
        torch.testing.assert_close(weight, weights[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("after", [1, 3, 5, 7])
def test_a_run_that_was_killed_ends_with_the_same_bytes(words: Path, whole: TrainedRun, tmp_path: Path, after: int) -> None:
    out = tmp_path / "run"
    with pytest.raises(Killed):
        train(words, out, SHAPE, small_plan(), progress=killing(after), device="cpu")
    assert not (out / "manifest.json").exists() and steps(out) == [step for step in (3, 6) if step <= after]
    done = train(words, out, SHAPE, small_plan(), resume=True, device="cpu")
    assert done.resumed_at == max([0, *(step for step in (3, 6) if step <= after)])
    assert done.losses == whole.losses
    # Only what says where the tokens lie, from here, may differ.
    ours, theirs = bytes_of(out), bytes_of(whole.path)
    assert set(ours) == set(theirs)
    assert [name for name in ours if ours[name] != theirs[name] and name not in ("run.json", "manifest.json")] == []


def test_where_checkpoints_fall_does_not_show(words: Path, whole: TrainedRun, tmp_path: Path) -> None:
    done = train(words, tmp_path / "run", SHAPE, small_plan(save_every=1, keep=0), device="cpu")
    assert steps(done.path) == list(range(1, 9))
    ours, theirs = bytes_of(done.path), bytes_of(whole.path)
    for name in (STEPS, SEEN, DOCUMENTS, f"checkpoints/step-0000008/{MODEL}", f"checkpoints/step-0000008/{OPTIMISER}"):
        assert ours[name] == theirs[name], name


def test_a_signal_saves_and_says_how_to_go_on(words: Path, whole: TrainedRun, tmp_path: Path) -> None:
    def told(row: StepRow) -> None:
        if row.step == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Stopped, match="--resume") as stopped:
        train(words, tmp_path / "run", SHAPE, small_plan(), progress=told, device="cpu")
    assert steps(tmp_path / "run")[-1] == stopped.value.step == 5  # it is heard behind the next step
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    done = train(words, tmp_path / "run", SHAPE, small_plan(), resume=True, device="cpu")
    assert done.losses == whole.losses and bytes_of(done.path)[SEEN] == bytes_of(whole.path)[SEEN]


def test_a_killed_process_is_taken_up(words: Path, whole: TrainedRun, tmp_path: Path) -> None:
    """A real process, killed without a word while it trains."""
    out = tmp_path / "run"
    code = (
        "import os, signal, sys\nfrom tests.train.small_runs import *\nfrom typecase.train.loop import train\n"
        "def told(row):\n    if row.step == 6: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"train({str(words)!r}, {str(out)!r}, small_shape(), small_plan(), progress=told, device='cpu')"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, cwd=Path.cwd(), check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    again = train(words, out, SHAPE, small_plan(), resume=True, device="cpu")
    assert again.resumed_at == 6 and again.losses == whole.losses
    assert bytes_of(out)[f"checkpoints/step-0000008/{MODEL}"] == bytes_of(whole.path)[f"checkpoints/step-0000008/{MODEL}"]


def test_a_finished_run_is_given_as_it_is(words: Path, whole: TrainedRun) -> None:
    before = bytes_of(whole.path)
    again = train(words, whole.path, SHAPE, small_plan(save_every=2), resume=True, device="cpu")
    assert again.losses == whole.losses and again.resumed_at == 8 and bytes_of(whole.path) == before
    with pytest.raises(AlreadyExists, match="--resume"):
        train(words, whole.path, SHAPE, small_plan(), device="cpu")


def test_another_run_is_refused_by_what_differs(words: Path, whole: TrainedRun, tmp_path: Path) -> None:
    def refused(message: str, tokens: Path | str = words, shape: Any = SHAPE, **plan: Any) -> None:
        with pytest.raises(FingerprintMismatch, match=message):
            train(tokens, whole.path, shape, small_plan(**plan), resume=True, device="cpu")

    refused("learning_rate 0.003, not 0.5", learning_rate=0.5)
    refused("width 32, not 64", shape=small_shape(width=64))
    refused("another order", seed=9)
    refused("other tokens", make_words(tmp_path / "other", seed=2))
    copy = make_words(tmp_path / "copy")
    with open_journal(copy, write=True) as journal:
        old = journal.view().read(0)[:1].astype(np.int64)
        journal.record([Replacement(0, 0, old, (old + 1) % 61)])
    refused("edited since", f"{copy}@")
    again = train(copy, whole.path, SHAPE, small_plan(), resume=True, device="cpu")  # the same bytes elsewhere
    assert again.losses == whole.losses
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thing").touch()
    with pytest.raises(AlreadyExists, match="no training run"):
        train(words, tmp_path / "full", SHAPE, small_plan(), device="cpu")


def test_the_tables_add_up_and_join_on_doc_id(words: Path, whole: TrainedRun) -> None:
    told, seen, documents = (pq.read_table(whole.path / name) for name in (STEPS, SEEN, DOCUMENTS))
    assert told["step"].to_pylist() == list(range(8)) and sum(told["tokens"].to_pylist()) == whole.tokens == 8 * 6 * 16
    for table in (seen, documents):
        assert sum(table["tokens"].to_pylist()) == whole.tokens
        wanted = sum(loss * tokens for loss, tokens in zip(told["loss"].to_pylist(), told["tokens"].to_pylist(), strict=True))
        assert sum(table["loss_sum"].to_pylist()) == pytest.approx(wanted, rel=1e-6)
    assert documents["doc_id"].to_pylist() == [f"id-{doc:04d}" for doc in documents["doc"].to_pylist()]
    assert sum(documents["steps"].to_pylist()) == seen.num_rows
    step = whole.losses.index(max(loss for loss in whole.losses if loss is not None))
    named = {"framework": "typecase", "seq_length": 16, "seed": 1234, "train_iters": 8, "global_batch_size": 6}
    with open_timeline(words, changes=named) as timeline:
        shown = {piece.document.doc for sample in timeline.at(step) for piece in sample.pieces}
    found = {row["doc"] for row in seen.to_pylist() if row["step"] == step}
    assert found <= shown and len(shown - found) <= 6  # a document of which only the first token of a sample is seen


def test_a_set_of_another_maker_has_no_doc_ids(tmp_path: Path) -> None:
    words = make_words(tmp_path / "bare", provenance=False)
    done = train(words, tmp_path / "run", SHAPE, small_plan(2), device="cpu")
    table = pq.read_table(done.path / DOCUMENTS)
    assert table.num_rows and table["doc_id"].null_count == table.num_rows


def test_skipped_steps_consume_and_do_not_learn(words: Path, tmp_path: Path) -> None:
    settings = settings_of("megatron-core", str(words), train_iters=6, iterations_to_skip=[2, 3])
    run = write_run(tmp_path / "run.json", settings)
    done = train(run, tmp_path / "run", SHAPE, small_plan(6, batch=8), device="cpu")
    assert [loss is None for loss in done.losses] == [False, True, True, False, False, False]
    card = read_card(latest(done.path) or Path())
    assert (card.step, card.updates, card.tokens) == (6, 4, 4 * 8 * 16)
    assert not {1, 2} & set(pq.read_table(done.path / SEEN)["step"].to_pylist())


def test_a_split_of_the_order_is_looked_at(words: Path, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run.json", settings_of("megatron-core", str(words), split="50,40,10", train_iters=4))
    plan = small_plan(4, batch=8, eval_every=2)
    done = train(run, tmp_path / "run", SHAPE, plan, validation="valid", device="cpu")
    looked = pq.read_table(done.path / STEPS)["validation"].to_pylist()
    assert [value is None for value in looked] == [True, False, True, False]
    model, count, total = load_model(done.path), 0, 0.0
    with open_timeline(run, split="valid") as timeline:
        most = min(plan.eval_samples, timeline.num_samples, timeline.stores[0].num_tokens // 16)
        for k in range(most):
            ids = torch.from_numpy(timeline.samples([k]).padded())
            with torch.no_grad():
                total += float(token_losses(model, ids[:, :-1], ids[:, 1:]).sum())
            count += 16
    assert done.validation == pytest.approx(total / count, rel=1e-5)


def test_a_run_goes_on_from_another(words: Path, whole: TrainedRun, tmp_path: Path) -> None:
    on = train(words, tmp_path / "on", SHAPE, small_plan(learning_rate=1e-9, min_learning_rate=0.0), start=whole.path)
    first, last = on.losses[0], whole.losses[-1]
    assert first is not None and last is not None and abs(first - last) < 0.3 < abs(first - np.log(61))
    with pytest.raises(BadQuery, match="begins with"):
        train(words, tmp_path / "wide", small_shape(width=64), small_plan(), start=whole.path)
    with pytest.raises(FingerprintMismatch, match="other first weights"):
        train(words, on.path, SHAPE, small_plan(learning_rate=1e-9, min_learning_rate=0.0), resume=True)


def test_a_loss_that_is_no_number_ends_the_run(words: Path, tmp_path: Path) -> None:
    start = GPT(SHAPE)
    with torch.no_grad():
        start.embedding.weight[5] = float("nan")
    with pytest.raises(BadRecipe, match="no number"):
        train(words, tmp_path / "run", SHAPE, small_plan(), start=start, device="cpu")


def test_the_manifest_holds(words: Path, whole: TrainedRun) -> None:
    manifest = read_manifest(whole.path)
    assert manifest.kind == "model" and first_damage(whole.path, manifest) is None
    assert manifest.params["fingerprints"] == whole.fingerprints
    assert manifest.parents[0].role == "tokens"


@pytest.mark.parametrize("dtype", ["bfloat16"])
def test_bfloat16_learns_as_float32_does(words: Path, whole: TrainedRun, tmp_path: Path, dtype: Any) -> None:
    done = train(words, tmp_path / "run", SHAPE, small_plan(dtype=dtype), device="cpu")
    assert done.losses == pytest.approx(whole.losses, rel=0.02) and done.losses != whole.losses
    assert load_model(done.path).embedding.weight.dtype == torch.float32


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None and shutil.which("clang++") is None, reason="torch.compile needs a compiler")
def test_compiled_kernels_learn_the_same(words: Path, whole: TrainedRun, tmp_path: Path) -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    done = train(words, tmp_path / "run", SHAPE, small_plan(compile=True), validation=words, device="cpu")
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] >= 1
    assert done.losses == pytest.approx(whole.losses, rel=1e-5)


def test_a_validation_set_that_is_shorter_than_the_warm_up_is_looked_at(words: Path, tmp_path: Path) -> None:
    done = train(words, tmp_path / "run", SHAPE, small_plan(8, warmup=6, eval_samples=4), validation=words, device="cpu")
    assert done.validation is not None
