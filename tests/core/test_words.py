"""Length units, words and boundaries: the fast kernels against slow readable versions, and the scripts one by one."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
import regex
from hypothesis import given, settings

from typecase.core.words import (
    JOINER,
    KANJI,
    LETTER,
    MARK,
    THAI,
    UNIT,
    class_of,
    is_grapheme_boundary,
    is_word_boundary,
    units_of,
    units_of_buffers,
    words_of,
)

PIECES = [*"ab1'-’ .\n\t", "中", "カ", "ー", "ก", "า", "é", "e\u0301", "\u200d", "🇩", "🇪", "👍", "🏽", "\r", "한"]
SAMPLES = st.one_of(
    st.text(max_size=40), st.lists(st.sampled_from([*PIECES, "\u1112", "\u1161", "\u11ab"]), max_size=20).map("".join)
)


def slow_units(text: str) -> int:
    """One unit a word of spaced scripts, 8 twelfths a Han or kana, 3 a Thai, Lao, Khmer or Myanmar character."""
    total, state = 0, "outside"
    for char in text:
        kind = class_of(char)
        if kind == MARK:
            continue
        if kind == LETTER:
            total += UNIT if state == "outside" else 0
            state = "word"
        elif kind == JOINER and state == "word":
            state = "joined"
        else:
            state = "outside"
            total += {KANJI: 8, THAI: 3}.get(kind, 0)
    return total


@given(SAMPLES)
@settings(deadline=None)
def test_units_are_those_of_the_slow_count(text: str) -> None:
    assert units_of(text) == slow_units(text)


@given(st.lists(SAMPLES, max_size=5))
@settings(deadline=None)
def test_a_column_is_counted_like_its_strings(texts: list[str]) -> None:
    data = [text.encode() for text in texts]
    offsets = np.concatenate([[0], np.cumsum([len(d) for d in data])]).astype(np.int64)
    values = np.frombuffer(b"".join(data), np.uint8)
    assert units_of_buffers(values, offsets).tolist() == [units_of(text) for text in texts]


@given(SAMPLES, SAMPLES)
@settings(deadline=None)
def test_units_add_up_over_separate_lines(one: str, other: str) -> None:
    assert units_of(one + "\n" + other) == units_of(one) + units_of(other)


@pytest.mark.parametrize(
    ("text", "twelfths"),
    [
        ("", 0),
        ("the quick brown fox", 4 * UNIT),
        ("don't state-of-the-art", 2 * UNIT),
        ("a - b -- c", 3 * UNIT),
        ("... !!! 👍", 0),
        ("быстрая лиса", 2 * UNIT),
        ("नमस्ते दुनिया", 2 * UNIT),
        ("한국어 문장", 2 * UNIT),
        ("می‌خواهم", UNIT),  # a zero-width non-joiner inside a word
        ("排版工人", 4 * 8),
        ("カタカナー", 5 * 8),
        ("ประเทศไทย", 9 * 3),
        ("Debian软件包", UNIT + 3 * 8),
        ("e\u0301te\u0301", UNIT),
    ],
)
def test_units_of_scripts(text: str, twelfths: int) -> None:
    assert units_of(text) == twelfths


def test_words_of_scripts() -> None:
    assert words_of("State-of-the-art, don't 'quote' a-") == ["State-of-the-art", "don't", "quote", "a"]
    assert words_of("中文字 ab") == ["中", "文", "字", "ab"]
    assert words_of("ปี") == ["ปี"]
    assert words_of("ก\u200d00") == ["ก\u200d", "00"]
    assert words_of("e-\u0301e") == ["e-\u0301e"]


@given(SAMPLES)
@settings(deadline=None)
def test_words_lie_between_boundaries_and_hold_all_letters(text: str) -> None:
    at = 0
    for word in words_of(text):
        at = text.index(word, at)
        assert is_word_boundary(text, at)
        at += len(word)
        assert is_word_boundary(text, at)
    letters = sum(class_of(c) in (LETTER, KANJI, THAI) for c in text)
    assert sum(class_of(c) in (LETTER, KANJI, THAI) for word in words_of(text) for c in word) == letters


@given(SAMPLES)
@settings(deadline=None, max_examples=300)
def test_no_boundary_is_seen_inside_a_cluster(text: str) -> None:
    """Where `regex` (Unicode's own rules) sees none; it may know newer characters, so only its sure cuts are compared."""
    edges = {0}
    for cluster in regex.findall(r"\X", text):
        edges.add(max(edges) + len(cluster))
    for pos in range(len(text) + 1):
        if is_grapheme_boundary(text, pos) and is_word_boundary(text, pos):
            assert pos in edges


@pytest.mark.parametrize(
    ("text", "pos", "boundary"),
    [
        ("ab", 1, False),
        ("a b", 1, True),
        ("a'b", 1, False),
        ("a'b", 2, False),
        ("a' b", 1, True),
        ("a--b", 2, True),
        ("中文", 1, True),
        ("a中", 1, True),
        ("e\u0301x", 1, False),
        ("e\u0301x", 2, False),
    ],
)
def test_word_boundaries(text: str, pos: int, boundary: bool) -> None:
    assert is_word_boundary(text, pos) is boundary


@pytest.mark.parametrize(
    ("text", "pos", "boundary"),
    [
        ("\r\n", 1, False),
        ("\n\u0301", 1, True),
        ("e\u0301", 1, False),
        ("👍🏽", 1, False),
        ("👩\u200d🔧", 1, False),
        ("👩\u200d🔧", 2, False),
        ("🇩🇪🇫🇷", 2, True),
        ("🇩🇪🇫🇷", 1, False),
        ("🇩🇪🇫🇷", 3, False),
        ("\u1100\u1161\u11a8", 0, True),
        ("\u1100\u1161\u11a8", 1, False),
        ("\u1100\u1161\u11a8", 2, False),
    ],
)
def test_grapheme_boundaries(text: str, pos: int, boundary: bool) -> None:
    assert is_grapheme_boundary(text, pos) is boundary
