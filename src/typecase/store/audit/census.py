"""A census on disk: census.parquet, a row for each id, and what it is a census of in the metadata of the file.

token  count  documents  sources  family  examples  count:<source>  documents:<source> …
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from typecase.core.census import NONE, Census
from typecase.errors import CorruptStore, NotFound
from typecase.store.atomic import atomic_path

NAME = "census.parquet"
_KEY = b"typecase.census"


@dataclass(frozen=True, slots=True, eq=False)
class KeptCensus:
    """A census, the names of its sources, and the fingerprint of the tokenizer of the set where that is known."""

    census: Census
    sources: tuple[str, ...]
    tokenizer: str | None = None


def write_census(path: Path, kept: KeptCensus) -> int:
    """Writes it, all or nothing; the number of rows."""
    census = kept.census
    columns: dict[str, pa.Array] = {
        "token": pa.array(np.arange(census.num_ids)),
        "count": pa.array(census.total),
        "documents": pa.array(census.in_documents),
        "sources": pa.array(census.in_sources),
        "family": pa.array(census.family),
        "examples": _lists(census),
    }
    for k, name in enumerate(kept.sources):
        columns[f"count:{name}"] = pa.array(census.counts[k])
        columns[f"documents:{name}"] = pa.array(census.documents[k])
    facts = {
        "sources": kept.sources,
        "tokenizer": kept.tokenizer,
        "num_documents": census.num_documents,
        "num_tokens": census.num_tokens,
        "outside": census.outside,
        "num_examples": census.examples.shape[1],
    }
    table = pa.table(columns).replace_schema_metadata({_KEY: orjson.dumps(facts)})
    with atomic_path(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", compression_level=1, version="2.6")
    return census.num_ids


def read_census(path: Path) -> KeptCensus:
    """Reads it back, from the file or its folder. Raises NotFound, CorruptStore."""
    path = path / NAME if path.is_dir() else path
    if not path.is_file():
        raise NotFound(f"no census at {path}: make one with `typecase audit corpus TOKENS -o FOLDER`")
    try:
        table = pq.read_table(path)
        facts = orjson.loads(table.schema.metadata[_KEY])
        sources = tuple(facts["sources"])
        counts, documents = (
            np.stack([table.column(f"{what}:{name}").to_numpy() for name in sources]) for what in ("count", "documents")
        )
        examples = np.full((table.num_rows, facts["num_examples"]), NONE, np.int64)
        lists = table.column("examples").combine_chunks()
        ends = lists.offsets.to_numpy()
        lengths = np.diff(ends)
        rows = np.repeat(np.arange(table.num_rows), lengths)
        examples[rows, np.arange(len(rows)) - np.repeat(ends[:-1] - ends[0], lengths)] = lists.flatten().to_numpy()
        family = table.column("family").to_numpy()
    except (pa.ArrowInvalid, KeyError, TypeError, ValueError) as error:
        raise CorruptStore(f"{path} is no census that can be read ({error!r}); make it again") from None
    census = Census(counts, documents, family, examples, facts["num_documents"], facts["num_tokens"], facts["outside"])
    return KeptCensus(census, sources, facts["tokenizer"])


def merged(kept: Sequence[KeptCensus]) -> KeptCensus:
    """The census of several sets together: sources of one name are one, documents of examples are numbered set after set.

    Raises ValueError when the sets have other tokenizers or numbers of ids.
    """
    if len({one.census.num_ids for one in kept}) > 1 or len({one.tokenizer for one in kept if one.tokenizer}) > 1:
        raise ValueError("censuses of other vocabularies do not merge")
    names = tuple(sorted({name for one in kept for name in one.sources}))
    total, first = None, 0
    for one in kept:
        c, shape = one.census, (len(names), one.census.num_ids)
        counts, documents = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for k, name in enumerate(one.sources):
            counts[names.index(name)], documents[names.index(name)] = c.counts[k], c.documents[k]
        # Document d of this set is another than document d of the one before: its hashes are turned aside by its place.
        family = c.family * np.uint64(2 * first + 1)
        examples = np.where(c.examples == NONE, NONE, c.examples + first)
        moved = Census(counts, documents, family, examples, c.num_documents, c.num_tokens, c.outside)
        total, first = moved if total is None else total + moved, first + c.num_documents
    if total is None:
        raise ValueError("nothing to merge")
    return KeptCensus(total, names, next((one.tokenizer for one in kept if one.tokenizer), None))


def _lists(census: Census) -> pa.Array:
    there = census.examples != NONE
    ends = np.concatenate((np.zeros(1, np.int32), np.cumsum(there.sum(axis=1), dtype=np.int32)))
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(census.examples[there]))
