"""Pace: how fast a remote model may be asked, how a failed attempt is repeated, and when the money is gone.

    Backoff    delays that double with every attempt, jittered; a server's Retry-After is a lower bound
    Throttle   requests and tokens a minute, for all workers of one client together
    Ledger     a row is reserved at its dearest before it is sent and settled at its true cost: a budget is never passed
    estimate   what a run will cost at least and at most, before anything is sent

Time comes from a `Clock`, so that tests need not wait.

Price: a reservation counts the full `max_tokens`; near its end a budget is therefore spent by ever fewer rows at a time.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from typecase.errors import BadQuery
from typecase.lm.protocol import windows

_LOOK_AGAIN_SECONDS = 0.02


class Clock(Protocol):
    """Seconds that pass."""

    def now(self) -> float:
        """Seconds since some moment."""

    async def sleep(self, seconds: float) -> None:
        """Lets others work for so long."""


class RealClock:
    """The clock of this machine."""

    def now(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Waits."""
        await asyncio.sleep(seconds)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Up to `attempts` tries; before try n + 1 a wait drawn from [half, whole] of first · 2^(n-1), at most `most_seconds`."""

    attempts: int = 6
    first_seconds: float = 0.5
    most_seconds: float = 60.0

    def __post_init__(self) -> None:
        if self.attempts < 1 or not 0 < self.first_seconds <= self.most_seconds:
            raise BadQuery(f"a backoff has 1 attempt or more and 0 < first_seconds <= most_seconds, got {self}")

    def delay_seconds(self, failed: int, dice: random.Random, retry_after_seconds: float | None) -> float:
        """The wait after the `failed`-th failed try (1 is the first)."""
        whole = min(self.most_seconds, self.first_seconds * 2.0 ** min(failed - 1, 40))
        drawn = whole * (0.5 + 0.5 * dice.random())
        return max(drawn, retry_after_seconds or 0.0)


@dataclass(frozen=True, slots=True)
class Rates:
    """The most that a server allows; None is no limit."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None

    def __post_init__(self) -> None:
        if any(rate is not None and rate <= 0 for rate in (self.requests_per_minute, self.tokens_per_minute)):
            raise BadQuery(f"rates are above 0 or None, got {self}")


class _Bucket:
    """Fills at a steady rate up to what a second holds (or one unit); may be overdrawn by one large withdrawal, then waits."""

    def __init__(self, per_minute: float, now: float) -> None:
        self.per_second = per_minute / 60.0
        self.room = max(1.0, self.per_second)
        self.level, self.at = self.room, now

    def wait_seconds(self, now: float, amount: float) -> float:
        """How long until `amount` may be taken: until it is there, or the bucket is full."""
        self.level = min(self.room, self.level + (now - self.at) * self.per_second)
        self.at = now
        missing = min(amount, self.room) - self.level
        return 0.0 if missing <= 1e-9 else missing / self.per_second


class Throttle:
    """Holds requests back to keep within `rates`; a pause holds back all of them. Threads may share it."""

    def __init__(self, rates: Rates, clock: Clock) -> None:
        now = clock.now()
        self._clock, self._until, self._lock = clock, now, threading.Lock()
        self._requests = _Bucket(rates.requests_per_minute, now) if rates.requests_per_minute else None
        self._tokens = _Bucket(rates.tokens_per_minute, now) if rates.tokens_per_minute else None

    async def take(self, tokens: int) -> None:
        """Returns when a request of so many tokens may be sent."""
        while (wait := self._try(tokens)) > 0:
            await self._clock.sleep(wait)

    def _try(self, tokens: int) -> float:
        """Takes and returns 0, or the seconds after which to try again."""
        with self._lock:
            now = self._clock.now()
            wanted = [(bucket, amount) for bucket, amount in ((self._requests, 1), (self._tokens, tokens)) if bucket]
            wait = max([0.0, self._until - now, *(bucket.wait_seconds(now, amount) for bucket, amount in wanted)])
            if wait <= 0:
                for bucket, amount in wanted:
                    bucket.level -= amount
            return wait

    def pause(self, seconds: float) -> None:
        """Nothing is sent for so long."""
        self._until = max(self._until, self._clock.now() + seconds)


