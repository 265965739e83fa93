"""Reading UTF-8 one character at a time: as Python's decoder where bytes are valid, inside the text and the table where not."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from hypothesis import example, given

from typecase.core.minhash.words import hash_words, lower_table
from typecase.core.ngram_lm.symbols import cut
from typecase.core.selection.importance import features_of
from typecase.core.utf8 import LAST, code_at
from typecase.core.words import classes, units_of_buffers


def read(data: bytes, start: int = 0, stop: int | None = None) -> list[tuple[int, int]]:
    """Every (code, size) of data[start:stop], which stands inside longer bytes."""
    values = np.frombuffer(data, np.uint8)
    stop = len(data) if stop is None else stop
    found, i = [], start
    while i < stop:
        code, size = code_at(values, i, stop)
        found.append((int(code), int(size)))
        i += size
    assert i == stop, "a character reached beyond the text"
    return found


@given(st.text())
@example("\x00\x7f\x80\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff")
def test_valid_text_is_read_as_python_reads_it(text: str) -> None:
    assert read(text.encode()) == [(ord(char), len(char.encode())) for char in text]


@given(st.text(st.characters(min_codepoint=0xD700, max_codepoint=0xE100, exclude_categories=()), max_size=20))
def test_lone_surrogates_are_read_as_python_reads_them(text: str) -> None:
    assert [code for code, _ in read(text.encode("utf-8", "surrogatepass"))] == [ord(char) for char in text]


@given(st.binary(min_size=1), st.data())
@example(b"\xff\xff\xff\xff", None)
@example(b"a\xf0", None)
def test_bytes_that_are_no_text_stay_inside_the_text_and_the_table(data: bytes, chosen: st.DataObject | None) -> None:
    start = chosen.draw(st.integers(0, len(data) - 1)) if chosen else 0
    stop = chosen.draw(st.integers(start, len(data))) if chosen else len(data)
    inside = read(data, start, stop)
    assert all(0 <= code <= LAST and 1 <= size <= 4 for code, size in inside)
    assert sum(size for _, size in inside) == stop - start
    assert inside == read(data[start:stop]), "bytes outside the text were read"


def test_codes_above_the_last_are_the_last() -> None:
    assert read(b"\xf7\xbf\xbf\xbf") == [(LAST, 4)]
    assert read(b"\xf4\x8f\xbf\xbf") == [(LAST, 4)]


@given(st.lists(st.binary(max_size=12), min_size=1, max_size=4))
@example([b"\xff\xff\xff\xff", b"\xe4\xb8", b"\xf0"])
def test_every_reader_takes_a_text_by_itself(texts: list[bytes]) -> None:
    """Units, words, symbols and features of malformed texts do not depend on what stands behind them."""
    joined = np.frombuffer(b"".join(texts), np.uint8)
    ends = np.cumsum([0, *map(len, texts)]).astype(np.int64)
    alone = [(np.frombuffer(text, np.uint8), np.array([0, len(text)], np.int64)) for text in texts]
    assert units_of_buffers(joined, ends).tolist() == [units_of_buffers(*one)[0] for one in alone]
    assert cut(joined, ends, "words").keys.tolist() == [k for one in alone for k in cut(*one, "words").keys.tolist()]
    assert features_of(joined, ends).buckets.tolist() == [b for one in alone for b in features_of(*one).buckets.tolist()]
    for (values, _), a, b in zip(alone, ends[:-1], ends[1:], strict=True):
        assert _hashes(joined, a, b) == _hashes(values, 0, len(values))


def _hashes(values: np.ndarray, start: int, stop: int) -> tuple[list[int], list[int]]:
    size = int(stop - start)
    hashes, starts, stops = np.empty(size, np.uint64), np.empty(size, np.int64), np.empty(size, np.int64)
    num = hash_words(values, start, stop, classes(), lower_table(), hashes, starts, stops)
    return hashes[:num].tolist(), stops[:num].tolist()
