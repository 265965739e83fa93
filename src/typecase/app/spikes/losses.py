"""Losses: the loss of every step, from what a run left behind.

    RUN/ or RUN/steps.parquet    written by `typecase train`
    losses.csv .jsonl .parquet   a column of steps and one of losses, found by their usual names or named
    train.log .txt               lines of Megatron or GPT-NeoX: `iteration  41/ … | lm loss: 3.2E+00 |`

Steps count from 0. Frameworks print iterations, and iteration 1 is step 0: what a column called iteration or a log says is
moved by one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from typecase.errors import BadQuery, NotFound

STEPS_FILE = "steps.parquet"
_STEP_NAMES = ("step", "global_step", "_step", "steps")
_ITERATION_NAMES = ("iteration", "iter", "iterations")
_LOSS_NAMES = ("loss", "train_loss", "train/loss", "lm_loss", "lm loss", "lm-loss", "training_loss")
_LINE = re.compile(r"iteration\s+(\d+)\s*/.*?\blm[ _-]loss:?\s*(?:value:\s*)?([-+.\dEe]+|nan|inf)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, eq=False)
class LossCurve:
    """Losses in nats a token: `steps` (n,) int64 rising, `losses` (n,) float64; nan where a step has none."""

    path: Path
    steps: npt.NDArray[np.int64]
    losses: npt.NDArray[np.float64]


def read_losses(path: Path | str, *, step: str | None = None, loss: str | None = None) -> LossCurve:
    """The curve at `path`; `step` and `loss` name its columns where they are not found by themselves.

    Raises NotFound for no file, BadQuery for one without steps and losses: the message says which columns it has.
    """
    found = Path(path)
    found = found / STEPS_FILE if found.is_dir() else found
    if not found.is_file():
        raise NotFound(f"no losses at {path}: give the folder of a run, a .csv, .jsonl or .parquet file, or a training log")
    if found.suffix in (".log", ".txt"):
        steps, losses = _logged(found)
    else:
        steps, losses = _columns(_table(found), found, step, loss)
    return LossCurve(found, *_by_step(steps, losses, found))


def _table(path: Path) -> pa.Table:
    readers: dict[str, Any] = {".csv": pa.csv.read_csv, ".jsonl": pa.json.read_json, ".json": pa.json.read_json,
                               ".parquet": pq.read_table}  # fmt: skip
    if path.suffix not in readers:
        raise BadQuery(f"{path} is none of .csv, .jsonl, .parquet, .log and .txt: losses are read from those")
    try:
        return readers[path.suffix](path)
    except (pa.ArrowInvalid, OSError) as error:
        raise BadQuery(f"{path} cannot be read: {str(error).splitlines()[0]}") from None


def _columns(table: pa.Table, path: Path, step: str | None, loss: str | None) -> tuple[Any, Any]:
    names = {name.strip().lower(): name for name in table.column_names}
    at = _named(names, step, (*_STEP_NAMES, *_ITERATION_NAMES), "step", path)
    value = _named(names, loss, _LOSS_NAMES, "loss", path)
    try:
        steps = table.column(at).cast(pa.float64()).to_numpy()
        losses = table.column(value).cast(pa.float64()).to_numpy()
    except pa.ArrowInvalid as error:
        raise BadQuery(f"{path}: columns '{at}' and '{value}' should be numbers ({str(error).splitlines()[0]})") from None
    return steps - (1 if at.strip().lower() in _ITERATION_NAMES else 0), losses


def _named(names: dict[str, str], asked: str | None, usual: tuple[str, ...], what: str, path: Path) -> str:
    if asked is not None:
        if asked.strip().lower() not in names:
            raise BadQuery(f"{path} has no column '{asked}'; it has {', '.join(names.values())}")
        return names[asked.strip().lower()]
    found = next((names[name] for name in usual if name in names), None)
    close = [name for key, name in names.items() if what in key] if found is None else []
    if found is None and len(close) != 1:
        why = f"several speak of it: {', '.join(close)}" if close else f"it has {', '.join(names.values())}"
        raise BadQuery(f"{path}: which column is the {what}? {why}; name it with --{what}-column")
    return found if found is not None else close[0]


def _logged(path: Path) -> tuple[Any, Any]:
    with path.open(encoding="utf-8", errors="replace") as file:
        rows = [(int(match[1]) - 1, float(match[2])) for line in file if (match := _LINE.search(line))]
    if not rows:
        raise BadQuery(f"{path} has no line such as 'iteration 41/ … lm loss: 3.2E+00': give a .csv with steps and losses")
    steps, losses = zip(*rows)
    return np.array(steps, np.float64), np.array(losses, np.float64)


def _by_step(steps: Any, losses: Any, path: Path) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Rising steps; of one that stands there more than once, after a restart, the last."""
    known = np.isfinite(steps)
    steps, losses = steps[known], losses[known]
    if not len(steps) or np.any(steps < 0) or np.any(steps != np.floor(steps)):
        raise BadQuery(f"{path}: steps are whole numbers from 0 on, iterations from 1 on")
    distinct, last = np.unique(steps[::-1].astype(np.int64), return_index=True)
    return distinct, losses[::-1][last].astype(np.float64)
