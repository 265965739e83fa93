"""Remote models: the contract over HTTP, faults, waits on a fake clock, budgets, keys, and llama.cpp's own server."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lm.contract import TEXTS, LMContract, same
from tests.lm.server import Server, body, hang_up, serve, status, truncated
from tests.lm.test_pace import FakeClock
from typecase.errors import BadQuery, FixInput, ModelUnavailable
from typecase.lm.cache import AnswerCache, CachedLM
from typecase.lm.fake import FakeLM
from typecase.lm.gguf import demo_gguf
from typecase.lm.pace import Backoff, Budget, Price, Rates
from typecase.lm.protocol import LM, Answer, Choices, Failure, Form, Generation, Scores
from typecase.lm.remote import RemoteLM
from typecase.lm.remote import Server as Address
from typecase.lm.wire import generate_body

pytest.importorskip("httpx")


@pytest.fixture
def server() -> Iterator[Server]:
    with serve(FakeLM()) as running:
        yield running


def remote(server: Server, *, clock: FakeClock | None = None, attempts: int = 3, **settings: Any) -> RemoteLM:
    """A client of `server` whose waits take no time."""
    address = settings.pop("address", None) or Address(server.url, "fake", top_logprobs=5)
    return RemoteLM(
        address, count_tokens=server.lm.count_tokens, backoff=Backoff(attempts), clock=clock or FakeClock(), **settings
    )


class TestChat(LMContract):
    @pytest.fixture
    def lm(self, server: Server) -> LM:
        return remote(server)


class TestCompletions(LMContract):
    @pytest.fixture
    def lm(self, server: Server) -> LM:
        return remote(server, address=Address(server.url, "fake", api="completions", echo=True, embeds=True, top_logprobs=5))


def texts_of(lm: LM, prompts: Any = TEXTS) -> list[str]:
    """What the model says, or the kind of failure in brackets."""
    results = lm.generate(prompts, max_tokens=6, seed=1)
    return [f"[{result.kind}]" if isinstance(result, Failure) else result.text for result in results]


def test_it_says_what_the_model_behind_says(server: Server) -> None:
    plain = FakeLM()
    assert texts_of(remote(server)) == texts_of(plain)
    lm = remote(server, address=Address(server.url, "fake", api="completions", echo=True))
    for mine, theirs in zip(lm.score(TEXTS), plain.score(TEXTS)):
        assert isinstance(mine, Scores) and isinstance(theirs, Scores)
        assert mine.logprobs.tolist() == theirs.logprobs.tolist()
    pairs = [f"{text}" for text in TEXTS], [[" yes", " no way"]] * len(TEXTS)
    for one, other in zip(lm.score_continuations(*pairs), plain.score_continuations(*pairs)):
        assert isinstance(one, Choices) and isinstance(other, Choices)
        assert one.logprobs.tolist() == pytest.approx(other.logprobs.tolist())
        assert one.num_tokens.tolist() == other.num_tokens.tolist()


PASSING = {
    "429": status(429), "500": status(500), "503": status(503), "408": status(408), "html": body(b"<html>busy</html>"),
    "empty": body(b""), "list": body(b"[]"), "no choices": body(b'{"choices": []}'), "truncated": truncated, "hang up": hang_up,
    "no text": body(b'{"choices": [{"message": {"content": null}, "finish_reason": "stop"}]}'),
    "odd finish": body(b'{"choices": [{"message": {"content": "x"}, "finish_reason": 3}]}'),
}  # fmt: skip


@pytest.mark.parametrize("name", PASSING)
def test_what_passes_is_tried_again(server: Server, name: str) -> None:
    server.faults = [PASSING[name]] * 2
    lm = remote(server, concurrency=1)
    assert texts_of(lm) == texts_of(FakeLM())
    assert lm.spent.retries == 2


LASTING = [("429", "rate_limited"), ("500", "server_error"), ("html", "malformed"), ("truncated", "connection")]


@pytest.mark.parametrize(("name", "kind"), LASTING)
def test_what_lasts_is_a_failure_of_that_row_alone(server: Server, name: str, kind: str) -> None:
    server.rule = lambda asked: PASSING[name] if asked["messages"][-1]["content"] == TEXTS[2] else None
    expected = texts_of(FakeLM())
    expected[2] = f"[{kind}]"
    assert texts_of(remote(server)) == expected


def test_other_refusals_are_not_tried_again(server: Server) -> None:
    declined = b'{"choices": [{"message": {"content": null, "refusal": "no"}, "finish_reason": "stop"}]}'
    filtered = b'{"choices": [{"message": {"content": ""}, "finish_reason": "content_filter"}]}'
    server.faults = [status(400), status(422), body(declined), body(filtered)]
    lm = remote(server, concurrency=1)
    assert texts_of(lm)[:5] == ["[rejected]", "[rejected]", "[refused]", "[refused]", texts_of(FakeLM())[4]]
    assert len(server.requests) == len(TEXTS)


def test_a_slow_server_times_out(server: Server) -> None:
    server.rule = lambda asked: server.slow if asked["messages"][-1]["content"] == TEXTS[0] else None
    lm = remote(server, timeout_seconds=0.2, attempts=2)
    assert texts_of(lm) == ["[timeout]", *texts_of(FakeLM())[1:]]


def test_waits_double_and_retry_after_is_honoured(server: Server) -> None:
    clock = FakeClock()
    server.faults = [status(500)] * 4 + [
        status(429, retry_after="33"),
        status(503, retry_after="Wed, 21 Oct 2015 07:28:00 GMT"),
    ]
    lm = remote(server, clock=clock, attempts=9, concurrency=1)
    assert texts_of(lm, TEXTS[:1]) == texts_of(FakeLM(), TEXTS[:1])
    for failed, slept in enumerate(clock.slept[:4]):
        assert 0.25 * 2**failed <= slept <= 0.5 * 2**failed
    assert clock.slept[4] == 33.0
    assert lm.spent.retries == 6


def test_a_wait_of_hours_ends_the_run(server: Server) -> None:
    server.faults = [status(429, retry_after="86400")]
    with pytest.raises(ModelUnavailable, match="86400 s"):
        texts_of(remote(server))


def test_rates_are_kept(server: Server) -> None:
    clock = FakeClock()
    texts_of(remote(server, clock=clock, rates=Rates(requests_per_minute=6)))
    assert clock.now() == pytest.approx(10.0 * (len(TEXTS) - 1), abs=0.1)


def test_no_more_than_the_concurrency_at_once(server: Server) -> None:
    texts_of(remote(server, concurrency=3), [f"row {k}" for k in range(60)])
    assert 1 <= server.most_busy <= 3


def test_a_server_that_is_down_ends_the_run_and_keeps_what_was_done(server: Server) -> None:
    seen: list[str] = []
    server.rule = lambda asked: status(503) if asked["messages"][-1]["content"] >= "row 30" else None
    lm = remote(server, concurrency=2, give_up_after=4)
    with pytest.raises(ModelUnavailable, match="answered none of 4 rows"):
        for result in lm.generate((f"row {k}" for k in range(10, 1000)), max_tokens=3, seed=0):
            seen += [result.text] if isinstance(result, Answer) else []
    assert len(seen) == 20
    assert len(server.requests) < 60


def test_nobody_there() -> None:
    lm = RemoteLM(Address("http://127.0.0.1:9/v1", "m"), backoff=Backoff(2), clock=FakeClock(), give_up_after=2)
    with pytest.raises(ModelUnavailable, match="answered none of 2 rows"):
        texts_of(lm)


def test_a_budget_is_never_passed_and_what_was_done_is_kept(server: Server) -> None:
    price = Price(1e6, 2e6)
    lm = remote(server, concurrency=4, budget=Budget(cost=500.0), price=price)
    prompts = [f"row number {k}" for k in range(200)]
    results = list(lm.generate(prompts, max_tokens=6, seed=1))
    answered = [isinstance(result, Answer) for result in results]
    assert answered == sorted(answered, reverse=True)
    assert 0 < sum(answered) < 200
    assert {result.kind for result in results if isinstance(result, Failure)} == {"budget"}
    assert lm.spent.cost <= 500.0 and lm.spent.requests == sum(answered) == len(server.requests)
    assert lm.spent.cost > 500.0 - 2 * price.of(30, 6)
    assert list(lm.generate(prompts[:1], max_tokens=6, seed=1)) == [results[-1]]


def test_malformed_replies_are_paid_for_within_the_budget(server: Server) -> None:
    usage = b'{"choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 6}}'
    server.rule = lambda asked: body(usage)
    lm = remote(server, concurrency=1, attempts=9, budget=Budget(tokens=100))
    kinds = [result.kind for result in lm.generate(["a", "b"], max_tokens=6, seed=0) if isinstance(result, Failure)]
    assert kinds == ["budget", "budget"]
    assert (lm.spent.prompt_tokens, lm.spent.completion_tokens, len(server.requests)) == (60, 18, 3)


def test_runs_may_overlap(server: Server) -> None:
    lm = remote(server, budget=Budget(tokens=10**6), rates=Rates(requests_per_minute=1e5, tokens_per_minute=1e6))
    both = zip(lm.generate(TEXTS, max_tokens=6, seed=1), lm.generate(TEXTS, max_tokens=6, seed=1), strict=True)
    assert all(same(a, b) for a, b in both)
    assert lm.spent.requests == 2 * len(TEXTS)


def test_an_estimate_before_the_run_bounds_its_cost(server: Server) -> None:
    lm = remote(server, address=Address(server.url, "fake", api="completions"), price=Price(2.0, 6.0))
    before = lm.estimate(TEXTS, max_tokens=6)
    assert server.requests == []
    texts_of(lm)
    assert before.least_cost <= lm.spent.cost <= before.most_cost
    assert before.prompt_tokens == lm.spent.prompt_tokens


def test_the_key_is_sent_and_shown_nowhere(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.setenv("A_KEY", "secret-17")
    caplog.set_level(logging.DEBUG)
    address = Address(server.url, "fake", key_env="A_KEY")
    lm = remote(server, address=address)
    with AnswerCache(tmp_path / "answers.db") as cache:
        texts_of(CachedLM(lm, cache))
    assert server.keys == {"Bearer secret-17": len(TEXTS)}
    server.rule = lambda asked: status(400, "bad key secret-17")
    (failure,) = lm.generate(["a"], max_tokens=1, seed=0)
    assert isinstance(failure, Failure) and "[key]" in failure.message
    server.rule = lambda asked: status(401, "bad key secret-17")
    with pytest.raises(FixInput, match="A_KEY") as caught:
        texts_of(lm)
    shown = [caplog.text, failure.message, str(caught.value), repr(address), repr(vars(lm)), lm.fingerprint]
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert "secret-17" not in "".join(shown) and b"secret-17" not in stored
    monkeypatch.delenv("A_KEY")
    with pytest.raises(FixInput, match="environment variable A_KEY is empty"):
        lm.generate(["a"], max_tokens=1, seed=0)


def test_addresses_and_models_that_are_not_there(server: Server) -> None:
    server.rule = lambda asked: status(404)
    with pytest.raises(FixInput, match="check base_url and model"):
        texts_of(remote(server))
    for url in ("localhost:8000", "http://user:pass@host/v1"):
        with pytest.raises(BadQuery):
            Address(url, "m")
    with pytest.raises(BadQuery, match="echo"):
        Address("http://h/v1", "m", echo=True)


def test_a_server_without_echo_cannot_score(server: Server) -> None:
    server.rule = lambda asked: body(b'{"choices": [{"text": "x", "finish_reason": "length"}]}')
    lm = remote(server, address=Address(server.url, "fake", api="completions", echo=True))
    assert {result.kind for result in lm.score(TEXTS) if isinstance(result, Failure)} == {"no_logprobs"}


def test_leaving_early_ends_the_requests_and_the_cache_goes_on(server: Server, tmp_path: Path) -> None:
    prompts = [f"row {k}" for k in range(100)]
    before = threading.active_count()
    with AnswerCache(tmp_path / "answers.db") as cache:
        with pytest.raises(KeyboardInterrupt):
            for k, _ in enumerate(CachedLM(remote(server, concurrency=2), cache).generate(prompts, max_tokens=3, seed=0)):
                if k == 9:
                    raise KeyboardInterrupt
        assert not [thread for thread in threading.enumerate() if thread.name == "typecase-remote"], before
        asked = len(server.requests)
        assert asked <= 10 + 4 * 2 + 2
        again = CachedLM(remote(server), cache)
        assert len(list(again.generate(prompts, max_tokens=3, seed=0))) == 100
        assert cache.stats().hits == 10
    assert len(server.requests) <= asked + 90 + 2


INTERRUPTED = """
import sys
from typecase.lm.cache import AnswerCache, CachedLM
from typecase.lm.remote import RemoteLM, Server
with AnswerCache(sys.argv[2]) as cache:
    for _ in CachedLM(RemoteLM(Server(sys.argv[1], "fake"), concurrency=2), cache).generate(
        [f"row {k:03}" for k in range(100)], max_tokens=3, seed=0
    ):
        print("answer", flush=True)
