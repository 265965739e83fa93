"""open_lm: every kind of model by its table; what cannot be meant is named; no network."""

from __future__ import annotations

import socket
from dataclasses import fields
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from typecase.errors import BadQuery, BadRecipe, NeedsExtra, NotFound
from typecase.lm import models
from typecase.lm.cache import CachedLM
from typecase.lm.models import OPTIONS, open_lm, table_of
from typecase.lm.pace import Budget, Price, Rates
from typecase.lm.remote import RemoteLM, Server


def test_an_address_is_a_server() -> None:
    lm = open_lm("http://localhost:8000/v1#qwen")
    assert isinstance(lm, RemoteLM) and lm.name == "qwen" and lm.server.base_url == "http://localhost:8000/v1"
    with pytest.raises(BadRecipe, match="#NAME"):
        open_lm("http://localhost:8000/v1")


def test_every_option_of_a_server_arrives() -> None:
    table = {
        "url": "https://api.example.com/v1", "model": "big", "api": "completions", "key_env": "KEY", "system": "Be brief.",
        "dialect": "vllm", "echo": True, "embeds": True, "top_logprobs": 7, "context_tokens": 900,
        "max_tokens_field": "max_completion_tokens", "extra": {"top_k": 1}, "identity": "v7", "concurrency": 3,
        "timeout_seconds": 9, "give_up_after": 2, "backoff": {"attempts": 2},
        "rates": {"requests_per_minute": 60}, "budget": {"cost": 5.0}, "price": {"prompt_per_million": 0.2},
    }  # fmt: skip
    assert set(table) == set(OPTIONS["remote"]) - {"backend", "cache", "cache_bytes"}
    lm = open_lm(table)
    assert isinstance(lm, RemoteLM)
    for field in fields(Server):
        assert getattr(lm.server, field.name) == table["url" if field.name == "base_url" else field.name], field.name
    assert (lm.concurrency, lm.timeout_seconds, lm.give_up_after, lm.backoff.attempts) == (3, 9, 2, 2)
    assert lm._ledger.budget == Budget(cost=5.0) and lm._ledger.price == Price(0.2)
    assert Rates(requests_per_minute=60).requests_per_minute == 60


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"path": "m", "colour": 1}, "unknown key 'colour'; a local model has backend, batch_tokens, bits"),
        ({"path": "m", "key_env": "K"}, "a local model has"),
        ({"url": "http://h/v1", "model": "m", "device": "cpu"}, "a remote model has"),
        ({"url": "http://h/v1"}, "a remote model needs model"),
        ({"chat": True}, "a local model needs path"),
        ({"path": "m", "backend": "magic"}, "backend is one of local, vllm, remote, got 'magic'"),
        ({"path": "m", "dtype": "float64"}, "'dtype' is one of float32, bfloat16, float16, got 'float64'"),
        ({"path": "m", "bits": 5}, "'bits' is one of 4, 8, got 5"),
        ({"path": "m", "chat": "yes"}, "'chat' must be bool, got 'yes'"),
        ({"path": "m", "batch_tokens": True}, "'batch_tokens' must be int, got True"),
        ({"url": "http://h/v1", "model": "m", "price": {"prompt": 1}}, r"\[model.price\]: unknown key 'prompt'"),
        ({"url": "http://h/v1", "model": "m", "price": {}}, r"\[model.price\].*prompt_per_million"),
        ({"url": "http://h/v1", "model": "m", "rates": {"requests_per_minute": "many"}}, "must be a number, got 'many'"),
    ],
)
def test_what_cannot_be_meant_is_named(table: dict[str, Any], says: str) -> None:
    with pytest.raises(BadRecipe, match=says):
        open_lm(table)


def test_a_key_in_the_address_is_refused() -> None:
    with pytest.raises(BadQuery, match="no user or password"):
        open_lm({"url": "http://me:secret@host/v1", "model": "m"})


def test_options_are_those_of_the_constructors() -> None:
    from typecase.lm.local import LocalLM
    from typecase.lm.vllm import VllmLM

    apart = {"backend", "cache", "cache_bytes"}
    for kind, made in (("local", LocalLM), ("vllm", VllmLM)):
        assert set(OPTIONS[kind]) - apart <= set(signature(made.__init__).parameters), kind  # type: ignore[index, misc]


def test_a_local_model_is_never_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def dials(*_: object, **__: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "create_connection", dials)
    monkeypatch.setattr(socket.socket, "connect", dials)
    for spec in (str(tmp_path / "none"), "no-such-owner/no-such-model", "none.gguf"):
        with pytest.raises(NotFound, match="there is no model at"):
            open_lm(spec)


def test_a_missing_library_names_its_extra(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from tests.lm.tiny import make_tiny

    try:
        import vllm  # type: ignore[import-not-found]  # noqa: F401
    except ImportError:
        with pytest.raises(NeedsExtra, match=r"typecase\[vllm\]"):
            open_lm({"path": str(make_tiny(tmp_path / "tiny")), "backend": "vllm"})


def test_a_cache_wraps_any_model_and_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    table = {"url": "http://h/v1", "model": "m", "cache": "answers.db", "cache_bytes": 1 << 20}
    lm = open_lm(table, where=tmp_path)
    assert isinstance(lm, CachedLM) and lm.cache.path == tmp_path / "answers.db" and lm.cache.size_bytes == 1 << 20
    assert lm.fingerprint == open_lm("http://h/v1#m").fingerprint
    lm.cache.close()
    other = open_lm(table, where=tmp_path, cache=tmp_path / "mine.db")
    assert isinstance(other, CachedLM) and other.cache.path == tmp_path / "mine.db"
    other.cache.close()


def test_a_folder_a_relative_folder_and_options_of_a_local_model(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from tests.lm.tiny import make_tiny
    from typecase.lm.local import LocalLM

    make_tiny(tmp_path / "tiny")
    plain = open_lm(tmp_path / "tiny")
    chat = open_lm({"path": "tiny", "chat": True, "device": "cpu", "batch_tokens": 99}, where=tmp_path)
    assert isinstance(plain, LocalLM) and isinstance(chat, LocalLM)
    assert plain.name == chat.name == "tiny" and plain.fingerprint != chat.fingerprint


def test_importing_opens_nothing() -> None:
    assert not hasattr(models, "torch") and table_of("a/b") == {"path": "a/b"}
