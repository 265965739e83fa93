"""Record: what every step and every document cost, kept beside the checkpoints, then written as three tables.

    RUN/steps.parquet        step, loss, learning_rate, gradient, tokens, validation
    RUN/documents.parquet    member, doc, doc_id, tokens, loss_sum, steps        a row for each document that was learnt
    RUN/seen.parquet         step, member, doc, tokens, loss_sum                 a row for each document of each step

Losses are in nats; `tokens` counts the targets that were learnt, and loss_sum / tokens is the mean. `doc_id` joins the tables
of provenance, ratings and programs; it is null where a token set has no provenance. While a run goes on the rows lie in
`RUN/record/`, a part for every checkpoint, so that a run that was killed goes on with the rows of its last checkpoint: the
tables are the same bytes however often it was. Price: 28 bytes a piece while rows wait for a checkpoint, and at the end 24
bytes a document of the token sets.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from typecase.store.shards import write_shard
from typecase.store.timeline.documents import Library

Ints = npt.NDArray[np.int64]
STEPS, DOCUMENTS, SEEN = "steps.parquet", "documents.parquet", "seen.parquet"
_FOLDER = "record"
_PART = re.compile(r"(steps|seen)-(\d+)-(\d+)\.parquet")
_DOC_ID_ROWS = 1 << 16

STEPS_SCHEMA = pa.schema(
    [
        ("step", pa.int64()),
        ("loss", pa.float64()),
        ("learning_rate", pa.float64()),
        ("gradient", pa.float64()),
        ("tokens", pa.int64()),
        ("validation", pa.float64()),
    ]
)
SEEN_SCHEMA = pa.schema(
    [
        ("step", pa.int64()),
        ("member", pa.int32()),
        ("doc", pa.int64()),
        ("tokens", pa.int32()),
        ("loss_sum", pa.float64()),
    ]
)
DOCUMENTS_SCHEMA = pa.schema(
    [
        ("member", pa.int32()),
        ("doc", pa.int64()),
        ("doc_id", pa.string()),
        ("tokens", pa.int64()),
        ("loss_sum", pa.float64()),
        ("steps", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step. `loss` nats a token and `gradient`, its length before it is clipped, are None where the run skips the step;
    `validation` is the loss on the validation set, where it was looked at behind this step."""

    step: int
    loss: float | None
    learning_rate: float
    gradient: float | None
    tokens: int
    validation: float | None = None


SeenRows = tuple[Ints, Ints, Ints, npt.NDArray[np.float64]]
"""Of one step: member, document, targets, sum of losses."""


class Record:
    """The rows of a run, in its folder. `first` is the step from which rows are awaited; later ones on disk are dropped by
    the process that `writes`."""

    def __init__(self, run: Path, first: int, *, writes: bool = True) -> None:
        self._run, self._first = run, first
        self._steps: list[StepRow] = []
        self._seen: list[tuple[int, SeenRows]] = []
        for path in (run / _FOLDER).glob("*.parquet") if writes else ():
            match = _PART.fullmatch(path.name)
            if match is None or int(match[3]) > first:
                path.unlink()

    def step(self, row: StepRow) -> None:
        self._steps.append(row)

    def seen(self, step: int, rows: SeenRows) -> None:
        self._seen.append((step, rows))

    def taken(self) -> list[tuple[int, SeenRows]]:
        """The rows of documents that wait, which then wait no more: of a process that does not write."""
        rows, self._seen = self._seen, []
        return rows

    def keep(self, stop: int, others: Sequence[Sequence[tuple[int, SeenRows]]] = ()) -> None:
        """Writes the rows of steps [first, stop), with those of `others`, the other processes."""
        if stop == self._first:
            return
        rows = self._seen + [row for other in others for row in other]
        name = f"{self._first:07d}-{stop:07d}.parquet"
        write_shard(self._run / _FOLDER / f"seen-{name}", [_seen_table(rows)], SEEN_SCHEMA)
        write_shard(self._run / _FOLDER / f"steps-{name}", [_steps_table(self._steps)], STEPS_SCHEMA)
        self._steps, self._seen, self._first = [], [], stop

    def rows(self) -> list[StepRow]:
        """All steps so far, rising."""
        table = pa.concat_tables([STEPS_SCHEMA.empty_table(), *self._parts("steps")])
        return [StepRow(**row) for row in table.to_pylist()] + self._steps

    def finish(self, libraries: Sequence[Library]) -> None:
        """Writes the three tables; nothing may wait to be kept."""
        write_shard(self._run / STEPS, [pa.concat_tables([STEPS_SCHEMA.empty_table(), *self._parts("steps")])], STEPS_SCHEMA)
        write_shard(self._run / SEEN, _regrouped(self._parts("seen")), SEEN_SCHEMA)
        write_shard(self._run / DOCUMENTS, [_documents(self._parts("seen"), libraries)], DOCUMENTS_SCHEMA)
        shutil.rmtree(self._run / _FOLDER)

    def _parts(self, kind: str) -> Iterator[pa.Table]:
        found = [(match, path) for path in (self._run / _FOLDER).glob("*.parquet") if (match := _PART.fullmatch(path.name))]
        for match, path in sorted(found, key=lambda one: int(one[0][2])):
            if match[1] == kind:
                yield pq.read_table(path)


