"""What a comparison by pairs is made of, and how it is written down: ratings, log-odds, and a rater of anchors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import orjson
import pyarrow as pa

from typecase.app.agree.readings import I64
from typecase.core.balance import Balance
from typecase.core.pairwise import Comparisons, Scores, win_share
from typecase.core.rating import Rubric
from typecase.errors import BadQuery
from typecase.lm.rate.pairwise import VOTES, WORDS
from typecase.lm.rate.rater import OK, PARTIAL, RATER_FAILED, unrated
from typecase.recipe.rate import ratings_schema, table_of
from typecase.store import atomic, shards
from typecase.store.manifest import NAME, FileEntry, Manifest, library_versions, parent_of, write_manifest

How = Literal["random", "neighbours", "telling"]
HOWS: tuple[How, ...] = ("random", "neighbours", "telling")
LOG = "comparisons.jsonl"
_PAIRWISE = pa.schema(
    [
        ("doc_id", pa.string()),
        ("criterion", pa.string()),
        ("log_odds", pa.float64()),
        ("error", pa.float64()),
        ("compared", pa.int64()),
        ("component", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked: all that the comparisons depend on beside documents, model and rubric."""

    pairs: int
    how: How = "random"
    rounds: int = 4
    sample: int | None = None
    words: int = WORDS
    votes: int = VOTES
    confidence: float = 0.0
    anchors: int = 24
    seed: int = 0

    def __post_init__(self) -> None:
        if self.pairs < 1 or self.rounds < 1 or self.words < 1 or self.votes < 1 or self.how not in HOWS:
            raise BadQuery(f"pairs, rounds, words and votes are 1 or more and how is one of {', '.join(HOWS)}; got {self}")


@dataclass(frozen=True, slots=True)
class Items:
    """The documents that take part, by rising id, out of `total`."""

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    total: int


@dataclass(frozen=True, slots=True)
class Found:
    """One criterion: the comparisons of pairs (both orders in one), the fit, and the rows they come from."""

    comparisons: Comparisons
    fit: Scores
    bias: float
    rows: tuple[dict[str, Any], ...]


def write_compared(
    out: Path, docs: Path, items: Items, rubric: Rubric, found: Mapping[str, Found], header: Mapping[str, Any], plan: Plan,
    model: Mapping[str, Any] | None, rubric_name: str | Path,
) -> None:  # fmt: skip
    ratings = unrated(rubric, len(items.ids))
    span = rubric.high - rubric.low
    for column, criterion in enumerate(rubric.columns):
        fit = found[criterion].fit
        has = fit.compared > 0
        if has.any():
            ratings.scores[has, column] = rubric.low + span * win_share(fit.scores[has], fit.scores[has])
    missing = np.isnan(ratings.scores).sum(axis=1)
    ratings.status[:] = np.where(missing == 0, OK, np.where(missing < len(rubric.columns), PARTIAL, RATER_FAILED))
    ratings.rated_bytes[:] = _bytes_read(items, found)
    schema = ratings_schema(rubric)
    name, side = shards.part_name(0), f"pairwise/{shards.part_name(0)}"
    table = table_of(ratings, schema).add_column(0, schema.field("doc_id"), pa.array(items.ids, pa.string()))
    rows = {name: shards.write_shard(out / name, [table.cast(schema)], schema)}
    rows[side] = shards.write_shard(out / side, [_side(items, found)], _PAIRWISE)
    others = [LOG]
    if plan.anchors >= 2 and model is not None:
        others += _write_rater(out, items, rubric, found, plan, model, rubric_name)
    left = items.total - len(items.ids)
    manifest = Manifest(
        "ratings",
        "compare",
        1,
        {**header, "confidence": plan.confidence, "rater": f"pairwise {header['model']}"},
        (parent_of("docs", docs, child=out),) if (docs / NAME).is_file() else (),
        tuple(FileEntry.of(out, file, rows=rows.get(file, 0)) for file in (*rows, *others)),
        Balance(items.total, len(items.ids), {"not compared": left} if left else {}),
        counts={"documents": len(items.ids)},
        libraries=library_versions(),
    )
    write_manifest(out, manifest)


def _bytes_read(items: Items, found: Mapping[str, Found]) -> I64:
    """The most bytes of each document that any comparison showed."""
    place = {doc: row for row, doc in enumerate(items.ids)}
    most = np.zeros(len(items.ids), np.int64)
    for one in found.values():
        for row in one.rows:
            for doc, (start, stop) in ((row["a"], row["a_chars"]), (row["b"], row["b_chars"])):
                shown = items.texts[place[doc]][start:stop]
                most[place[doc]] = max(most[place[doc]], len(shown.encode("utf-8", "replace")))
    return most


def _side(items: Items, found: Mapping[str, Found]) -> pa.Table:
    tables = [
        pa.table(
            {
                "doc_id": list(items.ids),
                "criterion": [criterion] * len(items.ids),
                "log_odds": one.fit.scores,
                "error": one.fit.errors,
                "compared": one.fit.compared,
                "component": one.fit.component,
            },
            schema=_PAIRWISE,
        )
        for criterion, one in found.items()
    ]
    return pa.concat_tables(tables).sort_by([("doc_id", "ascending"), ("criterion", "ascending")]).combine_chunks()


def _write_rater(
    out: Path, items: Items, rubric: Rubric, found: Mapping[str, Found], plan: Plan, model: Mapping[str, Any], name: str | Path
) -> list[str]:
    """Anchors: documents spread evenly over the mean score, of those that every criterion compared."""
    fits = [found[criterion].fit for criterion in rubric.columns]
    able = np.flatnonzero(np.all([fit.compared > 0 for fit in fits], axis=0))
    order = able[np.argsort(np.mean([fit.scores for fit in fits], axis=0)[able], kind="stable")]
    if len(order) < 2:
        return []
    chosen = order[np.unique(np.linspace(0, len(order) - 1, min(plan.anchors, len(order))).round().astype(np.int64))]
    lines = [
        orjson.dumps(
            {
                "id": items.ids[row],
                "text": items.texts[row],
                "log_odds": {c: float(fit.scores[row]) for c, fit in zip(rubric.columns, fits, strict=True)},
            }
        )
        for row in chosen
    ]
    settings = {
        "kind": "pairwise",
        "rubric": str(Path(name).resolve()) if Path(name).is_file() else str(name),
        "criteria": list(rubric.columns),
        "anchors": "anchors.jsonl",
        "words": plan.words,
        "votes": plan.votes,
        "seed": plan.seed,
    }
    toml = "".join(f"{key} = {_toml(value)}\n" for key, value in settings.items())
    toml += "\n[model]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in model.items())
    atomic.write_bytes(out / "rater" / "anchors.jsonl", b"".join(line + b"\n" for line in lines))
    atomic.write_bytes(out / "rater" / "rater.toml", toml.encode())
    return ["rater/anchors.jsonl", "rater/rater.toml"]


def _toml(value: Any) -> str:
    """A text, number, flag, list or table of those as TOML writes it."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return orjson.dumps(value).decode()
