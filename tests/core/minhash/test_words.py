"""Words of any script, where they stand, and what makes two the same."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from typecase.core.minhash.words import words_of
from typecase.core.words import KANJI, LETTER, MARK, THAI, class_of


def naive_words(text: str) -> list[tuple[int, int]]:
    """Characters [start, stop) of every word, one character at a time."""
    out: list[tuple[int, int]] = []
    begin = -1
    for at, char in enumerate(text):
        kind = class_of(char)
        if kind == LETTER or (kind == MARK and begin >= 0):
            begin = at if begin < 0 else begin
            continue
        if begin >= 0:
            out.append((begin, at))
            begin = -1
        if kind in (KANJI, THAI):
            out.append((at, at + 1))
    return [*out, (begin, len(text))] if begin >= 0 else out


def found_words(text: str) -> list[str]:
    raw = text.encode("utf-8", "surrogatepass")
    _, starts, stops = words_of(text)
    return [raw[a:b].decode("utf-8", "surrogatepass") for a, b in zip(starts.tolist(), stops.tolist(), strict=True)]


def test_words_of_several_scripts() -> None:
    text = "Don't panic, 中文! ภาษา naïve e\u0301t — 12.5"
    assert found_words(text) == ["Don", "t", "panic", "中", "文", *"ภาษา", "naïve", "e\u0301t", "12", "5"]
    assert found_words("") == [] and found_words(" -— !") == []


@given(st.text(max_size=60))
def test_places_are_those_of_a_plain_scan(text: str) -> None:
    assert found_words(text) == [text[a:b] for a, b in naive_words(text)]


@given(st.text(alphabet="abcXYZÄöß 中ก-.\u0301", max_size=40))
def test_case_and_punctuation_are_nothing(text: str) -> None:
    hashes = words_of(text)[0].tolist()
    assert hashes == words_of(text.replace("-", ".").lower())[0].tolist()
    words = [word.lower() for word in found_words(text)]
    assert [hashes.index(h) for h in hashes] == [words.index(w) for w in words], "equal words, and only those, are equal"


def test_composed_and_other_letters_differ() -> None:
    one, other = unicodedata.normalize("NFC", "é"), unicodedata.normalize("NFD", "é")
    assert words_of(one)[0].tolist() != words_of(other)[0].tolist()
