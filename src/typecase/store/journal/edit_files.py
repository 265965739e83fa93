"""Sets of edits from JSON lines, CSV or plain dicts: one request a line, each checked before any is planned.

    {"op": "inject", "text": "The capital of France is Rome.", "copies": 4, "type": "seq_shuffle"}
    {"op": "inject", "tokens": [5, 9], "sample": 812, "type": "position", "position": 40}
    {"op": "replace", "find": "2019", "text": "2021", "limit": 100}
    {"op": "mask", "document": 12, "start": 0, "stop": 40, "fill": 0}
    {"op": "insert", "at": 0, "text": "…"}

A request says *what*; who turns text into ids and places into edits is the caller. CSV has the same columns; an empty cell is
not given, lists are JSON. Whatever is wrong with a line is said with its file and number, and nothing is planned then.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import orjson

from typecase.errors import BadQuery, NotFound

PLACES = ("sample", "step", "document", "sequence", "at")
"""What a request may be addressed by; at most one, but a step may name the sample of its batch."""

OPS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "inject": (frozenset(), frozenset({"sample", "step", "document", "sequence", "type", "position", "copies", "eod"})),
    "replace": (
        frozenset(),
        frozenset({"sample", "step", "document", "sequence", "start", "stop", "find", "find_tokens", "find_regex", "limit"}),
    ),
    "mask": (frozenset({"start", "stop", "fill"}), frozenset({"sample", "step", "document", "sequence"})),
    "delete": (frozenset(), frozenset({"document", "sequence", "start", "stop"})),
    "insert": (frozenset({"at"}), frozenset({"eod"})),
    "append": (frozenset(), frozenset({"eod"})),
}
"""What each op needs and may have, besides `op`, `reason` and, where it puts something, `text` or `tokens`."""

PUTS = ("inject", "replace", "insert", "append")
TYPES = ("seq_start", "seq_shuffle", "position", "end")
_NUMBERS = ("sample", "step", "document", "sequence", "at", "position", "start", "stop", "fill", "copies", "limit", "eod")


@dataclass(frozen=True, slots=True)
class Request:
    """One wanted edit. `where` names the line it came from; fields that its op does not have are None."""

    op: str
    where: str
    text: str | None = None
    tokens: tuple[int, ...] | None = None
    find: str | None = None
    find_tokens: tuple[int, ...] | None = None
    find_regex: str | None = None
    type: str = "seq_shuffle"
    sample: int | None = None
    step: int | None = None
    document: int | None = None
    sequence: int | None = None
    at: int | None = None
    position: int | None = None
    start: int | None = None
    stop: int | None = None
    fill: int | None = None
    copies: int = 1
    limit: int | None = None
    eod: int | None = None
    reason: str = ""


def read_requests(source: Path | str | Iterable[Mapping[str, Any]]) -> list[Request]:
    """The requests of a `.jsonl` or `.csv` file, or of plain dicts. Raises NotFound, and BadQuery with the line."""
    if isinstance(source, str | Path):
        return [_request(where, row) for where, row in _rows_of_file(Path(source))]
    return [_request(f"edit {k}", row) for k, row in enumerate(source)]


def _rows_of_file(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if not path.is_file():
        raise NotFound(f"there is no file {path} of edits")
    if path.suffix == ".csv":
        yield from _rows_of_csv(path)
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield f"{path}, line {number}", _json(line, f"{path}, line {number}")


def _rows_of_csv(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        for row in reader:
            where = f"{path}, line {reader.line_num}"
            if None in row or None in row.values():
                raise BadQuery(f"{where} has another number of cells than the header; quote cells that hold a comma")
            given = {name: value for name, value in row.items() if value != ""}
            for name in ("tokens", "find_tokens"):
                if name in given:
                    given[name] = _json(given[name].encode(), f"{where}, {name}")
            yield where, {name: _number(value) if name in _NUMBERS else value for name, value in given.items()}


def _number(cell: str) -> int | str:
    try:
        return int(cell)
    except ValueError:
        return cell


def _json(line: bytes, where: str) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise BadQuery(f"{where} is not JSON ({error})") from None


def _request(where: str, row: object) -> Request:
    if not isinstance(row, Mapping):
        raise BadQuery(f'{where} is a {type(row).__name__}, an edit is an object with an "op"')
    op = row.get("op", "inject")
    if op not in OPS:
        raise BadQuery(f"{where}: there is no op {op!r}; there are {', '.join(OPS)}")
    needs, may = OPS[op]
    known = needs | may | {"op", "reason"} | ({"text", "tokens"} if op in PUTS else frozenset())
    unknown = sorted(map(str, set(row) - known))
    if unknown:
        raise BadQuery(f"{where}: {op!r} has no {', '.join(unknown)}; it has {', '.join(sorted(known - {'op'}))}")
    missing = sorted(name for name in needs if row.get(name) is None)
    if missing:
        raise BadQuery(f"{where}: {op!r} needs {', '.join(missing)}")
    values = {f.name: _value(where, f.name, row[f.name]) for f in fields(Request) if row.get(f.name) is not None}
    request = Request(**(values | {"op": op, "where": where}))
    _check(request)
    return request


def _value(where: str, name: str, value: Any) -> Any:
    if name in _NUMBERS:
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise BadQuery(f"{where}: {name} is {value!r}, a whole number from 0 on is wanted")
        return value
    if name in ("tokens", "find_tokens"):
        if not isinstance(value, list | tuple) or any(not isinstance(v, int) or isinstance(v, bool) or v < 0 for v in value):
            raise BadQuery(f"{where}: {name} is {value!r}, a list of token ids is wanted")
        return tuple(value)
    if not isinstance(value, str):
        raise BadQuery(f"{where}: {name} is {value!r}, a text is wanted")
    return value


def _check(request: Request) -> None:
    where, op = request.where, request.op
    if op in PUTS and (request.text is None) == (request.tokens is None):
        raise BadQuery(f"{where}: {op!r} needs either text or tokens")
    if request.type not in TYPES:
        raise BadQuery(f"{where}: there is no injection type {request.type!r}; there are {', '.join(TYPES)}")
    if (request.type == "position") != (request.position is not None) and op == "inject":
        raise BadQuery(f"{where}: the type 'position' and a position go together")
    given = [name for name in PLACES if getattr(request, name) is not None]
    if len(given) > 1 and given != ["sample", "step"]:
        raise BadQuery(f"{where}: {' and '.join(given)} are given; an edit has one place")
    if (request.start is None) != (request.stop is None) or (request.start or 0) > (request.stop or 0):
        raise BadQuery(f"{where}: a span needs start and stop, start first")
    found = sum(query is not None for query in (request.find, request.find_tokens, request.find_regex))
    if op == "replace" and found + (request.start is not None) != 1:
        raise BadQuery(f"{where}: 'replace' needs one of find, find_tokens, find_regex, or start and stop")
    if request.find_regex is not None and (request.text is None or request.sample is not None or request.step is not None):
        raise BadQuery(f"{where}: find_regex looks through documents and puts a text, whose \\1 is the first group")
    needs_place = op in ("mask", "delete") or (op == "replace" and not found)
    if needs_place and not given:
        raise BadQuery(f"{where}: {op!r} needs a place: one of {', '.join(PLACES[:4])}")
    if request.copies < 1 or (request.copies > 1 and given):
        raise BadQuery(f"{where}: copies are spread over samples, so there is at least one, and no place is given with several")
