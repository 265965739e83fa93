"""State: what a page shows, as a frozen dataclass, and the same as the query of its address.

    @dataclass(frozen=True)
    class Query:
        set: str = ask("", "the set that is shown")
        page: int = ask(1, "which page of rows", low=1)

    address("/documents", Query("docs/web", 3))    ->  /documents?set=docs%2Fweb&page=3          a deep link for every state
    read_query(Query, {"page": "3"})               ->  Query("", 3)          unknown names and values are refused

Kinds of fields: str, int, float, bool, each of them or None, and tuple[str, ...], which repeats its name. What is as by default
is left out, so that an address says what was chosen.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar, get_args, get_type_hints
from urllib.parse import urlencode

from typecase.errors import BadQuery

Q = TypeVar("Q")
LONGEST = 20_000
"""Characters of one value, unless its field says otherwise."""
LONGEST_ADDRESS = 60_000
"""Characters of an address that can be reloaded: a server takes some 64 KB of request line."""


def ask(
    default: Any,
    words: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: Sequence[str] = (),
    longest: int = LONGEST,
) -> Any:
    """A field of a query: its default, what it means, and its bounds; `choices` are all that it may be."""
    told = {"words": words, "low": low, "high": high, "choices": tuple(choices), "longest": longest}
    return dataclasses.field(default=default, metadata=told)


def read_query(kind: type[Q], given: Iterable[tuple[str, str]] | Mapping[str, str]) -> Q:
    """The query that names and texts mean. Raises BadQuery naming the field that is at fault."""
    pairs = list(given.items()) if isinstance(given, Mapping) else list(given)
    fields = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    hints = get_type_hints(kind)
    values: dict[str, Any] = {}
    for name, text in pairs:
        if name not in fields:
            raise BadQuery(f"{name!r} is no parameter here: there are {', '.join(fields)}")
        value = _value(name, text, hints[name], fields[name].metadata)
        if _repeats(hints[name]):
            values[name] = (*values.get(name, ()), value)
        elif name in values:
            raise BadQuery(f"{name} is given twice: give it once")
        else:
            values[name] = value
    return kind(**values)


def checked(query: Q) -> Q:
    """`query`, whose fields are within their bounds. Raises BadQuery."""
    return read_query(type(query), [(n, t) for n, t in parameters(query)])


def parameters(query: Any) -> list[tuple[str, str]]:
    """Names and texts of all that is not as by default."""
    found: list[tuple[str, str]] = []
    for field in dataclasses.fields(query):
        value = getattr(query, field.name)
        if value == field.default:
            continue
        if isinstance(value, tuple):
            found += [(field.name, str(one)) for one in value]
        elif value is not None:
            found.append((field.name, _text(value)))
    return found


def address(path: str, query: Any = None) -> str:
    """The way to a page in the state `query`."""
    told = urlencode(parameters(query)) if query is not None else ""
    return f"{path}?{told}" if told else path


def check_address(path: str, query: Any) -> None:
    """Raises BadQuery for a state whose address is too long to be reloaded."""
    length = len(address(path, query))
    if length > LONGEST_ADDRESS:
        raise BadQuery(
            f"the address of this state would have {length:,} characters, and {LONGEST_ADDRESS:,} can be reloaded:"
            " ask for less at once, or ask the JSON API with a body where it takes one"
        )


def described(kind: type[Any]) -> list[dict[str, Any]]:
    """The parameters of a query as OpenAPI writes them."""
    hints = get_type_hints(kind)
    found = []
    for field in dataclasses.fields(kind):
        hint, told = hints[field.name], field.metadata
        schema = _schema(hint, told)
        if not _repeats(hint) and field.default is not None:
            schema["default"] = field.default
        found.append(
            {"name": field.name, "in": "query", "required": False, "description": told.get("words", ""), "schema": schema}
        )
    return found


def _schema(hint: Any, told: Mapping[str, Any]) -> dict[str, Any]:
    if _repeats(hint):
        return {"type": "array", "items": _schema(str, told)}
    kind = _plain(hint)
    schema: dict[str, Any] = {"type": {str: "string", int: "integer", float: "number", bool: "boolean"}[kind]}
    for name, word in (("low", "minimum"), ("high", "maximum")):
        if told.get(name) is not None:
            schema[word] = told[name]
    if kind is str:
        schema["maxLength"] = told.get("longest", LONGEST)
    if kind is int:
        schema.setdefault("minimum", -(1 << 53))
        schema.setdefault("maximum", 1 << 53)
    if told.get("choices"):
        schema["enum"] = list(told["choices"])
        schema.pop("maxLength", None)
    return schema


def _value(name: str, text: str, hint: Any, told: Mapping[str, Any]) -> Any:
    kind = str if _repeats(hint) else _plain(hint)
    if len(text) > told.get("longest", LONGEST):
        raise BadQuery(f"{name} has {len(text):,} characters: at most {told.get('longest', LONGEST):,} are read")
    if "\x00" in text:
        raise BadQuery(f"{name} holds a zero byte: leave it out")
    value: Any = text
    if kind is bool:
        if text.lower() not in ("true", "false", "1", "0"):
            raise BadQuery(f"{name} is {text!r}: write true or false")
        return text.lower() in ("true", "1")
    if kind in (int, float):
        try:
            value = int(text) if kind is int else float(text)
        except ValueError:
            raise BadQuery(f"{name} is {text!r}: write a{' whole' if kind is int else ''} number") from None
        low = told.get("low") if told.get("low") is not None else -(1 << 53)
        high = told.get("high") if told.get("high") is not None else 1 << 53
        if not low <= value <= high:  # nan is within no bounds
            raise BadQuery(f"{name} is {text[:40]}: it goes from {low:,} to {high:,}")
    elif told.get("choices") and text not in told["choices"]:
        raise BadQuery(f"{name} is {text!r}: choose one of {', '.join(map(repr, told['choices']))}")
    return value


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value) if isinstance(value, float) else str(value)


def _repeats(hint: Any) -> bool:
    return getattr(hint, "__origin__", None) is tuple


def _plain(hint: Any) -> type:
    kinds = [k for k in get_args(hint) if k is not type(None)] or [hint]
    return kinds[0]  # type: ignore[no-any-return]
