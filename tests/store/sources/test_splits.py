"""Splits: they tile the listing; small files share one, large ones are cut."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from typecase.store.sources import splits as module
from typecase.store.sources.files import list_files
from typecase.store.sources.splits import cut_splits


def test_large_files_are_cut_and_small_ones_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SPLIT_BYTES", 1000)
    monkeypatch.setattr(module, "GROUP_BYTES", 500)
    line = b'{"text":"' + b"x" * 40 + b'"}\n'
    (tmp_path / "a.jsonl").write_bytes(line * 50)
    (tmp_path / "b.txt").write_bytes(b"b" * 5000)
    (tmp_path / "c.jsonl").write_bytes(gzip.compress(line * 2000 + bytes(range(256)) * 20))
    pq.write_table(pa.table({"text": ["x" * 300] * 10}), tmp_path / "d.parquet", row_group_size=1, use_dictionary=False)
    for i in range(5):
        (tmp_path / f"e{i}.txt").write_bytes(b"e" * 200)
    files = list_files([str(tmp_path)])
    splits = cut_splits(files)
    assert [split.index for split in splits] == list(range(len(splits)))
    seen = [(n, split.start, split.stop) for split in splits for n in range(split.first, split.first + len(split.files))]
    assert [bounds[1:] for bounds in seen if bounds[0] == 0] == [(0, 866), (866, 1733), (1733, None)]
    assert [bounds[1:] for bounds in seen if bounds[0] in (1, 2)] == [(0, None)] * 2
    groups = [bounds[1:] for bounds in seen if bounds[0] == 3]
    assert groups[0][0] == 0 and groups[-1][1] == 10 and len(groups) > 2
    assert [a[1] for a in groups[:-1]] == [b[0] for b in groups[1:]]
    assert [len(split.files) for split in splits if split.first >= 4] == [2, 2, 1]
    assert all(files[split.first : split.first + len(split.files)] == list(split.files) for split in splits)


def test_many_tiny_files_are_few_splits(tmp_path: Path) -> None:
    for i in range(1000):
        (tmp_path / f"{i}.html").touch()
    assert [len(split.files) for split in cut_splits(list_files([str(tmp_path)]))] == [256, 256, 256, 232]
