"""Token audit: filters equal a naive look over the table; a person finds a token in the table and in the plot."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.app.web.conftest import Here, shot
from typecase.app.commands.audit import audit_command
from typecase.app.web.answers.audit import Answer, Query, answer, command, export, python
from typecase.app.web.catalogue import Catalogue
from typecase.app.web.desk import Desk
from typecase.errors import BadQuery, NotFound

pytest.importorskip("nicegui")
ORDER = ("under_trained", "suspect", "unreachable", "fine")


@pytest.fixture(scope="module")
def desk(served: Path) -> Desk:
    return Desk(Catalogue([served]))


@pytest.fixture(scope="module")
def rows(served: Path) -> list[dict[str, Any]]:
    return pq.read_table(served / "audit" / "tokens.parquet").to_pylist()


def ids(told: Answer) -> list[int]:
    return [row.i for row in told.rows]


@settings(max_examples=15)
@given(
    decision=st.sampled_from(["", *ORDER]),
    origin=st.sampled_from(["", "scaffold"]),
    text=st.sampled_from(["", "T1", "t399", "<script>"]),
    low=st.none() | st.integers(0, 5),
    high=st.none() | st.integers(0, 50),
    where=st.sampled_from(["", "parents = 0 and rank < 200"]),
    page=st.integers(1, 3),
)
def test_filters_are_those_of_looking_at_every_row(
    desk: Desk, rows: list[dict[str, Any]], decision: str, origin: str, text: str, low: int | None, high: int | None,
    where: str, page: int,
) -> None:  # fmt: skip
    told = answer(desk, Query(decision=decision, origin=origin, text=text, low=low, high=high, where=where, page=page, size=60))
    fit = [
        r
        for r in rows
        if (not decision or r["decision"] == decision)
        and (not origin or r["origin"] == origin)
        and text.lower() in r["decoded"].lower()
        and (low is None or r["count"] >= low)
        and (high is None or r["count"] <= high)
        and (not where or (r["parents"] == 0 and r["rank"] < 200))
    ]
    fit.sort(key=lambda r: (ORDER.index(r["decision"]), r["rank"], r["i"]))
    assert told.total == len(fit) and told.all == len(rows)
    assert ids(told) == [r["i"] for r in fit][60 * (page - 1) : 60 * page]
    assert {p.i for p in told.points} == {r["i"] for r in fit} and told.plotted == len(fit)
    assert sum(told.groups["decision"].values()) == len(rows)


def test_orders_axes_and_a_token_from_all_sides(desk: Desk, rows: list[dict[str, Any]]) -> None:
    by_count = answer(desk, Query(sort="count", down=True, size=5))
    assert [t.count for t in by_count.rows] == sorted((r["count"] for r in rows), reverse=True)[:5]
    drawn = answer(desk, Query(across="rank", up="max_prob"))
    assert {(p.i, p.across, p.up) for p in drawn.points} == {
        (r["i"], r["rank"], r["max_prob"]) for r in rows if r["max_prob"] is not None
    }
    one = answer(desk, Query(token=20)).token
    assert one is not None and one.facts["count"] == rows[20]["count"] and one.reasons == tuple(rows[20]["reasons"])
    assert [(n.role, n.i, n.decoded) for n in one.related] == [
        ("merged_of", 10, "t10"), ("merged_of", 6, "t6"), ("absorbed_by", 21, "t21"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (Query(audit="nothing"), "no audit called 'nothing'"),
        (Query(token=9999), "no token 9999"),
        (Query(where="nonsense"), "cannot use 'nonsense'"),
        (Query(where="i in (select 1)"), "cannot use 'select'"),
        (Query(sort="nonsense"), "no column 'nonsense'"),
        (Query(up="nonsense"), "no column 'nonsense'"),
    ],
)
def test_what_cannot_be_meant_is_refused(desk: Desk, query: Query, words: str) -> None:
    with pytest.raises((BadQuery, NotFound), match=words):
        answer(desk, query)


def test_code_and_downloads_give_the_rows_of_the_page(desk: Desk, served: Path, tmp_path: Path, capsys: Any) -> None:
    query = Query(decision="suspect", origin="scaffold")
    told = answer(desk, query)
    assert told.total > 0
    exec(python(desk, query), {})
    assert capsys.readouterr().out.count("'i': ") == len(told.rows)
    done = CliRunner().invoke(audit_command, [*shlex.split(command(desk, query))[2:], "--json"], catch_exceptions=False)
    assert done.exit_code == 0 and [r["i"] for r in json.loads(done.output)["rows"]] == ids(told)
    export(desk, query, tmp_path / "t.parquet")
    assert pq.read_table(tmp_path / "t.parquet").column("i").to_pylist() == ids(told)


def test_a_person_filters_and_follows_a_token(here: Here, browser_page: Any) -> None:
    page = browser_page
    page.goto(here.url + "/audit")
    page.get_by_role("heading", name="400 of 400 tokens").wait_for()
    page.get_by_role("img", name="main_indicator against count").locator("svg").wait_for()
    page.get_by_role("combobox", name="Decision").click()
    page.get_by_role("option", name="suspect").click()
    page.get_by_role("heading", name="32 of 400 tokens").wait_for()
    page.get_by_role("region", name="Tokens").get_by_role("link").first.click()
    page.get_by_role("article").get_by_role("heading").wait_for()
    assert "decision=suspect" in page.url and "token=" in page.url
    shown = page.get_by_role("article").get_by_role("heading").inner_text()
    page.locator("h1").click()
    page.keyboard.press("j")
    page.wait_for_function(f"document.querySelector('article h2').innerText !== {shown!r}")
    shot(page, "audit-token")
    page.reload()
    page.get_by_role("article").get_by_role("heading").wait_for()
    page.get_by_role("link", name="Close").click()
    page.wait_for_url(lambda url: "token=" not in url)


def test_a_hostile_token_is_text(here: Here, browser_page: Any) -> None:
    browser_page.goto(here.url + "/audit?token=399")
    browser_page.get_by_role("heading", name="Token 399: <script>").wait_for()
    assert browser_page.evaluate("window.hacked === undefined")
    told = httpx.get(f"{here.url}/api/v1/audit?token=399", timeout=60).json()
    assert told["token"]["decoded"].startswith("<script>")
