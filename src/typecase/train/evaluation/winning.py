"""Winning: how often one model's replies to instructions are judged better than another's, by a third model.

    instruction -> reply of A, reply of B -> the judge sees A B, then B A -> chance that A is better -> win, tie, loss, missing

Both orders are asked and what the order gives cancels (lm/rate/pairwise). A comparison within `margin` of even is a tie and
counts half. The rate is over the comparisons that the judge answered in both orders; the others are counted by reason.
`win less lose`, as some papers print, is 2 rate - 1. A judge is a model: how it agrees with people must be measured before its
word is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from typecase.core.learn.bootstrap import Interval, mean_interval
from typecase.core.rating import Criterion
from typecase.errors import BadQuery
from typecase.lm.protocol import LM, Answer
from typecase.lm.rate.pairwise import judge_pairs, way_of

MARGIN = 0.1
QUESTION = (
    "Each text is an instruction and a reply to it. Which reply answers the instruction better: right, complete, and clear?"
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One instruction: both replies, the chance that A's is better (None where missing), and win, tie, loss or a reason."""

    instruction: str
    first: str
    second: str
    chance: float | None
    outcome: str


@dataclass(frozen=True, slots=True)
class WinRate:
    """Of A over B: wins and half the ties among `judged` comparisons; its interval is over instructions."""

    first: str
    second: str
    judge: str
    rate: Interval
    wins: int
    ties: int
    losses: int
    judged: int
    missing: Mapping[str, int]
    second_bias: float
    """How much more often the judge preferred what stood second than even: 0 is none, 0.5 always."""


def win_rate(
    first: LM, second: LM, judge: LM, instructions: Sequence[str], *, max_tokens: int = 256, form: str = "{instruction}",
    temperature: float = 0.0, margin: float = MARGIN, votes: int = 5, seed: int = 0,
) -> tuple[WinRate, list[Comparison]]:  # fmt: skip
    """Asks both models every instruction and the judge about every pair of replies.

    `form` is what a model is given, with {instruction} in it. Raises FixInput before any work where a model cannot do its part.
    """
    if "{instruction}" not in form or not 0 <= margin < 0.5:
        raise BadQuery(f"a form holds {{instruction}} and a margin lies in [0, 0.5), got {form!r} and {margin}")
    if not instructions:
        raise BadQuery("there are no instructions to compare on")
    way_of(judge)
    prompts = [form.replace("{instruction}", one) for one in instructions]
    given = [list(lm.generate(prompts, max_tokens=max_tokens, seed=seed, temperature=temperature)) for lm in (first, second)]
    whole = [k for k, pair in enumerate(zip(*given, strict=True)) if all(isinstance(one, Answer) for one in pair)]
    texts = [[one.text if isinstance(one, Answer) else "" for one in side] for side in given]
    shown = [
        (_shown(instructions[k], texts[1][k]), _shown(instructions[k], texts[0][k])) for k in whole
    ]  # the chance told is that the second, A's, is better
    told = dict(zip(whole, judge_pairs(judge, shown, _CRITERION, votes=votes, seed=seed), strict=True))
    rows, leanings = [], []
    for k, instruction in enumerate(instructions):
        said = told.get(k)
        if said is None:
            rows.append(Comparison(instruction, texts[0][k], texts[1][k], None, "no reply"))
        elif np.isnan(said.chance):
            rows.append(Comparison(instruction, texts[0][k], texts[1][k], None, said.reason or "no answer"))
        else:
            leanings.append((said.forward + said.backward) / 2 - 0.5)
            rows.append(Comparison(instruction, texts[0][k], texts[1][k], said.chance, _outcome(said.chance, margin)))
    return _summed(first.name, second.name, judge.name, rows, leanings, seed), rows


def _summed(first: str, second: str, judge: str, rows: Sequence[Comparison], leanings: Sequence[float], seed: int) -> WinRate:
    counts = Counter(row.outcome for row in rows)
    points = np.array([_POINTS[row.outcome] for row in rows if row.outcome in _POINTS])
    rate = mean_interval(points, np.arange(len(points)), seed=seed)
    missing = {reason: n for reason, n in sorted(counts.items()) if reason not in _POINTS}
    bias = float(np.mean(leanings)) if leanings else float("nan")
    return WinRate(first, second, judge, rate, counts["win"], counts["tie"], counts["loss"], len(points), missing, bias)


_POINTS = {"win": 1.0, "tie": 0.5, "loss": 0.0}
_CRITERION = Criterion("reply", QUESTION, {})


def _outcome(chance: float, margin: float) -> str:
    if abs(chance - 0.5) <= margin:
        return "tie"
    return "win" if chance > 0.5 else "loss"


def _shown(instruction: str, reply: str) -> str:
    return f"Instruction: {instruction}\n\nReply: {reply}"
