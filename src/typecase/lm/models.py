"""Models: any language model by its name, its address, or a [model] table.

    open_lm("models/qwen3-4b")                             a checkpoint folder, a .gguf file       -> LocalLM
    open_lm("owner/name")                                  a hub id that was downloaded before     -> LocalLM
    open_lm("http://localhost:8000/v1#qwen3-32b")          any OpenAI-compatible server            -> RemoteLM
    open_lm({"path": "models/q", "backend": "vllm"})       a mapping has every option              -> VllmLM

    [model]
    url = "https://api.example.com/v1"
    model = "big-one"
    key_env = "API_KEY"                                    the name of a variable, never the key
    price = { prompt_per_million = 0.2, completion_per_million = 0.6 }
    budget = { cost = 5.0 }
    cache = "answers.db"

Nothing is guessed: an option that the kind of model does not have is refused, and the message names those it has. A local
model is never fetched: a hub id is looked up in the hub's own cache on this disk alone. Paths in a table are relative to
`where`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

from typecase.errors import BadRecipe
from typecase.lm.pace import Backoff, Budget, Price, Rates
from typecase.lm.protocol import LM

Kind = Literal["local", "vllm", "remote"]
Types = tuple[type, ...]

_TEXT: Types = (str,)
_WHOLE: Types = (int,)
_NUMBER: Types = (int, float)
_FLAG: Types = (bool,)
_TABLE: Types = (dict,)

_COMMON: Mapping[str, Types] = {"backend": _TEXT, "system": _TEXT, "cache": _TEXT, "cache_bytes": _WHOLE}
OPTIONS: Mapping[Kind, Mapping[str, Types]] = {
    "local": {
        **_COMMON,
        "path": _TEXT,
        "device": _TEXT,
        "dtype": _TEXT,
        "bits": _WHOLE,
        "chat": _FLAG,
        "start_token": _TEXT,
        "batch_tokens": _WHOLE,
    },
    "vllm": {**_COMMON, "path": _TEXT, "chat": _FLAG, "engine": _TABLE, "top_logprobs": _WHOLE},
    "remote": {
        **_COMMON,
        "url": _TEXT,
        "model": _TEXT,
        "api": _TEXT,
        "key_env": _TEXT,
        "dialect": _TEXT,
        "echo": _FLAG,
        "embeds": _FLAG,
        "top_logprobs": _WHOLE,
        "context_tokens": _WHOLE,
        "max_tokens_field": _TEXT,
        "extra": _TABLE,
        "identity": _TEXT,
        "concurrency": _WHOLE,
        "timeout_seconds": _NUMBER,
        "give_up_after": _WHOLE,
        "backoff": _TABLE,
        "rates": _TABLE,
        "budget": _TABLE,
        "price": _TABLE,
    },
}
"""Every option of every kind of model, and the types that it may have."""

_CHOICES: Mapping[str, tuple[Any, ...]] = {
    "backend": ("local", "vllm", "remote"),
    "dtype": ("float32", "bfloat16", "float16"),
    "bits": (4, 8),
    "api": ("chat", "completions"),
    "dialect": ("openai", "vllm", "vllm-guided", "llama.cpp"),
}
_PARTS: Mapping[str, Callable[..., Any]] = {"rates": Rates, "budget": Budget, "price": Price, "backoff": Backoff}
_OF_CLIENT = ("concurrency", "timeout_seconds", "give_up_after", *_PARTS)


def open_lm(spec: str | Path | Mapping[str, Any], *, cache: Path | None = None, where: Path | None = None) -> LM:
    """The model that `spec` names, behind the answer cache `cache` if one is given here or in the table.

    Raises BadRecipe for a table that cannot be meant, NotFound where there is no model, NeedsExtra where a library is missing.
    """
    table = table_of(spec)
    kind = kind_of(table)
    _check(table, kind)
    base = where or Path()
    lm = {"local": _local, "vllm": _vllm, "remote": _remote}[kind](table, base)
    kept = cache if cache is not None else base / table["cache"] if "cache" in table else None
    return lm if kept is None else _cached(lm, kept, table)


def table_of(spec: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    """`spec` as a [model] table: a path or hub id, or an address with the model's name behind #."""
    if isinstance(spec, Mapping):
        return dict(spec)
    text = str(spec)
    if not text.startswith(("http://", "https://")):
        return {"path": text}
    url, _, model = text.partition("#")
    if not model:
        raise BadRecipe(f"{text} names a server but no model: write the model's name behind it, {url}#NAME")
    return {"url": url, "model": model}


