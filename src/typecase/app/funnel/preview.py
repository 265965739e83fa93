"""Preview: what a policy would keep, by the side tables alone, before anything is written.

    columns = read_columns(docs, ratings)                ids, sources, domains, scores, bytes: no text
    preview(columns, Budget(documents=1000), "top")      what every stratum would give, and where it would be cut

It decides as the stage `select` does, over all rows at once: memory is some 50 bytes a document, a second a million.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from typecase.core.selection.decide import select
from typecase.core.selection.keys import raw_ids
from typecase.core.selection.named import named_policy
from typecase.core.selection.policy import Budget
from typecase.core.selection.selection import BY_CUT, Pool
from typecase.errors import BadQuery
from typecase.recipe.values import check_ratings
from typecase.store.documents import open_documents
from typecase.store.shards import read_columns as read_part

I64 = npt.NDArray[np.int64]
STRATA = ("source", "domain")
_BESIDE = ("doc_id", "domain", "status", "codes", "rated_bytes", "domain_confidence", "confidence")


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Rows of rated documents.

    ids         uint8 (docs, 16)
    labels      by column: int32 (docs,) codes, and their names
    scores      by column: float64 (docs,), NaN where there is none
    size_bytes  int64 (docs,) as rated, None where the ratings do not say it
    """

    ids: npt.NDArray[np.uint8]
    labels: Mapping[str, tuple[npt.NDArray[np.int32], tuple[str, ...]]]
    scores: Mapping[str, npt.NDArray[np.float64]]
    size_bytes: I64 | None

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class StratumPreview:
    """One stratum: documents there and kept, amounts in the unit of the budget, the quota, and the key at which it is cut."""

    name: str
    documents: int
    kept: int
    amount: int
    quota: int
    met: int
    cut: float | None


@dataclass(frozen=True, slots=True)
class Preview:
    """What would be kept. `short` is what the budget lacks; `mean_before` and `mean_after` are of the score, rated rows."""

    unit: str
    budget: int
    documents: int
    kept: int
    amount: int
    met: int
    short: int
    mean_before: float | None
    mean_after: float | None
    strata: tuple[StratumPreview, ...]


def read_columns(docs: Path | str, ratings: Path | str) -> Columns:
    """The side tables of rated documents. Raises FingerprintMismatch where the ratings are of other documents."""
    docs, ratings = Path(docs), Path(ratings)
    check_ratings(docs, ratings)
    own = [read_part(part, ["doc_id", "source"]) for part in open_documents(docs).parts]
    said = [read_part(part) for part in sorted(ratings.glob("part-*.parquet"))]
    documents, rated = pa.concat_tables(own), pa.concat_tables(said)
    ids = documents.column("doc_id").combine_chunks()
    place = pc.index_in(ids, value_set=rated.column("doc_id").combine_chunks())
    rows = rated.take(place)
    labels = {"source": _coded(documents.column("source"))}
    if "domain" in rows.column_names:
        labels["domain"] = _coded(rows.column("domain"))
    numbers = [n for n in rows.column_names if n not in _BESIDE and pa.types.is_floating(rows.schema.field(n).type)]
    scores = {name: rows.column(name).cast(pa.float64()).to_numpy(zero_copy_only=False) for name in numbers}
    size = rows.column("rated_bytes") if "rated_bytes" in rows.column_names else None
    amounts = None if size is None or size.null_count else size.cast(pa.int64()).to_numpy()
    return Columns(raw_ids(ids.to_pylist()), labels, scores, amounts)


def _coded(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int32], tuple[str, ...]]:
    """Codes and names of a column of labels; none is the label ""."""
    names = sorted(set(pc.unique(pc.fill_null(column, "")).to_pylist()))
    codes = pc.index_in(pc.fill_null(column, "").combine_chunks(), value_set=pa.array(names, column.type))
    return codes.to_numpy(zero_copy_only=False).astype(np.int32), tuple(names)


def preview(
    columns: Columns,
    budget: Budget,
    policy: str = "top",
    *,
    score: str,
    strata: Sequence[str] = STRATA,
    inverse: bool = False,
    seed: int = 0,
) -> Preview:
    """What `policy` would keep for a budget in documents or bytes. Raises BadQuery and FixInput as `select` does."""
    if budget.unit == "tokens":
        raise BadQuery("a preview counts documents or bytes; tokens need the texts: run `typecase select --tokenizer`")
    if score not in columns.scores:
        raise BadQuery(f"these ratings have no score {score!r}: there are {', '.join(columns.scores)}")
    amounts = np.ones(len(columns), np.int64) if budget.unit == "documents" else columns.size_bytes
    if amounts is None:
        raise BadQuery("these ratings do not say how many bytes they are of: give a budget in documents")
    chosen = named_policy(policy, score=score, strata=tuple(strata), inverse=inverse)
    if chosen.each or any(name not in columns.labels for name in chosen.strata):
        raise BadQuery(f"the policy {policy!r} needs more than these ratings hold: run `typecase select` for it")
    codes, labels = _cells(columns, chosen.strata)
    terms = chosen.terms if chosen.needs_score else ((score, 1.0),)
    if len(terms) != 1 or terms[0][1] != 1 or terms[0][0] not in columns.scores:
        raise BadQuery(f"the policy {policy!r} goes by more than one score of these ratings: run `typecase select` for it")
    values = columns.scores[terms[0][0]]
    made = select(Pool(columns.ids, amounts, codes, values), labels, budget=budget, policy=chosen, seed=seed)
    cuts = made.cuts
    rows = tuple(
        StratumPreview(
            "/".join(cuts.labels[s]) or "all",
            int(cuts.documents[s]),
            int(cuts.kept[s]),
            int(cuts.amount[s]),
            int(cuts.quota[s]),
            int(cuts.met[s]),
            float(cuts.key[s]) if cuts.take[s] == BY_CUT else None,
        )
        for s in range(len(cuts.labels))
    )
    return Preview(
        budget.unit,
        budget.amount,
        len(columns),
        int(made.kept.sum()),
        int(amounts.sum()),
        int((amounts * made.copies).sum()),
        int(cuts.short),
        _mean(values),
        _mean(values[made.kept]),
        rows,
    )


def _cells(columns: Columns, strata: Sequence[str]) -> tuple[npt.NDArray[np.int32], list[tuple[str, ...]]]:
    """The stratum of every row, and the label of each that has any."""
    if not strata:
        return np.zeros(len(columns), np.int32), [()]
    sizes = [len(columns.labels[name][1]) for name in strata]
    flat = np.ravel_multi_index([columns.labels[name][0] for name in strata], sizes)
    there, codes = np.unique(flat, return_inverse=True)
    places = zip(*np.unravel_index(there, sizes), strict=True)
    labels = [tuple(columns.labels[name][1][k] for name, k in zip(strata, place, strict=True)) for place in places]
    return codes.reshape(-1).astype(np.int32), labels


def _mean(values: npt.NDArray[np.float64]) -> float | None:
    there = values[np.isfinite(values)]
    return float(there.mean()) if len(there) else None
