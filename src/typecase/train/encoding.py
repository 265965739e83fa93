"""Encoding: token ids of prompts and replies as the reader that will serve the model makes them.

An `Encoder` is a LocalLM that has the tokenizer and never the weights, so that training and serving cannot part: the same
start token, chat form, guards against special tokens in a text, and labels where they stand.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typecase.errors import BadQuery, NeedsExtra, NotFound
from typecase.lm.local import LocalLM
from typecase.lm.model_files import find_model
from typecase.lm.slots import Slot


@dataclass(frozen=True, slots=True)
class Gap:
    """A slot as token ids: those before the gap, and those of each label."""

    before: tuple[int, ...]
    labels: tuple[tuple[int, ...], ...]


class Encoder(LocalLM):
    """The tokenizer's half of a LocalLM."""

    def __init__(self, tokenizer: Any, path: Path, *, chat: bool, system: str) -> None:
        self.path, self._name, self._tokenizer = path, path.name, tokenizer
        self._chat, self._system = chat, system
        if chat and not getattr(tokenizer, "chat_template", None):
            raise BadQuery(f"{path} has no chat template: train it without chat")
        self._start = self._start_ids(None)
        self._specials = [token.content for token in tokenizer.added_tokens_decoder.values() if token.special]

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of transformers."""
        return self._tokenizer

    def prompts(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each prompt, with the start token and the chat form."""
        return self._prompt_ids(texts)

    def replies(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of texts as a model writes them, special tokens in them as text."""
        return self._ids(list(texts), specials_are_text=True)

    def sizes(self, texts: Sequence[str]) -> list[int]:
        """Tokens of texts without what every prompt has around them, as an LMRater counts them."""
        around = self.count_tokens([""])[0]
        return [size - around for size in self.count_tokens(texts)]

    def gaps(self, slots: Sequence[Slot]) -> tuple[Gap, ...]:
        """The slots as ids."""
        return tuple(Gap(tuple(before), tuple(tuple(own) for own in labels)) for before, labels in self._slot_ids(slots))

    def end(self) -> tuple[int, ...]:
        """The token that ends a reply; () where the model has none."""
        if self._chat:
            asked = [{"role": "user", "content": "A"}]
            told = [*asked, {"role": "assistant", "content": "A"}]
            before = self._tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
            after = str(self._tokenizer.apply_chat_template(told, tokenize=False))
            if after.startswith(before + "A"):
                (ids,) = self._ids([after[len(before) + 1 :]], specials_are_text=False)
                return tuple(ids[:1])
        end = self._tokenizer.eos_token_id
        return () if end is None else (int(end),)


def open_tokenizer(folder: Path) -> Any:
    """The tokenizer of the checkpoint in `folder`, never from the network. Raises NeedsExtra, NotFound."""
    try:
        transformers: Any = importlib.import_module("transformers")
    except ImportError:
        raise NeedsExtra("training a language model", "lm") from None
    try:
        return transformers.AutoTokenizer.from_pretrained(find_model(folder), local_files_only=True)
    except (OSError, ValueError) as error:
        raise NotFound(f"{folder} holds no tokenizer that transformers can load ({str(error)[:200]})") from None
