"""The JSON form of Arrow values, so that a column of any type can be metadata.

    timestamp            "2017-07-14T02:40:00.123456", with Z when the column has a time zone (it is stored in UTC)
    date, time           "2017-07-14", "02:40:00.123456"
    decimal              its digits as a string
    duration             an integer in the unit of the column
    binary               base64
    NaN, infinity        null
    map                  an object when its keys are strings, else pairs
    list, struct         array, object, of the above

Price: a Python object per value.
"""

from __future__ import annotations

from base64 import b64encode
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt


def json_values(array: pa.Array) -> list[Any]:
    """The values of an array as what `orjson.dumps` accepts, None where null."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return json_values(array.storage)
    if pt.is_dictionary(kind):
        return json_values(array.dictionary_decode())
    if pt.is_nested(kind):
        return _nested(array)
    if pt.is_timestamp(kind):
        return _timestamps(array)
    if pt.is_temporal(kind) and not pt.is_duration(kind) and kind != pa.month_day_nano_interval():
        array = array.cast(pa.string())
    elif pt.is_duration(kind):
        array = array.cast(pa.int64())
    elif pt.is_decimal(kind):
        array = array.cast(pa.string())
    elif pt.is_float16(kind):
        array = array.cast(pa.float32())
    elif pt.is_string(kind) or pt.is_large_string(kind) or kind == pa.string_view():
        return _strings(array)
    elif pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind) or kind == pa.binary_view():
        return [None if v is None else b64encode(v).decode() for v in array.to_pylist()]
    elif not pt.is_primitive(kind) and not pt.is_null(kind):
        return [None if v is None else str(v) for v in array.to_pylist()]
    return list(array.to_pylist())


def _strings(array: pa.Array) -> list[str | None]:
    """Strings; bytes that are not UTF-8, which a file may hold, are shown as escapes."""
    try:
        return list(array.to_pylist())
    except UnicodeDecodeError:
        wide = array.cast(pa.large_binary()).to_pylist()
        return [None if v is None else v.decode("utf-8", "backslashreplace") for v in wide]


def _timestamps(array: pa.Array) -> list[str | None]:
    # Seen as a time without a zone, so that no time zone database is asked.
    shown = array.view(pa.timestamp(array.type.unit)).cast(pa.string())
    shown = pc.replace_substring_regex(shown, r"^(-?\d+-\d+-\d+) ", r"\1T")
    if array.type.tz is not None:
        shown = pc.binary_join_element_wise(shown, "Z", "")
    return list(shown.to_pylist())


def _nested(array: pa.Array) -> list[Any]:
    kind = array.type
    valid = array.is_valid().to_pylist()
    if pt.is_struct(kind):
        children = [json_values(child) for child in array.flatten()]
        names = [kind.field(i).name for i in range(kind.num_fields)]
        rows = zip(*children, strict=True) if children else ((),) * len(array)
        return [dict(zip(names, row, strict=True)) if ok else None for ok, row in zip(valid, rows, strict=True)]
    if pt.is_map(kind):
        keys, items, ends = json_values(array.keys), json_values(array.items), array.offsets.to_pylist()
        pairs = [list(zip(keys[a:b], items[a:b], strict=True)) for a, b in pairwise(ends)]
        named = all(isinstance(key, str) for key in keys)
        return [(dict(p) if named else list(map(list, p))) if ok else None for ok, p in zip(valid, pairs, strict=True)]
    if pt.is_union(kind):
        return [None if v is None else str(v) for v in array.to_pylist()]
    values, at, lists = json_values(array.flatten()), 0, list[Any]()
    for length in pc.list_value_length(array).to_pylist():
        lists.append(None if length is None else values[at : at + length])
        at += length or 0
    return lists
