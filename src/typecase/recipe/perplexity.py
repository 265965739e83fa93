"""perplexity: documents -> a side table of nats, tokens and bytes; what they come to is computed from it at any time.

    survey   part k is counted, its documents in two folds by a hash of their ids   (n-gram model only)
    decide   counts are added, a model is fitted for each fold                       (n-gram model only)
    work     part k -> part-0000k.parquet: doc_id, nll, tokens, bytes, unscored, status

`model="ngram"` fits our n-gram model on the corpus itself, cross-fitted: a document of fold 0 is scored by the model of fold 1
and the other way round, so that no document scores itself. With the role `reference` it is fitted on those documents instead,
once. Counts are of a share of the documents, drawn by a hash of their ids, of about `fit_bytes` bytes. Any other `model` is a
language model as `open_lm` has it. Same documents, same numbers, for any parts and workers.

Price: see benchmarks/bench_perplexity.py. While a fold is fitted, each byte of its text takes 12 bytes of memory over words, 25
over bytes.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from typecase.core import perplexity as measures
from typecase.core.balance import Balance
from typecase.core.ngram_lm.counts import Counts, count, merged
from typecase.core.ngram_lm.model import LONGEST, NgramModel, fit
from typecase.core.ngram_lm.symbols import Spelling, Unit, cut, spell
from typecase.core.perplexity import EMPTY_TEXT, status_of
from typecase.core.selection.keys import hash_ids, raw_ids
from typecase.engine.protocol import Engine
from typecase.errors import FixInput, SchemaMismatch
from typecase.lm.perplexity import Windowing, score_documents, windowing_for
from typecase.lm.protocol import LM
from typecase.recipe.stage import Given, Report, Stage, Summary
from typecase.store import shards
from typecase.store.documents import DOC_SCHEMA, DocumentStore, open_documents
from typecase.store.manifest import read_manifest

SCHEMA = pa.schema(
    [
        ("doc_id", pa.string()),
        ("nll", pa.float64()),
        ("tokens", pa.int64()),
        ("bytes", pa.int64()),
        ("unscored", pa.int64()),
        ("status", pa.string()),
    ]
)
"""`nll` is a sum in nats, null where nothing was scored; `unscored` tokens are part of `tokens` and have no part in `nll`."""

NGRAM = "ngram"
ORDERS: Mapping[Unit, int] = {"words": 3, "bytes": 6}
_FOLDS = 2

Task = tuple[str, int, float]
"""Role and number of the part to count, and the share of its documents that counts."""


@dataclass(frozen=True, kw_only=True)
class Perplexity(Stage):
    """model        "ngram", or a language model as `open_lm` takes it
    unit, order     of the n-gram model; order 0: 3 for words, 6 for bytes
    fit_bytes       text that it is fitted on, about
    window, stride  of a language model; 0: what it holds, at most 2,048 tokens, and half of that
    """

    verb: ClassVar[str] = "perplexity"
    needs: ClassVar[tuple[str, ...]] = ("docs",)
    wants: ClassVar[tuple[str, ...]] = ("reference",)
    gives: ClassVar[str] = "perplexity"

    model: str = NGRAM
    unit: Unit = "words"
    order: int = 0
    fit_bytes: int = 64 << 20
    window: int = 0
    stride: int = 0
    seed: int = 0

    @property
    def symbols(self) -> int:
        """The order of the n-gram model."""
        return self.order or ORDERS[self.unit]

    @property
    def holds_model(self) -> bool:
        return self.model != NGRAM

    def identity(self, engine: Engine) -> dict[str, Any]:
        if self.model != NGRAM:
            lm = _open(self.model)
            return {"model": lm.name, "model_fingerprint": lm.fingerprint, **asdict(self._windowing(lm))}
        if self.unit not in ORDERS:
            raise FixInput(f"an n-gram model reads {' or '.join(ORDERS)}, got unit {self.unit!r}")
        if not 2 <= self.symbols <= LONGEST or self.fit_bytes < 1:
            raise FixInput(f"an n-gram model has an order of 2 to {LONGEST} and text to fit on, got {self}")
        return {
            "model": NGRAM,
            "unit": self.unit,
            "order": self.symbols,
            "fit_bytes": self.fit_bytes,
            "seed": self.seed,
        }

    def check(self, given: Given) -> None:
        for folder in given.values():
            open_documents(folder)

    def shards(self, given: Given) -> Sequence[Task]:
        role = "reference" if "reference" in given else "docs"
        store = open_documents(given[role])
        if self.model != NGRAM:
            return []
        share = min(1.0, self.fit_bytes / max(1, _text_bytes(store)))
        return [(role, number, share) for number in range(len(store.parts))]

    def survey(self, given: Given, shard: Task, scratch: Path) -> Summary:
        role, number, share = shard
        folds = 1 if role == "reference" else _FOLDS
        counts: list[list[Counts]] = [[] for _ in range(folds)]
        spelling = [Spelling.empty() for _ in range(folds)]
        for table in shards.read_groups(open_documents(given[role]).parts[number], ["doc_id", "text"]):
            fold = _folds(table.column("doc_id").to_pylist(), folds, share, self.seed)
            for values, offsets, rows in _batches(table):
                symbols = cut(values, offsets, self.unit)
                for k in range(folds):
                    counts[k].append(count(symbols, self.symbols, fold[rows] == k))
                    spelling[k] += spell(values, symbols, fold[rows] == k)
        names = []
        for k in range(folds):
            names.append(f"counts-{number:05d}-{k}.npz")
            _write_counts(scratch / names[-1], merged(counts[k], self.symbols), spelling[k])
        return {"files": names, "share": share}

    def decide(self, given: Given, summaries: Sequence[Summary], scratch: Path) -> dict[str, Any]:
        if self.model != NGRAM:
            return {"first_token": "predicted from the model's start token, else unscored"}
        fitted = []
        for k in range(1 if "reference" in given else _FOLDS):
            read = [_read_counts(scratch / summary["files"][k]) for summary in summaries]
            counts = merged((counts for counts, _ in read), self.symbols)
            model = fit(counts, sum((spelling for _, spelling in read), Spelling.empty()), self.unit)
            _write_model(scratch / f"model-{k}", model)
            discounts = [[d.one, d.two, d.more] for d in model.discounts]
            told = {"fingerprint": model.fingerprint, "ngrams": len(counts.keys), "symbols": int(counts.times.sum())}
            fitted.append({**told, "discounts": discounts})
        return {
            "fitted_on": "reference" if "reference" in given else "the other fold of the same documents",
            "share": summaries[0]["share"] if summaries else 0.0,
            "models": fitted,
            "first_token": "predicted behind start symbols",
        }

    def tasks(self, given: Given, shards: Sequence[Task], decision: Mapping[str, Any]) -> Sequence[int]:
        return range(len(open_documents(given["docs"]).parts))

    def work(self, given: Given, task: int, decision: Mapping[str, Any], out: Path, scratch: Path) -> Report:
        part = open_documents(given["docs"]).parts[task]
        statuses: Counter[str] = Counter()
        sums: Counter[str] = Counter()
        name = shards.part_name(task)

        def rows() -> Iterator[pa.Table]:
            for table in shards.read_groups(part, ["doc_id", "text"]):
                scored = self._scored(table, decision, scratch)
                statuses.update(scored.column("status").to_pylist())
                sums.update({"text_bytes": _sum(scored, "bytes"), "tokens": _sum(scored, "tokens")})
                yield scored

        num = shards.write_shard(out / name, rows(), SCHEMA)
        counts = {"documents": num, "text_bytes": sums["text_bytes"], "tokens": sums["tokens"]}
        counts |= {f"status:{status}": number for status, number in sorted(statuses.items()) if status != "ok"}
        return Report({name: num}, Balance(num, num), counts)

    def _windowing(self, lm: LM) -> Windowing:
        return windowing_for(lm, self.window, self.stride)

    def _scored(self, table: pa.Table, decision: Mapping[str, Any], scratch: Path) -> pa.Table:
        sizes = shards.lengths_of(table.column("text"))
        if self.model == NGRAM:
            return self._by_ngrams(table, sizes, [_read_model(scratch / f"model-{k}") for k in range(len(decision["models"]))])
        lm = _open(self.model)
        found = list(score_documents(lm, table.column("text").to_pylist(), self._windowing(lm)))
        columns = [[getattr(one, name) for one in found] for name in ("nats", "tokens", "unscored", "status")]
        nats, tokens, unscored, statuses = columns
        return pa.table([table.column("doc_id"), nats, tokens, sizes, unscored, statuses], schema=SCHEMA)

    def _by_ngrams(self, table: pa.Table, sizes: npt.NDArray[np.int64], models: Sequence[NgramModel]) -> pa.Table:
        """Each document by the model of the fold that it is not in."""
        fold = _folds(table.column("doc_id").to_pylist(), len(models), 1.0, self.seed)
        nats, tokens = np.zeros(table.num_rows), np.zeros(table.num_rows, np.int64)
        blank = np.zeros(table.num_rows, np.bool_)
        for values, offsets, rows in _batches(table):
            for k, model in enumerate(models):
                own = fold[rows] == (k + 1) % len(models)
                picked, starts = _picked(values, offsets, own)
                nats[rows][own], tokens[rows][own] = model.score(picked, starts)
            blank[rows] = [not values[a:b].tobytes().strip() for a, b in itertools.pairwise(offsets)]
        statuses = [status_of(int(n), bool(b)) for n, b in zip(tokens, blank)]
        nll = pa.array(nats, mask=np.array([status == EMPTY_TEXT for status in statuses], np.bool_))
        nothing = np.zeros(len(nats), np.int64)
        return pa.table([table.column("doc_id"), nll, tokens, sizes, nothing, statuses], schema=SCHEMA)


def _folds(doc_ids: list[str], folds: int, share: float, seed: int) -> npt.NDArray[np.int64]:
    """The fold of each document, int64 (docs,); -1 for one that is not in the share."""
    raw = raw_ids(doc_ids)
    fold = (hash_ids(raw, seed=seed, purpose="perplexity fold") % np.uint64(folds)).astype(np.int64)
    lot = hash_ids(raw, seed=seed, purpose="perplexity share") >> np.uint64(11)
    return np.where(lot < np.uint64(int(share * 2**53)), fold, -1) if share < 1 else fold


def _batches(table: pa.Table) -> Iterator[tuple[Any, Any, slice]]:
    """The texts of a table chunk by chunk: bytes, offsets, rows."""
    first = 0
    for chunk in table.column("text").chunks:
        yield *shards.buffers_of(chunk), slice(first, first + len(chunk))
        first += len(chunk)


def _picked(values: Any, offsets: Any, own: npt.NDArray[np.bool_]) -> tuple[Any, Any]:
    """The texts where `own` holds, end to end."""
    if own.all():
        return values, offsets
    texts = [values[a:b] for a, b, mine in zip(offsets, offsets[1:], own) if mine]
    ends = np.cumsum([0, *(len(text) for text in texts)], dtype=np.int64)
    return np.concatenate(texts) if texts else np.zeros(0, np.uint8), ends


def _sum(table: pa.Table, name: str) -> int:
    return int(table.column(name).to_numpy().sum())


def _text_bytes(store: DocumentStore) -> int:
    """Bytes of text of all documents, from the manifest where it says so."""
    if known := store.manifest.counts.get("text_bytes"):
        return int(known)
    return sum(int(shards.lengths_of(table.column("text")).sum()) for table in store.tables(["text"]))


def _write_counts(path: Path, counts: Counts, spelling: Spelling) -> None:
    with path.open("wb") as file:
        np.savez(file, grams=counts.grams, keys=counts.keys, times=counts.times, pairs=spelling.pairs)


def _read_counts(path: Path) -> tuple[Counts, Spelling]:
    with np.load(path) as kept:
        return Counts(kept["grams"], kept["keys"], kept["times"]), Spelling(kept["pairs"])


def _write_model(folder: Path, model: NgramModel) -> None:
    folder.mkdir(exist_ok=True)
    for name in ("grams", "contexts", "spelling"):
        np.save(folder / f"{name}.npy", getattr(model, name))
    np.save(folder / "floor.npy", np.array([model.floor, model.order, model.unit == "bytes"]))


def _read_model(folder: Path) -> NgramModel:
    """A fitted model, its tables mapped: processes share them."""
    grams, contexts = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("grams", "contexts"))
    floor, order, by_bytes = np.load(folder / "floor.npy").tolist()
    spelling = np.load(folder / "spelling.npy")
    return NgramModel("bytes" if by_bytes else "words", int(order), grams, contexts, floor, spelling, ())


def read_perplexity(folder: Path) -> pa.Table:
    """The table of a perplexity artifact, rows by doc_id. Raises NotFound, or SchemaMismatch where it is another kind."""
    manifest = read_manifest(folder)
    if manifest.kind != "perplexity":
        raise SchemaMismatch(f"{folder} holds {manifest.kind}, not perplexity: make one with `typecase perplexity`")
    parts = [folder / file.name for file in manifest.files if file.name.startswith("part-")]
    return pa.concat_tables([SCHEMA.empty_table(), *(shards.read_columns(part) for part in parts)])


def summary_of(table: pa.Table) -> measures.Perplexity:
    """What a table of SCHEMA comes to."""
    tokens, unscored, size = (table.column(name).to_numpy() for name in ("tokens", "unscored", "bytes"))
    nats = table.column("nll").to_numpy(zero_copy_only=False)
    return measures.summarise(nats, tokens, unscored, size, table.column("status").to_pylist())


def summaries_by_source(folder: Path, docs: Path) -> dict[str, measures.Perplexity]:
    """What each source comes to, by name."""
    table = read_perplexity(folder)
    narrow = pa.concat_tables(
        [DOC_SCHEMA.empty_table().select(["doc_id", "source"]), *open_documents(docs).tables(["doc_id", "source"])]
    )
    rows = pc.index_in(table.column("doc_id"), value_set=narrow.column("doc_id"))
    sources = pc.fill_null(narrow.column("source").take(rows), "")
    return {name: summary_of(table.filter(pc.equal(sources, name))) for name in sorted(pc.unique(sources).to_pylist())}


@functools.lru_cache(maxsize=1)
def _open(spec: str) -> LM:
    from typecase.lm.models import open_lm

    lm: LM = open_lm(spec)
    return lm
