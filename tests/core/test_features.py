"""Features: the scanner and the hashed n-grams against slow readable versions; measures that are finite, named, and
the same wherever a text stands in a batch; windows that tile."""

from __future__ import annotations

import math
import re
from collections import Counter

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from typecase.core.features.lexicon import Lexicon, Words, find, in_words, pack_words, word_filter, word_keys
from typecase.core.features.measures import MEASURES, features, measure_names, measure_texts
from typecase.core.features.ngrams import (
    Weights,
    byte_ngrams,
    gram,
    inverse_frequency,
    primal_weights,
    row_weights,
    token_ngrams,
)
from typecase.core.features.scan import MARK, NEWLINE, NUMBER, WORD, new_lines, new_tokens, scan
from typecase.core.features.windows import cut_windows
from typecase.lm.rate.rater import pack_texts

TEXTS = st.lists(st.text(alphabet=st.sampled_from("abcXYZéД日。“09 .,\n\t's-_()"), max_size=80), min_size=1, max_size=6)
NO_LETTERS = np.zeros(27**3, np.uint8)


def lexicon(**classes: str) -> Lexicon:
    bits: Counter[int] = Counter()
    for place, words in enumerate(classes.values()):
        for key in word_keys(words.split()).tolist():
            bits[key] |= 1 << place
    keys = np.array(sorted(bits), np.uint64)
    mask = np.array([bits[int(key)] for key in keys], np.uint64)
    words_of = pack_words(keys, mask, np.zeros(len(keys), np.uint8), word_filter(keys, bits=4), NO_LETTERS)
    return Lexicon(tuple(classes), words_of)


PLAIN = lexicon(animal="cat dog", sea="fish boat", both="cat boat")


def kinds(text: str) -> list[tuple[int, str]]:
    data = text.encode()
    tokens, lines = new_tokens(len(data)), new_lines(len(data))
    num, _ = scan(np.frombuffer(data, np.uint8), tokens, lines)
    return [(int(tokens.kind[i]), data[tokens.start[i] : tokens.stop[i]].decode()) for i in range(num)]


def measured(*texts: str) -> np.ndarray:
    values, offsets = pack_texts(texts)
    return measure_texts(values, offsets[:-1], offsets[1:], PLAIN)


def one(text: str, name: str) -> float:
    return float(measured(text)[0, measure_names(PLAIN).index(name)])


@given(st.text(alphabet=st.sampled_from("abXY09 .,-_()\n"), max_size=60))
def test_ascii_tokens_equal_a_regular_expression(text: str) -> None:
    names = {"w": WORD, "n": NUMBER, "l": NEWLINE, "m": MARK}
    found = re.finditer(r"(?P<w>[A-Za-z]+)|(?P<n>[0-9]+)|(?P<l>\n+)|(?P<m>([.,\-_()])\5*)", text)
    assert kinds(text) == [(names[m.lastgroup or "m"], m.group()) for m in found]


def test_words_are_keyed_in_lower_case_without_plural_and_possession() -> None:
    same = ["cat", "Cat", "CATS", "cats", "cat's"]
    data = [np.frombuffer(word.encode(), np.uint8) for word in same]
    tokens, lines = new_tokens(20), new_lines(20)
    keys = []
    for word in data:
        scan(word, tokens, lines)
        keys.append(int(tokens.key[0]))
    assert len(set(keys)) == 1
    assert len({int(key) for key in word_keys(["cat", "car", "gas", "glass", "été", "ÉTÉ", "дом"])}) == 6


def test_every_byte_of_a_token_is_inside_the_text_for_any_bytes() -> None:
    dice = np.random.default_rng(3)
    for _ in range(200):
        text = dice.integers(0, 256, dice.integers(0, 60)).astype(np.uint8)
        tokens, lines = new_tokens(len(text)), new_lines(len(text))
        num, num_lines = scan(text, tokens, lines)
        starts, stops = tokens.start[:num], tokens.stop[:num]
        assert (starts < stops).all() and (stops[:-1] <= starts[1:]).all() and (num == 0 or stops[-1] <= len(text))
        assert (lines.first[:num_lines] < lines.last[:num_lines]).all()


@given(st.lists(st.binary(max_size=120), min_size=1, max_size=5))
def test_measures_of_any_bytes_are_finite(texts: list[bytes]) -> None:
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int64)
    out = measure_texts(np.frombuffer(b"".join(texts), np.uint8), offsets[:-1], offsets[1:], PLAIN)
    assert np.isfinite(out).all() and out.shape == (len(texts), len(measure_names(PLAIN)))


@given(TEXTS)
def test_a_text_measures_the_same_wherever_it_stands(texts: list[str]) -> None:
    together = measured(*texts)
    for row, text in enumerate(texts):
        np.testing.assert_array_equal(together[row], measured("x" * 500, text)[1])


def test_the_names_of_measures_are_distinct() -> None:
    names = measure_names(PLAIN)
    assert len(set(names)) == len(names) and names[: len(MEASURES)] == MEASURES and "quality" not in " ".join(names)


