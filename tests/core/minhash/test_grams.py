"""N-grams of items in documents: what is found, how much of it, and the longest stretch."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from typecase.core.minhash.grams import Overlap, grams_of_items, overlaps, token_units, touched_texts, touched_units
from typecase.core.minhash.words import words_of

IDS = st.lists(st.integers(0, 3), max_size=16)


def units(ids: list[int]) -> np.ndarray:
    return token_units(np.array(ids, np.int64))


def test_a_shared_stretch_and_its_place() -> None:
    item, document = words_of("who wrote the old man and the sea")[0], words_of("asked who wrote the Old Man and then?")[0]
    grams = grams_of_items([item], 5, 1)
    assert overlaps(grams, document) == [Overlap(0, 2, 1, 7)]
    assert grams.sizes.tolist() == [4]


def test_the_longest_of_two_stretches_is_told() -> None:
    grams = grams_of_items([units(list(range(20)))], 3, 1)
    document = units([0, 1, 2, 99, 10, 11, 12, 13, 99, 5, 6, 7])
    assert overlaps(grams, document) == [Overlap(0, 4, 4, 8)]


@given(st.lists(IDS, max_size=4), IDS, st.integers(1, 5), st.integers(0, 3))
def test_found_equals_sets_of_tuples(items: list[list[int]], document: list[int], n: int, shortest: int) -> None:
    grams = grams_of_items([units(item) for item in items], n, shortest)
    expected = {}
    for number, item in enumerate(items):
        size = min(n, len(item))
        if size and len(item) >= shortest:
            mine = {tuple(item[k : k + size]) for k in range(len(item) - size + 1)}
            held = mine & {tuple(document[k : k + size]) for k in range(len(document) - size + 1)}
            assert grams.sizes[number] == len(mine)
            if held:
                expected[number] = len(held)
        else:
            assert grams.sizes[number] == 0
    found = overlaps(grams, units(document))
    assert {one.item: one.found for one in found} == expected
    assert [one.item for one in found] == sorted(expected)
    offsets = np.array([0, len(document), len(document)])
    assert touched_units(grams, units(document), offsets).tolist() == [bool(expected), False]


def test_texts_are_touched_by_their_words() -> None:
    grams = grams_of_items([words_of("one two three four")[0]], 3, 1)
    raw = [text.encode() for text in ("One, TWO: three!", "one two", "", "x two three four y")]
    values, offsets = np.frombuffer(b"".join(raw), np.uint8), np.cumsum([0, *map(len, raw)]).astype(np.int64)
    assert touched_texts(grams, values, offsets).tolist() == [True, False, False, True]
