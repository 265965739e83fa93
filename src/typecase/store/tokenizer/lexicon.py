"""Lexicons: the way back from ids to text, and from the name of a token to its id.

ByteLexicon      every token is a string of bytes: decoding is exact, whatever the library
LibraryLexicon   any other tokenizer.json (WordPiece, Unigram): the library decodes
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import tokenizers

from typecase.store.tokenizer.alphabet import spelled_bytes


class Lexicon(Protocol):
    """Ids and tokens of one tokenizer. Ids given here have been checked to lie in [0, num_ids)."""

    def id_of(self, token: str) -> int | None:
        """The id of `token`: a special or added token, the text of a token, or its spelling in the vocabulary."""
        ...

    def bytes_of(self, token_id: int) -> bytes | None:
        """The bytes of a token, None where the id is unused or tokens are no bytes."""
        ...

    def text_of(self, token_id: int) -> str | None:
        """A readable form of a token, None where the id is unused."""
        ...

    def decode(self, ids: Sequence[int]) -> bytes:
        """UTF-8 of the ids; not always valid UTF-8 in a ByteLexicon. Raises KeyError for an unused id."""
        ...


@dataclass(frozen=True)
class ByteLexicon:
    """`tokens` are the bytes of each token and its id, `named` the special and added ones; a name wins its id."""

    tokens: Mapping[bytes, int]
    named: Mapping[str, int]

    @cached_property
    def table(self) -> list[bytes | None]:
        """Bytes by id; 20 ms for 50,000 entries, hence made when first asked for."""
        table: list[bytes | None] = [None] * (max((*self.tokens.values(), *self.named.values())) + 1)
        for data, token_id in self.tokens.items():
            table[token_id] = data
        for name, token_id in self.named.items():
            table[token_id] = name.encode()
        return table

    def id_of(self, token: str) -> int | None:
        if token in self.named:
            return self.named[token]
        found = self.tokens.get(token.encode("utf-8", "surrogatepass"))
        spelled = spelled_bytes(token)
        return found if found is not None or spelled is None else self.tokens.get(spelled)

    def bytes_of(self, token_id: int) -> bytes | None:
        return self.table[token_id]

    def text_of(self, token_id: int) -> str | None:
        data = self.table[token_id]
        return None if data is None else data.decode("utf-8", "backslashreplace")

    def decode(self, ids: Sequence[int]) -> bytes:
        parts = [self.table[token_id] for token_id in ids]
        if None in parts:
            raise KeyError(ids[parts.index(None)])
        return b"".join([part for part in parts if part is not None])


@dataclass(frozen=True, slots=True)
class LibraryLexicon:
    """Everything by the tokenizers library, special tokens kept in the text."""

    library: tokenizers.Tokenizer

    def id_of(self, token: str) -> int | None:
        return self.library.token_to_id(token)

    def bytes_of(self, token_id: int) -> bytes | None:
        return None

    def text_of(self, token_id: int) -> str | None:
        return self.library.id_to_token(token_id)

    def decode(self, ids: Sequence[int]) -> bytes:
        for token_id in set(ids):
            if self.library.id_to_token(token_id) is None:
                raise KeyError(token_id)
        return self.library.decode(ids, skip_special_tokens=False).encode()
