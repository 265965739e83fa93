"""mix fit, mix propose: from the losses of proxy runs to a law, and from a law to the best mix that there is data for.

RUNS.csv    weights of each proxy run and what it reached: see `runs`
LAW.json    floors and slopes, how well unseen mixes are ranked, and the file it was fitted on, by hash
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from typecase.app.mix.files import mix_weights, read_table, write_table
from typecase.app.mix.runs import Runs, Table, read_runs
from typecase.core.learn.bootstrap import Interval
from typecase.core.mixing.judging import NOISY, Judged, judge, noise_ceiling, own_domain, rank_interval, same_mixes
from typecase.core.mixing.law import DAMPING, Law, fit_law
from typecase.core.mixing.proposer import Proposal, objective, propose
from typecase.core.mixing.reuse import propose_tied, tie, whole_gap
from typecase.core.mixing.simplex import bounds_of, nearest_shape, whole_tokens
from typecase.errors import BadQuery, CorruptStore, FixInput
from typecase.store import atomic

F64 = npt.NDArray[np.float64]

FORMAT = "mixing law 1"


@dataclass(frozen=True, slots=True, eq=False)
class FittedLaw:
    """A law with the names of its sides, the shares (domains, 2) that proxies covered, and what was measured."""

    domains: tuple[str, ...]
    targets: tuple[str, ...]
    law: Law
    seen: F64
    judged: tuple[Judged, ...] = ()
    ceiling: tuple[float, ...] | None = None
    larger: tuple[Judged, ...] = ()
    warnings: tuple[str, ...] = ()

    def predictor(self, names: Sequence[str]) -> Callable[[Sequence[float]], Mapping[str, float]]:
        """{target: loss} of the shares of `names`. Raises FixInput when the law knows other domains."""
        if sorted(names) != sorted(self.domains):
            raise FixInput(f"the law is of {', '.join(self.domains)}; the mix is of {', '.join(names)}")
        order = [list(names).index(name) for name in self.domains]

        def predict(shares: Sequence[float]) -> Mapping[str, float]:
            losses = self.law.predict(np.array([[shares[k] for k in order]]))[0]
            return dict(zip(self.targets, losses.tolist(), strict=True))

        return predict


def fit(
    table: Table, *, out: Path | None = None, check: Table | None = None, damping: float = DAMPING, seed: int = 0
) -> FittedLaw:  # fmt: skip
    """The law of the runs in `table`, judged by folds and, with `check`, on runs of a larger model; written to `out`."""
    runs = read_runs(table)
    law = fit_law(runs.mixes, runs.losses, damping=damping)
    judged = judge(runs.mixes, runs.losses, runs.targets, runs.domains, seed=seed)
    ceiling = noise_ceiling(runs.mixes, runs.losses)
    larger = _on_larger(law, runs, read_runs(check), seed) if check is not None else []
    seen = np.column_stack([runs.mixes.min(axis=0), runs.mixes.max(axis=0)])
    told = None if ceiling is None else tuple(ceiling.tolist())
    said = tuple(_doubts(runs, judged, told))
    made = FittedLaw(runs.domains, runs.targets, law, seen, tuple(judged), told, tuple(larger), said)
    if out is not None:
        source = {"file": table.path.name, "hash": atomic.content_hash(table.path), "runs": len(runs.mixes)}
        if table.losses is not None:
            source |= {"losses": table.losses.name, "losses_hash": atomic.content_hash(table.losses)}
        write_table(out, _law_table(made, source, damping, seed))
    return made


def _on_larger(law: Law, runs: Runs, larger: Runs, seed: int) -> list[Judged]:
    """Ranks of a larger model's losses: as the law says, and as the proxies themselves had them on the same mixes."""
    if sorted(larger.domains) != sorted(runs.domains) or not set(larger.targets) <= set(runs.targets):
        raise FixInput("the runs to check against have other domains or targets than those of the law")
    order = [larger.domains.index(name) for name in runs.domains]
    larger = Runs(runs.domains, larger.targets, larger.mixes[:, order], larger.losses)
    group = same_mixes(larger.mixes)
    said = law.predict(larger.mixes)
    proxies = {mix.tobytes(): k for k, mix in enumerate(np.round(runs.mixes, 9))}
    pairs = [(k, proxies[mix.tobytes()]) for k, mix in enumerate(np.round(larger.mixes, 9)) if mix.tobytes() in proxies]
    rows = []
    for k, target in enumerate(larger.targets):
        j, reached = runs.targets.index(target), larger.losses[:, k]
        rows.append(Judged(target, "law", rank_interval(said[:, j], reached, group, seed=seed)))
        own = own_domain(target, larger.domains)
        if own is not None:
            rows.append(Judged(target, "own share", rank_interval(-larger.mixes[:, own], reached, group, seed=seed)))
        if len(pairs) > 2:
            big, small = (np.array(side) for side in zip(*pairs, strict=True))
            rho = rank_interval(runs.losses[small, j], reached[big], same_mixes(larger.mixes[big]), seed=seed)
            rows.append(Judged(target, "same mixes", rho))
    return rows


