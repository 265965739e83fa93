"""Labels: the parallel token sets of GPT-NeoX that say which tokens are trained on; -100 is a token that is not.

Only how many labels -100 a sequence begins with touches the order: documents of which all that would be read is masked are left
out. Price: one pass over the label set.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from typecase.errors import FingerprintMismatch
from typecase.store.tokens.store import TokenStore, open_tokens

MASKED = -100


def masked_prefix(labels: TokenStore) -> npt.NDArray[np.int64]:
    """How many labels -100 every sequence begins with, int64 (sequences,)."""
    found = np.array(labels.lengths, np.int64)
    for block in labels.blocks():
        trained = np.flatnonzero(block.tokens != MASKED)
        run = np.searchsorted(block.offsets, trained, side="right") - 1
        runs, first = np.unique(run, return_index=True)
        places = block.starts[runs] + trained[first] - block.offsets[runs]
        sequences = block.sequences[runs]
        np.minimum.at(found, sequences, places)
    return found


def prefixes_of(labels: tuple[Path, ...], stores: tuple[TokenStore, ...]) -> list[npt.NDArray[np.int64]]:
    """The masked prefix of every label set. Raises FingerprintMismatch for one whose sequences are not those of its tokens."""
    prefixes = []
    for path, store in zip(labels, stores, strict=True):
        with open_tokens(path) as opened:
            same = opened.num_sequences == store.num_sequences and np.array_equal(opened.lengths, store.lengths)
            if not same:
                raise FingerprintMismatch(
                    f"{path} is no label set of {store.pair.prefix}: their sequences have other lengths; make it from the same"
                    " set"
                )
            prefixes.append(masked_prefix(opened))
    return prefixes
