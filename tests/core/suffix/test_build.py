"""The suffix array is the sorted list of suffixes: of any vocabulary, with and without fences, however repetitive."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from tests.core.suffix.naive import doubled_array, naive_array, texts
from typecase.core.suffix import build, crew, doubling, windows
from typecase.core.suffix.build import suffix_array


def fibonacci(n):
    a, b = np.array([1], np.uint16), np.array([1, 0], np.uint16)
    while len(b) < n:
        a, b = b, np.concatenate((b, a))
    return b[:n].copy()


def natural(n, seed=5):
    """Skewed ids with long repeats, about as a crawl has them."""
    rng = np.random.default_rng(seed)
    tokens = np.minimum(rng.zipf(1.3, n) - 1, 49_999).astype(np.uint16)
    for _ in range(n // 2_000):
        size = int(rng.integers(1, 900))
        source, target = rng.integers(0, n - size, 2)
        tokens[target : target + size] = tokens[source : source + size].copy()
    return tokens


def random_ends(n, number, seed=6):
    ends = np.sort(np.random.default_rng(seed).integers(0, n + 1, number))
    ends[-1] = n
    return ends


@settings(max_examples=400, deadline=None)
@given(texts())
def test_it_is_the_sorted_list_of_suffixes(text):
    tokens, ends = text
    array = suffix_array(tokens, ends)
    assert array.dtype == np.uint32
    assert array.tolist() == naive_array(tokens, ends)


def test_the_drawn_example():
    tokens, ends = np.array([7, 9, 7, 9, 7, 7]), np.array([3, 4, 6])
    assert suffix_array(tokens, ends).tolist() == naive_array(tokens, ends) == [2, 5, 4, 0, 3, 1]


@pytest.mark.parametrize("ends", [None, [], [0], [0, 0]])
def test_no_tokens(ends):
    assert suffix_array(np.empty(0, np.uint16), None if ends is None else np.array(ends, np.int64)).tolist() == []


def test_equal_suffixes_are_in_the_order_of_positions():
    tokens = np.tile(np.array([5, 6, 7], np.uint8), 50)
    array = suffix_array(tokens, np.arange(3, 151, 3))
    assert array.tolist() == [*range(0, 150, 3), *range(1, 150, 3), *range(2, 150, 3)]


LONG = {
    "one token": (np.full(150_000, 7, np.uint16), None),
    "one token, fenced": (np.full(150_000, 7, np.uint16), random_ends(150_000, 40)),
    "period 2": (np.resize(np.array([4, 2], np.uint16), 150_000), None),
    "period 3": (np.resize(np.array([4, 2, 9], np.uint16), 150_000), None),
    "fibonacci": (fibonacci(150_000), None),
    "a document again and again": (np.tile(natural(100), 2_000), np.arange(100, 200_001, 100)),
    "the same, not fenced": (np.tile(natural(100), 2_000), None),
    "documents of one token": (natural(150_000), np.arange(1, 150_001)),
    "four ids": (np.random.default_rng(1).integers(0, 4, 200_000).astype(np.uint8), None),
    "rising ids": (np.tile(np.arange(5_000, dtype=np.uint16), 40), None),
    "runs": (np.repeat(np.random.default_rng(2).integers(0, 3, 300), 700).astype(np.uint16), random_ends(210_000, 7)),
    "every id differs": (np.random.default_rng(3).permutation(200_000).astype(np.int32) * 10_000, None),
    "natural": (natural(300_000), random_ends(300_000, 500)),
    "natural, not fenced": (natural(300_000), None),
    "two long valleys": (np.concatenate([np.r_[2, np.full(70_000, 1), 2, 3]] * 2).astype(np.uint16), None),
}


@pytest.mark.parametrize("name", LONG)
def test_long_texts_against_prefix_doubling(name):
    tokens, ends = LONG[name]
    array = suffix_array(tokens, ends, threads=2)
    if name.startswith("one token") and ends is None:
        assert np.array_equal(array, np.arange(len(tokens))[::-1])
    else:
        assert np.array_equal(array, doubled_array(tokens, ends))


@pytest.mark.parametrize("threads", [2, 3, 7])
@pytest.mark.parametrize("name", ["natural", "fibonacci", "a document again and again", "four ids", "rising ids"])
def test_threads_change_nothing(name, threads):
    tokens, ends = LONG[name]
    assert np.array_equal(suffix_array(tokens, ends, threads=threads), suffix_array(tokens, ends))


@pytest.mark.parametrize("dtype", [np.uint16, np.int16, np.uint32, np.int32, np.int64, np.uint64])
def test_the_dtype_changes_nothing(dtype):
    tokens, ends = natural(60_000) % 30_000, random_ends(60_000, 90)
    assert np.array_equal(suffix_array(tokens.astype(dtype), ends), suffix_array(tokens, ends))


@pytest.mark.parametrize("ids", [60_000, 150_000, 3_000_000, 2**31 - 1, 2**62])
def test_large_vocabularies(ids):
    rng = np.random.default_rng(4)
    vocabulary = np.unique(rng.integers(0, ids, 120_000))
    tokens = rng.choice(vocabulary, 150_000)
    tokens[100_000:101_000] = tokens[:1_000]
    ends = random_ends(150_000, 100)
    assert np.array_equal(suffix_array(tokens, ends, threads=2), doubled_array(tokens, ends))


@pytest.mark.parametrize("name", ["natural", "fibonacci", "period 2"])
def test_small_tasks_take_every_road(name, monkeypatch):
    """Heavy buckets, long groups and spans of the text, at a size that a test can afford."""
    tokens, ends = LONG[name]
    expected = suffix_array(tokens, ends)
    monkeypatch.setattr(windows, "LARGE", 64)
    monkeypatch.setattr(doubling, "_CHUNK", 64)
    monkeypatch.setattr(crew.spans, "__defaults__", (16,))
    assert np.array_equal(suffix_array(tokens, ends, threads=5), expected)


@settings(max_examples=60, deadline=None)
@given(texts())
def test_small_tasks_on_small_texts(text):
    tokens, ends = text
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "LARGE", 2)
        patch.setattr(doubling, "_CHUNK", 2)
        patch.setattr(crew.spans, "__defaults__", (2,))
        array = suffix_array(tokens, ends, threads=3)
    assert array.tolist() == naive_array(tokens, ends)


@pytest.mark.parametrize("name", ["natural", "fibonacci", "a document again and again", "documents of one token", "runs"])
@pytest.mark.parametrize("wide_from", [build.WIDE_FROM, 1])
def test_reducing_at_every_level(name, wide_from, monkeypatch):
    tokens, ends = LONG[name]
    expected = suffix_array(tokens, ends)
    monkeypatch.setattr(doubling, "ROUNDS", 0)
    monkeypatch.setattr(doubling, "OPEN", 1 << 40)
    monkeypatch.setattr(build, "WIDE_FROM", wide_from)
    assert np.array_equal(suffix_array(tokens, ends, threads=2), expected)


@settings(max_examples=150, deadline=None)
@given(texts())
def test_reducing_small_texts(text):
    tokens, ends = text
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(doubling, "ROUNDS", 0)
        patch.setattr(doubling, "OPEN", 1 << 40)
        array = suffix_array(tokens, ends)
    assert array.tolist() == naive_array(tokens, ends)


@pytest.mark.parametrize("name", ["natural", "fibonacci", "a document again and again", "runs"])
def test_wide_entries(name, monkeypatch):
    tokens, ends = LONG[name]
    expected = suffix_array(tokens, ends)
    monkeypatch.setattr(build, "WIDE_FROM", 1)
    array = suffix_array(tokens, ends, threads=2)
    assert array.dtype == np.uint32
    assert np.array_equal(array, expected)


def test_read_only_and_strided_tokens():
    tokens = natural(2_000)
    expected = suffix_array(tokens[::2].copy())
    tokens.setflags(write=False)
    assert np.array_equal(suffix_array(tokens[::2]), expected)


@pytest.mark.parametrize(
    ("tokens", "ends", "said"),
    [
        ([3, -1, 2], None, "found -1 at position 1"),
        ([3, 1, 2], [2], r"ends at \[2\], the text has 3 tokens"),
        ([3, 1, 2], [], "the text has 3 tokens"),
        ([3, 1, 2], [2, 1, 3], "must rise"),
        ([3, 1, 2], [-1, 3], "must rise"),
        ([[3, 1]], None, "one row of integers"),
        ([1.5], None, "one row of integers"),
    ],
)
def test_what_is_refused(tokens, ends, said):
    with pytest.raises(ValueError, match=said):
        suffix_array(np.array(tokens), None if ends is None else np.array(ends, np.int64))
