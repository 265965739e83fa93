"""Courier: requests in flight on an event loop of their own, answers handed over in order.

    deliver ──► loop thread:  [row 7 ✓] [row 8 …] [row 9 ✓] [row 10 waits its turn]      at most 4 · concurrency rows
       ▲            │
       └── row 7 ◄──┘   the caller takes the oldest; when it stops taking, all that is in flight is cancelled

Price: one thread and one connection pool for each run of `generate`, `score` or `embed`.
"""

from __future__ import annotations

import asyncio
import email.utils
import json
import random
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

from typecase.errors import FixInput, ModelUnavailable, NeedsExtra
from typecase.lm.pace import Ledger, Throttle
from typecase.lm.protocol import Failure, FailureKind
from typecase.lm.remote import RemoteLM
from typecase.lm.wire import Json, Malformed, Usage, read_json, read_usage

try:
    import httpx
except ImportError:
    raise NeedsExtra("a remote model", "remote") from None

R = TypeVar("R")
_AGAIN = frozenset((408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529))
_STOP = frozenset((401, 403, 404))
_TOO_LONG = ("context_length", "context length", "context size", "maximum context", "exceed_context", "too long")
_SHOWN_CHARS = 300
_LONGEST_WAIT_SECONDS = 900.0


def deliver(
    lm: RemoteLM, ledger: Ledger, throttle: Throttle, rows: Iterable[Any], ask: Callable[[Courier, Any], Awaitable[R]]
) -> Iterator[R]:
    """The results of `ask` for each row, in order."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="typecase-remote", daemon=True)
    thread.start()
    waiting: deque[Future[R]] = deque()
    courier = Courier(lm, ledger, throttle)

    async def one(row: Any) -> R:
        return await ask(courier, row)

    try:
        for row in rows:
            waiting.append(asyncio.run_coroutine_threadsafe(one(row), loop))
            while len(waiting) >= 4 * lm.concurrency or (waiting and waiting[0].done()):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        asyncio.run_coroutine_threadsafe(_wind_up(courier), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _wind_up(courier: Courier) -> None:
    mine = asyncio.current_task()
    left = [task for task in asyncio.all_tasks() if task is not mine]
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    await courier.client.aclose()


class _Attempt(Exception):
    """One try that failed in a way that may pass."""

    def __init__(self, kind: FailureKind, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.kind, self.message, self.retry_after_seconds = kind, message, retry_after_seconds


class Courier:
    """Sends one run's requests: paced, repeated, within the budget."""

    def __init__(self, lm: RemoteLM, ledger: Ledger, throttle: Throttle) -> None:
        self._lm, self._ledger, self._throttle, self._clock = lm, ledger, throttle, lm.clock
        self._key = lm.server.key()
        self._slots = asyncio.Semaphore(lm.concurrency)
        self._dice = random.Random(lm.fingerprint)  # spreads the waits; no answer depends on it
        self._unanswered = 0
        limits = httpx.Limits(max_connections=lm.concurrency, max_keepalive_connections=lm.concurrency)
        headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {self._key}"} if self._key else {})
        secure = lm.server.base_url.startswith("https:")  # loading certificates takes 50 ms; redirects are not followed
        self.client = httpx.AsyncClient(
            verify=secure, base_url=lm.server.base_url.rstrip("/"), headers=headers, limits=limits, timeout=lm.timeout_seconds
        )

    async def post(self, path: str, body: Json, size: tuple[int, int], read: Callable[[Json, Usage], R]) -> R | Failure:
        """What `read` makes of the reply, or why there is none; `size` is the tokens of the prompt and most of the answer."""
        body = {"model": self._lm.server.model, **body, **(self._lm.server.extra or {})}
        async with self._slots:
            failed = 0
            while True:
                found = await self._attempt(path, body, size, read)
                if not isinstance(found, _Attempt):
                    return found
                failed += 1
                if (failure := self._give_up(found, failed)) is not None:
                    return failure
                await self._clock.sleep(self._lm.backoff.delay_seconds(failed, self._dice, found.retry_after_seconds))

    async def _attempt(
        self, path: str, body: Json, size: tuple[int, int], read: Callable[[Json, Usage], R]
    ) -> R | Failure | _Attempt:
        """One request. Each is reserved by itself: a malformed reply is paid for and asked again."""
        if not await self._ledger.reserve(*size):
            return Failure("budget", f"not asked: the budget {self._ledger.budget} is spent")
        used, failed = None, 1
        try:
            reply = await self._try(path, body, sum(size))
            usage = read_usage(reply)
            used = (usage.prompt_tokens, usage.completion_tokens) if usage else size
            result = read(reply, usage or Usage(size[0], 0))
            failed = 0
            return result
        except Malformed as error:
            return _Attempt("malformed", str(error))
        except _Attempt as error:
            return error
        finally:
            self._ledger.settle(size, used, failed)

    def _give_up(self, attempt: _Attempt, failed: int) -> Failure | None:
        if attempt.kind in ("too_long", "rejected"):
            return Failure(attempt.kind, self._redacted(attempt.message))
        if failed < self._lm.backoff.attempts:
            return None
        if attempt.kind in ("connection", "timeout", "server_error", "rate_limited"):
            self._unanswered += 1
        message = self._redacted(f"{attempt.message}; {failed} attempts")
        if self._unanswered >= self._lm.give_up_after:
            raise ModelUnavailable(
                f"{self._lm.server.base_url} answered none of {self._unanswered} rows in a row (last: {message}): "
                "start it or wait, then run again"
            )
        return Failure(attempt.kind, message)

    async def _try(self, path: str, body: Json, tokens: int) -> Json:
        await self._throttle.take(tokens)
        try:
            response = await self.client.post(path, content=json.dumps(body))  # ASCII: carries lone surrogates too
        except httpx.TimeoutException as error:
            raise _Attempt("timeout", f"no reply in {self._lm.timeout_seconds} s ({type(error).__name__})") from None
        except httpx.TransportError as error:
            raise _Attempt("connection", f"{type(error).__name__}: {error}") from None
        status = response.status_code
        if status == 200:
            self._unanswered = 0
            return read_json(response.content)
        shown = f"HTTP {status}: {response.text[:_SHOWN_CHARS]}"
        if status in _STOP:
            raise FixInput(self._redacted(self._advice(status, path, shown)))
        if status in _AGAIN:
            after = _retry_after_seconds(response)
            if after is not None and after > _LONGEST_WAIT_SECONDS:
                raise ModelUnavailable(
                    self._redacted(f"{self._lm.server.base_url} asks to wait {after:.0f} s: run again then ({shown})")
                )
            if after is not None and status in (429, 503):
                self._throttle.pause(after)
            raise _Attempt("rate_limited" if status == 429 else "server_error", shown, after)
        self._unanswered = 0
        long = status in (400, 413, 422) and any(words in response.text.lower() for words in _TOO_LONG)
        raise _Attempt("too_long" if long else "server_error" if status >= 500 else "rejected", shown)

    def _advice(self, status: int, path: str, shown: str) -> str:
        server = self._lm.server
        if status == 404:
            return f"{server.base_url}{path} or the model {server.model!r} is not there ({shown}): check base_url and model"
        key = f"check the key in {server.key_env}" if server.key_env else "name the key's environment variable as key_env"
        return f"{server.base_url} did not let us in ({shown}): {key}"

    def _redacted(self, message: str) -> str:
        return message.replace(self._key, "[key]") if self._key else message


def _retry_after_seconds(response: httpx.Response) -> float | None:
    """Seconds of the header Retry-After, given as a number or as a date; None if there is none that reads."""
    stated = response.headers.get("retry-after", "").strip()
    try:
        return max(0.0, float(stated))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(stated).timestamp() - time.time())
    except (ValueError, TypeError):
        return None