def read_steps(run: Path | str) -> list[StepRow]:
    """The steps of a finished run."""
    return [StepRow(**row) for row in pq.read_table(Path(run) / STEPS).to_pylist()]


def _steps_table(rows: Sequence[StepRow]) -> pa.Table:
    return pa.table({name: [getattr(row, name) for row in rows] for name in STEPS_SCHEMA.names}, STEPS_SCHEMA)


def _seen_table(rows: Sequence[tuple[int, SeenRows]]) -> pa.Table:
    """A row for each document of each step, by step, member and document; what several processes saw of one is added up."""
    if not rows:
        return SEEN_SCHEMA.empty_table()
    steps = np.concatenate([np.full(len(one[0]), step, np.int64) for step, one in rows])
    members, docs, tokens, sums = (np.concatenate([one[k] for _, one in rows]) for k in range(4))
    keys, inverse = np.unique(np.stack((steps, members, docs)), axis=1, return_inverse=True)
    inverse = inverse.reshape(-1)
    size = keys.shape[1]
    columns = [
        keys[0],
        keys[1].astype(np.int32),
        keys[2],
        np.bincount(inverse, tokens, size).astype(np.int32),
        np.bincount(inverse, sums, size),
    ]
    return pa.table([pa.array(column) for column in columns], schema=SEEN_SCHEMA)


def _regrouped(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The same rows cut as if they had come in one table, so that the bytes do not depend on the checkpoints."""
    from typecase.store.shards import GROUP_ROWS, regrouped

    yield from regrouped(tables, GROUP_ROWS)


def _documents(parts: Iterator[pa.Table], libraries: Sequence[Library]) -> pa.Table:
    sizes = [library.store.num_documents for library in libraries]
    firsts = np.concatenate(([0], np.cumsum(sizes)))
    tokens, steps = np.zeros(firsts[-1], np.int64), np.zeros(firsts[-1], np.int64)
    sums = np.zeros(firsts[-1], np.float64)
    for part in parts:
        at = firsts[part["member"].to_numpy()] + part["doc"].to_numpy()
        np.add.at(tokens, at, part["tokens"].to_numpy())
        np.add.at(sums, at, part["loss_sum"].to_numpy())
        np.add.at(steps, at, 1)
    tables = [DOCUMENTS_SCHEMA.empty_table()]
    for member, library in enumerate(libraries):
        own = slice(int(firsts[member]), int(firsts[member + 1]))
        docs = np.flatnonzero(steps[own])
        columns = {
            "member": pa.array(np.full(len(docs), member, np.int32)),
            "doc": pa.array(docs),
            "doc_id": _doc_ids(library, docs),
            "tokens": pa.array(tokens[own][docs]),
            "loss_sum": pa.array(sums[own][docs]),
            "steps": pa.array(steps[own][docs]),
        }
        tables.append(pa.table(columns, DOCUMENTS_SCHEMA))
    return pa.concat_tables(tables)


def _doc_ids(library: Library, docs: Ints) -> pa.Array | pa.ChunkedArray:
    if library.provenance is None:
        return pa.nulls(len(docs), pa.string())
    parts = [
        pc.cast(library.provenance.rows(docs[at : at + _DOC_ID_ROWS])["doc_id"], pa.string())
        for at in range(0, len(docs), _DOC_ID_ROWS)
    ]
    return pa.chunked_array([chunk for part in parts for chunk in part.chunks], pa.string())
