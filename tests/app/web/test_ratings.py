"""Ratings: the figures are those of the rows; a person goes from score to score and opens a document."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import typecase as tc
from tests.app.web.conftest import Here, shot
from typecase.app.web.answers.ratings import Query, answer, command, export, python
from typecase.app.web.catalogue import Catalogue
from typecase.app.web.desk import Desk
from typecase.errors import BadQuery, NotFound

pytest.importorskip("nicegui")


@pytest.fixture(scope="module")
def desk(served: Path) -> Desk:
    return Desk(Catalogue([served]))


@pytest.fixture(scope="module")
def rows(served: Path) -> list[dict[str, Any]]:
    found = {r["doc_id"]: r for p in sorted((served / "ratings").glob("part-*")) for r in pq.read_table(p).to_pylist()}
    for part in sorted((served / "docs").glob("part-*")):
        for row in pq.read_table(part, columns=["doc_id", "source"]).to_pylist():
            found[row["doc_id"]]["source"] = row["source"]
    return list(found.values())


@pytest.mark.parametrize("criterion", ["", "accuracy", "creativity"])
def test_figures_are_those_of_the_rows(desk: Desk, rows: list[dict[str, Any]], criterion: str) -> None:
    told = answer(desk, Query(criterion=criterion))
    name = criterion or "overall_score"
    values = np.array([r[name] for r in rows], np.float64)
    score = next(s for s in told.scores if s.id == name)
    assert told.criterion == name and told.rows == score.rows == len(rows)
    assert score.mean == pytest.approx(values.mean(), rel=1e-5) and sum(score.levels) == len(rows)
    for k, level in enumerate(told.levels):
        assert score.levels[k] == (np.floor(values + 0.5) == level).sum()
    for group in told.groups:
        own = np.array([r[name] for r in rows if r["source"] == group.name], np.float64)
        assert group.rows == len(own) and group.mean == pytest.approx(own.mean(), rel=1e-5)
    at, other = (next(k for k, s in enumerate(told.scores) if s.id == n) for n in (name, told.against))
    expected = np.corrcoef(values, [r[told.against] for r in rows])[0, 1]
    assert told.matrix[at][other] == pytest.approx(expected, abs=1e-3) == pytest.approx(told.correlation, abs=1e-3)
    assert {(d.doc_id, d.x, d.y) for d in told.scatter} == {(r["doc_id"], r[told.against], r[name]) for r in rows}
    assert all(round(e.score) == e.level or abs(e.score % 1 - 0.5) < 1e-6 for e in told.examples)
    assert sum(map(sum, told.crossed)) == len(rows)


def test_domains_examples_and_what_cannot_be_meant(desk: Desk, rows: list[dict[str, Any]]) -> None:
    by_domain = answer(desk, Query(by="domain"))
    assert {g.name: g.rows for g in by_domain.groups} == {
        d: sum(r["domain"] == d for r in rows) for d in {r["domain"] for r in rows}
    }
    some = answer(desk, Query(group="wiki", level=4)).examples
    assert some and all(e.source == "wiki" and e.level == 4 and e.excerpt for e in some)
    for query, words in ((Query(criterion="x"), "no score 'x'"), (Query(against="x"), "no score 'x'")):
        with pytest.raises(BadQuery, match=words):
            answer(desk, query)
    with pytest.raises(NotFound, match="no ratings called"):
        answer(desk, Query(ratings="x"))


def test_code_and_downloads(desk: Desk, tmp_path: Path, capsys: Any) -> None:
    exec(python(desk, Query()), {"tc": tc})
    assert "overall_score" in capsys.readouterr().out and command(desk, Query()).startswith("typecase analyse ")
    export(desk, Query(), tmp_path / "groups.parquet")
    table = pq.read_table(tmp_path / "groups.parquet").to_pylist()
    assert {r["by"] for r in table} == {"source", "domain"} and all(r["rows"] > 0 for r in table)


def test_a_person_goes_from_score_to_score(here: Here, browser_page: Any) -> None:
    page = browser_page
    page.goto(here.url + "/ratings")
    page.get_by_role("img", name="Correlations of all scores").locator("svg").wait_for()
    first = page.locator("h2").first.inner_text()
    page.locator("h1").click()
    page.keyboard.press("j")
    page.wait_for_function(f"document.querySelector('h2').innerText !== {first!r}")
    page.get_by_role("img", name="Correlations of all scores").locator("svg").wait_for()
    shot(page, "ratings-score")
    assert "criterion=" in page.url
    page.get_by_role("article").first.get_by_role("link").click()
    page.wait_for_url("**/documents?**")
    page.get_by_role("heading", name="Tokens").or_(page.get_by_role("region", name="Text")).first.wait_for()
