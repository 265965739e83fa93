"""Scaling: what a recipe that was measured on a sample takes for a corpus of another size, on other machines.

    sample         stage     in      out    phases: survey 2.0 s, decide 0.1 s, work 3.0 s
    wished         10 B documents out, 8 machines of 64 cores
    of a stage     documents in = wished out / (ratios of this stage and all behind it)
                   seconds      = parallel core-seconds · scale / (machines · cores · efficiency) + serial seconds · scale

Survey and work run on every core; a decision is made once, on one, from summaries whose number grows with the corpus: so it is
scaled and not divided (Amdahl 1967). What does not grow (starting, opening models) is told apart by measuring two sizes. Ratios
carry a 95 % interval: that of a share for documents (Wilson 1927), which says how much the sample may mislead, not whether it
is like the corpus. Price: none, this is arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt

Z = 1.959963984540054
"""Of a 95 % interval."""


@dataclass(frozen=True, slots=True)
class StageSample:
    """One stage as it was measured: documents, bytes of text and tokens (None where none are counted) in and out,
    core-seconds that any number of cores can share, seconds that one core takes alone, seconds that do not grow, FLOPs of
    models, and bytes of a token on disk (None where none are written)."""

    stage: str
    documents_in: int
    documents_out: int
    bytes_in: int
    bytes_out: int
    tokens_out: int | None
    parallel: float
    serial: float
    fixed: float = 0.0
    flops: float = 0.0
    token_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Machines:
    """What it is to run on: machines of so many cores each, an hour of one in a currency, the share of the time that a core is
    busy, and floating-point operations a second that all of them do for models (None: models run as measured)."""

    machines: int
    cores: int
    price: float = 0.0
    efficiency: float = 0.9
    flops_per_second: float | None = None

    def __post_init__(self) -> None:
        if self.machines < 1 or self.cores < 1 or self.price < 0 or not 0 < self.efficiency <= 1:
            raise ValueError(f"machines and cores are 1 or more, the price not negative, the efficiency in (0, 1], got {self}")


@dataclass(frozen=True, slots=True)
class StagePlan:
    """One stage at full size. `low` and `high` bound the documents that enter, by the intervals of all ratios behind."""

    stage: str
    documents_in: float
    low: float
    high: float
    documents_out: float
    bytes_in: float
    bytes_out: float
    tokens_out: float | None
    seconds: float
    serial: float
    core_hours: float
    flops: float


@dataclass(frozen=True, slots=True)
class Plan:
    """All stages at full size, wall time in seconds, core-hours, cost in the currency of the price, FLOPs of models."""

    stages: tuple[StagePlan, ...]
    seconds: float
    core_hours: float
    cost: float
    flops: float
    bottleneck: str


def wilson(kept: int, entered: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927, JASA 22); (0, 1) of nothing."""
    if not entered:
        return 0.0, 1.0
    share, z2 = kept / entered, Z * Z
    middle = (share + z2 / (2 * entered)) / (1 + z2 / entered)
    half = Z * sqrt(share * (1 - share) / entered + z2 / (4 * entered * entered)) / (1 + z2 / entered)
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))  # rounding aside, the share lies within


def plan_of(samples: Sequence[StageSample], documents_out: float, machines: Machines) -> Plan:
    """The plan that ends with so many documents. Raises ValueError where a stage of the sample kept nothing."""
    if not samples:
        raise ValueError("a plan needs a stage")
    if empty := next((one.stage for one in samples if not one.documents_out), None):
        raise ValueError(f"stage {empty} of the sample kept no document: measure a larger sample")
    planned: list[StagePlan] = []
    out = low = high = documents_out
    for one in reversed(samples):
        share = one.documents_out / one.documents_in
        least, most = wilson(one.documents_out, one.documents_in) if one.documents_out != one.documents_in else (1.0, 1.0)
        entered, low, high = out / share, low / most, high / least
        planned.append(_staged(one, entered, low, high, out, machines))
        out = entered
    stages = tuple(planned[::-1])
    seconds = sum(one.seconds for one in stages)
    return Plan(
        stages,
        seconds,
        sum(one.core_hours for one in stages),
        seconds / 3600 * machines.machines * machines.price,
        sum(one.flops for one in stages),
        max(stages, key=lambda one: one.seconds).stage,
    )


def _staged(one: StageSample, entered: float, low: float, high: float, out: float, machines: Machines) -> StagePlan:
    scale = entered / one.documents_in
    parallel, serial, flops = one.parallel * scale, one.serial * scale, one.flops * scale
    shared = parallel / (machines.machines * machines.cores * machines.efficiency)
    if flops and machines.flops_per_second:
        shared = max(flops / machines.flops_per_second, 0.0)
    tokens = None if one.tokens_out is None else one.tokens_out * scale
    return StagePlan(
        one.stage, entered, low, high, out, one.bytes_in * scale, one.bytes_out * scale, tokens,
        shared + serial + one.fixed, serial,
        (parallel + serial) / 3600, flops,
    )  # fmt: skip


LEAST_GROWING = 0.25
"""Of the time of a phase on all cores, however two measurements differ: noise must not make a stage free."""


def apart(whole: Sequence[StageSample], part: Sequence[StageSample]) -> list[StageSample]:
    """The stages of `whole` with what does not grow told apart, by the same stages measured on a `part` of the documents."""
    found = []
    for one, less in zip(whole, part, strict=True):
        parallel = _growing(one.parallel, less.parallel, one.documents_in, less.documents_in, LEAST_GROWING)
        serial = _growing(one.serial, less.serial, one.documents_in, less.documents_in, 0.0)
        fixed = one.parallel - parallel + one.serial - serial
        found.append(replace(one, parallel=parallel, serial=serial, fixed=fixed))
    return found


def _growing(whole: float, part: float, documents: int, fewer: int, least: float) -> float:
    """The part of `whole` seconds that grows with documents."""
    if documents <= fewer:
        return whole
    return min(whole, max(least * whole, (whole - part) / (documents - fewer) * documents))


def wished_documents(samples: Sequence[StageSample], amount: int, unit: str) -> float:
    """How many documents the last stage gives for `amount` tokens, bytes of text or documents. Raises ValueError."""
    last = samples[-1]
    if unit == "documents":
        return float(amount)
    size = last.bytes_out if unit == "bytes" else last.tokens_out
    if not size:
        raise ValueError(f"the last stage, {last.stage}, counts no {unit}: wish for documents, or end the recipe with build")
    return amount * last.documents_out / size
