"""Indicate: every indicator of every row of a checkpoint, with references found or given.

    survey U (and E) -> dead rows, sketch -> densities -> references settle -> one pass of inner products -> indicators

Price: two passes over the output matrix, one over the input where it is another, and the densities (see `neighbours`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from typecase.core.glitch.indicators import (
    Center,
    center_of,
    centred_distances,
    component_distances,
    cosine_distances,
    first_component,
    l2_distances,
)
from typecase.core.glitch.neighbours import densities
from typecase.core.glitch.references import NUMBER, Agreement, References, agreement, settle, tight_part, warnings_of
from typecase.core.glitch.rows import ORDINARY
from typecase.errors import BadQuery
from typecase.store.weights.checkpoint import Checkpoint
from typecase.store.weights.survey import Survey, project, sample_rows, survey

F64 = npt.NDArray[np.float64]
_SHORTLIST_SHARE = 0.02
_SHORTLIST_LEAST = 256
_SHORTLIST_BYTES = 256 << 20
_PAIRS = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Indicators:
    """By row of the output matrix (V,), padding rows among them; NaN where an indicator is not defined.

    `kinds` and `in_kinds` are what the rows of U and E are, `same_as` the first row of U with the same bits. `structural` is
    the part of the proposed ids that stands together, and `agreement` how far references from there give the same ranking.
    """

    kinds: npt.NDArray[np.str_]
    in_kinds: npt.NDArray[np.str_]
    same_as: npt.NDArray[np.int64]
    e_in_norm: F64
    e_out_norm: F64
    e_out_cosine: F64
    e_out_l2: F64
    density: F64
    bias: F64 | None
    centred_cosine: F64 | None
    pc_cosine: F64 | None
    references: References
    structural: tuple[int, ...]
    agreement: Agreement | None
    warnings: tuple[str, ...]

    @property
    def dead(self) -> npt.NDArray[np.bool_]:
        """Rows that rank first: of zeros, or no numbers at all, in either matrix."""
        return np.asarray((self.kinds != ORDINARY) | (self.in_kinds != ORDINARY))


def indicate(
    checkpoint: Checkpoint,
    *,
    given: Sequence[int] | None = None,
    proposals: Collection[int] = (),
    old_views: bool = False,
    seed: int = 0,
    threads: int = 2,
) -> Indicators:
    """All indicators. `given` references replace the automatic ones; `proposals` are ids that ought to be untrained.

    `old_views` adds the two indicators of older published versions. Raises BadQuery where no references can be had.
    """
    output = checkpoint.output
    seen = survey(output, sketch=True, seed=seed, threads=threads)
    kinds = seen.facts.kinds()
    alive = np.flatnonzero(kinds == ORDINARY)
    density = np.full(output.num_rows, np.nan)
    assert seen.sketch is not None
    density[alive] = densities(seen.sketch[alive], seed=seed)
    references = _references(checkpoint, density, kinds, given)
    structural = _structural(checkpoint, seen, kinds, proposals, seed)
    m = center_of(output.gather(references.ids))
    component = first_component(sample_rows(output, seed=seed)) if old_views else None
    center = Center(m, seen.mean if old_views else None, component)
    others = [center_of(output.gather(structural))] if structural else []
    dots = project(output, np.concatenate((center.directions(), *(o[None] for o in others))), threads=threads)
    norms = seen.facts.norms
    cosine = _only(kinds, cosine_distances(norms, dots[:, 0], m))
    compared = None
    if others:
        compared = agreement(cosine, _only(kinds, cosine_distances(norms, dots[:, -1], others[0])))
    inner = seen if checkpoint.tied else survey(checkpoint.input, sketch=False, threads=threads)
    return Indicators(
        kinds=kinds,
        in_kinds=_fitted(inner.facts.kinds(), output.num_rows, ORDINARY),
        same_as=seen.facts.same_as(),
        e_in_norm=_fitted(inner.facts.norms, output.num_rows, np.nan),
        e_out_norm=norms,
        e_out_cosine=cosine,
        e_out_l2=l2_distances(norms, dots[:, 0], m),
        density=density,
        bias=None if checkpoint.bias is None else checkpoint.bias.astype(np.float64),
        centred_cosine=_only(kinds, centred_distances(norms, dots[:, 0], dots[:, 1], m, seen.mean)) if old_views else None,
        pc_cosine=_only(kinds, component_distances(norms, dots[:, 0], dots[:, 2], m, component))
        if component is not None
        else None,
        references=references,
        structural=structural,
        agreement=compared,
        warnings=warnings_of(cosine, references.ids),
    )


def _only(kinds: npt.NDArray[np.str_], values: F64) -> F64:
    return np.where(kinds == ORDINARY, values, np.nan)


def _fitted(values: Any, size: int, missing: Any) -> Any:
    """An array of the input matrix for as many rows as the output matrix has."""
    found = np.full(size, missing, values.dtype)
    found[: min(size, len(values))] = values[:size]
    return found


def _references(checkpoint: Checkpoint, density: F64, kinds: npt.NDArray[np.str_], given: Sequence[int] | None) -> References:
    output = checkpoint.output
    if given is not None:
        wrong = [i for i in given if not 0 <= i < output.num_rows or kinds[i] != ORDINARY]
        if wrong or not given:
            raise BadQuery(
                f"references are ids of rows that are not zero, below {output.num_rows:,}; wrong: {wrong[:8] or 'no id given'}"
            )
        return References(tuple(sorted(set(given))), "given")
    order = np.argsort(density, kind="stable")
    order = order[np.isfinite(density[order])]
    if len(order) < 2 * NUMBER:
        raise BadQuery(f"{checkpoint.where} has {len(order)} rows that are not zero: too few to find references, give some")
    most = max(NUMBER, _SHORTLIST_BYTES // (8 * output.width))
    size = min(most, max(_SHORTLIST_LEAST, int(len(order) * _SHORTLIST_SHARE)))
    return settle(order[:NUMBER].tolist(), order[:size].tolist(), output.gather)


def _structural(
    checkpoint: Checkpoint, seen: Survey, kinds: npt.NDArray[np.str_], proposals: Collection[int], seed: int
) -> tuple[int, ...]:
    ids = sorted(i for i in proposals if i < len(kinds) and kinds[i] == ORDINARY)
    alive = np.flatnonzero(kinds == ORDINARY)
    assert seen.sketch is not None
    pairs = np.random.default_rng(seed).choice(alive, (_PAIRS, 2))
    a, b = (seen.sketch[pairs[:, k]].astype(np.float64) for k in (0, 1))
    cosines = (a * b).sum(axis=1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))
    return tight_part(ids, seen.sketch[ids], float(np.median(1 - cosines))) if ids else ()
