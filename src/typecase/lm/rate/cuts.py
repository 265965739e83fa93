"""Cuts: where a long text is divided for a reader that holds so many tokens, and which of the parts are read.

    "…\\n\\n…\\n\\n…"  ─► paragraphs ─► lines ─► sentences ─► words ─► characters     a finer level only for what is too long
                         └─ joined in order while they fit: [0, 812) [812, 1704) …   tiles of the text

Spans are in characters of the text, half-open; tokens are counted by whoever reads. Everything depends on the text and the
counter alone, never on other texts.

Price: each part is counted once or twice; what fits as it is, once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from typecase.errors import BadQuery

Count = Callable[[Sequence[str]], Sequence[int]]
"""Tokens of each text."""

_ENDS = (
    re.compile(r"\n[ \t]*\n\s*"),
    re.compile(r"\n+"),
    re.compile(r"[.!?…]+[\"'”’)\]]*\s+|[。！？]+[”’」』）]*"),
    re.compile(r"\s+"),
)
"""What a part ends with, coarse to fine."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Characters [start, stop) of a text, and their tokens."""

    start: int
    stop: int
    tokens: int


def cut_text(text: str, limit: int, count: Count) -> list[Cut]:
    """Tiles of `text`, each of at most `limit` tokens, at the coarsest boundaries that allow it; none for an empty text.

    A single character may be longer than the limit; it stands alone.
    """
    if limit < 1:
        raise BadQuery(f"a window holds 1 token or more, got {limit}")
    if not text:
        return []
    whole = Cut(0, len(text), int(count([text])[0]))
    if whole.tokens <= limit:
        return [whole]
    return _fitting(text, _joined(_atoms(text, whole, limit, count, level=0), limit), limit, count)


def _atoms(text: str, part: Cut, limit: int, count: Count, *, level: int) -> list[Cut]:
    """Parts of `part` that are short enough, at this level or a finer one."""
    bounds = _bounds(text, part, limit, level)
    pieces = [text[start:stop] for start, stop in bounds]
    atoms: list[Cut] = []
    for (start, stop), tokens in zip(bounds, count(pieces), strict=True):
        own = Cut(start, stop, int(tokens))
        if own.tokens <= limit or stop - start == 1:
            atoms.append(own)
        else:
            atoms += _atoms(text, own, limit, count, level=level + 1)
    return atoms


def _bounds(text: str, part: Cut, limit: int, level: int) -> list[tuple[int, int]]:
    if level < len(_ENDS):
        found = [match.end() for match in _ENDS[level].finditer(text, part.start, part.stop)]
        stops = [*(at for at in found if at < part.stop), part.stop]
    else:
        size = max(1, (part.stop - part.start) * limit // (part.tokens + part.tokens // 4 + 1))
        stops = [*range(part.start + size, part.stop, size), part.stop]
    return list(zip([part.start, *stops], stops))


def _joined(atoms: Sequence[Cut], limit: int) -> list[list[Cut]]:
    """Runs of neighbours that together fit, as long as possible from the left."""
    runs: list[list[Cut]] = []
    tokens = limit + 1
    for atom in atoms:
        tokens += atom.tokens
        if tokens > limit:
            runs.append([])
            tokens = atom.tokens
        runs[-1].append(atom)
    return runs


def _fitting(text: str, runs: list[list[Cut]], limit: int, count: Count) -> list[Cut]:
    """A cut for each run. Tokens of a whole may exceed the sum of its parts: such a run is divided again."""
    out: list[Cut] = []
    counted = count([text[run[0].start : run[-1].stop] for run in runs])
    for run, tokens in zip(runs, counted, strict=True):
        if int(tokens) <= limit or len(run) == 1:
            out.append(Cut(run[0].start, run[-1].stop, int(tokens)))
        else:
            half = len(run) // 2
            out += _fitting(text, [run[:half], run[half:]], limit, count)
    return out


def head_and_tail(text: str, cap: int, count: Count) -> list[Cut]:
    """The whole text if it has at most `cap` tokens; else its longest head and tail of half as many each."""
    if cap < 2:
        raise BadQuery(f"head and tail hold 2 tokens or more, got {cap}")
    whole = Cut(0, len(text), int(count([text])[0]))
    if whole.tokens <= cap:
        return [whole]
    half = cap // 2
    head = _longest(len(text), half, lambda size: int(count([text[:size]])[0]))
    tail = _longest(len(text), half, lambda size: int(count([text[len(text) - size :]])[0]))
    first, last = (0, head), (max(head, len(text) - tail), len(text))
    sizes = count([text[slice(*first)], text[slice(*last)]])
    return [Cut(*span, int(tokens)) for span, tokens in zip((first, last), sizes, strict=True)]


def _longest(most: int, limit: int, tokens_of: Callable[[int], int]) -> int:
    """The most characters whose tokens stay within `limit`, by doubling and halving."""
    low, high = 0, min(most, 4 * limit)
    while high < most and tokens_of(high) <= limit:
        low, high = high, min(most, 2 * high)
    if tokens_of(high) <= limit:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if tokens_of(middle) <= limit:
            low = middle
        else:
            high = middle
    return low


def sample_of(num: int, most: int | None, key: bytes) -> list[int]:
    """Which of `num` windows are read if at most `most` are: the first, the last, middle ones by a hash of key and place."""
    if most is None or num <= most:
        return list(range(num))
    if most < 1:
        raise BadQuery(f"a sample has 1 window or more, got {most}")
    if most == 1:
        return [0]
    middle = sorted(range(1, num - 1), key=lambda at: blake2b(key + at.to_bytes(8, "little"), digest_size=8).digest())
    return [0, *sorted(middle[: most - 2]), num - 1]


def byte_bounds(text: str, cuts: Sequence[Cut]) -> Iterator[tuple[int, int]]:
    """Each rising cut in bytes of the text as UTF-8."""
    seen = at = 0
    for cut in cuts:
        start = at + size_of(text[seen : cut.start])
        at = start + size_of(text[cut.start : cut.stop])
        seen = cut.stop
        yield start, at


def size_of(text: str) -> int:
    """Bytes of a text that `text_of` made."""
    return len(text.encode("utf-8", "surrogateescape"))


def text_of(data: bytes) -> str:
    """Bytes as text, such that `size_of` gives the bytes back even where they are not UTF-8."""
    return data.decode("utf-8", "surrogateescape")


def clean(text: str) -> str:
    """A text that can be sent: what was no UTF-8 becomes question marks."""
    return text.encode("utf-8", "replace").decode()
