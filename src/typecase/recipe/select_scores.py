"""Scores of a selection: what the policy goes by, from ratings, source rows, perplexity and importance, one file a part.

    ratings      overall_score …            perplexity   nll / scored tokens -> "perplexity"
    source rows  meta.likes                 importance   log_weight, log_weight / words -> "log_weight_per_word"
       |
    scores-00000.arrow    s0 s1 …           one column for each draw; for a QuaDMix one for each criterion, merged when all
                                            ranks are known

Price: 8 bytes a document and column on disk while the stage runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from typecase.core.selection.keys import id_words
from typecase.core.selection.named import LOG_WEIGHT, LOG_WEIGHT_PER_WORD, PERPLEXITY
from typecase.core.selection.quota import Label
from typecase.core.selection.ranks import Ranks
from typecase.core.selection.selection import Policy, Pool
from typecase.errors import BadRecipe, FingerprintMismatch, SchemaMismatch
from typecase.recipe.candidates import Terms, open_candidates
from typecase.recipe.columns import map_columns, write_columns
from typecase.recipe.stage import Given
from typecase.recipe.values import rating_parts, raw_ids_of, read_values
from typecase.store.documents import join_side
from typecase.store.lineage import related
from typecase.store.manifest import read_manifest

F64 = NDArray[np.float64]

SIDES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    PERPLEXITY: ("perplexity", ("nll", "tokens", "unscored")),
    LOG_WEIGHT: ("importance", ("log_weight",)),
    LOG_WEIGHT_PER_WORD: ("importance", ("log_weight", "words")),
}
"""Score -> the role that holds it, and the columns that it is made of."""


def draws_of(policy: Policy) -> tuple[Terms, ...]:
    """The scores that are read, one column each; none where the policy looks at no score."""
    if not policy.needs_score:
        return ()
    if policy.each:
        return tuple(((column, 1.0),) for column in policy.each)
    if policy.quadmix is not None:  # weights belong to domains and come after the ranks
        return tuple(((column, 1.0),) for column, _ in policy.terms)
    return (policy.terms,)


def check_sides(draws: Sequence[Terms], given: Given) -> None:
    """Raises when a score needs a side table that is not given, that is of another kind, or of other documents."""
    for name in dict.fromkeys(name for terms in draws for name, _ in terms if name in SIDES):
        role = SIDES[name][0]
        folder = given.get(role)
        if folder is None:
            raise BadRecipe(
                f"select: the policy goes by {name!r}, which `typecase {role}` makes: run it on the documents and give its"
                f" folder as {role}, on the command line with --{role}"
            )
        if (kind := read_manifest(folder).kind) != role:
            raise SchemaMismatch(f"{folder} holds {kind}, not {role}; give the folder that {role} made")
        if not related(given["docs"], folder):
            raise FingerprintMismatch(
                f"the {role} in {folder} is of other documents than those in {given['docs']}: they share no ancestor"
            )


def survey_scores(part: Path, given: Given, draws: Sequence[Terms], out: Path) -> None:
    """Writes the score of every document of `part`, in its order, a column for each of `draws`; NaN where there is none."""
    names = tuple(dict.fromkeys(name for terms in draws for name, _ in terms))
    doc_ids, values = read_values(part, [name for name in names if name not in SIDES], given.get("ratings"))
    found = {name: _side(doc_ids, name, given) if name in SIDES else values.numbers(name) for name in names}
    columns = {}
    for k, terms in enumerate(draws):
        score = np.zeros(len(doc_ids))
        for name, weight in terms:
            score += weight * found[name]
        columns[f"s{k}"] = score
    write_columns(out, columns or {"none": np.zeros(len(raw_ids_of(doc_ids)), np.uint8)})


def _side(doc_ids: pa.ChunkedArray, name: str, given: Given) -> F64:
    role, columns = SIDES[name]
    side = join_side(doc_ids, rating_parts(given[role]), list(columns))
    read = {c: pc.fill_null(side.column(c).cast(pa.float64()), np.nan).to_numpy() for c in columns}
    with np.errstate(divide="ignore", invalid="ignore"):
        if name == PERPLEXITY:
            made = read["nll"] / (read["tokens"] - read["unscored"])
        elif name == LOG_WEIGHT:
            made = read["log_weight"]
        else:
            made = read["log_weight"] / read["words"]
    return np.where(np.isfinite(made), made, np.nan)


@dataclass(frozen=True, slots=True)
class Part:
    """The scratch files of one part."""

    candidates: Path
    scores: Path

    def pool(self, stratum_of: Mapping[Label, int], draw: int = 0) -> Pool:
        """The candidates with the score of one draw; NaN where no score is read."""
        made = open_candidates(self.candidates).pool(stratum_of)
        score = map_columns(self.scores)[0].get(f"s{draw}")
        return Pool(made.ids, made.amount, made.stratum, made.score if score is None else score, made.duplicate)


@dataclass(frozen=True, slots=True)
class Pools:
    """The candidates of all parts, opened one after the other, as often as they are walked.

    Cells in `skipped` are out of the running, as duplicates are.
    """

    parts: Sequence[Part]
    stratum_of: Mapping[Label, int]
    draw: int = 0
    skipped: frozenset[Label] = frozenset()

    def __iter__(self) -> Iterator[Pool]:
        for part in self.parts:
            pool = part.pool(self.stratum_of, self.draw)
            if self.skipped:
                candidates = open_candidates(part.candidates)
                skip = np.array([cell in self.skipped for cell in candidates.cells], np.bool_)
                pool = Pool(pool.ids, pool.amount, pool.stratum, pool.score, candidates.duplicate | skip[candidates.cell])
            yield pool


def merge_criteria(parts: Sequence[Part], stratum_of: Mapping[Label, int], labels: Sequence[Label], policy: Policy) -> None:
    """QuaDMix: every part's criteria, each as its rank in the corpus, become one score by the weights of the domain."""
    assert policy.quadmix is not None
    alphas = policy.quadmix.alphas_of(labels, [weight for _, weight in policy.terms])
    num = len(policy.terms)
    ranks = [Ranks.of(Pools(parts, stratum_of, k), len(labels), whole=True) for k in range(num)]
    for part in parts:
        merged: Any = 0.0
        for k in range(num):
            pool = part.pool(stratum_of, k)
            hi, lo = id_words(pool.ids)
            merged = merged + alphas[pool.stratum, k] * ranks[k].of_rows(pool.score, pool.stratum, hi, lo)
        write_columns(part.scores, {"s0": merged})
