"""Tables of proxy runs: the mix that each was trained on, and the losses it reached.

    one table      run, w.web, w.books, …, loss.web, loss.books, …
    two tables     index, train_the_pile_arxiv, …            weights
                   index, metric/the_pile_arxiv_val_loss, …  losses

Two tables are joined by their first column, whatever the order of rows: so RegMix published its runs (Liu et al. 2024,
2407.01492). There every column but the first is a domain, or a target. What the names of all domains begin with is left
out, and a target that names one domain is called like it: `arxiv` in both. Published weights are rounded, so a row may miss 1
by a hundredth there; each is divided by its sum.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from typecase.core.mixing.judging import own_domain
from typecase.errors import FixInput, NotFound

F64 = npt.NDArray[np.float64]
Row = tuple[int, Mapping[str, str]]

_SUM, _ROUNDED_SUM = 1e-3, 1e-2
_BREAKS = "_/.- "


@dataclass(frozen=True, slots=True)
class Table:
    """Where runs lie: a CSV of weights and losses, or of weights with one of `losses` beside it; `domains` and `targets` name
    columns that are not called w.NAME and loss.NAME."""

    path: Path
    losses: Path | None = None
    domains: Sequence[str] = ()
    targets: Sequence[str] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Proxy runs: `mixes` (runs, domains), rows summing to 1, `losses` (runs, targets)."""

    domains: tuple[str, ...]
    targets: tuple[str, ...]
    mixes: F64
    losses: F64


def read_runs(table: Table) -> Runs:
    """Runs of a table; rows without a loss (not trained yet) are left out.

    Raises NotFound, FixInput for missing columns, for rows that do not pair up, for weights that do not sum to 1 and for what
    is no number.
    """
    columns, rows = _read(table.path)
    if table.losses is not None:
        return _joined(table, columns, rows)
    w_columns = list(table.domains) or [name for name in columns if name.startswith("w.")]
    t_columns = list(table.targets) or [name for name in columns if name.startswith("loss.")]
    _check(table.path, columns, w_columns, t_columns)
    done = [row for row in rows if all((row[1][name] or "").strip() for name in t_columns)]
    return Runs(
        tuple(name.removeprefix("w.") for name in w_columns),
        tuple(name.removeprefix("loss.") for name in t_columns),
        _shares(table.path, done, w_columns, _SUM),
        _numbers(table.path, done, t_columns),
    )


def _joined(table: Table, columns: Sequence[str], rows: Sequence[Row]) -> Runs:
    assert table.losses is not None
    others, reached = _read(table.losses)
    if not columns or not others:
        raise FixInput(f"{table.path if not columns else table.losses} has no rows")
    w_columns, t_columns = list(table.domains) or list(columns[1:]), list(table.targets) or list(others[1:])
    _check(table.path, columns, w_columns, w_columns)
    _check(table.losses, others, t_columns, t_columns)
    found = _by_first(table.losses, others[0], reached)
    weights = _by_first(table.path, columns[0], rows)
    strange = sorted(set(found) - set(weights))
    if strange:
        raise FixInput(f"{table.losses} has a run {strange[0]!r} that {table.path} has no weights of")
    done = [key for key in weights if key in found and all((found[key][1][name] or "").strip() for name in t_columns)]
    if not done:
        raise FixInput(f"no run of {table.path} has losses in {table.losses}; rows are joined by their first column")
    domains = tuple(_without_common(w_columns))
    return Runs(
        domains,
        _called_like(t_columns, domains),
        _shares(table.path, [weights[key] for key in done], w_columns, _ROUNDED_SUM),
        _numbers(table.losses, [found[key] for key in done], t_columns),
    )


def _read(path: Path) -> tuple[list[str], list[Row]]:
    """Columns, and (line, row) of every row."""
    if not path.is_file():
        raise NotFound(f"no file {path}")
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    return list(rows[0]) if rows else [], list(enumerate(rows, 2))


def _check(path: Path, columns: Sequence[str], w_columns: Sequence[str], t_columns: Sequence[str]) -> None:
    missing = [name for name in (*w_columns, *t_columns) if name not in columns]
    if missing or not w_columns or not t_columns:
        what = f"no column {missing[0]!r}" if missing else "no columns w.DOMAIN and loss.TARGET"
        raise FixInput(
            f"{path} has {what} (it has {', '.join(columns) or 'no rows'}); name them with --domain and --target, or give a"
            " table of losses with --losses"
        )


def _by_first(path: Path, first: str, rows: Sequence[Row]) -> dict[str, Row]:
    found: dict[str, Row] = {}
    for line, row in rows:
        if row[first] in found:
            raise FixInput(f"{path} line {line}: run {row[first]!r} is there twice")
        found[row[first]] = (line, row)
    return found


def _shares(path: Path, rows: Sequence[Row], columns: Sequence[str], tolerance: float) -> F64:
    mixes = _numbers(path, rows, columns)
    sums = mixes.sum(axis=1)
    wrong = np.flatnonzero((np.abs(sums - 1) > tolerance) | (mixes < 0).any(axis=1))
    if len(wrong):
        raise FixInput(f"{path} line {rows[wrong[0]][0]}: weights are 0 or more and sum to 1, here to {sums[wrong[0]]:.6g}")
    shares: F64 = mixes / sums[:, None] if len(mixes) else mixes
    return shares


def _numbers(path: Path, rows: Sequence[Row], columns: Sequence[str]) -> F64:
    found = np.zeros((len(rows), len(columns)))
    for r, (line, row) in enumerate(rows):
        for c, name in enumerate(columns):
            try:
                found[r, c] = float(row[name] or 0)
            except ValueError:
                raise FixInput(f"{path} line {line}: {name} is {row[name]!r}, which is no number") from None
            if not np.isfinite(found[r, c]):
                raise FixInput(f"{path} line {line}: {name} is {row[name]!r}; leave the loss of a failed run empty")
    return found


def _without_common(names: Sequence[str]) -> list[str]:
    """Names without the words that all begin with: train_the_pile_arxiv, train_the_pile_pile_cc -> arxiv, pile_cc."""
    same = names[0] if len(names) > 1 else ""
    while same and not (same[-1] in _BREAKS and all(name.startswith(same) for name in names)):
        same = same[:-1]
    return [name[len(same) :] for name in names]


def _called_like(targets: Sequence[str], domains: Sequence[str]) -> tuple[str, ...]:
    """Targets by the domain each is of, where every domain has one target at most; else as they are called."""
    own = [own_domain(target, domains) for target in targets]
    some = [k for k in own if k is not None]
    if len(set(some)) < len(some):
        return tuple(targets)
    return tuple(target if k is None else domains[k] for target, k in zip(targets, own, strict=True))
