"""Samples: what training indices read, with their tokens and their documents; the one answer of trace, sample and inspect.

index 330,000  step 41,250  rank 3   | doc 812 [0, 310) | doc 17 [0, 203) | padding 0
tokens         5 812 9 ... 0 44 17 ...
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from typecase.core.display import box, facts, numbers
from typecase.core.order.order import Reads
from typecase.store.timeline.documents import DocumentFacts, Library

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Seat:
    """Where a sample is trained: 0-based step, micro-batch of the step, data-parallel rank, slot in the micro-batch."""

    step: int
    micro_batch: int
    rank: int
    slot: int
    trained: bool = True


@dataclass(frozen=True, slots=True)
class SamplePiece:
    """Tokens [start, stop) of a document, standing at tokens [at, at + stop - start) of the sample.

    `sequence` is the number that the framework counts by, `sequence_start` the token of it at which the piece begins.
    """

    document: DocumentFacts
    start: int
    stop: int
    at: int
    sequence: int
    sequence_start: int


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One training sample. `tokens` are those of its pieces; a framework pads them with 0 to `num_tokens`."""

    index: int
    member: int
    sample: int
    pieces: tuple[SamplePiece, ...]
    tokens: npt.NDArray[Any]
    num_tokens: int
    seat: Seat | None = None

    def _repr_html_(self) -> str:
        """How a notebook shows it: its place, and its ids, for a sample knows no tokenizer."""
        seat = {} if self.seat is None else {"step": self.seat.step, "rank": self.seat.rank, "slot": self.seat.slot}
        docs = numbers(dict.fromkeys(p.document.doc for p in self.pieces), 12)
        known = {**seat, "token set": str(self.member), "documents": docs, "tokens": len(self.tokens)}
        return facts(f"sample {self.index}", known) + box(numbers(self.tokens.tolist()))

    @property
    def padding(self) -> int:
        return self.num_tokens - len(self.tokens)

    @property
    def padded(self) -> Ints:
        """Tokens (num_tokens,) int64 as the framework hands them out: the last one is the last label only."""
        return np.pad(self.tokens.astype(np.int64), (0, self.padding))

    def as_dict(self, text: str | None = None) -> Mapping[str, Any]:
        """The sample as JSON has it."""
        row: dict[str, Any] = {"index": self.index, "member": self.member, "sample": self.sample}
        if self.seat is not None:
            row |= {"step": self.seat.step, "micro_batch": self.seat.micro_batch, "rank": self.seat.rank}
            row |= {"slot": self.seat.slot, "trained": self.seat.trained}
        row["documents"] = [
            {
                "doc": p.document.doc,
                "doc_id": p.document.doc_id,
                "source": p.document.source,
                "file": p.document.file,
                "row": p.document.row,
                "start": p.start,
                "stop": p.stop,
                "at": p.at,
                "sequence": p.sequence,
                "scores": dict(p.document.scores),
            }
            for p in self.pieces
        ]
        row |= {"padding": self.padding, "tokens": self.tokens.tolist()}
        if text is not None:
            row["text"] = text
        return row


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Several samples as columns; iterating gives each as a `Sample`.

    `tokens` (all pieces,) end to end in the order of `reads`, sample k being [offsets[k], offsets[k + 1]).
    """

    reads: Reads
    tokens: npt.NDArray[Any]
    offsets: Ints
    num_tokens: int
    libraries: tuple[Library, ...]
    seats: tuple[Seat | None, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.reads.indices)

    def padded(self) -> Ints:
        """Tokens (samples, num_tokens) int64 as the framework hands them out, short samples padded with 0."""
        sizes = np.diff(self.offsets)
        out = np.zeros((len(self), self.num_tokens), np.int64)
        if np.all(sizes == self.num_tokens):
            out[:] = self.tokens.reshape(out.shape)
        else:
            out[np.arange(self.num_tokens) < sizes[:, None]] = self.tokens
        return out

    def __iter__(self) -> Iterator[Sample]:
        packing, members = self.reads.packing, self.reads.members
        owner = np.repeat(members, np.diff(packing.bounds))
        docs, firsts = np.empty_like(packing.docs), np.empty_like(packing.docs)
        facts: dict[tuple[int, int], DocumentFacts] = {}
        for member in np.unique(owner):
            own = owner == member
            library = self.libraries[member]
            docs[own], firsts[own] = library.documents_of(packing.docs[own])
            facts |= {(int(member), d): f for d, f in library.facts(docs[own]).items()}
        for k in range(len(self)):
            pieces, at = [], 0
            for p in range(int(packing.bounds[k]), int(packing.bounds[k + 1])):
                start, stop, first = int(packing.starts[p]), int(packing.stops[p]), int(firsts[p])
                document = facts[int(members[k]), int(docs[p])]
                pieces.append(SamplePiece(document, first + start, first + stop, at, int(packing.docs[p]), start))
                at += stop - start
            yield Sample(
                index=int(self.reads.indices[k]),
                member=int(members[k]),
                sample=int(self.reads.samples[k]),
                pieces=tuple(pieces),
                tokens=self.tokens[self.offsets[k] : self.offsets[k + 1]],
                num_tokens=self.num_tokens,
                seat=self.seats[k] if self.seats else None,
            )
