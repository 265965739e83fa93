"""The engines: text to ids by tiktoken, by the tokenizers library, or by both behind a guard.

    RankEngine     tiktoken over a table of ranks; 14 MB/s on one core
    JsonEngine     the tokenizers library; 3 MB/s on one core
    GuardedEngine  tiktoken for the texts that a proof covers, the library for the rest; 12 MB/s

All encode one text at a time and release the interpreter lock while they do, so a batch scales by threads (1.75 times on
two cores) and the workers of a process pool need none. No environment variable is read or set.

Text that spells a special token stays text in `encode`; `encode_special` turns it into the token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt
import tiktoken
import tokenizers

from typecase.errors import BadQuery, CorruptStore, FixInput
from typecase.store.tokenizer.known import Pattern
from typecase.store.tokenizer.proof import FastPlan

Ids = npt.NDArray[np.int32]

# tiktoken looks for special tokens even when it has none, and then byte by byte; with one that is never found it is 1.6 times
# as fast. Text that spells it is text all the same.
_NO_SPECIAL = "\0no special token\0"


class Engine(Protocol):
    """Turns a text into ids; `name` is the library that does."""

    name: str

    def encode(self, text: str) -> Ids:
        """Ids (tokens,) of `text`. Raises FixInput, naming the cause, when the text cannot be encoded."""
        ...

    def encode_special(self, text: str) -> Ids:
        """As `encode`, with the special tokens that `text` spells as their ids."""
        ...


class RankEngine:
    """tiktoken over `table`, token bytes to rank; `ids` maps ranks to ids where they differ."""

    name = "tiktoken"

    def __init__(
        self,
        table: Mapping[bytes, int],
        pattern: Pattern | str,
        special_tokens: Mapping[str, int],
        ids: Ids | None = None,
    ) -> None:
        self._pattern = pattern
        self._ids = None if ids is None or np.array_equal(ids, np.arange(len(ids))) else ids
        self._special = frozenset(special_tokens)
        free = max([*table.values(), *special_tokens.values()]) + 1
        try:
            self._encoding = tiktoken.Encoding(
                "typecase",
                pat_str=pattern if isinstance(pattern, str) else pattern.fast,
                mergeable_ranks=dict(table),
                special_tokens={**(special_tokens or {_NO_SPECIAL: free})},
            )
        except ValueError as error:
            raise BadQuery(f"the pattern {pattern!r} is no regular expression that tiktoken takes: {error}") from error

    def encode(self, text: str) -> Ids:
        return self._encode(text, frozenset())

    def encode_special(self, text: str) -> Ids:
        return self._encode(text, self._special)

    def _encode(self, text: str, allowed: frozenset[str]) -> Ids:
        try:
            ranks = self._encoding.encode_to_numpy(text, allowed_special=allowed, disallowed_special=())
        except UnicodeEncodeError as error:
            raise FixInput(_surrogate(error)) from error
        except _errors(ValueError) as error:
            parts = [text] if isinstance(self._pattern, str) else self._pattern.parts(text)
            if len(parts) == 1:
                raise FixInput(f"tiktoken gave up: {_first_line(error)}") from error
            return np.concatenate([self._encode(part, allowed) for part in parts])
        return ranks.view(np.int32) if self._ids is None else self._ids[ranks]


class JsonEngine:
    """The tokenizers library; truncation, padding and what its post-processor would add are left out."""

    name = "tokenizers"

    def __init__(self, definition: bytes, where: str) -> None:
        """`definition` is the JSON of a tokenizer.json; `where` it lies, for errors."""
        self._definition = definition
        self._where = where
        self.library = self._open(plain=True)
        self._with_special: tokenizers.Tokenizer | None = None

    def encode(self, text: str) -> Ids:
        return _library_ids(self.library, text)

    def encode_special(self, text: str) -> Ids:
        if self._with_special is None:
            self._with_special = self._open(plain=False)
        return _library_ids(self._with_special, text)

    def _open(self, *, plain: bool) -> tokenizers.Tokenizer:
        # The switch is a property of the object, shared by all threads: hence two objects, the second made when asked for.
        try:
            library = tokenizers.Tokenizer.from_buffer(self._definition)
        except ValueError as error:
            version = tokenizers.__version__
            raise CorruptStore(
                f"{self._where} is no tokenizer that tokenizers {version} can read: {_first_line(error)}"
            ) from error
        library.no_truncation()
        library.no_padding()
        library.encode_special_tokens = plain
        return library


class GuardedEngine:
    """tiktoken under a proven plan; the library, opened beforehand, for the texts that the guard does not admit."""

    name = "tiktoken"

    def __init__(self, plan: FastPlan, library: JsonEngine) -> None:
        self.guard = plan.guard
        self._library = library
        self._fast = RankEngine(plan.table, plan.pattern, {}, plan.ids)

    def encode(self, text: str) -> Ids:
        return self._encode(text, self._library.encode)

    def encode_special(self, text: str) -> Ids:
        # A text that the guard admits spells no special token, so both ways give the same.
        return self._encode(text, self._library.encode_special)

    def _encode(self, text: str, by_library: Callable[[str], Ids]) -> Ids:
        if not self.guard.admits(text):
            return by_library(text)
        try:
            return self._fast.encode(text)
        except FixInput:  # too long a run for tiktoken, or a text that neither takes; the library knows
            return by_library(text)


def _library_ids(library: tokenizers.Tokenizer, text: str) -> Ids:
    # A batch of one runs on one thread whatever RAYON_NUM_THREADS says, and skips the offsets that `encode` computes.
    try:
        return np.array(library.encode_batch_fast([text], add_special_tokens=False)[0].ids, np.int32)
    except TypeError as error:
        try:
            text.encode()
        except UnicodeEncodeError as cause:
            raise FixInput(_surrogate(cause)) from error
        raise
    except _errors(Exception) as error:
        if isinstance(error, Exception) and type(error) is not Exception:  # the library raises the bare class
            raise
        raise FixInput(f"tokenizers gave up: {_first_line(error)}") from error


def _errors(*classes: type[Exception]) -> tuple[type[BaseException], ...]:
    """`classes` and what a Rust extension raises when it panics: a class made when it first does, found nowhere else."""
    return (*classes, *(cls for cls in BaseException.__subclasses__() if cls.__name__ == "PanicException"))


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _surrogate(error: UnicodeEncodeError) -> str:
    return f"a lone surrogate U+{ord(error.object[error.start]):04X} at character {error.start}, which no UTF-8 can hold"
