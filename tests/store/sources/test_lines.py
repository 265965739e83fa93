"""Lines: any way of cutting a file into ranges gives the same lines."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from typecase.store.sources import lines as module
from typecase.store.sources.lines import Lines, open_lines, read_lines
from typecase.store.sources.rows import TOO_LONG, TRUNCATED, Fault

Row = tuple[int, bytes] | tuple[int, str, int]


def rows_of(path: Path, start: int, stop: int | None, limit: int) -> Iterator[Row]:
    with open_lines(str(path), start) as stream:
        for block in read_lines(stream, start=start, stop=stop, limit_bytes=limit):
            if isinstance(block, Fault):
                yield block.offset, block.reason, block.raw_bytes
                continue
            offset = block.offset
            lines = block.data.split(b"\n")
            for line in lines if lines[-1] else lines[:-1]:
                yield (offset, line) if len(line) <= limit else (offset, TOO_LONG, len(line))
                offset += len(line) + 1


def naive(data: bytes, limit: int) -> list[Row]:
    rows: list[Row] = []
    offset = 3 if data.startswith(module.BOM) else 0
    lines = data[offset:].split(b"\n")
    for line in lines if lines[-1] else lines[:-1]:
        rows.append((offset, line) if len(line) <= limit else (offset, TOO_LONG, len(line)))
        offset += len(line) + 1
    return rows


@settings(max_examples=200, deadline=None)
@given(
    pieces=st.lists(st.sampled_from([b"\n", b"a", b"bcd", b"efghijklmnop", b"x" * 40, b"y" * 5000]), max_size=30),
    cuts=st.lists(st.integers(0, 250), max_size=5),
    limit=st.sampled_from([5, 20, 1000]),
    block=st.sampled_from([1, 7, 64, 1 << 20]),
    chunk=st.sampled_from([1, 5, 1 << 20]),
    bom=st.booleans(),
)
def test_ranges_tile_the_lines(
    tmp_path_factory: pytest.TempPathFactory,
    pieces: list[bytes],
    cuts: list[int],
    limit: int,
    block: int,
    chunk: int,
    bom: bool,
) -> None:
    data = (module.BOM if bom else b"") + b"".join(pieces)
    path = tmp_path_factory.mktemp("l") / "x"
    path.write_bytes(data)
    bounds = [0, *sorted(c for c in set(cuts) if len(module.BOM) < c < len(data))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK_BYTES", block)
        patch.setattr("typecase.store.sources.streams.CHUNK_BYTES", chunk)
        found = [row for a, b in zip(bounds, [*bounds[1:], None]) for row in rows_of(path, a, b, limit)]
    assert found == naive(data, limit)


def test_a_cut_stream_leaves_one_fault(tmp_path: Path) -> None:
    data = b"".join(b"line %d\n" % (i * i) for i in range(20_000))
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(data)[:-3000])
    *rows, last = rows_of(path, 0, None, 1000)
    good = b"".join(line + b"\n" for _, line in rows)  # type: ignore[misc]
    assert data.startswith(good) and len(good) > len(data) // 2
    assert last[:2] == (len(good), TRUNCATED)


def test_a_cut_after_a_whole_line_is_told_too(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"a\nb\n")[:-8])
    assert list(rows_of(path, 0, None, 1000)) == [(0, b"a"), (2, b"b"), (4, TRUNCATED, 0)]


def test_a_long_line_at_the_cut_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"a\n" + b"b" * 5000)[:-8])
    assert list(rows_of(path, 0, None, 100)) == [(0, b"a"), (2, TRUNCATED, 5000)]


def test_a_block_holds_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"ab\ncd\nef")
    with open_lines(str(path), 0) as stream:
        blocks = list(read_lines(stream, limit_bytes=100))
    assert blocks == [Lines(b"ab\ncd\n", 0), Lines(b"ef", 6)]
