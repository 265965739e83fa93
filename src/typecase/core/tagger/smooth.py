"""Smooth: the chances of lines, told by their page as a whole.

    chance of each line alone    .9 .8 .3 .9 | .1 .0 .2        menu, menu, ?, menu | text
    chance given the others      .97 .96 .9 .93 | .05 .0 .02

Two states a line, content or boilerplate, that change seldom from one line to the next: posteriors of a hidden Markov
chain (Rabiner 1989), the chances raised to `trust` because they know their neighbours already. Lines of one page only.

Price: 250 ns a line.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]


@njit(cache=True, nogil=True)
def smooth(chances: F64, pages: I64, stay: float, trust: float) -> F64:
    """Posteriors float64 (lines,) of being boilerplate; `stay` in (0.5, 1) is the chance that a line is as the one before."""
    out = np.empty(len(chances))
    forward = np.empty(len(chances))
    move = 1 - stay
    for page in range(len(pages) - 1):
        first, last = pages[page], pages[page + 1]
        state = 0.5
        for row in range(first, last):
            chance = min(max(chances[row], 1e-4), 1 - 1e-4)
            yes, no = chance**trust, (1 - chance) ** trust
            ahead = state * stay + (1 - state) * move if row > first else 0.5
            state = ahead * yes / (ahead * yes + (1 - ahead) * no)
            forward[row] = state
        back = 0.5
        for row in range(last - 1, first - 1, -1):
            gone, kept = forward[row] * back, (1 - forward[row]) * (1 - back)
            out[row] = gone / (gone + kept)
            chance = min(max(chances[row], 1e-4), 1 - 1e-4)
            yes, no = chance**trust * back, (1 - chance) ** trust * (1 - back)
            gone, kept = yes * stay + no * move, no * stay + yes * move
            back = gone / (gone + kept)
    return out
