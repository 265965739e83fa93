"""spans: which stretches of documents stand in an earlier document already, from the suffix array of their token set.

    set      doc 0: a b c d e f     doc 1: x y b c d e z     doc 2: b c d e
    n = 3    first: b c d e                b c d e                  b c d e        repeats beyond the first
             share of doc 1: 4 of 7, of doc 2: 4 of 4

    part-00000.parquet             the documents, all of them, or those below `drop`
    repeats/part-00000.parquet     a row a stretch: document, tokens, characters, and where it stood first
    removed/part-00000.parquet     with `drop`: documents of which so large a share is repeated

A token is repeated when it lies in a run of `min_tokens` tokens that stands at an earlier place of the set, in another
document or in the same one. Documents that `drop` takes out are nobody's first place: with them gone, the next one that
holds the stretch is the first, so no stretch is lost whole. The index says which runs occur twice; which of them are equal is
told by 64-bit hashes of their tokens.

Price: 60 bytes of memory a repeated token, 0.5 us each; one process decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from typecase.core.balance import Balance
from typecase.core.minhash.grams import grams_of, token_units
from typecase.core.selection.keys import raw_ids
from typecase.engine.protocol import Engine
from typecase.errors import BadRecipe, NotFound
from typecase.recipe.build import open_recorded_tokenizer
from typecase.recipe.columns import Arrays, map_columns, write_columns
from typecase.recipe.keep import write_kept
from typecase.recipe.stage import Given, Report, Stage, Summary
from typecase.recipe.values import raw_ids_of
from typecase.store import shards
from typecase.store.documents import REMOVED_SCHEMA, open_documents
from typecase.store.index.index import Index, open_index
from typecase.store.provenance import open_provenance
from typecase.store.shards import part_name, write_shard

REASON = "repeated spans"
REPEATS_SCHEMA = pa.schema(
    [
        ("doc_id", pa.string()),
        ("start_token", pa.int64()),
        ("stop_token", pa.int64()),
        ("start", pa.int64()),
        ("stop", pa.int64()),
        ("first_doc_id", pa.string()),
        ("first_token", pa.int64()),
    ]
)
"""Tokens [start_token, stop_token) of a document, its characters [start, stop) (null where tokens have no bytes of their own,
or the text is not the one that was built), and the place where the first `min_tokens` of them stood first."""

I64 = NDArray[np.int64]
_SPANS, _SHARES = "spans.arrow", "shares.arrow"


@dataclass(frozen=True, kw_only=True)
class DedupSpans(Stage):
    """min_tokens  the shortest run that counts as repeated
    drop        documents go when this share of their tokens or more is repeated; None: nothing goes
    """

    verb: ClassVar[str] = "spans"
    needs: ClassVar[tuple[str, ...]] = ("docs", "index")

    min_tokens: int = 50
    drop: float | None = None

    def identity(self, engine: Engine) -> dict[str, Any]:
        if self.min_tokens < 2:
            raise BadRecipe(f"spans: a repeated run has 2 tokens or more, got min_tokens={self.min_tokens}")
        if self.drop is not None and not 0 < self.drop <= 1:
            raise BadRecipe(f"spans: drop is a share above 0 and up to 1, got {self.drop}")
        return super().identity(engine)

    def check(self, given: Given) -> None:
        open_documents(given["docs"])
        index = open_index(given["index"])
        if open_provenance(index.store.pair.bin.parent) is None:
            raise NotFound(
                f"{index.store.pair.prefix} has no provenance, so its documents cannot be found among those of {given['docs']}:"
                " build the set with `typecase build`, or ask `typecase search duplicates` for the stretches alone"
            )

    def shards(self, given: Given) -> Sequence[int]:
        return range(len(open_documents(given["docs"]).parts))

    def decide(self, given: Given, summaries: Sequence[Summary], scratch: Path) -> dict[str, Any]:
        index = open_index(given["index"])
        found = later_repeats(index, self.min_tokens, self.drop)
        docs = np.unique(np.concatenate((found.docs, found.first_docs)))
        provenance = open_provenance(index.store.pair.bin.parent)
        assert provenance is not None
        ids = raw_ids(provenance.rows(docs).column("doc_id").to_pylist())
        id_of = ids[np.searchsorted(docs, found.docs)]
        first_of = ids[np.searchsorted(docs, found.first_docs)]
        sizes = _token_bytes(index)
        whole, but_last, begins, ends = _byte_places(index, found, sizes)
        order = np.lexsort((found.starts, _key(id_of)))
        spans: Arrays = {
            "ids": id_of[order],
            "start": (found.starts - index.starts[found.docs])[order],
            "stop": (found.stops - index.starts[found.docs])[order],
            "start_byte": begins[order],
            "stop_byte": ends[order],
            "whole": whole[order],
            "but_last": but_last[order],
            "first_ids": first_of[order],
            "first_token": (found.firsts - index.starts[found.first_docs])[order],
        }
        write_columns(scratch / _SPANS, spans)
        touched = np.flatnonzero(found.repeated)
        touched_ids = ids[np.searchsorted(docs, touched)]
        order = np.argsort(_key(touched_ids))
        share = found.repeated[touched] / np.maximum(1, np.diff(index.starts)[touched])
        shares: Arrays = {"ids": touched_ids[order], "share": share[order], "gone": found.gone[touched][order]}
        write_columns(scratch / _SHARES, shares)
        return {
            "tokens": index.num_tokens,
            "repeated_tokens": int(found.repeated.sum()),
            "stretches": len(found.starts),
            "documents": index.num_documents,
            "documents_with_repeats": len(touched),
        }

    def work(self, given: Given, task: int, decision: Mapping[str, Any], out: Path, scratch: Path) -> Report:
        part = open_documents(given["docs"]).parts[task]
        shares, _ = map_columns(scratch / _SHARES)
        doc_ids = shards.read_columns(part, ["doc_id"]).column("doc_id")
        at, known = _found_in(_key(shares["ids"]), _key(raw_ids_of(doc_ids)))
        gone = np.zeros(len(known), np.bool_)
        gone[known] = shares["gone"][at[known]].astype(np.bool_)
        rows = _repeat_rows(part, map_columns(scratch / _SPANS)[0])
        num_kept, text_bytes = write_kept(part, ~gone, out / part_name(task))
        lost = doc_ids.combine_chunks().take(pa.array(np.flatnonzero(gone)))
        details = [f"{share:.1%} of its tokens" for share in shares["share"][at[gone]].tolist()]
        removed, repeats = f"removed/{part_name(task)}", f"repeats/{part_name(task)}"
        reasons = pa.array([REASON] * len(lost), pa.string())
        table = pa.table([lost, reasons, pa.array(details, pa.string())], schema=REMOVED_SCHEMA)
        write_shard(out / removed, [table], REMOVED_SCHEMA)
        write_shard(out / repeats, [rows], REPEATS_SCHEMA)
        balance = Balance(len(gone), num_kept, {REASON: len(lost)} if len(lost) else {})
        files = {part_name(task): num_kept, removed: len(lost), repeats: rows.num_rows}
        return Report(files, balance, {"documents": num_kept, "text_bytes": text_bytes})


@dataclass(frozen=True, slots=True)
class Later:
    """Stretches [starts, stops) of the set that repeat an earlier one, their documents, and the first place of their first run.

    repeated  int64 (documents,)  tokens of each document that are repeated;  gone  bool (documents,)  which are dropped
    """

    starts: I64
    stops: I64
    docs: I64
    firsts: I64
    first_docs: I64
    repeated: I64
    gone: NDArray[np.bool_]


def later_repeats(index: Index, size: int, drop: float | None) -> Later:
    """The repeats of `size` tokens or more beyond the first place of each."""
    stretches = index.duplicates(size)
    num_runs = stretches.stops - stretches.starts - size + 1
    within = np.arange(int(num_runs.sum())) - np.repeat(np.cumsum(num_runs) - num_runs, num_runs)
    runs = np.repeat(stretches.starts, num_runs) + within
    pieces = [
        grams_of(token_units(np.asarray(index.text[start:stop])), size)
        for start, stop in zip(stretches.starts.tolist(), stretches.stops.tolist(), strict=True)
    ]
    _, group = np.unique(np.concatenate([np.zeros(0, np.uint64), *pieces]), return_inverse=True)
    group = group.reshape(-1)
    bounds = np.asarray(index.starts, np.int64)
    docs = np.searchsorted(bounds, runs, side="right") - 1
    owner = np.full(int(group.max(initial=-1)) + 1, -1, np.int64)
    firsts = np.full(len(runs), -1, np.int64)
    repeated, gone = np.zeros(len(bounds) - 1, np.int64), np.zeros(len(bounds) - 1, np.bool_)
    _walk(runs, group, docs, bounds, size, 2.0 if drop is None else drop, owner, firsts, repeated, gone)
    later = np.flatnonzero(firsts >= 0)
    apart = np.ones(len(later), np.bool_)
    apart[1:] = (runs[later[1:]] > runs[later[:-1]] + size) | (docs[later[1:]] != docs[later[:-1]])
    opens = later[apart]
    closes = later[np.append(np.flatnonzero(apart)[1:] - 1, len(later) - 1)] if len(later) else later
    first_docs = np.searchsorted(bounds, firsts[opens], side="right") - 1
    return Later(runs[opens], runs[closes] + size, docs[opens], firsts[opens], first_docs, repeated, gone)


@njit(cache=True, nogil=True)
def _walk(
    runs: Any, group: Any, docs: Any, bounds: Any, size: int, drop: float, owner: Any, firsts: Any, repeated: Any, gone: Any
) -> None:
    """Documents in order; each gives its runs a first place unless they have one; a dropped one takes its own back."""
    i = 0
    while i < len(runs):
        doc = docs[i]
        begin, reach, covered, j = bounds[doc], bounds[doc], 0, i
        while j < len(runs) and docs[j] == doc:
            if owner[group[j]] >= 0:
                firsts[j] = owner[group[j]]
                covered += runs[j] + size - max(reach, runs[j])
                reach = runs[j] + size
            else:
                owner[group[j]] = runs[j]
            j += 1
        repeated[doc] = covered
        if covered >= drop * (bounds[doc + 1] - begin):
            gone[doc] = True
            for k in range(i, j):
                if owner[group[k]] >= begin:
                    owner[group[k]] = -1
        i = j


def _token_bytes(index: Index) -> I64 | None:
    """Bytes of every token id, 0 for special ones; None where the tokens have none of their own."""
    tokenizer = open_recorded_tokenizer(index.store.pair.bin.parent)
    if tokenizer is None:
        return None
    sizes = [tokenizer.token_bytes(k) for k in range(tokenizer.num_ids)]
    if not any(sizes):
        return None
    out = np.array([len(one or b"") for one in sizes], np.int64)
    out[list(tokenizer.special_tokens.values())] = 0
    return out


def _byte_places(index: Index, found: Later, sizes: I64 | None) -> tuple[I64, I64, I64, I64]:
    """Bytes of each stretch's document, with and without its last token, which may be one that ends documents, and bytes
    [begin, end) of the stretch; -1 where unknown."""
    whole, but_last, begins, ends = (np.full(len(found.starts), -1, np.int64) for _ in range(4))
    if sizes is None:
        return whole, but_last, begins, ends
    k = 0
    while k < len(found.docs):
        doc = int(found.docs[k])
        first, last = int(index.starts[doc]), int(index.starts[doc + 1])
        reach = np.concatenate(([0], np.cumsum(sizes[np.asarray(index.text[first:last], np.int64)])))
        while k < len(found.docs) and found.docs[k] == doc:
            whole[k], but_last[k] = reach[-1], reach[-2]
            begins[k], ends[k] = reach[found.starts[k] - first], reach[found.stops[k] - first]
            k += 1
    return whole, but_last, begins, ends


def _key(ids: NDArray[np.uint8]) -> NDArray[np.bytes_]:
    return np.ascontiguousarray(ids).view("S16").reshape(-1)


def _found_in(sorted_keys: NDArray[np.bytes_], keys: NDArray[np.bytes_]) -> tuple[I64, NDArray[np.bool_]]:
    """Where each of `keys` stands among `sorted_keys`, and whether it does."""
    if not len(sorted_keys):
        return np.zeros(len(keys), np.int64), np.zeros(len(keys), np.bool_)
    at = np.minimum(np.searchsorted(sorted_keys, keys), len(sorted_keys) - 1)
    return at, sorted_keys[at] == keys


def _repeat_rows(part: Path, spans: Mapping[str, NDArray[Any]]) -> pa.Table:
    """The stretches of the documents of a part, with characters instead of bytes."""
    keys, rows = _key(spans["ids"]), list[tuple[Any, ...]]()
    for table in shards.read_groups(part, ["doc_id", "text"]):
        doc_ids = table.column("doc_id")
        mine = _key(raw_ids_of(doc_ids))
        low, high = np.searchsorted(keys, mine, "left"), np.searchsorted(keys, mine, "right")
        for row in np.flatnonzero(high > low).tolist():
            raw = table.column("text")[row].as_py().encode("utf-8", "surrogatepass")
            for k in range(int(low[row]), int(high[row])):
                known = len(raw) in (int(spans["whole"][k]), int(spans["but_last"][k]))
                start, stop = (
                    len(raw[: int(spans[name][k])].decode("utf-8", "ignore")) if known else None
                    for name in ("start_byte", "stop_byte")
                )
                tokens = int(spans["start"][k]), int(spans["stop"][k])
                first = spans["first_ids"][k].tobytes().hex(), int(spans["first_token"][k])
                rows.append((doc_ids[row].as_py(), *tokens, start, stop, *first))
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(REPEATS_SCHEMA)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, REPEATS_SCHEMA, strict=True)], schema=REPEATS_SCHEMA)
