"""Cells: the grammar of Python's csv module, in any buffer."""

from __future__ import annotations

import csv
import io

from hypothesis import given, settings
from hypothesis import strategies as st

from typecase.store.sources.cells import ends_in_quotes, find_cells, record_end, unescaped

texts = st.text(alphabet='ab,"\n\r\t', max_size=40)


def records(data: bytes, *, final: bool = True, delimiter: str = ",") -> tuple[list[list[bytes]], int, bool]:
    cells = find_cells(data, ord(delimiter), final=final)
    rows = []
    for i in range(len(cells.spans)):
        span = range(cells.first[i], cells.first[i + 1])
        values = [data[cells.starts[j] : cells.stops[j]] for j in span]
        rows.append([unescaped(v) if cells.escaped[j] else v for v, j in zip(values, span)])
    return rows, cells.used, cells.in_quotes


def naive(text: str, delimiter: str = ",") -> list[list[bytes]]:
    """The csv module over universal line ends, as `open(newline="")` gives them."""
    lines = io.StringIO(text, newline="")
    return [[cell.encode() for cell in row] for row in csv.reader(lines, delimiter=delimiter) if row]


@settings(max_examples=400, deadline=None)
@given(texts, st.sampled_from([",", "\t"]))
def test_as_the_csv_module(text: str, delimiter: str) -> None:
    rows, used, in_quotes = records(text.encode(), delimiter=delimiter)
    if in_quotes:  # csv gives what there is; here it stays unread
        assert rows == naive(text, delimiter)[: len(rows)]
        assert used < len(text)
    else:
        assert rows == naive(text, delimiter)
        assert used == len(text)


@settings(max_examples=200, deadline=None)
@given(texts, st.integers(0, 40))
def test_a_record_may_come_in_two_reads(text: str, at: int) -> None:
    data = text.encode()
    whole, used, _ = records(data, final=False)
    first, mid, _ = records(data[:at], final=False)
    second, more, _ = records(data[mid:], final=False)
    assert first + second == whole and mid + more == used


@settings(max_examples=200, deadline=None)
@given(texts, st.integers(1, 40))
def test_a_long_record_is_followed_to_its_end(text: str, at: int) -> None:
    """record_end, a buffer at a time, finds the end of the first record, as find_cells does."""
    data = text.lstrip("\r\n").encode()
    cells = find_cells(data, ord(","), final=False)
    end, state = record_end(data[:at], ord(","), 0)
    if end < 0:
        end, state = record_end(data[at:], ord(","), state)
        end += at if end >= 0 else 0
    if len(cells.spans):
        assert end == cells.spans[0][1] + 1
    else:
        assert end == -1 and ends_in_quotes(state) == cells.in_quotes


def test_spans_are_the_bytes_of_records() -> None:
    data = b'a,"x\r\ny"\r\n\r\nb,c\rd,"e"'
    cells = find_cells(data, ord(","), final=True)
    assert [data[a:b] for a, b in cells.spans.tolist()] == [b'a,"x\r\ny"', b"b,c", b'd,"e"']
