"""Agreement of what was removed with a page's truth: lines, characters, untouched pages.

    Tally of one page: hits, false alarms, misses in written lines; clean characters, and those of them that went

Line F1 is micro over pages; over-deletion is the share of the clean characters that were removed. Tallies add up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from typecase.core.twins.marks import Twin


@dataclass(frozen=True, slots=True)
class Tally:
    """Sums over pages. `whole` are pages of which nothing went."""

    hit: int = 0
    false: int = 0
    miss: int = 0
    clean_chars: int = 0
    lost_chars: int = 0
    pages: int = 0
    whole: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.hit + other.hit,
            self.false + other.false,
            self.miss + other.miss,
            self.clean_chars + other.clean_chars,
            self.lost_chars + other.lost_chars,
            self.pages + other.pages,
            self.whole + other.whole,
        )

    @property
    def precision(self) -> float:
        """Share of the removed lines that are boilerplate; 1 where none was removed."""
        return self.hit / (self.hit + self.false) if self.hit + self.false else 1.0

    @property
    def recall(self) -> float:
        """Share of the boilerplate lines that were removed; 1 where there is none."""
        return self.hit / (self.hit + self.miss) if self.hit + self.miss else 1.0

    @property
    def f1(self) -> float:
        """Of lines, micro."""
        return 2 * self.hit / (2 * self.hit + self.false + self.miss) if self.hit + self.false + self.miss else 1.0

    @property
    def over_deletion(self) -> float:
        """Share of the clean characters that were removed."""
        return self.lost_chars / max(1, self.clean_chars)

    @property
    def untouched(self) -> float:
        """Share of the pages of which nothing was removed."""
        return self.whole / max(1, self.pages)

    def figures(self) -> dict[str, Any]:
        """The figures by name, rounded to 5 digits."""
        names = ("precision", "recall", "f1", "over_deletion", "untouched")
        return {"pages": self.pages, **{name: round(getattr(self, name), 5) for name in names}}


def tally(twin: Twin, removed: Collection[int]) -> Tally:
    """Of one page: `removed` are line numbers; blank lines count for nothing. Characters are those that are not blank."""
    gone, taken = set(twin.gone), set(removed)
    hit = false = miss = clean = lost = 0
    for number, line in enumerate(twin.lines):
        if not (chars := sum(map(len, line.split()))):
            continue
        if number in gone:
            hit += number in taken
            miss += number not in taken
        else:
            clean += chars
            if number in taken:
                false += 1
                lost += chars
    return Tally(hit, false, miss, clean, lost, 1, int(not hit and not false))


def total(tallies: Iterable[Tally]) -> Tally:
    """Their sum."""
    done = Tally()
    for each in tallies:
        done = done + each
    return done
