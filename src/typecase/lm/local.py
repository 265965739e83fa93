"""LocalLM: a causal language model on this machine, through transformers, CPU or GPU. Never the network.

    lm = LocalLM("models/smollm2", dtype="bfloat16")          safetensors; a .gguf file is made dense while it loads

    rows ─► window of 512 ─► token ids ─► by length ─► batches of batch_tokens ─► forward ─► results, in order
                                              └── does not fit the context: Failure("too_long")

A text begins with the start token (the tokenizer's BOS unless `start_token` names another; none if it has none). With
`chat=True` a prompt is one user message after `system`, in the model's own template. In `score` and `embed` a special
token that is spelled out in a text is text, and so it is in a chat message, which it cannot end; in a prompt without chat
it is the token, so that a form may use it. A continuation's ids are
those that prompt and continuation have together after the prompt's own; if the two melt, its ids alone. Prompts that
begin alike (instruction, rubric) are computed once. Results do not depend on the batch beyond rounding: in float32
about 1e-5 in a log-probability, in bfloat16 about 0.05, enough to turn a near tie.

Price: padded tokens of a batch are at most `batch_tokens`; memory is the weights, a batch's cache and 64 MB of logits.
When a GPU's memory runs out, the batch is halved. The weights are hashed once on load (1 s for a few GB).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from typecase.errors import BadQuery, NeedsExtra
from typecase.lm.model_files import find_model, hash_model
from typecase.lm.protocol import (
    Answer,
    Can,
    Choices,
    Failure,
    Form,
    Generation,
    Scores,
    Vector,
    draw_key,
    fingerprint_of,
    no_string,
    pairs_of,
    require,
    windows,
)
from typecase.lm.slots import Filled, Slot

if TYPE_CHECKING:
    from typecase.lm.forward import Forward
    from typecase.lm.writing import Guide, Guided, Written

R = TypeVar("R")
Row = TypeVar("Row")
_TOP_LOGPROBS = 1000
_SLOT = "[here is the message]"


class LocalLM:
    """A causal LM of this machine."""

    def __init__(
        self,
        path: Path | str,
        *,
        device: str = "auto",
        dtype: Literal["float32", "bfloat16", "float16"] = "float32",
        bits: Literal[4, 8] | None = None,
        chat: bool = False,
        system: str = "",
        start_token: str | None = None,
        batch_tokens: int = 8192,
        window_rows: int = 512,
    ) -> None:
        if batch_tokens < 1 or window_rows < 1:
            raise BadQuery(f"batch_tokens and window_rows are 1 or more, got {batch_tokens} and {window_rows}")
        self.path, self._name = find_model(path), Path(path).name
        self._forward, self._tokenizer = _load(self.path, device, dtype, bits)
        self._chat, self._system = chat, system
        self._batch_tokens, self._window_rows = batch_tokens, window_rows
        if chat and not getattr(self._tokenizer, "chat_template", None):
            raise BadQuery(f"{self.path} has no chat template: use chat=False and write the form into the prompt")
        self._start = self._start_ids(start_token)
        added = self._tokenizer.added_tokens_decoder.values()
        self._specials = [token.content for token in added if token.special]
        self._fingerprint = fingerprint_of(
            "local", 1, hash_model(self.path), dtype, bits, chat, system, self._start, self._forward.device.type
        )

    @property
    def name(self) -> str:
        """The name of the folder, file or hub id."""
        return self._name

    @property
    def fingerprint(self) -> str:
        """Of all files of the model, precision, kind of device and prompt form."""
        return self._fingerprint

    @property
    def can(self) -> Can:
        """Everything but forms."""
        return Can(True, True, True, True, frozenset(), _TOP_LOGPROBS, self._forward.context_tokens)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Ids of each prompt, start token and chat form included."""
        return [len(ids) for ids in self._prompt_ids(texts)]

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
        """Token by token, a batch at a time."""
        from typecase.lm.writing import write

        wanted = Generation.checked(self, max_tokens, seed, stop, temperature, form, top_logprobs)

        def ask(rows: list[tuple[str, list[int]]]) -> list[Answer | Failure]:
            ids, keys = [ids for _, ids in rows], [draw_key(seed, prompt) for prompt, _ in rows]
            found = write(self._forward, ids, keys, wanted, lambda own: self._stopped(own, wanted.stop))
            return [self._answer(prompt, text, ended, wanted) for prompt, (text, ended) in zip(ids, found)]

        def size(row: tuple[str, list[int]]) -> int:
            return len(row[1]) + max_tokens

        return self._run(no_string(prompts), lambda rows: list(zip(rows, self._prompt_ids(rows))), size, ask, _nonempty)

    def generate_guided(
        self, rows: Iterable[tuple[str, Callable[[], Guide]]], *, max_tokens: int
    ) -> Iterator[tuple[int, Guided] | Failure]:
        """Continues each prompt by the likeliest ids that a guide allows: the prompt's tokens and what was written.

        A guide is made anew whenever its row is asked for, which is more than once where memory runs out.
        """
        from typecase.lm.writing import write_guided

        def encode(window: list[tuple[str, Callable[[], Guide]]]) -> list[tuple[list[int], Callable[[], Guide]]]:
            return [(ids, make) for ids, (_, make) in zip(self._prompt_ids([p for p, _ in window]), window)]

        def ask(batch: list[tuple[list[int], Callable[[], Guide]]]) -> list[tuple[int, Guided] | Failure]:
            found = write_guided(self._forward, [ids for ids, _ in batch], [make() for _, make in batch], max_tokens)
            return [(len(ids), own) for (ids, _), own in zip(batch, found)]

        return self._run(rows, encode, lambda row: len(row[0]) + max_tokens, ask, lambda row: _nonempty(("", row[0])))

    @property
    def tokenizer(self) -> Any:
        """The model's tokenizer, of transformers."""
        return self._tokenizer

    @property
    def ends(self) -> frozenset[int]:
        """Ids that end a text."""
        return self._forward.ends

    @property
    def vocabulary_size(self) -> int:
        """Ids that the model tells apart; the tokenizer may know fewer."""
        return self._forward.vocabulary

    @property
    def parameters(self) -> int:
        """Weights of the model."""
        return sum(int(weights.numel()) for weights in self._forward.model.parameters())

    def score(self, texts: Iterable[str]) -> Iterator[Scores | Failure]:
        """One pass over each batch."""
        require(self, "score")

        def ask(rows: list[list[int]]) -> list[Scores | Failure]:
            unscored = 0 if self._start else 1
            long = [row for row in rows if len(row) > 1]
            found = iter(self._forward.score(long) if long else ())
            nothing = np.empty(0, np.float32)
            return [
                Scores(next(found) if len(row) > 1 else nothing, len(row) - len(self._start), min(unscored, len(row)))
                for row in rows
            ]

        return self._run(no_string(texts), self._text_ids, len, ask)

    def score_continuations(
        self, prompts: Iterable[str], continuations: Iterable[Sequence[str]]
    ) -> Iterator[Choices | Failure]:
        """Each prompt is read once; single-token continuations cost nothing beyond."""
        require(self, "continuations")

        def ask(rows: list[tuple[list[int], list[list[int]]]]) -> list[Choices | Failure]:
            prompts_, texts = [prompt for prompt, _ in rows], [texts for _, texts in rows]
            found = self._forward.continuations(prompts_, texts, self._batch_tokens)
            return [
                Choices(np.array(own, np.float32), np.array([len(t) for t in texts], np.int32), len(prompt))
                for own, (prompt, texts) in zip(found, rows)
            ]

        def size(row: tuple[list[int], list[list[int]]]) -> int:
            return len(row[0]) + max(len(text) for text in row[1])

        def empty(row: tuple[list[int], list[list[int]]]) -> Failure | None:
            return _nonempty(("", row[0]))

        return self._run(pairs_of(no_string(prompts), continuations), self._pair_ids, size, ask, empty)

    def embed(self, texts: Iterable[str]) -> Iterator[Vector | Failure]:
        """The mean of the last hidden states."""
        require(self, "embed")

        def ask(rows: list[list[int]]) -> list[Vector | Failure]:
            return [Vector(vector, len(row)) for vector, row in zip(self._forward.embed(rows), rows)]

        return self._run(no_string(texts), self._text_ids, len, ask, lambda row: _nonempty(("", row)))

    def can_fill(self, slots: Sequence[Slot]) -> bool:
        """Whether every label is one token where it stands."""
        return all(len(own) == 1 for _, labels in self._slot_ids(slots) for own in labels)

    def fill(self, prompts: Iterable[str], slots: Sequence[Slot], *, passes: int) -> Iterator[Filled | Failure]:
        """All gaps of the form in few passes; see slots.py."""
        form = self._slot_ids(slots)
        befores, labels = [before for before, _ in form], [[own[0] for own in labels] for _, labels in form]
        room = sum(len(before) + 1 for before in befores)
        self._forward.forget()  # what an earlier call left would change the last digits: same rows, same bytes

        likely: list[int] | None = None

        def ask(rows: list[list[int]]) -> list[Filled | Failure]:
            nonlocal likely
            found, exact, taken = self._forward.fill(rows, befores, labels, passes, likely if passes > 1 else None)
            likely = [int(np.bincount(best).argmax()) for best in zip(*([own.argmax() for own in row] for row in found))]
            return [Filled(tuple(own), sure, len(row), n) for row, own, sure, n in zip(rows, found, exact, taken)]

        return self._run(no_string(prompts), self._prompt_ids, lambda row: len(row) + room, ask)

    def _slot_ids(self, slots: Sequence[Slot]) -> list[tuple[list[int], list[list[int]]]]:
        """Ids of the text before each gap, and of each label behind that text."""
        form = []
        for slot in slots:
            (before,) = self._ids([slot.before], specials_are_text=False)
            both = self._ids([slot.before + label for label in slot.labels], specials_are_text=False)
            apart = self._ids(slot.labels, specials_are_text=False)
            size = len(before)
            form.append((before, [b[size:] if b[:size] == before and len(b) > size else a for b, a in zip(both, apart)]))
        return form

    def _run(
        self,
        rows: Iterable[Any],
        encode: Callable[[list[Any]], list[Row]],
        size: Callable[[Row], int],
        ask: Callable[[list[Row]], list[R | Failure]],
        refuse: Callable[[Row], Failure | None] = lambda row: None,
    ) -> Iterator[R | Failure]:
        from typecase.lm.forward import chunks

        for window in windows(rows, self._window_rows):
            encoded = encode(window)
            sizes = [size(row) for row in encoded]
            results = [refuse(row) or self._too_long(tokens) for row, tokens in zip(encoded, sizes)]
            found: dict[int, R | Failure] = {k: failure for k, failure in enumerate(results) if failure is not None}
            order = sorted((k for k in range(len(encoded)) if k not in found), key=lambda k: -sizes[k])
            for chunk in chunks(order, sizes, self._batch_tokens):
                found.update(zip(chunk, _halving([encoded[k] for k in chunk], ask)))
            yield from (found[k] for k in range(len(encoded)))

    def _too_long(self, tokens: int) -> Failure | None:
        limit = self._forward.context_tokens
        if limit is None or tokens <= limit:
            return None
        return Failure("too_long", f"{tokens} tokens with the answer, the context of {self.name} holds {limit}")

    def _start_ids(self, start_token: str | None) -> list[int]:
        if start_token is None:
            return [] if self._tokenizer.bos_token_id is None else [int(self._tokenizer.bos_token_id)]
        found = self._tokenizer.convert_tokens_to_ids(start_token)
        if found is None or found == self._tokenizer.unk_token_id:
            raise BadQuery(f"the vocabulary of {self.path} has no token {start_token!r}: name another start_token")
        return [int(found)]

    def _ids(self, texts: Sequence[str], *, specials_are_text: bool) -> list[list[int]]:
        if not texts:
            return []
        clean = [text.encode("utf-8", "replace").decode() for text in texts]  # lone surrogates are no text
        encoded = self._tokenizer(clean, add_special_tokens=False, split_special_tokens=specials_are_text, verbose=False)
        return [list(ids) for ids in encoded["input_ids"]]

    def _text_ids(self, texts: Sequence[str]) -> list[list[int]]:
        return [self._start + ids for ids in self._ids(texts, specials_are_text=True)]

    def _rendered(self, prompt: str) -> str:
        opening = [{"role": "system", "content": self._system}] if self._system else []
        messages = [*opening, {"role": "user", "content": prompt}]
        return str(self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))

    def _prompt_ids(self, prompts: Sequence[str]) -> list[list[int]]:
        if not self._chat:
            return [self._start + ids for ids in self._ids(prompts, specials_are_text=False)]
        rows = self._ids([self._rendered(prompt) for prompt in prompts], specials_are_text=False)
        for row, prompt in enumerate(prompts):
            if any(special in prompt for special in self._specials):
                rows[row] = self._guarded_ids(prompt)
        return rows

    def _guarded_ids(self, prompt: str) -> list[int]:
        """The chat form around a message that spells out special tokens: they stay text and cannot end the user's turn."""
        before, _, after = self._rendered(_SLOT).partition(_SLOT)
        (first, last), (inner,) = (
            self._ids([before, after], specials_are_text=False),
            self._ids([prompt], specials_are_text=True),
        )
        return first + inner + last

    def _pair_ids(self, pairs: Sequence[tuple[str, tuple[str, ...]]]) -> list[tuple[list[int], list[list[int]]]]:
        prompts = [prompt for prompt, _ in pairs]
        rows: list[tuple[list[int], list[list[int]]]] = [(ids, []) for ids in self._prompt_ids(prompts)]
        flat = [(row, text) for row, (_, texts) in enumerate(pairs) for text in texts]
        shown = [self._rendered(prompt) for prompt in prompts] if self._chat else prompts
        start = [] if self._chat else self._start
        joint = self._ids([shown[row] + text for row, text in flat], specials_are_text=False)
        alone = self._ids([text for _, text in flat], specials_are_text=False)
        for (row, _), ids, apart in zip(flat, joint, alone):
            head, both = rows[row][0], start + ids
            rows[row][1].append(both[len(head) :] if len(both) > len(head) and both[: len(head)] == head else apart)
        return rows

    def _stopped(self, ids: list[int], stop: tuple[str, ...]) -> bool:
        if not stop:
            return False
        tail = self._tokenizer.decode(ids[-(4 + max(len(mark.encode()) for mark in stop)) :])
        return any(mark in tail for mark in stop)

    def _answer(self, prompt: list[int], text: Written, ended: bool, wanted: Generation) -> Answer:
        shown = self._shown(prompt, text.ids)
        cuts = [at for mark in wanted.stop if (at := shown.find(mark)) >= 0]
        top = tuple(tuple((self._tokenizer.decode([i]), value) for i, value in token) for token in text.top)
        return Answer(
            shown[: min(cuts)] if cuts else shown,
            "stop" if ended else "length",
            len(prompt),
            len(text.ids),
            np.array(text.logprobs, np.float32),
            top if wanted.top_logprobs else (),
        )

    def _shown(self, prompt: list[int], ids: list[int]) -> str:
        """The text of `ids` where they stand: some tokenizers drop the space before a text's first word."""
        before = self._tokenizer.decode(prompt[-1:], skip_special_tokens=True)
        both = self._tokenizer.decode(prompt[-1:] + ids, skip_special_tokens=True)
        return str(both[len(before) :] if both.startswith(before) else self._tokenizer.decode(ids, skip_special_tokens=True))


def _load(path: Path, device: str, dtype: str, bits: int | None) -> tuple[Forward, Any]:
    try:
        import torch
    except ImportError:
        raise NeedsExtra("a local model", "lm") from None
    from typecase.lm.forward import load

    chosen = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    return load(path, device=chosen, dtype=dtype, bits=bits)


def _nonempty(row: tuple[str, list[int]]) -> Failure | None:
    if row[1]:
        return None
    return Failure("empty_prompt", "the text has no tokens and the model no start token: give a text or name a start_token")


def _halving(rows: list[Row], ask: Callable[[list[Row]], list[R | Failure]]) -> list[R | Failure]:
    """`ask(rows)`, in halves when the device's memory runs out."""
    import torch

    try:
        return ask(rows)
    except torch.OutOfMemoryError:
        pass  # leave the handler first: it holds the frames, and they the memory
    if len(rows) == 1:
        return [Failure("out_of_memory", "the row alone does not fit the memory of the device")]
    torch.cuda.empty_cache()
    half = len(rows) // 2
    return _halving(rows[:half], ask) + _halving(rows[half:], ask)
