"""SpecialPolicy: which special tokens a build puts around a document, resolved once against the tokenizer.

    bos=True                    the tokenizer's own beginning-of-sequence token
    eod="<|endoftext|>"         a token by name
    eod=0                       a token by id (False and None mean: none)

Text never gives a special token, so what stands in a token set at these ids was put there by the policy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from typecase.errors import BadQuery, FixInput
from typecase.store.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class SpecialPolicy:
    """Ids put before (`bos_id`) and after (`eod_id`) the tokens of a document; None where nothing is put."""

    bos_id: int | None
    bos_token: str | None
    eod_id: int | None
    eod_token: str | None

    @property
    def num_added(self) -> int:
        """Tokens added to each document: 0, 1 or 2."""
        return (self.bos_id is not None) + (self.eod_id is not None)

    def describe(self) -> dict[str, object]:
        """For a manifest: ids and names, None where nothing is put."""
        return {"bos_id": self.bos_id, "bos_token": self.bos_token, "eod_id": self.eod_id, "eod_token": self.eod_token}

    def surround(
        self, ids: npt.NDArray[np.int32], lengths: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """Flat ids (tokens,) and lengths (docs,) with the special tokens of every document put in."""
        if self.num_added == 0 or len(lengths) == 0:
            return ids, lengths
        longer = lengths + self.num_added
        stops = np.cumsum(longer)
        out = np.empty(int(stops[-1]), np.int32)
        kept = np.ones(len(out), np.bool_)
        for token_id, places in ((self.bos_id, stops - longer), (self.eod_id, stops - 1)):
            if token_id is not None:
                out[places] = token_id
                kept[places] = False
        out[kept] = ids
        return out, longer


def special_policy(
    tokenizer: Tokenizer, *, bos: bool | str | int | None = False, eod: bool | str | int | None = True
) -> SpecialPolicy:
    """The policy for `tokenizer`. Raises BadQuery, listing what there is, for a token that it does not have."""
    bos_id = _resolve(tokenizer, "bos", bos, tokenizer.bos_id)
    eod_id = _resolve(tokenizer, "eod", eod, tokenizer.eod_id)
    return SpecialPolicy(bos_id, _name(tokenizer, bos_id), eod_id, _name(tokenizer, eod_id))


def _resolve(tokenizer: Tokenizer, part: str, wanted: bool | str | int | None, own: int | None) -> int | None:
    if wanted is None or wanted is False:
        return None
    has = ", ".join(f"{name!r} = {token_id}" for name, token_id in tokenizer.special_tokens.items()) or "none at all"
    if wanted is True:
        if own is None:
            raise BadQuery(
                f"{tokenizer.spec} has no {part} token; its special tokens: {has}. Name one: {part}=NAME or {part}=ID"
            )
        return own
    try:
        if isinstance(wanted, str):
            return tokenizer.id_of(wanted)
        tokenizer.token_text(wanted)
    except FixInput as error:
        raise BadQuery(f"{part}={wanted!r}: {error}; its special tokens: {has}") from error
    return wanted


def _name(tokenizer: Tokenizer, token_id: int | None) -> str | None:
    return None if token_id is None else tokenizer.token_text(token_id)
