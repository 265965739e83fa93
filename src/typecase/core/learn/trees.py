"""Trees: boosted regression trees whose leaves hold a vector, one number for each output.

All outputs share the splits (what shows that a text is incoherent shows much of its other faults too), so a forest of
250 trees rates fourteen criteria with 1,250 comparisons and 250 short additions.

    node 0              a complete tree of `depth` levels: node k has children 2k + 1 and 2k + 2,
    |- 1: |- 3          goes right where the measure lies above the threshold,
    |     `- 4          and leaf l of the last level adds leaves[tree, l, :] to the outputs
    `- 2 ...

Growing is second-order boosting for squared error (Friedman 2001) on histograms of quantile bins, each tree on a part
of the rows and of the measures; the parts come from hashes of (seed, tree, row), so equal inputs give equal bytes.

Price: about 10 ms a tree for 3,000 rows, 60 measures and 14 outputs; 4 microseconds a row to rate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.learn.ridge import LANES
from typecase.core.selection.keys import derive_seed

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]

NUM_BINS = 32
"""Bins of a measure while a tree grows."""


@dataclass(frozen=True, slots=True)
class Growth:
    """How a forest is grown. `rows` and `measures` are the shares that each tree sees; `rate` shrinks every tree."""

    trees: int
    depth: int
    rate: float
    rows: float
    measures: float
    least_weight: float
    damping: float

    def __post_init__(self) -> None:
        if not (self.trees > 0 and 0 < self.depth <= 8 and 0 < self.rows <= 1 and 0 < self.measures <= 1):
            raise ValueError(f"a forest needs trees > 0, depth in 1..8 and shares in (0, 1], got {self}")


@dataclass(frozen=True, slots=True)
class Forest:
    """A grown forest: measure int32 and threshold float32 (trees, 2^depth - 1), leaves float32 (trees, 2^depth, outputs)."""

    start: F32  # (outputs,): what an empty forest says
    measure: I32
    threshold: F32
    leaves: F32


def forest_outputs(forest: Forest, measures: F32) -> F32:
    """The outputs of every row of `measures` float32 (rows, measures), float32 (rows, outputs)."""
    num_outputs = len(forest.start)
    missing = -num_outputs % LANES
    out = np.tile(np.pad(forest.start, (0, missing)), (len(measures), 1))
    leaves = np.pad(forest.leaves, ((0, 0), (0, 0), (0, missing)))
    _sum_leaves(measures, forest.measure, forest.threshold, leaves, out)
    return np.ascontiguousarray(out[:, :num_outputs])


def grow_forest(measures: F32, targets: F64, weight: F64, growth: Growth, *, seed: int) -> Forest:
    """Boosts trees on rows of `measures` (rows, measures) towards `targets` (rows, outputs), each row with its `weight`.

    Outputs are scaled by their spread first, so a criterion with little spread counts as much as one with much.
    """
    edges = np.quantile(measures, np.linspace(0, 1, NUM_BINS + 1)[1:-1], axis=0).astype(np.float32)  # (bins - 1, measures)
    bins = _binned(measures, edges)
    start = np.average(targets, axis=0, weights=weight)
    spread = np.sqrt(np.average((targets - start) ** 2, axis=0, weights=weight)) + 1e-9
    rest = (targets - start) / spread
    num_nodes = (1 << growth.depth) - 1
    measure = np.zeros((growth.trees, num_nodes), np.int32)
    cut = np.zeros((growth.trees, num_nodes), np.int32)
    leaves = np.zeros((growth.trees, num_nodes + 1, targets.shape[1]))
    for tree in range(growth.trees):
        rows = _drawn(len(measures), growth.rows, seed=seed, purpose=f"rows {tree}")
        columns = _drawn(measures.shape[1], growth.measures, seed=seed, purpose=f"measures {tree}")
        leaf_of = _grow(
            bins, rest, weight, rows, columns, growth.damping, growth.least_weight, measure[tree], cut[tree], leaves[tree]
        )
        leaves[tree] *= growth.rate
        rest -= leaves[tree][leaf_of]
    reach = np.vstack([edges, np.full((1, measures.shape[1]), np.inf, np.float32)])  # bin b ends at reach[b]
    threshold = reach[np.minimum(cut, NUM_BINS - 1), measure]
    return Forest(start.astype(np.float32), measure, threshold, (leaves * spread).astype(np.float32))


def _drawn(size: int, share: float, *, seed: int, purpose: str) -> I64:
    """A part of range(size), in order: a function of the seed and the purpose alone."""
    base = np.uint64(derive_seed(seed, purpose))
    keys = (np.arange(size, dtype=np.uint64) + base) * np.uint64(0x9E3779B97F4A7C15)
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    keys ^= keys >> np.uint64(31)
    return np.sort(np.argsort(keys, kind="stable")[: max(1, round(share * size))])


def _binned(measures: F32, edges: F32) -> U8:
    """The bin of every measure: how many edges lie below it."""
    out = np.zeros(measures.shape, np.uint8)
    for column in range(measures.shape[1]):
        out[:, column] = np.searchsorted(edges[:, column], measures[:, column], side="left")
    return out


@njit(cache=True, nogil=True)
def _sum_leaves(measures: F32, measure: I32, threshold: F32, leaves: F32, out: F32) -> None:
    num_nodes = measure.shape[1]
    for row in range(len(measures)):
        values = measures[row]
        for tree in range(len(measure)):
            node = 0
            while node < num_nodes:
                node = 2 * node + (2 if values[measure[tree, node]] > threshold[tree, node] else 1)
            for column in range(out.shape[1]):
                out[row, column] += leaves[tree, node - num_nodes, column]


@njit(cache=True, nogil=True)
def _best_cuts(sums: F64, weights: F64, totals: F64, whole: F64, damping: float, least: float, gain: F64, cut: I32) -> None:
    """The best cut of one measure in every node: sums (nodes, bins, outputs) and weights (nodes, bins) of the rows."""
    num_outputs = sums.shape[2]
    left = np.zeros(num_outputs)
    for node in range(len(sums)):
        left[:] = 0
        mass = base = 0.0
        gain[node] = 0
        for column in range(num_outputs):
            base += totals[node, column] ** 2 / (whole[node] + damping)
        for place in range(NUM_BINS - 1):
            mass += weights[node, place]
            for column in range(num_outputs):
                left[column] += sums[node, place, column]
            if mass < least or whole[node] - mass < least:
                continue
            score = 0.0
            for column in range(num_outputs):
                right = totals[node, column] - left[column]
                score += left[column] ** 2 / (mass + damping) + right**2 / (whole[node] - mass + damping)
            if score - base > gain[node]:
                gain[node], cut[node] = score - base, place


@njit(cache=True, nogil=True)
def _grow(
    bins: U8,
    rest: F64,
    weight: F64,
    rows: I64,
    columns: I64,
    damping: float,
    least: float,
    measure: I32,
    cut: I32,
    leaves: F64,
) -> I32:
    """Grows one tree level by level; returns the leaf of every row. A node without a cut sends all rows left."""
    num_rows, num_outputs = rest.shape
    node_of = np.zeros(num_rows, np.int32)
    num_nodes = 1
    while num_nodes <= len(measure):
        first = num_nodes - 1
        totals, whole = np.zeros((num_nodes, num_outputs)), np.zeros(num_nodes)
        for row in rows:
            node = node_of[row]
            whole[node] += weight[row]
            for column in range(num_outputs):
                totals[node, column] += weight[row] * rest[row, column]
        best, gain, place = np.zeros(num_nodes), np.zeros(num_nodes), np.zeros(num_nodes, np.int32)
        sums, weights = np.zeros((num_nodes, NUM_BINS, num_outputs)), np.zeros((num_nodes, NUM_BINS))
        for node in range(num_nodes):
            cut[first + node] = NUM_BINS
        for column in columns:
            sums[:] = 0
            weights[:] = 0
            for row in rows:
                node, into = node_of[row], bins[row, column]
                weights[node, into] += weight[row]
                for output in range(num_outputs):
                    sums[node, into, output] += weight[row] * rest[row, output]
            _best_cuts(sums, weights, totals, whole, damping, least, gain, place)
            for node in range(num_nodes):
                if gain[node] > best[node] + 1e-9:
                    best[node] = gain[node]
                    measure[first + node], cut[first + node] = column, place[node]
        for row in range(num_rows):
            node = node_of[row]
            node_of[row] = 2 * node + (bins[row, measure[first + node]] > cut[first + node])
        num_nodes *= 2
    mass = np.zeros(num_nodes)
    for row in rows:
        node = node_of[row]
        mass[node] += weight[row]
        for column in range(num_outputs):
            leaves[node, column] += weight[row] * rest[row, column]
    for node in range(num_nodes):
        for column in range(num_outputs):
            leaves[node, column] /= mass[node] + damping
    return node_of
