"""Packing: the pieces of a sample tile it exactly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from typecase.core.document import Span
from typecase.core.packing import Packing, Piece

PIECES = st.builds(
    lambda doc, start, n: Piece(doc, Span(start, start + n)), st.integers(0, 9), st.integers(0, 9), st.integers(1, 9)
)


@given(st.lists(st.lists(PIECES, max_size=4), max_size=6))
def test_columns_and_pieces_say_the_same(samples: list[list[Piece]]) -> None:
    packing = Packing.of(samples)
    assert [list(pieces) for pieces in packing] == samples
    assert packing.sample_tokens.tolist() == [sum(map(len, pieces)) for pieces in samples]


@pytest.mark.parametrize(("doc", "start", "stop"), [(-1, 0, 1), (0, 3, 3)])
def test_a_piece_has_a_document_and_a_token(doc: int, start: int, stop: int) -> None:
    with pytest.raises(ValueError, match="at least one token"):
        Piece(doc, Span(start, stop))


def _columns(**changed: list[int]) -> dict[str, np.ndarray]:
    columns = {"docs": [7, 2], "starts": [0, 0], "stops": [3, 2], "bounds": [0, 2], "sample_tokens": [5]} | changed
    return {name: np.array(values, np.int64) for name, values in columns.items()}


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"sample_tokens": [6]}, "sample 0 hold 5 tokens, the sample 6"),
        ({"stops": [3, 0]}, "piece 1 is empty"),
        ({"docs": [7, -2]}, "piece 1 is empty or negative"),
        ({"bounds": [0, 1]}, "rise from 0 to its 2 pieces"),
        ({"bounds": [1, 2]}, "rise from 0"),
        ({"docs": [7]}, "different lengths"),
        ({"sample_tokens": [3, 2]}, "different lengths"),
    ],
)
def test_what_does_not_tile_cannot_be_born(changed: dict[str, list[int]], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Packing(**_columns(**changed))


def test_samples_do_not_count_from_the_end() -> None:
    packing = Packing(**_columns())
    assert packing[0] == (Piece(7, Span(0, 3)), Piece(2, Span(0, 2)))
    for sample in (-1, 1):
        with pytest.raises(IndexError):
            packing[sample]