"""


def test_an_interrupt_while_waiting_leaves_the_cache_usable(server: Server, tmp_path: Path) -> None:
    server.rule = lambda asked: server.slow if asked["messages"][-1]["content"] >= "row 020" else None
    command = [sys.executable, "-c", INTERRUPTED, server.url, str(tmp_path / "answers.db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdout is not None
        for _ in range(20):
            assert run.stdout.readline() == b"answer\n"
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate(timeout=60)
    assert b"KeyboardInterrupt" in errors and run.returncode != 0
    server.rule = lambda asked: None
    lm = remote(server, address=Address(server.url, "fake"))
    with AnswerCache(tmp_path / "answers.db") as cache:
        results = list(CachedLM(lm, cache).generate([f"row {k:03}" for k in range(100)], max_tokens=3, seed=0))
        assert cache.stats().hits == 20
    assert all(isinstance(result, Answer) for result in results)


FORM = Form("json_schema", '{"type": "object"}')
ANSWER = {"name": "answer", "schema": {"type": "object"}, "strict": True}


@pytest.mark.parametrize(
    ("dialect", "chat", "form", "expected"),
    [
        ("openai", True, FORM, {"response_format": {"type": "json_schema", "json_schema": ANSWER}}),
        ("vllm", True, FORM, {"structured_outputs": {"json": {"type": "object"}}}),
        ("vllm", True, Form("choice", '["a", "b"]'), {"structured_outputs": {"choice": ["a", "b"]}}),
        ("vllm-guided", False, FORM, {"guided_json": {"type": "object"}}),
        ("vllm-guided", False, Form("regex", "[1-5]"), {"guided_regex": "[1-5]"}),
        ("llama.cpp", False, FORM, {"json_schema": {"type": "object"}}),
        ("llama.cpp", True, Form("grammar", 'root ::= "a"'), {"grammar": 'root ::= "a"'}),
    ],
)  # fmt: skip
def test_forms_are_spelled_as_the_server_wants(dialect: Any, chat: bool, form: Form, expected: dict[str, Any]) -> None:
    wanted = Generation(max_tokens=5, seed=1, form=form)
    sent = generate_body("p", wanted, chat=chat, system="s", dialect=dialect, max_tokens_field="max_completion_tokens")
    assert expected.items() <= sent.items()
    assert sent["max_completion_tokens"] == 5
    assert ("messages" in sent) == chat


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address of llama.cpp's own server with the small real model behind."""
    x = pytest.importorskip("xllamacpp")
    params = x.CommonParams()
    params.model.path, params.n_ctx, params.n_parallel = str(demo_gguf()), 2048, 1
    params.cpuparams.n_threads, params.warmup = 2, False
    running = x.Server(params)
    yield f"{running.listening_address}/v1"
    del running


@pytest.mark.slow
class TestLlamaCpp(LMContract):
    tolerance = 0.5  # how a prompt is cut into batches moves its numbers, quantised weights the more
    long = "word and word " * 3000

    @pytest.fixture
    def lm(self, url: str) -> LM:
        address = Address(url, "smollm2", api="completions", dialect="llama.cpp", top_logprobs=5, extra={"cache_prompt": False})
        return RemoteLM(address, concurrency=1)

    def test_it_keeps_to_a_form(self, url: str) -> None:
        lm = RemoteLM(Address(url, "smollm2", dialect="llama.cpp"), concurrency=1)
        (answer,) = lm.generate(["Is tea hot?"], max_tokens=8, seed=0, form=Form("grammar", 'root ::= "yes" | "no"'))
        assert isinstance(answer, Answer) and answer.text in ("yes", "no")
        assert answer.prompt_tokens > 4 and lm.spent.requests == 1

    def test_it_knows_france(self, lm: LM) -> None:
        (answer,) = lm.generate(["The capital of France is"], max_tokens=1, seed=0)
        assert isinstance(answer, Answer) and answer.text == " Paris"
