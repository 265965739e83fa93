"""rate: documents -> a side table of scores; the text is read and never touched.

    work   part k -> part-0000k.parquet     a row for every document: scores, domain, confidence, what was read of it

A missing score is null, with the reason in `status`; nothing is dropped, so in = kept. The rater is named by its
fingerprint: other weights or another rubric make another artifact. Price: the rater's, see its card.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from typecase.core.balance import Balance
from typecase.core.rating import Rubric
from typecase.engine.protocol import Engine
from typecase.lm.rater import Ratings
from typecase.lm.starter import open_rater
from typecase.recipe.stage import Given, Report, Stage
from typecase.store import shards
from typecase.store.documents import open_documents


def ratings_schema(rubric: Rubric) -> pa.Schema:
    """doc_id, a float32 column for every criterion, then domain, domain_confidence, confidence, status, rated_bytes."""
    return pa.schema(
        [
            ("doc_id", pa.string()),
            *((criterion, pa.float32()) for criterion in rubric.columns),
            ("domain", pa.string()),
            ("domain_confidence", pa.float32()),
            ("confidence", pa.float32()),
            ("status", pa.string()),
            ("rated_bytes", pa.int64()),
        ]
    )


@dataclass(frozen=True, kw_only=True)
class Rate(Stage):
    """rater   "starter", or the weights file of a rater that was fitted"""

    verb: ClassVar[str] = "rate"
    needs: ClassVar[tuple[str, ...]] = ("docs",)
    gives: ClassVar[str] = "ratings"

    rater: str = "starter"

    def identity(self, engine: Engine) -> dict[str, Any]:
        rater = open_rater(self.rater)
        return {"rater": rater.name, "rater_version": rater.version, "rater_fingerprint": rater.fingerprint}

    def check(self, given: Given) -> None:
        open_documents(given["docs"])

    def shards(self, given: Given) -> Sequence[int]:
        return range(len(open_documents(given["docs"]).parts))

    def work(self, given: Given, task: int, decision: Mapping[str, Any], out: Path, scratch: Path) -> Report:
        part = open_documents(given["docs"]).parts[task]
        statuses: Counter[str] = Counter()
        sizes = [0]
        name = shards.part_name(task)
        rows = shards.write_shard(out / name, self._rated(part, statuses, sizes), ratings_schema(open_rater(self.rater).rubric))
        counts = {"documents": rows, "text_bytes": sizes[0]}
        counts |= {f"status:{status}": number for status, number in sorted(statuses.items()) if status != "ok"}
        return Report({name: rows}, Balance(rows, rows), counts)

    def _rated(self, part: Path, statuses: Counter[str], sizes: list[int]) -> Iterator[pa.Table]:
        rater = open_rater(self.rater)
        schema = ratings_schema(rater.rubric)
        for table in shards.read_groups(part, ["doc_id", "text"]):
            ratings = [rater.rate(*shards.buffers_of(chunk)) for chunk in table.column("text").chunks]
            rated = pa.concat_tables([table_of(one, schema) for one in ratings])
            statuses.update(rated.column("status").to_pylist())
            sizes[0] += int(shards.lengths_of(table.column("text")).sum())
            yield rated.add_column(0, schema.field("doc_id"), table.column("doc_id"))


def table_of(ratings: Ratings, schema: pa.Schema) -> pa.Table:
    """Ratings as a table without doc_id; NaN, which stands for a missing score, becomes null."""
    columns: dict[str, Any] = {name: ratings.scores[:, k] for k, name in enumerate(ratings.rubric.columns)}
    columns |= {"domain": ratings.domain_names(), "status": ratings.status_names(), "rated_bytes": ratings.rated_bytes}
    columns |= {"domain_confidence": ratings.domain_confidence, "confidence": ratings.confidence}
    fields = [field for field in schema if field.name != "doc_id"]
    return pa.table([pa.array(columns[f.name], f.type, from_pandas=True) for f in fields], schema=pa.schema(fields))
