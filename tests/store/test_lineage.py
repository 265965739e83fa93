"""Lineage: every parent is named, a lost one is reported, relatives are known by content."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.conftest import make_documents
from typecase.errors import NotFound
from typecase.store.lineage import ancestors, family, related
from typecase.store.manifest import FileEntry, Manifest, parent_of, write_manifest

Docs = Callable[..., Path]


def derived(folder: Path, kind: str, parents: Mapping[str, Path]) -> Path:
    """An artifact of one file whose contents are its own name."""
    folder.mkdir(parents=True)
    (folder / "part-00000.parquet").write_text(folder.name)
    links = tuple(parent_of(role, parent, child=folder) for role, parent in parents.items())
    write_manifest(folder, Manifest(kind, "toy", 1, {}, links, (FileEntry.of(folder, "part-00000.parquet"),)))
    return folder


@pytest.fixture
def tree(tmp_path: Path, docs_artifact: Docs) -> dict[str, Path]:
    raw = docs_artifact(make_documents(["a", "b"]), name="raw")
    other = docs_artifact(make_documents(["c"]), name="other")
    dedup = derived(tmp_path / "dedup", "docs", {"docs": raw})
    rate = derived(tmp_path / "rate", "ratings", {"docs": raw})
    late = derived(tmp_path / "late", "ratings", {"docs": dedup})
    select = derived(tmp_path / "deep" / "select", "docs", {"docs": dedup, "ratings": rate})
    return {"raw": raw, "other": other, "dedup": dedup, "rate": rate, "late": late, "select": select}


def test_ancestors_come_nearest_first_and_once(tree: dict[str, Path]) -> None:
    found = list(ancestors(tree["select"]))
    assert [(a.role, a.folder.name, a.depth) for a in found] == [
        ("", "select", 0),
        ("docs", "dedup", 1),
        ("ratings", "rate", 1),
        ("docs", "raw", 2),
    ]
    assert all(a.manifest is not None and a.manifest.content == a.content and not a.missing for a in found)


def test_relatives_share_documents(tree: dict[str, Path]) -> None:
    assert related(tree["rate"], tree["dedup"]), "both descend from raw"
    assert related(tree["rate"], tree["raw"]) and related(tree["raw"], tree["rate"])
    assert related(tree["late"], tree["raw"]) and related(tree["rate"], tree["late"])
    assert related(tree["raw"], tree["raw"])
    assert not related(tree["rate"], tree["other"])


def test_a_parent_that_is_gone_is_reported_and_still_known(tree: dict[str, Path]) -> None:
    tree["raw"].rename(tree["raw"].parent / "moved")
    found = {a.folder.name: a for a in ancestors(tree["select"])}
    assert found["raw"].manifest is None and "moved or removed" in found["raw"].missing
    assert related(tree["rate"], tree["dedup"])
    assert related(tree["rate"], tree["raw"].parent / "moved"), "known by content, wherever it lies"


def test_a_parent_lost_on_one_branch_is_found_on_another(tmp_path: Path, tree: dict[str, Path]) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(tree["raw"], copy)
    mixed = derived(tmp_path / "mixed", "docs", {"docs": tree["dedup"], "more": copy})
    shutil.rmtree(tree["raw"])
    assert [(a.folder.name, bool(a.missing)) for a in ancestors(mixed)] == [
        ("mixed", False),
        ("dedup", False),
        ("copy", False),
    ]


def test_a_parent_made_anew_is_not_taken_for_the_old(tree: dict[str, Path]) -> None:
    shutil.rmtree(tree["dedup"])
    tree["other"].rename(tree["dedup"])
    found = {a.folder.name: a for a in ancestors(tree["select"])}
    assert found["dedup"].manifest is None and "now holds other contents" in found["dedup"].missing
    (tree["rate"] / "manifest.json").write_text("{")
    assert "is not JSON" in next(a for a in ancestors(tree["select"]) if a.role == "ratings").missing
    with pytest.raises(NotFound, match="holds no manifest"):
        list(ancestors(tree["raw"].parent / "nowhere"))


def test_a_family_holds_everything_once_and_parents_first(tree: dict[str, Path]) -> None:
    found = family([tree["select"], tree["late"], tree["rate"]])
    folders = [one.folder for one in found.values()]
    assert sorted(p.name for p in folders) == ["dedup", "late", "rate", "raw", "select"]
    order = list(found)
    for one in found.values():
        assert all(order.index(parent) < order.index(one.content) for _, parent in one.parents)
    generations = {one.folder.name: one.generation for one in found.values()}
    assert generations == {"raw": 0, "dedup": 1, "rate": 1, "late": 2, "select": 2}


def test_a_moved_parent_is_known_among_the_folders_and_copies_count_once(tree: dict[str, Path], tmp_path: Path) -> None:
    shutil.move(tree["dedup"], tmp_path / "elsewhere")
    shutil.copytree(tree["late"], tmp_path / "again")
    alone = family([tree["late"]])
    (lost,) = [one for one in alone.values() if one.manifest is None]
    assert "moved or removed" in lost.missing and lost.generation == 0
    found = family([tree["late"], tmp_path / "elsewhere", tmp_path / "again"])
    assert all(one.manifest is not None for one in found.values())
    (late,) = [one for one in found.values() if one.folder.name == "late"]
    assert late.copies == (tmp_path / "again",) and late.generation == 2
