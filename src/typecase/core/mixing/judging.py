"""Judging a law: how well it ranks mixes that it has not seen, beside predictors that anyone could have used.

    law         L_j(w) = c_j + exp(t_j . w)
    ridge       linear in [w, sqrt(w), log w]
    own share   the more of the target's own domain, the lower its loss (nothing is fitted)
    entropy     the more even a mix, the lower the loss (nothing is fitted)

A predictor is judged on folds it was not fitted on (mixes that were repeated stay in one fold), by Spearman's rank
correlation, with the middle 95 % of resamples. `ceiling` is what the noise of the proxies leaves for a perfect predictor:
with repeated mixes, sqrt(1 - variance within / variance of all) of Pearson's correlation (the reliability of classical test
theory), turned into a rank correlation as for normal variables (Pearson 1907: 6/pi asin(r/2)).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from typecase.core.learn.bootstrap import Interval, intervals
from typecase.core.learn.ranks import weighted_spearman
from typecase.core.mixing.law import fit_law

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
Predict = Callable[[F64], F64]

FOLDS = 5
NOISY = 0.89
"""A ceiling below this is called too noisy: proxies of 15M parameters ranked mixes like larger models above it (Olmix)."""
_SMALL = 1e-4
_RESAMPLES = 400


@dataclass(frozen=True, slots=True)
class Judged:
    """One predictor on one target: the rank correlation with losses it was not fitted on."""

    target: str
    predictor: str
    rho: Interval


def fit_ridge(mixes: F64, losses: F64, *, damping: float = 1e-3) -> Predict:
    """Ridge regression of losses (runs, targets) on [w, sqrt(w), log w], columns standardised; log of at least 1e-4."""
    rows = _features(mixes)
    centre, size = rows.mean(axis=0), rows.std(axis=0)
    size = np.where(size > 1e-12, size, 1.0)
    scaled = (rows - centre) / size
    mean = losses.mean(axis=0)
    gram = scaled.T @ scaled + damping * len(rows) * np.eye(rows.shape[1])
    weights = np.linalg.solve(gram, scaled.T @ (losses - mean))
    return lambda w: mean + (_features(w) - centre) / size @ weights


def _features(mixes: F64) -> F64:
    return np.column_stack([mixes, np.sqrt(mixes), np.log(np.maximum(mixes, _SMALL))])


def own_domain(target: str, domains: Sequence[str]) -> int | None:
    """The domain that a target is of: the same name, or the longest that the target's name holds as a word of its own."""
    plain = target.removeprefix("loss.").lower()
    inside = [k for k, name in enumerate(domains) if name.lower() == plain]
    if not inside:
        words = f"/{plain.replace('_', '/').replace('.', '/').replace('-', '/')}/"
        spelled = [name.lower().replace("_", "/").replace(".", "/").replace("-", "/") for name in domains]
        inside = sorted((k for k, name in enumerate(spelled) if f"/{name}/" in words), key=lambda k: (-len(domains[k]), k))
    return inside[0] if inside else None


def entropy_of(mixes: F64) -> F64:
    """Entropy in nats float64 (mixes,)."""
    some = np.where(mixes > 0, mixes, 1.0)
    found: F64 = -(mixes * np.log(some)).sum(axis=1)
    return found


def same_mixes(mixes: F64) -> I64:
    """The number of each row's mix, equal for repeated mixes, in order of first appearance."""
    _, first, place = np.unique(np.round(mixes, 9), axis=0, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return rank[place.reshape(-1)]


def judge(mixes: F64, losses: F64, targets: Sequence[str], domains: Sequence[str], *, seed: int = 0) -> list[Judged]:
    """Every predictor on every target, and on "mean": the mean of the targets, predicted as the mean of the predictions.

    `mixes` (runs, domains), `losses` (runs, targets).
    """
    group = same_mixes(mixes)
    out = held_out(mixes, losses, group, seed=seed)
    out["entropy"] = np.repeat(-entropy_of(mixes)[:, None], losses.shape[1], axis=1)
    own = np.full(losses.shape, np.nan)
    for j, target in enumerate(targets):
        if (k := own_domain(target, domains)) is not None:
            own[:, j] = -mixes[:, k]
    out["own share"] = own
    judged = []
    for j, target in enumerate(targets):
        for name in ("law", "ridge", "own share", "entropy"):
            judged.append(Judged(target, name, rank_interval(out[name][:, j], losses[:, j], group, seed=seed)))
    if len(targets) > 1:
        for name in ("law", "ridge", "entropy"):
            said = rank_interval(out[name].mean(axis=1), losses.mean(axis=1), group, seed=seed)
            judged.append(Judged("mean", name, said))
    return judged


def rank_interval(said: F64, true: F64, group: I64, *, seed: int) -> Interval:
    """Spearman's rho with its interval over groups; NaN where nothing was said."""
    if np.isnan(said).any():
        return Interval(float("nan"), float("nan"), float("nan"), 0.0)
    return intervals(lambda w: {"rho": weighted_spearman(said, true, w)}, group, resamples=_RESAMPLES, seed=seed)["rho"]


def held_out(mixes: F64, losses: F64, group: I64, *, seed: int) -> dict[str, F64]:
    """{"law", "ridge"}: predictions (runs, targets) of every run by fits that did not see its mix."""
    num_groups = int(group.max()) + 1
    folds = min(FOLDS, num_groups)
    fold = (np.random.default_rng(seed).permutation(num_groups) % folds)[group]
    out = {name: np.full(losses.shape, np.nan) for name in ("law", "ridge")}
    for k in range(folds):
        seen, held = fold != k, fold == k
        if seen.sum() < 3:
            continue
        out["law"][held] = fit_law(mixes[seen], losses[seen]).predict(mixes[held])
        out["ridge"][held] = fit_ridge(mixes[seen], losses[seen])(mixes[held])
    return out


def noise_ceiling(mixes: F64, losses: F64) -> F64 | None:
    """The rank correlation (targets,) that noise leaves a perfect predictor, from repeated mixes; None without any."""
    group = same_mixes(mixes)
    counts = np.bincount(group)
    spare = int((counts - 1).sum())
    if not spare:
        return None
    means = np.array([np.bincount(group, column) / counts for column in losses.T]).T
    within = ((losses - means[group]) ** 2).sum(axis=0) / spare
    whole = losses.var(axis=0, ddof=1)
    reliability = np.clip(1 - np.divide(within, whole, out=np.ones_like(whole), where=whole > 0), 0, 1)
    ceiling: F64 = 6 / np.pi * np.arcsin(np.sqrt(reliability) / 2)
    return ceiling
