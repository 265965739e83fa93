"""Lineage: ties are those that the manifests name, what is lost is said; a person walks the tree to what made a thing."""

from __future__ import annotations

import json
import re
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.app.web.accessible import problems
from tests.app.web.conftest import Here, shot
from typecase.app.web.answers.lineage import Answer, Made, Query, answer, command, export, python, seeds_of
from typecase.app.web.catalogue import Catalogue
from typecase.app.web.desk import Desk
from typecase.app.web.tree import Box, place, tree_html
from typecase.errors import NotFound
from typecase.recipe.index import Index
from typecase.recipe.run import run_stage
from typecase.store.manifest import FileEntry, Manifest, parent_of, write_manifest

pytest.importorskip("nicegui")


def made(folder: Path, kind: str, parents: dict[str, Path], **params: Any) -> Path:
    """An artifact of one file whose content is its own name."""
    folder.mkdir(parents=True)
    (folder / "part-00000.parquet").write_text(folder.name)
    ties = tuple(parent_of(role, parent, child=folder) for role, parent in parents.items())
    entry = FileEntry.of(folder, "part-00000.parquet")
    write_manifest(folder, Manifest(kind, "toy", 2, params, ties, (entry,), libraries={"typecase": "9.8"}))
    return folder


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """raw -> unique -> chosen, with ratings; a lost grandparent, a moved parent, a copy, and one made anew."""
    work = tmp_path / "work"
    lost = made(tmp_path / "lost", "docs", {})
    raw = made(work / "raw", "docs", {"docs": lost}, seed=3, deep={"shuffle_seed": 4})
    unique = made(work / "unique", "docs", {"docs": raw})
    ratings = made(work / "ratings", "ratings", {"docs": raw})
    made(work / "chosen", "docs", {"docs": unique, "ratings": ratings})
    fresh = made(work / "fresh", "docs", {})
    made(work / "late", "docs", {"docs": fresh})
    shutil.rmtree(lost)
    shutil.move(unique, work / "moved")
    shutil.copytree(work / "ratings", work / "twin")
    shutil.rmtree(fresh)
    made(work / "fresh", "docs", {}).joinpath("part-00000.parquet").write_text("other")
    entry = FileEntry.of(work / "fresh", "part-00000.parquet")
    write_manifest(work / "fresh", Manifest("docs", "toy", 2, {}, (), (entry,)))
    return work


def by_name(told: Answer) -> dict[str, Made]:
    return {m.name: m for m in told.made}


def test_ties_are_those_of_the_manifests(work: Path) -> None:
    told = answer(Desk(Catalogue([work])), Query())
    known = {p.parent.name: json.loads(p.read_text()) for p in sorted(work.rglob("manifest.json"))}
    ids = {m.id: m for m in told.made}
    for name, manifest in known.items():
        one = next(m for m in told.made if name in (m.name, *m.copies))
        assert one.id == manifest["content"] and one.served and one.versions == manifest["libraries"]
        assert [(t.role, t.id) for t in one.parents] == [(p["role"], p["content"]) for p in manifest["parents"]]
        for tie in one.parents:
            assert one.id in {t.id for t in ids[tie.id].children} and ids[tie.id].generation < one.generation
    assert told.total == len(told.made) == len(ids)
    assert {t.id for m in told.made for t in (*m.parents, *m.children)} <= set(ids)


def test_what_is_lost_moved_copied_or_made_anew_is_said(work: Path) -> None:
    told = by_name(answer(Desk(Catalogue([work])), Query()))
    lost = [m for m in told.values() if m.missing]
    assert sorted(m.missing.split(",")[0].rpartition("/")[2].split(" ")[0] for m in lost) == ["fresh", "lost"]
    assert any("moved or removed" in m.missing for m in lost) and any("other contents" in m.missing for m in lost)
    assert [t.name for t in told["chosen"].parents] == ["moved", "ratings"] and told["ratings"].copies == ("twin",)
    assert told["raw"].seeds == {"seed": 3, "deep.shuffle_seed": 4}
    assert told["fresh"].children == () and not told["fresh"].missing


