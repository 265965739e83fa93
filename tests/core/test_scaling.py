"""Scaling: made-up stages that are exactly linear are told exactly; shares carry their interval."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from typecase.core.scaling import LEAST_GROWING, Machines, StageSample, apart, plan_of, wilson, wished_documents


def stage(name: str, entered: int, kept: int, **more: float) -> StageSample:
    given = {"parallel": 10.0, "serial": 1.0, **more}
    return StageSample(name, entered, kept, entered * 100, kept * 100, kept * 25 if name == "build" else None, **given)  # type: ignore[arg-type]


ONE = Machines(1, 1, efficiency=1.0)


def test_a_plan_is_the_sample_where_it_is_as_large() -> None:
    samples = [stage("ingest", 1000, 1000), stage("select", 1000, 400), stage("build", 400, 400)]
    plan = plan_of(samples, 400, ONE)
    assert [(one.documents_in, one.documents_out) for one in plan.stages] == [(1000, 1000), (1000, 400), (400, 400)]
    assert plan.seconds == pytest.approx(33) and plan.core_hours == pytest.approx(33 / 3600)
    assert plan.stages[-1].tokens_out == 10_000 and plan.stages[0].bytes_in == 100_000


def test_cores_share_what_is_parallel_and_nothing_else() -> None:
    samples = [stage("ingest", 1000, 1000, fixed=2.0)]
    plan = plan_of(samples, 100_000, Machines(5, 10, price=3.6, efficiency=0.5))
    (one,) = plan.stages
    assert one.seconds == pytest.approx(1000 / (5 * 10 * 0.5) + 100 + 2) and one.serial == pytest.approx(100)
    assert plan.cost == pytest.approx(one.seconds / 3600 * 5 * 3.6)


def test_models_of_known_size_take_what_their_flops_take() -> None:
    samples = [stage("refine", 10, 10, flops=1e12)]
    assert plan_of(samples, 100, Machines(1, 1, flops_per_second=1e12)).stages[0].seconds == pytest.approx(10 + 10)
    assert plan_of(samples, 100, ONE).flops == pytest.approx(1e13)


def test_what_does_not_grow_is_told_apart() -> None:
    whole = [stage("x", 1000, 1000, parallel=12.0, serial=3.0)]
    half = [stage("x", 500, 500, parallel=7.0, serial=2.5)]
    (one,) = apart(whole, half)
    assert (one.parallel, one.serial, one.fixed) == (pytest.approx(10), pytest.approx(1), pytest.approx(4))
    (noisy,) = apart(whole, [stage("x", 500, 500, parallel=14.0, serial=9.0)])
    assert noisy.parallel == pytest.approx(12 * LEAST_GROWING) and noisy.serial == 0 and noisy.fixed == pytest.approx(12)


def test_the_bounds_hold_what_the_ratios_leave_open() -> None:
    plan = plan_of([stage("dedup", 1000, 500), stage("select", 500, 50)], 50, ONE)
    first, second = plan.stages
    assert second.low < second.documents_in < second.high and first.high / first.low > second.high / second.low
    exact = plan_of([stage("ingest", 10, 10)], 50, ONE).stages[0]
    assert exact.low == exact.high == exact.documents_in == 50


@given(st.integers(0, 500), st.integers(1, 500))
def test_wilson_holds_the_share_and_stays_within_bounds(kept: int, more: int) -> None:
    low, high = wilson(kept, kept + more)
    assert 0 <= low <= kept / (kept + more) <= high <= 1
    assert wilson(0, 0) == (0.0, 1.0)


def test_wishes_are_of_what_the_last_stage_counts() -> None:
    samples = [stage("select", 100, 40), stage("build", 40, 40)]
    assert wished_documents(samples, 25_000, "tokens") == 1000
    assert wished_documents(samples, 1000, "documents") == 1000 and wished_documents(samples, 1000, "bytes") == 10
    with pytest.raises(ValueError, match="counts no tokens"):
        wished_documents(samples[:1], 5, "tokens")
    with pytest.raises(ValueError, match="kept no document"):
        plan_of([stage("select", 10, 0)], 5, ONE)
    with pytest.raises(ValueError, match="machines and cores"):
        Machines(0, 1)
