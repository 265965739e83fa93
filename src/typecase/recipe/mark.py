"""mark: documents -> a side table that says how many tokens of each a model does not know.

    doc_id | text_tokens  under_trained  under_trained_share  trained_share | columns of the ratings, where there are some

`tokens` names them: a verdict of `audit report` (Parquet) or a JSON list of ids. The table is one of ratings: it joins on
doc_id wherever ratings do, so a search filters by `under_trained_share < 0.001`, a selection goes by `trained_share`, and
with the role `ratings` one table holds both. `trained_share` is 1 - `under_trained_share`, so that more is better; a document
without a token has a share of 0. Same documents, same bytes, for any parts and workers. Price: that of tokenising.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from typecase.core.balance import Balance
from typecase.core.glitch.decision import UNDER_TRAINED
from typecase.engine.protocol import Engine
from typecase.errors import BadQuery, FixInput
from typecase.recipe.stage import Given, Report, Stage
from typecase.recipe.values import check_ratings, rating_parts
from typecase.store import shards
from typecase.store.audit.files import read_table
from typecase.store.documents import join_side, open_documents
from typecase.store.tokenizer.tokenizer import Tokenizer, open_tokenizer

Ints = npt.NDArray[np.int64]

SCHEMA = pa.schema(
    [
        ("doc_id", pa.string()),
        ("text_tokens", pa.int64()),
        ("under_trained", pa.int64()),
        ("under_trained_share", pa.float64()),
        ("trained_share", pa.float64()),
    ]
)
"""`text_tokens` are those of the text alone, `under_trained` of them are on the list."""


@dataclass(frozen=True, kw_only=True)
class Mark(Stage):
    """tokens     a verdict of `audit report` in Parquet, or a JSON list of ids
    tokenizer  the one that the list is of
    decisions  which tokens of a verdict count
    """

    verb: ClassVar[str] = "mark"
    needs: ClassVar[tuple[str, ...]] = ("docs",)
    wants: ClassVar[tuple[str, ...]] = ("ratings",)
    gives: ClassVar[str] = "ratings"

    tokens: str
    tokenizer: str
    decisions: tuple[str, ...] = (UNDER_TRAINED,)

    def identity(self, engine: Engine) -> dict[str, Any]:
        tokenizer = open_tokenizer(self.tokenizer)
        ids = listed_tokens(self.tokens, self.decisions, tokenizer.num_ids)
        digest = blake2b(ids.astype("<i8").tobytes(), digest_size=16).hexdigest()
        return {"tokenizer": tokenizer.fingerprint, "tokens": digest, "num_tokens": len(ids)}

    def check(self, given: Given) -> None:
        open_documents(given["docs"])
        if "ratings" in given:
            check_ratings(given["docs"], given["ratings"])

    def shards(self, given: Given) -> Sequence[int]:
        return range(len(open_documents(given["docs"]).parts))

    def work(self, given: Given, task: int, decision: Mapping[str, Any], out: Path, scratch: Path) -> Report:
        part = open_documents(given["docs"]).parts[task]
        tokenizer = open_tokenizer(self.tokenizer)
        listed = np.zeros(tokenizer.max_id + 1, np.bool_)
        listed[listed_tokens(self.tokens, self.decisions, tokenizer.num_ids)] = True
        parts = rating_parts(given.get("ratings"))
        beside = _columns_beside(parts)
        tables, sums = [], {"tokens": 0, "under_trained": 0, "documents_marked": 0}
        for table in shards.read_groups(part, ["doc_id", "text"]):
            marked = _marked(table, tokenizer, listed)
            hits = marked.column("under_trained").to_numpy()
            sums["tokens"] += int(marked.column("text_tokens").to_numpy().sum())
            sums["under_trained"] += int(hits.sum())
            sums["documents_marked"] += int(np.count_nonzero(hits))
            side = join_side(table.column("doc_id"), parts, [f.name for f in beside]) if beside else pa.table({})
            for field in beside:
                marked = marked.append_column(field, side.column(field.name))
            tables.append(marked)
        name = shards.part_name(task)
        rows = shards.write_shard(out / name, tables, pa.schema([*SCHEMA, *beside]))
        return Report({name: rows}, Balance(rows, rows), {"documents": rows, **sums})


def listed_tokens(path: str | Path, decisions: Sequence[str], num_ids: int) -> Ints:
    """The ids of a list, rising, each once: a Parquet verdict's with one of `decisions`, or a JSON list (or its list `mask`).

    Raises BadQuery for a file that is neither or a verdict of another number of ids, FixInput for ids that the tokenizer lacks.
    """
    path = Path(path)
    if path.suffix == ".parquet":
        table, _ = read_table(path)
        if not {"i", "decision"} <= set(table.column_names):
            raise BadQuery(f"{path} has no decisions: it is the table of one audit, join it with audit report")
        ids = [row["i"] for row in table.select(["i", "decision"]).to_pylist() if row["decision"] in decisions]
        if table.num_rows > num_ids:
            raise BadQuery(f"{path} is of {table.num_rows:,} ids, the tokenizer has {num_ids:,}: name the one that it is of")
    else:
        ids = _ids_in(path)
    found = np.unique(np.array(ids, np.int64))
    if len(found) and not 0 <= found[0] <= found[-1] < num_ids:
        raise FixInput(f"{path} lists id {found[0] if found[0] < 0 else found[-1]}, the tokenizer has ids below {num_ids:,}")
    return found


def _ids_in(path: Path) -> list[int]:
    try:
        held = orjson.loads(path.read_bytes())
        ids = held["mask"] if isinstance(held, dict) else held
        if isinstance(ids, list) and all(isinstance(i, int) and not isinstance(i, bool) for i in ids):
            return ids
    except (OSError, orjson.JSONDecodeError, KeyError) as error:
        raise BadQuery(f"no list of tokens can be read from {path} ({error!r}): give a verdict or a JSON list of ids") from None
    raise BadQuery(f"{path} is no list of ids: give a verdict of audit report (.parquet), or its ids.json")


def _marked(table: pa.Table, tokenizer: Tokenizer, listed: npt.NDArray[np.bool_]) -> pa.Table:
    ids, lengths = tokenizer.encode_batch(table.column("text"))
    before = np.concatenate((np.zeros(1, np.int64), np.cumsum(listed[ids], dtype=np.int64)))
    ends = np.cumsum(lengths, dtype=np.int64)
    hits = before[ends] - before[ends - lengths]
    share = hits / np.maximum(lengths, 1)
    return pa.table([table.column("doc_id"), np.asarray(lengths, np.int64), hits, share, 1 - share], schema=SCHEMA)


def _columns_beside(parts: Sequence[Path]) -> list[pa.Field]:
    """Columns of the ratings that go along; those of an older marking are made anew."""
    if not parts:
        return []
    file = shards.open_shard(parts[0])
    try:
        return [field for field in file.schema_arrow if field.name not in SCHEMA.names]
    finally:
        file.close()
