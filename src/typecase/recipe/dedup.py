"""dedup: documents -> one of each content.

    survey   a part's texts are hashed; equal ones in the part are one content with one candidate to survive
    decide   contents of all parts are merged, one range of hashes after the other: which candidates lose, and to whom
    work     a part is read again without its losers

    part-00000.parquet             the survivors, as they were
    removed/part-00000.parquet     every other copy, and in `detail` the doc_id of the survivor

The survivor is the copy with the smallest doc_id, or with the best rating and then the smallest doc_id: a property of
the documents, so neither parts nor workers can change it. Contents are equal when hash (xxh3-128) and length are.

Price: text is read twice; 60 bytes of scratch a document; the merge holds one range of hashes, about 2 million contents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from typecase.core.balance import Balance
from typecase.core.clusters import exact_clusters
from typecase.errors import BadRecipe
from typecase.recipe.columns import map_columns, write_columns
from typecase.recipe.dedup_merge import merge_contents
from typecase.recipe.keep import write_kept
from typecase.recipe.stage import Given, Report, Stage, Summary
from typecase.recipe.values import check_columns, check_ratings, raw_ids_of, read_values
from typecase.store import shards
from typecase.store.documents import REMOVED_SCHEMA, open_documents
from typecase.store.shards import part_name, write_shard

REASON = "exact duplicate"
FIRST = "first"

_RANGE_ROWS = 1 << 21


@dataclass(frozen=True, kw_only=True)
class Dedup(Stage):
    """normalize  texts that differ in white space or case alone are equal
    keep       which copy survives: first (the smallest doc_id), or a rating column: the best by it
    """

    verb: ClassVar[str] = "dedup"
    needs: ClassVar[tuple[str, ...]] = ("docs",)
    wants: ClassVar[tuple[str, ...]] = ("ratings",)
    libraries: ClassVar[tuple[str, ...]] = ("pyarrow", "xxhash")

    normalize: bool = False
    keep: str = FIRST

    def check(self, given: Given) -> None:
        open_documents(given["docs"])
        ratings = given.get("ratings")
        if self.keep == FIRST:
            return
        if ratings is not None:
            check_ratings(given["docs"], ratings)
        elif not self.keep.startswith("meta."):
            raise BadRecipe(
                f"dedup: keep={self.keep!r} goes by a rating, but there are no ratings: rate the documents, name a field of"
                " the source rows with keep='meta.FIELD', or use keep='first'"
            )
        check_columns((self.keep,), (), ratings)

    def shards(self, given: Given) -> Sequence[int]:
        return range(len(open_documents(given["docs"]).parts))

    def survey(self, given: Given, shard: int, scratch: Path) -> Summary:
        part = open_documents(given["docs"]).parts[shard]
        hi, lo, length = _hashes(part, self.normalize)
        scored = (self.keep,) if self.keep != FIRST else ()
        doc_ids, values = read_values(part, ("source", *scored), given.get("ratings"))
        score = values.numbers(self.keep) if scored else None
        found = exact_clusters(hi, lo, length, score)
        best = found.survivor
        sources = values.labels("source").dictionary_encode()
        source = sources.indices.to_numpy(zero_copy_only=False).astype(np.int32)
        names = sources.dictionary.to_pylist()
        contents = {
            "hi": hi[best],
            "lo": lo[best],
            "length": length[best],
            "ids": raw_ids_of(doc_ids)[best],
            "score": score[best] if score is not None else np.zeros(len(best)),
            "source": source[best],
            "size": found.size,
            "row": best,
        }
        write_columns(scratch / _contents_name(shard), contents, names)
        write_columns(scratch / _rows_name(shard), {"content": found.cluster.astype(np.int32)})
        copies = np.bincount(np.delete(source, best), minlength=len(names)).tolist()
        return {
            "documents": len(hi),
            "text_bytes": int(length.sum()),
            "contents": len(best),
            "by_source": dict(zip(names, np.bincount(source, minlength=len(names)).tolist(), strict=True)),
            "copies": {name: n for name, n in zip(names, copies, strict=True) if n},
            "files": [_contents_name(shard), _rows_name(shard)],
        }

    def decide(self, given: Given, summaries: Sequence[Summary], scratch: Path) -> dict[str, Any]:
        by_source, copies = Counter[str](), Counter[str]()
        for summary in summaries:
            by_source.update(summary["by_source"])
            copies.update(summary["copies"])
        ranges = max(1, -(-sum(summary["contents"] for summary in summaries) // _RANGE_ROWS))
        contents = [scratch / _contents_name(task) for task in range(len(summaries))]
        merged = merge_contents(contents, [scratch / _lost_name(number) for number in range(ranges)])
        copies.update(merged.lost)
        return {
            "documents": by_source.total(),
            "kept": by_source.total() - copies.total(),
            "duplicates": copies.total(),
            "digest": str(merged.digest),
            "by_source": {
                name: {"documents": n, "duplicates": copies[name], "share": round(copies[name] / n, 6)}
                for name, n in sorted(by_source.items())
            },
            "largest": [{"doc_id": doc_id, "copies": size} for doc_id, size in merged.largest],
            "_ranges": ranges,
        }

    def work(self, given: Given, task: int, decision: Mapping[str, Any], out: Path, scratch: Path) -> Report:
        part = open_documents(given["docs"]).parts[task]
        contents, _ = map_columns(scratch / _contents_name(task))
        rows, _ = map_columns(scratch / _rows_name(task))
        survivor = contents["ids"].copy()
        kept = np.zeros(len(rows["content"]), np.bool_)
        kept[contents["row"]] = True
        for number in range(decision["_ranges"]):
            lost, _ = map_columns(scratch / _lost_name(number))
            start, stop = np.searchsorted(lost["part"], [task, task + 1])
            kept[contents["row"][lost["content"][start:stop]]] = False
            survivor[lost["content"][start:stop]] = lost["ids"][start:stop]
        num_kept, text_bytes = write_kept(part, kept, out / part_name(task))
        gone = np.flatnonzero(~kept)
        doc_ids = shards.read_columns(part, ["doc_id"]).column("doc_id").combine_chunks().take(pa.array(gone))
        winners = [raw.tobytes().hex() for raw in survivor[rows["content"][gone]]]
        columns = [doc_ids, pa.array([REASON] * len(gone), pa.string()), pa.array(winners, pa.string())]
        removed = f"removed/{part_name(task)}"
        write_shard(out / removed, [pa.table(columns, schema=REMOVED_SCHEMA)], REMOVED_SCHEMA)
        balance = Balance(len(kept), num_kept, {REASON: len(gone)} if len(gone) else {})
        return Report(
            {part_name(task): num_kept, removed: len(gone)}, balance, {"documents": num_kept, "text_bytes": text_bytes}
        )


def _contents_name(task: int) -> str:
    return f"contents-{task:05d}.arrow"


def _rows_name(task: int) -> str:
    return f"rows-{task:05d}.arrow"


def _lost_name(number: int) -> str:
    return f"lost-{number:05d}.arrow"


def _hashes(part: Path, normalize: bool) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int64]]:
    """Two words of hash and the length in bytes of every text, hashed where it lies in the Arrow buffer."""
    digests, lengths = bytearray(), [np.zeros(0, np.int64)]
    for table in shards.read_groups(part, ["text"]):
        for chunk in table.column("text").chunks:
            if normalize:
                chunk = pa.array([" ".join(text.split()).casefold() for text in chunk.to_pylist()], pa.large_string())
            values, offsets = shards.buffers_of(chunk)
            text, bounds = values.data, offsets.tolist()
            for start, stop in pairwise(bounds):
                digests += xxhash.xxh3_128_digest(text[start:stop])
            lengths.append(np.diff(offsets))
    words = np.frombuffer(bytes(digests), ">u8").reshape(-1, 2).astype(np.uint64)
    return words[:, 0].copy(), words[:, 1].copy(), np.concatenate(lengths)
