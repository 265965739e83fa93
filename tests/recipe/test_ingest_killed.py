"""Ingest under kill -9, and within its memory."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from typecase.recipe.ingest import Ingest
from typecase.recipe.run import run_stage
from typecase.store.documents import open_documents
from typecase.store.manifest import first_damage
from typecase.store.sources import splits
from typecase.store.sources.rows import TOO_LONG

SCRIPT = """
import sys
from pathlib import Path
from typecase.recipe.ingest import Ingest
from typecase.recipe.run import run_stage
from typecase.store.sources import splits

if __name__ == "__main__":
    splits.SPLIT_BYTES = splits.GROUP_BYTES = 20_000
    run_stage(Ingest(inputs=(sys.argv[1],), id_key="id", part_bytes=30_000), {}, Path(sys.argv[2]))
"""


def corpus(root: Path) -> Path:
    root.mkdir()
    for k in range(3):
        rows = [{"text": f"document {k} {i} " + "x" * (i % 300), "id": f"{k}-{i % 900}"} for i in range(1000)]
        (root / f"{k}.jsonl").write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows) + b"bad\n")
    return root


def records(folder: Path) -> dict[str, int]:
    """Finished shards of an unfinished run, with the time each was written."""
    found = {}
    for path in folder.glob(".*.partial/.scratch/*-[0-9]*.json"):
        with contextlib.suppress(FileNotFoundError):  # the run has just ended
            found[path.name] = path.stat().st_mtime_ns
    return found


def killed_after(num_records: int, root: Path, out: Path, script: Path) -> dict[str, int]:
    """Starts a run, kills it once it has finished so many shards; what was finished then."""
    process = subprocess.Popen([sys.executable, str(script), str(root), str(out)], start_new_session=True)
    try:
        while process.poll() is None and len(records(out.parent)) < num_records:
            time.sleep(0.001)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return records(out.parent)


@pytest.mark.parametrize(
    "instants", [(3, 30), pytest.param((1, 2, 5, 9, 14, 20, 26, 31, 33, 37, 41, 45, 48, 50), marks=pytest.mark.slow)]
)
def test_killed_and_run_again_is_never_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instants: tuple[int, ...]
) -> None:
    monkeypatch.setattr(splits, "SPLIT_BYTES", 20_000)
    monkeypatch.setattr(splits, "GROUP_BYTES", 20_000)
    root = corpus(tmp_path / "in")
    stage = Ingest(inputs=(str(root),), id_key="id", part_bytes=30_000)
    whole = run_stage(stage, {}, tmp_path / "whole" / "docs")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    out = tmp_path / "killed" / "docs"
    out.parent.mkdir()
    before: dict[str, int] = {}
    for instant in instants:
        after = killed_after(instant, root, out, script)
        if out.exists():
            break
        assert before.items() <= after.items()  # nothing that was finished is done again
        before = after
    again = run_stage(stage, {}, out)
    assert again.manifest == whole.manifest
    assert first_damage(again.folder, again.manifest) is None
    assert sorted(p.name for p in again.folder.iterdir()) == sorted(p.name for p in whole.folder.iterdir())


MEASURED = """
import resource, sys
from pathlib import Path
from typecase.recipe.ingest import Ingest
from typecase.recipe.run import run_stage

if __name__ == "__main__":
    run_stage(Ingest(inputs=(sys.argv[1],), max_document_bytes=1 << 20), {}, Path(sys.argv[2]))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak_bytes(tmp_path: Path, source: Path) -> int:
    """The largest resident memory of a run in its own process."""
    script = tmp_path / "measured.py"
    script.write_text(MEASURED)
    out = tmp_path / f"out-{source.stem}"
    command = [sys.executable, str(script), str(source), str(out)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout) * 1024


@pytest.mark.slow
@pytest.mark.parametrize("name", ["long.jsonl", "long.csv", "long.txt"])
def test_a_line_of_200_megabytes_is_not_held(tmp_path: Path, name: str) -> None:
    (tmp_path / "small.jsonl").write_bytes(b'{"text":"a"}\n')
    base = peak_bytes(tmp_path, tmp_path / "small.jsonl")
    path = tmp_path / name
    head, tail = {"long.jsonl": (b'{"text":"', b'"}\n{"text":"b"}\n'), "long.csv": (b'text\n"', b'"\nb\n')}.get(
        name, (b"", b"")
    )
    with path.open("wb") as file:
        file.write(head)
        for _ in range(200):
            file.write(b"x\n" * (1 << 19) if name == "long.csv" else b"x" * (1 << 20))
        file.write(tail)
    assert peak_bytes(tmp_path, path) < base + (64 << 20)
    store = open_documents(tmp_path / "out-long")
    assert [d.text for d in store] == ([] if name == "long.txt" else ["b"])
    (fault,) = pq.read_table(store.side_parts("quarantine")[0]).to_pylist()
    assert fault["reason"] == TOO_LONG and fault["raw_bytes"] >= 200 << 20 and len(fault["raw"]) == 4096


@pytest.mark.slow
def test_a_million_lines_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    with path.open("wb") as file:
        for i in range(1_000_000):
            file.write(b'{"text":"line %d %s","n":%d}\n' % (i, b"x" * 200, i))
    (tmp_path / "small.jsonl").write_bytes(b'{"text":"a"}\n')
    base = peak_bytes(tmp_path, tmp_path / "small.jsonl")
    # Maps of the scratch files count while their pages are cached; the text of the whole is 230 MB.
    peak = peak_bytes(tmp_path, path)
    print(f"peak {peak >> 20} MiB, {base >> 20} MiB for one line")
    assert peak < base + (450 << 20)
    assert len(open_documents(tmp_path / "out-many")) == 1_000_000
