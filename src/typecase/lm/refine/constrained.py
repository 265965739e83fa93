"""Constrained decoding: a local model writes, and only programs of the chunk can come out.

    prompts, automata ─► batches ─► model ─► logits ─► the likeliest token that the row's automaton allows ─► text

`Guided` runs are greedy. A program ends where the model says so or where nothing is left to say, never because its tokens
ran out: the automaton keeps back what the shortest ending takes. What the model wanted is kept beside what it got: the
log-probability of each token among all tokens, and how often the likeliest one was not allowed (`moved`).

The bytes of the tokens come from the tokenizer's own table, and a probe proves them: byte-level BPE (GPT-2, Llama 3, Qwen,
SmolLM) and SentencePiece with byte tokens (Llama 2, Gemma, Mistral).

Price: a fraction of a millisecond a row and step for the automaton, beside one pass of the model for all rows. Only models
of this machine: a server does not show its logits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from typecase.core.program.decoding import Automaton, State
from typecase.core.program.decoding_tokens import Vocabulary, allowed, take, vocabulary_of
from typecase.errors import BadQuery, FixInput
from typecase.lm.local import LocalLM
from typecase.lm.protocol import F32, LM, Failure

I32 = npt.NDArray[np.int32]
_PROBE: Final = 'remove_str(line=12, text="Über — 中文 \\"x\\"")\nkeep_all()'
_BYTE_TOKEN: Final = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE: Final = "\u2581"


@dataclass(frozen=True, slots=True, eq=False)
class Constrained:
    """A program as it was written.

    logprobs   float32 (tokens,)  log-probability of each token among all tokens, the end token aside
    chances    float32 (tokens,)  among those that were allowed
    sizes      bytes of each token
    moved      tokens, the end token included, for which the model would rather have written one that was not allowed
    """

    text: str
    logprobs: F32
    chances: F32
    sizes: tuple[int, ...]
    prompt_tokens: int
    moved: int

    @property
    def num_tokens(self) -> int:
        """Tokens written, the end token aside."""
        return len(self.sizes)

    def line_logprobs(self) -> list[float]:
        """Mean log-probability of the tokens that begin in each line, statement by statement."""
        lines = self.text.encode().split(b"\n")
        ends = np.cumsum([len(line) + 1 for line in lines])
        begins = np.concatenate(([0], np.cumsum(self.sizes)))[:-1]
        of_line = np.minimum(np.searchsorted(ends, begins, side="right"), len(lines) - 1)
        sums = np.bincount(of_line, self.logprobs, len(lines))
        counts = np.bincount(of_line, minlength=len(lines))
        # A token may hold all of a short line that begins in it: such a line counts as that token.
        means = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
        for at in np.flatnonzero(np.isnan(means)):
            means[at] = means[at - 1]
        return [float(value) for value in means]


class Constrainer:
    """A local model that writes valid programs only."""

    def __init__(self, lm: LM) -> None:
        self.lm = local_of(lm)
        tokens = token_bytes(self.lm.tokenizer, self.lm.vocabulary_size)
        self.vocabulary: Vocabulary = vocabulary_of(tokens, sorted(self.lm.ends))

    def write(self, rows: Iterable[tuple[str, Automaton]], *, max_tokens: int) -> Iterator[Constrained | Failure]:
        """A program for each prompt, in order; at most `max_tokens` tokens with the end token.

        Raises BadQuery where not even the shortest program fits.
        """
        made = ((prompt, self._maker(automaton, max_tokens)) for prompt, automaton in rows)
        for found in self.lm.generate_guided(made, max_tokens=max_tokens):
            if isinstance(found, Failure):
                yield found
                continue
            prompt_tokens, own = found
            parts = [self.vocabulary.tokens[k] or b"" for k in own.ids]
            yield Constrained(
                b"".join(parts).decode(),
                np.array(own.logprobs, np.float32),
                np.array(own.chances, np.float32),
                tuple(len(part) for part in parts),
                prompt_tokens,
                own.moved,
            )

    def _maker(self, automaton: Automaton, max_tokens: int) -> Callable[[], _Run]:
        least = automaton.need(automaton.start) + 1
        if max_tokens < least:
            raise BadQuery(f"max_tokens is {max_tokens}, and the shortest program may take {least}: allow more tokens")
        return lambda: _Run(automaton, self.vocabulary, automaton.start)


@dataclass(slots=True)
class _Run:
    """One program on its way."""

    automaton: Automaton
    vocabulary: Vocabulary
    state: State

    def allowed(self, left: int) -> I32:
        """See writing.Guide."""
        return allowed(self.automaton, self.state, self.vocabulary, left)

    def take(self, token: int) -> None:
        """See writing.Guide."""
        after = take(self.automaton, self.state, self.vocabulary.tokens[token] or b"")
        assert after is not None  # it was among those allowed
        self.state = after


def local_of(lm: LM) -> LocalLM:
    """The local model behind `lm` and its answer cache. Raises FixInput if it is none."""
    own: Any = lm
    while not isinstance(own, LocalLM) and hasattr(own, "lm"):
        own = own.lm
    if not isinstance(own, LocalLM):
        raise FixInput(
            f"{lm.name} does not run here, so its answers cannot be constrained token by token: take a model of this machine "
            "(path), or ask it unconstrained (constrained = false)"
        )
    return own


def token_bytes(tokenizer: Any, size: int) -> list[bytes | None]:
    """The bytes of each id below `size`; None for special tokens and ids without a token. Raises FixInput, see the module."""
    added = tokenizer.added_tokens_decoder
    names: Sequence[str | None] = tokenizer.convert_ids_to_tokens(list(range(min(size, len(tokenizer)))))
    plain = [name for k, name in enumerate(names) if name is not None and k not in added]
    read = _of_pieces if any(_BYTE_TOKEN.fullmatch(name) for name in plain) else _of_bytes()
    found: list[bytes | None] = [None] * size
    for k, name in enumerate(names):
        if k in added:
            found[k] = None if added[k].special else added[k].content.encode()
        elif name is not None:
            found[k] = read(name)
    _prove(tokenizer, found)
    return found


def _of_pieces(name: str) -> bytes:
    """SentencePiece: a mark for the blank, byte tokens by their number."""
    if match := _BYTE_TOKEN.fullmatch(name):
        return bytes([int(match[1], 16)])
    return name.replace(_SPACE, " ").encode()


def _of_bytes() -> Callable[[str], bytes | None]:
    """Byte-level BPE: every byte is written as a printable character, by the table of GPT-2."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in printable]
    table = {chr(b): b for b in printable} | {chr(256 + k): b for k, b in enumerate(rest)}

    def read(name: str) -> bytes | None:
        values = [table.get(char) for char in name]
        return None if None in values else bytes(v for v in values if v is not None)

    return read


def _prove(tokenizer: Any, found: Sequence[bytes | None]) -> None:
    ids = tokenizer(_PROBE, add_special_tokens=False)["input_ids"]
    said = b"".join((found[k] if k < len(found) else None) or b"" for k in ids)
    if said.removeprefix(b" ") != _PROBE.encode():  # SentencePiece puts a blank before a text
        raise FixInput(
            "the tokenizer's tokens cannot be read as bytes (neither byte-level BPE nor SentencePiece with byte tokens), so "
            "decoding cannot be constrained: set constrained = false"
        )
