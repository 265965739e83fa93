"""Waits, rates and budgets, on a clock that costs no time."""

from __future__ import annotations

import asyncio
import itertools
import random

import pytest

from typecase.errors import BadQuery
from typecase.lm.pace import Backoff, Budget, Ledger, Price, Rates, Throttle, estimate


class FakeClock:
    """Time passes only by sleeping."""

    def __init__(self) -> None:
        self.time = 0.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)


def test_waits_double_up_to_the_most_and_are_jittered_within_half() -> None:
    backoff, dice = Backoff(attempts=9, first_seconds=1.0, most_seconds=20.0), random.Random(1)
    for failed, whole in enumerate([1, 2, 4, 8, 16, 20, 20], start=1):
        drawn = {backoff.delay_seconds(failed, dice, None) for _ in range(50)}
        assert len(drawn) > 40
        assert whole / 2 <= min(drawn) and max(drawn) <= whole


def test_retry_after_is_a_lower_bound() -> None:
    backoff, dice = Backoff(), random.Random(1)
    assert backoff.delay_seconds(1, dice, 33.0) == 33.0
    assert backoff.delay_seconds(6, dice, 0.001) > 1.0


def test_requests_a_minute_are_kept() -> None:
    clock = FakeClock()

    async def run() -> list[float]:
        throttle, sent = Throttle(Rates(requests_per_minute=60), clock), []
        for _ in range(10):
            await throttle.take(0)
            sent.append(clock.now())
        return sent

    sent = asyncio.run(run())
    assert [round(b - a, 3) for a, b in itertools.pairwise(sent)] == [1.0] * 9


def test_tokens_a_minute_are_kept_by_many_workers() -> None:
    clock = FakeClock()

    async def run() -> None:
        throttle = Throttle(Rates(tokens_per_minute=600), clock)
        await asyncio.gather(*(throttle.take(100) for _ in range(7)))

    asyncio.run(run())
    assert clock.now() == pytest.approx(60.0, abs=0.2)  # 600 tokens are through by then, the last 100 just sent


def test_a_pause_holds_all_back() -> None:
    clock = FakeClock()

    async def run() -> None:
        throttle = Throttle(Rates(), clock)
        throttle.pause(7.0)
        await throttle.take(1)

    asyncio.run(run())
    assert clock.now() == 7.0


def test_a_ledger_waits_for_what_is_under_way_and_never_overspends() -> None:
    async def run() -> tuple[list[bool], Ledger]:
        ledger = Ledger(Budget(tokens=100), Price(1.0), FakeClock())

        async def row() -> bool:
            if not await ledger.reserve(10, 30):
                return False
            await asyncio.sleep(0)
            ledger.settle((10, 30), (10, 5), 0)
            assert ledger.spent.prompt_tokens + ledger.spent.completion_tokens <= 100
            return True

        return list(await asyncio.gather(*(row() for _ in range(20)))), ledger

    sent, ledger = asyncio.run(run())
    assert sent == [True] * 5 + [False] * 15  # 4 rows settled at 15 leave room for a 40th; 5 rows at 75 do not
    assert ledger.spent.requests == 5 and ledger.exhausted


def test_an_estimate_counts_prompts_exactly_and_answers_at_most() -> None:
    found = estimate(["a b", "c"], lambda texts: [len(t.split()) for t in texts], max_tokens=10, price=Price(1e6, 2e6, "EUR"))
    assert (found.rows, found.prompt_tokens, found.most_completion_tokens) == (2, 3, 20)
    assert (found.least_cost, found.most_cost, found.currency) == (3.0, 43.0, "EUR")
    assert found.within(Budget(tokens=23, cost=43.0))
    assert not found.within(Budget(tokens=22)) and not found.within(Budget(cost=42.0))


def test_what_cannot_be_meant_is_refused() -> None:
    with pytest.raises(BadQuery):
        Rates(requests_per_minute=0)
    with pytest.raises(BadQuery):
        Backoff(attempts=0)
