"""index: the same bytes for any workers and any interruption; ours and foreign sets; the memory that was given."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import make_documents
from tests.recipe.test_build import tokenizer  # noqa: F401
from tests.recipe.test_run import tree
from tests.store.naive_tokens import bin_of, write_set
from typecase.engine.local import Local
from typecase.errors import FingerprintMismatch, FixInput
from typecase.recipe import index as indexing
from typecase.recipe.build import Build
from typecase.recipe.index import Index
from typecase.recipe.run import partial_folders, run_stage
from typecase.store.index.index import open_index
from typecase.store.manifest import first_damage, read_manifest
from typecase.store.tokens.fingerprint import fingerprint
from typecase.store.tokens.pair import find_pair


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    docs = [[rng.integers(0, 9, n).tolist()] for n in (40, 0, 1, 300, 25, 25, 0)]
    return write_set(tmp_path / "foreign" / "corpus.v1_document", docs, "int32")


SMALL = 16 * 60
"""Memory for 60 tokens a shard."""


def test_shards_are_whole_documents_that_fit(foreign: Path, tmp_path: Path) -> None:
    made = run_stage(Index(memory_bytes=SMALL), {"tokens": foreign}, tmp_path / "index")
    assert made.manifest.decision["shards"] == [[0, 3, 0, 41], [3, 4, 41, 341], [4, 7, 341, 391]]
    assert made.manifest.counts == {"documents": 7, "shards": 3, "tokens": 391}
    assert made.manifest.balance is not None and made.manifest.balance.kept == 7
    assert made.manifest.decision["fingerprint"] == fingerprint(find_pair(foreign))
    assert first_damage(made.folder, read_manifest(made.folder)) is None
    assert not (made.folder / "tokens.bin").exists()
    per_token = (made.folder / "shard-00001.sa").stat().st_size / 300
    assert per_token == 4
    assert open_index(made.folder).count_batch(np.arange(9)[:, None]).sum() == 391


@pytest.mark.parametrize("workers", [0, 2])
def test_any_workers_and_any_threads_give_the_same_bytes(foreign: Path, tmp_path: Path, workers: int) -> None:
    expected = run_stage(Index(memory_bytes=SMALL, threads=1), {"tokens": foreign}, tmp_path / "a")
    engine = Local(workers)
    made = run_stage(Index(memory_bytes=SMALL, threads=2), {"tokens": foreign}, tmp_path / "b", engine=engine)
    assert tree(made.folder) == tree(expected.folder)
    assert run_stage(Index(memory_bytes=SMALL, threads=2), {"tokens": foreign}, tmp_path / "b").reused


def test_a_killed_build_goes_on_with_what_is_missing(foreign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = run_stage(Index(memory_bytes=SMALL), {"tokens": foreign}, tmp_path / "a")
    child = os.fork()
    if not child:
        real = indexing.write_shard

        def dies(out: Path, number: int, *args: object, **named: object) -> list[str]:
            if number == 1:
                (out / ".shard-00001.sa.1.tmp").write_bytes(b"half")
                os.kill(os.getpid(), signal.SIGKILL)
            return real(out, number, *args, **named)  # type: ignore[arg-type]

        indexing.write_shard = dies
        run_stage(Index(memory_bytes=SMALL), {"tokens": foreign}, tmp_path / "b")
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    assert len(partial_folders(tmp_path)) == 1 and not (tmp_path / "b").exists()
    worked: list[int] = []
    real_write = indexing.write_shard

    def counted(out: Path, number: int, *args: object, **named: object) -> list[str]:
        worked.append(number)
        return real_write(out, number, *args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(indexing, "write_shard", counted)
    made = run_stage(Index(memory_bytes=SMALL), {"tokens": foreign}, tmp_path / "b")
    assert worked == [1, 2] and tree(made.folder) == tree(expected.folder)


def test_a_set_of_ours_and_one_that_was_changed(
    tmp_path: Path,
    docs_artifact: Callable[..., Path],
    tokenizer: str,  # noqa: F811
) -> None:
    docs = docs_artifact(make_documents([f"the quick brown fox {n}" for n in range(20)]))
    built = run_stage(Build(tokenizer=tokenizer, eod=7), {"docs": docs}, tmp_path / "tokens")
    made = run_stage(Index(), {"tokens": built.folder}, tmp_path / "index")
    parent = made.manifest.parent("tokens")
    assert parent is not None and (parent.path, parent.content) == ("../tokens", built.manifest.content)
    assert open_index(made.folder).count([7]) == 20
    data = bin_of(built.folder / "text_document")
    data.write_bytes(data.read_bytes()[:-2] + b"\1\0")
    with pytest.raises(FingerprintMismatch, match="other bytes than its manifest says"):
        run_stage(Index(memory_bytes=1 << 20), {"tokens": built.folder}, tmp_path / "again")


def test_another_foreign_set_is_another_index(foreign: Path, tmp_path: Path) -> None:
    first = run_stage(Index(), {"tokens": foreign}, tmp_path / "a")
    other = write_set(tmp_path / "other", [[[1, 2]]])
    assert run_stage(Index(), {"tokens": other}, tmp_path / "b").manifest.fingerprint != first.manifest.fingerprint


@pytest.mark.parametrize(
    "stage, docs, dtype, words",
    [
        (Index(memory_bytes=0), [[[1]]], "uint16", "1 byte or more"),
        (Index(), [[[1.0]]], "float32", "only sets of integer ids"),
        (Index(), [[[-5]]], "int32", "negative"),
    ],
)
def test_what_cannot_be_indexed(tmp_path: Path, stage: Index, docs: list[list[list[int]]], dtype: str, words: str) -> None:
    with pytest.raises(FixInput, match=words):
        run_stage(stage, {"tokens": write_set(tmp_path / "set", docs, dtype)}, tmp_path / "index")
