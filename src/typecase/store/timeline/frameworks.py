"""Frameworks: settings in a framework's own words -> the token sets, the order and the schedule that they mean.

gpt-neox          data_path + split, or train_data_paths …; pack_impl, allow_chopped, train_epochs
megatron-core     data_path (one, several, weighted) + split, or train_data_path …; `version` for older releases
nemo              version = 1: its own copy of the old Megatron dataset; 2: Megatron-Core
megatron-bridge   Megatron-Core with its own loaders
typecase          the keyed order: no tables, the same when the run is extended
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from typecase.core.order.blending import parse_paths
from typecase.core.order.keyed import KeyedOrder
from typecase.core.order.megatron import MegatronBlend, MegatronOrder
from typecase.core.order.neox import NeoxOrder
from typecase.core.order.neox_blend import NeoxBlend
from typecase.core.order.order import BlendingOrder, Order, Split
from typecase.core.order.requests import megatron_requested_samples, requested_samples
from typecase.core.order.schedule import Schedule
from typecase.errors import BadQuery
from typecase.store.timeline.settings import Settings

_NEMO1 = 1


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What a run reads, before anything is opened.

    `members` are its token sets; `blend` is given when the framework blends them (even a single one may be), else `order`.
    `num_samples` is what the framework asks of the order for this split, None where it takes one epoch. `epochs` is given for
    a GPT-NeoX run that is set by epochs; `labels` are its label sets, where it has them.
    """

    framework: str
    index_split: Split
    members: tuple[Path, ...]
    order: Order | KeyedOrder | None
    blend: BlendingOrder | None
    schedule: Schedule
    num_samples: int | None
    epochs: int | None = None
    cache: Path | None = None
    labels: tuple[Path, ...] = ()

    def schedule_of_epochs(self, num_samples: int) -> Schedule:
        """The schedule of a GPT-NeoX run set by epochs: its iterations are those of its loader, times the epochs."""
        leg = self.schedule.legs[0]
        loader = num_samples // (leg.micro_batch_size * leg.data_parallel_size)
        return replace(self.schedule, train_iters=loader * (self.epochs or 1) // leg.micro_batches)


def plan_run(settings: Settings, index_split: Split = "train") -> RunPlan:
    """The plan of a run. Raises BadQuery for a setting that is missing, of the wrong kind, or that contradicts another."""
    made = {
        "gpt-neox": _neox,
        "megatron-core": _megatron,
        "megatron-bridge": _megatron,
        "nemo": _megatron,
        "typecase": _keyed,
    }[settings.framework]
    return made(settings, index_split)


def _neox(settings: Settings, index_split: Split) -> RunPlan:
    s = settings
    schedule, batch = _neox_schedule(s)
    epochs = s.get("train_epochs", int)
    iterations = None if epochs else s.need("train_iters", int)
    schedule = schedule if iterations is None or index_split != "train" else replace(schedule, train_iters=iterations)
    num_samples = None
    if iterations is not None:
        num_samples = requested_samples(
            train_iters=iterations,
            train_batch_size=batch,
            eval_interval=s.get("eval_interval", int, 1000),
            eval_iters=s.get("eval_iters", int, 100),
        )[index_split]
    common: dict[str, Any] = {
        "seq_length": s.need("seq_length", int),
        "seed": s.get("seed", int, 1234),
        "num_samples": num_samples,
        "num_epochs": 1 if epochs else None,
        "packing_impl": s.get("pack_impl", str, "packed"),
        "allow_chopped": s.get("allow_chopped", bool, True),
    }
    listed = s.get(f"{index_split}_data_paths", list)
    if listed:
        weights = s.get(f"{index_split}_data_weights", list)
        by_documents = s.get("weight_by_num_documents", bool, False)
        blend = NeoxBlend(
            **common,
            weights=tuple(map(float, weights)) if weights else None,
            weight_by_num_documents=by_documents,
            weighted_sampler_alpha=s.get("weighted_sampler_alpha", float, 1.0),
        )
        members = tuple(s.path(p) for p in listed)
        labels = tuple(s.path(p) for p in s.get(f"{index_split}_label_data_paths", list, []))
        return RunPlan(s.framework, index_split, members, None, blend, schedule, num_samples, epochs, labels=labels)
    order = NeoxOrder(**common, split=s.get("split", str, "969, 30, 1"), index_split=index_split)
    member = s.path(s.need("data_path", str))
    label = s.get("label_data_path", str)
    labels = (s.path(label),) if label else ()
    return RunPlan(s.framework, index_split, (member,), order, None, schedule, num_samples, epochs, labels=labels)


def _neox_schedule(s: Settings) -> tuple[Schedule, int]:
    """The schedule and train_batch_size: two of micro-batch, accumulation and batch give the third."""
    dp = s.get("data_parallel_size", int, 1)
    batch, micro = s.get("train_batch_size", int), s.get("train_micro_batch_size_per_gpu", int)
    steps = s.get("gradient_accumulation_steps", int)
    if micro is None and steps is None:
        batch = s.need("train_batch_size", int)
        micro, steps = batch // dp, 1
    elif micro is None:
        assert steps is not None
        micro = s.need("train_batch_size", int) // (steps * dp)
    elif steps is None:
        steps = 1 if batch is None else batch // (micro * dp)
    if micro < 1 or steps < 1 or (batch is not None and batch != micro * steps * dp):
        raise BadQuery(
            f"{s.where}: train_batch_size {batch} is not train_micro_batch_size_per_gpu {micro} x gradient_accumulation_steps"
            f" {steps} x data_parallel_size {dp}"
        )
    schedule = Schedule.neox(
        train_micro_batch_size_per_gpu=micro,
        gradient_accumulation_steps=steps,
        data_parallel_size=dp,
        resumes=_resumes(s),
    )
    return schedule, micro * steps * dp


def _megatron(settings: Settings, index_split: Split) -> RunPlan:
    s = settings
    schedule = _megatron_schedule(s)
    samples, iterations = s.get("train_samples", int), s.get("train_iters", int)
    if samples is None and iterations is None:
        raise BadQuery(f"{s.where}: {s.framework} needs train_iters or train_samples, and neither is given")
    if iterations is None:
        iterations = schedule.iterations(samples)
    if index_split == "train":
        schedule = replace(schedule, train_iters=iterations)
    asked = megatron_requested_samples(
        train_iters=iterations,
        train_samples=samples,
        global_batch_size=schedule.global_batch_size or schedule.batch_size(0),
        eval_interval=s.get("eval_interval", int, 1000),
        eval_iters=s.get("eval_iters", int, 100),
        full_validation=s.get("full_validation", bool, False),
    )[index_split]
    own = s.get(f"{index_split}_data_path", (str, list))
    paths = own if own is not None else s.need("data_path", (str, list))
    prefixes, weights = parse_paths([str(p) for p in paths] if isinstance(paths, list) else paths.split())
    common: dict[str, Any] = {
        "sequence_length": s.need("seq_length", int),
        "random_seed": s.get("seed", int, 1234),
        "split": None if own is not None else s.get("split", str, _default_split(s)),
        "index_split": index_split,
        "add_extra_token_to_sequence": s.get("add_extra_token_to_sequence", bool, True),
        "drop_last_partial_validation_sequence": s.get("drop_last_partial_validation_sequence", bool, True),
        "profile": _profile(s),
    }
    members = tuple(s.path(p) for p in prefixes)
    cache = s.get("data_cache_path", str)
    place = s.path(cache) if cache else None
    if len(prefixes) == 1 and (weights is None or own is not None):
        order = MegatronOrder(**common, num_samples=asked)
        return RunPlan(s.framework, index_split, members, order, None, schedule, asked, cache=place)
    blend = MegatronBlend(
        **common,
        weights=tuple(weights) if weights is not None else None,
        size=asked,
        surplus=s.get("mid_level_dataset_surplus", float, 0.005),
    )
    return RunPlan(s.framework, index_split, members, None, blend, schedule, asked, cache=place)


def _default_split(s: Settings) -> str:
    return "900,50,50" if s.framework == "nemo" else "969, 30, 1"


def _profile(s: Settings) -> str:
    """`version` is the release of the framework: Megatron-Core as "0.16", NeMo as 1 or 2; the newest when it is not given."""
    version = str(s.get("version", (str, int, float), ""))
    if s.framework == "nemo":
        return "nemo1" if version.split(".")[0] == str(_NEMO1) else "core"
    if not version or s.framework == "megatron-bridge":
        return "core"
    if version == "legacy":
        return "legacy"
    try:
        major, minor = (int(part) for part in (*version.split("."), "0")[:2])
    except ValueError as error:
        raise BadQuery(f'{s.where}: version is {version!r}, expected a release such as "0.16", or "legacy"') from error
    return "core-0.4" if (major, minor) <= (0, 4) else "core-0.10" if (major, minor) <= (0, 10) else "core"


def _megatron_schedule(s: Settings) -> Schedule:
    micro, dp = s.get("micro_batch_size", int, 1), s.get("data_parallel_size", int, 1)
    ramp = s.get("rampup_batch_size", list)
    skipped = s.get("iterations_to_skip", (list, int), [])
    phases = s.get("phase_transition_iterations", list, [])
    by_steps = s.get("step_batch_size_schedule", str)
    if phases:
        raise BadQuery(
            f"{s.where}: a run with phase_transition_iterations builds a data set a phase: describe each phase as a run of its"
            " own, with the iterations and samples of that phase"
        )
    return Schedule(
        global_batch_size=s.get("global_batch_size", int, None if by_steps else micro * dp),
        micro_batch_size=micro,
        data_parallel_size=dp,
        rampup_batch_size=_triple(s, ramp) if ramp else None,
        step_batch_size_schedule=by_steps,
        seq_length=s.need("seq_length", int),
        decrease_batch_size_if_needed=s.get("decrease_batch_size_if_needed", bool, False),
        iterations_to_skip=tuple(skipped) if isinstance(skipped, list) else (skipped,),
        dataloader_type=s.get("dataloader_type", str, "single"),
        resumes=_resumes(s),
    )


def _triple(s: Settings, ramp: list[Any]) -> tuple[int, int, int]:
    if len(ramp) != 3:
        raise BadQuery(f"{s.where}: rampup_batch_size is {ramp}, expected start, increment and samples")
    return int(ramp[0]), int(ramp[1]), int(ramp[2])


def _keyed(settings: Settings, index_split: Split) -> RunPlan:
    s = settings
    if index_split != "train":
        raise BadQuery(f"{s.where}: the keyed order has no {index_split} split: name another token set for it")
    schedule = _megatron_schedule(s)
    samples = s.get("train_samples", int)
    if samples is None:
        samples = s.need("train_iters", int) * schedule.global_batch_size
        schedule = replace(schedule, train_iters=s.get("train_iters", int))
    else:
        schedule = replace(schedule, train_iters=schedule.iterations(samples))
    order = KeyedOrder(seq_length=s.need("seq_length", int), seed=s.get("seed", int, 1234))
    return RunPlan(s.framework, "train", (s.path(s.need("data_path", str)),), order, None, schedule, samples)


def _resumes(s: Settings) -> tuple[Any, ...]:
    from typecase.core.order.schedule import Resume

    found = []
    for one in s.get("resumes", list, []):
        if not isinstance(one, Mapping) or "step" not in one:
            raise BadQuery(
                f"{s.where}: resumes holds {one!r}, expected tables such as {{ step = 1000, global_batch_size = 512 }}"
            )
        try:
            found.append(Resume(**one))
        except TypeError as error:
            raise BadQuery(f"{s.where}: resumes holds {one!r}: {error}") from error
    return tuple(found)
