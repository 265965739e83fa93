"""Runs and wide columns: what went in comes out, in any order, once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from typecase.recipe import ingest_runs
from typecase.recipe.ingest_part import Part
from typecase.recipe.ingest_runs import KEY_END, RunWriter, ids_of_words, read_runs, words_of
from typecase.recipe.ingest_wide import Wide

SCHEMA = pa.schema([("key", pa.uint64()), ("n", pa.int64()), ("text", pa.large_string())])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.text(max_size=6), max_size=5), max_size=4), st.randoms(use_true_random=False))
def test_wide_takes_as_arrow_does(pieces: list[list[str]], random: object) -> None:
    arrays = [pa.array(["skipped", *piece], pa.large_string())[1:] for piece in pieces]
    flat = [text for piece in pieces for text in piece]
    rows = np.array([i for i in range(len(flat)) if i % 3 != 1][::-1], np.int64)
    random.shuffle(rows)  # type: ignore[attr-defined]
    wide = Wide.of(arrays)
    expected = [flat[i] for i in rows]
    assert wide.take(rows, pa.large_string()).to_pylist() == expected
    assert wide.take(rows, pa.large_string(), np.empty(1000, np.uint8)).to_pylist() == expected
    assert wide.lengths.tolist() == [len(text.encode()) for text in flat]


@settings(max_examples=60, deadline=None)
@given(
    batches=st.lists(st.lists(st.integers(0, KEY_END - 1) | st.sampled_from([0, 7, KEY_END - 1]), max_size=6), max_size=5),
    flush=st.sampled_from([1, 100, 1 << 20]),
    num_parts=st.integers(1, 5),
)
def test_parts_tile_the_rows(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[int]], flush: int, num_parts: int
) -> None:
    path = tmp_path_factory.mktemp("r") / "docs.arrow"
    rows = [(key, n) for n, key in enumerate(key for batch in batches for key in batch)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingest_runs, "FLUSH_BYTES", flush)
        writer, n = RunWriter(path, SCHEMA), 0
        for batch in batches:
            numbers = list(range(n, n := n + len(batch)))
            texts = [f"text {i}" for i in numbers]
            writer.add(pa.record_batch([pa.array(batch, pa.uint64()), pa.array(numbers, pa.int64()), texts], schema=SCHEMA))
        assert writer.close() == ([path.name] if path.exists() else [])
    found = []
    for k in range(num_parts):
        start, stop = Part(k, num_parts).range_of(KEY_END)
        for run in read_runs(path, start, stop):
            keys = run.column("key").to_pylist()
            assert keys == sorted(keys) and all(start <= key < stop for key in keys)
            assert run.column("text").to_pylist() == [f"text {i}" for i in run.column("n").to_pylist()]
            found += zip(keys, run.column("n").to_pylist())
    assert sorted(found) == sorted(rows)


def test_ids_are_two_words() -> None:
    ids = ["00000000000000000000000000000001", "ffffffffffffffff0000000000000000", "0123456789abcdeffedcba9876543210"]
    words = words_of(ids)
    assert ids_of_words(words[:, 0], words[:, 1]).to_pylist() == ids
    assert [tuple(w) for w in words.tolist()] == [(int(i[:16], 16), int(i[16:], 16)) for i in ids]
    assert len(ids_of_words(words[:0, 0], words[:0, 1])) == 0
