"""Injections by the published rules, spelled out once more the slow way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from typecase.core.edit.inject import (
    Plan,
    Sample,
    at_end,
    at_position,
    insertion,
    masked,
    removal,
    replacing,
    seq_shuffle,
    seq_start,
)
from typecase.core.edit.spread import spread
from typecase.errors import BadQuery


@st.composite
def samples(draw: Any) -> Sample:
    """A sample of distinct tokens in pieces of distinct sequences."""
    counts = draw(st.lists(st.integers(1, 6), min_size=1, max_size=5))
    starts = draw(st.lists(st.integers(0, 9), min_size=len(counts), max_size=len(counts)))
    pieces = [(7 * k, a, a + n) for k, (a, n) in enumerate(zip(starts, counts, strict=True))]
    return Sample.of(pieces, np.arange(1, sum(counts) + 1, dtype=np.uint16), draw(st.sampled_from([0, 1])))


def published_shuffle(sample: Sample, text: list[int], rng: np.random.Generator) -> tuple[list[int], int, int, int]:
    """`seq_shuffle` of TokenSmith, step for step; the sample, the piece, the window and where the text begins."""
    segments, done = [], 0
    for count in sample.counts:
        segments.append(sample.tokens[done : done + count].tolist())
        done += count
    length = done - sample.extra
    p = int(rng.choice(len(segments)))
    s = sum(len(x) for x in segments[:p])
    w = 0
    if p > 0:
        w = int(rng.choice(len(text)))
        e = s + len(text)
        w = min(w, s)
        if w + length + sample.extra < e:
            w = max(w, e - length - 1)
    whole = [t for x in segments[:p] for t in x] + text + [t for x in segments[p:] for t in x]
    return whole[w : w + done], p, w, s - w


def applied(sample: Sample, plan: Plan) -> list[int]:
    """The sample after the edits, by hand."""
    now = sample.tokens.copy()
    done = 0
    for sequence, start, stop in sample.pieces:
        for e in plan.edits:
            if e.sequence == sequence:
                for k in range(len(e.new)):
                    if start <= e.start + k < stop:
                        assert now[done + e.start + k - start] == e.old[k]
                        now[done + e.start + k - start] = e.new[k]
        done += stop - start
    return now.tolist()


@given(sample=samples(), size=st.integers(1, 12), seed=st.integers(0, 50))
def test_seq_shuffle_is_the_published_one(sample: Sample, size: int, seed: int) -> None:
    text = list(range(900, 900 + size))
    if size > len(sample.tokens):
        with pytest.raises(BadQuery, match="do not fit the sample"):
            seq_shuffle(sample, text, np.random.default_rng(seed))
        return
    plan = seq_shuffle(sample, text, np.random.default_rng(seed))
    told, piece, window, at = published_shuffle(sample, text, np.random.default_rng(seed))
    held = [t for t in told if t >= 900]
    assert (plan.piece, plan.at + (plan.offset or 0)) == (piece, at + window)
    if held == text:
        assert (plan.after.tolist(), plan.offset, plan.at) == (told, window, at)
    else:
        assert sample.extra == 0  # the one case in which the published rule asserts
    assert plan.after[plan.at : plan.at + size].tolist() == text
    assert applied(sample, plan) == plan.after.tolist() and len(plan.after) == len(sample.tokens)


@given(sample=samples(), data=st.data())
def test_placed_injections_overwrite_and_shift_nothing(sample: Sample, data: st.DataObject) -> None:
    size = data.draw(st.integers(1, len(sample.tokens)))
    text = list(range(900, 900 + size))
    place = data.draw(st.integers(0, len(sample.tokens) - size))
    last = len(sample.tokens) - size
    plans = [(seq_start(sample, text), 0), (at_end(sample, text), last), (at_position(sample, text, place), place)]
    for plan, at in plans:
        told = sample.tokens.tolist()
        told[at : at + size] = text
        assert plan.after.tolist() == told == applied(sample, plan)
        assert sum(len(e.new) for e in plan.edits) == size  # and no token beyond it is touched
    with pytest.raises(BadQuery, match="leave the sample"):
        at_position(sample, text, last + 1)
    with pytest.raises(BadQuery, match="leave the sample"):
        at_position(sample, text, -1)


def test_replacing_masking_and_their_refusals() -> None:
    sample = Sample.of([(0, 0, 4), (1, 0, 2)], np.array([1, 2, 3, 4, 3, 4], np.uint16))
    assert replacing(sample, [3, 4], [8, 9]).after.tolist() == [1, 2, 8, 9, 3, 4]
    assert replacing(sample, [3, 4], [], fill=0).after.tolist() == [1, 2, 0, 0, 3, 4]
    with pytest.raises(BadQuery, match="2 tokens cannot become 1"):
        replacing(sample, [3, 4], [8])
    with pytest.raises(BadQuery, match="2 tokens cannot become 3"):
        replacing(sample, [3, 4], [8, 8, 8], fill=0)
    assert masked(sample, 1, 5, 0).after.tolist() == [1, 0, 0, 0, 0, 4]
    with pytest.raises(BadQuery, match="nothing to mask"):
        masked(sample, 2, 2, 0)
    with pytest.raises(BadQuery, match="nothing to inject"):
        seq_start(sample, [])
    with pytest.raises(BadQuery, match="the pieces of the sample have 3 tokens, 2 were given"):
        Sample.of([(0, 0, 3)], [1, 2])


def test_removing_and_inserting_move_what_follows() -> None:
    sample = Sample.of([(0, 5, 8), (1, 0, 2)], np.array([1, 2, 3, 4, 5], np.uint16))
    told = [(e.sequence, e.start, e.old.tolist(), e.new.tolist()) for e in removal(sample, 1, 4)]
    assert told == [(0, 6, [2, 3], []), (1, 0, [4], [])]
    for position, place in ((0, (0, 5)), (2, (0, 7)), (3, (1, 0)), (5, (1, 2))):
        edit = insertion(sample, [9, 9], position)
        assert (edit.sequence, edit.start) == place and edit.new.tolist() == [9, 9] and not len(edit.old)
    for wrong in (lambda: removal(sample, 3, 3), lambda: removal(sample, 3, 6), lambda: insertion(sample, [9], 6)):
        with pytest.raises(BadQuery):
            wrong()


def test_a_token_read_twice_becomes_one_thing() -> None:
    sample = Sample.of([(6, 0, 4), (6, 0, 2)], np.array([1, 2, 3, 4, 1, 2], np.uint16))
    assert seq_start(sample, [8]).after.tolist() == [8, 2, 3, 4, 8, 2]  # what the sample will be, not what was asked for alone
    assert at_position(sample, [8, 9, 8, 9], 2).after.tolist() == [8, 9, 8, 9, 8, 9]
    with pytest.raises(BadQuery, match="reads token 0 of sequence 6 twice"):
        at_position(sample, [1, 1, 1, 1, 7, 7], 0)


def test_spread_is_pinned() -> None:
    """Changing these is a decision: experiments would not repeat."""
    assert [p.sample for p in spread(2, 3, over=range(1000), seed=7)] == SAMPLES
    assert [p.sample for p in spread(2, 3, over=range(1000), seed=7, batches=np.arange(1000) // 10)] == BATCHED


SAMPLES = [577, 682, 895, 940, 622, 775]
BATCHED = [578, 669, 870, 894, 608, 771]


@given(texts=st.integers(0, 5), copies=st.integers(1, 4), seed=st.integers(0, 9), batch=st.none() | st.integers(1, 4))
def test_spread_draws_without_replacement(texts: int, copies: int, seed: int, batch: int | None) -> None:
    steps = [0, 3, 4, 9, 11, 12, 13, 20, 21, 22, 23, 24, 30, 31, 32, 33, 34, 35, 36, 37]
    over = [4 * step + k for step in steps for k in range(4)]
    batches = None if batch is None else np.array(over) // batch
    placed = spread(texts, copies, over=over, seed=seed, batches=batches)
    assert [(p.text, p.copy) for p in placed] == [(t, c) for t in range(texts) for c in range(copies)]
    units = [p.sample if batch is None else p.sample // batch for p in placed]
    assert len(set(units)) == len(units) and {p.sample for p in placed} <= set(over)
    assert placed == spread(texts, copies, over=over, seed=seed, batches=batches)
