"""Refine review: lists are those of the run, verdicts those of `refine judge`; a person judges by keys and takes one back."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pyarrow.parquet as pq
import pytest

import typecase as tc
from tests.app.web.accessible import problems
from tests.app.web.conftest import Here, serving, shot
from tests.conftest import make_docs_artifact, make_documents
from tests.recipe.test_refine import corpus
from typecase.app.refine.judge import read_judgements
from typecase.app.refine.refining import open_run, show_edited
from typecase.app.web.answers.refine import Judge, Query, Undo, answer, command, export, judge, python, undo
from typecase.app.web.catalogue import Catalogue
from typecase.app.web.desk import Desk
from typecase.errors import BadQuery, FixInput, NotFound

pytest.importorskip("nicegui")


@pytest.fixture(scope="module")
def refined(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents with menus and footers, one of them hostile, and a run over them."""
    work = tmp_path_factory.mktemp("refined") / "work"
    hostile = "Home\nNext\n<script>window.hacked = 1</script> is a text about type that somebody wrote."
    docs = make_docs_artifact(work / "docs", make_documents([*corpus(), hostile]), 2)
    tc.run_stage(tc.Refine(), {"docs": docs}, work / "clean")
    return work


@pytest.fixture
def work(refined: Path, tmp_path: Path) -> Path:
    shutil.copytree(refined, tmp_path / "work")
    return tmp_path / "work"


def rows_of(work: Path) -> list[dict[str, Any]]:
    rows = [r for p in sorted((work / "clean" / "programs").glob("part-*")) for r in pq.read_table(p).to_pylist()]
    return sorted(rows, key=lambda r: r["doc_id"])


def every(desk: Desk, **fields: Any) -> list[str]:
    found: list[str] = []
    for page in range(1, 50):
        told = answer(desk, Query(page=page, size=7, **fields))
        found += [r.doc_id for r in told.rows]
        if page * 7 >= told.total:
            assert len(found) == told.total
            return found
    raise AssertionError("no end of pages")


def test_lists_are_those_of_the_run(work: Path) -> None:
    desk, rows = Desk(Catalogue([work])), rows_of(work)
    changed = [r["doc_id"] for r in rows if r["status"] in ("edited", "dropped", "guarded")]
    assert every(desk) == changed and len(changed) > 10
    for status in {r["status"] for r in rows}:
        assert every(desk, status=status) == [r["doc_id"] for r in rows if r["status"] == status]
    half = [
        r["doc_id"] for r in rows if r["doc_id"] in changed and r["bytes_before"] - r["bytes_after"] >= 0.2 * r["bytes_before"]
    ]
    assert every(desk, least=0.2) == half
    by = {n for r in rows for n in [e[1] for e in orjson.loads(r["provenance"]) if e[3] == "applied"]}
    told = answer(desk, Query())
    assert set(told.proposers) == by and told.all == len(rows)
    for name in by:
        held = [r["doc_id"] for r in rows if any(e[1] == name for e in orjson.loads(r["provenance"]))]
        assert every(desk, status="changed", by=name) == [i for i in changed if i in held]
    assert told.shown == show_edited(open_run(work / "clean"), changed[0])


def test_verdicts_are_those_of_refine_judge(work: Path) -> None:
    desk = Desk(Catalogue([work]), allow_edit=True)
    first, second = (r.doc_id for r in answer(desk, Query()).rows[:2])
    judge(desk, Judge("clean", first, "accept"))
    judge(desk, Judge("clean", second, "reject", who="ada"))
    said = read_judgements(work / "clean.judgements.jsonl")
    assert [(r["doc_id"], r["verdict"], r["who"]) for r in said] == [(first, "accept", "person"), (second, "reject", "ada")]
    told = answer(desk, Query(undecided=True))
    assert first not in [r.doc_id for r in told.rows] and second in [r.doc_id for r in told.rows]
    assert answer(desk, Query()).verdict == "accept" and answer(desk, Query()).verdicts == {"accept": 1, "reject": 0}
    assert undo(desk, Undo("clean")).doc == first
    assert [r["who"] for r in read_judgements(work / "clean.judgements.jsonl")] == ["ada"]
    with pytest.raises(BadQuery, match="no verdict that could be taken back"):
        undo(desk, Undo("clean"))
    with pytest.raises(BadQuery, match="a verdict is one of"):
        judge(desk, Judge("clean", first, "perhaps"))


def test_what_cannot_be_meant_is_refused(work: Path, tmp_path: Path) -> None:
    desk = Desk(Catalogue([work]))
    for query, words in ((Query(run="x"), "no refined documents called 'x'"), (Query(doc="0" * 32), "0000")):
        with pytest.raises(NotFound, match=words):
            answer(desk, query)
    alone = Desk(Catalogue([work / "clean", work / "docs"]), allow_edit=True)
    with pytest.raises(FixInput, match="outside what was served"):
        judge(alone, Judge("", answer(alone, Query()).rows[0].doc_id, "accept"))
    export(desk, Query(), tmp_path / "rows.parquet")
    assert pq.read_table(tmp_path / "rows.parquet").column("doc_id").to_pylist() == every(desk)
    exec(python(desk, Query()), {})
    assert command(desk, Query()).startswith("typecase refine show ")


@pytest.fixture
def judging(work: Path) -> Iterator[Here]:
    with serving(work, "--allow-edit") as started:
        yield started


def test_a_person_judges_by_keys_and_takes_one_back(judging: Here, browser_page: Any) -> None:
    page = browser_page
    page.goto(judging.url + "/refine")
    page.get_by_role("article").get_by_role("heading").first.wait_for()
    assert page.locator("article del").count() > 0 and problems(page) == []
    first = page.locator("article h2").inner_text()[:8]
    page.locator("h1").click()
    page.keyboard.press("a")
    page.wait_for_function(f"!document.querySelector('article h2').innerText.startsWith({first!r})")
    second = page.locator("article h2").inner_text()[:8]
    page.keyboard.press("r")
    page.wait_for_function(f"!document.querySelector('article h2').innerText.startsWith({second!r})")
    page.get_by_text("1 accepted, 1 rejected").wait_for()
    shot(page, "refine-judged")
    page.keyboard.press("u")
    page.get_by_text("1 accepted, 0 rejected").wait_for()
    page.reload()
    page.get_by_text("1 accepted, 0 rejected").wait_for()
    assert len(read_judgements(judging.folder / "clean.judgements.jsonl")) == 1
    assert page.evaluate("window.hacked === undefined")


def test_without_the_right_to_edit_nothing_is_written(work: Path, browser_page: Any) -> None:
    with serving(work) as here:
        doc = httpx.get(f"{here.url}/api/v1/refine", timeout=60).json()["rows"][0]["doc_id"]
        refused = httpx.post(
            f"{here.url}/api/v1/refine/judge", json={"run": "clean", "doc": doc, "verdict": "accept"}, timeout=60
        )
        assert refused.status_code == 400 and "edits are off" in refused.json()["error"]["message"]
        browser_page.goto(here.url + "/refine")
        browser_page.get_by_text("verdicts are off").wait_for()
    assert not (work / "clean.judgements.jsonl").exists()
