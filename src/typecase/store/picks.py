"""Picks: which documents, written as people write them.

7              document 7
10:20          documents 10 to 19, half-open as everywhere
:5  -5: ::10   the first five, the last five, every tenth: Python's own slices
3f2a91…        the document whose doc_id begins so (at least 6 hexadecimal digits, with a letter or all 32), and its copies
1,5,10:20      several, in this order
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from typecase.errors import BadQuery
from typecase.store.provenance import Provenance

_NUMBER = re.compile(r"\d+")
_SLICE = re.compile(r"(-?\d+)?:(-?\d+)?(?::(\d+)?)?")
_ID = re.compile(r"[0-9a-f]{6,32}", re.IGNORECASE)


def picked(picks: str, num_documents: int, provenance: Provenance | None = None) -> npt.NDArray[np.int64]:
    """The document numbers that `picks` names, int64 (docs,), in the order given.

    Raises BadQuery for what is not a pick or lies outside, NotFound for an unknown id.
    """
    chosen = [_one(part.strip(), num_documents, provenance) for part in picks.split(",") if part.strip()]
    if not chosen:
        raise BadQuery("no documents were named; write numbers, ranges or ids such as 7, 10:20 or 3f2a91")
    return np.concatenate(chosen)


def _one(pick: str, num_documents: int, provenance: Provenance | None) -> npt.NDArray[np.int64]:
    if _NUMBER.fullmatch(pick) and len(pick) < 32:
        if int(pick) >= num_documents:
            raise BadQuery(f"there is no document {pick}: the set has {num_documents}, numbered from 0")
        return np.array([int(pick)], np.int64)
    if match := _SLICE.fullmatch(pick):
        start, stop, step = (int(g) if g else None for g in match.groups())
        if step == 0:
            raise BadQuery(f"{pick!r} has step 0; a step is 1 or more")
        return np.arange(*slice(start, stop, step).indices(num_documents), dtype=np.int64)
    if _ID.fullmatch(pick):
        if provenance is None:
            raise BadQuery(f"{pick!r} looks like a doc_id, but this token set has no provenance; give document numbers")
        return provenance.find(pick)
    raise BadQuery(f"{pick!r} is neither a document number, nor a range such as 10:20, nor a doc_id")


def numbers(text: str, limit: int | None = None) -> list[int]:
    """The numbers that `text` names: 7, 10:20, several with commas; slices from the end need a `limit`.

    Raises BadQuery for what is not a number, or is not below `limit`.
    """
    found: list[int] = []
    for part in (p.strip() for p in text.split(",")):
        if _NUMBER.fullmatch(part):
            if limit is not None and int(part) >= limit:
                raise BadQuery(f"there is no {part}: they go from 0 to {limit - 1}")
            found.append(int(part))
        elif (match := _SLICE.fullmatch(part)) and (limit is not None or (match[2] or "").isdigit()):
            start, stop, step = (int(g) if g else None for g in match.groups())
            if step == 0:
                raise BadQuery(f"{part!r} has step 0; a step is 1 or more")
            found += range(*slice(start, stop, step).indices(limit if limit is not None else int(match[2])))
        else:
            raise BadQuery(f"{part!r} is neither a number nor a range such as 10:20")
    return found
