"""Fitting: a rater out of an annotation set, of any kind; and the card of a rater.

    rater_fit(Path("seeds"), Path("mine"), kind="starter")                   small, no torch: n-grams, measures, trees
    rater_fit(Path("seeds"), Path("mine"), kind="head", head={…})            heads on the embeddings of a model
    rater_fit(Path("seeds"), Path("mine"), kind="lm", lm={"rank": 8, …})     a language model that fills a form

The annotations may be a folder of seeds, an artifact of `rate`, or JSON lines; see train/annotation_set.py.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import orjson

from typecase.errors import AlreadyExists, BadQuery, NeedsExtra, NotFound
from typecase.lm.rate.annotations import Annotations, write_seeds
from typecase.lm.rate.rubric import load_rubric
from typecase.lm.starter.fit import CARD as STARTER_CARD
from typecase.lm.starter.fit import fit_starter
from typecase.lm.starter.starter import SHIPPED
from typecase.train.annotation_set import DOCUMENTS, RATINGS, origins_of, read_annotations
from typecase.train.rater_recipe import RaterRecipe

if TYPE_CHECKING:
    from typecase.train.tune import Watch

Kind = Literal["starter", "head", "lm"]
KINDS: tuple[Kind, ...] = ("starter", "head", "lm")
FIGURES = "figures.json"


@dataclass(frozen=True, slots=True)
class FittedRater:
    """A rater that was made: its kind, its folder, its fingerprint, the files, and the figures measured."""

    kind: Kind
    folder: Path
    fingerprint: str
    files: tuple[Path, ...]
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Card:
    """A rater's card as Markdown, and the figures in it where they are kept beside it."""

    text: str
    figures: Mapping[str, Any] | None


def rater_fit(
    annotations: Path,
    out: Path,
    *,
    kind: Kind,
    rubric: str = "dataman",
    language: str | None = None,
    docs: Path | None = None,
    source_key: str | None = None,
    seed: int = 1,
    lm: Mapping[str, Any] | None = None,
    head: Mapping[str, Any] | None = None,
    watch: Watch | None = None,
) -> FittedRater:
    """Fits a rater of one kind to the annotation set and writes it, with its card, into the new folder `out`.

    `lm` and `head` hold the settings of their kind. Raises AlreadyExists where `out` exists, NotFound, BadRecipe or
    SchemaMismatch for annotations that teach nothing, NeedsExtra where the kind needs a library that is missing.
    """
    if kind not in KINDS:
        raise BadQuery(f"no kind of rater '{kind}'; there are {', '.join(KINDS)}")
    if language is not None and kind != "lm":
        raise BadQuery(f"a {kind} sees no wording of the rubric: leave the language out, or choose the kind lm")
    if out.exists():
        raise AlreadyExists(f"{out} exists: choose another folder, or remove it first")
    if kind != "lm" and docs is None and _is_seeds(annotations):
        return _fit_small(kind, annotations, out, rubric, seed, head or {})
    read, places = read_annotations(annotations, load_rubric(rubric, language), docs=docs, source_key=source_key)
    if kind != "lm":
        return _fit_small(kind, read, out, rubric, seed, head or {})
    fitting = _training()
    made = fitting.fit_rater(
        read,
        out,
        RaterRecipe(**(lm or {}), seed=seed),
        parents=origins_of(places, child=out),
        watch=watch,
    )
    return FittedRater(kind, out, made.fingerprint, _files(out), made.figures)


def rater_card(rater: Path | str | None = None) -> Card:
    """The card of the rater in a folder, or of the starter rater that ships with the package. Raises NotFound."""
    if rater is None or str(rater) == SHIPPED:
        return Card((files("typecase.lm") / "weights" / STARTER_CARD).read_text("utf-8"), None)
    folder = Path(rater) if Path(rater).is_dir() else Path(rater).parent
    found = sorted(folder.glob("*CARD.md"))
    if not found:
        raise NotFound(f"no card in {folder}: give a folder that `typecase rater fit` made")
    figures = folder / FIGURES
    return Card(found[0].read_text("utf-8"), orjson.loads(figures.read_bytes()) if figures.is_file() else None)


def _fit_small(
    kind: Kind, taught: Path | Annotations, out: Path, rubric: str, seed: int, settings: Mapping[str, Any]
) -> FittedRater:
    """A starter or a head, of a folder of seeds or of what an annotation set was read to."""
    if kind == "head":
        from typecase.lm.head.head import fit_head

        head = fit_head(taught if isinstance(taught, Path) else taught.documents, out, seed=seed, rubric=rubric, **settings)
        return FittedRater(kind, out, head.fingerprint, _files(out), head.figures)
    with tempfile.TemporaryDirectory(prefix="typecase-seeds-") as scratch:
        folder = taught if isinstance(taught, Path) else Path(scratch)
        if not isinstance(taught, Path):
            write_seeds(taught, folder)
        card = fit_starter(folder, out, seed=seed, rubric=rubric)
    return FittedRater(kind, out, card.fingerprint, _files(out), card.figures)


def _training() -> Any:
    try:
        importlib.import_module("torch")
    except ImportError:
        raise NeedsExtra("training a language model", "lm") from None
    return importlib.import_module("typecase.train.rater_fit")


def _is_seeds(path: Path) -> bool:
    return all(any((path / (name + end)).is_file() for end in ("", ".zst")) for name in (RATINGS, DOCUMENTS))


def _files(folder: Path) -> tuple[Path, ...]:
    return tuple(sorted(path for path in folder.rglob("*") if path.is_file()))
