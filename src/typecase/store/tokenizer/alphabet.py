"""The byte alphabet: how byte-level vocabularies spell any byte as one printable character.

GPT-2's rule, kept by every byte-level tokenizer since: a byte whose Latin-1 character is printable and not a space
stands for itself; the other 68, in order, become the characters from U+0100 on.

    0x41 'A' -> 'A'      0x20 ' ' -> U+0120 'Ġ'      0x0A newline -> U+010A 'Ċ'
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_PLAIN = [byte for byte in range(256) if chr(byte).isprintable() and chr(byte) != " "]
_OTHER = [byte for byte in range(256) if byte not in _PLAIN]

BYTE_ORDER: tuple[int, ...] = (*_PLAIN, *_OTHER)
"""The 256 bytes in the order in which GPT-2 numbers them: token k < 256 is the byte BYTE_ORDER[k]."""

BYTE_OF_CHAR: Mapping[str, int] = MappingProxyType(
    {chr(byte): byte for byte in _PLAIN} | {chr(256 + rank): byte for rank, byte in enumerate(_OTHER)}
)

_CHAR_OF_BYTE = {byte: char for char, byte in BYTE_OF_CHAR.items()}

UTF8_BYTES: frozenset[int] = frozenset(range(256)) - {0xC0, 0xC1, *range(0xF5, 0x100)}
"""The 243 bytes that occur in valid UTF-8; a vocabulary that has them all can spell any text."""


def spelled_bytes(token: str) -> bytes | None:
    """The bytes that `token` spells, None when a character lies outside the alphabet."""
    try:
        return bytes([BYTE_OF_CHAR[char] for char in token])
    except KeyError:
        return None


def spelling(data: bytes) -> str:
    """How a byte-level vocabulary spells `data`; the inverse of `spelled_bytes`."""
    return "".join([_CHAR_OF_BYTE[byte] for byte in data])
