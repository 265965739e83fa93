"""Mersenne: equal to numpy's RandomState and to a definition that needs no numpy, for every size, type and continuation."""

import hashlib
from collections.abc import Iterator
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from typecase.core.order.mersenne import Mersenne, _draw_ahead, draw, seeded
from typecase.errors import BadQuery

SHUFFLED = {0: [2, 8, 4, 9, 1, 6, 7, 3, 0, 5], 42: [8, 1, 5, 0, 7, 2, 9, 4, 3, 6], 1234: [7, 2, 9, 1, 0, 8, 4, 5, 6, 3]}
NUMBERS = {
    0: [2357136044, 2546248239, 3071714933, 3626093760, 2588848963],
    42: [1608637542, 3421126067, 4083286876, 787846414, 3143890026],
    1234: [822569775, 2137449171, 2671936806, 3512589365, 1880026316],
}
DIGESTS = {
    0: "246c2d91f597c4a959c432803f3b5ee0f2f0d8f66c6d6433e8ca87131e8201ff",
    42: "57071745552bb2ef097e250edbaf6ddd14a4f0e478d31acfa6d0724b7c87fbd6",
    1234: "f10f39ebc2b7c2c37c3b9cea9a72196aca6f2c751f8096d64e129d310cf35a64",
}
SEEDS = st.sampled_from([0, 1, 42, 1234, 2**32 - 1]) | st.integers(0, 2**32 - 1)
TYPES = st.sampled_from(["i1", "u1", "i2", "u2", "i4", "u4", ">i4", "i8", "u8"])


def plain_numbers(seed: int) -> Iterator[int]:
    """MT19937 as it is defined."""
    mt = [seed]
    for i in range(1, 624):
        mt.append((1812433253 * (mt[-1] ^ mt[-1] >> 30) + i) % 2**32)
    while True:
        for i in range(624):
            y = mt[i] & 0x80000000 | mt[(i + 1) % 624] & 0x7FFFFFFF
            mt[i] = mt[(i + 397) % 624] ^ y >> 1 ^ (0x9908B0DF if y % 2 else 0)
        for x in list(mt):
            x ^= x >> 11
            x ^= x << 7 & 0x9D2C5680
            x ^= x << 15 & 0xEFC60000
            yield x ^ x >> 18


def plain_draw(numbers: Iterator[int], limit: int) -> int:
    if limit == 0:
        return 0
    mask = 2 ** limit.bit_length() - 1
    while True:
        value = next(numbers) if limit < 2**32 else next(numbers) << 32 | next(numbers)
        if value & mask <= limit:
            return value & mask


def plain_shuffle(numbers: Iterator[int], items: list[int]) -> None:
    for i in range(len(items) - 1, 0, -1):
        j = plain_draw(numbers, i)
        items[i], items[j] = items[j], items[i]


@pytest.mark.parametrize("seed", SHUFFLED)
def test_published_values(seed: int) -> None:
    ours = Mersenne(seed)
    assert [ours.draw(2**32 - 1) for _ in range(5)] == list(islice(plain_numbers(seed), 5)) == NUMBERS[seed]
    assert Mersenne(seed).shuffled_range(10).tolist() == SHUFFLED[seed]
    assert hashlib.sha256(Mersenne(seed).shuffled_range(1000).tobytes()).hexdigest() == DIGESTS[seed]


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.lists(st.integers(0, 700), min_size=1, max_size=4))
def test_three_ways_to_shuffle_agree_while_the_stream_goes_on(seed: int, sizes: list[int]) -> None:
    ours, theirs, plain = Mersenne(seed), np.random.RandomState(seed), plain_numbers(seed)
    for n in sizes:
        mine, numpys, items = np.arange(n), np.arange(n), list(range(n))
        ours.shuffle(mine)
        theirs.shuffle(numpys)
        plain_shuffle(plain, items)
        assert mine.tolist() == numpys.tolist() == items


@settings(max_examples=60, deadline=None)
@given(SEEDS, TYPES, st.lists(st.sampled_from([0, 1, 2, 255, 256, 257, 623, 5000, 70_000]), max_size=3))
def test_every_type_shuffles_as_numpy(seed: int, dtype: str, sizes: list[int]) -> None:
    ours, theirs = Mersenne(seed), np.random.RandomState(seed)
    for n in sizes:
        mine = np.arange(n).astype(dtype)
        numpys = mine.copy()
        ours.shuffle(mine)
        theirs.shuffle(numpys)
        assert np.array_equal(mine, numpys)


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.lists(st.integers(0, 2**63 - 1) | st.integers(2**32 - 3, 2**32 + 3) | st.integers(0, 9), max_size=300))
def test_draws_of_one_and_of_two_words(seed: int, limits: list[int]) -> None:
    ours, plain = Mersenne(seed), plain_numbers(seed)
    assert [ours.draw(limit) for limit in limits] == [plain_draw(plain, limit) for limit in limits]


@pytest.mark.parametrize("limit", [2**32 - 1, 2**32, 2**32 + 1, 3 * 2**33])
def test_draws_about_two_words_are_those_of_numpy(limit: int) -> None:
    state, theirs = seeded(7), np.random.RandomState(7)
    words = iter(theirs.randint(0, 2**32, 4000, np.uint32).tolist())
    assert [draw(state, limit) for _ in range(500)] == [plain_draw(words, limit) for _ in range(500)]


def test_draws_ahead_of_a_shuffle_go_from_two_words_to_one() -> None:
    state, plain = seeded(3), plain_numbers(3)
    top, found = 2**32 + 300, []
    while top > 2**32 - 400:
        js = np.zeros(257, np.uint64)
        count = _draw_ahead(state, np.zeros(1, np.uint8), top, js)
        found += js[:count].tolist()
        top -= count
    assert found == [plain_draw(plain, 2**32 + 300 - k) for k in range(len(found))]


def test_nought_or_one_element_use_no_number() -> None:
    ours = Mersenne(5)
    ours.shuffle(np.zeros(0, np.int32))
    ours.shuffle(np.zeros(1, np.int32))
    assert ours.draw(0) == 0
    assert np.array_equal(ours.shuffled_range(99), Mersenne(5).shuffled_range(99))


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_seeds_of_numpy_only(seed: int) -> None:
    with pytest.raises(BadQuery, match="from 0 to 2\\^32 - 1"):
        Mersenne(seed)


def test_what_cannot_be_shuffled_or_drawn() -> None:
    frozen = np.arange(9)
    frozen.flags.writeable = False
    for array in (np.zeros((3, 3), np.int64), np.arange(9)[::2], np.zeros(9), frozen):
        with pytest.raises(BadQuery, match="cannot shuffle"):
            Mersenne(1).shuffle(array)
    for limit in (-1, 2**63):
        with pytest.raises(BadQuery, match="cannot draw"):
            Mersenne(1).draw(limit)
