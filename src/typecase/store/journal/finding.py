"""Finding and replacing: every place of a run of ids, over the whole view, as edits that can be recorded at once.

    find 5 9 9, put 7          set  … 5 9 9 … 5 9 9 9 9 …      two edits; places never overlap, the first one wins

Price: one pass over the tokens; see `scan`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from typecase.core.edit.edit import fit, ids
from typecase.core.edit.spans import Spans
from typecase.errors import BadQuery
from typecase.store.tokens.scan import find_tokens
from typecase.store.tokens.store import TokenStore


def replace_everywhere(view: TokenStore, query: npt.ArrayLike, new: npt.ArrayLike, *, limit: int | None = None) -> Spans:
    """The edits that put `new` (which may be empty) in place of the first `limit` places of `query` in `view`, or of all.

    Raises BadQuery for an empty query and for ids that do not fit.
    """
    wanted, text = ids(query), fit(ids(new), view.dtype, where="new tokens")
    if limit is not None and limit < 0:
        raise BadQuery(f"a limit is 0 or more, got {limit}")
    sequences, starts = find_tokens(view, wanted)
    keep = _apart(sequences, starts, len(wanted))[:limit]
    count = len(keep)
    return Spans.from_columns(
        sequences[keep],
        starts[keep],
        np.tile(wanted, count),
        np.full(count, len(wanted)),
        np.tile(text, count),
        np.full(count, len(text)),
        view.dtype,
    )


def _apart(sequences: npt.NDArray[np.int64], starts: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.int64]:
    """The places, rising, that no kept place before reaches into."""
    kept, last = [], (-1, 0)
    for k, (sequence, start) in enumerate(zip(sequences.tolist(), starts.tolist(), strict=True)):
        if sequence != last[0] or start >= last[1]:
            kept.append(k)
            last = (sequence, start + size)
    return np.array(kept, np.int64)
