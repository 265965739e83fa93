"""Planning: what a recipe takes for a corpus of a wished size, before anything of that size is touched.

make_plan(load_recipe("recipe.py"), Budget.parse("1T tokens"), Machines(8, 64, price=3.2), sample=0.1)
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

from typecase.app.plan.measuring import measure
from typecase.core.program.flops import training_flops
from typecase.core.scaling import Machines, Plan, StageSample, apart, plan_of, wished_documents
from typecase.core.selection.selection import Budget
from typecase.errors import BadQuery
from typecase.recipe.recipe import Recipe
from typecase.recipe.select import Select

_SHORT_SECONDS = 2.0
_ROWS, _SEQUENCES, _SHARD = 1 << 36, (1 << 31) - 1, (1 << 31) - 1
_CONTEXT, _LARGE_TABLES = 4096, 1e9
_TEXTS = ("ingest", "refine", "dedup", "select")
_IDX_BYTES, _INDEX_BYTES = 20, 4.54


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan with what it rests on: the sample, the wish, the machines, disk in bytes by what takes it, notes, and FLOPs of
    training a model of `parameters` on the tokens that come out (None where no size was given)."""

    plan: Plan
    samples: tuple[StageSample, ...]
    wish: Budget
    machines: Machines
    disk: dict[str, float]
    notes: tuple[str, ...]
    parameters: int | None
    training_flops: float | None


def make_plan(
    recipe: Recipe,
    wish: Budget,
    machines: Machines,
    *,
    sample: float = 1.0,
    workers: int = 0,
    parameters: int | None = None,
    work: Path | None = None,
) -> Planned:
    """Measures `recipe` on a share of its documents and scales it to `wish`, tokens, bytes or documents of the last stage.

    It is measured on that share and on half of it, in a folder below `work`, so that what does not grow is told apart.
    Selections are measured with a budget in proportion. Raises BadQuery where the sample keeps nothing, or the last stage does
    not count what is wished for.
    """
    samples = apart(*(_measured(recipe, share, workers, work) for share in (sample, sample / 2)))
    try:
        documents = wished_documents(samples, wish.amount, wish.unit)
        plan = plan_of(samples, documents, machines)
    except ValueError as error:
        raise BadQuery(str(error)) from None
    last = plan.stages[-1]
    tokens = last.tokens_out
    flops = training_flops(parameters, tokens) if parameters is not None and tokens is not None else None
    notes = (*_notes(plan, samples, recipe), *_limits(plan))
    return Planned(plan, tuple(samples), wish, machines, _disk(plan, samples[-1].token_bytes), notes, parameters, flops)


def _measured(recipe: Recipe, share: float, workers: int, work: Path | None) -> list[StageSample]:
    """One run on a share of the documents, anew."""
    own = recipe if share >= 1 else _smaller(recipe.sampled(share), share)
    with tempfile.TemporaryDirectory(prefix="typecase-plan-", dir=work) as scratch:
        return measure(own, Path(scratch), workers=workers)


def _smaller(recipe: Recipe, share: float) -> Recipe:
    """The recipe with its budgets cut to the sample."""
    stages = []
    for stage in recipe.stages:
        if isinstance(stage, Select):
            unit = stage.budget.unit
            stage = replace(stage, budget=Budget(**{unit: max(1, round(stage.budget.amount * share))}))
        stages.append(stage)
    return Recipe(recipe.name, *stages)


def _disk(plan: Plan, token_bytes: int | None) -> dict[str, float]:
    """Bytes of what stays, by rule: text before compression, ids, 20 bytes a sequence, and those of a search index."""
    found = {f"{one.stage}, text": one.bytes_out for one in plan.stages if one.stage in _TEXTS}
    last = plan.stages[-1]
    if last.tokens_out is not None and token_bytes is not None:
        found[f"tokens (.bin, {'uint16' if token_bytes == 2 else 'int32'})"] = last.tokens_out * token_bytes
        found["index of sequences (.idx)"] = last.documents_out * _IDX_BYTES
        found["search index, if wished"] = last.tokens_out * _INDEX_BYTES
    return found


def _notes(plan: Plan, samples: Sequence[StageSample], recipe: Recipe) -> list[str]:
    """What to know before this is believed."""
    notes = []
    short = [one.stage for one in samples if one.parallel + one.serial + one.fixed < _SHORT_SECONDS]
    if short:
        said = ", ".join(dict.fromkeys(short))
        notes.append(f"measured for less than {_SHORT_SECONDS:g} s, so start-up weighs in: {said}; measure a larger sample")
    serial = [one for one in plan.stages if one.serial > 0.2 * plan.seconds]
    notes += [f"{one.stage} decides on one core for {one.serial / max(plan.seconds, 1e-9):.0%} of the time" for one in serial]
    if any(isinstance(stage, Select) for stage in recipe.stages):
        notes.append("a selection keeps the share that it kept of the sample: give its budget in proportion")
    spread = max((one.high / one.low for one in plan.stages if one.low > 0), default=1.0)
    if spread > 1.5:
        notes.append(f"the ratios of so small a sample leave a factor of {spread:.1f} in what must enter: measure a larger one")
    return notes


def _limits(plan: Plan) -> list[str]:
    """The limits of formats and of memory that are met at this size."""
    first, last, notes = plan.stages[0], plan.stages[-1], []
    if first.documents_in > _ROWS:
        notes.append(f"{first.documents_in:,.0f} rows in one file cannot be ordered (limit 2^36): divide the files")
    if last.tokens_out is None:
        return notes
    if last.documents_out > _SEQUENCES:
        sets = ceil(last.documents_out / _SEQUENCES)
        notes.append(
            f"GPT-NeoX and Megatron number the documents of a set by int32, and {last.documents_out:,.0f} are more:"
            f" build {sets:,} sets and blend them"
        )
    tables = 4.0 * last.documents_out + 12.0 * last.tokens_out / _CONTEXT
    if tables > _LARGE_TABLES:
        notes.append(
            f"the tables of a Megatron or GPT-NeoX order take {tables / 1e9:,.1f} GB an epoch at {_CONTEXT:,} tokens a sample;"
            " the keyed order has none"
        )
    if last.tokens_out > _SHARD:
        notes.append(f"a search index would be {ceil(last.tokens_out / _SHARD):,} shards or more, of 2^31 - 1 tokens at most")
    return notes
