"""ingest reads what lies behind a URL as it reads files: the same rows, and a fingerprint that knows no places."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("fsspec")

import fsspec
from tests.recipe.test_run import tree

from typecase.recipe.ingest import Ingest
from typecase.recipe.run import run_stage


@pytest.mark.parametrize("form", ["", "/*.jsonl", "/a.jsonl"], ids=["folder", "wildcards", "file"])
def test_a_url_gives_the_bytes_of_the_files(tmp_path: Path, form: str) -> None:
    files = tmp_path / "crawl"
    files.mkdir()
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    for name in ("a.jsonl", "b.jsonl"):
        text = "\n".join(json.dumps({"text": f"{name} {i}"}) for i in range(5))
        (files / name).write_text(text)
        memory.pipe_file(f"/bucket/{tmp_path.name}/{name}", text.encode())
    run_stage(Ingest(inputs=(f"{files}{form}",)), {}, tmp_path / "here")
    run_stage(Ingest(inputs=(f"memory://bucket/{tmp_path.name}{form}",)), {}, tmp_path / "there")
    assert tree(tmp_path / "here") == tree(tmp_path / "there")
