"""The sample by hash: the same rows as sorting everything, whatever the blocks, and bars that lose none of them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from typecase.core.statistics.sample import Kept

ROWS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=60)  # (cell, hash): hashes collide on purpose


def kept_of(rows: list[tuple[int, int]], first: int) -> Kept:
    cells, hashes = ([row[k] for row in rows] for k in (0, 1))
    ids = np.arange(first, first + len(rows)).astype(np.uint64)
    return Kept(np.array(cells, np.int64), np.array(hashes, np.uint64), ids % np.uint64(3), ids, ids.astype(np.float64))


def naive(rows: list[tuple[int, int]], num: int) -> list[tuple[int, int, int, int]]:
    known = sorted((cell, hashed, i % 3, i) for i, (cell, hashed) in enumerate(rows))
    return [row for k, row in enumerate(known) if sum(other[0] == row[0] for other in known[:k]) < num]


@given(ROWS, st.integers(1, 4), st.integers(1, 20))
def test_the_rows_with_the_smallest_hashes_of_each_cell(rows: list[tuple[int, int]], num: int, block: int) -> None:
    kept = Kept.none()
    for start in range(0, len(rows), block):
        more = kept_of(rows[start : start + block], start)
        fit = more.hash <= kept.bars(num, 5)[more.cell]
        offered = Kept(more.cell[fit], more.hash[fit], more.hi[fit], more.lo[fit], more.value[fit])
        kept = kept.with_rows(offered, num)
    found = [(int(c), int(h), int(hi), int(lo)) for c, h, hi, lo in zip(kept.cell, kept.hash, kept.hi, kept.lo, strict=True)]
    assert found == naive(rows, num)
    assert kept.value.tolist() == [row[3] for row in found]
