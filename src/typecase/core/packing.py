"""Piece and Packing: which tokens of which documents make a sample.

    sample 0   | doc 7 [0, 310) | doc 2 [0, 203) |
    sample 1   | doc 2 [203, 513)    | doc 9 [0, 203) |

The pieces of a sample tile it exactly: laid end to end they are its tokens, with no gap and no overlap. A piece is
never empty, so a document of no tokens is in no sample. Padding is not a piece; a padded sample holds fewer tokens.

Price: 24 bytes a piece and 16 bytes a sample, as columns; a `Piece` object exists only for the sample that is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from typecase.core.document import Span


@dataclass(frozen=True, slots=True, order=True)
class Piece:
    """A run of tokens of one document; `span` counts tokens from the start of document number `doc`."""

    doc: int
    span: Span

    def __post_init__(self) -> None:
        if self.doc < 0 or not len(self.span):
            raise ValueError(f"a piece needs a document >= 0 and at least one token, got document {self.doc}, {self.span}")

    def __len__(self) -> int:
        return len(self.span)


@dataclass(frozen=True, slots=True, eq=False)
class Packing:
    """Samples and their pieces, as columns of int64.

    `docs`, `starts`, `stops` (pieces,) name the pieces, tokens counted from the start of the document. The pieces of
    sample k are [bounds[k], bounds[k + 1]), with `bounds` (samples + 1,). `sample_tokens` (samples,) says how many
    tokens each sample holds.

    Raises ValueError at birth when the pieces do not tile the samples.
    """

    docs: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]
    bounds: npt.NDArray[np.int64]
    sample_tokens: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        num_pieces = len(self.docs)
        if not len(self.starts) == len(self.stops) == num_pieces or len(self.bounds) != len(self.sample_tokens) + 1:
            raise ValueError("the columns of a packing have different lengths")
        if self.bounds[0] != 0 or self.bounds[-1] != num_pieces or np.any(np.diff(self.bounds) < 0):
            raise ValueError(f"the bounds of a packing must rise from 0 to its {num_pieces} pieces")
        wrong = np.flatnonzero((self.docs < 0) | (self.starts < 0) | (self.starts >= self.stops))
        if wrong.size:
            k = int(wrong[0])
            raise ValueError(f"piece {k} is empty or negative: document {self.docs[k]} [{self.starts[k]}, {self.stops[k]})")
        ends = np.concatenate(([0], np.cumsum(self.stops - self.starts)))
        held = ends[self.bounds[1:]] - ends[self.bounds[:-1]]
        wrong = np.flatnonzero(held != self.sample_tokens)
        if wrong.size:
            k = int(wrong[0])
            raise ValueError(f"the pieces of sample {k} hold {held[k]} tokens, the sample {self.sample_tokens[k]}")

    @classmethod
    def of(cls, samples: Sequence[Sequence[Piece]]) -> Packing:
        """The packing of samples given as pieces."""
        pieces = [piece for sample in samples for piece in sample]
        return cls(
            docs=np.array([p.doc for p in pieces], np.int64),
            starts=np.array([p.span.start for p in pieces], np.int64),
            stops=np.array([p.span.stop for p in pieces], np.int64),
            bounds=np.cumsum([0, *(len(sample) for sample in samples)], dtype=np.int64),
            sample_tokens=np.array([sum(map(len, sample)) for sample in samples], np.int64),
        )

    def __len__(self) -> int:
        return len(self.sample_tokens)

    def __getitem__(self, sample: int) -> tuple[Piece, ...]:
        """The pieces of `sample`, in order. Raises IndexError outside [0, len)."""
        if not 0 <= sample < len(self):
            raise IndexError(f"sample {sample} of {len(self)}")
        own = range(int(self.bounds[sample]), int(self.bounds[sample + 1]))
        return tuple(Piece(int(self.docs[k]), Span(int(self.starts[k]), int(self.stops[k]))) for k in own)

    def __iter__(self) -> Iterator[tuple[Piece, ...]]:
        return (self[sample] for sample in range(len(self)))
