"""Noise: lines that websites put around a text, from wordings by kind, put into a clean text with a log of where.

    kinds = read_noise()                                  the wordings that ship; a benchmark brings its own
    page = inject(lines, kinds, rng, blocks=3)            (lines with noise, which of them are noise)

Same wordings, seed and text give the same page. Nothing of the text is changed: lines are only put between its lines.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

import numpy as np

from typecase.errors import NotFound

_FILLS: Final = {
    "site": ("northwind", "papertrail", "OpenAtlas", "greenfield", "The Daily Post", "codebase", "lumen", "harbour"),
    "topic": ("Science", "travel", "Reference", "release notes", "Tutorials", "culture", "Networking", "recipes", "API"),
    "name": ("Installing the tools", "J. Meyer", "Getting started", "Acme", "A day in Lisbon", "Chapter 4", "Overview"),
    "date": ("2019", "2023-04-11", "March 3, 2021", "2008-2024", "12 May 2017", "2015"),
}


@dataclass(frozen=True, slots=True)
class Noise:
    """Wordings of one kind; an entry may be several lines. `place` is top, bottom, middle or any."""

    id: str
    place: str
    lines: tuple[str, ...]


def read_noise(path: Path | None = None) -> list[Noise]:
    """The kinds of noise in a TOML file, or those that ship for training. Raises NotFound."""
    if path is not None and not path.is_file():
        raise NotFound(f"no wordings at {path}: give a TOML file with [[kind]] id, place, lines")
    text = (files("typecase.lm.tagger") / "noise.toml").read_text("utf-8") if path is None else path.read_text("utf-8")
    return [Noise(row["id"], row["place"], tuple(row["lines"])) for row in tomllib.loads(text)["kind"]]


def block(kinds: Sequence[Noise], place: str, rng: np.random.Generator, *, entries: int) -> list[str]:
    """Lines of noise for a place: mostly of one kind or two, in one style."""
    fitting = [kind for kind in kinds if kind.place in (place, "any")]
    chosen = [fitting[i] for i in rng.integers(0, len(fitting), int(rng.integers(1, 3)))]
    lines: list[str] = []
    for _ in range(entries):
        kind = chosen[int(rng.integers(0, len(chosen)))]
        lines += _filled(kind.lines[int(rng.integers(0, len(kind.lines)))], rng).split("\n")
    return styled(lines, rng)


def styled(lines: list[str], rng: np.random.Generator) -> list[str]:
    """The lines with bullets, as one line with separators, spaced by blank lines, or as they are."""
    style = int(rng.integers(0, 7))
    if style == 0:
        return [f"  • {line}" for line in lines]
    if style == 1 and len(lines) > 1:
        separator = (" | ", " · ", "\t\t", " ", " / ")[int(rng.integers(0, 5))]
        return [separator.join(lines[at : at + 6]) for at in range(0, len(lines), 6)]
    if style == 2:
        return [line for each in lines for line in (each, "")]
    if style == 3:
        return [f"* {line}" for line in lines]
    return lines


def inject(
    lines: Sequence[str], kinds: Sequence[Noise], rng: np.random.Generator, *, blocks: int, entries: int = 4
) -> tuple[list[str], list[bool]]:
    """The lines with up to `blocks` blocks of noise put in, and of each line whether it is noise."""
    out, noise = list(lines), [False] * len(lines)
    for _ in range(blocks):
        place = ("top", "bottom", "middle", "top", "bottom")[int(rng.integers(0, 5))]
        some = block(kinds, place, rng, entries=1 if place == "middle" else int(rng.integers(1, entries + 1)))
        some = some if rng.random() < 0.5 else (["", *some] if place == "bottom" else [*some, ""])
        at = 0 if place == "top" else len(out) if place == "bottom" else int(rng.integers(0, len(out) + 1))
        out[at:at] = some
        noise[at:at] = [True] * len(some)
    return out, noise


def _filled(line: str, rng: np.random.Generator) -> str:
    for name, fills in _FILLS.items():
        if "{" + name + "}" in line:
            line = line.replace("{" + name + "}", fills[int(rng.integers(0, len(fills)))])
    return line.replace("{n}", str(int(rng.integers(2, 60))))
