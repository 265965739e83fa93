"""Policies: which samples of a run to look at, by name or by a function of your own.

    all                 every sample that the run trains on
    random:100          100 distinct ones, by the seed
    every:1000          each 1,000th
    first:10 last:10    from the ends
    longest:10          most tokens in one document piece; shortest:10 the fewest
    top:10:COLUMN       highest mean of a score over the tokens of the sample; bottom:10:COLUMN the lowest
    where:source=wiki   with any piece of a document whose column has the value
    stratified:5:source 5 of each value of a column, by the first document of the sample

A function takes the timeline and gives training indices. Seeds are parameters; the same seed gives the same samples.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from typecase.errors import BadQuery
from typecase.store.timeline.report import consumed_by
from typecase.store.timeline.timeline import Timeline

Ints = npt.NDArray[np.int64]
Policy: TypeAlias = Callable[[Timeline], npt.ArrayLike]
_RUN = 1 << 16


def chosen_by(timeline: Timeline, policy: str | Policy, *, seed: int = 0) -> Ints:
    """The training indices that `policy` chooses, int64 (n,). Raises BadQuery for what is no policy, or names nothing."""
    if callable(policy):
        given = np.asarray(policy(timeline))
        if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
            raise BadQuery(f"the policy gave {given.dtype} of shape {given.shape}, expected a flat list of training indices")
        return given.astype(np.int64)
    name, *arguments = policy.split(":", 2)
    steps = timeline.num_steps
    total = timeline.num_samples if steps is None else min(timeline.num_samples, consumed_by(timeline, steps))
    if name == "all" and not arguments:
        return np.arange(total)
    if name == "where" and arguments:
        return _where(timeline, total, ":".join(arguments))
    if not arguments or not arguments[0].isdigit() or int(arguments[0]) < 1:
        raise BadQuery(f"{policy!r} is no policy: write all, random:N, every:N, first:N, last:N, longest:N, top:N:COLUMN, …")
    count, column = int(arguments[0]), arguments[1] if len(arguments) > 1 else ""
    if name in ("top", "bottom", "stratified"):
        if not column:
            raise BadQuery(f"{policy!r} needs a column: {name}:{count}:COLUMN, such as source or overall_score")
        if name == "stratified":
            return _stratified(timeline, total, count, column, seed)
        return _extreme(_scores(timeline, total, column), count, highest=name == "top")
    if column:
        raise BadQuery(f"{policy!r}: {name} takes one number")
    return _plain(timeline, name, total, count, seed)


def _plain(timeline: Timeline, name: str, total: int, count: int, seed: int) -> Ints:
    if name == "random":
        return np.sort(np.random.default_rng(seed).choice(total, min(count, total), replace=False)).astype(np.int64)
    if name == "every":
        return np.arange(0, total, count)
    if name == "first":
        return np.arange(min(count, total))
    if name == "last":
        return np.arange(max(0, total - count), total)
    if name in ("longest", "shortest"):
        return _extreme(_longest_pieces(timeline, total), count, highest=name == "longest")
    raise BadQuery(
        f"there is no policy {name!r}: all, random, every, first, last, longest, shortest, top, bottom, where, stratified"
    )


def _extreme(values: npt.NDArray[np.float64], count: int, *, highest: bool) -> Ints:
    """The indices of the `count` most extreme values, most extreme first; ties by index, missing values never."""
    known = np.flatnonzero(~np.isnan(values))
    order = np.argsort(-values[known] if highest else values[known], kind="stable")
    return known[order[:count]].astype(np.int64)


def _longest_pieces(timeline: Timeline, total: int) -> npt.NDArray[np.float64]:
    found = np.zeros(total, np.float64)
    for first in range(0, total, _RUN):
        packing = timeline.laid.reads(np.arange(first, min(first + _RUN, total))).packing
        owner = np.repeat(np.arange(len(packing)), np.diff(packing.bounds))
        np.maximum.at(found, first + owner, packing.stops - packing.starts)
    return found


def _scores(timeline: Timeline, total: int, column: str) -> npt.NDArray[np.float64]:
    """The mean of a score over the tokens of each sample, NaN where no document has one."""
    tables = []
    for library in timeline.libraries:
        values = library.columns([column]).column(column)
        if not pa.types.is_integer(values.type) and not pa.types.is_floating(values.type):
            raise BadQuery(
                f"{column} holds {values.type}, not numbers: choose by where:{column}=VALUE or stratified:N:{column}"
            )
        tables.append(pc.cast(values, pa.float64()).to_numpy())
    found = np.full(total, np.nan)
    for first in range(0, total, _RUN):
        reads = timeline.laid.reads(np.arange(first, min(first + _RUN, total)))
        score = _of_pieces(timeline, reads.members, reads.packing.docs, reads.packing.bounds, tables)
        known = ~np.isnan(score)
        weight = np.where(known, reads.packing.stops - reads.packing.starts, 0)
        owner = np.repeat(np.arange(len(reads.indices)), np.diff(reads.packing.bounds))
        mass = np.bincount(owner, weights=weight, minlength=len(reads.indices))
        total_score = np.bincount(owner, weights=np.where(known, score, 0) * weight, minlength=len(reads.indices))
        with np.errstate(invalid="ignore"):
            found[first : first + len(mass)] = total_score / np.where(mass > 0, mass, np.nan)
    return found


def _of_pieces(
    timeline: Timeline, members: Ints, sequences: Ints, bounds: Ints, tables: list[npt.NDArray[np.float64]]
) -> npt.NDArray[np.float64]:
    owner = np.repeat(members, np.diff(bounds))
    values = np.empty(len(sequences), np.float64)
    for member, table in enumerate(tables):
        own = owner == member
        values[own] = table[timeline.libraries[member].documents_of(sequences[own])[0]]
    return values


def _coded(timeline: Timeline, column: str) -> tuple[list[npt.NDArray[np.float64]], list[str]]:
    """A column of every member as codes, with the texts that they stand for."""
    columns = [pc.cast(library.columns([column]).column(column), "string") for library in timeline.libraries]
    labels = sorted({v for c in columns for v in pc.unique(c).to_pylist() if v is not None})
    keys = pa.array(labels, pa.string())
    return [pc.cast(pc.index_in(c, value_set=keys), pa.float64()).to_numpy() for c in columns], labels


def _where(timeline: Timeline, total: int, condition: str) -> Ints:
    column, equals, value = condition.partition("=")
    if not equals:
        raise BadQuery(f"where:{condition} is no condition: write where:COLUMN=VALUE")
    tables, labels = _coded(timeline, column)
    if value not in labels:
        some = ", ".join(labels[:8]) + (" …" if len(labels) > 8 else "")
        raise BadQuery(f"no document has {column}={value}; there are {some}")
    code, found = labels.index(value), []
    for first in range(0, total, _RUN):
        reads = timeline.laid.reads(np.arange(first, min(first + _RUN, total)))
        values = _of_pieces(timeline, reads.members, reads.packing.docs, reads.packing.bounds, tables)
        owner = np.repeat(np.arange(len(reads.indices)), np.diff(reads.packing.bounds))
        found.append(first + np.unique(owner[values == code]))
    return np.concatenate(found).astype(np.int64) if found else np.zeros(0, np.int64)


def _stratified(timeline: Timeline, total: int, count: int, column: str, seed: int) -> Ints:
    tables, _ = _coded(timeline, column)
    strata = np.full(total, np.nan)
    for first in range(0, total, _RUN):
        reads = timeline.laid.reads(np.arange(first, min(first + _RUN, total)))
        full = np.flatnonzero(np.diff(reads.packing.bounds) > 0)
        heads = reads.packing.bounds[:-1][full]
        alone = np.arange(len(full) + 1)
        strata[first + full] = _of_pieces(timeline, reads.members[full], reads.packing.docs[heads], alone, tables)
    rng = np.random.default_rng(seed)
    drawn = [rng.permutation(np.flatnonzero(strata == s))[:count] for s in np.unique(strata[~np.isnan(strata)])]
    return np.sort(np.concatenate(drawn)).astype(np.int64) if drawn else np.zeros(0, np.int64)
