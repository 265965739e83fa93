"""Annotations: readings meet their documents by id, and each reading is kept or counted with its reason."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.train.made import make_folder, rubric
from typecase.errors import BadRecipe, CorruptStore, NotFound
from typecase.lm.rate.annotations import (
    AnnotatedText,
    annotations_of,
    read_json_lines,
    texts_of_lines,
    write_seeds,
)
from typecase.lm.rate.rubric import load_rubric
from typecase.lm.rate.seeds import read_seeds
from typecase.train.annotation_set import read_annotations

RUBRIC = rubric()
TEXTS = {
    "a": AnnotatedText("one", "s1"),
    "b": AnnotatedText("two", "s2"),
    "v": AnnotatedText("twoo", "elsewhere", variant_of="b", damage="typo"),
    "blank": AnnotatedText(" \n", "s1"),
}
GOOD: dict[str, Any] = {"id": "a", "loud": 2, "wet": 1, "domain": "Sea"}


def joined(*rows: dict[str, Any] | None) -> Any:
    return annotations_of(rows, lambda wanted: TEXTS, RUBRIC, where="here")


def test_a_document_has_the_mean_of_its_readings() -> None:
    made = joined(GOOD, {**GOOD, "loud": 3, "domain": "L"}, {**GOOD, "id": "b", "loud": 1.5})
    documents = made.documents
    assert documents.ids == ("a", "b") and documents.readings.tolist() == [2, 1]
    np.testing.assert_array_equal(documents.scores, [[2.5, 1], [1.5, 1]])
    np.testing.assert_array_equal(documents.votes, [[0.5, 0.5], [1, 0]])
    assert made.balance.as_dict() == {"in": 3, "kept": 3, "removed": {}, "quarantined": {}}


def test_a_variant_lies_with_its_original_whatever_its_source_says() -> None:
    made = joined({**GOOD, "id": "v"}, {**GOOD, "id": "b"})
    assert made.documents.sources == ("s2", "s2")
    assert made.documents.original.tolist() == [-1, 0] and made.documents.damage == ("", "typo")
    alone = joined({**GOOD, "id": "v"})
    assert alone.documents.sources == ("s2",) and alone.documents.original.tolist() == [-1]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (None, "bad_line"),
        ({**GOOD, "id": "nowhere"}, "no_document"),
        ({**GOOD, "id": None}, "no_document"),
        ({**GOOD, "id": "blank"}, "empty_document"),
        ({**GOOD, "loud": None}, "missing_score"),
        ({**GOOD, "loud": True}, "missing_score"),
        ({**GOOD, "loud": "2"}, "missing_score"),
        ({**GOOD, "loud": float("nan")}, "missing_score"),
        ({**GOOD, "loud": 0}, "out_of_scale"),
        ({**GOOD, "loud": 3.2}, "out_of_scale"),
        ({**GOOD, "domain": "Space"}, "unknown_domain"),
        ({**GOOD, "domain": None}, "unknown_domain"),
        ({**GOOD, "status": "rater_failed"}, "rater_failed"),
        ({**GOOD, "status": "partial"}, "partial"),
    ],
)
def test_what_teaches_nothing_is_counted_with_its_reason(row: dict[str, Any] | None, reason: str) -> None:
    made = joined(GOOD, row)
    assert made.balance.as_dict() == {"in": 2, "kept": 1, "removed": {reason: 1}, "quarantined": {}}
    with pytest.raises(BadRecipe, match=f"here teaches nothing: 1 {reason}"):
        joined(row)


def test_statuses_of_a_whole_rating_and_aliases_are_taken() -> None:
    assert joined({**GOOD, "status": "repaired"}).balance.kept == 1
    dataman = load_rubric("dataman")
    row: dict[str, Any] = dict.fromkeys(dataman.columns, 3) | {"doc_id": "a", "domain": "E"}
    row["text_accuracy"] = row.pop("accuracy")
    made = annotations_of([row], lambda wanted: TEXTS, dataman, where="here")
    assert made.documents.scores.tolist() == [[3.0] * 14]


@given(st.permutations(range(6)))
def test_the_order_of_readings_does_not_matter(order: list[int]) -> None:
    rows = [{**GOOD, "id": doc, "loud": loud} for doc in "ab" for loud in (1, 2, 3)]
    assert joined(*[rows[k] for k in order]).fingerprint == joined(*rows).fingerprint


def test_the_fingerprint_covers_all_that_can_be_learnt() -> None:
    made = joined(GOOD, {**GOOD, "id": "b"})
    seeds = made.documents
    others = [
        replace(made, documents=replace(seeds, **changed))
        for changed in (
            {"texts": ("one", "twp")},
            {"sources": ("s1", "s1")},
            {"scores": seeds.scores + 0.25},
            {"votes": seeds.votes[:, ::-1]},
            {"original": np.array([-1, 0])},
            {"ids": ("a", "c")},
        )
    ]
    assert len({made.fingerprint, *(other.fingerprint for other in others)}) == 7


def test_lines_are_read_plain_and_packed_and_bad_ones_are_none(tmp_path: Path) -> None:
    data = b'{"id": 1}\n\nnot json\n[1]\n{"id": 2}'
    (tmp_path / "plain.jsonl").write_bytes(data)
    (tmp_path / "packed.jsonl.gz").write_bytes(gzip.compress(data))
    for name in ("plain.jsonl", "packed.jsonl.gz"):
        assert list(read_json_lines(tmp_path / name)) == [{"id": 1}, None, None, {"id": 2}]
    (tmp_path / "torn.jsonl.gz").write_bytes(gzip.compress(data)[:20])
    with pytest.raises(CorruptStore, match=r"torn\.jsonl\.gz cannot be unpacked"):
        list(read_json_lines(tmp_path / "torn.jsonl.gz"))
    with pytest.raises(NotFound, match="no file"):
        list(read_json_lines(tmp_path / "nothing.jsonl"))


def test_texts_are_held_of_rated_documents_alone(tmp_path: Path) -> None:
    found = texts_of_lines(make_folder(tmp_path / "made", num=4) / "documents.jsonl")({"n001"})
    assert set(found) == {"n000", "n001", "n002", "n003"}
    assert found["n001"].text and not found["n002"].text


def test_what_is_written_as_seeds_is_read_as_the_same(tmp_path: Path) -> None:
    made, _ = read_annotations(make_folder(tmp_path / "made", num=10), RUBRIC)
    write_seeds(made, tmp_path / "again")
    read = read_seeds(tmp_path / "again", RUBRIC)
    assert replace(made, documents=read).fingerprint == made.fingerprint


def test_the_shipped_seeds_are_an_annotation_set() -> None:
    folder = Path(__file__).parents[2] / "seeds"
    rubric_ = load_rubric("dataman")
    made, _ = read_annotations(folder, rubric_)
    read = read_seeds(folder, rubric_)
    order = np.argsort(np.array(read.ids), kind="stable")
    assert made.documents.ids == tuple(sorted(read.ids)) and made.balance.num_removed == 0
    np.testing.assert_allclose(made.documents.scores, read.scores[order])
    np.testing.assert_allclose(made.documents.votes, read.votes[order])
