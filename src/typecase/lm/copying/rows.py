"""RowCopier: a model is asked to repeat texts of several tokens, each cut as it is told.

A Copier whose ids are places in a list of rows, so that `verify` asks, keeps and resumes as it does for single tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

from typecase.lm.copying.copying import Form
from typecase.lm.copying.local import LocalCopier


class RowCopier:
    """`rows[k]` are the ids that stand for k; the chance is that of all of them in a row, at the first step."""

    def __init__(self, copier: LocalCopier, rows: Sequence[Sequence[int]]) -> None:
        self.copier, self.rows = copier, rows

    @property
    def tokens(self) -> int:
        """What the model has read so far."""
        return self.copier.tokens

    @tokens.setter
    def tokens(self, value: int) -> None:
        self.copier.tokens = value

    @property
    def fingerprint(self) -> str:
        """Of the model."""
        return self.copier.fingerprint

    def able(self, ids: Sequence[int]) -> list[int]:
        """Every place whose row holds something."""
        return [k for k in ids if self.rows[k]]

    def chances(self, form: Form, ids: Sequence[int], stop_at: float) -> list[tuple[float, ...] | None]:
        """See `Copier`: one step, that of the whole row."""
        return [(p,) for p in self.copier.row_chances(form, [self.rows[k] for k in ids])]
