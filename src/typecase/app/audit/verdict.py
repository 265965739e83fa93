"""The verdict: tables of single audits joined into one row for each token, a decision with its reasons, and what follows.

audit_report([tables])            joins tables of tokenizer, corpus, weights and prompts
audit_diff(a, b)                  tokens on which two models, or two checkpoints of one, differ
audit_gate(table, budgets)        whether what was found is within its budgets
audit_text(table, texts)          where under-trained tokens stand in texts
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from typecase.core.glitch.decision import FINE, SUSPECT, UNDER_TRAINED, UNREACHABLE, Signals, advise, decide
from typecase.core.glitch.gate import Finding, check, parse_budget
from typecase.core.glitch.references import spearman
from typecase.errors import BadQuery, FixInput
from typecase.store.audit.files import read_table
from typecase.store.audit.vocabulary import Vocabulary

_INDICATORS = ("e_out_cosine", "e_out_l2", "e_in_norm", "density", "p_marginal", "mean_logit", "max_prob")
_WASTE = (UNDER_TRAINED, SUSPECT, UNREACHABLE)
_SIDES = {"reach": "tokenizer", "count": "corpus", "row": "weights", "max_prob": "prompts", "p_marginal": "marginal"}
_SHOWN_DISAGREEMENTS = 20


@dataclass(frozen=True, slots=True)
class Verdicts:
    """One row a token. `sides` are the audits that spoke; `void` when the prompts were, and so were left out.

    `correlations` are Spearman's, of each indicator with log(1 + count). `unexpected` are ids that were seen often and came
    out under-trained, `surprising` ids never seen and fine: where tokenizer, corpus or model do not belong together.
    """

    num_ids: int
    sides: tuple[str, ...]
    void: bool
    decisions: Mapping[str, int]
    advice: Mapping[str, int]
    origins: Mapping[str, int]
    correlations: Mapping[str, float]
    unexpected: tuple[int, ...]
    surprising: tuple[int, ...]
    table: pa.Table = field(repr=False, compare=False)

    def header(self) -> dict[str, Any]:
        """Everything but the table."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "table"}

    def lists(self) -> dict[str, list[int]]:
        """Ids by what to do about them, and those to mask: for training and serving code."""
        rows = self.table.select(["i", "advice", "decision"]).to_pylist()
        found = {name: [r["i"] for r in rows if r["advice"] == name] for name in ("drop", "replace", "reinitialise", "retrain")}
        return {"mask": [r["i"] for r in rows if r["decision"] == UNDER_TRAINED], **found}


def audit_report(
    tables: Sequence[str | Path | tuple[pa.Table, Mapping[str, Any]]], *, wanted: Collection[int] = ()
) -> Verdicts:
    """Joins tables, Parquet files or (table, header) of any of the audits, over the ids that all of them have.

    Raises BadQuery where they are of different vocabularies or none is an audit's.
    """
    read = [one if isinstance(one, tuple) else read_whole(one) for one in tables]
    joined, void, plateau = _joined(read)
    rows = joined.to_pylist()
    signals = [_signals(row, wanted, plateau) for row in rows]
    decided = [decide(s) for s in signals]
    advice = [advise(s, decision) for s, (decision, _) in zip(signals, decided)]
    for name in ("decision", "reasons", "advice"):
        if name in joined.column_names:
            joined = joined.drop_columns([name])
    joined = joined.append_column("decision", pa.array([d for d, _ in decided]))
    joined = joined.append_column("reasons", pa.array([list(r) for _, r in decided], pa.list_(pa.string())))
    joined = joined.append_column("advice", pa.array(advice))
    unexpected = [r["i"] for r, (d, _) in zip(rows, decided) if d == UNDER_TRAINED and r.get("prediction") == "expected"]
    surprising = [
        r["i"] for r, (d, _) in zip(rows, decided) if d == FINE and r.get("count") == 0 and r.get("verified") is False
    ]
    return Verdicts(
        num_ids=len(rows),
        sides=tuple(side for column, side in _SIDES.items() if column in joined.column_names),
        void=void,
        decisions=_counted(d for d, _ in decided),
        advice=_counted(advice),
        origins=_counted(r.get("origin") for (d, _), r in zip(decided, rows) if d == UNDER_TRAINED and r.get("origin")),
        correlations=_correlations(joined),
        unexpected=tuple(unexpected[:_SHOWN_DISAGREEMENTS]),
        surprising=tuple(surprising[:_SHOWN_DISAGREEMENTS]),
        table=joined,
    )


