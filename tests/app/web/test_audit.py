"""Token audit: rows equal a naive look at the report's own table, places are real; a person finds a token by table and plot."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import httpx
import orjson
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.app.test_audit_page import planted
from tests.app.web.accessible import problems
from tests.app.web.audited import make_verdict
from tests.app.web.conftest import Here, shot
from typecase.app.audit.page import write_audit_report
from typecase.app.cli import typecase as cli
from typecase.app.web.answers.audit import FORMATS, Query, answer, command, export, python
from typecase.app.web.catalogue import Catalogue
from typecase.app.web.client import Client
from typecase.app.web.desk import Desk
from typecase.app.web.verdicts import DOTS
from typecase.errors import BadQuery, NotFound
from typecase.store.tokens.store import open_tokens

pytest.importorskip("nicegui")
ORDER = ("under_trained", "suspect", "unreachable", "fine")


@pytest.fixture(scope="module")
def desk(served: Path) -> Desk:
    return Desk(Catalogue([served]))


@pytest.fixture(scope="module")
def naive(served: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(served / "audit" / "tokens.parquet").to_pylist()
    return found


def worst_first(r: dict[str, Any]) -> tuple[Any, ...]:
    return (ORDER.index(r["decision"]), r["rank"], r["count"], r["i"])


@settings(max_examples=15, deadline=None)
@given(
    text=st.sampled_from(["", "the", "␣the", "464", "'", "%", "\\"]),
    decision=st.sampled_from(["", "under_trained", "suspect", "fine", "nothing of that name"]),
    category=st.sampled_from(["", "OK", "UNDECODEABLE"]),
    advice=st.sampled_from(["", "keep", "drop", "retrain"]),
    least=st.none() | st.integers(0, 20),
    most=st.none() | st.integers(0, 20),
    where=st.sampled_from(["", "bytes > 4 and percentile < 30", "prediction = 'at_risk' or max_prob is not null"]),
    sort=st.sampled_from(["", "count", "e_out_l2", "decoded"]),
    down=st.booleans(),
)
def test_rows_are_those_of_looking_at_every_token(
    desk: Desk, naive: list[dict[str, Any]], text: str, decision: str, category: str, advice: str, least: int | None,
    most: int | None, where: str, sort: str, down: bool,
) -> None:  # fmt: skip
    holds: dict[str, Any] = {
        "": lambda r: True,
        "bytes > 4 and percentile < 30": lambda r: r["bytes"] > 4 and r["percentile"] < 30,
        "prediction = 'at_risk' or max_prob is not null": lambda r: r["prediction"] == "at_risk" or r["max_prob"] is not None,
    }
    wanted = [
        r
        for r in naive
        if (text in r["decoded"] or text.replace("␣", " ") in r["decoded"] or text == str(r["i"]))
        and decision in ("", r["decision"])
        and category in ("", r["category"])
        and advice in ("", r["advice"])
        and (least is None or r["count"] >= least)
        and (most is None or r["count"] <= most)
        and holds[where](r)
    ]
    if sort:
        wanted.sort(key=lambda r: r[sort].encode() if sort == "decoded" else r[sort], reverse=down)
    else:
        wanted.sort(key=worst_first)
    query = Query(
        q=text, decision=decision, category=category, advice=advice, least=least, most=most, where=where, sort=sort, down=down,
        size=40, page=2,
    )  # fmt: skip
    told = answer(desk, query)
    assert told.total == len(wanted) and [r.i for r in told.rows] == [r["i"] for r in wanted[40:80]]
    assert sum(d.of for d in told.dots) == len(wanted), "every token that fits is a point, drawn or counted"
    for r in told.rows:
        own = naive[r.i]
        assert (r.decision, r.advice, r.count, r.rank) == (own["decision"], own["advice"], own["count"], own["rank"])
        assert r.reasons == tuple(own["reasons"]) and r.value == own["main_indicator"]


def test_points_are_thinned_evenly_and_are_those_of_the_table(desk: Desk, naive: list[dict[str, Any]]) -> None:
    told = answer(desk, Query(token=464))
    assert (told.across, told.up) == ("count", "main_indicator")
    for dots in told.dots:
        own = [r["i"] for r in naive if r["decision"] == dots.decision]
        assert dots.of == len(own) and set(dots.ids) - {464} <= set(own[:: -(-len(own) // DOTS)]) and len(dots.ids) <= DOTS + 1
        for i, x, y in zip(dots.ids, dots.x, dots.y, strict=True):
            assert (x, y) == (naive[i]["count"], naive[i]["main_indicator"])
    assert any(464 in dots.ids for dots in told.dots), "the token that is shown is among them"
    assert answer(desk, Query(indicator="e_out_l2")).up == "e_out_l2"


@pytest.mark.parametrize("token", [0, 17, 262, 464, 50256])
def test_a_token_is_seen_from_all_sides(desk: Desk, served: Path, naive: list[dict[str, Any]], token: int) -> None:
    one = answer(desk, Query(token=token)).detail
    assert one is not None and one.row.i == token and one.text == naive[token]["decoded"]
    values = {k: v for side in one.sides.values() for k, v in side.items()}
    assert values.items() <= {**naive[token], "reasons": None}.items()
    assert {k for k, v in naive[token].items() if v not in (None, [])} - set(values) <= {
        *("i", "decoded", "decision", "reasons", "advice", "merged_of")
    }
    for s in one.standing:
        every = [r[s.indicator] for r in naive if r[s.indicator] is not None]
        assert (s.smaller, s.of) == (sum(v < naive[token][s.indicator] for v in every), len(every))
    by_role = {r.role: r for r in one.relatives}
    own = [r["i"] for r in naive if token in r["merged_of"]]
    assert [n.i for n in by_role["merged into"].tokens] == own[:20] if own else "merged into" not in by_role
    if own:
        assert by_role["merged into"].total == len(own)
    assert one.places is not None and one.places.count == naive[token]["count"]
    with open_tokens(served / "tokens") as store:
        for place in one.places.places:
            assert store.read(place.doc)[place.at] == token


def test_places_without_an_index_are_those_that_are_really_there(
    served: Path, tmp_path: Path, naive: list[dict[str, Any]]
) -> None:
    for name in ("audit", "tokens"):
        (tmp_path / name).symlink_to(served / name)
    desk = Desk(Catalogue([tmp_path / "audit", tmp_path / "tokens"]))
    one = answer(desk, Query(token=262)).detail
    assert one is not None and one.places is not None and one.places.count is None and one.places.index == ""
    assert [p.doc for p in one.places.places] == naive[262]["first_documents"]
    alone = answer(Desk(Catalogue([tmp_path / "audit"])), Query(token=262)).detail
    assert alone is not None and alone.places is None


def test_another_audit_of_the_same_vocabulary_is_told(served: Path, tmp_path: Path) -> None:
    other = make_verdict(tmp_path / "other", served / "tokens", seed=5)
    desk = Desk(Catalogue([served / "audit", tmp_path / "other"]))
    for token in (other.lists()["mask"][0], 464):
        one = answer(desk, Query(audit="audit", token=token)).detail
        assert one is not None and one.elsewhere == {"other": other.table.column("decision")[token].as_py()}


def test_a_report_as_it_is_written_is_shown_hostile_tokens_and_all(tmp_path: Path) -> None:
    verdict = planted({"examples": [["doc: a⟦b⟧c"] if i == 3 else None for i in range(120)]})
    write_audit_report(verdict, tmp_path / "report", pictures=False)
    desk = Desk(Catalogue([tmp_path]))
    told = answer(desk, Query(size=200))
    assert told.all == told.total == 120 and dict(told.decisions) == dict(verdict.decisions)
    assert dict(told.lists) == {k: len(v) for k, v in verdict.lists().items()}
    assert "\\u202eabc" in {r.token for r in told.rows}, "what cannot be seen is written as an escape"
    one = answer(desk, Query(token=3)).detail
    assert one is not None and one.noted == ("doc: a⟦b⟧c",) and one.places is None


@pytest.mark.parametrize(
    "query",
    [
        *(Query(indicator="count"), Query(sort="nothing"), Query(sort="merged_of"), Query(token=50257)),
        *(Query(where="i in (select 1)"), Query(where="nothing = 1"), Query(where="reasons is null")),
    ],
)
def test_what_an_audit_has_not_is_refused(desk: Desk, query: Query) -> None:
    with pytest.raises(BadQuery):
        answer(desk, query)


def test_only_what_was_served_is_named(desk: Desk, tmp_path: Path) -> None:
    for query in (Query(audit="../audit"), Query(audit="/etc"), Query(token=1, set="/etc")):
        with pytest.raises(NotFound):
            answer(desk, query)
    with pytest.raises(NotFound, match="audit report"):
        answer(Desk(Catalogue([tmp_path])), Query())
    (tmp_path / "ids.json").write_text("{}")
    (tmp_path / "tokens.parquet").write_text("no table")
    with pytest.raises(BadQuery):
        answer(Desk(Catalogue([tmp_path])), Query())


def test_downloads_hold_what_fits(desk: Desk, served: Path, tmp_path: Path, naive: list[dict[str, Any]]) -> None:
    for kind in FORMATS:
        export(desk, Query(decision="suspect", page=3), tmp_path / f"audit.{kind}")
    wanted = sorted((r for r in naive if r["decision"] == "suspect"), key=worst_first)
    assert pq.read_table(tmp_path / "audit.parquet").column("i").to_pylist() == [r["i"] for r in wanted]
    lines = (tmp_path / "audit.jsonl").read_bytes().splitlines()
    assert [orjson.loads(line)["i"] for line in lines[1:]] == [r["i"] for r in wanted]
    export(desk, Query(), tmp_path / "all.ids.json")
    whole = orjson.loads((served / "audit" / "ids.json").read_bytes())
    assert {k: sorted(v) for k, v in orjson.loads((tmp_path / "all.ids.json").read_bytes()).items()} == whole
    with pytest.raises(BadQuery):
        export(desk, Query(q="no token holds this"), tmp_path / "none.csv")


@pytest.mark.parametrize("query", [Query(decision="suspect", q="␣", size=7), Query(token=464), Query(sort="count", down=True)])
def test_what_is_copied_gives_the_same_rows(desk: Desk, query: Query) -> None:
    told = answer(desk, query)
    wanted = [464] if query.token else [r.i for r in told.rows]
    code = python(desk, query)
    scope: dict[str, Any] = {}
    exec(code.replace("select_rows(table", "found = select_rows(table"), scope)
    assert scope["found"].column("i").to_pylist() == wanted
    _, *words = shlex.split(command(desk, query))
    run = CliRunner().invoke(cli, [*words, "--json"])
    assert run.exit_code == 0, run.output
    assert [r["i"] for r in orjson.loads(run.output)["rows"]] == wanted


def test_a_person_filters_and_opens_a_token(here: Here, browser_page: Any) -> None:
    page = browser_page
    page.goto(here.url + "/audit")
    page.get_by_text("50,257 tokens in audit").wait_for()
    page.get_by_role("navigation", name="Decisions").get_by_role("link", name=re.compile("suspect")).click()
    page.wait_for_url("**decision=suspect**")
    page.get_by_text("of 50,257 tokens in audit").wait_for()
    page.get_by_label("Count to").fill("3")
    page.keyboard.press("Enter")
    page.wait_for_url("**most=3**")
    told = httpx.get(f"{here.url}/api/v1/audit?decision=suspect&most=3").json()
    first, second = told["rows"][:2]
    page.get_by_role("table", name="Tokens").get_by_role("link").first.click()
    page.get_by_role("heading", name=f"Token {first['i']}", exact=True).wait_for()
    assert problems(page) == []
    shot(page, "audit-token")
    page.locator("h1").click()
    page.keyboard.press("j")
    page.get_by_role("heading", name=f"Token {second['i']}", exact=True).wait_for()
    deep = page.url
    page.reload()
    page.get_by_role("heading", name=f"Token {second['i']}", exact=True).wait_for()
    assert page.url == deep and page.get_by_label("Count to").input_value() == "3"
    page.get_by_role("button", name="Close token").click()
    page.get_by_role("heading", name=f"Token {second['i']}", exact=True).wait_for(state="detached")


def test_a_point_leads_to_its_token_and_a_place_to_its_document(here: Here, browser_page: Any) -> None:
    page = browser_page
    page.goto(f"{here.url}/audit?where=i+%3D+464")
    page.get_by_text("1 of 50,257 tokens in audit").wait_for()
    page.locator("[role=img] svg path[fill='#5b8fc7']").click()
    shown = page.get_by_role("heading", name="Token 464", exact=True)
    shown.wait_for()
    assert "token=464" in page.url
    page.emulate_media(color_scheme="dark")
    page.reload()
    shown.wait_for()
    assert problems(page) == []
    shot(page, "audit-dark")
    page.get_by_role("article", name=re.compile("Place in document")).get_by_role("link").first.click()
    page.wait_for_url("**/documents?**doc=**")
    page.get_by_role("heading", name="Tokens").wait_for()
    page.go_back()
    page.get_by_role("link", name="Search them all").click()
    page.wait_for_url("**/search?**ids=464**")
    page.get_by_role("heading", name=re.compile(r"hits in tokens")).wait_for()


def test_the_client_gives_the_same_dataclasses(here: Here, desk: Desk) -> None:
    with Client(here.url) as client:
        for query in ({"q": "the", "size": 3}, {"token": 464, "size": 1}):
            assert client.audit(**query) == answer(desk, Query(**query))
