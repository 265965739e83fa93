"""A scan finds what a naive one finds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.store.naive_tokens import write_set
from typecase.errors import BadQuery
from typecase.store.tokens import scan
from typecase.store.tokens.store import open_tokens

SEQUENCES = st.lists(st.lists(st.integers(0, 2), max_size=9), min_size=1, max_size=8)


@given(SEQUENCES, st.lists(st.integers(0, 2), min_size=1, max_size=4), st.integers(1, 7))
def test_every_place_and_no_other(
    tmp_path_factory: pytest.TempPathFactory, sequences: list[list[int]], query: list[int], run: int
) -> None:
    prefix = tmp_path_factory.mktemp("scan") / "set"
    write_set(prefix, [[s] for s in sequences])
    wanted = [(n, k) for n, s in enumerate(sequences) for k in range(len(s)) if s[k : k + len(query)] == query]
    with open_tokens(prefix) as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "_RUN_TOKENS", run)
        found, starts = scan.find_tokens(store, query)
        assert list(zip(found.tolist(), starts.tolist())) == wanted
        some, _ = scan.find_tokens(store, query, limit=2)
        assert some.tolist() == [n for n, _ in wanted[:2]]


def test_ids_that_cannot_occur_are_errors(tmp_path: Path) -> None:
    write_set(tmp_path / "set", [[[1, 2, 3]]])
    with open_tokens(tmp_path / "set") as store:
        for query, said in (([70_000, 5], "70000"), ([-1], "-1"), ([], "one or more"), ([[1]], "flat"), ([1.5], "flat")):
            with pytest.raises(BadQuery, match=said):
                scan.find_tokens(store, np.array(query))
