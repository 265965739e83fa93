"""The dedup stage: one of each content, whichever part its copies lie in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import make_docs_artifact, make_documents
from tests.recipe.rated import write_ratings
from typecase.core.document import Document
from typecase.engine.local import Local
from typecase.errors import BadRecipe, FingerprintMismatch, FixInput
from typecase.recipe import dedup
from typecase.recipe.dedup import Dedup
from typecase.recipe.run import Artifact, run_stage
from typecase.store.documents import open_documents
from typecase.store.shards import read_columns


def removed_of(made: Artifact) -> dict[str, str]:
    """doc_id -> survivor."""
    rows = [row for part in open_documents(made.folder).side_parts("removed") for row in read_columns(part).to_pylist()]
    assert all(row["reason"] == "exact duplicate" for row in rows)
    return {row["doc_id"]: row["detail"] for row in rows}


def naive_dedup(documents: Sequence[Document]) -> dict[str, str]:
    """doc_id -> survivor, by a dictionary of texts."""
    groups: dict[str, list[str]] = defaultdict(list)
    for document in documents:
        groups[document.text].append(document.id)
    return {doc_id: min(ids) for ids in groups.values() for doc_id in ids if doc_id != min(ids)}


TEXTS = ["", "a", "b", "aa", "A", " a", "汉字", "汉字 ", "x" * 2000]


@settings(max_examples=15, deadline=None)
@given(texts=st.lists(st.sampled_from(TEXTS), max_size=25), num_parts=st.integers(1, 5), rows=st.sampled_from([1, 3, 100]))
def test_fast_equals_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], num_parts: int, rows: int
) -> None:
    folder = tmp_path_factory.mktemp("dedup")
    documents = make_documents(texts)
    docs = make_docs_artifact(folder / "docs", documents, num_parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dedup, "_RANGE_ROWS", rows)
        made = run_stage(Dedup(), {"docs": docs}, folder / "out")
    gone = naive_dedup(documents)
    assert removed_of(made) == gone
    assert list(open_documents(made.folder)) == [d for d in open_documents(docs) if d.id not in gone]
    assert made.manifest.decision["duplicates"] == len(gone)
    assert made.manifest.decision["kept"] == len(set(texts)) == made.manifest.counts["documents"]


def planted(num: int = 200, copies: int = 20) -> list[Document]:
    """`num` documents, of which `copies` repeat the text of another; copies are of source "mirror"."""
    documents = make_documents([f"text {i % (num - copies)} 🎈" for i in range(num)], source="web")
    return [replace(d, source="mirror") if i >= num - copies else d for i, d in enumerate(documents)]


def test_planted_copies_are_found_in_any_number_of_parts(tmp_path: Path) -> None:
    documents = planted()
    seen = []
    for num_parts in (1, 3, 8):
        docs = make_docs_artifact(tmp_path / f"docs-{num_parts}", documents, num_parts)
        made = run_stage(Dedup(), {"docs": docs}, tmp_path / f"out-{num_parts}")
        seen.append((removed_of(made), made.manifest.decision, [d.id for d in open_documents(made.folder)]))
    assert seen[0] == seen[1] == seen[2]
    gone, decision, _ = seen[0]
    assert len(gone) == 20 and gone == naive_dedup(documents)
    of_mirror = sum(d.id in gone for d in documents if d.source == "mirror")
    assert decision["by_source"] == {
        "mirror": {"documents": 20, "duplicates": of_mirror, "share": of_mirror / 20},
        "web": {"documents": 180, "duplicates": 20 - of_mirror, "share": round((20 - of_mirror) / 180, 6)},
    }


@pytest.mark.slow
def test_workers_do_not_matter(tmp_path: Path) -> None:
    docs = make_docs_artifact(tmp_path / "docs", planted(), 8)
    contents = {
        run_stage(Dedup(), {"docs": docs}, tmp_path / f"out-{n}", engine=Local(n)).manifest.content for n in (0, 1, 2, 4, 8)
    }
    assert len(contents) == 1


def test_two_spawned_workers_make_the_same_bytes(tmp_path: Path) -> None:
    docs = make_docs_artifact(tmp_path / "docs", planted(60), 2)
    alone = run_stage(Dedup(), {"docs": docs}, tmp_path / "alone").manifest
    spawned = run_stage(Dedup(), {"docs": docs}, tmp_path / "spawned", engine=Local(2)).manifest
    assert spawned.as_dict() == alone.as_dict()


def test_the_largest_clusters_are_named(tmp_path: Path) -> None:
    documents = make_documents([""] * 7 + ["a"] * 3 + ["b"] * 3 + ["c"])
    docs = make_docs_artifact(tmp_path / "docs", documents, 4)
    decision = run_stage(Dedup(), {"docs": docs}, tmp_path / "out").manifest.decision
    first = {t: min(d.id for d in documents if d.text == t) for t in ("", "a", "b")}
    assert decision["largest"][0] == {"doc_id": first[""], "copies": 7}
    assert decision["largest"][1:] == [{"doc_id": i, "copies": 3} for i in sorted([first["a"], first["b"]])]
    assert not any(key.startswith("_") for key in decision)


def test_normalized_texts_are_equal_up_to_blanks_and_case(tmp_path: Path) -> None:
    documents = make_documents(["One  two", "one two", " ONE\n\ttwo ", "onetwo", "Straße", "STRASSE"])
    docs = make_docs_artifact(tmp_path / "docs", documents, 2)
    made = run_stage(Dedup(normalize=True), {"docs": docs}, tmp_path / "out")
    assert len(removed_of(made)) == 3
    survivor = min(d.id for d in documents[:3])
    kept = {d.id: d for d in open_documents(made.folder)}
    assert kept[survivor].text == next(d.text for d in documents if d.id == survivor), "the survivor is untouched"
    assert run_stage(Dedup(), {"docs": docs}, tmp_path / "exact").manifest.decision["duplicates"] == 0


def test_the_best_rated_copy_survives(tmp_path: Path) -> None:
    documents = make_documents(["same"] * 6 + ["other"] * 2)
    ids = [d.id for d in documents]
    rows = {ids[0]: 2.0, ids[1]: 4.0, ids[2]: 5.0, ids[3]: 5.0, ids[4]: None, ids[6]: 1.0}
    for num_parts in (1, 3, 8):
        docs = make_docs_artifact(tmp_path / f"docs-{num_parts}", documents, num_parts)
        table = {i: {"overall_score": s} for i, s in rows.items()}
        ratings = write_ratings(tmp_path / f"ratings-{num_parts}", docs, table)
        given = {"docs": docs, "ratings": ratings}
        made = run_stage(Dedup(keep="overall_score"), given, tmp_path / f"out-{num_parts}")
        assert {d.id for d in open_documents(made.folder)} == {min(ids[2], ids[3]), ids[6]}
        assert set(removed_of(made).values()) == {min(ids[2], ids[3]), ids[6]}


def test_what_cannot_work_is_refused(tmp_path: Path) -> None:
    docs = make_docs_artifact(tmp_path / "docs", make_documents(["a"]))
    other = make_docs_artifact(tmp_path / "other", make_documents(["b"]))
    ratings = write_ratings(tmp_path / "ratings", other, {make_documents(["b"])[0].id: {"overall_score": 1.0}})
    with pytest.raises(BadRecipe, match=r"there are no ratings.*keep='first'"):
        run_stage(Dedup(keep="overall_score"), {"docs": docs}, tmp_path / "out")
    with pytest.raises(FingerprintMismatch, match="made for other documents"):
        run_stage(Dedup(keep="overall_score"), {"docs": docs, "ratings": ratings}, tmp_path / "out")
    with pytest.raises(FixInput, match="no score column 'best'"):
        run_stage(Dedup(keep="best"), {"docs": other, "ratings": ratings}, tmp_path / "out")


def test_nothing_in_nothing_out(tmp_path: Path) -> None:
    docs = make_docs_artifact(tmp_path / "docs", [], 2)
    made = run_stage(Dedup(), {"docs": docs}, tmp_path / "out")
    assert len(open_documents(made.folder)) == 0 and made.manifest.decision["documents"] == 0


def test_equal_hashes_of_other_lengths_are_other_contents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hash that always collides removes nothing but what has the same length."""
    monkeypatch.setattr(dedup.xxhash, "xxh3_128_digest", lambda data: bytes(16))
    docs = make_docs_artifact(tmp_path / "docs", make_documents(["a", "bb", "ccc"]), 2)
    assert run_stage(Dedup(), {"docs": docs}, tmp_path / "out").manifest.decision["duplicates"] == 0
    assert np.array_equal(dedup._hashes(open_documents(docs).parts[0], False)[0], [0])
