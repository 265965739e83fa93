"""Rating nouns: ids, aliases, scale and summary are checked at birth; names resolve or are refused, never guessed."""

from __future__ import annotations

import pickle

import pytest

from typecase.core.rating import Criterion, Domain, Rating, Rubric
from typecase.errors import BadQuery

ONE = Criterion("clarity", "Is it clear?", {1: "no", 3: "yes"}, ("plain_speech",), {"en": "Clarity", "de": "Klarheit"})


def rubric(**changes: object) -> Rubric:
    fields: dict[str, object] = {
        "id": "tiny",
        "version": 1,
        "low": 1,
        "high": 3,
        "criteria": (ONE,),
        "domains": (Domain("Sea", "S", ("Ocean",)), Domain("Land", "L")),
        "summary": "clarity",
    }
    return Rubric(**(fields | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("num", [1, 2, 40])
def test_a_rubric_of_any_size_works(num: int) -> None:
    criteria = tuple(Criterion(f"c{i}", "?", {}) for i in range(num))
    assert rubric(criteria=criteria, summary=None).columns == tuple(f"c{i}" for i in range(num))


def test_names_resolve_by_id_alias_and_letter_whatever_their_case() -> None:
    assert rubric().criterion("Plain Speech") is ONE
    assert [rubric().domain(name).id for name in ("sea", "OCEAN", "s", "l", "Land")] == ["Sea", "Sea", "Sea", "Land", "Land"]
    assert (ONE.name("de"), ONE.name("fr"), ONE.name()) == ("Klarheit", "Clarity", "Clarity")


def test_unknown_names_are_refused_with_what_there_is() -> None:
    with pytest.raises(BadQuery, match="no criterion 'clar'; it has clarity"):
        rubric().criterion("clar")
    with pytest.raises(BadQuery, match="no domain 'X'; it has Sea, Land"):
        rubric().domain("X")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"criteria": ()}, "no criteria"),
        ({"low": 3}, "low < high"),
        ({"summary": "other"}, "summary 'other'"),
        ({"domains": (Domain("Sea", "S"), Domain("Land", "s"))}, "stands for both"),
        ({"criteria": (ONE, Criterion("plain speech", "?", {})), "summary": None}, "stands for both"),
        ({"criteria": (ONE, ONE)}, "used twice"),
    ],
)
def test_a_rubric_that_contradicts_itself_cannot_be_born(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rubric(**changes)


def test_the_fingerprint_follows_the_meaning_and_not_the_display() -> None:
    same = rubric(criteria=(Criterion("clarity", "Is it clear?", {1: "no", 3: "yes"}),))
    assert same.fingerprint == rubric().fingerprint
    assert rubric(version=2).fingerprint != rubric().fingerprint
    assert rubric(criteria=(Criterion("clarity", "Is it clear?", {1: "not", 3: "yes"}),)).fingerprint != rubric().fingerprint


def test_a_rubric_travels_to_workers() -> None:
    assert pickle.loads(pickle.dumps(rubric())) == rubric()


def test_a_rating_is_whole_or_absent() -> None:
    Rating({"clarity": 2.5}, "Sea", 0.5, 0.5, "ok", 10)
    Rating({"clarity": None}, None, None, None, "empty_text", 0)
    for scores, confidence, status in (({"clarity": None}, 0.5, "ok"), ({"clarity": 2.0}, None, "empty_text")):
        with pytest.raises(ValueError, match="every score"):
            Rating(scores, None, None, confidence, status, 0)
    with pytest.raises(ValueError, match="unknown status 'fine'"):
        Rating({}, None, None, 0.5, "fine", 0)
