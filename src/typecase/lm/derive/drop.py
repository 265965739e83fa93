"""A teacher by post: requests are written to a file, replies are read from another. Anyone may answer, in any way.

    requests.jsonl   {"id": "…", "prompt": "…", "max_tokens": 400, "form": {…}}      a line for each request without a reply
    replies.jsonl    {"id": "…", "reply": "…"}                                       filled in by whoever answers

A request without a reply is a failure of kind `timeout`: what asked knows that it has to wait. An id is a hash of the request,
so a reply stays good however often it is asked for.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from typecase.errors import BadQuery
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
    require,
)

REQUESTS, REPLIES = "requests.jsonl", "replies.jsonl"


class PostedLM:
    """An LM that generates what replies.jsonl in `folder` says, and asks for the rest in requests.jsonl."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self._replies = _read_replies(self.folder / REPLIES)
        self._open: dict[str, dict[str, Any]] = {}

    @property
    def name(self) -> str:
        """ "posted"."""
        return "posted"

    @property
    def fingerprint(self) -> str:
        """The same for all: a reply is known by its request alone."""
        return fingerprint_of("posted", 1)

    @property
    def can(self) -> Can:
        """Generate, in any JSON form: whoever answers is told the schema."""
        return Can(generate=True, forms=frozenset(("json_schema",)))

    @property
    def waiting(self) -> int:
        """Requests of this run without a reply."""
        return len(self._open)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Words, for want of a tokenizer."""
        return [len(text.split()) for text in texts]

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
        """The reply to each prompt; requests.jsonl holds all open ones when the last result was taken."""
        wanted = Generation.checked(self, max_tokens, seed, stop, temperature, form, top_logprobs)
        return self._each(no_string(prompts), wanted)

    def score(self, texts: Iterable[str]) -> Iterator[Scores | Failure]:
        """Refused."""
        require(self, "score")
        return iter(())

    def score_continuations(
        self, prompts: Iterable[str], continuations: Iterable[Sequence[str]]
    ) -> Iterator[Choices | Failure]:
        """Refused."""
        require(self, "continuations")
        return iter(())

    def embed(self, texts: Iterable[str]) -> Iterator[Vector | Failure]:
        """Refused."""
        require(self, "embed")
        return iter(())

    def _each(self, prompts: Iterable[str], wanted: Generation) -> Iterator[Answer | Failure]:
        form = json.loads(wanted.form.body) if wanted.form else None
        for prompt in prompts:
            key = fingerprint_of(prompt, wanted.max_tokens, form, list(wanted.stop), wanted.temperature, wanted.seed)
            reply = self._replies.get(key)
            if reply is not None:
                yield Answer(reply, "stop", len(prompt.split()), len(reply.split()))
                continue
            self._open[key] = {"id": key, "prompt": prompt, "max_tokens": wanted.max_tokens, "form": form}
            yield Failure("timeout", f"no reply yet to request {key} in {self.folder / REPLIES}")
        self._write()

    def _write(self) -> None:
        path = self.folder / REQUESTS
        if not self._open:
            path.unlink(missing_ok=True)
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        lines = (json.dumps(request, ensure_ascii=False) + "\n" for request in self._open.values())
        temporary.write_text("".join(lines), "utf-8")
        temporary.replace(path)


def _read_replies(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    found: dict[str, str] = {}
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            found[str(row["id"])] = row["reply"] if isinstance(row["reply"], str) else json.dumps(row["reply"])
        except (json.JSONDecodeError, KeyError, TypeError):
            raise BadQuery(f'{path}, line {number} is no reply: it must be {{"id": "…", "reply": "…"}}') from None
    return found
