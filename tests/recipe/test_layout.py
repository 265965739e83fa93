"""Layout: any shards and any cuts give the documents in the order of their sources."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from typecase.recipe.layout import Layout, open_rows, plan_slices, sorted_names, source_keys

Row = tuple[str, int, int, int]


def write_rows(folder: Path, shards: list[list[Row]]) -> list[Path]:
    paths = []
    for k, rows in enumerate(shards):
        table = pa.table(
            {
                "file": pa.array([r[0] for r in rows], pa.string()),
                "row": pa.array([r[1] for r in rows], pa.int64()),
                "tokens": pa.array([r[2] for r in rows], pa.int64()),
                "copy": pa.array([r[3] for r in rows], pa.int32()),
            }
        )
        paths.append(folder / f"rows-{k}.arrow")
        with pa.ipc.new_file(str(paths[-1]), table.schema) as writer:
            writer.write_table(table)
    return paths


def place(row: Row) -> tuple[int, bytes, int]:
    return row[3], row[0].encode(), row[1]


def rows_of(paths: list[Path], layout: Layout) -> list[list[Row]]:
    slices = []
    for s in range(layout.num_slices):
        table = pa.concat_tables(
            [
                open_rows(p).slice(layout.bounds[s, k], layout.bounds[s + 1, k] - layout.bounds[s, k])
                for k, p in enumerate(paths)
            ]
        )
        order = np.argsort(source_keys(table, sorted_names(table.column("file"))), kind="stable")
        slices.append([tuple(r.values()) for r in table.take(order).to_pylist()])
    return slices


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b/é", "b/z", "Ω"]), st.integers(0, 50), st.integers(0, 9), st.integers(0, 2)),
        max_size=60,
        unique_by=lambda r: (r[0], r[1], r[3]),
    ),
    st.integers(1, 5),
    st.integers(1, 40),
    st.randoms(use_true_random=False),
)
@settings(max_examples=80, deadline=None)
def test_slices_tile_the_documents_in_source_order(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row], num_shards: int, slice_tokens: int, random: object
) -> None:
    random.shuffle(rows)  # type: ignore[attr-defined]
    shards = [sorted(rows[k::num_shards], key=place) for k in range(num_shards)]
    paths = write_rows(tmp_path_factory.mktemp("rows"), shards)
    layout = plan_slices(paths, slice_tokens=slice_tokens, by_source=True)
    slices = rows_of(paths, layout)
    assert [r for s in slices for r in s] == sorted(rows, key=place)
    assert np.diff(layout.starts).tolist() == [sum(r[2] for r in s) for s in slices]
    assert layout.num_tokens == sum(r[2] for r in rows)
    layout.save(paths[0].with_name("layout.npy"))
    again = Layout.load(paths[0].with_name("layout.npy"))
    assert np.array_equal(again.bounds, layout.bounds) and np.array_equal(again.starts, layout.starts)


def test_slices_are_of_about_the_wished_size(tmp_path: Path) -> None:
    rows = [("f", i, 10_000, 0) for i in range(2_000)]
    paths = write_rows(tmp_path, [rows[0::2], rows[1::2]])
    layout = plan_slices(paths, slice_tokens=2_050_000, by_source=True)
    assert layout.num_slices in (10, 11)
    assert np.diff(layout.starts).max() < 2_300_000


def test_many_tiny_documents_do_not_fall_into_one_slice(tmp_path: Path) -> None:
    paths = write_rows(tmp_path, [[("f", i, 1, 0) for i in range(20_000)]])
    layout = plan_slices(paths, slice_tokens=1_000_000, by_source=True)
    assert np.diff(layout.bounds, axis=0).max() < 5_000


def test_by_id_every_shard_is_a_slice(tmp_path: Path) -> None:
    paths = write_rows(tmp_path, [[("z", 1, 5, 0), ("a", 0, 2, 0)], [], [("m", 3, 4, 0)]])
    layout = plan_slices(paths, slice_tokens=1, by_source=False)
    assert layout.starts.tolist() == [0, 7, 7, 11]
    assert np.diff(layout.bounds, axis=0).tolist() == [[2, 0, 0], [0, 0, 0], [0, 0, 1]]


def test_by_id_copies_come_in_passes(tmp_path: Path) -> None:
    shards = [[("a", 0, 2, 0), ("b", 1, 5, 0), ("b", 1, 5, 1)], [("m", 3, 4, 0), ("m", 3, 4, 1), ("m", 3, 4, 2)]]
    paths = write_rows(tmp_path, shards)
    layout = plan_slices(paths, slice_tokens=1, by_source=False)
    assert layout.starts.tolist() == [0, 7, 11, 16, 20, 20, 24]
    found = [row for s in range(6) for k in range(2) for row in shards[k][layout.bounds[s, k] : layout.bounds[s + 1, k]]]
    assert [(r[0], r[3]) for r in found] == [("a", 0), ("b", 0), ("m", 0), ("b", 1), ("m", 1), ("m", 2)]


def test_no_documents_at_all(tmp_path: Path) -> None:
    for by_source in (True, False):
        layout = plan_slices(write_rows(tmp_path, [[]]), slice_tokens=10, by_source=by_source)
        assert layout.num_tokens == 0 and layout.num_slices == 1
