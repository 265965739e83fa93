"""Ranks: exact where few scores differ, close where many do, never falling, the same for any shards."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.naive_selection import naive_rank
from typecase.core.document import id_from_key
from typecase.core.selection.keys import id_words, raw_ids
from typecase.core.selection.ranks import Ranks
from typecase.core.selection.scores import slice_pool
from typecase.core.selection.selection import Pool

VALUES = st.one_of(st.sampled_from([0.0, -0.0, 1.0, 2.0, np.nan, np.inf]), st.floats(-1e300, 1e300))


def pool_of(scores: list[float], strata: list[int], amounts: list[int] | None = None) -> Pool:
    num = len(scores)
    return Pool(
        raw_ids([id_from_key(str(i)) for i in range(num)]) if num else np.zeros((0, 16), np.uint8),
        np.array(amounts if amounts is not None else [1] * num, np.int64),
        np.array(strata, np.int32),
        np.array(scores, np.float64),
    )


def ranks_in(pool: Pool, ranks: Ranks) -> np.ndarray:
    return ranks.of_rows(pool.score, pool.stratum, *id_words(pool.ids))


@given(st.lists(st.tuples(VALUES, st.integers(0, 2)), max_size=60), st.booleans(), st.integers(0, 60))
def test_small_groups_are_exact_for_any_shards(rows: list[tuple[float, int]], whole: bool, cut: int) -> None:
    pool = pool_of([s for s, _ in rows], [g for _, g in rows])
    ranks = Ranks.of([slice_pool(pool, cut, len(rows)), slice_pool(pool, 0, min(cut, len(rows)))], 3, whole=whole)
    ids = [id_from_key(str(i)) for i in range(len(rows))]
    for i, (score, group) in enumerate(rows):
        mine = [s for s, g in rows if (whole or g == group) and np.isfinite(s)]
        found = ranks_in(pool, ranks)[i]
        if np.isfinite(score):
            assert found == pytest.approx(naive_rank(ids[i], score, mine), abs=1e-12)
        else:
            assert np.isnan(found)


@pytest.mark.parametrize("kind", ["normal", "levels", "heavy tie", "tiny range"])
def test_large_groups_are_close_and_never_fall(kind: str) -> None:
    rng = np.random.default_rng(3)
    num = 200_000
    scores = {
        "normal": rng.normal(size=num) * 10,
        "levels": rng.integers(1, 6, num).astype(np.float64),
        "heavy tie": np.where(rng.random(num) < 0.7, 0.5, rng.random(num)),
        "tiny range": 1.0 + rng.random(num) * 1e-9,
    }[kind]
    pool = Pool(rng.integers(0, 256, (num, 16)).astype(np.uint8), np.ones(num, np.int64), np.zeros(num, np.int32), scores)
    ranks = Ranks.of([pool], 1)
    found = ranks_in(pool, ranks)
    order = np.argsort(scores, kind="stable")
    ordered = scores[order]
    below, upto = np.searchsorted(ordered, scores) / num, np.searchsorted(ordered, scores, side="right") / num
    assert (found >= below - 1 / 4096 - 1e-9).all() and (found <= upto + 1 / 4096 + 1e-9).all()
    best_so_far = np.maximum.accumulate(found[order])
    strictly = np.flatnonzero(np.diff(ordered) > 0)
    assert (found[order][strictly + 1] >= best_so_far[strictly] - 1e-15).all(), "a better score has no smaller rank"
    assert abs(found.mean() - 0.5) < 1e-3 and np.abs(np.sort(found) - (np.arange(num) + 0.5) / num).max() < 5e-3
    assert len(ranks.first) < 20_000, "leaves, not documents"


def test_amounts_weigh() -> None:
    pool = pool_of([1.0, 2.0, 3.0], [0, 0, 0], [10, 0, 30])
    found = ranks_in(pool, Ranks.of([pool], 1, by_amount=True))
    assert 0 < found[0] < 0.25 and found[1] == 0.25 and 0.25 < found[2] < 1


def test_a_score_that_no_document_had_finds_its_place() -> None:
    pool = pool_of([1.0, 3.0], [0, 0])
    ranks = Ranks.of([pool], 2)
    asked = pool_of([0.0, 2.0, 9.0, 2.0], [0, 0, 0, 1])
    assert ranks_in(asked, ranks).tolist() == [0.0, 0.5, 1.0, 0.0]
