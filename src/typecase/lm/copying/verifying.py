"""Verifying: asks a model to repeat tokens, form by form, cheapest first; those that it repeats are asked no more.

    ids ─► form 1 ─► p >= 0.02, twice the limit: done, rejected
              └──► form 2 ─► … ─► below 0.01 in all of them: verified

What was answered is appended to a file, one JSON line a batch, under the fingerprints of model and forms: a run that was
killed goes on with the batch that it lost, in the same batches, and ends in the same numbers. A line that was cut is dropped.
Answers under other fingerprints stay in the file and are not used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from typecase.errors import CorruptStore, ModelUnavailable
from typecase.lm.copying.copying import Copier, Form

_BATCH = 32
_CLEAR = 2
"""A token is asked no more once its chance is so many times the limit: nearer, another form shall settle it."""


@dataclass(frozen=True, slots=True)
class Tried:
    """What a model answered for one token: the chance at each step of each form that was asked, in order."""

    token: int
    chances: tuple[tuple[str, tuple[float, ...]], ...]

    @property
    def max_prob(self) -> float:
        """The largest chance: of forms asked only, so of a rejected token it is what sufficed."""
        return max(p for _, steps in self.chances for p in steps)

    @property
    def first_step(self) -> float:
        """The largest chance at the first step: before any word of the model's own."""
        return max(steps[0] for _, steps in self.chances)


class Journal:
    """Answers on disk, by form and token. One writer at a time."""

    def __init__(self, path: Path, run: str) -> None:
        self.path, self.run = path, run
        self.known: dict[tuple[str, int], tuple[float, ...]] = {}
        if path.exists():
            self._read()

    def _read(self) -> None:
        data = self.path.read_bytes()
        whole = data.rfind(b"\n") + 1
        for number, line in enumerate(data[:whole].splitlines(), 1):
            try:
                row: dict[str, Any] = orjson.loads(line)
                if row["run"] == self.run:
                    self.known.update({(row["form"], i): tuple(p) for i, p in zip(row["ids"], row["p"], strict=True)})
            except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
                raise CorruptStore(
                    f"{self.path} line {number} is no answer ({error!r}): remove the line, or the file"
                ) from None
        if whole < len(data):  # a cut last line
            with self.path.open("r+b") as file:
                file.truncate(whole)

    def add(self, form: str, ids: Sequence[int], chances: Sequence[tuple[float, ...]]) -> None:
        """Appends one batch."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = orjson.dumps({"run": self.run, "form": form, "ids": list(ids), "p": [list(p) for p in chances]})
        with self.path.open("ab") as file:
            file.write(line + b"\n")
        self.known.update({(form, i): p for i, p in zip(ids, chances)})


def verify(
    copier: Copier,
    forms: Sequence[Form],
    ids: Sequence[int],
    journal: Journal,
    *,
    limit: float,
    early_exit: bool = True,
    purpose: str = "",
    batch: int = _BATCH,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[int, Tried]:
    """Asks for every id; without `early_exit` every form, every step. Ids that the model did not answer, or
    that it cannot be asked, are missing.

    Answers are kept apart by `purpose`: a control that is asked with every step, or with other examples, is another answer.
    Raises ModelUnavailable when a whole batch got no answer.
    """
    alive = copier.able(list(dict.fromkeys(ids)))
    asked: dict[int, list[tuple[str, tuple[float, ...]]]] = {i: [] for i in alive}
    stop_at = _CLEAR * limit if early_exit else float("inf")
    for number, form in enumerate(forms):
        name = f"{form.name} {purpose}".strip()
        missing = [i for i in alive if (name, i) not in journal.known]
        for at in range(0, len(missing), batch):
            some = missing[at : at + batch]
            found = copier.chances(form, some, stop_at)
            there = [(i, p) for i, p in zip(some, found) if p is not None]
            if not there:
                raise ModelUnavailable(
                    f"the model answered none of {len(some)} prompts of the form {form.name}: run again to go on"
                )
            journal.add(name, [i for i, _ in there], [p for _, p in there])
            progress(number * len(alive) + at + len(some), len(forms) * len(alive))
        for i in alive:
            if (chances := journal.known.get((name, i))) is not None:
                asked[i].append((form.name, chances))
        if early_exit:
            alive = [i for i in alive if asked[i] and max(p for _, steps in asked[i] for p in steps) < stop_at]
    return {i: Tried(i, tuple(rows)) for i, rows in asked.items() if rows}
