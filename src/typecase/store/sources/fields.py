"""Fields: the text, the id and the source of a row that is an object; what they must be, and why they are not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from typecase.store.sources.rows import BAD_ID, BAD_JSON, MISSING_ID, MISSING_TEXT, TEXT_NOT_STRING

_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Fields:
    """Where a row keeps its text, its id and its source; a dotted name reaches into nested objects.

    A key that has the dotted name itself wins over the path.
    """

    text: str = "text"
    key: str | None = None
    source: str | None = None


class FieldFault(Exception):
    """A row or one of its fields is not what it must be."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail


def key_of(item: Mapping[str, Any], fields: Fields) -> str | None:
    """The id of a row: a string, or an integer in decimal digits; None where no id is asked for. Raises FieldFault."""
    if fields.key is None:
        return None
    value = _found(item, fields.key)
    if value is _ABSENT or value is None or value == "":
        what = "is missing" if value is _ABSENT else "is null" if value is None else "is empty"
        raise FieldFault(MISSING_ID, f"{fields.key!r} {what}")
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise FieldFault(BAD_ID, f"{fields.key!r} is {kind_of(value)}; an id is a string or an integer")
    return str(value)


def source_of(item: Mapping[str, Any], fields: Fields) -> str | None:
    """The source of a row, as JSON when it is no string; None where it has none."""
    if fields.source is None:
        return None
    value = _found(item, fields.source)
    if value is _ABSENT or value is None:
        return None
    return value if isinstance(value, str) else json_bytes(value).decode()


def pop_text(item: dict[str, Any], fields: Fields) -> str:
    """The text of a row, taken out of it: what stays is its metadata. Raises FieldFault."""
    holder, name = item, fields.text
    if name not in item:
        *path, name = name.split(".")
        for step in path:
            inner = holder.get(step)
            if not isinstance(inner, dict):
                raise FieldFault(MISSING_TEXT, f"no {fields.text!r}; the row has {_names(item)}")
            holder = inner
    if name not in holder:
        raise FieldFault(MISSING_TEXT, f"no {fields.text!r}; the row has {_names(item)}")
    text = holder[name]
    if not isinstance(text, str):
        raise FieldFault(TEXT_NOT_STRING, f"{fields.text!r} is {kind_of(text)}")
    del holder[name]
    return text


def _found(item: Mapping[str, Any], name: str) -> Any:
    if name in item:
        return item[name]
    value: Any = item
    for step in name.split("."):
        if not isinstance(value, Mapping) or step not in value:
            return _ABSENT
        value = value[step]
    return value


def json_bytes(value: object) -> bytes:
    """`value` as JSON, integers exact, NaN as null. Raises FieldFault for what is nested too deeply to be read again."""
    try:
        return orjson.dumps(value)
    except TypeError:  # an integer beyond 64 bits, or more than 254 levels
        pass
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except RecursionError:
        raise FieldFault(BAD_JSON, "nested too deeply") from None


def kind_of(value: object) -> str:
    """What a JSON value is, for a message."""
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "an array", dict: "an object"}
    return names.get(type(value), f"a {type(value).__name__}")


def _names(item: Mapping[str, Any]) -> str:
    """The fields of a row, for a message."""
    shown = sorted(item)[:8]
    return ", ".join(repr(name[:40]) for name in shown) + (" …" if len(item) > len(shown) else "") if shown else "no fields"


def unique_names(names: Sequence[str]) -> list[str]:
    """The names of columns; one that repeats gets a number (`a`, `a_2`), so that no column is lost."""
    result: list[str] = []
    for name in names:
        shown, number = name, 1
        while shown in result or (number > 1 and shown in names):
            number += 1
            shown = f"{name}_{number}"
        result.append(shown)
    return result
