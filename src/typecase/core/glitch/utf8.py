"""Partial UTF-8, by the bytes of a token and never by its decoded text.

    whole      E9BE8D            a run of characters (one that really is U+FFFD among them)
    prefix     |E9 BE|           begins at a character, ends inside one
    suffix        |8D 41|        begins inside a character, ends at one
    both          |8D E9|        begins inside one and ends inside another
    never      C0, F5, ED A0     bytes that no UTF-8 text can hold

`missing_after` and `missing_before` say how many bytes complete it; `completions` gives some.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal, TypeVar

_T = TypeVar("_T")

Utf8Class = Literal["whole", "prefix", "suffix", "both", "never"]

# First byte -> the ranges of the bytes after it. Sequences outside are overlong, surrogates, or above U+10FFFF.
_TAIL = (0x80, 0xBF)
_FORMS: tuple[tuple[tuple[int, int], ...], ...] = (
    ((0x00, 0x7F),),
    ((0xC2, 0xDF), _TAIL),
    ((0xE0, 0xE0), (0xA0, 0xBF), _TAIL),
    ((0xE1, 0xEC), _TAIL, _TAIL),
    ((0xED, 0xED), (0x80, 0x9F), _TAIL),
    ((0xEE, 0xEF), _TAIL, _TAIL),
    ((0xF0, 0xF0), (0x90, 0xBF), _TAIL, _TAIL),
    ((0xF1, 0xF3), _TAIL, _TAIL, _TAIL),
    ((0xF4, 0xF4), (0x80, 0x8F), _TAIL, _TAIL),
)


@dataclass(frozen=True, slots=True)
class Utf8:
    """The class of some bytes; `leading` continuation bytes before the first character, `missing` after the last."""

    kind: Utf8Class
    leading: int = 0
    missing: int = 0


WHOLE = Utf8("whole")
_NEVER = Utf8("never")


def classify(data: bytes) -> Utf8:
    """The class of `data`. Bytes all inside one character (8D BE) are a suffix."""
    try:
        data.decode()
        return WHOLE
    except UnicodeDecodeError:
        pass
    leading = 0
    while leading < len(data) and 0x80 <= data[leading] <= 0xBF:
        leading += 1
    if leading > 3 or (leading and not any(_ends_form(data[:leading]))):
        return _NEVER
    missing = _missing(data[leading:])
    if missing is None:
        return _NEVER
    return Utf8("both" if leading and missing else "suffix" if leading else "prefix", leading, missing)


def _missing(data: bytes) -> int | None:
    """How many bytes are wanted after `data`, which begins a character; None when nothing completes it."""
    try:
        data.decode()
        return 0
    except UnicodeDecodeError as error:
        if error.reason != "unexpected end of data":
            return None
        tail = data[error.start :]
    # CPython calls a cut sequence so only when its bytes so far fit a form.
    return min((len(form) - len(tail) for form in _FORMS if _fits(tail, form)), default=None)


def _fits(data: bytes, form: tuple[tuple[int, int], ...]) -> bool:
    return len(data) < len(form) and all(low <= byte <= high for byte, (low, high) in zip(data, form))


def _ends_form(data: bytes) -> Iterator[tuple[tuple[int, int], ...]]:
    """The ranges that may stand before `data` for a character to end with it."""
    for form in _FORMS:
        before = len(form) - len(data)
        if before > 0 and all(low <= byte <= high for byte, (low, high) in zip(data, form[before:])):
            yield form[:before]


def completions(data: bytes, most: int) -> list[bytes]:
    """At most `most` texts, evenly spread, of one character more at either end at most, that hold `data` in one piece.

    Empty for bytes that nothing completes; [data] for whole characters.
    """
    found = classify(data)
    if found.kind == "never":
        return []
    befores: list[bytes] = [b""]
    if found.leading:
        befores = _spread([prefix for form in _ends_form(data[: found.leading]) for prefix in _members(form, most)], most)
    afters: list[bytes] = [b""]
    if found.missing:
        tail = _cut_character(data[found.leading :])
        forms = [form[len(tail) :] for form in _FORMS if _fits(tail, form)]
        afters = _spread([suffix for form in forms for suffix in _members(form, most)], most)
    return _spread([before + data + after for before in befores for after in afters], most)


def _cut_character(data: bytes) -> bytes:
    for size in (1, 2, 3):
        if data[-size] >= 0xC0:
            return data[-size:]
    raise ValueError(f"{data!r} ends in no cut character")


def _members(form: tuple[tuple[int, int], ...], most: int) -> list[bytes]:
    """At most about `most` members of a product of ranges, evenly spread in each."""
    share = max(2, int(most ** (1 / len(form))) + 1)
    choices = [_spread(list(range(low, high + 1)), share) for low, high in form]
    return [bytes(member) for member in product(*choices)]


def _spread(values: list[_T], most: int) -> list[_T]:
    if len(values) <= most:
        return values
    return [values[k * len(values) // most] for k in range(most)]
