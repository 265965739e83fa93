"""Repeated spans: the tokens that stand earlier in the set, in whatever documents, equal to a scan of every run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import make_docs_artifact, make_documents
from tests.recipe.test_build import tokenizer  # noqa: F401
from tests.store.naive_tokens import write_set
from typecase.core.document import Document
from typecase.errors import BadRecipe, NotFound
from typecase.recipe.build import Build
from typecase.recipe.dedup_spans import REASON, DedupSpans
from typecase.recipe.index import Index
from typecase.recipe.run import Artifact, run_stage
from typecase.store.documents import open_documents
from typecase.store.provenance import open_provenance
from typecase.store.shards import read_columns
from typecase.store.tokens.store import open_tokens


def indexed(folder: Path, documents: Sequence[Document], tokenizer: str, parts: int = 2) -> dict[str, Path]:  # noqa: F811
    docs = make_docs_artifact(folder / "docs", documents, parts)
    run_stage(Build(tokenizer=tokenizer, eod=7), {"docs": docs}, folder / "tokens")
    run_stage(Index(), {"tokens": folder / "tokens"}, folder / "index")
    return {"docs": docs, "index": folder / "index"}


def rows_of(made: Artifact, table: str) -> list[dict[str, object]]:
    return [row for part in open_documents(made.folder).side_parts(table) for row in read_columns(part).to_pylist()]


def naive_repeats(docs: Sequence[Sequence[int]], size: int, drop: float | None) -> tuple[list[set[int]], set[int]]:
    """Repeated tokens of every document, and the documents dropped: every run looked up in a set of those before."""
    seen: set[tuple[int, ...]] = set()
    repeated, gone = [], set()
    for number, doc in enumerate(docs):
        mine: set[tuple[int, ...]] = set()
        covered: set[int] = set()
        for at in range(len(doc) - size + 1):
            run = tuple(doc[at : at + size])
            if run in seen or run in mine:
                covered |= set(range(at, at + size))
            mine.add(run)
        repeated.append(covered)
        if drop is not None and len(covered) >= drop * len(doc) and covered:
            gone.add(number)
        else:
            seen |= mine
    return repeated, gone


def made_up(seed: int) -> list[Document]:
    """Texts of few words, so that runs repeat inside documents and between them, with letters of several bytes."""
    rng = np.random.default_rng(seed)
    phrases = ["the quick brown fox ", "jumps over it all ", "汉字 and more ", "naïve café talk ", "0123456789 "]
    return make_documents(["".join(phrases[k] for k in rng.integers(0, 5, rng.integers(1, 12))) for _ in range(25)])


@pytest.mark.parametrize("drop", [None, 0.5, 1.0])
@pytest.mark.parametrize("size", [2, 9])
def test_equals_a_scan_of_every_run(tmp_path: Path, tokenizer: str, size: int, drop: float | None) -> None:  # noqa: F811
    documents = made_up(size)
    given = indexed(tmp_path, documents, tokenizer)
    with open_tokens(tmp_path / "tokens") as store:
        tokens = [store.read(n).tolist() for n in range(store.num_documents)]
    provenance = open_provenance(tmp_path / "tokens")
    assert provenance is not None
    ids = provenance.rows(np.arange(len(tokens))).column("doc_id").to_pylist()
    made = run_stage(DedupSpans(min_tokens=size, drop=drop), given, tmp_path / "out")
    repeated, gone = naive_repeats(tokens, size, drop)
    covered: dict[str, set[int]] = {}
    rows = rows_of(made, "repeats")
    for row in rows:
        covered.setdefault(str(row["doc_id"]), set()).update(range(row["start_token"], row["stop_token"]))  # type: ignore[call-overload]
    assert covered == {ids[n]: tokens_of for n, tokens_of in enumerate(repeated) if tokens_of}
    assert {row["doc_id"] for row in rows_of(made, "removed")} == {ids[n] for n in gone}
    assert made.manifest.decision["repeated_tokens"] == sum(map(len, repeated))
    assert made.manifest.balance is not None and made.manifest.balance.removed == ({REASON: len(gone)} if gone else {})
    for row in rows:
        here, there = ids.index(row["doc_id"]), ids.index(row["first_doc_id"])
        at, first = int(str(row["start_token"])), int(str(row["first_token"]))
        assert tokens[here][at : at + size] == tokens[there][first : first + size]
        assert (there not in gone and (there, first) < (here, at)) or there == here


def test_characters_are_those_of_the_tokens(tmp_path: Path, tokenizer: str) -> None:  # noqa: F811
    passage = "wörtlich übernommene Stelle, 汉字 und alles, zweimal gleich"
    documents = make_documents([f"Ein Anfang. {passage}", f"汉字汉字 something else: {passage}!"])
    given = indexed(tmp_path, documents, tokenizer)
    made = run_stage(DedupSpans(min_tokens=8), given, tmp_path / "out")
    (row,) = rows_of(made, "repeats")
    text = next(d.text for d in documents if d.id == row["doc_id"])
    found = text[row["start"] : row["stop"]]  # type: ignore[misc]
    assert found.strip() in passage and len(found) >= len(passage) - 3
    assert len(open_documents(made.folder)) == 2


def test_with_a_dropped_document_the_next_one_is_first(tmp_path: Path, tokenizer: str) -> None:  # noqa: F811
    """The second is all from the first and goes; what it alone shares with the third is no repeat of the third."""
    rng = np.random.default_rng(3)
    a, b, c = ("".join(chr(97 + n) for n in rng.integers(0, 26, 60)) for _ in range(3))
    documents = make_documents([f"{a} {b}", f"{a} {b} xyz", f"xyz {c}"])
    made = run_stage(DedupSpans(min_tokens=10, drop=0.5), indexed(tmp_path, documents, tokenizer), tmp_path / "out")
    kept = {d.id for d in open_documents(made.folder)}
    assert documents[2].id in kept and len(kept) == 2


def test_what_cannot_work_is_refused(tmp_path: Path, tokenizer: str) -> None:  # noqa: F811
    given = indexed(tmp_path, make_documents(["a b c d"]), tokenizer)
    with pytest.raises(BadRecipe, match="2 tokens or more"):
        run_stage(DedupSpans(min_tokens=1), given, tmp_path / "out")
    with pytest.raises(BadRecipe, match="share above 0"):
        run_stage(DedupSpans(drop=0.0), given, tmp_path / "out")
    foreign = write_set(tmp_path / "foreign" / "x_document", [[[1, 2, 3]]], "int32")
    run_stage(Index(), {"tokens": foreign}, tmp_path / "foreign-index")
    with pytest.raises(NotFound, match="has no provenance"):
        run_stage(DedupSpans(), {"docs": given["docs"], "index": tmp_path / "foreign-index"}, tmp_path / "out")
