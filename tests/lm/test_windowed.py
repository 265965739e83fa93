"""Windows: one window is the rater itself, more are means by tokens; every byte is in one; nothing depends on the batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from typecase.core.rating import STATUSES
from typecase.errors import BadRecipe
from typecase.lm.rate.rater import I64, RATER_FAILED, U8, FakeRater, Ratings, pack_texts
from typecase.lm.rate.rubric import load_rubric
from typecase.lm.rate.windowed import Correction, WindowedRater, movement

RUBRIC = load_rubric("dataman")
FAKE = FakeRater(RUBRIC)
PARAGRAPH = "The compositor sets a line of type. She locks it up, and the press takes the forme.\n\n"


def words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def windowed(**settings: object) -> WindowedRater:
    return WindowedRater(FAKE, words, "words", **({"window_tokens": 40} | settings))  # type: ignore[arg-type]


class Flaky:
    """A rater that fails every window with BOOM in it."""

    name, version, fingerprint, rubric = "flaky", "1", "0" * 32, RUBRIC

    def rate(self, values: U8, offsets: I64) -> Ratings:
        ratings = FAKE.rate(values, offsets)
        for doc in range(len(ratings)):
            if b"BOOM" in values[offsets[doc] : offsets[doc + 1]].tobytes():
                ratings.status[doc], ratings.scores[doc], ratings.domain[doc] = RATER_FAILED, np.nan, -1
                ratings.domain_chances[doc] = ratings.confidence[doc] = np.nan
        return ratings


def test_one_window_is_the_rater_itself() -> None:
    texts = ["short text", "", "   \n", "another one"]
    plain, ours = FAKE.rate(*pack_texts(texts)), windowed().rate(*pack_texts(texts))
    for name in ("scores", "domain", "domain_chances", "domain_confidence", "confidence", "status", "rated_bytes"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(ours, name))


@settings(max_examples=30)
@given(st.lists(st.text(alphabet="ab c.\n字", max_size=300), min_size=1, max_size=4), st.integers(1, 30))
def test_means_by_tokens_of_windows_that_tile_the_text(texts: list[str], tokens: int) -> None:
    rater = windowed(window_tokens=tokens)
    ratings = rater.rate(*pack_texts(texts))
    for doc, text in enumerate(texts):
        alone = rater.rate(*pack_texts([text]))
        np.testing.assert_array_equal(ratings.scores[doc], alone.scores[0])
        assert ratings.detail is not None
        windows = ratings.detail.windows[doc]
        if not windows:
            continue
        data = text.encode()
        assert [w.start for w in windows] == [0, *(w.stop for w in windows[:-1])] and windows[-1].stop == len(data)
        said = FAKE.rate(*pack_texts([data[w.start : w.stop].decode() for w in windows]))
        weights = [w.tokens for w, ok in zip(windows, said.rated) if ok]
        if sum(weights):
            want = np.average(said.scores[said.rated].astype(np.float64), axis=0, weights=weights)
            np.testing.assert_allclose(ratings.scores[doc], want, rtol=1e-5)
            chances = np.average(said.domain_chances[said.rated].astype(np.float64), axis=0, weights=weights)
            assert ratings.domain[doc] == chances.argmax()
            assert ratings.domain_confidence[doc] == pytest.approx(chances.max(), rel=1e-5)


def test_a_sample_of_windows_says_how_much_was_read() -> None:
    text = PARAGRAPH * 40
    whole, some = windowed().rate(*pack_texts([text])), windowed(most_windows=3).rate(*pack_texts([text]))
    assert whole.detail is not None and some.detail is not None
    assert whole.rated_bytes[0] == len(text) and len(some.detail.windows[0]) == 3
    windows = some.detail.windows[0]
    assert windows[0].start == 0 and windows[-1].stop == len(text)
    assert some.rated_bytes[0] == sum(w.stop - w.start for w in windows) < len(text)
    assert some.detail.codes[0] == ("sampled_windows",) and whole.detail.codes[0] == ()
    again = windowed(most_windows=3).rate(*pack_texts(["x", text]))
    np.testing.assert_array_equal(again.scores[1], some.scores[0])


def test_a_window_that_fails_does_not_take_the_document_with_it() -> None:
    texts = [PARAGRAPH * 4 + "BOOM " * 30 + "\n\n" + PARAGRAPH * 4, "BOOM " * 90, "BOOM"]
    ratings = WindowedRater(Flaky(), words, "words", 40).rate(*pack_texts(texts))
    assert [STATUSES[code] for code in ratings.status] == ["repaired", "rater_failed", "rater_failed"]
    assert ratings.detail is not None and ratings.detail.codes[0] == ("window_failed",)
    failed = [w for w in ratings.detail.windows[0] if w.scores["accuracy"] is None]
    assert failed and all(w.domain is None for w in failed)
    assert 0 < ratings.rated_bytes[0] < len(texts[0])


def test_a_correction_lowers_what_is_repeated_across_windows_and_says_how_far() -> None:
    fresh = "".join(f"Line {k} tells of matter number {k * k} and of the {k}th sort in the case.\n\n" for k in range(12))
    texts = [PARAGRAPH * 12, fresh, "one window"]
    plain, corrected = (
        windowed(correction=correction).rate(*pack_texts(texts))
        for correction in (Correction(), Correction(repetition=("originality",)))
    )
    at = RUBRIC.columns.index("originality")
    others = np.delete(np.arange(len(RUBRIC.columns)), at)
    np.testing.assert_array_equal(plain.scores[:, others], corrected.scores[:, others])
    assert corrected.scores[0, at] == pytest.approx(RUBRIC.low, abs=0.75)
    np.testing.assert_array_equal(plain.scores[1:, at], corrected.scores[1:, at])
    moved = movement(corrected)
    assert moved["originality"].documents == 1 and moved["accuracy"].documents == 0
    assert moved["originality"].most == pytest.approx(plain.scores[0, at] - corrected.scores[0, at], abs=1e-4)
    assert all(own.documents == 0 for own in movement(plain).values())
    assert corrected.detail is not None and corrected.detail.codes == (("corrected",), (), ())


def test_a_change_of_subject_lowers_what_drifts() -> None:
    class Subjects:
        name, version, fingerprint, rubric = "subjects", "1", "1" * 32, RUBRIC

        def rate(self, values: U8, offsets: I64) -> Ratings:
            ratings = FAKE.rate(values, offsets)
            for doc in range(len(ratings)):
                ratings.scores[doc] = 4.0
                ratings.domain_chances[doc] = 0.0
                about = values[offsets[doc] : offsets[doc + 1]].tobytes().count(b"law")
                ratings.domain_chances[doc, 2 if about else 7] = 1.0
            return ratings

    rater = WindowedRater(Subjects(), words, "words", 10, correction=Correction(drift=("topic_focus",)))
    one, two = "law " * 10 + "\n\n" + "law " * 10, "law " * 10 + "\n\n" + "code " * 10
    ratings = rater.rate(*pack_texts([one, two]))
    at = RUBRIC.columns.index("topic_focus")
    assert ratings.scores[0, at] == 4.0 and ratings.scores[1, at] == pytest.approx(1.0)
    assert math.isclose(ratings.domain_confidence[1], 0.5)


def test_what_changes_the_ratings_changes_the_fingerprint() -> None:
    plain = windowed()
    others = [
        windowed(window_tokens=41),
        windowed(most_windows=2),
        windowed(correction=Correction(drift=("coherence",))),
        replace(plain, counter="other"),
        WindowedRater(FakeRater(RUBRIC, version="2"), words, "words", 40),
    ]
    assert len({plain.fingerprint, *(other.fingerprint for other in others)}) == 6
    assert plain.fingerprint == windowed().fingerprint


def test_what_cannot_be_meant_is_refused() -> None:
    with pytest.raises(BadRecipe, match="no criterion 'wit'"):
        windowed(correction=Correction(repetition=("wit",)))
    with pytest.raises(BadRecipe, match="1 token or more"):
        windowed(window_tokens=0)
