"""index: a token set -> a suffix array over it, in shards that fit the memory given.

    shards   runs of whole documents; a match lies within a document, so no shard border cuts one
    work     a shard is read, its suffixes sorted, its files written
    finish   the copy of the tokens is forced to disk, where one was needed

    shard-00000.sa .keys.npy .ends.npy .marks.npy .ids.npy .first.npy      4.5 bytes a token; see `store.index.layout`
    tokens.bin                                                  only for sets whose sequences have gaps or another order

Any token set will do, ours or foreign, by folder or prefix. Where shards are cut follows from `memory_bytes` and the set, not
from workers; each worker takes that much. Killed builds go on with the shards that are missing. Price: 14 million tokens a
second on two cores for 1.7 x 10^7 tokens, reading, checking and writing included.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from typecase.core.balance import Balance
from typecase.engine.local import available_cores
from typecase.engine.protocol import Engine
from typecase.errors import FingerprintMismatch, FixInput, NotFound
from typecase.recipe.stage import Given, Report, Stage
from typecase.store.atomic import sync_file
from typecase.store.index.layout import FLAT, MOST_TOKENS, Facts, Shard, cut_shards, write_shard
from typecase.store.index.recognise import probe, signature
from typecase.store.manifest import read_manifest
from typecase.store.tokens.fingerprint import fingerprint, promised_fingerprint
from typecase.store.tokens.pair import TokenPair, find_pair
from typecase.store.tokens.store import TokenStore, open_tokens
from typecase.store.tokens.writer import preallocate, write_slice

_WORK_BYTES = 12
"""What sorting takes a token, beside the token itself."""


@dataclass(frozen=True, kw_only=True)
class Index(Stage):
    """`memory_bytes` bounds one worker, and so the shard; `threads` sort one shard together, 0 means every core."""

    verb: ClassVar[str] = "index"
    version: ClassVar[int] = 2
    needs: ClassVar[tuple[str, ...]] = ("tokens",)
    gives: ClassVar[str] = "index"
    libraries: ClassVar[tuple[str, ...]] = ()

    memory_bytes: int = 4 << 30
    threads: int = 0

    def identity(self, engine: Engine) -> dict[str, Any]:
        if self.memory_bytes < 1 or self.threads < 0:
            raise FixInput(
                f"an index needs memory of 1 byte or more and 0 threads or more, got {self.memory_bytes} and {self.threads}"
            )
        return {"memory_bytes": self.memory_bytes}

    def content_of(self, role: str, path: Path) -> str:
        """A token set of any maker is known by its bytes."""
        return _fingerprint(find_pair(path))

    def check(self, given: Given) -> None:
        with open_tokens(given["tokens"]) as store:
            if store.dtype.kind not in "iu":
                raise FixInput(f"{store.pair.prefix} holds {store.dtype}: only sets of integer ids can be searched")

    def shards(self, given: Given) -> Sequence[Shard]:
        with open_tokens(given["tokens"]) as store:
            return cut_shards(store.document_lengths(), self._shard_tokens(store))

    def decide(self, given: Given, summaries: Sequence[Mapping[str, Any]], scratch: Path) -> dict[str, Any]:
        with open_tokens(given["tokens"]) as store:
            found = _fingerprint(store.pair)
            _compare(given["tokens"], store.pair, found)
            flat = not store.facts.contiguous
            shards = cut_shards(store.document_lengths(), self._shard_tokens(store))
            facts = Facts(found, probe(store.pair), store.dtype, store.num_tokens, store.num_documents, flat, shards)
            target, size_bytes = scratch.parent / FLAT, store.num_tokens * store.dtype.itemsize
        if flat and (not target.exists() or target.stat().st_size != size_bytes):
            target.unlink(missing_ok=True)
            preallocate(target, size_bytes)
        return facts.as_dict()

    def tasks(self, given: Given, shards: Sequence[Shard], decision: Mapping[str, Any]) -> Sequence[tuple[int, Shard]]:
        return list(enumerate(shards))

    def work(self, given: Given, task: tuple[int, Shard], decision: Mapping[str, Any], out: Path, scratch: Path) -> Report:
        number, shard = task
        with open_tokens(given["tokens"]) as store:
            tokens, ends = _read(store, shard)
        ranges = {}
        if decision["flat"]:
            begin = shard.first_token * tokens.itemsize
            write_slice(out / FLAT, begin, tokens)
            ranges[FLAT] = (begin, begin + tokens.nbytes)
        names = write_shard(out, number, tokens, ends, threads=self.threads or available_cores())
        docs = shard.last_doc - shard.first_doc
        counts = {"documents": docs, "tokens": shard.num_tokens, "shards": 1}
        return Report(dict.fromkeys(names, 0), Balance(docs, docs), counts, ranges)

    def finish(self, given: Given, decision: Mapping[str, Any], out: Path, scratch: Path) -> Report:
        if not decision["flat"]:
            return Report()
        sync_file(out / FLAT)
        return Report({FLAT: 0})

    def _shard_tokens(self, store: TokenStore) -> int:
        return max(1, min(self.memory_bytes // (_WORK_BYTES + store.dtype.itemsize), MOST_TOKENS))


def _read(store: TokenStore, shard: Shard) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """The tokens of a shard, end to end, and the exclusive ends of its documents."""
    docs = np.arange(shard.first_doc, shard.last_doc)
    ends = np.cumsum(store.document_lengths(docs), dtype=np.int64)
    if store.facts.contiguous:
        offset = shard.first_token * store.dtype.itemsize
        return np.fromfile(store.pair.bin, store.dtype, shard.num_tokens, offset=offset), ends
    return store.read_many(docs)[0], ends


def _compare(given: Path, pair: TokenPair, found: str) -> None:
    """Raises FingerprintMismatch when the manifest beside the set promises other bytes."""
    try:
        promised = promised_fingerprint(pair, read_manifest(given))
    except NotFound:
        return
    if promised != found:
        raise FingerprintMismatch(
            f"{pair.prefix} has other bytes than its manifest says: it was changed after it was built; see `typecase doctor`"
        )


def _fingerprint(pair: TokenPair) -> str:
    return _fingerprint_of(pair, repr(signature(pair)))


@functools.lru_cache(maxsize=8)
def _fingerprint_of(pair: TokenPair, signed: str) -> str:
    """Read once a process, as long as the files stay what they are."""
    return fingerprint(pair)
