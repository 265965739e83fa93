"""rate: documents -> a side table of scores; the text is read and never touched.

    work   part k -> part-0000k.parquet     a row for every document: scores, domain, confidence, what was read of it
                                            and, of a rater that tells it: levels, sureties, codes, windows

A missing score is null, with the reason in `status` and `codes`; nothing is dropped, so in = kept. `limit` and `sample` rate
some of the documents; the others count as removed (not_sampled). The rater is named by its fingerprint: other weights, another
rubric or another view make another artifact; the answer cache is no part of it.

A rater that names `batch_docs` is slow: each batch of so many documents is kept as a file in the scratch folder until its
part is whole, and a run that was killed goes on with the batch it died in. Batches are cut by the part alone and the model
starts each of them afresh, so the bytes are those of a run that was never killed.

Price: the rater's, see its card; a model is loaded once a process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from typecase.core.balance import Balance
from typecase.core.rating import Rubric
from typecase.engine.protocol import Engine
from typecase.errors import BadRecipe, CorruptStore
from typecase.lm.rate.rater import Detail, Rater, Ratings
from typecase.lm.rate.raters import close_rater, open_rater
from typecase.recipe.stage import Given, Report, Stage
from typecase.store import shards
from typecase.store.documents import open_documents

NOT_SAMPLED = "not_sampled"
_ID_DIGITS = 13


def ratings_schema(rubric: Rubric, *, detailed: bool = False) -> pa.Schema:
    """doc_id, a float32 column for every criterion, then domain, domain_confidence, confidence, status, rated_bytes.

    With `detailed` also int8 `<criterion>_level`, float32 `<criterion>_surety`, label_mass, codes (list of strings), raw and
    windows: a list of {start, stop, tokens, domain, a score for every criterion}; what a rater did not say is null.
    """
    plain = [
        ("doc_id", pa.string()),
        *((criterion, pa.float32()) for criterion in rubric.columns),
        ("domain", pa.string()),
        ("domain_confidence", pa.float32()),
        ("confidence", pa.float32()),
        ("status", pa.string()),
        ("rated_bytes", pa.int64()),
    ]
    if not detailed:
        return pa.schema(plain)
    return pa.schema(
        [
            *plain,
            *((f"{criterion}_level", pa.int8()) for criterion in rubric.columns),
            *((f"{criterion}_surety", pa.float32()) for criterion in rubric.columns),
            ("label_mass", pa.float32()),
            ("codes", pa.list_(pa.string())),
            ("raw", pa.string()),
            ("windows", pa.list_(_window_type(rubric))),
        ]
    )


def _window_type(rubric: Rubric) -> pa.DataType:
    own = [("start", pa.int64()), ("stop", pa.int64()), ("tokens", pa.int32()), ("domain", pa.string())]
    return pa.struct([*own, *((criterion, pa.float32()) for criterion in rubric.columns)])


@dataclass(frozen=True, kw_only=True)
class Rate(Stage):
    """rater   "starter", weights, a folder, a rater.toml or a model: see lm/rate/raters.py
    rubric  replaces the rater's own, where it can be asked about any
    cache   the answer cache of the rater's model; what was answered once is not asked again
    limit   rate the first so many documents by id; ids are hashes, so this is a sample
    sample  rate the documents whose ids fall into this share (0–1) of all ids
    """

    verb: ClassVar[str] = "rate"
    needs: ClassVar[tuple[str, ...]] = ("docs",)
    gives: ClassVar[str] = "ratings"

    rater: str = "starter"
    rubric: str | None = None
    cache: str | None = None
    limit: int | None = None
    sample: float = 1.0

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 0:
            raise BadRecipe(f"rate: limit is a number of documents, got {self.limit}")
        if not 0 < self.sample <= 1:
            raise BadRecipe(f"rate: a sample is a share above 0 and up to 1 (100%), got {self.sample:g}")

    def identity(self, engine: Engine) -> dict[str, Any]:
        rater = self.opened()
        found = {"rater": rater.name, "rater_version": rater.version, "rater_fingerprint": rater.fingerprint}
        if not engine.here:
            forget()  # each worker holds the model; this process does not work
        some = {"limit": self.limit} if self.limit is not None else {}
        return {**found, **some, **({"sample": self.sample} if self.sample < 1 else {})}

    @property
    def holds_model(self) -> bool:
        return self.rater != "starter"

    def opened(self) -> Rater:
        """The rater, loaded once a process."""
        key = (open_rater, self.rater, self.rubric, self.cache, _stamp(self.rater))
        if key not in _loaded:
            forget()
            cache = Path(self.cache) if self.cache is not None else None
            _loaded[key] = open_rater(self.rater, rubric=self.rubric, cache=cache)
        return _loaded[key]

    def check(self, given: Given) -> None:
        open_documents(given["docs"])

    def shards(self, given: Given) -> Sequence[int]:
        return range(len(open_documents(given["docs"]).parts))

    def work(self, given: Given, task: int, decision: Mapping[str, Any], out: Path, scratch: Path) -> Report:
        store = open_documents(given["docs"])
        rater, tally = self.opened(), _Tally()
        schema = schema_of(rater)
        tables = self._rated(rater, schema, self.chosen(given["docs"], task), _Batches(scratch, task), tally)
        name = shards.part_name(task)
        rows = shards.write_shard(out / name, tables, schema)
        entered = _rows_of(store.parts[task])
        left = {NOT_SAMPLED: entered - rows} if rows < entered else {}
        return Report({name: rows}, Balance(entered, rows, left), tally.counts(rows))

    def chosen(self, docs: Path, task: int) -> Iterator[pa.Table]:
        """The ids and texts that are rated of a part, a row group at a time."""
        parts = open_documents(docs).parts
        left = None if self.limit is None else self.limit - sum(_rows_of(part) for part in parts[:task])
        if left is not None and left <= 0:
            return
        for table in shards.read_groups(parts[task], ["doc_id", "text"]):
            chosen = table if left is None else table.slice(0, left)
            if left is not None:
                left -= chosen.num_rows
            if self.sample < 1:
                chosen = chosen.filter(pc.less(chosen.column("doc_id"), _bound(self.sample)))
            if chosen.num_rows:
                yield chosen
            if left is not None and left <= 0:
                return

    def _rated(
        self, rater: Rater, schema: pa.Schema, groups: Iterator[pa.Table], batches: _Batches, tally: _Tally
    ) -> Iterator[pa.Table]:
        size: int | None = getattr(rater, "batch_docs", None)
        for table in groups:
            text = table.column("text")
            if size is None:
                rated = _rate_column(rater, text, schema)
            else:
                slices = (text.slice(at, size) for at in range(0, table.num_rows, size))
                rated = pa.concat_tables([batches.done(rater, own, schema) for own in slices])
            tally.add(rated, int(shards.lengths_of(text).sum()))
            yield rated.add_column(0, schema.field("doc_id"), table.column("doc_id"))


_loaded: dict[Any, Rater] = {}
"""The rater of this process: one, for a model may take most of the memory."""


def forget() -> None:
    """Lets go of the rater of this process."""
    while _loaded:
        close_rater(_loaded.popitem()[1])


def schema_of(rater: Rater) -> pa.Schema:
    """The columns of what `rater` says; whether it tells details shows in its ratings of no document."""
    nothing = rater.rate(np.zeros(0, np.uint8), np.zeros(1, np.int64))
    return ratings_schema(rater.rubric, detailed=nothing.detail is not None)


def _rate_column(rater: Rater, text: pa.ChunkedArray, schema: pa.Schema) -> pa.Table:
    return pa.concat_tables([table_of(rater.rate(*shards.buffers_of(chunk)), schema) for chunk in text.chunks])


@dataclass(slots=True)
class _Batches:
    """Finished batches of a part under way, as files; they go with the scratch folder when the run ends."""

    scratch: Path
    task: int
    number: int = 0

    def done(self, rater: Rater, text: pa.ChunkedArray, schema: pa.Schema) -> pa.Table:
        """The ratings of the next batch, from its file if that is whole."""
        path = self.scratch / f"rated-{self.task:05d}-{self.number:06d}.parquet"
        self.number += 1
        plain = pa.schema([column for column in schema if column.name != "doc_id"])
        if path.is_file():
            try:
                kept = shards.read_columns(path)
                if kept.num_rows == len(text) and kept.schema.equals(plain):
                    return kept
            except CorruptStore:
                pass  # a power cut: rated again
        rated = _rate_column(rater, text, schema)
        shards.write_shard(path, [rated], plain)
        return rated


@dataclass(slots=True)
class _Tally:
    """What the manifest says of a part beside its rows."""

    statuses: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    text_bytes: int = 0
    rated_bytes: int = 0
    detailed: bool = False

    def add(self, rated: pa.Table, text_bytes: int) -> None:
        self.statuses.update(rated.column("status").to_pylist())
        self.text_bytes += text_bytes
        self.rated_bytes += pc.sum(rated.column("rated_bytes")).as_py() or 0
        self.detailed = "codes" in rated.column_names
        if self.detailed:
            self.codes.update(pc.list_flatten(rated.column("codes")).to_pylist())

    def counts(self, rows: int) -> dict[str, int]:
        counts = {"documents": rows, "text_bytes": self.text_bytes}
        if self.detailed:
            counts["rated_bytes"] = self.rated_bytes
        counts |= {f"status:{status}": number for status, number in sorted(self.statuses.items()) if status != "ok"}
        return counts | {f"code:{code}": number for code, number in sorted(self.codes.items())}


def table_of(ratings: Ratings, schema: pa.Schema) -> pa.Table:
    """Ratings as a table without doc_id; NaN, which stands for a missing score, becomes null."""
    columns: dict[str, Any] = {name: ratings.scores[:, k] for k, name in enumerate(ratings.rubric.columns)}
    columns |= {"domain": ratings.domain_names(), "status": ratings.status_names(), "rated_bytes": ratings.rated_bytes}
    columns |= {"domain_confidence": ratings.domain_confidence, "confidence": ratings.confidence}
    if "codes" in schema.names and ratings.detail is not None:
        columns |= _detail_columns(ratings.rubric, ratings.detail, np.isnan(ratings.scores))
    fields = [field for field in schema if field.name != "doc_id"]
    return pa.table([pa.array(columns[f.name], f.type, from_pandas=True) for f in fields], schema=pa.schema(fields))


def _detail_columns(rubric: Rubric, detail: Detail, missing: npt.NDArray[np.bool_]) -> dict[str, Any]:
    columns: dict[str, Any] = {"label_mass": detail.label_mass, "codes": detail.codes, "raw": detail.raw}
    for k, criterion in enumerate(rubric.columns):
        columns[f"{criterion}_level"] = pa.array(detail.levels[:, k], pa.int8(), mask=missing[:, k])
        columns[f"{criterion}_surety"] = detail.surety[:, k]
    columns["windows"] = [
        [{"start": w.start, "stop": w.stop, "tokens": w.tokens, "domain": w.domain, **w.scores} for w in windows]
        for windows in detail.windows
    ]
    return columns


def _rows_of(part: Path) -> int:
    file = shards.open_shard(part)
    try:
        rows: int = file.metadata.num_rows
        return rows
    finally:
        file.close()


def _bound(share: float) -> str:
    """The id that the share of all ids lies below."""
    return f"{min(int(share * 16**_ID_DIGITS), 16**_ID_DIGITS - 1):0{_ID_DIGITS}x}"


def _stamp(spec: str) -> tuple[Any, ...]:
    """Changes when the files of a rater change."""
    path = Path(spec)
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return tuple((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in files if file.is_file())
