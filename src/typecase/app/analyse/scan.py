"""The one pass over an annotation set: every block adds to tables of counts and sums, and nothing else is kept.

    block of rows -> bins, levels, groups -> PairSums, joint histograms, levels by source and by domain, examples by hash

Price: 4 us a row for 14 criteria, reading included; memory is that of the tables, some tens of megabytes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from typecase.app.analyse.sets import BLOCK_ROWS, UNKNOWN, Beside, RatingSet, selection_parts, side_parts
from typecase.core.selection.keys import hash_ids, id_words, raw_ids
from typecase.core.statistics.joint import BINS, Scale, joint_counts
from typecase.core.statistics.pairs import Grid, PairSums
from typecase.core.statistics.sample import Kept
from typecase.recipe.progress import Quiet, Reporter
from typecase.store.documents import open_documents
from typecase.store.shards import lengths_of, open_shard

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]

LENGTH = Scale(0.0, 32.0, 1024)
"""The binary logarithm of bytes of text: a bin is 2 % of a length."""
SURPRISE = Scale(0.0, 16.0, 1024)
"""Mean negative log-likelihood of a token, in nats: a bin is 1/64 of one."""
_MOST_SOURCES = 4096
"""Labels that are told apart; the rest are counted as one."""
_OTHERS = "(others)"


@dataclass
class Groups:
    """Rows, levels and sums by the label of a row. Labels are numbered as they come; arrays grow with them."""

    num_criteria: int
    num_levels: int
    names: dict[str, int] = field(default_factory=dict)
    rows: I64 = field(init=False)
    levels: I64 = field(init=False)
    sums: I64 = field(init=False)
    scored: I64 = field(init=False)

    def __post_init__(self) -> None:
        k = self.num_criteria
        self.rows = np.zeros(0, np.int64)
        self.levels = np.zeros((0, k, self.num_levels), np.int64)
        self.sums, self.scored = np.zeros((0, k), np.int64), np.zeros((0, k), np.int64)

    def codes(self, labels: pa.Array) -> I64:
        """The number of every row's label; beyond _MOST_SOURCES labels the rest are one."""
        coded = labels.fill_null(UNKNOWN).dictionary_encode()
        numbers = [self._number(name) for name in coded.dictionary.to_pylist()]
        self._grow()
        codes: I64 = np.array(numbers, np.int64)[coded.indices.to_numpy()]
        return codes

    def add(self, codes: I64, levels: I64, whole: F64) -> None:
        """Counts rows: their group, their level in each criterion (-1: none), their scores on the grid."""
        n = len(self.names)
        self.rows += np.bincount(codes, minlength=n)
        for k in range(self.num_criteria):
            there = levels[:, k] >= 0
            group, level = codes[there], levels[there, k]
            cells = np.bincount(group * self.num_levels + level, minlength=n * self.num_levels)
            self.levels[:, k] += cells.reshape(n, self.num_levels)
            self.sums[:, k] += np.bincount(group, whole[there, k], minlength=n).astype(np.int64)
            self.scored[:, k] += np.bincount(group, minlength=n)

    def _number(self, name: str) -> int:
        if name not in self.names and len(self.names) >= _MOST_SOURCES:
            name = _OTHERS
        return self.names.setdefault(name, len(self.names))

    def _grow(self) -> None:
        more = len(self.names) - len(self.rows)
        if more > 0:
            for name in ("rows", "levels", "sums", "scored"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate((old, np.zeros((more, *old.shape[1:]), np.int64))))


@dataclass
class Scan:
    """What the pass over one annotation set found; see the fields' comments for units."""

    set: RatingSet
    grid: Grid
    pairs: PairSums
    sources: Groups
    domains: Groups
    crossed: Counter[tuple[int, int]]  # rows by (source, domain)
    with_summary: I64  # (criteria, BINS, BINS): summary by criterion
    with_length: I64  # (criteria, LENGTH.size, BINS): log2 of bytes by criterion
    with_surprise: I64 | None  # (criteria, SURPRISE.size, BINS): nats a token by criterion
    rows: int = 0
    outside: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    missing: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    statuses: Counter[tuple[int, str]] = field(default_factory=Counter)  # rows by (source, status)
    codes: Counter[tuple[int, str]] = field(default_factory=Counter)  # rows by (source, reason code)
    without_source: int = 0
    without_surprise: int = 0
    kept: Groups | None = None  # by source, of the documents that a selection kept
    kept_domains: Groups | None = None
    lengths: I64 = field(default_factory=lambda: np.zeros((2, LENGTH.size), np.int64))  # all rows; kept rows
    examples: Kept = field(default_factory=Kept.none)


