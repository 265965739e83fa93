"""Seeds: the folder of documents and readings from which the starter rater is made.

    documents.jsonl[.zst]   id, text, source, licence, …, variant_of, damage      a variant names its original
    ratings.jsonl[.zst]     id, rater, domain, and a whole level for each criterion; a document may have several readings
    lexicon.toml            word lists by class       (optional: else those of the shipped rater)
    words_en.txt[.zst]      correctly spelled words   (optional: likewise)

Documents are split by `source` and never by row: what belongs to one project stays on one side.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from typecase.core.rating import Rubric
from typecase.core.selection.keys import derive_seed
from typecase.errors import BadRecipe, NotFound

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]


WIDER = "+"
"""Ends the name of the second, weaker list of a class."""


@dataclass(frozen=True, slots=True)
class Seeds:
    """Rated documents, a row each. `scores` and `votes` are means over the readings of a document.

    scores     float64 (docs, criteria)
    votes      float64 (docs, domains)   sum to 1
    original   int64 (docs,)             row of the document that this is a damaged variant of, -1 if it is none
    """

    rubric: Rubric
    ids: tuple[str, ...]
    texts: tuple[str, ...]
    sources: tuple[str, ...]
    damage: tuple[str, ...]  # "" for an original
    original: I64
    scores: F64
    votes: F64
    readings: I64

    def __len__(self) -> int:
        return len(self.ids)

    def pick(self, docs: I64) -> Seeds:
        """The documents `docs`, in that order; a variant whose original is left out stands alone."""
        place = {int(doc): row for row, doc in enumerate(docs)}
        original = np.array([place.get(int(self.original[doc]), -1) for doc in docs], np.int64)
        texts, sources, damage, ids = (
            tuple(column[doc] for doc in docs) for column in (self.texts, self.sources, self.damage, self.ids)
        )
        return Seeds(
            self.rubric, ids, texts, sources, damage, original, self.scores[docs], self.votes[docs], self.readings[docs]
        )


def read_seeds(folder: Path, rubric: Rubric) -> Seeds:
    """Reads documents and readings; every document needs at least one reading, every reading all criteria of `rubric`."""
    documents = list(_read_lines(_find(folder, "documents.jsonl")))
    row_of = {str(document["id"]): row for row, document in enumerate(documents)}
    if len(row_of) < len(documents):
        raise BadRecipe(f"{folder}: two documents of documents.jsonl share an id; give each its own")
    scores, votes, readings = _read_ratings(folder, rubric, row_of)
    if bare := [doc for doc, row in row_of.items() if readings[row] == 0]:
        raise BadRecipe(f"{folder}: {len(bare)} documents have no rating, the first is '{bare[0]}'; rate or remove them")
    original = np.array([row_of.get(str(d.get("variant_of")), -1) for d in documents], np.int64)
    sources = tuple(str(document["source"]) for document in documents)
    for row in np.flatnonzero(original >= 0):
        if sources[row] != sources[original[row]]:
            raise BadRecipe(f"{folder}: variant '{documents[row]['id']}' is not of the source of its original")
    return Seeds(
        rubric,
        tuple(row_of),
        tuple(str(document["text"]) for document in documents),
        sources,
        tuple(str(document.get("damage") or "") for document in documents),
        original,
        scores / readings[:, None],
        votes / readings[:, None],
        readings,
    )


def read_classes(folder: Path) -> Mapping[str, list[str]] | None:
    """The word lists of `lexicon.toml` by class, the `wider` list of a class under its name and WIDER; None without it."""
    path = folder / "lexicon.toml"
    if not path.is_file():
        return None
    tables = tomllib.loads(path.read_text("utf-8"))
    lists = {name: entry["words"].split() for name, entry in tables.items()}
    wider = {name + WIDER: entry["wider"].split() for name, entry in tables.items() if "wider" in entry}
    return wider | lists


def read_words(folder: Path) -> list[str] | None:
    """The correctly spelled words of `words_en.txt`, None where there is no such file."""
    paths = [folder / "words_en.txt.zst", folder / "words_en.txt"]
    for path in paths:
        if path.is_file():
            return _read_bytes(path).decode().split()
    return None


def reader_pairs(folder: Path, rubric: Rubric, *, least: int) -> tuple[F64, F64, int]:
    """Every ordered pair of readings of the documents with `least` readings or more.

    (left, right (pairs, criteria + 1), documents); the last column is the row of the domain in `rubric.labels`.
    """
    by_doc: dict[str, list[list[int]]] = {}
    for reading in _read_lines(_find(folder, "ratings.jsonl")):
        label = rubric.labels.index(rubric.domain(str(reading["domain"])).id) if rubric.domains else 0
        by_doc.setdefault(str(reading["id"]), []).append([*(int(reading[c]) for c in rubric.columns), label])
    often = [rows for rows in by_doc.values() if len(rows) >= least]
    pairs = [(a, b) for rows in often for i, a in enumerate(rows) for j, b in enumerate(rows) if i != j]
    array = np.array(pairs, np.float64).reshape(-1, 2, len(rubric.criteria) + 1)
    return array[:, 0], array[:, 1], len(often)


def source_folds(sources: tuple[str, ...], *, folds: int, seed: int) -> I64:
    """A fold for every document, int64 (docs,): whole sources, largest first, each to the emptiest fold.

    Sources of one size are taken in the order of a hash of (seed, name).
    """
    names, size = np.unique(np.array(sources), return_counts=True)
    load, fold_of = [0] * folds, {}
    for name, count in sorted(
        zip(names.tolist(), size.tolist(), strict=True), key=lambda item: (-item[1], derive_seed(seed, item[0]))
    ):
        fold = load.index(min(load))
        fold_of[name] = fold
        load[fold] += count
    return np.array([fold_of[source] for source in sources], np.int64)


def _read_ratings(folder: Path, rubric: Rubric, row_of: Mapping[str, int]) -> tuple[F64, F64, I64]:
    scores = np.zeros((len(row_of), len(rubric.criteria)))
    votes = np.zeros((len(row_of), len(rubric.domains)))
    readings = np.zeros(len(row_of), np.int64)
    labels = rubric.labels
    for number, reading in enumerate(_read_lines(_find(folder, "ratings.jsonl")), start=1):
        where = f"{folder}/ratings.jsonl, reading {number}"
        row = row_of.get(str(reading.get("id")))
        if row is None:
            raise BadRecipe(f"{where}: there is no document '{reading.get('id')}'")
        levels = [reading.get(column) for column in rubric.columns]
        if any(not isinstance(level, int) or not rubric.low <= level <= rubric.high for level in levels):
            wrong = next(c for c, v in zip(rubric.columns, levels, strict=True) if v not in range(rubric.low, rubric.high + 1))
            raise BadRecipe(
                f"{where}: '{wrong}' must be a whole number {rubric.low}..{rubric.high}, got {reading.get(wrong)!r}"
            )
        scores[row] += levels
        if labels:
            votes[row, labels.index(rubric.domain(str(reading.get("domain"))).id)] += 1
        readings[row] += 1
    return scores, votes, readings


def _find(folder: Path, name: str) -> Path:
    for path in (folder / f"{name}.zst", folder / name):
        if path.is_file():
            return path
    raise NotFound(f"no {name} or {name}.zst in {folder}: it holds the seeds of a starter rater")


def _read_bytes(path: Path) -> bytes:
    with pa.input_stream(str(path), compression="zstd" if path.suffix == ".zst" else None) as stream:
        data: bytes = stream.read()
    return data


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(_read_bytes(path).splitlines(), start=1):
        try:
            yield json.loads(line)
        except json.JSONDecodeError as error:
            raise BadRecipe(f"{path}, line {number} is not JSON: {error}") from None
