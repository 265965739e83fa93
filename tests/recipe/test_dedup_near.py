"""Near duplicates: joined by measure to one that stays, never through a third; boilerplate makes no two documents one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import make_docs_artifact, make_documents
from tests.recipe.rated import write_ratings
from typecase.core.document import Document
from typecase.core.minhash.keepers import jaccard
from typecase.core.minhash.sketch import MIN_SHINGLES, shingles_of
from typecase.engine.local import Local
from typecase.errors import BadRecipe, FixInput
from typecase.recipe.dedup import Dedup
from typecase.recipe.run import Artifact, run_stage
from typecase.recipe.why import fate
from typecase.store.documents import open_documents
from typecase.store.shards import read_columns


def words(rng: np.random.Generator, num: int) -> list[str]:
    return [f"w{n:x}" for n in rng.integers(0, 5000, num)]


def edited(rng: np.random.Generator, of: Sequence[str], edits: int) -> list[str]:
    """`of` with so many words replaced."""
    out = list(of)
    for at in rng.choice(len(out), edits, replace=False).tolist():
        out[at] = f"z{rng.integers(1 << 40):x}"
    return out


def removed_of(made: Artifact) -> dict[str, tuple[str, str]]:
    """doc_id -> (reason, detail)."""
    rows = [row for part in open_documents(made.folder).side_parts("removed") for row in read_columns(part).to_pylist()]
    return {row["doc_id"]: (row["reason"], row["detail"]) for row in rows}


def similarity(a: str, b: str) -> float:
    return jaccard(np.unique(shingles_of(a)), np.unique(shingles_of(b)))


def naive_keepers(documents: Sequence[Document], threshold: float) -> dict[str, str]:
    """doc_id -> the kept document it joins, every pair compared in order of ids; no crowds."""
    kept: list[Document] = []
    joined = {}
    for document in sorted(documents, key=lambda d: d.id):
        for other in kept:
            large = min(len(set(shingles_of(t.text).tolist())) for t in (document, other)) >= MIN_SHINGLES
            if document.text == other.text or (large and similarity(document.text, other.text) >= threshold):
                joined[document.id] = other.id
                break
        else:
            kept.append(document)
    return joined


def family(seed: int, num: int = 30) -> list[Document]:
    """Originals with versions of them edited more and more, exact copies, and short texts."""
    rng = np.random.default_rng(seed)
    texts = []
    for _ in range(num):
        original = words(rng, 200)
        texts += [" ".join(original), " ".join(edited(rng, original, 2)), " ".join(edited(rng, original, 30))]
    texts += texts[:10] + [f"short text number {k}" for k in range(10)]
    return make_documents(texts)


@pytest.mark.parametrize("seed", [1, 2])
def test_equals_the_comparison_of_all_pairs(tmp_path: Path, seed: int) -> None:
    documents = family(seed)
    expected = naive_keepers(documents, 0.8)
    assert 30 <= len(expected) <= 60
    docs = make_docs_artifact(tmp_path / "docs", documents, 3)
    made = run_stage(Dedup(near=0.8), {"docs": docs}, tmp_path / "out")
    assert {k: detail.split()[0] for k, (_, detail) in removed_of(made).items()} == expected
    decision = made.manifest.decision
    assert decision["duplicates"] == len(expected) and decision["kept"] == len(documents) - len(expected)
    assert made.manifest.balance is not None and made.manifest.balance.num_removed == len(expected)


def test_every_removed_document_names_one_that_stays_and_its_true_similarity(tmp_path: Path) -> None:
    documents = family(3)
    texts = {d.id: d.text for d in documents}
    docs = make_docs_artifact(tmp_path / "docs", documents, 2)
    made = run_stage(Dedup(near=0.7), {"docs": docs}, tmp_path / "out")
    kept = {d.id for d in open_documents(made.folder)}
    reasons = removed_of(made)
    assert kept | set(reasons) == set(texts) and not kept & set(reasons)
    for doc_id, (reason, detail) in reasons.items():
        whom, *share = detail.split()
        assert whom in kept
        if reason == "exact duplicate":
            assert not share and texts[doc_id] == texts[whom]
        else:
            assert reason == "near duplicate" and float(share[0]) >= 0.7
            assert float(share[0]) == pytest.approx(similarity(texts[doc_id], texts[whom]), abs=1e-4)
    near = next(doc_id for doc_id, (reason, _) in reasons.items() if reason == "near duplicate")
    told = fate(made.folder, near)[-1]
    assert told.outcome == "removed" and told.reason == "near duplicate" and told.detail["detail"] == reasons[near][1]


def test_a_chain_is_not_closed(tmp_path: Path) -> None:
    """Each version resembles the next, the first not the last: the far one is kept."""
    rng = np.random.default_rng(5)
    first = words(rng, 300)
    versions = [first]
    for _ in range(8):
        versions.append(edited(rng, versions[-1], 5))
    documents = make_documents([" ".join(v) for v in versions])
    texts = {d.id: d.text for d in documents}
    assert all(similarity(documents[k].text, documents[k + 1].text) >= 0.8 for k in range(8))
    assert similarity(documents[0].text, documents[8].text) < 0.6
    docs = make_docs_artifact(tmp_path / "docs", documents)
    made = run_stage(Dedup(near=0.8), {"docs": docs}, tmp_path / "out")
    assert len(open_documents(made.folder)) > 1
    for doc_id, (_, detail) in removed_of(made).items():
        assert similarity(texts[doc_id], texts[detail.split()[0]]) >= 0.8


def test_the_answer_is_the_same_for_any_parts_and_workers(tmp_path: Path) -> None:
    documents = family(7, 12)
    seen = []
    for parts in (1, 2, 5):
        docs = make_docs_artifact(tmp_path / f"docs-{parts}", documents, parts)
        made = run_stage(Dedup(near=0.8), {"docs": docs}, tmp_path / f"out-{parts}")
        seen.append((removed_of(made), made.manifest.decision))
    assert seen[0] == seen[1] == seen[2]
    spawned = run_stage(Dedup(near=0.8), {"docs": docs}, tmp_path / "spawned", engine=Local(2)).manifest
    assert spawned.as_dict() == made.manifest.as_dict()


def test_exact_copies_of_a_near_duplicate_in_other_parts_name_the_one_that_stays(tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    original = words(rng, 200)
    texts = [" ".join(original)] + [" ".join(edited(rng, original, 2))] * 6
    documents = make_documents(texts)
    docs = make_docs_artifact(tmp_path / "docs", documents, 4)
    made = run_stage(Dedup(near=0.8), {"docs": docs}, tmp_path / "out")
    (kept,) = open_documents(made.folder)
    assert {detail.split()[0] for _, detail in removed_of(made).values()} == {kept.id}


LICENCE = " ".join(f"clause{k} grants{k * 7 % 11} nothing{k * 5 % 13}" for k in range(150))


def test_a_long_shared_licence_does_not_make_documents_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(13)
    bodies = [" ".join(words(rng, 60)) for _ in range(40)]
    documents = make_documents([f"{LICENCE}\n\n{body}\n\n{LICENCE[:300]}" for body in bodies])
    assert similarity(documents[0].text, documents[1].text) > 0.75
    docs = make_docs_artifact(tmp_path / "docs", documents, 2)
    made = run_stage(Dedup(near=0.7), {"docs": docs}, tmp_path / "out")
    assert removed_of(made) == {}


def test_edited_bodies_under_a_shared_licence_are_still_found(tmp_path: Path) -> None:
    rng = np.random.default_rng(17)
    bodies = [words(rng, 120) for _ in range(30)]
    bodies += [edited(rng, body, 2) for body in bodies[:10]]
    documents = make_documents([f"{LICENCE}\n\n{' '.join(body)}" for body in bodies])
    docs = make_docs_artifact(tmp_path / "docs", documents, 2)
    made = run_stage(Dedup(near=0.8), {"docs": docs}, tmp_path / "out")
    pairs = {frozenset((doc_id, detail.split()[0])) for doc_id, (_, detail) in removed_of(made).items()}
    assert pairs == {frozenset((documents[k].id, documents[30 + k].id)) for k in range(10)}


def test_a_crowd_of_edited_copies_becomes_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(19)
    original = words(rng, 400)
    documents = make_documents([" ".join(edited(rng, original, 3)) for _ in range(300)])
    docs = make_docs_artifact(tmp_path / "docs", documents, 3)
    made = run_stage(Dedup(near=0.8), {"docs": docs}, tmp_path / "out")
    assert len(open_documents(made.folder)) == 1
    near = made.manifest.decision["near"]
    assert near["contents"] == 299 and near["compared"] <= 300 and near["largest"][0]["joined"] == 299


def test_short_texts_are_compared_exactly(tmp_path: Path) -> None:
    base = [f"w{k}" for k in range(MIN_SHINGLES + 3)]
    documents = make_documents([" ".join(base), " ".join([*base[:-1], "other"]), " ".join(base), "a " * 500, "a " * 600])
    docs = make_docs_artifact(tmp_path / "docs", documents)
    made = run_stage(Dedup(near=0.3), {"docs": docs}, tmp_path / "out")
    (gone,) = removed_of(made).values()
    assert gone[0] == "exact duplicate"


def test_texts_without_blanks_are_compared_by_character(tmp_path: Path) -> None:
    rng = np.random.default_rng(23)
    page = "".join(chr(c) for c in rng.integers(0x4E00, 0x9000, 300))
    other = page[:150] + "新" + page[151:]
    documents = make_documents([page, other, "".join(chr(c) for c in rng.integers(0x4E00, 0x9000, 300))])
    docs = make_docs_artifact(tmp_path / "docs", documents)
    made = run_stage(Dedup(near=0.8), {"docs": docs}, tmp_path / "out")
    assert set(removed_of(made)) == {max(documents[0].id, documents[1].id)}


def test_the_best_rated_version_stays(tmp_path: Path) -> None:
    rng = np.random.default_rng(29)
    original = words(rng, 200)
    documents = make_documents([" ".join(edited(rng, original, 1)) for _ in range(5)])
    docs = make_docs_artifact(tmp_path / "docs", documents, 2)
    table = {d.id: {"overall_score": 5.0 if k == 3 else 2.0} for k, d in enumerate(documents)}
    ratings = write_ratings(tmp_path / "ratings", docs, table)
    made = run_stage(Dedup(near=0.8, keep="overall_score"), {"docs": docs, "ratings": ratings}, tmp_path / "out")
    assert [d.id for d in open_documents(made.folder)] == [documents[3].id]


def test_a_source_that_loses_much_is_named(tmp_path: Path) -> None:
    rng = np.random.default_rng(31)
    original = words(rng, 200)
    documents = make_documents([" ".join(edited(rng, original, 1)) for _ in range(6)], source="mirror")
    documents += [replace(d, id=d.id[::-1]) for d in make_documents([" ".join(words(rng, 200))], source="web")]
    docs = make_docs_artifact(tmp_path / "docs", documents)
    decision = run_stage(Dedup(near=0.8, alarm=0.8), {"docs": docs}, tmp_path / "out").manifest.decision
    assert decision["warnings"] == ["source 'mirror' loses 83.3% of its documents, more than 80%"]
    assert decision["by_source"]["mirror"]["duplicates"] == 5 and decision["by_source"]["web"]["duplicates"] == 0


def test_what_cannot_work_is_refused(tmp_path: Path) -> None:
    docs = make_docs_artifact(tmp_path / "docs", make_documents(["a"]))
    with pytest.raises(FixInput, match=r"similarity from 0\.3 to 1"):
        run_stage(Dedup(near=0.1), {"docs": docs}, tmp_path / "out")
    with pytest.raises(BadRecipe, match="crowd is 2"):
        run_stage(Dedup(near=0.8, crowd=1), {"docs": docs}, tmp_path / "out")


def test_nothing_in_nothing_out(tmp_path: Path) -> None:
    docs = make_docs_artifact(tmp_path / "docs", [], 2)
    made = run_stage(Dedup(near=0.8), {"docs": docs}, tmp_path / "out")
    assert len(open_documents(made.folder)) == 0 and made.manifest.decision["near"]["candidates"] == 0


def test_bodies_that_are_frequent_themselves_are_bodies_still(tmp_path: Path) -> None:
    """Under one licence, each of 4 standard pages; every page stands in 12 other documents as well."""
    rng = np.random.default_rng(37)
    pages = [" ".join(words(rng, 60)) for _ in range(4)]
    texts = [f"{LICENCE}\n\n{page}" for page in pages]
    texts += [f"{page} {' '.join(words(rng, 20))}" for page in pages for _ in range(12)]
    texts += [f"{LICENCE} {' '.join(words(rng, 60))}" for _ in range(12)]
    documents = make_documents(texts)
    assert similarity(texts[0], texts[1]) > 0.75
    docs = make_docs_artifact(tmp_path / "docs", documents, 2)
    made = run_stage(Dedup(near=0.7), {"docs": docs}, tmp_path / "out")
    assert removed_of(made).keys().isdisjoint(d.id for d in documents[:4])