def test_measures_say_what_their_names_say() -> None:
    assert one("One.\nTwo.\nOne.\n", "lines_repeated") == pytest.approx(1 / 3)
    assert one("a b a b a b a b", "pairs_repeated") == pytest.approx(6 / 8)
    assert one("Aa bb. Cc dd. ee", "log_sentences") == pytest.approx(math.log(4))
    assert one("well w3ll", "words_with_digits") > 0
    assert one("the end", "begins_lower") == 1 and one("The end.", "begins_lower") == 0
    assert one("The end.", "ends_stopped") == 1
    assert one("* a\n* b\nplain", "lines_bulleted") == pytest.approx(2 / 3)
    assert one("Ã©tÃ©", "mojibake") > 0 and one("été", "mojibake") == 0
    assert one("word ,word", "space_before_mark") > 0
    assert one("zzz" * 40, "bytes_repeated") > 0.8


def test_two_woven_texts_run_on_at_distance_two() -> None:
    woven = "\n".join(
        f"{a}\n{b}" for a, b in zip(["we saw the", "cat on the", "mat today"] * 3, ["He said", "That All", "Was Lost"] * 3)
    )
    assert one(woven, "run_on_2") > one(woven, "run_on_1")


def test_classes_share_the_weight_of_words() -> None:
    names = measure_names(PLAIN)
    row = measured("cat dog house fish")[0]
    share = {name: row[names.index(f"class {name}")] for name in PLAIN.classes}
    whole = 4.0
    assert share["animal"] == pytest.approx(((1 / math.sqrt(2) + 1) / whole) ** 0.75, rel=1e-5)
    assert share["sea"] == pytest.approx((1 / whole) ** 0.75, rel=1e-5)
    assert share["both"] == pytest.approx((1 / math.sqrt(2) / whole) ** 0.75, rel=1e-5)


def test_a_lexicon_finds_what_was_packed_and_only_that() -> None:
    keys = word_keys([f"w{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(300)])
    words: Words = pack_words(keys, np.arange(300, dtype=np.uint64), np.zeros(300, np.uint8), keys[:4], NO_LETTERS)
    assert [int(words.mask[find(key, words.keys)]) for key in keys] == list(range(300))
    assert words.keys[find(np.uint64(12345), words.keys)] == 0
    assert len(words.keys) >= 600


def test_a_word_filter_never_forgets() -> None:
    keys = word_keys([f"w{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(300)])
    blocks = word_filter(keys, bits=6)
    assert all(in_words(key, blocks) for key in keys)
    strangers = np.arange(1, 20_001, 2, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    assert sum(in_words(key, blocks) for key in strangers) < 1000


def test_a_lexicon_word_is_one_word() -> None:
    with pytest.raises(ValueError, match="'two words' is not one word"):
        word_keys(["two words"])


@given(TEXTS)
def test_byte_ngrams_equal_a_slow_count(texts: list[str]) -> None:
    values, offsets = pack_texts(texts)
    rows = byte_ngrams(values, offsets[:-1], offsets[1:], low=2, high=4, bits=30)
    for row, text in enumerate(texts):
        data = text.encode()
        slow = Counter(data[i : i + width] for width in (2, 3) for i in range(len(data) - width + 1))
        fast = rows.counts[rows.ends[row] : rows.ends[row + 1]]
        assert sorted(fast.tolist()) == sorted(slow.values())


@given(TEXTS)
@settings(max_examples=30)
def test_one_pass_of_weights_equals_rows_times_weights(texts: list[str]) -> None:
    texts = [*texts, "a cat and a dog", "a cat and a boat at sea"]
    values, offsets = pack_texts(texts)
    rows = token_ngrams(values, offsets[:-1], offsets[1:], bits=10)
    idf = inverse_frequency(rows, bits=10)
    duals = np.random.default_rng(1).normal(size=(len(texts), 3))
    weights: Weights = primal_weights(rows, row_weights(rows, idf), duals, idf, bits=10)
    _, fast = features(values, offsets[:-1], offsets[1:], PLAIN, weights)
    dense = np.zeros((len(texts), 1 << 10))
    for row in range(len(texts)):
        entries = slice(rows.ends[row], rows.ends[row + 1])
        dense[row, rows.buckets[entries]] = row_weights(rows, idf)[entries]
    np.testing.assert_allclose(fast, dense @ (weights.table * weights.scale), atol=1e-4)
    np.testing.assert_allclose(gram(rows, row_weights(rows, idf), bits=10, against=2), dense @ dense[:2].T, atol=1e-9)


@given(st.lists(st.text(alphabet=st.sampled_from("ab é\n日"), max_size=9000), min_size=1, max_size=4))
@settings(max_examples=40)
def test_windows_tile_their_texts_at_character_boundaries(texts: list[str]) -> None:
    values, offsets = pack_texts(texts)
    windows = cut_windows(values, offsets, window_bytes=1024, max_windows=1000)
    data = values.tobytes()
    for doc in range(len(texts)):
        spans = [(int(a), int(b)) for d, a, b in zip(windows.doc, windows.start, windows.stop) if d == doc]
        covered = "".join(data[a:b].decode() for a, b in spans)
        assert covered.split() == texts[doc].split() and all(b - a <= 1024 + 256 for a, b in spans)


def test_a_budget_of_windows_keeps_the_ends() -> None:
    values, offsets = pack_texts(["word " * 20_000])
    windows = cut_windows(values, offsets, window_bytes=1024, max_windows=5)
    assert len(windows.doc) == 5 and windows.start[0] == 0 and windows.stop[-1] == len(values)
    assert windows.first.tolist() == [True, False, False, False, False] and windows.last.tolist()[-1]


def test_white_space_has_no_window() -> None:
    values, offsets = pack_texts(["", " \n\t ", "x"])
    assert cut_windows(values, offsets, window_bytes=1024, max_windows=5).doc.tolist() == [2]