def read_whole(path: str | Path) -> tuple[pa.Table, dict[str, Any]]:
    """A Parquet table of an audit and its header. Raises BadQuery for one of some rows only, which would judge too mildly."""
    table, header = read_table(Path(path))
    num_ids = header.get("num_ids") or (header.get("weights") or {}).get("num_ids")
    if num_ids is not None and num_ids != table.num_rows:
        raise BadQuery(f"{path} has {table.num_rows:,} of {num_ids:,} ids: write it without --where and --top")
    return table, header


def _joined(read: Sequence[tuple[pa.Table, Mapping[str, Any]]]) -> tuple[pa.Table, bool, float | None]:
    """One table, whether prompts were void, and the upper end of the plateau where the weights have one."""
    if not read:
        raise BadQuery("nothing to join: give the tables of one or more audits")
    sizes, spelled = {table.num_rows for table, _ in read}, set()
    for table, _ in read:
        if "i" not in table.column_names or not set(_SIDES) & set(table.column_names):
            raise BadQuery(f"a table with the columns {', '.join(table.column_names[:6])} is of no audit that can be joined")
        if "hex" in table.column_names:
            spelled.add(tuple(table.column("hex").to_pylist()))
    if len(sizes) > 1 or len(spelled) > 1:
        raise BadQuery(f"the tables are of different vocabularies ({', '.join(f'{n:,}' for n in sorted(sizes))} ids)")
    void, plateau = False, None
    joined = pa.table({"i": read[0][0].column("i")})
    for table, header in read:
        is_void = bool(header.get("void"))
        void |= is_void
        edge = (header.get("plateau") or (header.get("weights") or {}).get("plateau") or {}).get("high")
        plateau = edge if edge is not None else plateau
        for name in table.column_names:
            skipped = is_void and name in ("max_prob", "first_step", "verified", "borderline", "magikarp")
            if name not in joined.column_names and not skipped:
                joined = joined.append_column(name, table.column(name))
    return joined, void, plateau


def _signals(row: Mapping[str, Any], wanted: Collection[int], plateau: float | None) -> Signals:
    row_kind = row.get("row")
    if row_kind == "ordinary" and row.get("in_row") not in (None, "ordinary"):
        row_kind = row["in_row"]
    value = row.get("main_indicator")
    return Signals(
        kind=row.get("kind") or "normal",
        reachable=row.get("reach") != "unreachable",
        leaf=not row.get("parents"),
        wanted=row["i"] in wanted,
        prediction=row.get("prediction"),
        count=row.get("count"),
        row=row_kind,
        in_plateau=plateau is not None and value is not None and value <= plateau,
        percentile=row.get("percentile"),
        candidate=row.get("candidate"),
        max_prob=row.get("max_prob"),
        verified=row.get("verified"),
        borderline=bool(row.get("borderline")),
    )


def _correlations(table: pa.Table) -> dict[str, float]:
    if "count" not in table.column_names:
        return {}
    counts = np.log1p(np.array(table.column("count").to_pylist(), np.float64))
    found = {}
    for name in _INDICATORS:
        if name in table.column_names:
            values = np.array([np.nan if v is None else v for v in table.column(name).to_pylist()], np.float64)
            there = ~np.isnan(values)
            found[name] = spearman(values[there], counts[there])
    return found


def _counted(values: Iterable[Any]) -> dict[str, int]:
    return dict(sorted(Counter(values).items(), key=lambda item: (-item[1], str(item[0]))))


