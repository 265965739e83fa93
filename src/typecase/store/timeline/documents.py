"""Documents of pieces: which document of which token set a piece is of, where it came from, and how it was rated.

    piece (member 0, sequence 812, tokens [0, 310))
      -> document 812 of work/tokens/web, doc_id 3f2a…, source "wiki", file crawl-3.jsonl.zst, row 1,204, overall_score 4

Sets of other makers have no provenance, so of theirs only the numbers are known; scores are found through the lineage of the
set, or in a folder of ratings that is named. Price: the row groups that hold the documents, some milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from typecase.errors import BadQuery, NotFound, TypecaseError
from typecase.store import manifest as manifests
from typecase.store.journal.provenance import provenance_of
from typecase.store.journal.view import EditedTokens
from typecase.store.lineage import ancestors
from typecase.store.provenance import Provenance
from typecase.store.tokens.store import TokenStore

Ints = npt.NDArray[np.int64]
_NOT_SCORES = ("doc_id", "status", "rated_bytes")


@dataclass(frozen=True, slots=True)
class DocumentFacts:
    """What is known of a document of a token set; None where its set does not say."""

    member: int
    doc: int
    doc_id: str | None = None
    source: str | None = None
    file: str | None = None
    row: int | None = None
    scores: Mapping[str, Any] = field(default_factory=dict)

    @property
    def place(self) -> str | None:
        return f"{self.file}:{self.row}" if self.file is not None else None


class Library:
    """The documents of one token set: numbers from sequences, and facts from provenance and ratings."""

    def __init__(self, member: int, store: TokenStore, ratings: Path | None = None) -> None:
        self.member, self.store = member, store
        folder = store.pair.bin.parent
        self.provenance: Provenance | None = provenance_of(store)
        self._ratings = rating_parts(ratings) if ratings is not None else _related_ratings(folder)

    def documents_of(self, sequences: Ints) -> tuple[Ints, Ints]:
        """The document of every sequence, and the token of the document at which the sequence begins."""
        if self.store.facts.one_to_one:
            return sequences, np.zeros_like(sequences)
        index = self.store.document_index
        docs = np.searchsorted(index, sequences, side="right") - 1
        return docs, self._ends[sequences] - self._ends[index[docs]]

    @cached_property
    def _keys(self) -> Ints:
        """Under which number the set itself knows each document: others only where edits have added or taken some."""
        return self.store.document_keys() if isinstance(self.store, EditedTokens) else np.arange(self.store.num_documents)

    @cached_property
    def _ends(self) -> Ints:
        """Tokens before every sequence (sequences + 1,)."""
        return np.concatenate((np.zeros(1, np.int64), np.cumsum(self.store.lengths, dtype=np.int64)))

    def sequences_of(self, doc: int) -> Ints:
        """The sequences of document `doc`."""
        if self.store.facts.one_to_one:
            return np.array([doc], np.int64)
        index = self.store.document_index
        return np.arange(int(index[doc]), int(index[doc + 1]))

    def facts(self, docs: Ints) -> dict[int, DocumentFacts]:
        """The facts of the distinct documents `docs`, by number."""
        docs = np.unique(docs)
        if self.provenance is None:
            return {int(d): DocumentFacts(self.member, int(d)) for d in docs}
        rows = self.provenance.rows(docs).to_pylist()
        scores = self._scores([row["doc_id"] for row in rows])
        return {
            int(row["doc"]): DocumentFacts(
                self.member,
                int(row["doc"]),
                row["doc_id"],
                row["source"],
                row["file"],
                row["row"],
                scores.get(row["doc_id"], {}),
            )
            for row in rows
        }

    def _scores(self, doc_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        if not self._ratings or not doc_ids:
            return {}
        paths = [str(p) for p in self._ratings]
        tables = [pq.read_table(p, filters=[("doc_id", "in", list(doc_ids))]) for p in paths]
        table = pa.concat_tables(tables)
        return {row["doc_id"]: {k: v for k, v in row.items() if k not in _NOT_SCORES} for row in table.to_pylist()}

    def where(self, condition: str) -> npt.NDArray[np.bool_]:
        """Which documents a condition holds for, in SQL over provenance and ratings: `source = 'wiki' and overall_score >= 4`.

        `tokens` is the length of a document; `doc`, `doc_id`, `file`, `row` and the columns of the ratings are known too. Sets
        without provenance have `doc` and `tokens` alone. Raises BadQuery with DuckDB's words when the condition is at fault.
        """
        import duckdb

        numbers = np.arange(self.store.num_documents)
        documents = pa.table({"doc": numbers, "key": self._keys, "tokens": self.store.document_lengths()})
        with duckdb.connect(config={"python_enable_replacements": False}) as connection:
            connection.register("documents", documents)
            source = "documents"
            if self.provenance is not None:
                given = f"read_parquet({[str(self.provenance.path)]!r})"
                source += f" left join (select doc as key, * exclude (doc, tokens) from {given}) using (key)"
            if self._ratings:
                ratings = f"read_parquet({[str(p) for p in self._ratings]!r})"
                source += f" left join (select * from {ratings}) using (doc_id)"
            try:
                found = connection.sql(f"select doc from {source} where {condition}").fetchnumpy()["doc"]
            except duckdb.Error as error:
                words = str(error).splitlines()[0]
                raise BadQuery(f"the condition {condition!r} cannot be asked: {words}") from None
        mask = np.zeros(self.store.num_documents, np.bool_)
        mask[np.asarray(found, np.int64)] = True
        return mask

    def columns(self, names: Sequence[str]) -> pa.Table:
        """Columns of the provenance and the ratings, a row for every document of the set, in its order.

        Raises NotFound for a name that neither has.
        """
        if self.provenance is None:
            raise NotFound(f"{self.store.pair.prefix} has no provenance, so its documents have no {', '.join(names)}")
        table = pq.read_table(self.provenance.path)
        if isinstance(self.store, EditedTokens) and self.store.renumbered:
            table = table.take(pc.index_in(pa.array(self._keys), value_set=table.column("doc")))
            table = table.set_column(0, "doc", pa.array(np.arange(len(self._keys))))
        missing = [n for n in names if n not in table.column_names]
        if missing:
            known = {n for p in self._ratings for n in pq.read_schema(p).names}
            if not set(missing) <= known:
                unknown = sorted(set(missing) - known)
                have = sorted({*table.column_names, *known} - {"doc", "start", "stop", "offset", *_NOT_SCORES})
                raise NotFound(
                    f"documents of {self.store.pair.prefix} have no {', '.join(unknown)}; they have {', '.join(have)}"
                )
            scores = pa.concat_tables([pq.read_table(p, columns=["doc_id", *missing]) for p in self._ratings])
            table = table.select(["doc", "doc_id", *[n for n in names if n in table.column_names and n != "doc_id"]])
            table = table.join(scores, "doc_id").sort_by("doc")
        return table.select(list(names))


def rating_parts(folder: Path) -> list[Path]:
    """The parts of a folder of ratings. Raises NotFound when it is none."""
    found = sorted(Path(folder).glob("part-*.parquet"))
    if not found or "doc_id" not in pq.read_schema(found[0]).names:
        raise NotFound(f"{folder} holds no ratings: give the folder that `typecase rate` made")
    return found


def _related_ratings(folder: Path) -> list[Path]:
    """Ratings among the ancestors of the token set in `folder`: the nearest, or none."""
    if not (folder / manifests.NAME).is_file():
        return []
    try:
        near = [one.folder for one in ancestors(folder) if one.kind == "ratings" and one.manifest is not None]
        return rating_parts(near[0]) if near else []
    except TypecaseError:
        return []
