"""Thresholds of a tagger: from which chance on a line goes, chosen for what must not be lost.

    least   chance from which a short line goes
    long    the same for a line of over LONG_CHARS characters: it costs more when it is text, and boilerplate seldom is long
    sure    chance that one line of a page must have before any of its lines goes
    EDGE    chance that a line right above a line that stays must have: below a menu the title of the text comes next

Of all settings on a grid, the one that removes the most boilerplate among those that lose at most `over` of the clean
characters and touch at most `touched` of the clean texts, on pages of generators that were not taught. What three
numbers gain by being chosen on the pages that they are measured on is measured too: `figures_without` measures each
generator with the thresholds that the other ones would choose.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np
import numpy.typing as npt

from typecase.core.learn.calibration import Isotonic

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

LONG_CHARS: Final = 30
"""Characters, blanks aside, above which a line is long."""

EDGE: Final = 0.5

_LEAST: Final = (0.06, 0.08, 0.10, 0.12, 0.15, 0.20, 0.25, 0.30, 0.40, 0.50, 0.60, 0.70, 0.80, 0.90)
_LONG: Final = (0.2, 0.3, 0.5, 0.7, 0.9)
_SURE: Final = (0.6, 0.7, 0.8, 0.9)
_NONE: Final = (0.9, 0.9, 0.9)


@dataclass(frozen=True, slots=True)
class Tagged:
    """Lines with their chances and their truth. `page` of each line; `generator` and `clean` of each page.

    Clean pages are texts without boilerplate; over-deletion is counted on the other ones.
    """

    chances: F64
    truth: Flags
    chars: F64
    page: I64
    generator: I64
    clean: Flags


Thresholds = tuple[float, float, float]


def goes(chances: F64, chars: F64, page: I64, num_pages: int, thresholds: Thresholds) -> Flags:
    """Which lines go; `chars` are of each line, blanks aside."""
    least, long, sure = thresholds
    most = np.zeros(num_pages)
    np.maximum.at(most, page, chances)
    flags: Flags = (chances >= np.where(chars > LONG_CHARS, max(least, long), least)) & (most[page] >= sure)
    if len(flags):
        above_kept = np.append((page[1:] == page[:-1]) & ~flags[1:], False)
        flags &= ~(above_kept & (chances < EDGE))
    return flags


PLAIN: Final = Isotonic(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
"""Chances as they are, where nothing is known of them."""


def confidence_curve(tagged: Tagged, thresholds: Thresholds, *, bins: int = 10) -> Isotonic:
    """The curve of the lines that go, in bins of equally many lines; PLAIN where fewer than ten a bin go."""
    gone = goes(tagged.chances, tagged.chars, tagged.page, len(tagged.generator), thresholds) & ~tagged.clean[tagged.page]
    order = np.argsort(tagged.chances[gone], kind="stable")
    if len(order) < 10 * bins:
        return PLAIN
    parts = np.array_split(order, bins)
    chances, truth = tagged.chances[gone], tagged.truth[gone]
    knots = np.array([chances[part].mean() for part in parts])
    heights = np.maximum.accumulate([truth[part].mean() for part in parts])
    return Isotonic(knots, heights)


def grid() -> list[Thresholds]:
    """All settings that are tried."""
    return list(product(_LEAST, _LONG, _SURE))


def counts(tagged: Tagged) -> F64:
    """For every setting and generator: hits, false alarms, misses, clean characters, lost ones, clean texts, touched ones.

    float64 (settings, generators, 7).
    """
    num_pages, num = len(tagged.generator), int(tagged.generator.max(initial=0)) + 1
    of = tagged.generator[tagged.page]
    real = ~tagged.clean[tagged.page]
    out = np.zeros((len(grid()), num, 7))
    out[:, :, 3] = np.bincount(of, tagged.chars * (real & ~tagged.truth), num)
    out[:, :, 5] = np.bincount(tagged.generator, tagged.clean, num)
    for row, thresholds in enumerate(grid()):
        gone = goes(tagged.chances, tagged.chars, tagged.page, num_pages, thresholds)
        wrong = gone & ~tagged.truth
        touched = np.zeros(num_pages, np.bool_)
        touched[tagged.page[wrong]] = True
        out[row, :, 0] = np.bincount(of, gone & tagged.truth & real, num)
        out[row, :, 1] = np.bincount(of, wrong & real, num)
        out[row, :, 2] = np.bincount(of, ~gone & tagged.truth & real, num)
        out[row, :, 4] = np.bincount(of, tagged.chars * (wrong & real), num)
        out[row, :, 6] = np.bincount(tagged.generator, touched & tagged.clean, num)
    return out


def choose(sums: F64, *, over: float, touched: float) -> int:
    """The setting with the best F1 within the limits, from sums (settings, 7); -1 where none keeps within them."""
    f1 = 2 * sums[:, 0] / np.maximum(1, 2 * sums[:, 0] + sums[:, 1] + sums[:, 2])
    fits = (sums[:, 4] <= over * sums[:, 3]) & (sums[:, 6] <= touched * sums[:, 5])
    return int(np.where(fits, f1, -1).argmax()) if fits.any() else -1


def chosen(tagged: Tagged, *, over: float, touched: float) -> Thresholds:
    """The thresholds for pages like these; the most careful ones where none keeps within the limits."""
    at = choose(counts(tagged).sum(axis=1), over=over, touched=touched)
    return grid()[at] if at >= 0 else _NONE


def figures_without(tagged: Tagged, *, over: float, touched: float) -> dict[str, float]:
    """Micro figures, each generator measured with the thresholds that the other generators choose."""
    each = counts(tagged)
    done = np.zeros(7)
    for generator in range(each.shape[1]):
        at = choose(np.delete(each, generator, axis=1).sum(axis=1), over=over, touched=touched)
        done += each[at, generator] if at >= 0 else each[grid().index(_NONE), generator]
    hit, false, miss, clean_chars, lost, texts, spoiled = done.tolist()
    return {
        "precision": round(hit / max(1, hit + false), 5),
        "recall": round(hit / max(1, hit + miss), 5),
        "f1": round(2 * hit / max(1, 2 * hit + false + miss), 5),
        "over_deletion": round(lost / max(1, clean_chars), 5),
        "untouched": round(1 - spoiled / max(1, texts), 5),
    }
