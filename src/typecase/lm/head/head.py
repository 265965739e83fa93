"""Head raters: a folder with a small model on a frozen encoder, made in minutes on a processor.

    fit_head("seeds", Path("my-head"), encoder="minilm", seed=1)
    rater = open_head(Path("my-head"))

    my-head/rater.toml      kind = "head", encoder = "minilm"; for a checkpoint folder also its path
            head.npz        the models; see head_file
            CARD.md         what was measured, on sources never seen, and against what

    encoder    torch   what is seen
    none       no      n-grams alone: the fastest rater there is
    minilm     yes     the starter rater's measures and n-grams, and a sentence encoder of 90 MB
    a folder   yes     the same with another encoder, or a small causal LM

The head knows its encoder by a fingerprint over the weights and refuses another.
Raises NeedsExtra where the encoder's libraries or package are missing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from typecase.core.rating import Rubric
from typecase.errors import BadRecipe, CorruptStore, NotFound
from typecase.lm.embedding import MINILM, VectorStore, open_encoder
from typecase.lm.head.card import head_card
from typecase.lm.head.file import encoded_head_of, gram_head_of, header_of, read_arrays, to_bytes
from typecase.lm.head.model import EncodedHead, GramHead
from typecase.lm.head.train import HeadSettings, fit_encoded_head, fit_gram_head
from typecase.lm.rate.rater import Rater
from typecase.lm.rate.rubric import parse_rubric
from typecase.lm.rate.seeds import Seeds, read_seeds, reader_pairs
from typecase.lm.starter.evaluate import FOLDS, figures_of, rate_held_out
from typecase.lm.starter.fit import OFTEN, lists_for, rubric_text_of, write_whole
from typecase.lm.tables import check_keys, read_table

FILE, MODEL, CARD = "rater.toml", "head.npz", "CARD.md"
NONE = "none"


@dataclass(frozen=True, slots=True)
class HeadCard:
    """What was made: the fingerprint of the head, the figures measured, and the card's text."""

    fingerprint: str
    figures: Mapping[str, Any]
    text: str


def open_head(folder: Path) -> Rater:
    """The head in `folder`. Raises NotFound, BadRecipe or CorruptStore for a folder that holds none."""
    table = _read_table(folder / FILE)
    path = folder / MODEL
    if not path.is_file():
        raise NotFound(f"no {MODEL} in {folder}: a head is that file beside {FILE}; fit it again")
    arrays = read_arrays(path.read_bytes(), where=str(path))
    header = header_of(arrays)
    encoder_name = header["encoder"]
    try:
        if encoder_name == NONE:
            return gram_head_of(arrays)
        encoder = open_encoder(_encoder_place(table, folder))
        if encoder.fingerprint != header["encoder_fingerprint"]:
            raise BadRecipe(
                f"{folder} was fitted on an encoder '{encoder_name}' of the fingerprint {header['encoder_fingerprint']}, the"
                f" one at {encoder.path} has {encoder.fingerprint}: give its folder as 'path' in {FILE}, or fit the head again"
            )
        return encoded_head_of(arrays, encoder)
    except (KeyError, ValueError) as error:
        raise CorruptStore(f"{path} does not hold a head ({error}); fit it again") from None


def fit_head(
    seeds: Path | Seeds,
    out: Path,
    *,
    encoder: str | Path = MINILM,
    seed: int,
    rubric: str | Path = "dataman",
    settings: HeadSettings | None = None,
    cache: Path | None = None,
    evaluate: bool = True,
) -> HeadCard:
    """Fits a head to rated documents and writes its folder `out`.

    `seeds` is a folder of documents and ratings, or what an annotation set was read to. Vectors are kept in the file
    `cache` and taken from there. The card needs documents of at least ten sources and five more trainings; without
    `evaluate` it holds no figures. Raises like `read_seeds` and `open_encoder`.
    """
    settings = settings or HeadSettings()
    rubric_text = rubric_text_of(rubric)
    parsed = parse_rubric(rubric_text, where=str(rubric))
    documents = seeds if isinstance(seeds, Seeds) else read_seeds(seeds, parsed)
    if documents.rubric.fingerprint != parsed.fingerprint:
        raise BadRecipe(f"the documents are rated on the rubric '{documents.rubric.id}', not on '{parsed.id}'")
    if len(set(documents.sources)) < 2 * FOLDS:
        raise BadRecipe(f"the documents are of {len(set(documents.sources))} sources; a head needs {2 * FOLDS} or more")
    lists = lists_for(seeds if isinstance(seeds, Path) else Path())
    store = None if str(encoder) == NONE else VectorStore(open_encoder(encoder))
    if store is not None and cache is not None:
        store.load(cache)

    def fit(taught: Seeds) -> GramHead | EncodedHead:
        if store is None:
            return fit_gram_head(taught, rubric_text, settings, seed=seed)
        named = {"encoder_name": store.encoder.name, "encoder_fingerprint": store.encoder.fingerprint}
        return fit_encoded_head(taught, rubric_text, lists, store, settings, seed=seed, **named)

    head = fit(documents)
    pairs = reader_pairs(seeds, parsed, least=OFTEN) if isinstance(seeds, Path) else no_pairs(parsed)
    figures = figures_of(documents, rate_held_out(documents, fit, seed=seed), pairs) if evaluate else {}
    if store is not None and cache is not None:
        store.save(cache)
    data = to_bytes(head)
    text = head_card(figures, head, encoder=store.encoder if store else None, size=len(data), seed=seed)
    write_whole(out / MODEL, data)
    write_whole(out / CARD, text.encode())
    write_whole(out / FILE, _table_text(encoder, out).encode())
    return HeadCard(head.fingerprint, figures, text)


def no_pairs(rubric: Rubric) -> tuple[Any, Any, int]:
    """What `reader_pairs` gives where no document was read often."""
    empty = np.zeros((0, len(rubric.criteria) + 1))
    return empty, empty, 0


def _table_text(encoder: str | Path, out: Path) -> str:
    """rater.toml: the encoder's folder is written relative to the head's, where both lie together."""
    lines = ['kind = "head"']
    if str(encoder) in (NONE, MINILM):
        return "\n".join([*lines, f'encoder = "{encoder}"']) + "\n"
    place = Path(encoder).absolute()
    inside = place.relative_to(out.absolute()) if place.is_relative_to(out.absolute()) else place
    return "\n".join([*lines, f"encoder = {json.dumps(place.name)}", f"path = {json.dumps(str(inside))}"]) + "\n"


def _read_table(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise NotFound(f"no {FILE} in {file.parent}: a head is a folder with {FILE} and {MODEL}")
    table = read_table(file)
    if table.get("kind") != "head":
        raise BadRecipe(f'{file}: kind = {table.get("kind")!r}, a head says kind = "head"')
    check_keys(table, ("kind", "encoder", "path"), file)
    return table


def _encoder_place(table: Mapping[str, Any], folder: Path) -> str | Path:
    """MINILM, or the checkpoint folder that rater.toml names, from the head's folder."""
    if table.get("encoder") == MINILM:
        return MINILM
    place = table.get("path")
    if not isinstance(place, str):
        raise BadRecipe(f"{folder / FILE}: the encoder '{table.get('encoder')}' needs its folder as 'path'")
    return folder / place