def scan(
    chosen: RatingSet,
    *,
    perplexity: Path | None = None,
    selection: Path | None = None,
    num_examples: int = 0,
    seed: int = 0,
    reporter: Reporter | None = None,
) -> Scan:
    """Reads `chosen` once; keeps `num_examples` rows of each criterion, source and level, chosen by a hash of seed and id."""
    criteria, levels = len(chosen.rubric.columns), chosen.rubric.high - chosen.rubric.low + 1
    grid = Grid(chosen.rubric.low, chosen.rubric.high)
    found = Scan(
        chosen,
        grid,
        PairSums.none(grid, criteria),
        Groups(criteria, levels),
        Groups(criteria, levels),
        Counter(),
        np.zeros((criteria, BINS, BINS), np.int64),
        np.zeros((criteria, LENGTH.size, BINS), np.int64),
        np.zeros((criteria, SURPRISE.size, BINS), np.int64) if perplexity is not None else None,
    )
    found.outside, found.missing = np.zeros(criteria, np.int64), np.zeros(criteria, np.int64)
    documents = _documents(chosen)
    beside = _surprises(perplexity) if perplexity is not None else None
    picked = Beside(selection_parts(selection), ["kept"]) if selection is not None else None
    if picked is not None:
        found.kept, found.kept_domains = Groups(criteria, levels), Groups(criteria, levels)
    total = chosen.rows.num_rows if chosen.rows is not None else chosen.readings
    with (reporter or Quiet()).phase(f"analyse {chosen.name}", total=-(-total // BLOCK_ROWS), done=0) as phase:
        for block in chosen.blocks():
            _add(found, block, documents, beside, picked, num_examples, seed)
            phase.advance(block.num_rows, 0)
    return found


def _documents(chosen: RatingSet) -> Beside | None:
    if chosen.docs is None:
        return None
    parts = open_documents(chosen.docs).parts
    return Beside(parts, ["source"] if "rated_bytes" in chosen.columns else ["source", "text"]) if parts else None


def _surprises(folder: Path) -> Beside:
    parts = side_parts(folder)
    columns = open_shard(parts[0]).schema_arrow.names
    return Beside(parts, ["nll", "tokens", *(["unscored"] if "unscored" in columns else [])])


def _add(
    found: Scan, block: pa.Table, documents: Beside | None, beside: Beside | None, picked: Beside | None, num: int, seed: int
) -> None:
    rubric = found.set.rubric
    ids = block.column("doc_id").combine_chunks()
    scores = np.column_stack([_numbers(block.column(name)) for name in rubric.columns])
    whole = found.grid.whole(scores)
    levels = np.where(np.isfinite(whole), np.floor(np.nan_to_num(scores) + 0.5) - rubric.low, -1).astype(np.int64)
    found.rows += block.num_rows
    found.outside += (np.isfinite(scores) & ~np.isfinite(whole)).sum(axis=0)
    found.missing += np.isnan(scores).sum(axis=0)
    found.pairs = found.pairs + PairSums.of(found.grid, whole)
    info = documents.at(ids) if documents is not None else None
    source_of = info.column("source").combine_chunks() if info is not None else pa.nulls(len(ids), pa.string())
    found.without_source += source_of.null_count
    source = found.sources.codes(source_of)
    _add_reasons(found, block, source)
    domain_of = block.column("domain").combine_chunks() if "domain" in block.column_names else pa.nulls(len(ids), pa.string())
    domain = found.domains.codes(domain_of)
    found.sources.add(source, levels, whole)
    found.domains.add(domain, levels, whole)
    pairs, counts = np.unique(source * (1 << 32) + domain, return_counts=True)
    found.crossed.update({(int(p >> 32), int(p & 0xFFFFFFFF)): int(n) for p, n in zip(pairs, counts, strict=True)})
    _add_joint(found, block, np.where(np.isfinite(whole), scores, np.nan), info, beside, ids)
    if picked is not None and found.kept is not None and found.kept_domains is not None:
        kept = picked.at(ids).column("kept").combine_chunks().fill_null(False).to_numpy(zero_copy_only=False)
        found.kept.add(found.kept.codes(source_of)[kept], levels[kept], whole[kept])
        found.kept_domains.add(found.kept_domains.codes(domain_of)[kept], levels[kept], whole[kept])
        place = _length_bins(block, info)[kept]
        found.lengths[1] += np.bincount(place[place >= 0], minlength=LENGTH.size)
    if num:
        bars = found.examples.bars(num, cell_of(levels.shape[1], 0, 0, found.sources.num_levels))
        found.examples = found.examples.with_rows(_candidates(ids, source, levels, scores, bars, found, seed), num)


def _add_reasons(found: Scan, block: pa.Table, source: I64) -> None:
    """Counts how documents were rated, and the raters' reason codes, by source."""
    if "status" in block.column_names:
        coded = block.column("status").combine_chunks().fill_null(UNKNOWN).dictionary_encode()
        _count(found.statuses, source, coded)
    if "codes" in block.column_names:
        lists = block.column("codes").combine_chunks()
        coded = lists.flatten().fill_null(UNKNOWN).dictionary_encode()
        _count(found.codes, source[pc.list_parent_indices(lists).to_numpy()], coded)


def _count(counts: Counter[tuple[int, str]], source: I64, coded: pa.DictionaryArray) -> None:
    names = coded.dictionary.to_pylist()
    cells = np.bincount(source * len(names) + coded.indices.to_numpy()) if names else np.zeros(0, np.int64)
    for cell in np.flatnonzero(cells):
        counts[int(cell) // len(names), names[int(cell) % len(names)]] += int(cells[cell])


def _add_joint(found: Scan, block: pa.Table, scores: F64, info: pa.Table | None, beside: Beside | None, ids: pa.Array) -> None:
    rubric = found.set.rubric
    scale = Scale(rubric.low, rubric.high)
    bins = [scale.bins(scores[:, k]) for k in range(scores.shape[1])]
    length = _length_bins(block, info)
    found.lengths[0] += np.bincount(length[length >= 0], minlength=LENGTH.size)
    surprise = None
    if beside is not None:
        table = beside.at(ids)
        nll, tokens = _numbers(table.column("nll")), _numbers(table.column("tokens"))
        if "unscored" in table.column_names:  # tokens that had no part in nll
            tokens = tokens - _numbers(table.column("unscored"))
        with np.errstate(divide="ignore", invalid="ignore"):
            surprise = SURPRISE.bins(np.where(tokens > 0, nll / tokens, np.nan))
        found.without_surprise += int((surprise < 0).sum())
    for k, place in enumerate(bins):
        if rubric.summary is not None:
            found.with_summary[k] += joint_counts(bins[rubric.columns.index(rubric.summary)], place)
        found.with_length[k] += joint_counts(length, place, LENGTH.size)
        if surprise is not None and found.with_surprise is not None:
            found.with_surprise[k] += joint_counts(surprise, place, SURPRISE.size)


def _length_bins(block: pa.Table, info: pa.Table | None) -> I64:
    """The bin of every row's length in bytes, -1 where it is not known or the text is empty."""
    if "rated_bytes" in block.column_names:
        sizes = _numbers(block.column("rated_bytes"))
    elif info is not None and "text" in info.column_names:
        sizes = lengths_of(info.column("text")).astype(np.float64)
    else:
        sizes = np.full(block.num_rows, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        return LENGTH.bins(np.where(sizes > 0, np.log2(sizes), np.nan))


def _candidates(ids: pa.Array, source: I64, levels: I64, scores: F64, bars: U64, found: Scan, seed: int) -> Kept:
    """Rows that may be examples of a cell, once for each criterion: those whose hash is not above the cell's bar."""
    raw = raw_ids(ids.to_pylist())
    hi, lo = id_words(raw)
    hashes = hash_ids(raw, seed=seed, purpose="examples")
    cells, rows, values = [], [], []
    for k in range(levels.shape[1]):
        cell = cell_of(k, source, np.maximum(levels[:, k], 0), found.sources.num_levels)
        fit = np.flatnonzero((levels[:, k] >= 0) & (hashes <= bars[cell]))
        cells.append(cell[fit])
        rows.append(fit)
        values.append(scores[fit, k])
    row = np.concatenate(rows)
    return Kept(np.concatenate(cells), hashes[row], hi[row], lo[row], np.concatenate(values))


@overload
def cell_of(criterion: int, source: I64, level: I64, num_levels: int) -> I64: ...


@overload
def cell_of(criterion: int, source: int, level: int, num_levels: int) -> int: ...


def cell_of(criterion: int, source: I64 | int, level: I64 | int, num_levels: int) -> I64 | int:
    """A cell as one number."""
    return (criterion * (_MOST_SOURCES + 2) + source) * num_levels + level


def parts_of_cell(cell: int, num_levels: int) -> tuple[int, int, int]:
    """(criterion, source, level) of a cell."""
    criterion, source = divmod(cell // num_levels, _MOST_SOURCES + 2)
    return criterion, source, cell % num_levels


def _numbers(column: pa.ChunkedArray) -> F64:
    """A column as float64, NaN where it is null."""
    values: F64 = column.to_numpy().astype(np.float64)
    return values
