"""Refiner: anything that reads documents and proposes what to do with each.

    refiner.propose(texts) -> [Proposal, …]        one for each text, in order, none lost; the texts are not touched

Rules, the line tagger, a small language model and a strong one behind an endpoint are all refiners; `core.program` runs
what they propose. `FakeRefiner` is one for tests: it removes lines by a fixed rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

from typecase.core.lines import line_table
from typecase.core.program.language import Origin, Program, bind, drop_doc, keep_doc, remove_lines
from typecase.core.program.proposal import Proposal


class Refiner(Protocol):
    """A refiner of documents. Two refiners of one fingerprint propose the same for the same text, up to rounding."""

    @property
    def name(self) -> str:
        """What the refiner is called in tables and reports."""

    @property
    def version(self) -> str:
        """Changes whenever the refiner may propose something else."""

    @property
    def fingerprint(self) -> str:
        """32 hexadecimal digits over the weights, the prompt, the settings: all that proposals depend on."""

    def propose(self, texts: Sequence[str]) -> list[Proposal]:
        """What to do with each text; independent of the batch."""


@dataclass(frozen=True, slots=True)
class FakeRefiner:
    """A refiner for tests: drops texts that hold `drop`, removes lines that hold `remove`."""

    drop: str = "DROP"
    remove: str = "menu"
    name: str = "fake"
    version: str = "1"

    @property
    def fingerprint(self) -> str:
        """Of the two words."""
        return blake2b(f"{self.name}\0{self.version}\0{self.drop}\0{self.remove}".encode(), digest_size=16).hexdigest()

    def propose(self, texts: Sequence[str]) -> list[Proposal]:
        """By the two words alone."""
        origin = Origin("model", self.name, self.version, 1.0)
        proposals = []
        for text in texts:
            lines = enumerate(zip(*line_table(text)))
            gone = [remove_lines(n, n, origin=origin) for n, (start, stop) in lines if self.remove in text[start:stop]]
            decision = (drop_doc if self.drop in text else keep_doc)(origin=origin)
            proposals.append(Proposal(bind(Program(tuple(gone)), text), decision))
        return proposals
