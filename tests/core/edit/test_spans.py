"""Spans, groups, overlays and states against lists: apply then undo is the identity, and nothing wraps or overlaps unseen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from typecase.core.edit.edit import Replacement, ids
from typecase.core.edit.group import Group, first_overlap
from typecase.core.edit.outline import Outline
from typecase.core.edit.overlay import Overlay, flattened, push
from typecase.core.edit.spans import Spans
from typecase.core.edit.state import State
from typecase.errors import BadQuery

SEQUENCES = st.lists(st.lists(st.integers(0, 9), max_size=12), min_size=1, max_size=4)


@st.composite
def edits_of(draw: Any, sequences: list[list[int]], same: bool) -> list[Replacement]:
    """Edits of one group, none overlapping another."""
    found = []
    for k, tokens in enumerate(sequences):
        cuts = sorted(draw(st.lists(st.integers(0, len(tokens)), max_size=6)))
        for a, b in zip(cuts[::2], cuts[1::2], strict=False):
            size = b - a
            new = draw(st.lists(st.integers(0, 9), min_size=size if same else 0, max_size=size if same else 5))
            found.append(Replacement(k, a, np.array(tokens[a:b], np.int64), np.array(new, np.int64)))
    return draw(st.permutations(found))


def naive(sequences: list[list[int]], spans: Spans) -> list[list[int]]:
    out = [list(s) for s in sequences]
    for k in reversed(range(len(spans))):
        e = spans.replacement(k)
        assert out[e.sequence][e.start : e.stop] == e.old.tolist()
        out[e.sequence][e.start : e.stop] = e.new.tolist()
    return out


def state_of(sequences: list[list[int]]) -> State:
    return State(np.dtype("<u2"), Outline(len(sequences)), lambda k: np.array(sequences[k], np.uint16))


def told(state: State, count: int) -> list[list[int]]:
    return [state.sequence(k).tolist() for k in range(count)]


@given(data=st.data(), sequences=SEQUENCES, same=st.booleans())
def test_apply_then_undo_is_the_identity(data: st.DataObject, sequences: list[list[int]], same: bool) -> None:
    spans = Spans.of(data.draw(edits_of(sequences, same)), np.uint16)
    after = naive(sequences, spans)
    assert naive(after, spans.inverse()) == sequences
    assert naive(sequences, spans.inverse().inverse()) == after
    state = state_of(sequences)
    state.apply(Group(spans))
    assert told(state, len(sequences)) == after
    state.apply(Group(spans).inverse())
    assert told(state, len(sequences)) == sequences
    layer = state.overlay()
    assert layer is not None and len(layer) == 0


@given(data=st.data(), sequences=SEQUENCES, rounds=st.integers(1, 8))
def test_layers_read_as_the_last_edit_says(data: st.DataObject, sequences: list[list[int]], rounds: int) -> None:
    now, layers = sequences, list[Overlay]()
    for _ in range(rounds):
        spans = Spans.of(data.draw(edits_of(now, True)), np.uint16)
        now = naive(now, spans)
        push(layers, Overlay.of(spans))
    assert len(layers) <= max(1, rounds.bit_length() + 3)
    whole = flattened(layers, np.uint16)
    assert naive(sequences, whole.spans()) == now
    for stack in (layers, [whole]):
        for k, tokens in enumerate(sequences):
            start = data.draw(st.integers(0, len(tokens)))
            stop = data.draw(st.integers(start, len(tokens)))
            out = np.array(tokens[start:stop], np.uint16)
            for layer in stack:
                layer.patch(out, np.array([0, len(out)]), np.array([k]), np.array([start]))
            assert out.tolist() == now[k][start:stop]


@given(data=st.data(), sequences=SEQUENCES)
def test_groups_that_do_not_overlap_can_be_taken_back_in_either_order(data: st.DataObject, sequences: list[list[int]]) -> None:
    first = Group(Spans.of(data.draw(edits_of(sequences, data.draw(st.booleans()))), np.uint16))
    between = naive(sequences, first.spans)
    second = Group(Spans.of(data.draw(edits_of(between, data.draw(st.booleans()))), np.uint16))
    if first_overlap(first, second) is not None:
        return
    state = state_of(sequences)
    for group in (first, second, first.inverse()):
        state.apply(group)
    assert told(state, len(sequences)) == naive(sequences, second.spans)


@given(data=st.data(), sequences=SEQUENCES)
def test_an_overlap_is_seen_by_token(data: st.DataObject, sequences: list[list[int]]) -> None:
    one, other = (Spans.of(data.draw(edits_of(sequences, True)), np.uint16) for _ in range(2))
    touched = [
        {(int(s), t) for s, a, n in zip(x.sequences, x.starts, x.old_counts, strict=True) for t in range(a, a + n)}
        for x in (one, other)
    ]
    told = first_overlap(Group(one), Group(other))
    assert (told is not None) == bool(touched[0] & touched[1])


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        ([(0, 0, 3), (0, 2, 4)], r"overlap in sequence 0: \[0, 3\) and \[2, 4\)"),
        ([(1, 5, 6), (1, 0, 9)], r"overlap in sequence 1: \[0, 9\) and \[5, 6\)"),
    ],
)
def test_overlapping_edits_of_one_group_are_refused(edits: list[tuple[int, int, int]], said: str) -> None:
    with pytest.raises(BadQuery, match=said):
        Spans.of([Replacement(s, a, np.zeros(b - a, int), np.ones(b - a, int)) for s, a, b in edits], np.uint16)


@pytest.mark.parametrize(("dtype", "token"), [("uint16", 65_536), ("uint16", -1), ("int32", 1 << 31), ("uint8", 256)])
def test_ids_that_do_not_fit_are_refused(dtype: str, token: int) -> None:
    with pytest.raises(BadQuery, match=rf"token id {token} \(new tokens, place 1\) does not fit the set's {dtype}"):
        Spans.of([Replacement(0, 0, np.array([1, 2]), np.array([1, token]))], dtype)
    Spans.of([Replacement(0, 0, np.array([1]), np.array([np.iinfo(dtype).max]))], dtype)


@pytest.mark.parametrize("tokens", ["text", [1.5], [[1]], [True], None])
def test_only_ids_are_tokens(tokens: Any) -> None:
    with pytest.raises(BadQuery, match="flat list of integer ids"):
        ids(tokens)


def test_taken_back_pairs_leave_no_layer() -> None:
    layers = list[Overlay]()
    spans = Spans.of([Replacement(3, 4, np.array([1, 2]), np.array([8, 9]))], np.uint16)
    push(layers, Overlay.of(spans))
    push(layers, Overlay.of(spans.inverse()))
    assert len(flattened(layers, np.uint16)) == 0