@dataclass(frozen=True, slots=True)
class Price:
    """Cost of a million tokens, in any currency."""

    prompt_per_million: float
    completion_per_million: float = 0.0
    currency: str = "USD"

    def of(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Cost of so many tokens."""
        return (prompt_tokens * self.prompt_per_million + completion_tokens * self.completion_per_million) / 1e6


FREE = Price(0.0)


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that a client may spend in its life: tokens of prompts and answers, and their cost. None is no limit."""

    tokens: int | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Spent:
    """What went: answered requests, tokens as the server counts them, cost."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    retries: int = 0


class Ledger:
    """Reserves before a request and settles after it, so that the sum never passes the budget. Threads may share it."""

    def __init__(self, budget: Budget, price: Price, clock: Clock) -> None:
        self.budget, self.price = budget, price
        self.spent = Spent()
        self.exhausted = False
        self._held_tokens, self._held_cost, self._held = 0, 0.0, 0
        self._clock, self._lock = clock, threading.Lock()

    async def reserve(self, prompt_tokens: int, completion_tokens: int) -> bool:
        """Whether the request may be sent; waits for those under way if it depends on what they cost in the end."""
        while (verdict := self._try(prompt_tokens, completion_tokens)) is None:
            await self._clock.sleep(_LOOK_AGAIN_SECONDS)
        return verdict

    def _try(self, prompt_tokens: int, completion_tokens: int) -> bool | None:
        with self._lock:
            if not self.exhausted and self._fits(prompt_tokens, completion_tokens):
                self._hold(1, prompt_tokens, completion_tokens)
                return True
            self.exhausted = self.exhausted or self._held == 0
            return False if self.exhausted else None

    def settle(self, reserved: tuple[int, int], used: tuple[int, int] | None, retries: int) -> None:
        """Gives a reservation back and books what was used, None if nothing was answered."""
        with self._lock:
            self._hold(-1, *reserved)
            old = self.spent
            prompt, completion = used or (0, 0)
            self.spent = Spent(
                old.requests + (used is not None),
                old.prompt_tokens + prompt,
                old.completion_tokens + completion,
                old.cost + self.price.of(prompt, completion),
                old.retries + retries,
            )

    def _hold(self, sign: int, prompt_tokens: int, completion_tokens: int) -> None:
        self._held += sign
        self._held_tokens += sign * (prompt_tokens + completion_tokens)
        self._held_cost += sign * self.price.of(prompt_tokens, completion_tokens)

    def _fits(self, prompt_tokens: int, completion_tokens: int) -> bool:
        tokens = self.spent.prompt_tokens + self.spent.completion_tokens + self._held_tokens + prompt_tokens + completion_tokens
        cost = self.spent.cost + self._held_cost + self.price.of(prompt_tokens, completion_tokens)
        under_tokens = self.budget.tokens is None or tokens <= self.budget.tokens
        return under_tokens and (self.budget.cost is None or cost <= self.budget.cost + 1e-12)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run will use: exact for prompts (as the counter counts), between nothing and max_tokens for answers."""

    rows: int
    prompt_tokens: int
    most_completion_tokens: int
    least_cost: float
    most_cost: float
    currency: str

    def within(self, budget: Budget) -> bool:
        """Whether even the dearest outcome stays within `budget`."""
        tokens = self.prompt_tokens + self.most_completion_tokens
        return (budget.tokens is None or tokens <= budget.tokens) and (budget.cost is None or self.most_cost <= budget.cost)


def estimate(
    prompts: Iterable[str],
    count_tokens: Callable[[Sequence[str]], Sequence[int]],
    *,
    max_tokens: int,
    price: Price = FREE,
    overhead_tokens: int = 0,
) -> Estimate:
    """Reads all prompts and sends nothing; `overhead_tokens` is what the chat form adds to each prompt."""
    rows = tokens = 0
    for window in windows(prompts, 1024):
        rows += len(window)
        tokens += sum(count_tokens(window)) + overhead_tokens * len(window)
    most = rows * max_tokens
    return Estimate(rows, tokens, most, price.of(tokens, 0), price.of(tokens, most), price.currency)
