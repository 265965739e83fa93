"""Categories: what decoding a token and encoding its text again gives. First match wins.

    again == [t], t special                      OK_SPECIAL
    again == [t]                                 OK
    looks like <a tag> or [a tag]                UNREACHABLE_SPECIAL
    the text has U+FFFD                          UNDECODEABLE
    again is one other id                        UNREACHABLE_SINGLE_TOKEN
    otherwise                                    UNREACHABLE_MULTI_TOKEN

These are the categories of the published audits, kept to the letter so that figures compare: they are a *round trip*, which is
not reachability (a token may need a neighbour to come up). What a token truly is, `reach` says. A published report counts bytes
and specials by how they are spelled, takes them out of the other groups, and so do `group_counts`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

OK, OK_SPECIAL = "OK", "OK_SPECIAL"
UNREACHABLE_SPECIAL = "UNREACHABLE_SPECIAL"
UNDECODEABLE = "UNDECODEABLE"
UNREACHABLE_SINGLE, UNREACHABLE_MULTI = "UNREACHABLE_SINGLE_TOKEN", "UNREACHABLE_MULTI_TOKEN"

_LETTER = re.compile(r"[^\W\d_]")
_ASCII_LETTER = re.compile(r"[A-Za-z]")
_FALLBACK = re.compile(r"<0x[0-9A-Fa-f]{2}>")


def round_trip_category(token: int, text: str, again: Sequence[int], *, special: bool) -> str:
    """The category of `token`, which decodes to `text`, which encodes to the ids `again`."""
    if list(again) == [token]:
        return OK_SPECIAL if special else OK
    if len(text) >= 3 and text[0] in "[<" and text[-1] in "]>" and _LETTER.search(text):
        return UNREACHABLE_SPECIAL
    if "\ufffd" in text:
        return UNDECODEABLE
    return UNREACHABLE_SINGLE if len(again) == 1 else UNREACHABLE_MULTI


def fallback_byte(spelling: str) -> int | None:
    """The byte that a SentencePiece fallback token `<0xNN>` stands for, None for any other spelling."""
    return int(spelling[3:5], 16) if _FALLBACK.fullmatch(spelling) else None


def is_byte_token(spelling: str, *, byte_alphabet: frozenset[str] | None) -> bool:
    """Whether a report counts the token as a byte: a character of `byte_alphabet`, or, without one, <0xNN> or ASCII."""
    if byte_alphabet is not None:
        return spelling in byte_alphabet
    return fallback_byte(spelling) is not None or (len(spelling) == 1 and ord(spelling) < 0x80)


def is_special_spelling(spelling: str) -> bool:
    """Whether a report counts the token as special, by its spelling alone."""
    return (
        len(spelling) >= 3
        and spelling[0] in "[<"
        and spelling[-1] in "]>"
        and not spelling.startswith("<0x")
        and _ASCII_LETTER.search(spelling) is not None
    )


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """The four figures of a published report."""

    bytes: int
    unreachable: int
    partial: int
    special: int


def group_counts(rows: Iterable[tuple[str, str]], byte_alphabet: frozenset[str] | None) -> GroupCounts:
    """The figures for tokens as (category, spelling)."""
    num_bytes = unreachable = partial = special = 0
    for category, spelling in rows:
        if is_byte_token(spelling, byte_alphabet=byte_alphabet):
            num_bytes += 1
        elif is_special_spelling(spelling):
            special += 1
        elif category == UNDECODEABLE:
            partial += 1
        elif category.startswith("UNREACHABLE"):
            unreachable += 1
    return GroupCounts(num_bytes, unreachable, partial, special)
