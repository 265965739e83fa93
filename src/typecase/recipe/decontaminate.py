"""decontaminate: documents -> those that share no n-gram with evaluation files.

    survey   n-grams of the items are looked up in a part's texts; every overlap becomes a row
    decide   totals by evaluation file and by source
    work     a part is read again without the documents that share too much

    part-00000.parquet             the documents that stay, as they were
    removed/part-00000.parquet     the others, and in `detail` the worst item: "arc.jsonl row 12: 7 of 20 n-grams, characters …"
    overlap/part-00000.parquet     every document and item that share an n-gram, removed or not

An item is a line of a text file or a row of a .jsonl. A document goes when it holds `count` n-grams of one item or more, and
`share` of that item's n-grams or more. n = 13 words and 8 as the fewest are those of GPT-3 (Brown and others 2020, appendix
C); items between them count as found where all of them stands; still shorter ones are too common to mean anything and are
left out, counted in the decision.

Price: text is read twice, 75 to 110 MB a second and worker; the n-grams of the items in the memory of every worker, 60 bytes
each.
"""

from __future__ import annotations

import functools
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from typecase.core.balance import Balance
from typecase.core.minhash.grams import Grams, Overlap, grams_of_items, overlaps, token_units, touched_texts, touched_units
from typecase.core.minhash.words import words_of
from typecase.core.words import UNICODE
from typecase.engine.protocol import Engine
from typecase.errors import BadQuery, BadRecipe, NotFound
from typecase.recipe.keep import write_kept
from typecase.recipe.stage import Given, Report, Stage, Summary
from typecase.store import shards
from typecase.store.atomic import content_hash
from typecase.store.documents import REMOVED_SCHEMA, open_documents
from typecase.store.shards import part_name, write_shard
from typecase.store.tokenizer.tokenizer import Tokenizer, open_tokenizer

REASON = "contaminated"
MOST_ITEMS = 50
"""Items that are told of one document, those that it holds the most of."""

OVERLAP_SCHEMA = pa.schema(
    [
        ("doc_id", pa.string()),
        ("source", pa.string()),
        ("file", pa.string()),
        ("row", pa.int64()),
        ("found", pa.int64()),
        ("grams", pa.int64()),
        ("share", pa.float64()),
        ("start", pa.int64()),
        ("stop", pa.int64()),
        ("text", pa.large_string()),
        ("over", pa.bool_()),
    ]
)
"""`found` of the `grams` n-grams of item `row` of `file` stand in the document; the longest stretch of them is `text`, the
characters [start, stop). `over` says that this is enough to remove it."""


