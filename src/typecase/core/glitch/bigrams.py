"""Bigrams of incomplete tokens: two tokens that end and begin inside one character and make a whole text together.

    … E9 BE │ 8D …        a prefix fragment, short of n bytes, and a suffix fragment that begins with n continuation bytes

A model learns such tokens in company; a pair that no text ever showed is read as something else ("improbable bigrams",
arXiv 2410.23684). Pairs are matched by the number of bytes that are missing and checked byte for byte; of V fragments there
may be V²/4 pairs, so they are given as an iterator, in order of the ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from typecase.core.glitch.utf8 import Utf8


def fragment_pairs(data: Sequence[bytes | None], utf8: Sequence[Utf8 | None]) -> Iterator[tuple[int, int]]:
    """Ids (a, b) whose bytes together are well-formed UTF-8, while a ends and b begins inside a character."""
    enders: dict[int, list[int]] = {}
    starters: dict[int, list[int]] = {}
    for token, kind in enumerate(utf8):
        if kind is None or kind.kind == "never":
            continue
        if kind.kind == "prefix":
            enders.setdefault(kind.missing, []).append(token)
        elif kind.kind == "suffix":
            starters.setdefault(kind.leading, []).append(token)
    for missing in sorted(enders):
        for a in enders[missing]:
            left = data[a] or b""
            for b in starters.get(missing, ()):
                if _decodes(left + (data[b] or b"")):
                    yield a, b


def _decodes(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
