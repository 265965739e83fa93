"""count: naive counts, from any set; the same bytes for any workers, threads and shards; and what the audit makes of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import make_docs_artifact, make_documents
from tests.recipe.test_build import tokenizer  # noqa: F401
from tests.recipe.test_run import tree
from tests.store.naive_tokens import write_set
from typecase.core.census import NONE
from typecase.engine.local import Local
from typecase.errors import FixInput, NotFound
from typecase.recipe.build import Build
from typecase.recipe.count import Count, cut_documents
from typecase.recipe.run import run_stage
from typecase.store.audit.census import NAME, merged, read_census
from typecase.store.provenance import open_provenance
from typecase.store.tokens.store import open_tokens

RNG = np.random.default_rng(1)
DOCS = [[RNG.integers(0, 40, n).tolist() for n in sizes] for sizes in ((40,), (3, 5), (), (300,), (0,), (25,), (90, 1), (2,))]


@pytest.fixture(params=["uint16", "int32"])
def foreign(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write_set(tmp_path / "foreign" / "corpus_document", DOCS, request.param)


def test_a_foreign_set_is_counted(foreign: Path, tmp_path: Path) -> None:
    made = run_stage(Count(num_ids=39, shard_tokens=70), {"tokens": foreign}, tmp_path / "census")
    kept = read_census(made.folder)
    flat = [[t for sequence in doc for t in sequence] for doc in DOCS]
    counts = Counter(t for doc in flat for t in doc)
    assert kept.census.total.tolist() == [counts[t] for t in range(39)]
    assert kept.census.in_documents.tolist() == [sum(t in doc for doc in flat) for t in range(39)]
    for token in range(39):
        holders = [d for d, doc in enumerate(flat) if token in doc]
        assert kept.census.examples[token].tolist() == (holders + [NONE] * 3)[:3]
    assert kept.census.outside == counts[39] and kept.sources == ("(unknown)",) and kept.tokenizer is None
    assert made.manifest.counts == {"documents": 8, "outside": counts[39], "tokens": sum(map(len, flat))}
    assert made.manifest.kind == "census" and made.manifest.balance is not None and made.manifest.balance.kept == 8


def test_any_cut_gives_the_same_census(foreign: Path, tmp_path: Path) -> None:
    first = run_stage(Count(num_ids=40, threads=1), {"tokens": foreign}, tmp_path / "a")
    second = run_stage(Count(num_ids=40, shard_tokens=1, threads=3), {"tokens": foreign}, tmp_path / "b", engine=Local(2))
    assert tree(first.folder) == tree(second.folder)
    assert run_stage(Count(num_ids=40, threads=2), {"tokens": foreign}, tmp_path / "b").reused


def test_sets_that_do_not_lie_end_to_end(tmp_path: Path) -> None:
    prefix = write_set(tmp_path / "s" / "gaps", DOCS)
    flat = run_stage(Count(num_ids=40), {"tokens": prefix}, tmp_path / "a")
    idx = prefix.with_name("gaps.idx")
    lengths = [len(s) for doc in DOCS for s in doc]
    raw = prefix.with_name("gaps.bin").read_bytes()
    # Every sequence moved by four bytes: the pointers say so, and what stands between is in no sequence.
    moved, pointers, place, at = b"", [], 0, 0
    for n in lengths:
        pointers.append(at + 4)
        moved += b"\xff" * 4 + raw[place : place + 2 * n]
        place, at = place + 2 * n, at + 4 + 2 * n
    head = 34 + 4 * len(lengths)
    data = bytearray(idx.read_bytes())
    data[head : head + 8 * len(lengths)] = np.array(pointers, np.int64).tobytes()
    idx.write_bytes(data)
    prefix.with_name("gaps.bin").write_bytes(moved)
    with open_tokens(prefix) as store:
        assert not store.facts.contiguous
    gaps = run_stage(Count(num_ids=40), {"tokens": prefix}, tmp_path / "b")
    assert (gaps.folder / NAME).read_bytes() == (flat.folder / NAME).read_bytes()


def test_sources_of_a_built_set(tmp_path: Path, tokenizer: str) -> None:  # noqa: F811
    texts = [f"some text {k} of a document " + "word " * (k % 7) for k in range(60)]
    held = [replace(d, source=f"s{k % 20:02d}" if k > 30 else "most") for k, d in enumerate(make_documents(texts))]
    docs = make_docs_artifact(tmp_path / "docs", held)
    tokens = run_stage(Build(tokenizer=tokenizer, eod=False), {"docs": docs}, tmp_path / "tokens").folder
    kept = read_census(run_stage(Count(shard_tokens=200), {"tokens": tokens}, tmp_path / "census").folder)
    with open_tokens(tokens) as store:
        everything = [store.read(d) for d in range(store.num_documents)]
        provenance = open_provenance(store.pair.bin.parent)
        assert provenance is not None
        labels = provenance.rows(np.arange(store.num_documents)).column("source").to_pylist()
    assert (
        kept.tokenizer is not None and kept.sources[0] == "most" and kept.sources[-1] == "(other)" and len(kept.sources) == 16
    )
    for k, name in enumerate(kept.sources[:-1]):
        own = np.concatenate([tokens for tokens, label in zip(everything, labels) if label == name])
        assert np.array_equal(kept.census.counts[k], np.bincount(own, minlength=kept.census.num_ids))
    assert np.array_equal(kept.census.total, np.bincount(np.concatenate(everything), minlength=kept.census.num_ids))
    both = merged([kept, kept])
    assert np.array_equal(both.census.total, 2 * kept.census.total) and both.census.num_documents == 120


def test_what_cannot_be_counted_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FixInput, match="0 or more"):
        run_stage(Count(num_ids=-1), {"tokens": tmp_path}, tmp_path / "x")
    with pytest.raises(NotFound, match="audit corpus"):
        read_census(tmp_path)
    assert cut_documents(np.array([5, 50, 1, 1]), 10) == [(0, 1), (1, 2), (2, 4)]
    assert cut_documents(np.zeros(0, np.int64), 10) == []


def test_an_edited_view_is_counted_as_it_would_be_written(tmp_path: Path) -> None:
    from typecase.core.edit.edit import AppendDocument, DeleteDocument, Replacement
    from typecase.store.journal.materialise import materialise
    from typecase.store.journal.opening import open_journal

    prefix = tmp_path / "set" / "text_document"
    prefix.parent.mkdir()
    write_set(prefix, [[[1, 2, 3]], [[4, 5]], [[6, 6, 7, 8]], [[9]]])
    with open_journal(prefix, write=True) as journal:
        journal.record([Replacement(0, 1, [2], [5]), DeleteDocument(1), AppendDocument(([1, 1],))])
        materialise(journal, tmp_path / "written")
    made = [
        run_stage(Count(num_ids=16), {"tokens": tokens}, tmp_path / f"census-{k}")
        for k, tokens in enumerate((Path(f"{prefix}@"), tmp_path / "written"))
    ]
    view, written = (read_census(one.folder).census for one in made)
    assert view.total.tolist() == written.total.tolist() == [0, 3, 0, 1, 0, 1, 2, 1, 1, 1, 0, 0, 0, 0, 0, 0]
    assert view.in_documents.tolist() == written.in_documents.tolist()
