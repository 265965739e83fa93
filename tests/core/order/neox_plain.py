"""The rules of GPT-NeoX as plain loops over numpy's own generator, and its way to read a sample, one token at a time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from typecase.core.packing import Piece

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]
Token = tuple[int, int]
_MANY = 200


class PlainSet:
    """A set whose tokens are named (sequence, place), with the arrays that the framework built for it."""

    def __init__(self, lengths: np.ndarray, seq_length: int, arrays: Arrays) -> None:
        self.lengths, self.seq_length, self.arrays = lengths, seq_length, arrays
        self.file: list[Token] = [(s, k) for s, held in enumerate(lengths.tolist()) for k in range(held)]
        self.begins = np.concatenate(([0], np.cumsum(lengths))).tolist()

    @property
    def size(self) -> int:
        """What the framework calls its length; -1 is an error there."""
        return min(len(self.arrays[2]) - 1, len(self.arrays[1]) - 2)

    def get(self, sequence: int, offset: int, length: int | None) -> list[Token]:
        """As the framework reads: so many tokens of the file from there on, whatever sequence they belong to."""
        size = self.lengths[sequence] - offset if length is None else length
        begin = self.begins[sequence] + offset
        if begin + size > len(self.file):
            raise ValueError("buffer is smaller than requested size")
        return self.file[begin : begin + size]

    def read(self, index: int) -> list[Token] | None:
        """The tokens that a training index reads, None where the framework stops or recurses without end."""
        sequences, rows, shuffle = (array.tolist() for array in self.arrays)
        for _ in range(_MANY):
            try:
                index = shuffle[index]
                (a, p), (b, q) = rows[index], rows[index + 1]
                if a == b:
                    parts = [self.get(sequences[a], p, q - p + 1)]
                else:
                    parts = [self.get(sequences[a], p, None)]
                    parts += [self.get(sequences[i], 0, None) for i in range(a + 1, b)]
                    parts += [self.get(sequences[b], 0, q + 1)]
                return list(itertools.chain(*parts))[: self.seq_length + 1]
            except IndexError:
                if self.size == 0:
                    return None
                index %= self.size
            except ValueError:
                return None
        return None

    def tokens(self, pieces: Sequence[Piece]) -> list[Token]:
        """The tokens of pieces, each within its sequence."""
        assert all(piece.span.stop <= self.lengths[piece.doc] for piece in pieces)
        return [(piece.doc, k) for piece in pieces for k in range(piece.span.start, piece.span.stop)]


def plain_packed(
    lengths: np.ndarray, found: tuple[int, int], seq_length: int, seed: int, num_samples: int | None, num_epochs: int | None
) -> PlainSet:
    docs = list(range(*found))
    tokens = sum(lengths[docs].tolist())
    epochs = num_epochs or next(e for e in itertools.count(1) if (e * tokens - 1) // seq_length >= (num_samples or 0))
    rng = np.random.RandomState(seed)
    sequences = np.array(docs * epochs, np.int32)
    rng.shuffle(sequences)
    rows, place, offset = [(0, 0)], 0, 0
    for _ in range((epochs * tokens - 1) // seq_length):
        left = seq_length + 1
        while left:
            held = int(lengths[sequences[place]]) - offset
            left -= held
            if left <= 0:
                offset += left + held - 1
                left = 0
            else:
                place, offset = place + 1, 0
        rows.append((place, offset))
    shuffle = np.arange(len(rows) - 1, dtype=np.uint32)
    rng.shuffle(shuffle)
    return PlainSet(lengths, seq_length, (sequences, np.array(rows, np.int32), shuffle))


def _all_masked(masked: Sequence[Any], texts: Sequence[np.ndarray], d: int, tokens: int) -> bool:
    for prefix, lengths in zip(masked, texts, strict=True):
        if prefix is not None:
            label = [-100] * prefix[d] + [7] * (lengths[d] - prefix[d])
            if all(value == -100 for value in label[:tokens]):
                return True
    return False


def plain_overflow(
    texts: Sequence[np.ndarray], masked: Sequence[Any], found: tuple[int, int], seq_length: int, seed: int, num_samples: int,
    allow_chopped: bool,
) -> PlainSet | None:  # fmt: skip
    """None where the framework stops with an IndexError."""
    count = found[1] - found[0]
    rng = np.random.RandomState(seed)
    shuffle = np.arange(num_samples)
    rng.shuffle(shuffle)
    order = np.arange(count)
    rng.shuffle(order)
    c, run = 0, 0
    rows, sequences = [], []
    while len(rows) < num_samples:
        if c >= count:
            return None
        d = int(order[c])
        if not allow_chopped:
            if len(texts) == 1 and texts[0][d] > seq_length + 1:
                c += 1
                continue
            if len(texts) == 2 and any(lengths[d] < seq_length + 1 for lengths in texts):
                c += 1
                continue
        if _all_masked(masked, texts, d, seq_length + 1):
            c += 1
            continue
        held = max(int(lengths[d]) for lengths in texts)
        if run == 0:
            rows.append((len(sequences), 0))
            sequences.append(d)
            run += held
        else:
            if run + held > seq_length + 1:
                run = held
                rows.append((len(sequences), 0))
            else:
                run += held
            sequences.append(d)
        c += 1
        if c == count:
            c = 0
            rng.shuffle(order)
    rows.append((len(sequences), 0))
    return PlainSet(texts[0], seq_length, (np.array(sequences, np.int64), np.array(rows, np.int64), shuffle))


def plain_unpacked(
    texts: Sequence[np.ndarray], masked: Sequence[Any], found: tuple[int, int], seq_length: int, seed: int, num_samples: int,
    allow_chopped: bool,
) -> PlainSet | None:  # fmt: skip
    """None where the framework stops for want of labels, or searches without end."""
    count = found[1] - found[0]
    rng = np.random.RandomState(seed)
    shuffle = np.array([i % count if len(texts) == 2 else i for i in range(num_samples)])
    rng.shuffle(shuffle)
    if masked[0] is None:
        return None
    sequences: list[int] = []
    d, in_vain = 0, 0
    while len(sequences) <= num_samples:
        if in_vain > count:
            return None
        long = any(lengths[d] > seq_length + 1 for lengths in texts)
        if (not allow_chopped and long) or _all_masked(masked, texts, d, seq_length):
            in_vain += 1
        else:
            sequences.append(d)
            in_vain = 0
        d = (d + 1) % count
    rows = [(k, 0) for k in range(num_samples + 1)]
    return PlainSet(texts[0], seq_length, (np.array(sequences, np.int64), np.array(rows, np.int64), shuffle))
