"""Fitting a line tagger out of twins, and the card of one.

    fit_refiner(Path("seeds/twins"), Path("mine"), kind="tagger", seed=1)
    refiner_card(Path("mine"))

The seeds are a folder with `train.jsonl.zst` and, for the figures, `held.jsonl.zst` (store/twins.py). The new folder holds
the weights, the card, and its figures.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson

from typecase.errors import AlreadyExists, BadQuery, NotFound
from typecase.lm.tagger.card import card_text, figures_of
from typecase.lm.tagger.noise import read_noise
from typecase.lm.tagger.tagger import CARD, FIGURES, WEIGHTS, shipped_card, to_bytes, with_fingerprint
from typecase.lm.tagger.train import Settings, fit_tagger, tagged, with_thresholds
from typecase.store.atomic import write_bytes, write_json
from typecase.store.twins import HELD, TRAIN, read_twins

RefinerKind = Literal["tagger"]
REFINER_KINDS: tuple[RefinerKind, ...] = ("tagger",)


@dataclass(frozen=True, slots=True)
class FittedRefiner:
    """A refiner that was made: its kind, folder, fingerprint, files, and the figures measured."""

    kind: RefinerKind
    folder: Path
    fingerprint: str
    files: tuple[Path, ...]
    figures: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RefinerCard:
    """A refiner's card as Markdown, and its figures where they are kept beside it."""

    text: str
    figures: Mapping[str, Any] | None


def fit_refiner(
    seeds: Path,
    out: Path,
    *,
    kind: RefinerKind = "tagger",
    seed: int = 1,
    settings: Settings | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> FittedRefiner:
    """Fits a refiner to the twins in the folder `seeds` and writes it, with its card, into the new folder `out`.

    Equal seeds and twins give equal bytes. Raises AlreadyExists where `out` exists, NotFound without twins, CorruptStore
    where a file holds something else, BadRecipe where the twins are of too few generators.
    """
    if kind not in REFINER_KINDS:
        raise BadQuery(f"no kind of refiner '{kind}'; there are {', '.join(REFINER_KINDS)}")
    if out.exists():
        raise AlreadyExists(f"{out} exists: choose another folder, or remove it first")
    settings = settings or Settings()
    taught = read_twins(_twins_in(seeds, TRAIN))
    held = read_twins(seeds / HELD) if (seeds / HELD).is_file() else []
    tagger = fit_tagger(taught, read_noise(), settings, seed=seed, report=report)
    seen = tagged(tagger, held) if held else None
    tagger = with_fingerprint(with_thresholds(tagger, seen, settings) if seen else tagger)
    figures = figures_of(tagger, taught, held, seen, settings, seed=seed)
    data = to_bytes(tagger)
    folder = out.with_name(f".{out.name}.new")
    shutil.rmtree(folder, ignore_errors=True)
    try:
        write_bytes(folder / WEIGHTS, data)
        write_bytes(folder / CARD, card_text(figures, size=len(data)).encode())
        write_json(folder / FIGURES, figures)
        folder.replace(out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return FittedRefiner(kind, out, tagger.fingerprint, tuple(out / name for name in (WEIGHTS, CARD, FIGURES)), figures)


def _twins_in(seeds: Path, name: str) -> Path:
    if not seeds.is_dir():
        raise NotFound(f"no folder {seeds}: give a folder with {name}, such as seeds/twins")
    return seeds / name


def refiner_card(refiner: Path | None = None) -> RefinerCard:
    """The card of the refiner in a folder, or of the tagger that ships with the package. Raises NotFound."""
    if refiner is None:
        return RefinerCard(shipped_card(), None)
    card = next(iter(sorted(refiner.glob("*CARD.md"))), None)
    if card is None:
        raise NotFound(f"no card in {refiner}: give a folder that `typecase refiner fit` wrote")
    figures = refiner / FIGURES
    return RefinerCard(card.read_text("utf-8"), orjson.loads(figures.read_bytes()) if figures.is_file() else None)