def kind_of(table: Mapping[str, Any]) -> Kind:
    """Which kind of model a table describes."""
    backend = table.get("backend", "remote" if "url" in table else "local")
    if backend not in OPTIONS:
        raise BadRecipe(f"[model]: backend is one of {', '.join(OPTIONS)}, got {backend!r}")
    needed = ("url", "model") if backend == "remote" else ("path",)
    if missing := [key for key in needed if key not in table]:
        raise BadRecipe(f"[model]: a {backend} model needs {' and '.join(missing)}; give path, or url and model")
    kind: Kind = backend
    return kind


def _check(table: Mapping[str, Any], kind: Kind) -> None:
    known = OPTIONS[kind]
    for key, value in table.items():
        if key not in known:
            raise BadRecipe(f"[model]: unknown key '{key}'; a {kind} model has {', '.join(sorted(known))}")
        fits = isinstance(value, known[key]) and (bool in known[key] or not isinstance(value, bool))
        if not fits:
            raise BadRecipe(f"[model]: '{key}' must be {' or '.join(t.__name__ for t in known[key])}, got {value!r}")
        if key in _CHOICES and value not in _CHOICES[key]:
            raise BadRecipe(f"[model]: '{key}' is one of {', '.join(map(str, _CHOICES[key]))}, got {value!r}")


def _local(table: Mapping[str, Any], base: Path) -> LM:
    from typecase.lm.local import LocalLM

    return LocalLM(_placed(table["path"], base), **_given(table, "local", but=("path",)))


def _vllm(table: Mapping[str, Any], base: Path) -> LM:
    from typecase.lm.vllm import VllmLM

    return VllmLM(_placed(table["path"], base), **_given(table, "vllm", but=("path",)))


def _remote(table: Mapping[str, Any], base: Path) -> LM:
    from typecase.lm.remote import RemoteLM, Server

    server = Server(base_url=table["url"], **_given(table, "remote", but=("url", *_OF_CLIENT)))
    client = {key: table[key] for key in _OF_CLIENT if key in table and key not in _PARTS}
    client |= {key: _part(key, table[key]) for key in _PARTS if key in table}
    return RemoteLM(server, **client)


def _given(table: Mapping[str, Any], kind: Kind, *, but: tuple[str, ...]) -> dict[str, Any]:
    """The options that go to the model's own constructor."""
    apart = {"backend", "cache", "cache_bytes", *but}
    return {key: table[key] for key in OPTIONS[kind] if key in table and key not in apart}


def _placed(path: str, base: Path) -> str:
    """`path` beside the file that names it, if something lies there; else as it is (absolute, or a hub id)."""
    beside = base / path
    return str(beside) if beside.exists() else path


def _part(key: str, table: Mapping[str, Any]) -> Any:
    kind = _PARTS[key]
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    if unknown := sorted(set(table) - set(known)):
        raise BadRecipe(f"[model.{key}]: unknown key '{unknown[0]}'; known are {', '.join(known)}")
    wrong = [name for name, value in table.items() if not isinstance(value, str if name == "currency" else int | float)]
    if wrong:
        raise BadRecipe(f"[model.{key}]: '{wrong[0]}' must be a number, got {table[wrong[0]]!r}")
    try:
        return kind(**table)
    except TypeError as error:
        raise BadRecipe(f"[model.{key}]: {error}; known are {', '.join(known)}") from None


def _cached(lm: LM, path: Path, table: Mapping[str, Any]) -> LM:
    from typecase.lm.cache import AnswerCache, CachedLM

    size = {"size_bytes": table["cache_bytes"]} if "cache_bytes" in table else {}
    return CachedLM(lm, AnswerCache(path, **size))
