"""Edit: a preview is that of the verb, nothing is written without leave, the journal says what was done."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest

import typecase as tc
from tests.app.web.accessible import problems
from tests.app.web.conftest import Here, shot
from typecase.app.web.answers.edit import Back, Make, Query, answer, apply, command, make, python, redo, undo
from typecase.app.web.catalogue import Catalogue
from typecase.app.web.desk import Desk
from typecase.errors import BadQuery, Conflict, NotFound
from typecase.store.tokens.store import open_tokens

pytest.importorskip("nicegui")


@pytest.fixture
def work(served: Path, tmp_path: Path) -> Path:
    shutil.copytree(served, tmp_path / "work")
    return tmp_path / "work"


@pytest.fixture
def desk(work: Path) -> Desk:
    return Desk(Catalogue([work]), allow_edit=True)


def bytes_of(work: Path) -> bytes:
    return next((work / "tokens").glob("*.bin")).read_bytes()


def test_a_preview_is_that_of_the_verb_and_writes_nothing(desk: Desk, work: Path) -> None:
    before = {p: p.stat().st_mtime_ns for p in work.rglob("*")}
    told = answer(desk, Query(find=" tokens", text=" sorts", limit=3))
    asked = [{"op": "replace", "find": " tokens", "text": " sorts", "limit": 3}]
    planned = tc.plan_edits(work / "tokens", asked, tc.Aim(run=work / "run.json"))
    assert told.preview is not None and told.preview.num_edits == len(planned.edits) > 0
    assert told.preview.changes == planned.changes and told.run == "run.json"
    assert (told.preview.radius.steps, told.preview.radius.samples) == (planned.radius.steps, planned.radius.indices)
    assert [d.code for d in told.preview.radius.dangers] == [d.code for d in planned.radius.dangers]
    assert {p: p.stat().st_mtime_ns for p in work.rglob("*")} == before
    assert answer(desk, Query(find=" tokens", text=" sorts", run="-")).preview.radius.steps is None  # type: ignore[union-attr]


def test_make_undo_redo_and_apply(desk: Desk, work: Path) -> None:
    old = bytes_of(work)
    state = Query(find=" tokens", text=" sorts", limit=1)
    codes = tuple(d.code for d in answer(desk, state).preview.radius.dangers)  # type: ignore[union-attr]
    wanted = {"set": "tokens", "find": " tokens", "text": " sorts", "limit": 1, "allow": codes, "head": 0}
    entry = make(desk, Make(**wanted, reason="a test")).entry  # type: ignore[arg-type]
    told = answer(desk, Query())
    assert [(e.id, e.kind, e.reason, e.standing) for e in told.journal] == [(entry, "edit", "a test", True)]
    assert told.head == entry and told.applied == 0 and bytes_of(work) == old
    with pytest.raises(Conflict, match="the preview was of entry 0: look again"):
        make(desk, Make(**wanted))  # type: ignore[arg-type]
    assert apply(desk, Back("tokens")).tokens >= 1 and bytes_of(work) != old
    taken = undo(desk, Back("tokens", entry)).entry
    assert [e.standing for e in answer(desk, Query()).journal] == [True, False]
    apply(desk, Back("tokens"))
    assert bytes_of(work) == old
    redo(desk, Back("tokens", taken))
    assert answer(desk, Query()).journal[-1].standing
    apply(desk, Back("tokens"))
    assert bytes_of(work) != old
    apply(desk, Back("tokens", 0))
    assert bytes_of(work) == old


def test_dangers_must_be_allowed_and_nonsense_is_refused(desk: Desk, work: Path) -> None:
    with pytest.raises(NotFound, match="nothing was edited yet"):
        undo(desk, Back("tokens", 1))
    told = answer(desk, Query(op="delete", document=3))
    assert told.preview is not None and "boundaries-moved" in [d.code for d in told.preview.radius.dangers]
    with pytest.raises(Conflict, match="boundaries-moved"):
        make(desk, Make("tokens", op="delete", document=3))
    for query, words in (
        (Query(op="delete", document=10**6), "no document"),
        (Query(find="such words stand nowhere at all", text="x"), ""),
        (Query(op="delete", find="x"), "find"),
        (Query(set="x"), "no tokens called"),
    ):
        with pytest.raises((BadQuery, NotFound), match=words):
            answer(desk, query)
    with pytest.raises(BadQuery, match="there is no edit"):
        make(desk, Make("tokens"))


def test_code_is_the_same_plan(desk: Desk, capsys: Any) -> None:
    query = Query(find=" tokens", text=" sorts", limit=2)
    exec(python(desk, query), {})
    assert "Changed(" in capsys.readouterr().out
    assert "--find ' tokens'" in command(desk, query) and command(desk, query).startswith("typecase edit preview ")


def test_without_leave_nothing_is_written(here: Here, browser_page: Any) -> None:
    refused = httpx.post(
        f"{here.url}/api/v1/edit/make", json={"set": "tokens", "find": " tokens", "text": " sorts"}, timeout=60
    )
    assert refused.status_code == 400 and "edits are off" in refused.json()["error"]["message"]
    browser_page.goto(here.url + "/edit?find=+tokens&text=+sorts&limit=1")
    browser_page.get_by_role("heading", name="1 edit, not made yet").wait_for()
    assert browser_page.get_by_role("button", name="Make the edit").is_disabled() and problems(browser_page) == []


def test_a_person_edits_and_takes_it_back(editable: Here, browser_page: Any) -> None:
    page = browser_page
    page.goto(editable.url + "/edit")
    page.get_by_text("No edit yet").wait_for()
    page.get_by_label("Find").fill(" tokens")
    page.get_by_label("Put in").fill(" sorts")
    page.get_by_label("At most").fill("1")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="1 edit, not made yet").wait_for()
    shot(page, "edit-preview")
    for box in page.get_by_role("checkbox").all():
        box.click()
    page.get_by_label("Reason").fill("the right word")
    page.get_by_role("button", name="Make the edit").click()
    page.get_by_role("group", name="Entry 1").get_by_text("the right word").wait_for()
    page.reload()
    page.get_by_role("button", name="Undo 1").click()
    page.get_by_role("group", name="Entry 2").get_by_text("undo of 1").wait_for()
    with open_tokens(editable.folder / "tokens") as store:
        assert store.num_documents > 0
