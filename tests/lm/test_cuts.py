"""Cuts tile a text, keep to the limit, and lie at the coarsest boundaries that allow it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from typecase.errors import BadQuery
from typecase.lm.rate.cuts import byte_bounds, cut_text, head_and_tail, sample_of, size_of, text_of

TEXTS = st.text(alphabet="ab .!\n。字é🖋", max_size=120)


def words(texts: Sequence[str]) -> list[int]:
    """Tokens that melt across a cut: a word is one token, and so is each run of white space."""
    return [sum(1 for k, c in enumerate(text) if k == 0 or c.isspace() != text[k - 1].isspace()) for text in texts]


def characters(texts: Sequence[str]) -> list[int]:
    return [len(text) for text in texts]


def greedy(texts: Sequence[str]) -> list[int]:
    """A whole may have more tokens than its parts together."""
    return [len(text) + text.count("a b") for text in texts]


@settings(max_examples=150)
@given(TEXTS, st.integers(1, 20), st.sampled_from((words, characters, greedy)))
def test_cuts_tile_the_text_and_keep_to_the_limit(text: str, limit: int, count: object) -> None:
    cuts = cut_text(text, limit, count)  # type: ignore[arg-type]
    assert "".join(text[cut.start : cut.stop] for cut in cuts) == text
    for cut in cuts:
        assert cut.tokens == count([text[cut.start : cut.stop]])[0]  # type: ignore[operator]
        assert cut.tokens <= limit or cut.stop - cut.start == 1
    ends = [0, *(stop for _, stop in byte_bounds(text, cuts))]
    assert ends[-1] == len(text.encode()) and ends == sorted(ends)


def test_the_coarsest_boundary_that_allows_it() -> None:
    text = "One two three. Four five.\nSix.\n\nSeven eight nine ten.\n\nEleven."
    shown = [text[cut.start : cut.stop] for cut in cut_text(text, 35, characters)]
    assert shown == ["One two three. Four five.\nSix.\n\n", "Seven eight nine ten.\n\nEleven."]
    shown = [text[cut.start : cut.stop] for cut in cut_text(text, 26, characters)]
    assert shown == ["One two three. Four five.\n", "Six.\n\n", "Seven eight nine ten.\n\n", "Eleven."]
    shown = [text[cut.start : cut.stop] for cut in cut_text(text, 16, characters)]
    assert shown[:2] == ["One two three. ", "Four five.\n"]
    assert cut_text("", 5, characters) == [] and len(cut_text("ab", 5, characters)) == 1
    with pytest.raises(BadQuery, match="1 token or more"):
        cut_text("a", 0, characters)


@given(TEXTS, st.integers(2, 30))
def test_head_and_tail_are_as_long_as_may_be(text: str, cap: int) -> None:
    cuts = head_and_tail(text, cap, characters)
    if len(text) <= cap:
        assert [(cut.start, cut.stop) for cut in cuts] == [(0, len(text))]
        return
    half = cap // 2
    assert [(cut.start, cut.stop, cut.tokens) for cut in cuts] == [
        (0, half, half),
        (len(text) - half, len(text), half),
    ]


@given(st.integers(0, 50), st.integers(1, 12), st.binary(min_size=1, max_size=4))
def test_a_sample_has_both_ends_and_depends_on_the_key_alone(num: int, most: int, key: bytes) -> None:
    picked = sample_of(num, most, key)
    assert picked == sample_of(num, most, key) and picked == sorted(set(picked))
    assert len(picked) == min(num, most)
    if num and most > 1:
        assert picked[0] == 0 and picked[-1] == num - 1


def test_other_texts_have_other_middles() -> None:
    assert len({tuple(sample_of(100, 5, bytes([k]))) for k in range(20)}) > 15


@given(st.binary(max_size=40))
def test_bytes_that_are_no_text_keep_their_places(data: bytes) -> None:
    assert size_of(text_of(data)) == len(data)
