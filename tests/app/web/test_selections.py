"""Two selections of the same documents: each tells its own outcomes, one is shown at a time, and a person chooses which."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import typecase as tc
from tests.app.web.accessible import problems
from tests.app.web.conftest import Here, serving, shot
from typecase.app.web.answers.documents import Query, answer, export
from typecase.app.web.catalogue import Catalogue
from typecase.app.web.desk import Desk
from typecase.errors import BadQuery, NotFound

pytest.importorskip("nicegui")
NAMES = ("picked", "random")


@pytest.fixture(scope="module")
def work(served: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is served, with two selections of its documents that differ."""
    work = tmp_path_factory.mktemp("selected") / "work"
    shutil.copytree(served, work)
    parents: dict[str, Path | str] = {"docs": work / "docs", "ratings": work / "ratings"}
    for name, policy in zip(NAMES, ("top", "uniform"), strict=True):
        tc.run_stage(tc.Select(budget=tc.Budget(documents=20), policy=policy, seed=1), parents, work / name)
    return work


@pytest.fixture(scope="module")
def desk(work: Path) -> Desk:
    return Desk(Catalogue([work]))


@pytest.fixture(scope="module")
def naive(work: Path) -> dict[str, dict[str, str]]:
    """Of each selection the reason of every document, by reading all."""
    return {name: {r["doc_id"]: r["reason"] for r in pq.read_table(work / name / "selection").to_pylist()} for name in NAMES}


@pytest.mark.parametrize("kind", ["docs", "tokens"])
@pytest.mark.parametrize("name", NAMES)
def test_each_selection_tells_its_own_outcomes(desk: Desk, naive: dict[str, dict[str, str]], kind: str, name: str) -> None:
    assert naive["picked"] != naive["random"]
    told = answer(desk, Query(set=kind, selection=name, size=200))
    assert told.selections == NAMES and told.selection == name
    assert dict(told.outcomes) == dict(Counter(naive[name].values()))
    assert {r.doc_id: r.outcome for r in told.rows} == naive[name]
    for outcome in told.outcomes:
        fits = answer(desk, Query(set=kind, selection=name, outcome=outcome, size=200))
        wanted = {doc for doc, reason in naive[name].items() if reason == outcome}
        assert {r.doc_id for r in fits.rows} == wanted and fits.total == len(wanted)
        wiki = answer(desk, Query(set=kind, selection=name, outcome=outcome, source="wiki", size=200))
        assert {r.doc_id for r in wiki.rows} == {r.doc_id for r in fits.rows if r.source == "wiki"}


def test_the_first_is_shown_by_default_and_none_can_be(desk: Desk) -> None:
    assert answer(desk, Query()).selection == "picked"
    none = answer(desk, Query(selection="-"))
    assert none.selection == "" and not none.outcomes and {r.outcome for r in none.rows} == {None}
    kept = answer(desk, Query(set="random", size=200))
    assert kept.selection == "random" and {r.outcome for r in kept.rows} == {"kept"}


def test_a_document_tells_what_every_selection_says_of_it(desk: Desk, naive: dict[str, dict[str, str]]) -> None:
    for doc in list(naive["picked"])[:5]:
        detail = answer(desk, Query(doc=doc)).detail
        assert detail is not None
        assert {s.selection: s.reason for s in detail.labels} == {n: naive[n][doc] for n in NAMES}


def test_what_is_no_selection_or_outcome_is_refused(desk: Desk) -> None:
    for wrong in (Query(outcome="surely"), Query(selection="-", outcome="kept")):
        with pytest.raises(BadQuery, match="there is no outcome"):
            answer(desk, wrong)
    for name in ("docs", "../picked"):
        with pytest.raises(NotFound, match="no selection called"):
            answer(desk, Query(selection=name))


@pytest.mark.parametrize("kind", ["docs", "tokens"])
def test_downloads_hold_what_was_kept(desk: Desk, naive: dict[str, dict[str, str]], tmp_path: Path, kind: str) -> None:
    query = Query(set=kind, selection="random", outcome="kept")
    export(desk, query, tmp_path / "kept.parquet")
    found = pq.read_table(tmp_path / "kept.parquet").column("doc_id").to_pylist()
    assert sorted(found) == sorted(d for d, reason in naive["random"].items() if reason == "kept")
    export(desk, replace(query, selection="picked"), tmp_path / "best.parquet")
    assert sorted(pq.read_table(tmp_path / "best.parquet").column("doc_id").to_pylist()) != sorted(found)


@pytest.fixture(scope="module")
def here(work: Path) -> Iterator[Here]:
    with serving(work) as started:
        yield started


def labels_over_values(page: Any) -> list[str]:
    """Labels of fields that lie over the value that they name."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll('.q-field')].filter(f => {
             const label = f.querySelector('.q-field__label'), value = f.querySelector('.q-field__native');
             if (!label || !value) return false;
             const text = value.value ?? value.textContent;
             if (!text.trim()) return false;
             const range = document.createRange();
             range.selectNodeContents(value);
             const a = label.getBoundingClientRect(), b = (value.value === undefined ? range : value).getBoundingClientRect();
             return value.value === undefined && a.bottom > b.top + 4;
           }).map(f => f.querySelector('.q-field__label').textContent)"""
    )
    return found


def test_a_person_chooses_which_selection_is_shown(here: Here, browser_page: Any, naive: dict[str, dict[str, str]]) -> None:
    page = browser_page
    page.goto(here.url + "/documents")
    page.get_by_role("columnheader", name="picked").wait_for()
    page.get_by_role("combobox", name="Outcome").click()
    page.get_by_role("option", name=re.compile("^kept")).click()
    page.get_by_text("20 of 51 documents").wait_for()
    page.get_by_role("combobox", name="Selection").click()
    page.get_by_role("option", name="random").click()
    page.get_by_role("columnheader", name="random").wait_for()
    page.get_by_text(re.compile("^51 documents")).wait_for()
    assert page.get_by_role("columnheader", name="picked").count() == 0
    shot(page, "documents-selection")
    assert labels_over_values(page) == [] and problems(page) == []
    deep = page.url
    page.reload()
    page.get_by_role("columnheader", name="random").wait_for()
    assert page.url == deep and "outcome" not in deep
    first = page.get_by_role("table", name="Documents").get_by_role("row").nth(1)
    doc = first.get_by_role("link").inner_text()
    first.get_by_role("link").click()
    table = page.get_by_role("table", name="Selections of this document")
    table.wait_for()
    for name in NAMES:
        reason = next(v for k, v in naive[name].items() if k.startswith(doc))
        table.get_by_role("row", name=re.compile(f"^{name} {reason}")).wait_for()
