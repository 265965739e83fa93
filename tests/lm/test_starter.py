"""The starter rater: laws that every rater keeps (with the fake), the shipped weights and their card, and the file."""

from __future__ import annotations

import pickle
from importlib.resources import files
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from typecase.core.rating import STATUSES
from typecase.errors import CorruptStore, NotFound
from typecase.lm.archive import hash_arrays
from typecase.lm.rate.rater import FakeRater, Rater, Ratings, pack_texts
from typecase.lm.rate.rubric import load_rubric
from typecase.lm.starter.starter import from_arrays, from_bytes, load_starter, open_rater, to_arrays, to_bytes

GOOD = """How locks lift boats

A lock is a chamber of water with gates at both ends. A boat enters from the lower reach and the gates close behind it.
Sluices in the upper gate are opened, water runs in, and the boat rises with it. When the levels are equal, the pressure on
the upper gates vanishes, and a push on the beam is enough to open them. Because no pump is needed, a canal climbs a hill
by gravity alone; its only cost is the water that every boat takes down with it, which a reservoir at the summit replaces."""
POOR = "Home | Login | Cart\n" + "buy cheap watches click here now buy cheap watches\n" * 12
TEXTS = [GOOD, POOR, "", " \n\t", "def add(a, b):\n    return a + b\n", "日本語の文書です。", GOOD * 100, "x", "\x00\x01"]


def raters() -> list[Rater]:
    return [FakeRater(load_rubric("dataman")), load_starter()]


def rated(rater: Rater, texts: list[str]) -> Ratings:
    return rater.rate(*pack_texts(texts))


def same(left: Ratings, right: Ratings) -> None:
    for name in ("scores", "domain", "domain_chances", "domain_confidence", "confidence", "status", "rated_bytes"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name), err_msg=name)


@pytest.mark.parametrize("rater", raters(), ids=lambda rater: rater.name)
def test_every_document_has_a_row_and_scores_lie_on_the_scale(rater: Rater) -> None:
    ratings = rated(rater, TEXTS)
    rubric = rater.rubric
    assert len(ratings) == len(TEXTS)
    assert ratings.status_names() == ["empty_text" if not text.strip() else "ok" for text in TEXTS]
    ok = ratings.rated
    assert ((ratings.scores[ok] >= rubric.low) & (ratings.scores[ok] <= rubric.high)).all()
    for confidence in (ratings.confidence[ok], ratings.domain_confidence[ok]):
        assert ((confidence >= 0) & (confidence <= 1)).all()
    np.testing.assert_allclose(ratings.domain_chances[ok].sum(axis=1), 1, atol=1e-5)
    assert (ratings.domain_chances[ok].argmax(axis=1) == ratings.domain[ok]).all()


@pytest.mark.parametrize("rater", raters(), ids=lambda rater: rater.name)
def test_a_document_without_a_rating_says_why_and_holds_nothing(rater: Rater) -> None:
    row = rated(rater, [""]).row(0)
    assert row.status == "empty_text" in STATUSES and row.rated_bytes == 0
    assert row.domain is row.confidence is row.domain_confidence is None and set(row.scores.values()) == {None}


@pytest.mark.parametrize("rater", raters(), ids=lambda rater: rater.name)
def test_no_documents(rater: Rater) -> None:
    assert len(rated(rater, [])) == 0


@given(st.lists(st.sampled_from(TEXTS), max_size=8), st.integers(0, 7))
@settings(max_examples=15)
def test_a_rating_depends_on_its_document_alone(texts: list[str], doc: int) -> None:
    for rater in raters():
        whole = rated(rater, [*texts, GOOD])
        doc = min(doc, len(texts))
        alone = rated(rater, [[*texts, GOOD][doc]])
        np.testing.assert_array_equal(whole.scores[doc], alone.scores[0])
        np.testing.assert_array_equal(whole.domain_chances[doc], alone.domain_chances[0])
        assert whole.row(doc).status == alone.row(0).status


