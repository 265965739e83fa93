"""Rows: what a language model reads and what it must say, as token ids; no torch here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

SILENT = -100
"""A target that counts nothing."""


@dataclass(frozen=True, slots=True)
class Row:
    """One example: what is read, and what must be said at its last positions."""

    ids: tuple[int, ...]
    targets: tuple[int, ...]


Plan = Callable[[int], Sequence[Row]]
"""The rows of each step, counted from 0: the same for the same step, whenever it is asked."""
