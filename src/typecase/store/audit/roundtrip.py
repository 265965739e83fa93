"""The round trip of the published audits: decode a token, encode its text, look what came back.

A tokenizer that puts a space in front of every text would hide it from every first token. Such a tokenizer is asked with a
sentinel in front, « or », which is taken off again: clean encode("x") is encode("«x") less the sentinel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from typecase.core.glitch.categories import GroupCounts, group_counts, round_trip_category
from typecase.store.audit.vocabulary import Vocabulary

_SENTINELS = ("\u00ab", "\u00bb")
_CHUNK = 1 << 15


@dataclass(frozen=True, slots=True, eq=False)
class RoundTrip:
    """By id: the decoded text, the ids that it encodes to, and the category ("" for a gap)."""

    decoded: tuple[str, ...]
    again: tuple[tuple[int, ...], ...]
    categories: tuple[str, ...]
    groups: GroupCounts
    sentinel: str


def round_trip(vocabulary: Vocabulary) -> RoundTrip:
    """Decodes and encodes every id on its own."""
    sentinels = _sentinels(vocabulary) if _adds_space(vocabulary) else []
    decoded: list[str] = []
    again: list[tuple[int, ...]] = []
    for start in range(0, vocabulary.num_ids, _CHUNK):
        ids = range(start, min(start + _CHUNK, vocabulary.num_ids))
        texts = _decode(vocabulary, ids, sentinels)
        decoded += texts
        again += _encode(vocabulary, texts, sentinels)
    categories = [
        "" if kind == "gap" else round_trip_category(token, decoded[token], again[token], special=kind == "special")
        for token, kind in enumerate(vocabulary.kinds)
    ]
    rows = [(c, s) for c, s in zip(categories, vocabulary.spellings) if s is not None]
    groups = group_counts(rows, vocabulary.reports_bytes)
    return RoundTrip(tuple(decoded), tuple(again), tuple(categories), groups, sentinels[0][0] if sentinels else "")


def _adds_space(vocabulary: Vocabulary) -> bool:
    (ids,) = vocabulary.codec.encode(["test"])
    first = vocabulary.spellings[ids[0]] if ids else None
    return first is not None and first[:1] in (" ", "▁", "_", "Ġ")


def _sentinels(vocabulary: Vocabulary) -> list[tuple[str, int]]:
    return [(text, ids[0]) for text, ids in zip(_SENTINELS, vocabulary.codec.encode(_SENTINELS)) if len(ids) == 1]


def _decode(vocabulary: Vocabulary, ids: Sequence[int], sentinels: list[tuple[str, int]]) -> list[str]:
    if not sentinels:
        return vocabulary.codec.decode([[token] for token in ids])
    mark, mark_id = sentinels[0]
    texts = vocabulary.codec.decode([[mark_id, token] for token in ids])
    return [text.removeprefix(" ").removeprefix(mark) for text in texts]


def _encode(vocabulary: Vocabulary, texts: Sequence[str], sentinels: list[tuple[str, int]]) -> list[tuple[int, ...]]:
    if not sentinels:
        return [tuple(ids) for ids in vocabulary.codec.encode(texts)]
    found: list[tuple[int, ...] | None] = [None] * len(texts)
    for mark, mark_id in sentinels:
        missing = [k for k, ids in enumerate(found) if ids is None]
        for k, ids in zip(missing, vocabulary.codec.encode([mark + texts[k] for k in missing])):
            if ids[:1] == [mark_id]:
                found[k] = tuple(ids[1:])
    # Where neither sentinel stays alone the text is encoded as it is.
    missing = [k for k, ids in enumerate(found) if ids is None]
    for k, ids in zip(missing, vocabulary.codec.encode([texts[k] for k in missing])):
        found[k] = tuple(ids)
    return [ids or () for ids in found]
