"""Where the documents of an edited view come from: the provenance of the set beneath, under the numbers of the view.

document 3 of the view is document 4 of the set, since 3 was deleted -> its row, numbered 3
an inserted document                                                  -> a row of nulls, numbered
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from typecase.errors import NotFound
from typecase.store.journal.view import EditedTokens
from typecase.store.provenance import Provenance, open_provenance
from typecase.store.tokens.store import TokenStore

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class EditedProvenance(Provenance):
    """The provenance of a view whose documents have other numbers than those of its set, `num_given` of them.

    `keys` (documents,) says which number each has there; inserted ones lie beyond.
    """

    keys: Ints
    num_given: int

    def rows(self, docs: Ints) -> pa.Table:
        own = self.keys[docs]
        held = own < self.num_given
        given = Provenance.rows(self, own[held])
        places = np.cumsum(held) - 1
        table = given.take(pa.array(np.where(held, places, 0), mask=~held))
        return table.set_column(0, "doc", pa.array(np.asarray(docs, np.int64)))

    def find(self, doc_id: str) -> Ints:
        numbers = Provenance.find(self, doc_id)
        found = np.flatnonzero(np.isin(self.keys, numbers))
        if not found.size:
            said = ", ".join(map(str, numbers.tolist()))
            raise NotFound(f"document {doc_id!r} is number {said} of the set, and the journal has deleted it")
        return found


def provenance_of(store: TokenStore) -> Provenance | None:
    """The provenance of a token set or of an edited view of one, None when there is none."""
    given = open_provenance(store.pair.bin.parent)
    if given is None or not isinstance(store, EditedTokens) or not store.renumbered:
        return given
    return EditedProvenance(given.path, store.document_keys(), store.num_given)
