"""JSON lines: one object a line, any range of a file.

A block of lines is parsed at once; when one of them is no document, the block is read again line by line, and the two
ways agree. Row numbers are line numbers from zero; a blank line (white space only) has a number and is not a row.
NaN and the infinities, which are not JSON but which some writers use, become null; integers of up to 4300 digits stay
exact; of a repeated key the last one counts. A file that holds one JSON array over many lines is not JSON lines.

Price: 250 MB/s of text on one core with two small fields beside the text; a block with a bad line costs twice.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from typecase.store.shards import buffers_of
from typecase.store.sources.fields import FieldFault, Fields, json_bytes, key_of, kind_of, pop_text, source_of
from typecase.store.sources.lines import read_lines
from typecase.store.sources.rows import (
    BAD_JSON,
    BAD_UTF8,
    LONE_SURROGATE,
    NUL_BYTE,
    TOO_LONG,
    Fault,
    Rows,
    RowsBuilder,
    no_meta,
    strings_of,
)
from typecase.store.sources.streams import Stream

_MAYBE_BIG = re.compile(rb"[0-9]e[+]?[0-9]")
"""In what orjson writes: a float that may have been an integer of more than 64 bits."""


def read_jsonl(stream: Stream, fields: Fields, *, start: int = 0, stop: int | None = None, limit_bytes: int) -> Iterator[Rows]:
    """The rows whose lines begin in the bytes [start, stop); row numbers count the lines of this range.

    `stream` comes from `open_lines(path, start)`.
    """
    row = 0
    for block in read_lines(stream, start=start, stop=stop, limit_bytes=limit_bytes):
        if isinstance(block, Fault):
            yield RowsBuilder(limit_bytes, faults=[replace(block, row=row)]).finish(row + 1)
            row += 1
            continue
        lines = block.data.split(b"\n")
        if not lines[-1]:
            lines.pop()
        lengths = np.fromiter(map(len, lines), np.int64, len(lines))
        offsets = block.offset + np.concatenate(([0], np.cumsum(lengths + 1)[:-1]))
        rows = _at_once(lines, row, offsets, fields) if lengths.max() <= limit_bytes else None
        yield rows if rows is not None else _one_by_one(lines, row, offsets.tolist(), fields, limit_bytes)
        row += len(lines)


def _at_once(lines: Sequence[bytes], row: int, offsets: np.ndarray, fields: Fields) -> Rows | None:
    """All lines as documents; None as soon as one needs a closer look."""
    keys: list[str] | None = None
    sources: list[str] | None = None
    try:
        objects = list(map(orjson.loads, lines))
        if fields.key is not None:
            keys = [str(k) if type(k) is int else k for k in _column(objects, fields.key)]
        if fields.source is not None:
            sources = _column(objects, fields.source)
        texts = _column(objects, fields.text, take=True)
        metas = list(map(orjson.dumps, objects)) if any(objects) else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    if not _strings(texts) or not _strings(keys) or not _strings(sources) or "" in texts or (keys and "" in keys):
        return None
    text = pa.array(texts, pa.large_string())
    values, ends = buffers_of(text)
    if values[: ends[-1]].min() == 0 or (metas and _MAYBE_BIG.search(b"\n".join(metas))):
        return None
    return Rows(
        text=text,
        meta=strings_of(metas) if metas else no_meta(len(lines)),
        rows=np.arange(row, row + len(lines), dtype=np.int64),
        offsets=offsets,
        next_row=row + len(lines),
        keys=keys,
        sources=sources,
    )


def _column(objects: Sequence[Any], name: str, *, take: bool = False) -> list[Any]:
    """The field `name` of every object, taken out of it when `take`; any error when one lacks it."""
    if "." in name and not any(name in item for item in objects):
        *path, name = name.split(".")
        for step in path:
            objects = [item[step] for item in objects]
    return [item.pop(name) for item in objects] if take else [item[name] for item in objects]


def _strings(values: Sequence[Any] | None) -> bool:
    return values is None or set(map(type, values)) == {str}


def _one_by_one(lines: Sequence[bytes], row: int, offsets: Sequence[int], fields: Fields, limit_bytes: int) -> Rows:
    builder = RowsBuilder(limit_bytes)
    for number, (line, offset) in enumerate(zip(lines, offsets, strict=True), row):
        if len(line) > limit_bytes:
            detail = f"a line of {len(line)} bytes, the limit is {limit_bytes}"
            builder.fault(Fault.of(number, offset, TOO_LONG, detail, line))
        elif line.strip():
            _read_line(builder, number, offset, line, fields)
    return builder.finish(row + len(lines))


def _read_line(builder: RowsBuilder, row: int, offset: int, line: bytes, fields: Fields) -> None:
    key = None
    try:
        item = _object_of(line)
        key = key_of(item, fields)
        source = source_of(item, fields)
        text = pop_text(item, fields).encode()
        meta = json_bytes(item)
    except FieldFault as fault:
        builder.fault(Fault.of(row, offset, fault.reason, fault.detail, line, key=key))
        return
    builder.add(row, offset, text, raw=line, meta=meta, key=key, source=source)


def _object_of(line: bytes) -> dict[str, Any]:
    """The object of a line, exact. Raises FieldFault."""
    try:
        value = orjson.loads(line)
        if _MAYBE_BIG.search(orjson.dumps(value)):
            value = _lenient(line)
    except (ValueError, TypeError):
        value = _lenient(line)
    if not isinstance(value, dict):
        raise FieldFault(BAD_JSON, f"an object is wanted, this is {kind_of(value)}")
    return value


def _lenient(line: bytes) -> Any:
    """Python's own parser, which is slower, keeps long integers, and knows NaN. Raises FieldFault with the reason."""
    if (at := line.find(0)) >= 0:
        raise FieldFault(NUL_BYTE, f"at byte {at} of the line")
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise FieldFault(BAD_UTF8, f"{error.reason} at byte {error.start} of the line") from None
    try:
        value = json.loads(text, parse_constant=lambda _: None, parse_float=_finite)
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise FieldFault(LONE_SURROGATE, f"U+{ord(error.object[error.start]):04X} without its partner") from None
    except RecursionError:
        raise FieldFault(BAD_JSON, "nested too deeply") from None
    except ValueError as error:
        raise FieldFault(BAD_JSON, str(error)) from None
    return value


def _finite(digits: str) -> float | None:
    value = float(digits)
    return None if math.isinf(value) else value
