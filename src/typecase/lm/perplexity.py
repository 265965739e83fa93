"""Perplexity by a language model: nats and tokens of every document, long ones in windows with context.

    text ─ pieces of at most `stride` tokens      |piece 1|piece 2|piece 3|
                                                   window 1: piece 1
                                                   window 2: piece 1 as context, piece 2
                                                   window 3:         piece 2 as context, piece 3

Each token counts once. A piece behind a context costs ln p(context + piece) - ln p(context), both asked of the model, so no
knowledge of its tokenizer is needed. Pieces are cut at white space where there is any. Where the model has no start
token, the first token of the document has no chance and counts as unscored.

Price: one pass over a text that fits the window; over a longer one about (2 * window - stride) / stride passes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from typecase.core.perplexity import status_of
from typecase.errors import FixInput
from typecase.lm.protocol import LM, Failure, Scores, require, windows

WINDOW_TOKENS = 2048
_ROWS = 64
_SLACK_TOKENS = 4
"""Left free in a window: two pieces may become more tokens together than apart."""
_GRAINS = 4
"""A piece is made of about as many grains, so that a context fills the window to a grain."""
_BLANK = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Windowing:
    """Tokens the model sees at once, and by how many it moves on: 0 < stride <= window."""

    window: int
    stride: int

    def __post_init__(self) -> None:
        if not 0 < self.stride <= self.window:
            raise FixInput(f"a stride is within 1 and the window, got stride {self.stride} and window {self.window}")


@dataclass(frozen=True, slots=True)
class Scored:
    """A document's nats (None where it could not be scored), tokens, unscored tokens among them, and status."""

    nats: float | None
    tokens: int
    unscored: int
    status: str


def windowing_for(lm: LM, window: int = 0, stride: int = 0) -> Windowing:
    """The window asked for, 0: what the model holds, at most WINDOW_TOKENS; stride 0: half the window."""
    limit = lm.can.context_tokens
    window = window or min(WINDOW_TOKENS, limit or WINDOW_TOKENS)
    if limit is not None and window > limit:
        raise FixInput(f"a window of {window} tokens is more than the {limit} that {lm.name} holds")
    return Windowing(window, stride or max(1, window // 2))


def score_documents(lm: LM, texts: Iterable[str], windowing: Windowing) -> Iterator[Scored]:
    """A result for each text, in order. Raises FixInput at once if `lm` cannot score."""
    require(lm, "score")
    for batch in windows(texts, _ROWS):
        yield from _score_batch(lm, batch, windowing)


def _score_batch(lm: LM, texts: Sequence[str], windowing: Windowing) -> Iterator[Scored]:
    blank = [not text.strip() for text in texts]
    asked: list[str] = []
    plans: list[list[tuple[int, int | None]]] = []
    # What the model puts around every text: a start token, or a whole chat form, which scoring does without.
    around = lm.count_tokens(["."])[0] - 1
    room = max(1, windowing.window - around - _SLACK_TOKENS)
    stride = min(windowing.stride, room)
    fits = stride if stride == room else max(1, stride // _GRAINS)
    grains = iter(_cut_all(lm, [text for text, empty in zip(texts, blank) if not empty], room, fits, around))
    for empty in blank:
        plan: list[tuple[int, int | None]] = []
        for context, piece in () if empty else _with_contexts(next(grains), stride, room):
            asked += [context + piece, context] if context else [piece]
            plan.append((len(asked) - 2, len(asked) - 1) if context else (len(asked) - 1, None))
        plans.append(plan)
    results = list(lm.score(asked))
    for plan, empty in zip(plans, blank):
        yield _gathered([(results[whole], None if part is None else results[part]) for whole, part in plan], empty)


def _gathered(found: Sequence[tuple[Scores | Failure, Scores | Failure | None]], blank: bool) -> Scored:
    nats, tokens, unscored = 0.0, 0, 0
    for whole, part in found:
        for one in (whole, part):
            if isinstance(one, Failure):
                return Scored(None, 0, 0, f"failed:{one.kind}")
        assert isinstance(whole, Scores)
        nats, tokens, unscored = nats - whole.total, tokens + whole.prompt_tokens, unscored + whole.unscored
        if isinstance(part, Scores):
            nats, tokens, unscored = nats + part.total, tokens - part.prompt_tokens, unscored - part.unscored
    status = status_of(tokens, blank)
    return Scored(nats if tokens > unscored else None, tokens, unscored, status)


def _cut_all(lm: LM, texts: Sequence[str], room: int, most: int, around: int) -> list[list[tuple[str, int]]]:
    """Each text whole where `room` holds it, else as grains of at most `most` tokens, halved at white space until they fit."""
    done: list[dict[int, tuple[str, int]]] = [{} for _ in texts]
    open_pieces = [(row, 0, text) for row, text in enumerate(texts)]
    while open_pieces:
        sizes = [size - around for size in lm.count_tokens([piece for _, _, piece in open_pieces])]
        longer = []
        for (row, begin, piece), size in zip(open_pieces, sizes):
            whole = begin == 0 and len(piece) == len(texts[row])
            if size <= (room if whole else most) or len(piece) == 1:
                done[row][begin] = (piece, size)
                continue
            at = _middle(piece)
            longer += [(row, begin, piece[:at]), (row, begin + at, piece[at:])]
        open_pieces = longer
    return [[pieces[begin] for begin in sorted(pieces)] for pieces in done]


def _middle(text: str) -> int:
    """Where to halve: before the white space nearest to the middle, or in the middle where there is none."""
    half = len(text) // 2
    places = [match.start() for match in _BLANK.finditer(text) if 0 < match.start() < len(text)]
    return min(places, key=lambda place: (abs(place - half), place), default=half)


def _with_contexts(grains: Sequence[tuple[str, int]], stride: int, most: int) -> Iterator[tuple[str, str]]:
    """Grains joined to pieces of up to `stride` tokens, each behind as many grains before it as `most` tokens hold."""
    begin = 0
    while begin < len(grains):
        end, size = begin + 1, grains[begin][1]
        while end < len(grains) and size + grains[end][1] <= stride:
            size, end = size + grains[end][1], end + 1
        first = begin
        while first > 0 and size + grains[first - 1][1] <= most:
            first -= 1
            size += grains[first][1]
        yield "".join(text for text, _ in grains[first:begin]), "".join(text for text, _ in grains[begin:end])
        begin = end
