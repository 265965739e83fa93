"""Mixing: new pages for training, out of the parts of twins: one page's text between other pages' menus and footers.

    top of B      its lines reordered, thinned, joined, without bullets …
    text of A     a stretch of it
    bottom of C
    noise         from wordings (lm/tagger/noise)

A tagger that only sees real pages learns their layouts: "a bullet at the top of a Sphinx page". Here text and furniture
are independent, so what is left to learn is what both look like. Every page is a function of the seed and its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from typecase.core.twins.marks import Twin
from typecase.lm.tagger.noise import Noise, inject, styled


def mixed_page(twins: Sequence[Twin], kinds: Sequence[Noise], *, seed: int, number: int) -> Twin:
    """A page of parts; of the family and generator of its text."""
    rng = np.random.default_rng((seed, number))
    host, upper, lower = (twins[int(i)] for i in rng.integers(0, len(twins), 3))
    body = _stretch(host.clean.split("\n"), rng)
    lines, gone = list(body), [False] * len(body)
    if rng.random() < 0.7 and (top := _furniture(upper, above=True)):
        top = _reworked(top, rng)
        lines, gone = top + lines, [True] * len(top) + gone
    if rng.random() < 0.7 and (bottom := _furniture(lower, above=False)):
        bottom = _reworked(bottom, rng)
        lines, gone = lines + bottom, gone + [True] * len(bottom)
    if rng.random() < 0.6:
        put, noise = inject(lines, kinds, rng, blocks=int(rng.integers(1, 4)))
        old = iter(gone)
        lines, gone = put, [flag or next(old) for flag in noise]
    lines, gone = _restyled(lines, gone, rng)
    marked = tuple(at for at, (line, flag) in enumerate(zip(lines, gone, strict=True)) if flag and line.strip())
    return replace(host, text="\n".join(lines), gone=marked, source="mixed", path=str(number))


def _furniture(twin: Twin, *, above: bool) -> list[str]:
    """The boilerplate lines before the first, or after the last, line of content."""
    gone, lines = set(twin.gone), twin.lines
    content = [at for at, line in enumerate(lines) if line.strip() and at not in gone]
    if not content:
        return []
    return [line for at, line in enumerate(lines) if (at < content[0] if above else at > content[-1])]


def _stretch(lines: list[str], rng: np.random.Generator) -> list[str]:
    """The whole text, or a run of 5 to 80 of its lines."""
    if rng.random() < 0.4 or len(lines) < 12:
        return lines
    size = int(rng.integers(5, 80))
    at = 0 if rng.random() < 0.6 else int(rng.integers(0, len(lines)))
    part = lines[at : at + size]
    return part if any(line.strip() for line in part) else lines


def _reworked(lines: list[str], rng: np.random.Generator) -> list[str]:
    """A block of furniture with fewer lines, in another order or style."""
    if rng.random() < 0.5:
        share = rng.random()
        lines = [line for line in lines if rng.random() < share] or lines[:1]
    if rng.random() < 0.25:
        lines = [lines[int(i)] for i in rng.permutation(len(lines))]
    if rng.random() < 0.35:
        bare = [line.strip().removeprefix("•").strip() for line in lines]
        lines = styled([line for line in bare if line] or ["Home"], rng)
    if len(lines) > 12 and rng.random() < 0.5:
        at = int(rng.integers(0, len(lines) - 6))
        lines = lines[at : at + int(rng.integers(3, 40))]
    return lines


def _restyled(lines: list[str], gone: list[bool], rng: np.random.Generator) -> tuple[list[str], list[bool]]:
    """The whole page as another extractor would give it: without indents, bullets or blank lines, or with more of these."""
    if rng.random() < 0.25:
        lines = [line.strip() for line in lines]
    if rng.random() < 0.25:
        lines = [line.replace("• ", "", 1) for line in lines]
    blanks = rng.random()
    if blanks < 0.25:
        kept = [at for at, line in enumerate(lines) if line.strip()]
        lines, gone = [lines[at] for at in kept], [gone[at] for at in kept]
    elif blanks < 0.35:
        kept = [at for at, line in enumerate(lines) if line.strip()]
        lines, gone = [x for at in kept for x in (lines[at], "")], [x for at in kept for x in (gone[at], False)]
    return lines, gone
