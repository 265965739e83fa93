"""The wire: what is sent to an OpenAI-compatible server, and how its replies are read.

    chat          POST /chat/completions   messages                    -> choices[0].message.content
    completions   POST /completions        prompt (echo for scores)    -> choices[0].text
    embeddings    POST /embeddings         input                       -> data[0].embedding

Servers agree on these and differ in how a form is forced and how log-probabilities are laid out; both layouts are read:
{"content": [{"token", "logprob", "top_logprobs"}]} and {"tokens", "token_logprobs", "top_logprobs", "text_offset"}.
Whatever else a reply holds is `Malformed`, never a guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import orjson

from typecase.lm.protocol import Answer, Failure, Form, FormKind, Generation, Scores, Vector

Dialect = Literal["openai", "vllm", "vllm-guided", "llama.cpp"]
FORMS: Mapping[Dialect, frozenset[FormKind]] = {
    "openai": frozenset(("json_schema",)),
    "vllm": frozenset(("json_schema", "grammar", "regex", "choice")),
    "vllm-guided": frozenset(("json_schema", "grammar", "regex", "choice")),
    "llama.cpp": frozenset(("json_schema", "grammar")),
}
"""The forms that each kind of server can force."""

Json = dict[str, Any]


class Malformed(Exception):
    """A reply that is not what the interface promises."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the server counted them."""

    prompt_tokens: int
    completion_tokens: int


def form_fields(form: Form, dialect: Dialect) -> Json:
    """The fields that make a server of `dialect` keep to `form`."""
    value = orjson.loads(form.body) if form.kind in ("json_schema", "choice") else form.body
    if dialect == "vllm":
        return {"structured_outputs": {"json" if form.kind == "json_schema" else form.kind: value}}
    if dialect == "vllm-guided":
        return {"guided_json" if form.kind == "json_schema" else f"guided_{form.kind}": value}
    if form.kind == "grammar":
        return {"grammar": value}
    schema = {"name": "answer", "schema": value, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def generate_body(prompt: str, wanted: Generation, *, chat: bool, system: str, dialect: Dialect, max_tokens_field: str) -> Json:
    """The request of one generated answer, without the model's name."""
    body: Json = {max_tokens_field: wanted.max_tokens, "temperature": wanted.temperature, "seed": wanted.seed}
    if chat:
        opening = [{"role": "system", "content": system}] if system else []
        body["messages"] = [*opening, {"role": "user", "content": prompt}]
    else:
        body["prompt"] = prompt
    if wanted.stop:
        body["stop"] = list(wanted.stop)
    if wanted.form:
        fields = form_fields(wanted.form, dialect)
        if dialect == "llama.cpp" and not chat and wanted.form.kind == "json_schema":
            fields = {"json_schema": orjson.loads(wanted.form.body)}
        body |= fields
    if wanted.top_logprobs:
        body |= {"logprobs": True, "top_logprobs": wanted.top_logprobs} if chat else {"logprobs": wanted.top_logprobs}
    return body


def read_usage(reply: Json) -> Usage | None:
    """The token counts of a reply; None if it has none."""
    usage = reply.get("usage")
    if not isinstance(usage, dict) or not isinstance(usage.get("prompt_tokens"), int):
        return None
    completion = usage.get("completion_tokens")
    return Usage(usage["prompt_tokens"], completion if isinstance(completion, int) else 0)


def read_answer(reply: Json, wanted: Generation, usage: Usage) -> Answer | Failure:
    """The generated text of a reply."""
    choice = _first(reply, "choices")
    message = choice.get("message")
    text = message.get("content") if isinstance(message, dict) else choice.get("text")
    finish = choice.get("finish_reason")
    if finish == "content_filter" or (isinstance(message, dict) and message.get("refusal")):
        return Failure("refused", f"the server declined: {str((message or {}).get('refusal') or finish)[:200]}")
    if not isinstance(text, str) or finish not in ("stop", "length"):
        raise Malformed(f"a choice with a text and finish_reason stop or length was promised, got {_short(choice)}")
    logprobs, top = _logprobs(choice.get("logprobs"), wanted.top_logprobs)
    if wanted.top_logprobs and logprobs is None and usage.completion_tokens:
        return Failure("no_logprobs", "the server told no log-probabilities; ask without top_logprobs, or take another server")
    return Answer(text, finish, usage.prompt_tokens, usage.completion_tokens, logprobs, top)


def _logprobs(found: Any, most: int) -> tuple[Any, tuple[tuple[tuple[str, float], ...], ...]]:
    if not isinstance(found, dict):
        return None, ()
    try:
        if isinstance(found.get("content"), list):
            tokens = found["content"]
            logprobs = [token["logprob"] for token in tokens]
            tops = [[(t["token"], t["logprob"]) for t in token.get("top_logprobs") or []] for token in tokens]
        else:
            logprobs = found["token_logprobs"]
            tops = [list(token.items()) for token in found.get("top_logprobs") or []]
        ranked = (sorted(token, key=lambda pair: -pair[1])[:most] for token in tops)
        top = tuple(tuple((str(text), float(value)) for text, value in token) for token in ranked)
        return np.array(logprobs, np.float32), top if most else ()
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Malformed(f"log-probabilities in no known layout ({error!r}): {_short(found)}") from None


def read_echo(reply: Json, text: str, usage: Usage) -> tuple[Scores, list[int]] | Failure:
    """The scores of an echoed text, and where each scored token ends in it, in characters."""
    found = _first(reply, "choices").get("logprobs")
    if not isinstance(found, dict) or not isinstance(found.get("token_logprobs"), list):
        return Failure("no_logprobs", "the server does not echo log-probabilities of the prompt; it cannot score texts")
    try:
        offsets, logprobs, tokens = found["text_offset"], found["token_logprobs"], found["tokens"]
        inside = [k for k, offset in enumerate(offsets) if offset < len(text)]
        if not inside or offsets[inside[-1]] + len(tokens[inside[-1]]) < len(text):
            return Failure("no_logprobs", f"the server echoed {len(inside)} tokens, which do not make up the text")
        unscored = int(logprobs[0] is None)
        values = np.array([logprobs[k] for k in inside[unscored:]], np.float32)
        ends = [*(int(offset) for offset in offsets[1 : len(inside)]), len(text)][unscored:]
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise Malformed(f"echoed log-probabilities in no known layout ({error!r}): {_short(found)}") from None
    if np.isnan(values).any():
        raise Malformed("an echoed token beside the first has no log-probability")
    return Scores(values, len(inside), unscored), ends


def read_vector(reply: Json, usage: Usage) -> Vector:
    """The embedding of a reply."""
    values = _first(reply, "data").get("embedding")
    try:
        vector = np.array(values, np.float32)
    except (TypeError, ValueError):
        vector = np.empty(0, np.float32)
    if vector.ndim != 1 or not len(vector):
        raise Malformed(f"an embedding is a list of numbers, got {_short(values)}")
    return Vector(vector, usage.prompt_tokens)


def read_json(content: bytes) -> Json:
    """A reply's body as a JSON object."""
    try:
        reply = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise Malformed(f"the reply is no JSON ({error}): {content[:80]!r}") from None
    if not isinstance(reply, dict):
        raise Malformed(f"the reply is no JSON object: {content[:80]!r}")
    return reply


def _first(reply: Json, name: str) -> Json:
    rows = reply.get(name)
    if not isinstance(rows, list) or not rows or not isinstance(rows[0], dict):
        raise Malformed(f"the reply has no '{name}': {_short(reply)}")
    return rows[0]


def _short(value: object) -> str:
    return repr(value)[:160]
