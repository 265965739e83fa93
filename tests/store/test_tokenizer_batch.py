"""Many texts at once: the same ids from any container, for any number of threads, and refusals by index."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from typecase.errors import BadQuery, FixInput
from typecase.store.tokenizer.tokenizer import open_tokenizer

from .tokenizer_samples import BYTES, PIECES, texts

TOKENIZER = open_tokenizer(BYTES)


@given(given_texts=st.lists(texts, max_size=8), threads=st.integers(1, 3))
def test_a_batch_is_its_texts_end_to_end(given_texts: list[str], threads: int) -> None:
    ids, lengths = TOKENIZER.encode_batch(given_texts, threads=threads)
    one_by_one = [TOKENIZER.encode(text) for text in given_texts]
    assert ids.tolist() == [i for part in one_by_one for i in part]
    assert lengths.tolist() == [len(part) for part in one_by_one]
    assert (ids.dtype, lengths.dtype) == (np.int32, np.int64)


@given(given_texts=st.lists(texts, max_size=8), cut=st.integers(0, 8), threads=st.integers(1, 3))
def test_arrow_arrays_give_what_strings_give(given_texts: list[str], cut: int, threads: int) -> None:
    ids, lengths = TOKENIZER.encode_batch(given_texts)
    padded = pa.array(["before", *given_texts, "after"], pa.large_string())
    for array in (
        pa.array(given_texts, pa.large_string()),
        pa.array(given_texts, pa.string()),
        padded.slice(1, len(given_texts)),
        pa.chunked_array([given_texts[:cut], [], given_texts[cut:]], pa.large_string()),
    ):
        there = TOKENIZER.encode_batch(array, threads=threads)
        assert np.array_equal(there[0], ids)
        assert np.array_equal(there[1], lengths)


@pytest.mark.parametrize("path", [BYTES, PIECES], ids=["tiktoken", "tokenizers"])
@pytest.mark.parametrize("threads", [1, 2, None])
def test_refusals_are_values_and_the_rest_goes_on(path: object, threads: int | None) -> None:
    tokenizer = open_tokenizer(path)  # type: ignore[arg-type]
    given_texts = ["the sorts"] * 20 + ["bad \ud800"] + ["the case"] * 20
    encoded = tokenizer.try_encode_batch(given_texts, threads=threads)
    assert dict(encoded.refused) == {20: "a lone surrogate U+D800 at character 4, which no UTF-8 can hold"}
    assert encoded.lengths[20] == 0
    assert len(encoded.ids) == encoded.lengths.sum() == 80
    with pytest.raises(FixInput, match="text 20 of 41 cannot be encoded: a lone surrogate"):
        tokenizer.encode_batch(given_texts, threads=threads)


def test_nulls_and_bytes_that_are_no_utf8_are_refused_by_place() -> None:
    offsets = pa.array([0, 3, 3, 6], pa.int64()).buffers()[1]
    array = pa.Array.from_buffers(pa.large_string(), 3, [pa.py_buffer(b"\x05"), offsets, pa.py_buffer(b"abcd\xffe")])
    encoded = TOKENIZER.try_encode_batch(array)
    assert dict(encoded.refused) == {1: "a null instead of a text", 2: "byte 1 is not UTF-8 (invalid start byte)"}
    assert encoded.ids.tolist() == TOKENIZER.encode("abc").tolist()
    assert TOKENIZER.try_encode_batch(["a", None]).refused == {1: "a null instead of a text"}  # type: ignore[list-item]
    assert TOKENIZER.try_encode_batch(pa.nulls(2, pa.large_string())).lengths.tolist() == [0, 0]


def test_nothing_gives_nothing() -> None:
    for none in ([], pa.array([], pa.large_string()), pa.chunked_array([], pa.large_string())):
        for threads in (1, 2):
            ids, lengths = TOKENIZER.encode_batch(none, threads=threads)
            assert (len(ids), len(lengths), ids.dtype, lengths.dtype) == (0, 0, np.int32, np.int64)


def test_what_cannot_be_a_batch() -> None:
    with pytest.raises(BadQuery, match="threads=0"):
        TOKENIZER.encode_batch(["a"], threads=0)
    with pytest.raises(BadQuery, match="an Arrow array of int64: cast it to large_string"):
        TOKENIZER.encode_batch(pa.array([1, 2]))
