"""RemoteLM: any OpenAI-compatible server, chat or completions, as an LM.

    server = Server("http://localhost:8000/v1", "qwen3-32b", key_env="API_KEY")
    lm = RemoteLM(server, budget=Budget(cost=5.0), price=Price(0.2, 0.6), rates=Rates(requests_per_minute=500))

    rows ─► window in flight ─► budget ─► pace ─► POST ─► 200 ─► result, in order
                                  ▲        ▲        │
                                  │        └────────┤ 408, 425, 429, 5xx, broken or malformed: wait, again (Retry-After kept)
                                  └── true usage ───┘ other 4xx: this row fails; 401, 403, 404: the run stops

`concurrency` requests run at once on a thread of their own, so a slow caller times nothing out and Ctrl-C ends them.
A budget is checked before each request against the dearest outcome; once nothing more fits, the rows left become
`Failure("budget")` unasked, and what was answered stays. After `give_up_after` rows in a row without any reply the
server counts as down and the run stops with `ModelUnavailable`; behind a cache, the next run goes on from there.

The key is read from the environment variable `key_env` at the first request; it is kept in no attribute, no file and no
message. What a request that timed out may have cost is known to the server alone and not booked. Scores need a
completions server that echoes log-probabilities (`echo=True`, as vLLM's does): one request a text, and one a continuation.

Price: results come in order, so one slow row holds back those behind it, at most 4 · `concurrency` of them; those already
answered behind it are lost if the process is killed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import urlsplit

import numpy as np

from typecase.errors import BadQuery, FixInput
from typecase.lm.pace import FREE, Backoff, Budget, Clock, Estimate, Ledger, Price, Rates, RealClock, Spent, Throttle, estimate
from typecase.lm.protocol import (
    Answer,
    Can,
    Choices,
    Failure,
    Form,
    Generation,
    Scores,
    Vector,
    fingerprint_of,
    no_string,
    pairs_of,
    require,
)
from typecase.lm.wire import FORMS, Dialect, Json, Usage, generate_body, read_answer, read_echo, read_vector

if TYPE_CHECKING:
    from typecase.lm.courier import Courier

R = TypeVar("R")
_CHAT_OVERHEAD_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Server:
    """Where the model is and how it is asked.

    api                chat or completions
    key_env            name of the environment variable with the API key; None sends no key
    dialect            how it is told to keep to a form
    echo               whether completions echo the prompt's log-probabilities (scores, continuations)
    embeds             whether it has /embeddings
    top_logprobs       the most alternatives a token it tells
    context_tokens     the model's context; None leaves the check to the server
    max_tokens_field   the field's name; newer OpenAI models want max_completion_tokens
    extra              more fields for every request
    identity           what the answers depend on besides the model's name, for the cache; by default the address
    """

    base_url: str
    model: str
    api: Literal["chat", "completions"] = "chat"
    key_env: str | None = None
    system: str = ""
    dialect: Dialect = "openai"
    echo: bool = False
    embeds: bool = False
    top_logprobs: int = 20
    context_tokens: int | None = None
    max_tokens_field: str = "max_tokens"
    extra: Mapping[str, Any] | None = None
    identity: str | None = None

    def __post_init__(self) -> None:
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadQuery(f"a server's address is like http://localhost:8000/v1, got {self.base_url!r}")
        if parts.username or parts.password:
            raise BadQuery(
                "a server's address holds no user or password: put the key in an environment variable, name it key_env"
            )
        if self.echo and self.api != "completions":
            raise BadQuery("only a completions server can echo log-probabilities: api='completions' goes with echo=True")

    def key(self) -> str | None:
        """The API key, read now."""
        if self.key_env is None:
            return None
        key = os.environ.get(self.key_env, "")
        if not key:
            raise FixInput(f"the environment variable {self.key_env} is empty: set it to the API key of {self.base_url}")
        return key


class RemoteLM:
    """A model behind an OpenAI-compatible server. Its runs may overlap: they share rates, budget and `spent`."""

    def __init__(
        self,
        server: Server,
        *,
        count_tokens: Callable[[Sequence[str]], Sequence[int]] | None = None,
        concurrency: int = 8,
        timeout_seconds: float = 120.0,
        backoff: Backoff = Backoff(),  # noqa: B008  frozen
        rates: Rates = Rates(),  # noqa: B008
        budget: Budget = Budget(),  # noqa: B008
        price: Price = FREE,
        give_up_after: int = 16,
        clock: Clock | None = None,
    ) -> None:
        if concurrency < 1 or timeout_seconds <= 0 or give_up_after < 1:
            raise BadQuery("concurrency and give_up_after are 1 or more, timeout_seconds above 0")
        self.server, self.concurrency, self.timeout_seconds = server, concurrency, timeout_seconds
        self.backoff, self.give_up_after = backoff, give_up_after
        self.clock: Clock = clock or RealClock()
        self._count = count_tokens
        self._ledger, self._throttle = Ledger(budget, price, self.clock), Throttle(rates, self.clock)

    @property
    def name(self) -> str:
        """The model's name at its server."""
        return self.server.model

    @property
    def fingerprint(self) -> str:
        """Of the model's name, the server's identity and the prompt form: a server's weights cannot be seen from here."""
        s = self.server
        identity = s.base_url.rstrip("/") if s.identity is None else s.identity
        return fingerprint_of("remote", 1, s.model, identity, s.api, s.system, dict(s.extra or {}))

    @property
    def can(self) -> Can:
        """As the server was described."""
        s = self.server
        return Can(True, s.echo, s.echo, s.embeds, FORMS[s.dialect], s.top_logprobs, s.context_tokens)

    @property
    def spent(self) -> Spent:
        """What this client has used so far."""
        return self._ledger.spent

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """By the tokenizer given; without one, from above: a token for every 2 bytes."""
        if self._count is not None:
            return [int(count) for count in self._count(texts)]
        return [(len(text.encode("utf-8", "surrogatepass")) + 1) // 2 for text in texts]

    def estimate(self, prompts: Iterable[str], *, max_tokens: int) -> Estimate:
        """What `generate` would use and cost; sends nothing."""
        return estimate(
            prompts, self.count_tokens, max_tokens=max_tokens, price=self._ledger.price, overhead_tokens=self._overhead()
        )

    def generate(
        self,
        prompts: Iterable[str],
        *,
        max_tokens: int,
        seed: int,
        stop: Sequence[str] = (),
        temperature: float = 0.0,
        form: Form | None = None,
        top_logprobs: int = 0,
    ) -> Iterator[Answer | Failure]:
        """One request a prompt."""
        wanted = Generation.checked(self, max_tokens, seed, stop, temperature, form, top_logprobs)
        self.server.key()
        s, chat = self.server, self.server.api == "chat"
        path = "/chat/completions" if chat else "/completions"

        async def ask(courier: Courier, prompt: str) -> Answer | Failure:
            size = self.count_tokens([prompt])[0]
            body = generate_body(
                prompt, wanted, chat=chat, system=s.system, dialect=s.dialect, max_tokens_field=s.max_tokens_field
            )
            if (failure := self._fits(size, max_tokens)) is not None:
                return failure
            return await courier.post(
                path, body, (size + self._overhead(), max_tokens), lambda reply, usage: read_answer(reply, wanted, usage)
            )

        return self._run(no_string(prompts), ask)

    def score(self, texts: Iterable[str]) -> Iterator[Scores | Failure]:
        """One request a text, echoed."""
        require(self, "score")
        self.server.key()

        async def ask(courier: Courier, text: str) -> Scores | Failure:
            if not text:
                return Scores(np.empty(0, np.float32), 0)
            echoed = await self._echo(courier, text)
            return echoed if isinstance(echoed, Failure) else echoed[0]

        return self._run(no_string(texts), ask)

    def score_continuations(
        self, prompts: Iterable[str], continuations: Iterable[Sequence[str]]
    ) -> Iterator[Choices | Failure]:
        """One request a continuation, echoed; the tokens that end after the prompt are the continuation's."""
        require(self, "continuations")
        self.server.key()

        async def ask(courier: Courier, pair: tuple[str, tuple[str, ...]]) -> Choices | Failure:
            prompt, texts = pair
            logprobs, counts, prompt_tokens = [], [], 0
            for text in texts:
                echoed = await self._echo(courier, prompt + text)
                if isinstance(echoed, Failure):
                    return echoed
                scores, ends = echoed
                mine = [float(value) for value, end in zip(scores.logprobs, ends) if end > len(prompt)]
                if not prompt and scores.unscored:
                    return Failure("empty_prompt", "the server's model has nothing to predict a first token from")
                logprobs.append(sum(mine))
                counts.append(len(mine))
                prompt_tokens = scores.prompt_tokens - len(mine)
            return Choices(np.array(logprobs, np.float32), np.array(counts, np.int32), prompt_tokens)

        return self._run(pairs_of(no_string(prompts), continuations), ask)

    def embed(self, texts: Iterable[str]) -> Iterator[Vector | Failure]:
        """One request a text."""
        require(self, "embed")
        self.server.key()

        async def ask(courier: Courier, text: str) -> Vector | Failure:
            size = self.count_tokens([text])[0]
            if (failure := self._fits(size, 0)) is not None:
                return failure
            return await courier.post("/embeddings", {"input": text}, (size, 0), read_vector)

        return self._run(no_string(texts), ask)

    async def _echo(self, courier: Courier, text: str) -> tuple[Scores, list[int]] | Failure:
        size = self.count_tokens([text])[0]
        body: Json = {"prompt": text, "max_tokens": 1, "temperature": 0.0, "echo": True, "logprobs": 1}

        def read(reply: Json, usage: Usage) -> tuple[Scores, list[int]] | Failure:
            return read_echo(reply, text, usage)

        if (failure := self._fits(size, 1)) is not None:
            return failure
        return await courier.post("/completions", body, (size, 1), read)

    def _fits(self, prompt_tokens: int, room_tokens: int) -> Failure | None:
        limit = self.server.context_tokens
        if limit is None or self._count is None or prompt_tokens + room_tokens <= limit:
            return None
        return Failure("too_long", f"{prompt_tokens} tokens and {room_tokens} for the answer, the context holds {limit}")

    def _overhead(self) -> int:
        if self.server.api != "chat":
            return 0
        return _CHAT_OVERHEAD_TOKENS + (self.count_tokens([self.server.system])[0] if self.server.system else 0)

    def _run(self, rows: Iterable[Any], ask: Callable[[Courier, Any], Any]) -> Iterator[Any]:
        from typecase.lm.courier import deliver  # httpx, an extra

        return deliver(self, self._ledger, self._throttle, rows, ask)
