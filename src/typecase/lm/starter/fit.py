"""Making a starter rater: one command from a folder of seeds to a weights file and its card.

    python -m typecase.lm.starter.fit --seeds seeds --out src/typecase/lm/weights --seed 1

    starter.npz        the weights: `typecase.lm.starter.starter.open_rater(out)` opens them
    STARTER_CARD.md    what was measured; the fingerprint in it names the weights

Price: about 20 s for 1,600 documents, six times that with the card, on one core. Only the base install is needed.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from typecase.core.features.lexicon import word_filter, word_keys
from typecase.errors import BadRecipe
from typecase.lm.rate.rubric import builtin_rubrics, parse_rubric
from typecase.lm.rate.seeds import read_classes, read_seeds, read_words, reader_pairs
from typecase.lm.starter.card import card_text
from typecase.lm.starter.evaluate import FOLDS, figures_of, rate_held_out
from typecase.lm.starter.starter import load_starter, to_bytes
from typecase.lm.starter.train import Settings, fit_model
from typecase.lm.starter.words import WordLists, lists_of, word_lists

WEIGHTS, CARD = "starter.npz", "STARTER_CARD.md"
_FILTER_BITS = 14
OFTEN = 4


@dataclass(frozen=True, slots=True)
class Card:
    """What was made: the fingerprint of the weights, the figures measured, and the card's text."""

    fingerprint: str
    figures: Mapping[str, Any]
    text: str


def fit_starter(
    seeds_folder: Path, out: Path, *, seed: int, rubric: str | Path = "dataman", settings: Settings | None = None
) -> Card:
    """Trains and evaluates a starter rater and writes its weights and card into the folder `out`.

    Raises NotFound or BadRecipe for a folder that holds no usable seeds: a model needs documents of at least
    two sources in every fold.
    """
    settings = settings or Settings()
    rubric_text = rubric_text_of(rubric)
    seeds = read_seeds(seeds_folder, parse_rubric(rubric_text, where=str(rubric)))
    if len(set(seeds.sources)) < 2 * FOLDS:
        raise BadRecipe(f"{seeds_folder} has {len(set(seeds.sources))} sources; training needs {2 * FOLDS} or more")
    lists = lists_for(seeds_folder)
    rater = fit_model(seeds, rubric_text, lists, settings, seed=seed)
    held = rate_held_out(seeds, lambda taught: fit_model(taught, rubric_text, lists, settings, seed=seed), seed=seed)
    figures = figures_of(seeds, held, reader_pairs(seeds_folder, seeds.rubric, least=OFTEN))
    data = to_bytes(rater)
    text = card_text(figures, seeds.rubric, settings, fingerprint=rater.fingerprint, size=len(data), seed=seed)
    write_whole(out / WEIGHTS, data)
    write_whole(out / CARD, text.encode())
    return Card(rater.fingerprint, figures, text)


def rubric_text_of(rubric: str | Path) -> str:
    """The TOML text of a built-in rubric, or of the file at a path."""
    if isinstance(rubric, str) and rubric in builtin_rubrics():
        return (files("typecase.lm.rate") / "rubrics" / f"{rubric}.toml").read_text("utf-8")
    return Path(rubric).read_text("utf-8")


def lists_for(folder: Path) -> WordLists:
    """The lists of the seeds folder; where it has none, those of the shipped rater."""
    classes, words = read_classes(folder), read_words(folder)
    if classes is None or words is None:
        shipped = load_starter().lexicon
        known = lists_of(shipped)
        spelled = known.spelled if words is None else word_filter(word_keys(words), bits=_FILTER_BITS)
        return WordLists(known.classes, known.keys, known.mask, spelled) if classes is None else word_lists(classes, spelled)
    return word_lists(classes, word_filter(word_keys(words), bits=_FILTER_BITS))


def write_whole(path: Path, data: bytes) -> None:
    """All or nothing: a temporary name, a sync, a rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line of this module."""
    parser = argparse.ArgumentParser(prog="python -m typecase.lm.starter.fit", description="Train a starter rater.")
    parser.add_argument("--seeds", type=Path, required=True, help="folder of documents and ratings")
    parser.add_argument("--out", type=Path, required=True, help="folder for starter.npz and STARTER_CARD.md")
    parser.add_argument("--seed", type=int, required=True, help="a whole number; equal seeds give equal weights")
    parser.add_argument("--rubric", default="dataman", help="name of a built-in rubric, or the path of a TOML file")
    chosen = parser.parse_args(arguments)
    card = fit_starter(chosen.seeds, chosen.out, seed=chosen.seed, rubric=chosen.rubric)
    print(card.text)


if __name__ == "__main__":
    main()