def test_batches_and_offsets_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rater = load_starter()
    values, offsets = pack_texts(TEXTS)
    whole = rater.rate(values, offsets)
    shifted = rater.rate(np.concatenate([np.full(7, 65, np.uint8), values]), offsets + 7)
    same(whole, shifted)
    monkeypatch.setattr("typecase.lm.starter.model._BATCH_BYTES", 50)
    same(whole, rater.rate(values, offsets))


def test_any_bytes_are_rated() -> None:
    dice = np.random.default_rng(1)
    values = dice.integers(0, 256, 20_000).astype(np.uint8)
    ratings = load_starter().rate(values, np.arange(0, 20_001, 500, dtype=np.int64))
    assert ratings.rated.all() and np.isfinite(ratings.scores).all()


def test_a_clear_text_is_rated_above_a_page_of_adverts() -> None:
    ratings = rated(load_starter(), [GOOD, POOR])
    overall = ratings.scores[:, ratings.rubric.columns.index("overall_score")]
    assert overall[0] > overall[1] + 1


def test_a_long_document_is_read_in_part_and_says_so() -> None:
    ratings = rated(load_starter(), [GOOD, GOOD * 100])
    assert ratings.rated_bytes[0] == len(GOOD.encode())
    assert 20_000 < ratings.rated_bytes[1] < 30_000 < len(GOOD.encode()) * 100


def test_the_card_belongs_to_the_weights() -> None:
    card = (files("typecase.lm") / "weights" / "STARTER_CARD.md").read_text("utf-8")
    rater = load_starter()
    assert f"fingerprint `{rater.fingerprint}`" in card
    assert rater.rubric.fingerprint == load_rubric("dataman").fingerprint
    assert all(f"`{column}`" in card for column in rater.rubric.columns)
    assert all(
        f" {column} |" in card for column in ("kappa", "macro-F1", "ridge rho", "Flesch rho", "length rho", "mean's error")
    )


def test_the_weights_are_small() -> None:
    assert len((files("typecase.lm") / "weights" / "starter.npz").read_bytes()) < 3_000_000


def test_a_weights_file_comes_back_as_it_was(tmp_path: Path) -> None:
    rater = load_starter()
    assert hash_arrays(to_arrays(rater)) == rater.fingerprint
    (tmp_path / "starter.npz").write_bytes(to_bytes(rater))
    for name in (tmp_path, tmp_path / "starter.npz"):
        again = open_rater(name)
        assert again.fingerprint == rater.fingerprint
        same(rated(again, TEXTS), rated(rater, TEXTS))
    assert open_rater("starter") is rater
    same(rated(pickle.loads(pickle.dumps(rater)), TEXTS), rated(rater, TEXTS))


def test_weights_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no weights at"):
        load_starter(tmp_path / "none.npz")
    for data in (b"", b"no archive", to_bytes(load_starter())[:5000]):
        with pytest.raises(CorruptStore, match="does not hold a starter rater"):
            from_bytes(data, where="here")
    arrays = to_arrays(load_starter())
    arrays.pop("text.table")
    with pytest.raises(KeyError):
        from_arrays(arrays)


def test_ratings_are_whole_or_absent() -> None:
    good = rated(load_starter(), [GOOD, ""])
    scores = good.scores.copy()
    scores[1] = 3
    with pytest.raises(ValueError, match="every score if its status is ok"):
        Ratings(
            good.rubric,
            scores,
            good.domain,
            good.domain_chances,
            good.domain_confidence,
            good.confidence,
            good.status,
            good.rated_bytes,
        )
    with pytest.raises(ValueError, match="need scores of shape"):
        Ratings(
            good.rubric,
            scores[:1],
            good.domain,
            good.domain_chances,
            good.domain_confidence,
            good.confidence,
            good.status,
            good.rated_bytes,
        )
