"""Chances: how likely each label was where a model wrote one, out of the few alternatives that a server tells.

    " 4"   told: " 4" 0.61, " 5" 0.22, " 3" 0.09, " four" 0.02         labels 1 … 5
           known  3: 0.09  4: 0.61  5: 0.22                            label mass at least 0.92
           absent 1, 2: each at most 0.02 (the least told) and at most 1 - 0.94 (what is left); counted as half of that

A label that was not told is not impossible: it is bounded. The expected level takes the middle of its bound, the surety of
the answered level takes the whole bound of the others, so it is never told too high.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from typecase.lm.protocol import Answer

F64 = npt.NDArray[np.float64]
_SAME = 1e-3


@dataclass(frozen=True, slots=True)
class Chances:
    """Of the labels at one place.

    middle   float64 (labels,), sums to 1: absent labels at the middle of their bound
    surety   float64 (labels,), the least chance of each label, given that it is one of them
    mass     the least chance that it is a label at all
    """

    middle: F64
    surety: F64
    mass: float


def tokens_of(answer: Answer) -> list[tuple[int, int, int]] | None:
    """(start, stop, row in `top`) of each generated token in the answer's text; None if the told tokens do not spell it."""
    text, at = answer.text, 0
    spans: list[tuple[int, int, int]] = []
    for row, told in enumerate(answer.top):
        if at == len(text):
            break
        own = float(answer.logprobs[row]) if answer.logprobs is not None and row < len(answer.logprobs) else None
        fitting = [(token, logprob) for token, logprob in told if token and text.startswith(token, at)]
        if not fitting and row == 0:  # the server took a leading blank off the text
            fitting = [(token.lstrip(), p) for token, p in told if token.strip() and text.startswith(token.lstrip())]
        if not fitting:
            return None
        same = [pair for pair in fitting if own is None or abs(pair[1] - own) <= _SAME]
        token = max(same or fitting, key=lambda pair: len(pair[0]))[0]
        spans.append((at, at + len(token), row))
        at += len(token)
    return spans if at == len(text) else None


def chances_at(
    answer: Answer, tokens: Sequence[tuple[int, int, int]], place: tuple[int, int], labels: Sequence[str]
) -> Chances | None:
    """Chances of `labels` at [start, stop) of the answer's text; None where one token does not hold the label as a whole."""
    if any(one != other and other.startswith(one) for one in labels for other in labels):
        return None  # "1" may go on as "10"
    found = next((token for token in tokens if token[0] <= place[0] < token[1]), None)
    if found is None or place[1] > found[1]:
        return None
    start, stop, row = found
    before, behind = answer.text[start : place[0]], answer.text[place[1] : stop]
    told = [(token if row else token.lstrip() if not before.strip() else token, p) for token, p in answer.top[row]]
    wanted = [before + label + behind for label in labels]
    known = np.array([sum(np.exp(p) for token, p in told if token == text) for text in wanted], np.float64)
    if not known.any() or answer.text[place[0] : place[1]] not in labels:
        return None
    everything = np.exp(np.array([p for _, p in told], np.float64))
    bound = min(float(everything.min()), max(0.0, 1.0 - float(everything.sum())))
    bounds = np.where(known > 0, 0.0, bound)
    middle = known + bounds / 2
    others = (known + bounds).sum() - known - bounds
    return Chances(middle / middle.sum(), known / (known + others), float(min(1.0, known.sum())))
