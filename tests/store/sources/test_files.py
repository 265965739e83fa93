"""Listing: the same files under the same names wherever they lie, in one order, each once."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from typecase.engine.local import Local
from typecase.errors import FixInput, NotFound
from typecase.store.sources import files as module
from typecase.store.sources.files import hash_files, list_files, split_extensions
from typecase.store.sources.rows import UNKNOWN_FORMAT, UNREADABLE


def tree(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return root


def names(*inputs: str | Path, format: str | None = None) -> list[str]:
    return [file.name for file in list_files([str(i) for i in inputs], format=format)]


def test_a_folder_with_all_below_it(tmp_path: Path) -> None:
    root = tree(tmp_path, "b.jsonl", "a/z.csv.gz", "a/b/c.txt", "B.jsonl", "ä.jsonl", "_SUCCESS", ".hidden.jsonl", ".git/x.txt")
    assert names(root) == ["B.jsonl", "_SUCCESS", "a/b/c.txt", "a/z.csv.gz", "b.jsonl", "ä.jsonl"]
    problems = {file.name: file.problem for file in list_files([str(root)]) if file.problem}
    assert list(problems) == ["_SUCCESS"] and problems["_SUCCESS"][0] == UNKNOWN_FORMAT


def test_names_do_not_depend_on_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("one", "two/deeper"):
        root = tree(tmp_path / place, "in/a/x.jsonl", "in/y.jsonl")
        assert names(root / "in") == ["a/x.jsonl", "y.jsonl"]
        assert names(root / "in/**/*.jsonl") == ["a/x.jsonl", "y.jsonl"]
        assert names(root / "in/a/x.jsonl") == ["x.jsonl"]
        monkeypatch.chdir(root)
        assert names("in") == names("./in/") == names("in/../in") == ["a/x.jsonl", "y.jsonl"]
        assert names("*/*.jsonl") == ["in/y.jsonl"]


def test_globs_and_repeated_inputs(tmp_path: Path) -> None:
    root = tree(tmp_path, "a/1.jsonl", "a/2.jsonl", "b/1.jsonl", "b/[x].jsonl")
    assert names(root / "*/1.jsonl") == ["a/1.jsonl", "b/1.jsonl"]
    assert names(root / "a", root / "a/1.jsonl", root / "a/*.jsonl") == ["1.jsonl", "2.jsonl"]
    assert names(root / "b/[x].jsonl") == ["[x].jsonl"]
    assert names(root / "?") == ["a/1.jsonl", "a/2.jsonl", "b/1.jsonl", "b/[x].jsonl"]


def test_files_of_one_name_are_told_apart(tmp_path: Path) -> None:
    root = tree(tmp_path, "en/new/x.jsonl", "de/new/x.jsonl", "de/new/y.jsonl")
    assert names(root / "en/new", root / "de/new") == ["de/new/x.jsonl", "en/new/x.jsonl", "y.jsonl"]
    assert names(root / "en/new/x.jsonl", root / "de/new/x.jsonl") == ["de/new/x.jsonl", "en/new/x.jsonl"]


def test_links(tmp_path: Path) -> None:
    root = tree(tmp_path / "in", "a/x.jsonl")
    (root / "loop").symlink_to(root)
    (root / "a/y.jsonl").symlink_to(root / "a/x.jsonl")
    (root / "gone.jsonl").symlink_to(root / "nothing")
    (root / "hard.jsonl").hardlink_to(root / "a/x.jsonl")
    (root / "far").symlink_to(tree(tmp_path / "other", "z.jsonl"))
    assert names(root) == ["a/x.jsonl", "far/z.jsonl", "gone.jsonl", "hard.jsonl"]
    assert [f.problem[0] for f in list_files([str(root)]) if f.problem] == [UNREADABLE]


def test_a_name_that_is_no_utf8(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/caf\xe9.jsonl"
    with open(path, "wb"):
        pass
    assert names(tmp_path) == ["caf\\xe9.jsonl"]


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (file,) = list_files([str(tmp_path)])
    assert file.problem is not None and file.problem[0] == UNREADABLE
    assert hash_files([file], Local(0)) == [""]
    with pytest.raises(FixInput, match="pipe it in"):
        list_files([str(tmp_path / "pipe.jsonl")])


def test_nothing_found(tmp_path: Path) -> None:
    for missing in (tmp_path / "no.jsonl", tmp_path / "*.jsonl", tmp_path):
        with pytest.raises(NotFound, match=str(missing).replace("*", ".")):
            list_files([str(missing)])


def test_formats(tmp_path: Path) -> None:
    root = tree(tmp_path, "x.dat")
    with pytest.raises(FixInput, match="format="):
        list_files([str(root / "x.dat")])
    assert list_files([str(root / "x.dat")], format="text")[0].format == "text"
    assert list_files([str(root / "*.dat")])[0].problem is not None
    for name, stem, form in [
        ("a/b.c.jsonl.zst", "a/b.c", "jsonl"),
        ("x.JSON", "x", "jsonl"),
        ("CC-0.warc.wet.gz", "CC-0", "warc"),
        ("CC-0.warc.gz", "CC-0", "warc"),
        ("t.tab", "t", "tsv"),
        ("t.gz", "t.gz", ""),
        ("t", "t", ""),
    ]:
        assert split_extensions(name) == (stem, form)


def test_sources(tmp_path: Path) -> None:
    root = tree(tmp_path, "books/1.jsonl.gz", "pages/a/x.html", "y.html", "z.txt")
    assert {f.name: f.source for f in list_files([str(root)])} == {
        "books/1.jsonl.gz": "books/1", "pages/a/x.html": "pages/a", "y.html": "html", "z.txt": "text",
    }  # fmt: skip


def test_hashes_on_any_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = list_files([str(tree(tmp_path, *(f"{i}.txt" for i in range(20))))])
    alone = hash_files(files, Local(0))
    monkeypatch.setattr(module, "_HASH_ALONE_BYTES", 25)
    assert hash_files(files, Local(0)) == alone == hash_files(files, Local(2))
    assert len(set(alone)) == 20


def test_standard_input_is_copied_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Pipe:
        buffer = io.BytesIO(b'{"text":"a"}\n')

    module._spooled_stdin.cache_clear()
    monkeypatch.setattr(sys, "stdin", Pipe)
    (file,) = list_files(["-"], format="jsonl")
    assert list_files(["-"], format="jsonl") == [file]
    assert (file.name, file.source, Path(file.path).read_bytes()) == ("stdin", "stdin", b'{"text":"a"}\n')
    with pytest.raises(FixInput, match="format="):
        list_files(["-"])
    Path(file.path).unlink()
    module._spooled_stdin.cache_clear()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_permission(tmp_path: Path) -> None:
    tree(tmp_path, "x.jsonl")
    (tmp_path / "x.jsonl").chmod(0)
    (file,) = list_files([str(tmp_path)])
    assert hash_files([file], Local(0)) == [""]
    (tmp_path / "sub").mkdir(mode=0)
    with pytest.raises(FixInput, match="cannot list"):
        list_files([str(tmp_path)])
