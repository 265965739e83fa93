"""Auditing spectra: how heavy the tails of a model's matrices are, layer by layer, as a diagnosis of its training.

audit_spectra(model)      a row for each matrix: the exponent of its spectrum, how well a power law fits, stable rank

The eigenvalues of WᵀW of a well-trained matrix fall off as a power law, λ^-α with α between 2 and 6; one that training hardly
shaped looks like noise, and its α is larger; below 2 few directions carry all (Martin & Mahoney, "Implicit self-regularization
in deep neural networks", JMLR 22, 2021; Nature Communications 12, 2021). The exponent and where the tail begins are estimated
by maximum likelihood and the smallest Kolmogorov-Smirnov distance (Clauset, Shalizi & Newman, 2009) with the library powerlaw.
No model is built; memory is one matrix at a time. Price: that of its eigenvalues, about a second for 2,048 on a side.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from typecase.errors import BadQuery, NeedsExtra
from typecase.store.weights.checkpoint import open_layers
from typecase.store.weights.matrix import Matrix

F64 = npt.NDArray[np.float64]
LEAST = 50
"""Eigenvalues that an exponent needs; smaller matrices are left out."""
HEAVY, WELL = 2.0, 6.0
_EXPONENTS = (1.01, 100.0)
"""What an exponent may be: by default the library stops at 3, which no noise stays below."""
_NOTHING = 1e-10
"""An eigenvalue below this share of the largest is rounding."""
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Spectrum:
    """One matrix. `alpha` ± `error` over the `tail` largest of `rank` eigenvalues, from `tail_from` on; `distance` is that of
    Kolmogorov and Smirnov. `stable_rank` is the sum of the eigenvalues over the largest, `largest`. NaN where nothing fits.

    `verdict`: heavy (alpha below 2), well, weak (above 6), none (too few eigenvalues, or numbers that are not finite).
    """

    matrix: str
    rows: int
    width: int
    rank: int
    alpha: float
    error: float
    tail: int
    tail_from: float
    distance: float
    stable_rank: float
    largest: float
    verdict: str


@dataclass(frozen=True, slots=True)
class SpectraAudit:
    """`mean_alpha` is over the matrices that have one, weighted alike; `small` matrices were left out."""

    model: str
    matrices: int
    small: int
    mean_alpha: float | None
    verdicts: Mapping[str, int]
    table: pa.Table = field(repr=False, compare=False)

    def header(self) -> dict[str, Any]:
        """Everything but the table."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "table"}


def audit_spectra(model: str | Path, *, least: int = LEAST, progress: Progress | None = None) -> SpectraAudit:
    """The spectra of every matrix of `model` whose both sides are `least` or more, in the order of their names.

    Raises BadQuery where there is none, NeedsExtra without the library powerlaw, NotFound, CorruptStore.
    """
    if least < 2:
        raise BadQuery(f"a spectrum needs two eigenvalues or more, got least={least}")
    every = open_layers(model)
    layers = [m for m in every if min(m.num_rows, m.width) >= least]
    if not layers:
        raise BadQuery(f"{model} has no matrix with {least} rows and columns or more")
    found = []
    for number, matrix in enumerate(layers, 1):
        found.append(spectrum_of(matrix))
        if progress is not None:
            progress(number, len(layers))
    alphas = [s.alpha for s in found if math.isfinite(s.alpha)]
    return SpectraAudit(
        model=str(model),
        matrices=len(found),
        small=len(every) - len(layers),
        mean_alpha=float(np.mean(alphas)) if alphas else None,
        verdicts=dict(sorted(Counter(s.verdict for s in found).items())),
        table=pa.Table.from_pylist([asdict(s) for s in found]),
    )


def spectrum_of(matrix: Matrix) -> Spectrum:
    """The spectrum of one matrix."""
    values = eigenvalues(matrix.rows(0, matrix.num_rows).astype(np.float64))
    largest = float(values[-1]) if len(values) else math.nan
    facts = (matrix.name, matrix.num_rows, matrix.width, len(values))
    if len(values) < LEAST:
        return Spectrum(*facts, *(math.nan,) * 2, 0, *(math.nan,) * 2, _stable(values), largest, "none")
    alpha, error, tail, start, distance = fit_tail(values)
    verdict = "none" if not math.isfinite(alpha) else "heavy" if alpha < HEAVY else "well" if alpha <= WELL else "weak"
    return Spectrum(*facts, alpha, error, tail, start, distance, _stable(values), largest, verdict)


def eigenvalues(weights: F64) -> F64:
    """Those of the smaller of WWᵀ and WᵀW that are more than rounding, rising; none where W holds what is not finite."""
    if not np.isfinite(weights).all():
        return np.empty(0)
    small = weights if weights.shape[0] <= weights.shape[1] else weights.T
    values = np.linalg.eigvalsh(small @ small.T).astype(np.float64)
    return values[values > _NOTHING * max(float(values[-1]), 0.0)]


def fit_tail(values: F64) -> tuple[float, float, int, float, float]:
    """(exponent, its standard error, values in the tail, where it begins, Kolmogorov-Smirnov distance)."""
    try:
        import powerlaw
    except ImportError:
        raise NeedsExtra("fitting power laws to spectra", "spectra") from None
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        fit = powerlaw.Fit(values, verbose=False, parameter_ranges={"alpha": list(_EXPONENTS)})
        alpha, start, distance = float(fit.power_law.alpha), float(fit.xmin), float(fit.power_law.D)
    tail = int((values >= start).sum())
    return alpha, (alpha - 1) / math.sqrt(tail), tail, start, distance


def _stable(values: F64) -> float:
    return float(values.sum() / values[-1]) if len(values) else math.nan