@dataclass(frozen=True, kw_only=True)
class Decontaminate(Stage):
    """against    evaluation files: .jsonl with a text under `key` (several with commas: joined), others one item a line
    n          units of an n-gram, words or, with `tokenizer`, its tokens
    count      n-grams of one item that a document must hold to go
    share      share of one item's n-grams that it must hold to go
    shortest   items of fewer units are not looked for; at most n
    remove     False: nothing is removed, overlaps are told
    """

    verb: ClassVar[str] = "decontaminate"
    needs: ClassVar[tuple[str, ...]] = ("docs",)

    against: tuple[str, ...]
    key: str = "text"
    n: int = 13
    tokenizer: str | None = None
    count: int = 1
    share: float = 0.0
    shortest: int = 8
    remove: bool = True

    def identity(self, engine: Engine) -> dict[str, Any]:
        if self.n < 1 or self.count < 1 or not 0 <= self.share <= 1 or self.shortest < 1:
            raise BadRecipe(
                "decontaminate needs n, count and shortest of 1 or more, and a share from 0 to 1; got"
                f" n={self.n}, count={self.count}, share={self.share}, shortest={self.shortest}"
            )
        if not self.against:
            raise BadRecipe("decontaminate needs evaluation files to compare with: against=('arc.jsonl', …)")
        files = []
        for name in self.against:
            if not Path(name).is_file():
                raise NotFound(f"{name}: no such evaluation file")
            files.append([Path(name).name, content_hash(Path(name))])
        plain = {**super().identity(engine), "against": files, "unicode": UNICODE}
        if self.tokenizer is not None:
            plain |= {"tokenizer": open_tokenizer(self.tokenizer).fingerprint, "unicode": None}
        return plain

    def check(self, given: Given) -> None:
        open_documents(given["docs"])
        items = _items_of(self)
        if not items.grams.sizes.any():
            raise BadRecipe(
                f"none of the {len(items.places)} items of {', '.join(self.against)} has"
                f" {min(self.shortest, self.n)} units or more: nothing can be looked for"
            )

    def shards(self, given: Given) -> Sequence[int]:
        return range(len(open_documents(given["docs"]).parts))

    def survey(self, given: Given, shard: int, scratch: Path) -> Summary:
        part = open_documents(given["docs"]).parts[shard]
        rows: list[dict[str, Any]] = []
        items = _items_of(self)
        documents, sources, text_bytes = 0, Counter[str](), 0
        for table in shards.read_groups(part, ["doc_id", "source", "text"]):
            documents += table.num_rows
            text_bytes += int(shards.lengths_of(table.column("text")).sum())
            sources.update(table.column("source").to_pylist())
            for batch in table.to_batches():
                rows += _overlap_rows(self, items, batch)
        name = _overlap_name(shard)
        write_shard(scratch / name, [pa.Table.from_pylist(rows, schema=OVERLAP_SCHEMA)], OVERLAP_SCHEMA)
        return {"documents": documents, "text_bytes": text_bytes, "by_source": dict(sources), "files": [name]}

    def decide(self, given: Given, summaries: Sequence[Summary], scratch: Path) -> dict[str, Any]:
        items = _items_of(self)
        files = {name: _FileTally() for name in items.names}
        for (name, _), size in zip(items.places, items.grams.sizes.tolist(), strict=True):
            files[name].items += 1
            files[name].too_short += size == 0
        documents, gone = Counter[str](), Counter[str]()
        for task, summary in enumerate(summaries):
            documents.update(summary["by_source"])
            met = dict[str, str]()
            for row in shards.read_columns(scratch / _overlap_name(task), list(_TALLIED)).to_pylist():
                files[row["file"]].add(row)
                if row["over"]:
                    met[row["doc_id"]] = row["source"]
            gone.update(met.values())
        return {
            "documents": documents.total(),
            "contaminated": gone.total(),
            "unit": "tokens" if self.tokenizer is not None else "words",
            "by_file": {name: tally.as_dict() for name, tally in files.items()},
            "by_source": {
                name: {"documents": n, "contaminated": gone[name], "share": round(gone[name] / n, 6)}
                for name, n in sorted(documents.items())
            },
        }

    def work(self, given: Given, task: int, decision: Mapping[str, Any], out: Path, scratch: Path) -> Report:
        part = open_documents(given["docs"]).parts[task]
        found = shards.read_columns(scratch / _overlap_name(task))
        worst: dict[str, dict[str, Any]] = {}
        for row in found.to_pylist():
            if row["over"] and (row["doc_id"] not in worst or row["share"] > worst[row["doc_id"]]["share"]):
                worst[row["doc_id"]] = row
        doc_ids = shards.read_columns(part, ["doc_id"]).column("doc_id").to_pylist()
        kept = np.array([not self.remove or one not in worst for one in doc_ids], np.bool_)
        num_kept, text_bytes = write_kept(part, kept, out / part_name(task))
        lost = [one for one in doc_ids if self.remove and one in worst]
        details = [_detail(worst[one]) for one in lost]
        removed, overlap = f"removed/{part_name(task)}", f"overlap/{part_name(task)}"
        rows = pa.table([lost, [REASON] * len(lost), details], schema=REMOVED_SCHEMA)
        write_shard(out / removed, [rows], REMOVED_SCHEMA)
        (out / "overlap").mkdir(exist_ok=True)
        shutil.copyfile(scratch / _overlap_name(task), out / overlap)
        balance = Balance(len(kept), num_kept, {REASON: len(lost)} if lost else {})
        return Report(
            {part_name(task): num_kept, removed: len(lost), overlap: found.num_rows},
            balance,
            {"documents": num_kept, "text_bytes": text_bytes},
        )


_TALLIED = ("doc_id", "source", "file", "row", "over")


@dataclass(slots=True)
class _FileTally:
    """Of one evaluation file: its items, and those that are touched by an n-gram or found in full measure in a document."""

    items: int = 0
    too_short: int = 0
    touched: set[int] = field(default_factory=set)
    found: set[int] = field(default_factory=set)
    documents: set[str] = field(default_factory=set)

    def add(self, row: Mapping[str, Any]) -> None:
        self.touched.add(row["row"])
        if row["over"]:
            self.found.add(row["row"])
            self.documents.add(row["doc_id"])

    def as_dict(self) -> dict[str, int]:
        return {
            "items": self.items,
            "too_short": self.too_short,
            "touched": len(self.touched),
            "found": len(self.found),
            "documents": len(self.documents),
        }


@dataclass(frozen=True, slots=True)
class _Items:
    """All items: their grams, the (file, row) of each, and the files' names."""

    grams: Grams
    places: tuple[tuple[str, int], ...]
    names: tuple[str, ...]


def _items_of(stage: Decontaminate) -> _Items:
    """The items of the files as they are now; read once a process."""
    return _items(stage, tuple(content_hash(Path(name)) for name in stage.against))


