"""Tokens: which tokens of a vocabulary may follow, found on a trie of their bytes.

    vocabulary   "re" "rem" "remove" "_" "_lines" "(" " Read" " Re" …        one trie, built once a tokenizer

    allowed(automaton, state, vocabulary, left) -> the ids, in order

The trie and the automaton are walked together, so that only tokens that may follow are ever looked at, whatever a token spans
(a quote, a bracket and the next statement; half a character). Inside a string a compiled walk follows the row's own bytes
down the trie from every place where the string may have begun. `left` is what may still be written, the end token included:
a token after which the shortest ending would not fit is not allowed. Each byte of that ending must be a token: bytes that are
none (`missing`: rare ones, in some vocabularies) are told to the automaton, which then keeps clear of them.

Price: 0.1 s and 10 MB for 50,000 tokens; about 50 µs a step, 0.3 ms where a string begins in a long row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.program.decoding import Automaton, State
from typecase.core.program.decoding_strings import end_from
from typecase.errors import BadQuery

I32 = npt.NDArray[np.int32]
U8 = npt.NDArray[np.uint8]
_QUOTE = ord('"')
_PLAIN = frozenset((ord("\n"), *range(0x20, 0x7F)))
_BEYOND = frozenset((*range(0x80, 0xC0), *range(0xC2, 0xF5)))
"""Bytes that a program may hold: control characters are written as escapes."""


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """The trie of a vocabulary, nodes in breadth-first order, the root first.

    missing  bytes beyond ASCII that no token is alone
    first    int32 (nodes + 1,)   the children of a node are [first[node], first[node + 1])
    label    uint8 (nodes,)       the byte that leads to a node
    ids      int32 (tokens,)      ids by node, rising within one
    of_node  int32 (nodes + 1,)   the ids of a node are ids[of_node[node]:of_node[node + 1]]
    """

    tokens: tuple[bytes | None, ...]
    ends: frozenset[int]
    missing: frozenset[int]
    first: I32
    label: U8
    ids: I32
    of_node: I32

    def child(self, node: int, byte: int) -> int:
        """The node one byte further, -1 where no token goes on so."""
        low, high = int(self.first[node]), int(self.first[node + 1])
        at = low + int(np.searchsorted(self.label[low:high], byte))
        return at if at < high and self.label[at] == byte else -1

    def ids_of(self, node: int) -> list[int]:
        """Ids of the tokens that end at `node`."""
        found: list[int] = self.ids[self.of_node[node] : self.of_node[node + 1]].tolist()
        return found


def vocabulary_of(tokens: Sequence[bytes | None], ends: Sequence[int]) -> Vocabulary:
    """The trie of `tokens` by id; None and b"" for ids that stand for no text. `ends` are the ids that end a text."""
    if not ends:
        raise BadQuery("a vocabulary without an end token cannot end a program")
    real = [k for k, token in enumerate(tokens) if token]
    order = np.array(sorted(real, key=lambda k: (tokens[k], k)), np.int64)
    texts = [tokens[k] or b"" for k in order.tolist()]
    alone = {token[0] for token in texts if len(token) == 1}
    if missing := sorted(_PLAIN - alone):
        raise BadQuery(
            f"the vocabulary has no token for the byte 0x{missing[0]:02x} alone: a program could not always be finished"
        )
    sizes = np.array([len(token) for token in texts], np.int64)
    data = np.frombuffer(b"".join(texts), np.uint8)
    offsets = np.concatenate(([0], np.cumsum(sizes)))[:-1]
    parents, labels, node_of = _levels(data, offsets, sizes)
    first = np.searchsorted(parents, np.arange(len(parents) + 1)).astype(np.int32)
    by_node = np.argsort(node_of, kind="stable")
    of_node = np.searchsorted(node_of[by_node], np.arange(len(parents) + 1)).astype(np.int32)
    ids = order[by_node].astype(np.int32)
    return Vocabulary(tuple(tokens), frozenset(ends), frozenset(_BEYOND - alone), first, labels, ids, of_node)


def _levels(
    data: U8, offsets: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], U8, npt.NDArray[np.int64]]:
    """Parent and label of every node, and the node of every token, for tokens in the order of their bytes."""
    parents, labels = [np.array([-1], np.int64)], [np.zeros(1, np.uint8)]
    node_of = np.zeros(len(sizes), np.int64)
    live, total, depth = np.arange(len(sizes)), 1, 0
    while len(live):
        at, byte = node_of[live], data[offsets[live] + depth]
        new = np.concatenate(([True], (at[1:] != at[:-1]) | (byte[1:] != byte[:-1])))
        parents.append(at[new])
        labels.append(byte[new])
        node_of[live] = total + np.cumsum(new) - 1
        total, depth = total + int(new.sum()), depth + 1
        live = live[sizes[live] > depth]
    return np.concatenate(parents), np.concatenate(labels), node_of


def allowed(automaton: Automaton, state: State, vocabulary: Vocabulary, left: int) -> I32:
    """The ids, rising, that may follow when `left` more tokens may be written, the end token included.

    As long as `left` is more than `automaton.need(state)` there is one.
    """
    room = left - 2  # bytes that may still be needed after this token, the end token aside
    found: list[int] = list(vocabulary.ends) if automaton.accepts(state) and left > 0 else []
    waiting = [(0, state)]
    while waiting:
        node, here = waiting.pop()
        if here.place == "string":
            nodes, closed = _walk_string(automaton, here, vocabulary, node, room)
            for end in nodes.tolist():
                found += vocabulary.ids_of(end)
            reached = closed
        else:
            reached = []
            for byte in automaton.choices(here):
                if (child := vocabulary.child(node, byte)) >= 0:
                    after = automaton.step(here, byte)
                    assert after is not None
                    reached.append((child, after))
        for child, after in reached:
            if vocabulary.of_node[child] < vocabulary.of_node[child + 1] and automaton.need(after) <= room:
                found += vocabulary.ids_of(child)
        waiting += reached
    return np.array(sorted(found), np.int32)


def take(automaton: Automaton, state: State, token: bytes) -> State | None:
    """The state after the bytes of a token; None where they may not follow."""
    for byte in token:
        after = automaton.step(state, byte)
        if after is None:
            return None
        state = after
    return state


def _walk_string(
    automaton: Automaton, state: State, vocabulary: Vocabulary, node: int, room: int
) -> tuple[npt.NDArray[np.int64], list[tuple[int, State]]]:
    """Nodes of tokens that stay inside the string, and what is reached by closing it."""
    cuts, starts = automaton.string_cuts(state), state.starts
    assert starts is not None
    table = cuts.table
    nodes, closings = _walk(
        node, room, state.at, starts, vocabulary.first, vocabulary.label, vocabulary.of_node,
        table.data, table.byte_of, table.char_of, *cuts.arrays,
    )  # fmt: skip
    closed = [
        (child, automaton.closed(state, start, stop, state.begun + size)) for start, stop, child, size in closings.tolist()
    ]
    return np.unique(nodes), closed


@njit(cache=True, nogil=True)
def _walk(  # type: ignore[no-untyped-def]
    root, room, at, starts, first, label, of_node,
    data, byte_of, char_of, limit, last, unique, edge, left, needs, single, small, whole,
):  # fmt: skip
    nodes = np.empty(64, np.int64)
    closings = np.empty((16, 4), np.int64)
    num_nodes, num_closings = 0, 0
    for p in starts:
        node, place, stop = root, byte_of[p] + at, byte_of[last[p]]
        begin = place
        while True:
            char = char_of[place]
            if char > p:
                end = end_from(p, char, limit, last, unique, edge, left, needs, single, small, whole)
                child = _child(node, _QUOTE, first, label) if end == char else -1
                if child >= 0:
                    if num_closings == len(closings):
                        closings = _doubled(closings)
                    row = closings[num_closings]
                    row[0], row[1], row[2], row[3] = p, char, child, place - begin + 1
                    num_closings += 1
            if place >= stop:
                break
            node = _child(node, data[place], first, label)
            if node < 0:
                break
            place += 1
            if of_node[node] == of_node[node + 1]:
                continue
            ahead = place
            while char_of[ahead] < 0:
                ahead += 1
            end = end_from(p, max(char_of[ahead], p + 1), limit, last, unique, edge, left, needs, single, small, whole)
            if end < 0 or byte_of[end] - place + 2 > room:
                continue
            if num_nodes == len(nodes):
                nodes = np.concatenate((nodes, np.empty_like(nodes)))
            nodes[num_nodes] = node
            num_nodes += 1
    return nodes[:num_nodes], closings[:num_closings]


@njit(cache=True, nogil=True)
def _doubled(rows):  # type: ignore[no-untyped-def]
    wider = np.empty((2 * len(rows), rows.shape[1]), rows.dtype)
    wider[: len(rows)] = rows
    return wider


@njit(cache=True, nogil=True)
def _child(node, byte, first, label):  # type: ignore[no-untyped-def]
    low, high = first[node], first[node + 1]
    while low < high:
        middle = (low + high) // 2
        if label[middle] < byte:
            low = middle + 1
        else:
            high = middle
    return low if low < first[node + 1] and label[low] == byte else -1
