"""GuardPolicy: what a program may do at most, whoever wrote it.

A guard never cuts a program in the middle: it refuses a statement (G_OP_…, E_PROTECTED) or the whole result (G_DOC_RATIO,
G_SHORT_RESULT), and then the document stays as it was. Percentages are integers and lengths are script-aware units, so
that no comparison has a floating tie.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from typecase.core.program.protect import KINDS
from typecase.errors import BadProgram


@dataclass(frozen=True, slots=True)
class GuardPolicy:
    """Limits of one run.

    operation_percent     a statement that would remove more of the document's units is refused: G_OP_TOO_LARGE
    kept_percent          a result with less of the document's units is refused: G_DOC_RATIO
    short_units           a result of at most so many units is short …
    short                 … and is then kept as it is, guarded (the original stays: G_SHORT_RESULT), or dropped
    min_chars             a shorter `remove_str` is refused unless it is one of `separators`: G_OP_TOO_SMALL
    error_percent         more faulty statements than max(1, this share) refuse the program: E_ERRORS
    protected             kinds of lines (protect.KINDS) that need …
    protected_confidence  … this confidence of the statement's origin: E_PROTECTED
    replacements          False allows deletions only
    nth                   True allows `nth` and `of`
    """

    operation_percent: int = 50
    kept_percent: int = 30
    short_units: int = 10
    short: Literal["keep", "guard", "drop"] = "guard"
    min_chars: int = 2
    separators: str = "|•·»›▸►◆¶§*"
    error_percent: int = 25
    protected: tuple[str, ...] = KINDS
    protected_confidence: float = 0.9
    replacements: bool = True
    nth: bool = False

    def __post_init__(self) -> None:
        for name in ("operation_percent", "kept_percent", "error_percent"):
            if not 0 <= getattr(self, name) <= 100:
                raise BadProgram(f"{name} is a percentage, 0 to 100, got {getattr(self, name)}")
        if self.short not in ("keep", "guard", "drop"):
            raise BadProgram(f"short must be keep, guard or drop, got {self.short!r}")
        if unknown := set(self.protected) - set(KINDS):
            raise BadProgram(f"no kind of protected line {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")


STRICT = GuardPolicy()
"""The default."""

FREE = GuardPolicy(operation_percent=100, kept_percent=0, short="keep", min_chars=1, error_percent=100, protected=())
"""No guard: for programs that are known to be right, and to see what the guards hold back."""
