"""Views: what info and show give, as plain frozen values; the command line prints them, `--json` dumps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class TokenSetInfo:
    """A token set: its files, header and, where typecase made it, its manifest's facts."""

    path: str
    format: str
    dtype: str
    sequences: int
    documents: int
    tokens: int
    bin_bytes: int
    shortest: int
    median: int
    longest: int
    provenance: bool
    tokenizer: str | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ArtifactInfo:
    """An artifact of documents or a side table."""

    path: str
    kind: str
    stage: str
    rows: int
    parts: int
    fingerprint: str
    content: str
    balance: Mapping[str, Any] | None
    counts: Mapping[str, int]
    sources: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ShownTokens:
    """One document of a token set. `pieces[i]` is the text of `tokens[i]`; both are cut at `shown` tokens."""

    doc: int
    doc_id: str | None
    source: str | None
    place: str | None
    num_tokens: int
    tokens: tuple[int, ...]
    pieces: tuple[str, ...] | None
    text: str | None
    boundaries: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ShownDocument:
    """One document of a document store."""

    doc_id: str
    source: str
    place: str
    meta: Mapping[str, Any]
    text: str
    text_bytes: int
