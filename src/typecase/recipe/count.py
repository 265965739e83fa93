"""count: a token set -> its census, straight from the .bin.

    survey   runs of whole documents are counted, on every core, each into scratch
    work     the runs are merged; census.parquet is written

Any token set will do, ours or foreign. Sources come from the provenance of the set; the most frequent 15 by documents keep
their name and the others are one, so that memory does not grow with their number. Merging is exact: shards, threads and
workers change nothing. Price: see benchmarks/bench_audit.py; at least 1 GB a second of uint16 on two cores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from typecase.core.balance import Balance
from typecase.core.census import Census, Counter, empty_census
from typecase.engine.local import available_cores
from typecase.engine.protocol import Engine
from typecase.errors import CorruptStore, FixInput
from typecase.recipe.build import open_recorded_tokenizer
from typecase.recipe.stage import Given, Report, Stage, Summary
from typecase.store import shards
from typecase.store.audit.census import NAME, KeptCensus, write_census
from typecase.store.journal.opening import open_set, split_edited
from typecase.store.journal.provenance import EditedProvenance, provenance_of
from typecase.store.journal.view import EditedTokens
from typecase.store.tokens.fingerprint import fingerprint
from typecase.store.tokens.pair import find_pair
from typecase.store.tokens.store import TokenStore

_NAMED_SOURCES = 15
OTHER = "(other)"
UNKNOWN = "(unknown)"
_BLOCK_TOKENS = 1 << 18

Run = tuple[int, int]
"""Documents [first, last)."""


@dataclass(frozen=True, kw_only=True)
class Count(Stage):
    """`num_ids` as large as the vocabulary, 0: the recorded tokenizer's, else what the dtype or the data holds.

    `examples` are kept of every token; `threads` count one run together, 0 means every core.
    """

    verb: ClassVar[str] = "count"
    needs: ClassVar[tuple[str, ...]] = ("tokens",)
    gives: ClassVar[str] = "census"
    libraries: ClassVar[tuple[str, ...]] = ("pyarrow",)

    num_ids: int = 0
    examples: int = 3
    shard_tokens: int = 1 << 28
    threads: int = 0

    def identity(self, engine: Engine) -> dict[str, Any]:
        if min(self.num_ids, self.examples, self.threads) < 0 or self.shard_tokens < 1:
            raise FixInput(f"count needs ids, examples and threads of 0 or more and shards of 1 token or more, got {self}")
        return {"num_ids": self.num_ids, "examples": self.examples}

    def content_of(self, role: str, path: Path) -> str:
        """A token set of any maker is known by its bytes."""
        plain, edited = split_edited(path)
        if edited is None:
            return fingerprint(find_pair(plain))
        with open_set(path) as view:
            return view.fingerprint()

    def check(self, given: Given) -> None:
        with open_set(given["tokens"]) as store:
            if store.dtype.kind not in "iu":
                raise FixInput(f"{store.pair.prefix} holds {store.dtype}: only sets of integer ids can be counted")

    def shards(self, given: Given) -> Sequence[Run]:
        with open_set(given["tokens"]) as store:
            return cut_documents(store.document_lengths(), self.shard_tokens)

    def survey(self, given: Given, shard: Run, scratch: Path) -> Summary:
        with open_set(given["tokens"]) as store:
            num_ids = self.num_ids or vocabulary_size(store)
            names, labels = sources_of(store)
            threads = self.threads or available_cores()
            census = count_documents(
                store, shard, num_ids, labels=labels, num_sources=len(names), num_examples=self.examples, threads=threads
            )
        name = f"census-{shard[0]:012d}.npz"
        with (scratch / name).open("wb") as file:
            np.savez(file, **_arrays(census))
        return {"files": [name], "documents": shard[1] - shard[0], "num_ids": num_ids, "sources": list(names)}

    def decide(self, given: Given, summaries: Sequence[Summary], scratch: Path) -> dict[str, Any]:
        with open_set(given["tokens"]) as store:
            tokenizer = open_recorded_tokenizer(store.pair.bin.parent)
            num_ids = self.num_ids or (summaries[0]["num_ids"] if summaries else vocabulary_size(store))
            sources = summaries[0]["sources"] if summaries else list(sources_of(store)[0])
        return {
            "num_ids": num_ids,
            "sources": sources,
            "tokenizer": tokenizer.fingerprint if tokenizer is not None else None,
            "_files": [name for summary in summaries for name in summary["files"]],
        }

    def tasks(self, given: Given, shards: Sequence[Run], decision: Mapping[str, Any]) -> Sequence[str]:
        return [NAME]

    def work(self, given: Given, task: str, decision: Mapping[str, Any], out: Path, scratch: Path) -> Report:
        sources = tuple(decision["sources"])
        total = empty_census(decision["num_ids"], num_sources=len(sources), num_examples=self.examples)
        for name in decision["_files"]:
            with np.load(scratch / name) as kept:
                total = total + _census(kept)
        rows = write_census(out / task, KeptCensus(total, sources, decision["tokenizer"]))
        counts = {"documents": total.num_documents, "tokens": total.num_tokens, "outside": total.outside}
        return Report({task: rows}, Balance(total.num_documents, total.num_documents), counts)


def _arrays(census: Census) -> dict[str, Any]:
    return {name: getattr(census, name) for name in Census.__dataclass_fields__}


def _census(arrays: Mapping[str, Any]) -> Census:
    values: dict[str, Any] = {name: arrays[name] for name in Census.__dataclass_fields__}
    values = {name: value if value.ndim else int(value) for name, value in values.items()}
    return Census(**values)


def cut_documents(lengths: npt.NDArray[np.int64], most: int) -> list[Run]:
    """Runs of whole documents of about `most` tokens, in order; one longer document is a run of its own."""
    ends = np.cumsum(lengths, dtype=np.int64)
    runs, first = [], 0
    while first < len(lengths):
        base = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, base + most, side="right")))
        runs.append((first, last))
        first = last
    return runs


def vocabulary_size(store: TokenStore) -> int:
    """Ids of the recorded tokenizer, else of the dtype where that is 16 bits or fewer, else the largest id found, plus one."""
    recorded = open_recorded_tokenizer(store.pair.bin.parent)
    if recorded is not None:
        return recorded.num_ids
    if store.dtype.itemsize <= 2:
        return int(np.iinfo(store.dtype).max) + 1
    return 1 + max((int(block.tokens.max()) for block in store.blocks() if len(block.tokens)), default=0)


def sources_of(store: TokenStore) -> tuple[tuple[str, ...], npt.NDArray[np.int64] | None]:
    """Names of the sources and, by document, which it is; (UNKNOWN,) and None for a set without provenance."""
    provenance = provenance_of(store)
    if provenance is None:
        return (UNKNOWN,), None
    if isinstance(provenance, EditedProvenance):
        column = provenance.rows(np.arange(store.num_documents)).column("source")
    else:
        column = shards.read_columns(provenance.path, ["source"]).column("source")
    column = pc.fill_null(column, UNKNOWN).combine_chunks()
    table = pc.value_counts(column)
    found = sorted(zip(table.field("counts").to_pylist(), table.field("values").to_pylist()), key=lambda x: (-x[0], str(x[1])))
    if not found:
        return (UNKNOWN,), None
    named = [name for _, name in found[:_NAMED_SOURCES]]
    labels = pc.index_in(column, value_set=pa.array(named, column.type)).fill_null(len(named))
    others = (OTHER,) if len(found) > len(named) else ()
    return (*(UNKNOWN if name is None else name for name in named), *others), labels.to_numpy(zero_copy_only=False)


def count_documents(
    store: TokenStore,
    run: Run,
    num_ids: int,
    *,
    labels: npt.NDArray[np.int64] | None = None,
    num_sources: int = 1,
    num_examples: int = 3,
    threads: int = 1,
) -> Census:
    """The census of documents [first, last) of `store`; the same for any number of threads."""
    docs = np.arange(*run)
    lengths = store.document_lengths(docs)
    parts = cut_documents(lengths, max(1, -(-int(lengths.sum()) // threads)))
    firsts = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    before = int(store.document_lengths(np.arange(run[0])).sum()) if store.facts.contiguous and run[0] else 0

    def one(part: Run) -> Census:
        counter = Counter(num_ids, num_sources=num_sources, num_examples=num_examples)
        with _Reader(store) as reader:
            for first, last in cut_documents(lengths[part[0] : part[1]], _BLOCK_TOKENS):
                block = part[0] + first, part[0] + last
                begin, size = int(firsts[block[0]]), int(firsts[block[1]] - firsts[block[0]])
                tokens = reader.read((run[0] + block[0], run[0] + block[1]), before + begin, size)
                own = None if labels is None else labels[run[0] + block[0] : run[0] + block[1]]
                counter.add(tokens, firsts[block[0] + 1 : block[1] + 1] - begin, run[0] + block[0], own)
        return counter.census()

    total = empty_census(num_ids, num_sources=num_sources, num_examples=num_examples)
    with ThreadPoolExecutor(threads) as pool:
        for census in pool.map(one, parts):
            total = total + census
    return total


class _Reader:
    """Tokens of runs of documents; read into one buffer again and again where they lie end to end, else gathered.

    A mapped file costs a page fault for every 4 KB, as much as counting them; a buffer that stays in the cache costs a tenth.
    """

    def __init__(self, store: TokenStore) -> None:
        self._store = store
        as_it_lies = store.facts.contiguous and not isinstance(store, EditedTokens)
        self._file = store.pair.bin.open("rb", buffering=0) if as_it_lies else None
        self._buffer = np.empty(0, store.dtype)

    def read(self, run: Run, first_token: int, num_tokens: int) -> npt.NDArray[Any]:
        """The tokens of documents `run`, which are `num_tokens` from `first_token` on; good until the next call."""
        if self._file is None:
            return self._store.read_many(np.arange(*run))[0]
        if len(self._buffer) < num_tokens:
            self._buffer = np.empty(num_tokens, self._store.dtype)
        tokens = self._buffer[:num_tokens]
        self._file.seek(first_token * tokens.itemsize)
        target = tokens.view(np.uint8)
        done = 0
        while done < len(target):
            size = self._file.readinto(target[done:].data)
            if not size:
                raise CorruptStore(f"{self._store.pair.bin} ends at byte {self._file.tell()}: it was cut while it was counted")
            done += size
        return tokens

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if self._file is not None:
            self._file.close()