@dataclass(frozen=True, slots=True)
class ModelDiff:
    """Two tables of one vocabulary. `overlap` is the Jaccard index of the bad tokens of each, `correlation` Spearman's of the
    ranks; `table` has a row for each token that is bad in one and not in the other."""

    a: str
    b: str
    num_ids: int
    bad_a: int
    bad_b: int
    overlap: float
    correlation: float | None
    table: pa.Table = field(repr=False, compare=False)

    def header(self) -> dict[str, Any]:
        """Everything but the table."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "table"}


def audit_diff(a: str | Path, b: str | Path) -> ModelDiff:
    """Compares two Parquet tables: verdicts by their decision, else prompts by `verified`, else weights by `candidate`.

    Raises BadQuery where the vocabularies differ or the tables have none of these in common.
    """
    (first, _), (second, _) = read_whole(a), read_whole(b)
    shared = set(first.column_names) & set(second.column_names)
    if first.num_rows != second.num_rows or ("hex" in shared and first.column("hex") != second.column("hex")):
        raise BadQuery(f"{a} and {b} are of different vocabularies: compare the tokenizers with audit compare")
    by = next((name for name in ("decision", "verified", "candidate") if name in shared), None)
    if by is None:
        raise BadQuery(f"{a} and {b} share no decision, verified or candidate: give tables of the same audit")
    sides = [[row[by] in (UNDER_TRAINED, SUSPECT, True) for row in table.select([by]).to_pylist()] for table in (first, second)]
    bad_a, bad_b = (np.array(side, np.bool_) for side in sides)
    either = int((bad_a | bad_b).sum())
    ranks = [np.array(t.column("rank").to_pylist(), np.float64) for t in (first, second)] if "rank" in shared else None
    changed = np.flatnonzero(bad_a != bad_b)
    names = [name for name in ("decoded", "kind") if name in shared]
    columns: dict[str, Any] = {"i": pa.array(changed.tolist(), pa.int64())}
    columns |= {name: first.column(name).take(pa.array(changed)) for name in names}
    for side, table in (("a", first), ("b", second)):
        columns |= {
            f"{name}_{side}": table.column(name).take(pa.array(changed))
            for name in (by, "rank", "main_indicator", "max_prob")
            if name in shared
        }
    return ModelDiff(
        a=str(a),
        b=str(b),
        num_ids=first.num_rows,
        bad_a=int(bad_a.sum()),
        bad_b=int(bad_b.sum()),
        overlap=int((bad_a & bad_b).sum()) / either if either else 1.0,
        correlation=None if ranks is None else spearman(*ranks),
        table=pa.table(columns),
    )


@dataclass(frozen=True, slots=True)
class GateResult:
    """Budgets and whether they hold. `void`: the prompts of the table say nothing, whatever else holds."""

    passed: bool
    void: bool
    num_ids: int
    findings: tuple[Finding, ...]

    @property
    def exit_code(self) -> int:
        """0 passed, 1 a budget is broken, 3 void."""
        return 3 if self.void else 0 if self.passed else 1


def audit_gate(
    table: str | Path, budgets: Sequence[str], *, baseline: str | Path | None = None, allowed: str | Path | None = None
) -> GateResult:
    """Checks a verdict (Parquet) against budgets; see `core.glitch.gate` for their names.

    `baseline` is an older verdict; `allowed` a JSON list of {"i": id, "hex": bytes} that never count.
    """
    found, header = read_whole(table)
    try:
        wanted = [parse_budget(text) for text in budgets]
    except ValueError as error:
        raise FixInput(str(error)) from None
    if not wanted:
        raise FixInput("a gate needs a budget: --fail-on under_trained=0")
    rows = found.to_pylist()
    forgiven = _allowed(allowed)
    before = _findings(read_whole(baseline)[0].to_pylist()) if baseline is not None else set()
    kept = [row for row in rows if (row["i"], row.get("hex")) not in forgiven]
    findings = tuple(check(b, _measured(b.measure, kept, before, baseline is not None), len(rows)) for b in wanted)
    return GateResult(all(f.passed for f in findings), bool(header.get("void")), len(rows), findings)


def _findings(rows: Sequence[Mapping[str, Any]]) -> set[tuple[Any, Any]]:
    return {(row["i"], row.get("hex")) for row in rows if row.get("decision") in (UNDER_TRAINED, SUSPECT)}


def _allowed(path: str | Path | None) -> set[tuple[Any, Any]]:
    if path is None:
        return set()
    try:
        return {(int(row["i"]), row["hex"]) for row in orjson.loads(Path(path).read_bytes())}
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise FixInput(f'{path} is no allow-list: a JSON list of {{"i": id, "hex": "bytes"}} ({error!r})') from None


_Row = Mapping[str, Any]
_MEASURED: Mapping[str, tuple[str, Callable[[_Row], bool]]] = {
    "unreachable": ("reach", lambda r: r["reach"] == "unreachable" and r.get("kind") not in ("gap", "unused")),
    "under_trained": ("decision", lambda r: r["decision"] == UNDER_TRAINED),
    "suspect": ("decision", lambda r: r["decision"] == SUSPECT),
    "verified": ("verified", lambda r: r["verified"] is True),
    "candidates": ("candidate", lambda r: r["candidate"] is True),
    "zero_rows": ("row", lambda r: r["row"] != "ordinary" or r.get("in_row") not in (None, "ordinary")),
    "never": ("prediction", lambda r: r["prediction"] == "never" and r.get("kind") != "gap"),
    "at_risk": ("prediction", lambda r: r["prediction"] == "at_risk"),
    "fragments": ("utf8", lambda r: r["utf8"] not in (None, "whole")),
    "duplicates": ("duplicate_of", lambda r: r["duplicate_of"] is not None),
    "wasted": ("decision", lambda r: r["decision"] in _WASTE),
    "new": ("decision", lambda r: r["decision"] in (UNDER_TRAINED, SUSPECT)),
}
"""The column that a measure needs, and for which rows it holds."""


def _measured(measure: str, rows: Sequence[_Row], before: set[tuple[Any, Any]], has_baseline: bool) -> tuple[int, ...]:
    column, holds = _MEASURED[measure]
    if rows and column not in rows[0]:
        raise FixInput(
            f"the budget {measure} needs the column {column!r}, which the table lacks: join that audit's table first"
        )
    if measure == "new" and not has_baseline:
        raise FixInput("the budget new needs a --baseline: an older verdict")
    known = before if measure == "new" else set()
    return tuple(row["i"] for row in rows if holds(row) and (row["i"], row.get("hex")) not in known)


@dataclass(frozen=True, slots=True)
class Marked:
    """An under-trained token in a text: its id, what it is, how often it stands there, and its first places.

    A place is (line or document, from 1; which token of it, from 0).
    """

    i: int
    text: str
    decision: str
    times: int
    places: tuple[tuple[int, int], ...]


def audit_text(
    vocabulary: Vocabulary, decisions: Mapping[int, str], texts: Iterable[str], *, shown: int = 3
) -> tuple[list[Marked], int]:
    """Tokens with a decision in `texts`, the most frequent first, and how many tokens there were in all."""
    times: Counter[int] = Counter()
    places: dict[int, list[tuple[int, int]]] = {}
    total = 0
    for number, text in enumerate(texts, 1):
        (ids,) = vocabulary.codec.encode([text])
        total += len(ids)
        for at, token in enumerate(ids):
            if token in decisions:
                times[token] += 1
                if len(places.setdefault(token, [])) < shown:
                    places[token].append((number, at))
    names = [(i, (vocabulary.data[i] or b"").decode("utf-8", "backslashreplace")) for i in times]
    found = [Marked(i, name, decisions[i], times[i], tuple(places[i])) for i, name in names]
    return sorted(found, key=lambda m: (-m.times, m.i)), total
