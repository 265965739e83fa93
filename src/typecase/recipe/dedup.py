"""dedup: documents -> one of each content, and, where `near` says so, one of each that is nearly the same.

    survey   a part's texts are hashed; equal ones in the part are one content with one candidate to survive; contents
             are sketched
    decide   contents of all parts are merged, one range of hashes after the other: which candidates lose, and to whom;
             what is left is compared where sketches meet: which contents join which document, and how similar they are
    work     a part is read again without its losers

    part-00000.parquet             the survivors, as they were
    removed/part-00000.parquet     every other one, and in `detail` the doc_id of the survivor, and the similarity

The survivor is the copy with the smallest doc_id, or with the best rating and then the smallest doc_id: a property of
the documents, so neither parts nor workers can change it. Contents are equal when hash (xxh3-128) and length are. Near
ones are laid down in `core.minhash.keepers`: every removed document was measured against the one that stays. Copies of a
content that joins a document are removed for that document too. Texts of fewer than 16 shingles are compared exactly alone.

Price: text is read twice; 60 bytes of scratch a document; the merge holds one range of hashes, about 2 million contents.
With `near` text is read three times, and 8 bytes of scratch a band and document; see `dedup_near`.
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
from typecase.core.minhash.sketch import Scheme, scheme_for
from typecase.core.selection.keys import Digest
from typecase.core.words import UNICODE
from typecase.engine.protocol import Engine
from typecase.errors import BadRecipe
from typecase.recipe.columns import map_columns, write_columns
from typecase.recipe.dedup_merge import merge_contents
from typecase.recipe.dedup_near import PartFiles, find_near, write_sketches
from typecase.recipe.keep import write_kept
from typecase.recipe.stage import Given, Report, Stage, Summary
from typecase.recipe.values import check_columns, check_ratings, raw_ids_of, read_values
from typecase.store import shards
from typecase.store.documents import REMOVED_SCHEMA, open_documents
from typecase.store.shards import part_name, write_shard

REASON = "exact duplicate"
NEAR_REASON = "near duplicate"
FIRST = "first"

_RANGE_ROWS = 1 << 21


@dataclass(frozen=True, kw_only=True)
class Dedup(Stage):
    """normalize  texts that differ in white space or case alone are equal
    keep       which copy survives: first (the smallest doc_id), or a rating column: the best by it
    near       Jaccard similarity of word shingles, 0.3 to 1, from which on documents are near duplicates; None: exact ones only
    crowd      shingles that so many candidates share do not make two documents alike by themselves
    alarm      a source that loses more than this share of its documents is named in the decision's warnings
    """

    verb: ClassVar[str] = "dedup"
    needs: ClassVar[tuple[str, ...]] = ("docs",)
    wants: ClassVar[tuple[str, ...]] = ("ratings",)
    libraries: ClassVar[tuple[str, ...]] = ("pyarrow", "xxhash")

    normalize: bool = False
    keep: str = FIRST
    near: float | None = None
    crowd: int = 10
    alarm: float = 0.5

    def identity(self, engine: Engine) -> dict[str, Any]:
        if self.near is not None:
            scheme_for(self.near)
        if self.crowd < 2:
            raise BadRecipe(f"dedup: a crowd is 2 documents or more, got crowd={self.crowd}")
        if not 0 <= self.alarm <= 1:
            raise BadRecipe(f"dedup: alarm is a share from 0 to 1, got {self.alarm}")
        plain = super().identity(engine)
        return plain if self.near is None else plain | {"unicode": UNICODE}

    @property
    def scheme(self) -> Scheme | None:
        return None if self.near is None else scheme_for(self.near)

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
        files = [_contents_name(shard), _rows_name(shard)]
        if self.scheme is not None:
            write_sketches(part, best, self.scheme, scratch / _sketches_name(shard))
            files.append(_sketches_name(shard))
        copies = np.bincount(np.delete(source, best), minlength=len(names)).tolist()
        return {
            "documents": len(hi),
            "text_bytes": int(length.sum()),
            "contents": len(best),
            "by_source": dict(zip(names, np.bincount(source, minlength=len(names)).tolist(), strict=True)),
            "copies": {name: n for name, n in zip(names, copies, strict=True) if n},
            "files": files,
        }

    def decide(self, given: Given, summaries: Sequence[Summary], scratch: Path) -> dict[str, Any]:
        by_source, copies = Counter[str](), Counter[str]()
        for summary in summaries:
            by_source.update(summary["by_source"])
            copies.update(summary["copies"])
        ranges = max(1, -(-sum(summary["contents"] for summary in summaries) // _RANGE_ROWS))
        contents = [scratch / _contents_name(task) for task in range(len(summaries))]
        exact = [scratch / _lost_name(number) for number in range(ranges)]
        merged = merge_contents(contents, exact)
        copies.update(merged.lost)
        decided: dict[str, Any] = {"_ranges": ranges}
        digest = merged.digest
        if self.near is not None:
            assert self.scheme is not None
            parts = [
                PartFiles(part, *(scratch / name(task) for name in (_contents_name, _sketches_name, _near_name)))
                for task, part in enumerate(open_documents(given["docs"]).parts)
            ]
            found = find_near(parts, exact, self.scheme, self.near, self.crowd, scratch)
            copies.update(found.lost)
            digest += Digest(-found.gone.first, -found.gone.second)
            decided["near"] = {
                "similarity": self.near,
                "bands": self.scheme.bands,
                "rows": self.scheme.rows,
                "recall": round(self.scheme.recall(self.near), 4),
                "candidates": found.candidates,
                "compared": found.compared,
                "contents": found.total,
                "largest": [{"doc_id": doc_id, "joined": size} for doc_id, size in found.largest],
            }
        shares = {name: copies[name] / n for name, n in by_source.items()}
        return decided | {
            "documents": by_source.total(),
            "kept": by_source.total() - copies.total(),
            "duplicates": copies.total(),
            "digest": str(digest),
            "by_source": {
                name: {"documents": n, "duplicates": copies[name], "share": round(shares[name], 6)}
                for name, n in sorted(by_source.items())
            },
            "largest": [{"doc_id": doc_id, "copies": size} for doc_id, size in merged.largest],
            "warnings": [
                f"source {name!r} loses {share:.1%} of its documents, more than {self.alarm:.0%}"
                for name, share in sorted(shares.items())
                if share > self.alarm
            ],
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
        similarity = np.full(len(survivor), np.nan)
        if self.near is not None:
            joins, _ = map_columns(scratch / _near_name(task))
            kept[contents["row"][joins["content"]]] = False
            survivor[joins["content"]] = joins["ids"]
            similarity[joins["content"]] = joins["similarity"]
        num_kept, text_bytes = write_kept(part, kept, out / part_name(task))
        gone = np.flatnonzero(~kept)
        told = _removed_table(part, gone, survivor[rows["content"][gone]], similarity[rows["content"][gone]])
        removed = f"removed/{part_name(task)}"
        write_shard(out / removed, [told], REMOVED_SCHEMA)
        balance = Balance(len(kept), num_kept, dict(Counter(told.column("reason").to_pylist())))
        return Report(
            {part_name(task): num_kept, removed: len(gone)}, balance, {"documents": num_kept, "text_bytes": text_bytes}
        )


def _removed_table(
    part: Path, gone: NDArray[np.int64], survivors: NDArray[np.uint8], similarity: NDArray[np.float64]
) -> pa.Table:
    """The rows `gone` of a part with their reasons; where there is no similarity, they are exact copies."""
    doc_ids = shards.read_columns(part, ["doc_id"]).column("doc_id").combine_chunks().take(pa.array(gone))
    exact = np.isnan(similarity).tolist()
    reasons = [REASON if one else NEAR_REASON for one in exact]
    details = [
        raw.tobytes().hex() if one else f"{raw.tobytes().hex()} {share:.4f}"
        for raw, one, share in zip(survivors, exact, similarity.tolist(), strict=True)
    ]
    columns = [doc_ids, pa.array(reasons, pa.string()), pa.array(details, pa.string())]
    return pa.table(columns, schema=REMOVED_SCHEMA)


def _contents_name(task: int) -> str:
    return f"contents-{task:05d}.arrow"


def _rows_name(task: int) -> str:
    return f"rows-{task:05d}.arrow"


def _sketches_name(task: int) -> str:
    return f"sketches-{task:05d}.arrow"


def _near_name(task: int) -> str:
    return f"near-lost-{task:05d}.arrow"


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
