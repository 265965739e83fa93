"""Select: a preview keeps what the stage keeps; the funnel is that of `report`; a person moves the slider and asks why."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest

import typecase as tc
from tests.app.web.conftest import Here, serving, shot
from typecase.app.web.answers.select import Query, answer, command, export, python
from typecase.app.web.catalogue import Catalogue
from typecase.app.web.desk import Desk
from typecase.errors import BadQuery, FixInput, NotFound

pytest.importorskip("nicegui")


@pytest.fixture(scope="module")
def work(served: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is served, with a selection of it."""
    work = tmp_path_factory.mktemp("choosing") / "work"
    shutil.copytree(served, work)
    given: dict[str, Path | str] = {"docs": work / "docs", "ratings": work / "ratings"}
    tc.run_stage(tc.Select(budget=tc.Budget(documents=20), policy="top", seed=1), given, work / "picked")
    return work


@pytest.fixture(scope="module")
def desk(work: Path) -> Desk:
    return Desk(Catalogue([work]))


@pytest.mark.parametrize(
    ("policy", "unit", "strata", "inverse"),
    [
        ("top", "documents", "source", False),
        ("top", "bytes", "both", True),
        ("sampled:1", "bytes", "domain", False),
        ("uniform", "documents", "none", False),
        ("threshold:4", "documents", "source", False),
    ],
)
def test_a_preview_is_what_the_stage_keeps(
    desk: Desk, work: Path, tmp_path: Path, policy: str, unit: str, strata: str, inverse: bool
) -> None:
    query = Query(policy=policy, unit=unit, strata=strata, inverse=inverse, percent=30, seed=3)
    told = answer(desk, query).what_if
    assert told is not None
    code = python(desk, query).replace("'selected'", repr(str(tmp_path / "made"))).replace("print(", "(")
    exec(code, {})
    rows = [r for p in sorted((tmp_path / "made" / "selection").glob("part-*")) for r in pq.read_table(p).to_pylist()]
    assert told.kept == sum(r["kept"] for r in rows) > 0 and told.documents == len(rows)
    kept = Counter(r["stratum"] for r in rows if r["kept"])
    assert {s.name: s.kept for s in told.strata if s.kept} == {name or "all": n for name, n in kept.items()}
    assert command(desk, query).startswith("typecase select ")


def test_the_funnel_and_a_fate(desk: Desk, work: Path) -> None:
    told = answer(desk, Query())
    found = tc.funnel_of(work / "picked")
    assert told.story is not None and told.story.name == "picked"
    assert [(s.stage, s.entered, s.kept) for s in told.story.stages] == [
        (s.stage, s.balance.entered, s.balance.kept) for s in found.steps
    ]
    assert told.story.warnings == found.warnings and told.story.shifts == found.shifts
    row = pq.read_table(next((work / "picked" / "selection").glob("part-*"))).to_pylist()[0]
    fates = answer(desk, Query(doc=row["doc_id"])).fates
    assert any(f.stage == "select" and f.outcome == ("kept" if row["kept"] else "removed") for f in fates)
    assert answer(desk, Query(selection="-")).story is None


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (Query(score="x"), "no score 'x'"),
        (Query(policy="x"), "a policy is one of"),
        (Query(policy="perplexity:low"), "goes by more than one score"),
        (Query(doc="0" * 32), "knows a document"),
        (Query(ratings="x"), "no ratings called"),
        (Query(selection="-", doc="0" * 32), "no selection is shown"),
    ],
)
def test_what_cannot_be_meant_is_refused(desk: Desk, query: Query, words: str) -> None:
    with pytest.raises((BadQuery, FixInput, NotFound), match=words):
        answer(desk, query)


def test_downloads(desk: Desk, tmp_path: Path) -> None:
    export(desk, Query(percent=50), tmp_path / "strata.parquet")
    told = answer(desk, Query(percent=50)).what_if
    assert told is not None and pq.read_table(tmp_path / "strata.parquet").num_rows == len(told.strata)


@pytest.fixture(scope="module")
def chosen(work: Path) -> Iterator[Here]:
    with serving(work) as started:
        yield started


def test_a_person_moves_the_slider_and_asks_why(chosen: Here, work: Path, browser_page: Any) -> None:
    page = browser_page
    page.goto(chosen.url + "/select")
    page.get_by_role("heading", name="documents would be kept").wait_for()
    page.get_by_role("img", name="Shares by source before and after").locator("svg").wait_for()
    first = page.locator("h2").first.inner_text()
    page.get_by_role("slider", name="Percent kept").locator("[tabindex]").focus()
    for _ in range(40):
        page.keyboard.press("ArrowRight")
    page.wait_for_url("**percent=30.0**")
    page.wait_for_function(f"document.querySelector('h2').innerText !== {first!r}")
    kept = httpx.get(page.url.replace("/select", "/api/v1/select"), timeout=60).json()["what_if"]["kept"]
    page.get_by_role("heading", name=f"{kept} of ").wait_for()
    page.get_by_role("img", name="Shares by source before and after").locator("svg").wait_for()
    doc = pq.read_table(next((work / "picked" / "selection").glob("part-*"))).column("doc_id")[0].as_py()
    page.get_by_label("Why is this document in it").fill(doc)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=f"What became of {doc}").wait_for()
    shot(page, "select-why")
    page.reload()
    page.get_by_role("heading", name=f"What became of {doc}").wait_for()
