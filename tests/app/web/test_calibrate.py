"""Calibrate: a session is that of the command line, the threshold the verb's own, and a person judges by keys and goes on."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import httpx
import orjson
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from tests.app.web.accessible import problems
from tests.app.web.conftest import Here, shot
from typecase.app.agree.calibrating import LabelFile, open_session, propose_from
from typecase.app.cli import typecase
from typecase.app.web.answers import calibrate
from typecase.app.web.answers.calibrate import Asking, Begin, Judge, Query, Undo, answer, export
from typecase.app.web.api import perform
from typecase.app.web.catalogue import Catalogue
from typecase.app.web.desk import Desk
from typecase.app.web.registry import page_named
from typecase.errors import AlreadyExists, BadQuery, Conflict, FixInput, NotFound

pytest.importorskip("nicegui")
ACTIONS = {a.name: a for a in page_named("calibrate").twin.actions}


@pytest.fixture
def desk(served: Path, tmp_path: Path) -> Desk:
    """A desk that may edit, over documents and ratings of its own."""
    for name in ("docs", "ratings"):
        shutil.copytree(served / name, tmp_path / "work" / name)
    return Desk(Catalogue([tmp_path / "work"]), allow_edit=True)


def act(desk: Desk, asked: Any) -> Any:
    return perform(desk, ACTIONS[type(asked).__name__.lower()], asked)


def judge_all(desk: Desk, labels: str, number: int) -> Asking:
    """Keeps the documents that score above 3, drops the others, `number` of them."""
    told = answer(desk, Query(labels=labels, scores=True)).asking
    for _ in range(number):
        assert told is not None and told.document is not None and told.document.score is not None
        verdict = "keep" if told.document.score > 3 else "drop"
        told = act(desk, Judge(labels, told.document.doc_id, verdict, scores=True))
    assert told is not None
    return told


def test_a_session_is_that_of_the_command_line(desk: Desk, tmp_path: Path) -> None:
    work = tmp_path / "work"
    begun = act(desk, Begin(size=30, seed=3))
    assert begun.labels == "labels.jsonl" and begun.sample == 30
    judge_all(desk, "labels.jsonl", 4)
    act(desk, Undo("labels.jsonl"))
    session = open_session(work / "docs", work / "ratings", work / "labels.jsonl", size=30, seed=3)
    assert session.progress["open"] == 27
    told = answer(desk, Query()).asking
    assert told is not None and told.document is not None and session.current is not None
    assert told.document.doc_id == session.current.doc_id and session.current.text.startswith(told.document.text)
    assert told.document.score is None, "hidden unless it is asked for"
    LabelFile(work / "labels.jsonl").append(session.answer("skip"))
    again = answer(desk, Query()).asking
    assert again is not None and again.verdicts["skip"] == 1 and again.open == 26
    rows = (work / "labels.jsonl").read_bytes().splitlines()
    assert len(rows) == 1 + 4 + 1 + 1 and orjson.loads(rows[0])["ratings"] == "ratings"


def test_the_threshold_is_that_of_the_verb(desk: Desk, tmp_path: Path) -> None:
    act(desk, Begin(size=40))
    early = answer(desk, Query())
    assert early.proposal is None and "all alike" in early.why
    judge_all(desk, "labels.jsonl", 40)
    for wish in ({"precision": 0.8}, {"keep_rate": 0.3}, {"keep_rate": 0.5, "shape": "logistic"}):
        told = answer(desk, Query(**wish))
        expected = propose_from(tmp_path / "work" / "labels.jsonl", **wish)
        assert told.proposal == expected.proposal and told.notes == expected.notes
        assert told.asking is not None and told.asking.document is None and told.asking.verdicts == expected.verdicts
        line = calibrate.command(desk, Query(**wish)).split()[1:]
        said = CliRunner().invoke(typecase, line)
        assert said.exit_code == 0 and told.proposal is not None and told.proposal.cut is not None
        assert f"threshold {told.proposal.cut.threshold:.3f}" in said.output
    usual = answer(desk, Query()).proposal
    assert usual == propose_from(tmp_path / "work" / "labels.jsonl", precision=calibrate.USUAL).proposal
    export(desk, Query(), tmp_path / "out.parquet")
    assert sorted(pq.read_table(tmp_path / "out.parquet").column_names)[0] == "doc_id"
    assert pq.read_metadata(tmp_path / "out.parquet").num_rows == 40


def test_what_cannot_be_judged_is_refused_and_nothing_is_written(desk: Desk, tmp_path: Path) -> None:
    act(desk, Begin(size=10))
    first = answer(desk, Query()).asking
    assert first is not None and first.document is not None
    doc = first.document.doc_id
    act(desk, Judge("labels.jsonl", doc, "keep"))
    before = (tmp_path / "work" / "labels.jsonl").read_bytes()
    with pytest.raises(Conflict, match="judged meanwhile"):
        act(desk, Judge("labels.jsonl", doc, "drop"))
    for wrong in (Judge("labels.jsonl", doc, "perhaps"), Judge("labels.jsonl", "0" * 32, "keep"), Begin("../x.jsonl")):
        with pytest.raises(BadQuery):
            act(desk, wrong)
    with pytest.raises(AlreadyExists):
        act(desk, Begin(size=10))
    with pytest.raises(NotFound):
        act(desk, Judge("docs/../labels.jsonl", doc, "keep"))
    desk.allow_edit = False
    with pytest.raises(FixInput, match="--allow-edit"):
        act(desk, Undo("labels.jsonl"))
    assert (tmp_path / "work" / "labels.jsonl").read_bytes() == before


def test_a_rubric_is_one_of_the_package_and_ratings_are_served_ones(desk: Desk, tmp_path: Path) -> None:
    act(desk, Begin(size=10))
    path = tmp_path / "work" / "labels.jsonl"
    header = orjson.loads(path.read_bytes().splitlines()[0])
    for change, kind in (
        ({"rubric": "/etc/passwd"}, BadQuery),
        ({"ratings": "../../other"}, NotFound),
        ({"pool_hash": "0"}, AlreadyExists),
    ):
        path.write_bytes(orjson.dumps({**header, **change}) + b"\n")
        with pytest.raises(kind):
            answer(desk, Query())


def test_a_file_that_is_none_of_labels_is_left_as_it_is(desk: Desk, tmp_path: Path) -> None:
    other = tmp_path / "corpus.jsonl"
    other.write_bytes(b'{"text": "one"}\n{"text": "two"}')
    with pytest.raises(Exception, match="no file of labels"):
        open_session(tmp_path / "work" / "docs", tmp_path / "work" / "ratings", other, size=10)
    assert other.read_bytes().endswith(b'"two"}')


def test_nothing_rated_was_served_and_what_to_do(served: Path, tmp_path: Path) -> None:
    shutil.copytree(served / "docs", tmp_path / "work" / "docs")
    with pytest.raises(NotFound, match="typecase rate"):
        answer(Desk(Catalogue([tmp_path / "work"])), Query())


def test_a_person_judges_by_keys_takes_back_and_goes_on(editable: Here, browser_page: Any) -> None:
    page = browser_page
    page.goto(editable.url + "/calibrate")
    page.get_by_label("Sample size").fill("24")
    page.get_by_role("button", name="Draw and begin").click()
    page.get_by_text("0 of 24 judged").wait_for()
    page.wait_for_url("**labels=labels.jsonl")
    for n, key in enumerate("kdkkdksdkd", 1):
        page.keyboard.press(key)
        page.get_by_text(f"{n} of 24 judged").wait_for()
    page.get_by_text("5 kept, 4 dropped, 1 skipped").wait_for()
    page.keyboard.press("u")
    page.get_by_text("9 of 24 judged").wait_for()
    page.get_by_role("button", name="Drop (d)").click()
    page.get_by_text("10 of 24 judged").wait_for()
    page.get_by_role("heading", name="Threshold").first.wait_for()
    page.get_by_label("or keep rate").fill("0.5")
    page.keyboard.press("Enter")
    page.wait_for_url("**keep_rate=0.5**")
    page.get_by_role("heading", name="for a keep rate of 0.5").wait_for()
    assert problems(page) == []
    shot(page, "calibrate-judging")
    shown = page.get_by_role("heading", name="Document ").inner_text()
    page.reload()
    page.get_by_text("10 of 24 judged").wait_for()
    assert page.get_by_role("heading", name="Document ").inner_text() == shown
    told = httpx.get(f"{editable.url}/api/v1/calibrate", timeout=60).json()
    assert told["asking"]["document"]["doc_id"].startswith(shown.split()[1])
    assert len((editable.folder / "labels.jsonl").read_bytes().splitlines()) == 1 + 10 + 1 + 1


def test_without_allow_edit_all_is_shown_and_nothing_can_be_pressed(here: Here, browser_page: Any) -> None:
    browser_page.goto(here.url + "/calibrate")
    browser_page.get_by_text("start `typecase serve` with --allow-edit").wait_for()
    assert browser_page.get_by_role("button", name="Draw and begin").is_disabled()
    refused = httpx.post(f"{here.url}/api/v1/calibrate/begin", json={}, headers={"origin": here.url}, timeout=60)
    assert refused.status_code == 400 and "--allow-edit" in refused.json()["error"]["message"]
