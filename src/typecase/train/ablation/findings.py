"""Findings: what the runs of an ablation say, with intervals: arms by figure, tokens to reach a loss, perplexity against tasks.

    arm        bits/byte               less than base          at base's last loss after      cloze
    noisy      2.41 [2.38 2.44]                                1.00 M tokens                  0.41
    refined    2.31 [2.28 2.34]        -0.10 [-0.11 -0.09]     0.62 M tokens, 1.6 x           0.44

Every figure of an arm is a mean over seeds, and intervals draw seeds and documents together, the same for all arms
(core/statistics/seeded). Differences are also given by Student's interval over seeds, and, because several arms are compared
with one base, at a level that all hold together (Bonferroni). Correlations are over runs; runs of one arm share their data and
are not independent, so they are given over the means of arms too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from typecase.core.learn.bootstrap import Interval, groups_of
from typecase.core.perplexity import Perplexity
from typecase.core.statistics.correlations import Correlation, correlations
from typecase.core.statistics.reach import Curve, mean_curve, tokens_to_reach
from typecase.core.statistics.seeded import Difference, SeededFigures, figures_of
from typecase.errors import BadRecipe
from typecase.train.ablation.plan import Ablation
from typecase.train.ablation.running import RunResult
from typecase.train.evaluation.choosing import task_scores
from typecase.train.evaluation.documents import summaries_by, summary_of

F64 = npt.NDArray[np.float64]
_LN2 = float(np.log(2))


@dataclass(frozen=True, slots=True)
class TaskFinding:
    """A task of an arm: the share of right items, plain and by byte, and against the base."""

    task: str
    items: int
    chance: float
    accuracy: Interval
    accuracy_by_byte: Interval
    against: Difference | None


@dataclass(frozen=True, slots=True)
class ArmFinding:
    """An arm.

    bits_per_byte       of the first held set; `against` less the base, `together` at the level of all comparisons
    rank                the ranks that its figure takes in the middle of the resamples, 1 the best
    perplexity          each kind of the first held set, a mean over seeds
    by_source, by_domain, by_held   bits per byte, a mean over seeds
    reached             tokens after which its mean curve is at the last loss of the base's; None where it never is
    compute_factor      tokens of the base over `reached`: "the same quality at 1/n of the compute"
    unique_tokens, epochs   of its token set; of a mix those of all its parts
    """

    arm: str
    tokens: int
    flops: int
    unique_tokens: int
    epochs: float
    bits_per_byte: Interval
    rank: tuple[float, float]
    against: Difference | None
    together: tuple[float, float] | None
    perplexity: Mapping[str, float]
    by_source: Mapping[str, float]
    by_domain: Mapping[str, float]
    by_held: Mapping[str, float]
    curve: Curve
    reached: float | None
    flops_reached: float | None
    compute_factor: float | None
    tasks: tuple[TaskFinding, ...]


@dataclass(frozen=True, slots=True)
class Findings:
    """All arms, and how perplexity goes with task scores: `over_runs` and `over_arms`, by task."""

    name: str
    base: str
    held: str
    seeds: tuple[int, ...]
    parameters: int
    arms: tuple[ArmFinding, ...]
    over_runs: Mapping[str, tuple[Correlation, ...]]
    over_arms: Mapping[str, tuple[Correlation, ...]]


def find(ablation: Ablation, results: Sequence[RunResult], sizes: Mapping[str, int], *, seed: int = 0) -> Findings:
    """What the results say. `sizes` are the tokens of the set of every arm, of a mix of all its parts."""
    runs = {arm.name: [one for one in results if one.arm == arm.name] for arm in ablation.arms}
    first = next(name for name in ablation.held)
    bits = bits_of(runs, first, seed=seed)
    tasks = _tasks(runs, seed)
    curves = {name: mean_curve([Curve(one.looked, one.losses) for one in some]) for name, some in runs.items()}
    ranks = bits.ranks()
    goal = curves[ablation.base].losses[-1]
    base_tokens = tokens_to_reach(curves[ablation.base], goal)
    arms = []
    for name, some in runs.items():
        reached = tokens_to_reach(curves[name], goal)
        a_token = some[0].flops / some[0].tokens
        other = name != ablation.base
        level = 1 - 0.05 / max(1, len(runs) - 1)
        whole = bits.difference(name, ablation.base, level=level) if other else None
        tables = [one.measured[first] for one in some]
        arms.append(
            ArmFinding(
                arm=name,
                tokens=some[0].tokens,
                flops=some[0].flops,
                unique_tokens=sizes[name],
                epochs=some[0].tokens / max(1, sizes[name]),
                bits_per_byte=bits.interval(name),
                rank=ranks[name],
                against=bits.difference(name, ablation.base) if other else None,
                together=(whole.low, whole.high) if whole is not None else None,
                perplexity=_kinds([summary_of(table) for table in tables]),
                by_source=_by([summaries_by(table, "source") for table in tables]),
                by_domain=_by([summaries_by(table, "domain") for table in tables]),
                by_held=_by([{key: summary_of(one.measured[key]) for key in ablation.held} for one in some]),
                curve=curves[name],
                reached=reached,
                flops_reached=None if reached is None else reached * a_token,
                compute_factor=None if reached is None or base_tokens is None else base_tokens / reached,
                tasks=tuple(_task(task, figures, name, ablation.base) for task, figures in tasks.items()),
            )
        )
    over_runs, over_arms = _correlated(runs, first, seed)
    return Findings(
        ablation.name, ablation.base, first, ablation.seeds, results[0].parameters, tuple(arms), over_runs, over_arms
    )  # fmt: skip


def bits_of(runs: Mapping[str, Sequence[RunResult]], held: str, *, seed: int = 0) -> SeededFigures:
    """Bits per byte of every arm on a held set, over the documents that all runs scored."""
    tables = {name: [one.measured[held] for one in some] for name, some in runs.items()}
    some = next(iter(tables.values()))[0]
    good = np.array([status == "ok" for status in some.column("status").to_pylist()])
    if not good.any():
        raise BadRecipe(f"no document of {held} could be scored: give documents with text")
    sums = {
        name: np.stack([table.column("nll").to_numpy(zero_copy_only=False)[good] / _LN2 for table in own])
        for name, own in tables.items()
    }
    sizes = some.column("bytes").to_numpy()[good].astype(np.float64)
    return figures_of(sums, sizes, np.arange(int(good.sum())), seed=seed)


_Task = tuple[SeededFigures, SeededFigures, int, float]


def _tasks(runs: Mapping[str, Sequence[RunResult]], seed: int) -> dict[str, _Task]:
    """Shares of right items by task, plain and by byte, with the number of items and chance."""
    some = next(iter(runs.values()))[0].answers
    if some is None:
        return {}
    names = np.array(some.column("task").to_pylist(), object)
    groups = np.array([g or i for g, i in zip(some.column("group").to_pylist(), some.column("item").to_pylist(), strict=True)])
    widths = np.array([len(nats) for nats in some.column("nats").to_pylist()])
    found = {}
    for task in sorted(set(names.tolist())):
        own = names == task
        figures = []
        for column in ("choice", "choice_by_byte"):
            sums = {name: np.stack([_right(one, column)[own] for one in some_runs]) for name, some_runs in runs.items()}
            figures.append(figures_of(sums, np.ones(int(own.sum())), groups_of(groups[own].tolist()), seed=seed))
        found[str(task)] = (figures[0], figures[1], int(own.sum()), float((1 / widths[own]).mean()))
    return found


def _right(run: RunResult, column: str) -> F64:
    assert run.answers is not None
    return (run.answers.column(column).to_numpy() == run.answers.column("answer").to_numpy()).astype(np.float64)  # type: ignore[no-any-return]


def _task(task: str, figures: _Task, arm: str, base: str) -> TaskFinding:
    plain, by_byte, items, chance = figures
    against = plain.difference(arm, base) if arm != base else None
    return TaskFinding(task, items, chance, plain.interval(arm), by_byte.interval(arm), against)


def _kinds(summaries: Sequence[Perplexity]) -> dict[str, float]:
    kinds = ("token_weighted", "geometric", "median", "published", "bits_per_byte")
    return {kind: float(np.mean([getattr(one, kind) for one in summaries])) for kind in kinds}


def _by(summaries: Sequence[Mapping[str, Perplexity]]) -> dict[str, float]:
    """Bits per byte of every name, a mean over seeds; names without a figure are left out."""
    found = {}
    for name in summaries[0]:
        bits = [one[name].bits_per_byte for one in summaries]
        if name and all(value is not None for value in bits):
            found[name] = float(np.mean([value for value in bits if value is not None]))
    return found


def _correlated(
    runs: Mapping[str, Sequence[RunResult]], held: str, seed: int
) -> tuple[dict[str, tuple[Correlation, ...]], dict[str, tuple[Correlation, ...]]]:
    """Bits per byte against the accuracy of each task, over runs and over the means of arms."""
    flat = [(name, one) for name, some in runs.items() for one in some if one.answers is not None]
    if not flat:
        return {}, {}
    bits = np.array([summary_of(one.measured[held]).bits_per_byte or np.nan for _, one in flat])
    scores = [task_scores(one.answers) for _, one in flat]
    arms = np.array([name for name, _ in flat], object)
    over_runs, over_arms = {}, {}
    for task in scores[0]:
        right = np.array([one[task].accuracy.value for one in scores])
        over_runs[task] = correlations(bits, right, seed=seed)
        means = [(bits[arms == name].mean(), right[arms == name].mean()) for name in runs]
        over_arms[task] = correlations(*(np.array(side) for side in zip(*means, strict=True)), seed=seed)
    return over_runs, over_arms