@functools.lru_cache(maxsize=2)
def _items(stage: Decontaminate, contents: tuple[str, ...]) -> _Items:
    """A file's name alone says which it is, a second one of that name gets a number."""
    tokenizer = _tokenizer(stage)
    names, places, units = list[str](), [], []
    for number, path in enumerate(stage.against):
        name = Path(path).name
        names.append(f"{name} ({number})" if name in names else name)
        for row, text in enumerate(item_texts(Path(path), stage.key)):
            places.append((names[-1], row))
            units.append(token_units(tokenizer.encode(text)) if tokenizer is not None else words_of(text)[0])
    return _Items(grams_of_items(units, stage.n, min(stage.shortest, stage.n)), tuple(places), tuple(names))


def _tokenizer(stage: Decontaminate) -> Tokenizer | None:
    return open_tokenizer(stage.tokenizer) if stage.tokenizer is not None else None


def item_texts(path: Path, key: str) -> Iterator[str]:
    """The items of an evaluation file. Raises BadQuery for a row that is no text, naming it."""
    keys = [one.strip() for one in key.split(",")]
    with path.open("rb") as file:
        for row, line in enumerate(file):
            try:
                if path.suffix != ".jsonl":
                    yield line.decode("utf-8").rstrip("\r\n")
                    continue
                value = orjson.loads(line)
            except ValueError as error:
                raise BadQuery(f"{path}, row {row}: {error}") from error
            texts = [value[one] for one in keys if isinstance(value, dict) and isinstance(value.get(one), str)]
            if len(texts) != len(keys):
                raise BadQuery(f"{path}, row {row} has no text under {key!r}: name the fields with key (--key)")
            yield "\n".join(texts)


def _overlap_rows(stage: Decontaminate, items: _Items, batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    tokenizer = _tokenizer(stage)
    texts = batch.column("text")
    ids, bounds = None, np.zeros(0, np.int64)
    if tokenizer is None:
        touched = touched_texts(items.grams, *shards.buffers_of(texts))
    else:
        ids, lengths = tokenizer.encode_batch(texts)
        bounds = np.concatenate(([0], np.cumsum(lengths)))
        touched = touched_units(items.grams, token_units(ids), bounds)
    for row in np.flatnonzero(touched).tolist():
        text: str = texts[row].as_py()
        mine = None if ids is None else ids[bounds[row] : bounds[row + 1]]
        units = words_of(text)[0] if mine is None else token_units(mine)
        about = {"doc_id": batch.column("doc_id")[row].as_py(), "source": batch.column("source")[row].as_py()}
        for one in _worst(items, overlaps(items.grams, units)):
            start, stop = _characters(text, one) if tokenizer is None else _decoded(tokenizer, mine, one)
            yield about | _told(stage, items, one, start, stop, text[start:stop])


def _worst(items: _Items, found: list[Overlap]) -> list[Overlap]:
    """The MOST_ITEMS with the greatest share of their n-grams, in the order of items: a prompt that all share is no news."""
    if len(found) <= MOST_ITEMS:
        return found
    order = sorted(found, key=lambda one: (-one.found / int(items.grams.sizes[one.item]), -one.found, one.item))
    return sorted(order[:MOST_ITEMS], key=lambda one: one.item)


def _told(stage: Decontaminate, items: _Items, one: Overlap, start: int, stop: int, text: str) -> dict[str, Any]:
    file, row = items.places[one.item]
    size = int(items.grams.sizes[one.item])
    share = one.found / size
    return {
        "file": file,
        "row": row,
        "found": one.found,
        "grams": size,
        "share": share,
        "start": start,
        "stop": stop,
        "text": text,
        "over": one.found >= min(stage.count, size) and share >= stage.share,
    }


def _characters(text: str, one: Overlap) -> tuple[int, int]:
    """Where the words of the stretch stand in the text."""
    _, starts, stops = words_of(text)
    raw = text.encode("utf-8", "surrogatepass")
    first, last = int(starts[one.start]), int(stops[one.stop - 1])
    start = len(raw[:first].decode("utf-8", "surrogatepass"))
    return start, start + len(raw[first:last].decode("utf-8", "surrogatepass"))


def _decoded(tokenizer: Tokenizer, ids: NDArray[Any] | None, one: Overlap) -> tuple[int, int]:
    """Where the tokens of the stretch stand: characters that begin in them."""
    assert ids is not None
    before, whole = (tokenizer.decode_bytes(ids[:k]).decode("utf-8", "ignore") for k in (one.start, one.stop))
    return len(before), len(whole)


def _detail(row: Mapping[str, Any]) -> str:
    return f"{row['file']} row {row['row']}: {row['found']} of {row['grams']} n-grams, characters {row['start']}-{row['stop']}"


def _overlap_name(task: int) -> str:
    return f"overlap-{task:05d}.parquet"