def _doubts(runs: Runs, judged: Sequence[Judged], ceiling: Sequence[float] | None) -> list[str]:
    """Where the proxies are too few or too noisy to be trusted."""
    said = []
    if len(runs.mixes) < 2 * len(runs.domains):
        said.append(f"few proxies: {len(runs.mixes)} for {len(runs.domains)} domains; at least twice as many are needed")
    if ceiling is None:
        said.append("noise unknown: no mix was run twice; repeat a few mixes with other seeds to know what can be reached")
    by = {(one.target, one.predictor): one.rho for one in judged}
    for j, target in enumerate(runs.targets):
        law, own = by[target, "law"], by[target, "own share"]
        if ceiling is not None and ceiling[j] < NOISY:
            said.append(
                f"proxy too noisy for {target}: noise alone keeps ranks below {ceiling[j]:.2f}; larger or longer proxies"
            )
        if law.low <= 0:
            said.append(f"{target}: the law ranks unseen mixes no better than chance would")
        elif own.value > law.value:
            said.append(f"{target}: its own share alone ranks mixes better ({own.value:.3f}) than the law ({law.value:.3f})")
    return said


def _law_table(made: FittedLaw, source: Mapping[str, Any], damping: float, seed: int) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "made_by": f"typecase {importlib.metadata.version('typecase')}",
        "source": dict(source),
        "fit": {"law": "floor + exp(slope . w)", "loss": "huber", "damping": damping, "seed": seed},
        "domains": list(made.domains),
        "targets": list(made.targets),
        "floor": made.law.floor.tolist(),
        "slope": made.law.slope.tolist(),
        "seen": made.seen.tolist(),
        "judged": [judged_row(one) for one in made.judged],
        "larger": [judged_row(one) for one in made.larger],
        "ceiling": None if made.ceiling is None else list(made.ceiling),
        "warnings": list(made.warnings),
    }


def judged_row(one: Judged) -> dict[str, Any]:
    """A judgement as plain values; what is undefined is None."""
    rho = {name: None if np.isnan(value) else value for name, value in zip(("rho", "low", "high"), _ends(one.rho), strict=True)}
    return {"target": one.target, "predictor": one.predictor, **rho}


def _ends(rho: Interval) -> tuple[float, float, float]:
    return rho.value, rho.low, rho.high


