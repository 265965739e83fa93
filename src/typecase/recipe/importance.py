"""importance: documents and a target -> a side table of log-weights: how much more like the target each document is.

    survey   a part of the documents, or of the target: how often every bucket of words and pairs occurs
    decide   counts of all parts are added: one log-ratio for each bucket
    work     part k -> part-0000k.parquet: doc_id, log_weight, words, status

The role `target` is a folder of documents that look as wanted: ingest them first. A document of fewer than `min_words`
words has no log-weight. The distribution of the corpus is that of all its documents; same documents, same numbers, for
any parts and workers. `typecase select --policy dsir --importance FOLDER` draws by it.

Price: text is read twice; see benchmarks/bench_dsir.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from typecase.core.balance import Balance
from typecase.core.selection.importance import F64, I64, Features, Hashing, features_of, log_ratio_of
from typecase.engine.protocol import Engine
from typecase.errors import FixInput
from typecase.recipe.columns import map_columns, write_columns
from typecase.recipe.stage import Given, Report, Stage, Summary
from typecase.store import shards
from typecase.store.documents import open_documents

SCHEMA = pa.schema([("doc_id", pa.string()), ("log_weight", pa.float64()), ("words", pa.int64()), ("status", pa.string())])
"""`log_weight` is a sum in nats over words and pairs, null where the document is too short."""

OK, SHORT = "ok", "too short"
Task = tuple[str, int]


@dataclass(frozen=True, kw_only=True)
class Importance(Stage):
    """hashing    fast, or sha256: the published buckets, several times slower
    buckets    into which words and pairs are hashed
    min_words  a shorter document has no log-weight; published: 100
    """

    verb: ClassVar[str] = "importance"
    needs: ClassVar[tuple[str, ...]] = ("docs", "target")
    gives: ClassVar[str] = "importance"

    hashing: Hashing = "fast"
    buckets: int = 10_000
    min_words: int = 100

    def identity(self, engine: Engine) -> dict[str, Any]:
        if self.hashing not in ("fast", "sha256"):
            raise FixInput(f"importance: hashing is fast or sha256, got {self.hashing!r}")
        if not 2 <= self.buckets <= 1 << 24 or self.min_words < 0:
            raise FixInput(f"importance: 2 to 16,777,216 buckets and 0 or more words, got {self.buckets} and {self.min_words}")
        return super().identity(engine)

    def check(self, given: Given) -> None:
        for role in ("docs", "target"):
            open_documents(given[role])
        if not len(open_documents(given["target"])):
            raise FixInput(f"importance: the target {given['target']} holds no document: there is nothing to be like")

    def shards(self, given: Given) -> Sequence[Task]:
        return [(role, k) for role in ("docs", "target") for k in range(len(open_documents(given[role]).parts))]

    def survey(self, given: Given, shard: Task, scratch: Path) -> Summary:
        role, number = shard
        counts, words = np.zeros(self.buckets, np.int64), 0
        for _, features in self._features(open_documents(given[role]).parts[number]):
            counts += features.counts(self.buckets)
            words += int(features.words.sum())
        name = f"{role}-{number:05d}.arrow"
        write_columns(scratch / name, {"counts": counts})
        return {"role": role, "words": words, "files": [name]}

    def decide(self, given: Given, summaries: Sequence[Summary], scratch: Path) -> dict[str, Any]:
        counts: dict[str, I64] = {role: np.zeros(self.buckets, np.int64) for role in ("docs", "target")}
        words = dict.fromkeys(counts, 0)
        for summary in summaries:
            counts[summary["role"]] += map_columns(scratch / summary["files"][0])[0]["counts"]
            words[summary["role"]] += summary["words"]
        write_columns(scratch / "log-ratio.arrow", {"log_ratio": log_ratio_of(counts["target"], counts["docs"])})
        shares = {role: c / max(1, int(c.sum())) for role, c in counts.items()}
        return {"words": words, "kl_target_corpus": divergence(shares["target"], shares["docs"])}

    def tasks(self, given: Given, shards: Sequence[Task], decision: Mapping[str, Any]) -> Sequence[int]:
        return range(len(open_documents(given["docs"]).parts))

    def work(self, given: Given, task: int, decision: Mapping[str, Any], out: Path, scratch: Path) -> Report:
        log_ratio = map_columns(scratch / "log-ratio.arrow")[0]["log_ratio"]
        short = text_bytes = 0
        name = shards.part_name(task)

        def rows() -> Iterator[pa.Table]:
            nonlocal short, text_bytes
            for table, features in self._features(open_documents(given["docs"]).parts[task]):
                few = (features.words < max(1, self.min_words)).astype(np.bool_)
                short += int(few.sum())
                text_bytes += int(shards.lengths_of(table.column("text")).sum())
                weights = pa.array(features.log_weights(log_ratio), mask=few)
                status = pa.array([SHORT if one else OK for one in few], pa.string())
                yield pa.table([table.column("doc_id"), weights, features.words, status], schema=SCHEMA)

        num = shards.write_shard(out / name, rows(), SCHEMA)
        counts = {"documents": num, "text_bytes": text_bytes} | ({f"status:{SHORT}": short} if short else {})
        return Report({name: num}, Balance(num, num), counts)

    def _features(self, part: Path) -> Iterator[tuple[pa.Table, Features]]:
        for table in shards.read_groups(part, ["doc_id", "text"]):
            text = table.column("text").combine_chunks()
            lower = pc.utf8_lower(text) if self.hashing == "fast" else text
            values, offsets = shards.buffers_of(lower)
            yield table, features_of(values, offsets, self.hashing, self.buckets)


def divergence(one: F64, other: F64) -> float:
    """KL(one || other) in nats of two distributions over buckets, 1e-8 added to every share."""
    return float(np.sum(one * (np.log(one + 1e-8) - np.log(other + 1e-8))))
