"""Keyed: a bijection that looks drawn by lot, and the same order as its own tables."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from typecase.core.order.keyed import KeyedOrder, permuted, unpermuted
from typecase.errors import BadQuery

LENGTHS = st.lists(st.integers(0, 9), min_size=1, max_size=12).filter(any)


def chi_square(counts):
    """Per degree of freedom: about 1 for even lots."""
    expected = np.sum(counts) / len(counts)
    return float(np.sum((np.asarray(counts) - expected) ** 2) / expected / (len(counts) - 1))


def pieces(packing, k):
    return [(p.doc, p.span.start, p.span.stop) for p in packing[k]]


@given(block=st.integers(1, 5000), seed=st.integers(0, 2**64 - 1), number=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_every_block_is_permuted_within_itself(block, seed, number):
    own = np.arange(number * block, (number + 1) * block)
    shuffled = permuted(own, block, seed)
    np.testing.assert_array_equal(np.sort(shuffled), own)
    np.testing.assert_array_equal(unpermuted(shuffled, block, seed), own)


@pytest.mark.parametrize("block", [10**12, 2**40, 2**40 + 1, 10**12 - 1, 2**61])
def test_blocks_of_any_size_have_an_inverse(block):
    some = np.random.default_rng(3).integers(0, 2**62, 5000)
    there = permuted(some, block, 9)
    np.testing.assert_array_equal(there // block, some // block)
    np.testing.assert_array_equal(unpermuted(there, block, 9), some)


def test_pinned_values():
    assert permuted(np.arange(10), 10, 1234).tolist() == [9, 8, 0, 6, 4, 2, 5, 7, 3, 1]
    assert permuted(np.arange(10) * 10**11, 10**12, 1234).tolist() == [
        88184552698,
        370817564868,
        392880567650,
        918700307561,
        483103242164,
        820111692553,
        434079382222,
        754642435775,
        995342522162,
        825593365587,
    ]


@pytest.mark.parametrize("block", [2, 3, 4, 5])
def test_all_permutations_of_few_are_drawn_alike(block):
    kinds = {p: k for k, p in enumerate(permutations(range(block)))}
    shuffled = np.stack([permuted(np.arange(block), block, seed) for seed in range(len(kinds) * 60)])
    counts = np.bincount([kinds[tuple(row)] for row in shuffled.tolist()], minlength=len(kinds))
    assert counts.min() > 0
    assert chi_square(counts) < (5 if len(kinds) < 10 else 1.8)


@pytest.mark.parametrize("block", [64, 97, 100, 257])
def test_every_place_is_spread_evenly_over_seeds_and_over_blocks(block):
    by_seed = np.stack([permuted(np.arange(block), block, seed) for seed in range(block * 20)])
    by_block = permuted(np.arange(block * block * 20), block, 5).reshape(-1, block) % block
    for drawn in (by_seed, by_block):
        for column in (0, 1, block // 2, block - 1):
            assert chi_square(np.bincount(drawn[:, column], minlength=block)) < 1.6
        # Neighbours know nothing of each other: the step from one to the next is even but for 0, which cannot be.
        step = (drawn[:, 1] - drawn[:, 0]) % block
        assert chi_square(np.bincount(step, minlength=block)[1:]) < 1.6


def test_shuffles_have_the_fixed_points_and_cycles_of_chance():
    drawn = permuted(np.arange(400 * 2000), 400, 11).reshape(-1, 400) % 400
    fixed = (drawn == np.arange(400)).sum(axis=1)
    assert 0.88 < fixed.mean() < 1.12 and 0.8 < fixed.var() < 1.2
    rising = (np.diff(drawn, axis=1) > 0).mean()
    assert 0.498 < rising < 0.502


def test_blocks_and_seeds_differ():
    drawn = permuted(np.arange(3000), 1000, 1).reshape(3, 1000) % 1000
    other = permuted(np.arange(3000), 1000, 2).reshape(3, 1000) % 1000
    for a in (*drawn, *other):
        assert sum(int((a == b).sum() > 20) for b in (*drawn, *other)) == 1


@given(
    lengths=LENGTHS,
    seq_length=st.integers(1, 12),
    extra=st.integers(0, 1),
    num_samples=st.integers(1, 40),
    seed=st.integers(0, 2**64 - 1),
    cut=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    given_starts=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_reads_and_sightings_are_those_of_its_tables(lengths, seq_length, extra, num_samples, seed, cut, given_starts):
    lengths = np.array(lengths, np.int32)
    start, stop = cut[0], len(lengths) - cut[1]
    split = (start, stop) if start < stop and lengths[start:stop].any() else None
    order = KeyedOrder(seq_length=seq_length, seed=seed, split=split, extra=extra)
    starts = (np.cumsum(lengths) - lengths + 7).astype(np.uint64) if given_starts else None
    laid = order.lay(lengths, starts=starts, num_samples=num_samples)
    tables = laid.tables()
    asked = np.arange(num_samples)
    ours, theirs = laid.reads(asked), tables.reads(asked)
    for name in ("docs", "starts", "stops", "bounds", "sample_tokens"):
        np.testing.assert_array_equal(getattr(ours.packing, name), getattr(theirs.packing, name), name)
    np.testing.assert_array_equal(ours.samples, theirs.samples)
    np.testing.assert_array_equal(ours.copies, theirs.copies)
    runs = [np.arange(len(lengths)), np.minimum(1, lengths), np.maximum(lengths, 2)]
    ours, theirs = laid.sightings(*runs), tables.sightings(*runs)
    for name in ("runs", "indices", "samples", "at", "starts", "stops", "copies"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), name)


@given(lengths=LENGTHS, seq_length=st.integers(1, 9), extra=st.integers(0, 1))
@settings(max_examples=60, deadline=None)
def test_a_sample_is_its_stretch_of_the_endless_stream(lengths, seq_length, extra):
    stream = [(s, t) for s, length in enumerate(lengths) for t in range(length)]
    laid = KeyedOrder(seq_length=seq_length, seed=3, extra=extra).lay(np.array(lengths, np.int32), num_samples=30)
    reads = laid.reads(range(30))
    for i, k in enumerate(reads.samples.tolist()):
        own = [(doc, t) for doc, low, high in pieces(reads.packing, i) for t in range(low, high)]
        assert own == [stream[x % len(stream)] for x in range(k * seq_length, k * seq_length + seq_length + extra)]


def test_a_longer_run_keeps_its_prefix():
    order, lengths = KeyedOrder(seq_length=16), np.full(100, 20, np.int32)
    short, long = order.lay(lengths), order.lay(lengths, num_samples=1000)
    assert short.num_samples == short.block == 125
    np.testing.assert_array_equal(short.samples_of(range(125)), long.samples_of(range(125)))
    assert long.indices_of(long.samples_of([999])).tolist() == [999]


def test_an_epoch_reads_every_token_about_once():
    lengths = np.random.default_rng(1).integers(1, 200, 300).astype(np.int32)
    laid = KeyedOrder(seq_length=64, extra=0).lay(lengths)
    seen = laid.sightings(np.arange(300), np.zeros(300, int), lengths)
    assert (seen.stops - seen.starts).sum() == laid.num_samples * 64 > lengths.sum() - 64


def test_mapped_sets_of_any_size_are_laid_for_nothing():
    # A billion sequences of 50 tokens, of which no array is ever made.
    many = 10**9
    lengths = np.broadcast_to(np.int32(50), many)
    laid = KeyedOrder(seq_length=2048, split=(10, many)).lay(lengths, starts=_Evenly(many, 50), num_samples=10**8)
    reads = laid.reads([0, 10**8 - 1])
    assert reads.packing.sample_tokens.tolist() == [2049, 2049]
    doc, low, high = pieces(reads.packing, 1)[0]
    assert 10**8 - 1 in laid.sightings([doc], [low], [high]).indices


class _Evenly:
    """Starts of equal sequences, computed as they are asked for."""

    def __init__(self, size, each, first=0):
        self.size, self.each, self.first = size, each, first

    def __len__(self):
        return self.size

    def __getitem__(self, key):
        if isinstance(key, slice):
            first, stop, _ = key.indices(self.size)
            return _Evenly(stop - first, self.each, self.first + first * self.each)
        return (np.asarray(key) % self.size) * self.each + self.first


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"seq_length": 0}, "at least one token"),
        ({"seq_length": 8, "seed": -1}, "2\\^64"),
        ({"seq_length": 8, "extra": 2}, "extra is 2"),
        ({"seq_length": 8, "split": (3, 3)}, "holds no sequence"),
    ],
)
def test_parameters_that_mean_nothing_are_refused(parameters, says):
    with pytest.raises(BadQuery, match=says):
        KeyedOrder(**parameters)


def test_sets_that_cannot_be_laid_and_indices_beyond_are_refused():
    lengths = np.array([5, 0, 5], np.int32)
    order = KeyedOrder(seq_length=4)
    with pytest.raises(BadQuery, match="more than the 3 sequences"):
        KeyedOrder(seq_length=4, split=(0, 4)).lay(lengths)
    with pytest.raises(BadQuery, match="hold no token"):
        KeyedOrder(seq_length=4, split=(1, 2)).lay(lengths)
    with pytest.raises(BadQuery, match="more than the 0"):
        order.lay(np.zeros(0, np.int32))
    with pytest.raises(BadQuery, match="num_samples is 0"):
        order.lay(lengths, num_samples=0)
    with pytest.raises(BadQuery, match="in tokens"):
        order.lay(lengths, starts=np.array([0, 10, 10]))
    with pytest.raises(BadQuery, match="2 starts for 3"):
        order.lay(lengths, starts=np.array([0, 10]))
    laid = order.lay(lengths, num_samples=6)
    for index in (-1, 6):
        with pytest.raises(BadQuery, match=f"no training index {index}"):
            laid.reads([0, index])
    with pytest.raises(BadQuery, match="no member 1"):
        laid.sightings([0], [0], [1], member=1)
    assert laid.sightings([9, 1], [0, 0], [1, 1]).runs.tolist() == []