def test_one_thing_is_shown_with_its_own_family(work: Path) -> None:
    desk = Desk(Catalogue([work]))
    told = answer(desk, Query(of="moved"))
    assert {m.name for m in told.made if m.served} == {"raw", "moved", "chosen"} and told.total == 4
    assert answer(desk, Query(of=told.focus[:10])) == told
    assert {m.kind for m in answer(desk, Query(kind="ratings")).made} == {"ratings"}
    with pytest.raises(NotFound, match="nothing called"):
        answer(desk, Query(of="../raw"))
    assert command(desk, Query(of="moved")) == f"typecase why {work / 'moved'}"
    assert set(python(desk, Query()).splitlines()[2:]) == {f"tc.why('{work / n}')" for n in ("chosen", "late", "fresh")}


def test_sets_of_other_makers_and_runs_hang_together(served: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "tokens").mkdir(parents=True)
    for name in ("text_document.bin", "text_document.idx"):
        shutil.copy(served / "tokens" / name, work / "tokens" / name)
    shutil.copy(served / "run.json", work / "run.json")
    run_stage(Index(), {"tokens": work / "tokens" / "text_document"}, work / "index")
    desk = Desk(Catalogue([work]))
    told = by_name(answer(desk, Query()))
    (foreign,) = [m for m in told.values() if m.kind == "tokens"]
    assert foreign.served and not foreign.missing and foreign.stage == "made elsewhere"
    assert [t.name for t in told["run.json"].parents] == [foreign.name] == [t.name for t in told["index"].parents]
    assert told["run.json"].generation == told["index"].generation == 1 + foreign.generation and told["run.json"].seeds


def test_things_are_downloaded(work: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    desk = Desk(Catalogue([work]))
    export(desk, Query(), tmp_path / "tree.parquet")
    rows = pq.read_table(tmp_path / "tree.parquet").to_pylist()
    assert [r["id"] for r in rows] == [m.id for m in answer(desk, Query()).made]
    assert json.loads(next(r["params"] for r in rows if r["name"] == "raw"))["seed"] == 3
    empty = tmp_path / "empty"
    empty.mkdir()
    assert answer(Desk(Catalogue([empty])), Query()).made == ()
    with pytest.raises(NotFound):
        export(Desk(Catalogue([empty])), Query(), tmp_path / "none.csv")


def test_seeds_are_found_however_deep() -> None:
    assert seeds_of({"a": {"b": {"seed": 1}}, "data_seed": 2, "seeds": 3, "reseed": 4}) == {"a.b.seed": 1, "data_seed": 2}


@given(st.lists(st.lists(st.integers(0, 30), max_size=3), max_size=30))
def test_no_box_lies_on_another_and_parents_are_to_the_left(links: list[list[int]]) -> None:
    boxes: list[Box] = []
    for k, own in enumerate(links):
        parents = tuple(dict.fromkeys(str(p) for p in own if p < k))
        boxes.append(Box(str(k), 1 + max((boxes[int(p)].column for p in parents), default=-1), parents))
    at = place(boxes)
    assert set(at) == {b.key for b in boxes}
    for column in {c for c, _ in at.values()}:
        rows = sorted(r for c, r in at.values() if c == column)
        assert all(b - a >= 1 for a, b in pairwise(rows))
    assert all(at[p][0] < at[b.key][0] for b in boxes for p in b.parents)
    assert tree_html(boxes).count("<path") == sum(len(b.parents) for b in boxes)


def test_texts_of_boxes_stay_texts() -> None:
    html = tree_html([Box("a", 0, (), ('<script>"x"',), '/lineage?of="><b>')])
    assert "<script>" not in html and 'of="' not in html


def test_a_person_walks_the_tree(here: Here, browser_page: Any) -> None:
    page = browser_page
    page.goto(here.url + "/lineage")
    tree = page.get_by_role("region", name="Tree")
    tree.get_by_role("link", name=re.compile("^index")).click()
    page.get_by_role("heading", name="Parameters").wait_for()
    page.get_by_role("article", name="Thing").get_by_role("link", name="tokens: tokens").click()
    page.wait_for_url(re.compile("of=[0-9a-f]{32}"))
    page.get_by_role("heading", name="tokens", exact=True).wait_for()
    assert tree.get_by_role("link").count() == 4 and problems(page) == []
    shot(page, "lineage-tokens")
    deep = page.url
    page.reload()
    page.get_by_role("heading", name="tokens", exact=True).wait_for()
    assert page.url == deep
    page.get_by_role("button", name="Show everything").click()
    table = page.get_by_role("table", name="Things and what they were made from")
    table.get_by_role("row", name=re.compile("^run.json")).get_by_role("link", name="Its steps").click()
    page.get_by_text(re.compile(r"^Step 0 of 20")).wait_for()
