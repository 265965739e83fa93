"""URLs: sources behind them are read like files; artifacts go to an object store and come back whole."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("fsspec")

import fsspec
from fsspec.registry import known_implementations

from tests.conftest import make_documents
from tests.recipe.test_run import tree
from typecase.errors import AlreadyExists, CorruptStore, FixInput, NeedsExtra, NotFound
from typecase.store import urls

Docs = Callable[..., Path]


@pytest.fixture(params=["memory", "file"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty folder of each kind."""
    urls.fetched.cache_clear()
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    yield "memory://bucket" if request.param == "memory" else f"file://{tmp_path}/bucket"
    memory.store.clear()


def written(root: str, **files: str) -> None:
    for name, text in files.items():
        with fsspec.open(f"{root}/{name.replace('__', '/')}.txt", "w", auto_mkdir=True) as file:
            file.write(text)


def names(url: str) -> dict[str, str]:
    return {name: path.read_text() for path, name in urls.fetched(url)}


def test_what_is_a_url() -> None:
    assert urls.is_url("s3://b/x") and urls.is_url("memory://x") and urls.is_url("simplecache::s3://b/x")
    assert not any(urls.is_url(text) for text in ("crawl/*.jsonl", "/a//b", "C://x", "-", "a b://c"))


def test_a_file_a_folder_and_wildcards(root: str) -> None:
    written(root, b="two", a="one", sub__c="three", sub__deep__d="four")
    assert names(f"{root}/a.txt") == {"a.txt": "one"}
    assert list(names(root)) == ["a.txt", "b.txt", "sub/c.txt", "sub/deep/d.txt"]
    assert names(f"{root}/sub/*.txt") == {"c.txt": "three"}
    assert list(names(f"{root}/**/*.txt")) == list(names(root))
    with pytest.raises(NotFound, match="matches no file"):
        urls.fetched(f"{root}/*.parquet")
    with pytest.raises(NotFound):
        urls.fetched(f"{root}/nothing")


def test_hidden_files_of_a_folder_are_left_out(root: str) -> None:
    written(root, a="one", **{".b": "two", ".git__c": "three"})
    assert list(names(root)) == ["a.txt"]


def test_names_that_leave_their_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FixInput, match=r"'\.\./x'"):
        urls.copy_place(tmp_path, "bucket/../x", "../x")


def test_an_artifact_goes_and_comes_back_as_it_was(root: str, docs_artifact: Docs, tmp_path: Path) -> None:
    folder = docs_artifact(make_documents(["a", "b", "c"]), 2)
    put = urls.put(folder, f"{root}/docs")
    assert urls.put(folder, f"{root}/docs").content == put.content, "and again, nothing happens"
    urls.get(f"{root}/docs", tmp_path / "back")
    assert tree(tmp_path / "back") == tree(folder)
    assert urls.get(f"{root}/docs", tmp_path / "back").content == put.content
    other = docs_artifact(make_documents(["x"]), 1, name="other")
    with pytest.raises(AlreadyExists, match="other contents"):
        urls.put(other, f"{root}/docs")
    with pytest.raises(AlreadyExists, match="other contents"):
        urls.get(f"{root}/docs", other)


def test_a_half_put_artifact_is_absent_and_a_half_got_one_goes_on(root: str, docs_artifact: Docs, tmp_path: Path) -> None:
    folder = docs_artifact(make_documents(["a", "b", "c"]), 3)
    urls.put(folder, f"{root}/docs")
    system, path = fsspec.core.url_to_fs(f"{root}/docs")
    whole = system.cat_file(f"{path}/part-00002.parquet")
    system.pipe_file(f"{path}/part-00002.parquet", b"torn")
    with pytest.raises(CorruptStore, match=r"part-00002\.parquet has other bytes"):
        urls.get(f"{root}/docs", tmp_path / "back")
    assert not (tmp_path / "back").exists()
    system.rm_file(f"{path}/part-00000.parquet")  # it has been fetched already
    system.pipe_file(f"{path}/part-00002.parquet", whole)
    urls.get(f"{root}/docs", tmp_path / "back")
    assert tree(tmp_path / "back") == tree(folder) and not list(tmp_path.glob(".*partial"))
    system.rm_file(f"{path}/manifest.json")
    with pytest.raises(NotFound, match="never put there whole"):
        urls.get(f"{root}/docs", tmp_path / "third")


def test_a_damaged_artifact_is_not_put(root: str, docs_artifact: Docs) -> None:
    folder = docs_artifact(make_documents(["a"]), 1)
    (folder / "part-00000.parquet").write_bytes(b"torn")
    with pytest.raises(CorruptStore, match="run the stage"):
        urls.put(folder, f"{root}/docs")


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(FixInput, match="cannot open nosuch://x"):
        urls.fetched("nosuch://x")
    absent = next(scheme for scheme, how in known_implementations.items() if find_spec(how["class"].partition(".")[0]) is None)
    with pytest.raises(FixInput, match=r"(?i)install"):
        urls.get(f"{absent}://bucket/x", tmp_path / "x")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(NeedsExtra, match=r"s3:// needs the extra 'cloud'"):
        urls.get("s3://bucket/x", tmp_path / "x")