def read_law(path: Path) -> FittedLaw:
    """A law that `fit` wrote. Raises NotFound, CorruptStore."""
    table = read_table(path)
    if table.get("format") != FORMAT:
        raise CorruptStore(f"{path} holds no law; give a file that mix fit wrote")
    try:
        domains, targets = tuple(map(str, table["domains"])), tuple(map(str, table["targets"]))
        law = Law(np.array(table["floor"], np.float64), np.array(table["slope"], np.float64))
        seen = np.array(table["seen"], np.float64)
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptStore(f"{path} is damaged: {error!r}") from None
    if law.slope.shape != (len(targets), len(domains)) or law.floor.shape != (len(targets),) or seen.shape != (len(domains), 2):
        raise CorruptStore(f"{path} is damaged: {law.slope.shape} slopes for {len(targets)} targets and {len(domains)} domains")
    return FittedLaw(domains, targets, law, seen, warnings=tuple(table.get("warnings", ())))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a proposal must respect. Shares and weights by domain; `available` tokens; `repeats` the most epochs; `nearness`
    the weight of the divergence from `prior`, by default what is available; `importance` by target, 1 where not named;
    `keep` a mix whose ratios hold outside `changed`."""

    budget: int
    available: Mapping[str, int]
    repeats: Fraction = Fraction(4)
    floors: Mapping[str, Fraction]
    caps: Mapping[str, Fraction]
    prior: Mapping[str, Fraction]
    nearness: float = 0.0
    importance: Mapping[str, Fraction]
    keep: Path | None = None
    changed: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Proposed:
    """A proposed mix: tokens by domain that sum to the budget, what they are predicted to reach and what holds them back."""

    budget: int
    tokens: Mapping[str, int]
    available: Mapping[str, int]
    held: Mapping[str, str]
    predicted: Mapping[str, float]
    predicted_prior: Mapping[str, float]
    predicted_uniform: Mapping[str, float]
    value: float
    gap: float
    reuse_gap: float | None
    warnings: tuple[str, ...]


def make_proposal(path: Path, wanted: Wanted, *, out: Path | None = None) -> Proposed:
    """The best mix under the law in `path`; written to `out` as a mix that `mix plan --from` takes. Raises FixInput."""
    known = read_law(path)
    names = known.domains
    bounds = bounds_of(
        names, wanted.budget, available=wanted.available, repeats=wanted.repeats, floors=wanted.floors, caps=wanted.caps
    )
    low, high = bounds.shares
    prior = _prior(wanted, names)
    unknown = sorted(set(wanted.importance) - set(known.targets))
    if unknown:
        raise BadQuery(f"importance names {unknown[0]!r}, which is no target; there are {', '.join(known.targets)}")
    weights = [float(wanted.importance.get(target, 1)) for target in known.targets]
    goal = objective(known.law.slope, importance=weights, nearness=wanted.nearness, prior=prior)
    reuse_gap = None
    if wanted.keep is not None:
        kept = mix_weights(wanted.keep)
        tied = tie(names, [float(kept.get(name, 0)) for name in names], wanted.changed)
        best: Proposal = propose_tied(goal, low, high, tied)
        reuse_gap = whole_gap(goal, best.mix, low, high)
    else:
        best = propose(goal, low, high)
    tokens = whole_tokens(best.mix, bounds)
    mix = np.array(tokens) / wanted.budget
    said = [*known.warnings, *_beyond(known, mix)]
    predict = known.predictor(names)
    held = {name: _held(t, a, b) for name, t, a, b in zip(names, tokens, bounds.low, bounds.high, strict=True)}
    made = Proposed(
        wanted.budget, dict(zip(names, tokens, strict=True)), dict(wanted.available), {n: h for n, h in held.items() if h},
        predict(mix.tolist()), predict(nearest_shape(prior, low, high).tolist()),
        predict(nearest_shape(np.ones(len(names)), low, high).tolist()), best.value, best.gap, reuse_gap, tuple(said),
    )  # fmt: skip
    if out is not None:
        write_table(out, proposal_table(made, law=path))
    return made


def _prior(wanted: Wanted, names: Sequence[str]) -> F64:
    given: Mapping[str, Fraction | int] = wanted.prior or wanted.available
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise BadQuery(f"the prior names {unknown[0]!r}, which is no domain of the law; there are {', '.join(names)}")
    shares = np.array([float(given.get(name, 0)) for name in names]) if given else np.ones(len(names))
    if not shares.sum() > 0:
        raise BadQuery("the prior is all zeros")
    return np.asarray(shares / shares.sum(), np.float64)


def _held(tokens: int, low: int, high: int) -> str:
    """Which bound a domain is at, to a thousandth of the way."""
    near = (high - low) / 1000
    return "fixed" if high == low else "cap" if high - tokens <= near else "floor" if tokens - low <= near else ""


def _beyond(known: FittedLaw, mix: F64) -> list[str]:
    return [
        f"beyond the proxies: {name} would have {share:.3f}, proxies had {low:.3f} to {high:.3f}"
        for name, share, (low, high) in zip(known.domains, mix, known.seen, strict=True)
        if share > high + 1e-6 or share < low - 1e-6
    ]


def proposal_table(made: Proposed, *, law: Path) -> dict[str, Any]:
    """A proposal as plain values, with the mix in the form that plans have."""
    groups: dict[str, dict[str, Any]] = {}
    for name, tokens in made.tokens.items():
        there = made.available.get(name)
        epochs = tokens / there if there else None
        share = tokens / made.budget
        groups[name] = {"share": share, "tokens": tokens, "available": there, "epochs": epochs, "held": made.held.get(name, "")}
    return {
        "mix": {"unit": "tokens", "budget": made.budget, "groups": groups, "warnings": list(made.warnings)},
        "law": {"file": law.name, "hash": atomic.content_hash(law)},
        "predicted": {"mix": made.predicted, "prior": made.predicted_prior, "uniform": made.predicted_uniform},
        "certificate": {"value": made.value, "gap": made.gap, "reuse_gap": made.reuse_gap},
    }
