"""Balance: in = kept + removed + quarantined, for every stage, or the stage does not end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Balance:
    """Documents that entered a stage and what became of each; reasons are short, stable phrases.

    Raises ValueError at birth when the sides differ: a lost document is a bug, never a rounding.
    """

    entered: int
    kept: int
    removed: Mapping[str, int] = field(default_factory=dict)
    quarantined: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        out = self.kept + self.num_removed + self.num_quarantined
        if self.entered != out:
            raise ValueError(
                f"the balance does not close: {self.entered} in, but {self.kept} kept + {self.num_removed} removed"
                f" + {self.num_quarantined} quarantined = {out}"
            )

    @property
    def num_removed(self) -> int:
        return sum(self.removed.values())

    @property
    def num_quarantined(self) -> int:
        return sum(self.quarantined.values())

    def __add__(self, other: Balance) -> Balance:
        return Balance(
            self.entered + other.entered,
            self.kept + other.kept,
            dict(sorted((Counter(self.removed) + Counter(other.removed)).items())),
            dict(sorted((Counter(self.quarantined) + Counter(other.quarantined)).items())),
        )

    def as_dict(self) -> dict[str, object]:
        return {
            "in": self.entered,
            "kept": self.kept,
            "removed": dict(sorted(self.removed.items())),
            "quarantined": dict(sorted(self.quarantined.items())),
        }


EMPTY = Balance(0, 0)
