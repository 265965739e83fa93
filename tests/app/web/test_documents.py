"""Documents: filters equal a naive look, pages tile the set, and a person finds a document and sees it from all sides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.app.web.conftest import Here, shot
from typecase.app.web.answers.documents import Answer, Query, answer, export
from typecase.app.web.catalogue import Catalogue
from typecase.app.web.desk import Desk
from typecase.errors import BadQuery, NotFound
from typecase.store.tokens.store import open_tokens

pytest.importorskip("nicegui")


@pytest.fixture(scope="module")
def desk(served: Path) -> Desk:
    return Desk(Catalogue([served]))


@pytest.fixture(scope="module")
def naive(served: Path) -> list[dict[str, Any]]:
    """Every document with its scores and lengths, by reading everything."""
    rows = {r["doc_id"]: r for p in sorted((served / "docs").glob("part-*")) for r in pq.read_table(p).to_pylist()}
    for part in sorted((served / "ratings").glob("part-*")):
        for r in pq.read_table(part).to_pylist():
            rows[r["doc_id"]] |= r
    for r in pq.read_table(served / "tokens" / "provenance.parquet").to_pylist():
        rows[r["doc_id"]] |= {"tokens": r["tokens"], "doc": r["doc"]}
    return [rows[i] for i in sorted(rows)]


def every(desk: Desk, query: Query) -> list[str]:
    """The ids of all pages of a state."""
    found: list[str] = []
    for page in range(1, 100):
        told = answer(desk, Query(**{**{f: getattr(query, f) for f in query.__slots__}, "page": page}))
        found += [r.doc_id or "" for r in told.rows]
        if page * told.size >= told.total:
            assert len(found) == told.total
            return found
    raise AssertionError("no end of pages")


@settings(max_examples=15)
@given(
    kind=st.sampled_from(["docs", "tokens"]),
    source=st.sampled_from(["", "wiki", "web", "none of them"]),
    low=st.none() | st.floats(1, 5),
    shortest=st.none() | st.integers(0, 400),
    sort=st.sampled_from(["", "tokens", "overall_score", "source"]),
    down=st.booleans(),
    size=st.integers(20, 60),
)
def test_filters_and_orders_are_those_of_looking_at_every_row(
    desk: Desk, naive: list[dict[str, Any]], kind: str, source: str, low: float | None, shortest: int | None, sort: str,
    down: bool, size: int,
) -> None:  # fmt: skip
    score = "overall_score" if low is not None else ""
    query = Query(set=kind, source=source, score=score, low=low, shortest=shortest, sort=sort, down=down, size=size)
    kept = [
        r
        for r in naive
        if (not source or r["source"] == source)
        and (low is None or (r["overall_score"] is not None and r["overall_score"] >= low))
        and (shortest is None or r["tokens"] >= shortest)
    ]
    kept.sort(key=lambda r: r["doc_id"] if kind == "docs" else r["doc"])
    if sort:
        kept.sort(key=lambda r: r[sort], reverse=down)
    found = every(desk, query)
    assert found == [r["doc_id"] for r in kept]


def test_a_page_says_what_a_set_can_be_filtered_by(desk: Desk, naive: list[dict[str, Any]]) -> None:
    told = answer(desk, Query())
    assert told.set == "docs" and told.all == len(naive) and sum(told.sources.values()) == len(naive)
    assert "overall_score" in told.scores and {"source", "tokens", "domain"} <= set(told.columns)


@pytest.mark.parametrize(
    "where",
    [
        "source in (select content from read_text('/etc/passwd'))",
        "1 = 1; drop table docs",
        "source = 'a' -- comment",
        "source = 'a' /* comment */",
        "read_text('/etc/passwd') = ''",
        "getenv('HOME') = ''",
        "(source = 'a'",
        "source = 'a')) or ((1 = 1",
        "unknown = 1",
        "source = $1",
        "",
    ],
)
@pytest.mark.parametrize("kind", ["docs", "tokens"])
def test_a_condition_is_an_expression_and_nothing_else(desk: Desk, where: str, kind: str) -> None:
    if not where:
        assert answer(desk, Query(set=kind, where=where)).total
        return
    with pytest.raises(BadQuery):
        answer(desk, Query(set=kind, where=where))


@pytest.mark.parametrize("name", ["../docs", "/etc", "docs/..", "nowhere"])
def test_nothing_beyond_what_was_served_can_be_named(desk: Desk, name: str) -> None:
    with pytest.raises(NotFound):
        answer(desk, Query(set=name))


def test_a_document_is_the_same_from_its_text_and_from_its_tokens(
    desk: Desk, served: Path, naive: list[dict[str, Any]]
) -> None:
    store = open_tokens(served / "tokens")
    for row in naive[:5]:
        by_text = answer(desk, Query(doc=row["doc_id"])).detail
        by_number = answer(desk, Query(set="tokens", doc=str(row["doc"]))).detail
        assert by_text is not None and by_number is not None
        assert by_text.text == by_number.text == row["text"]
        assert by_text.tokens == by_number.tokens and by_text.tokens is not None
        assert list(by_text.tokens.ids) == store.read(row["doc"])[: len(by_text.tokens.ids)].tolist()
        assert by_text.scores["overall_score"] == pytest.approx(row["overall_score"])
        assert [f.stage for f in by_number.fate] == ["ingest", "build"]
    store.close()


@pytest.mark.parametrize("kind", ["docs", "tokens"])
def test_downloads_hold_what_fits(desk: Desk, tmp_path: Path, kind: str, naive: list[dict[str, Any]]) -> None:
    export(desk, Query(set=kind, source="wiki"), tmp_path / "out.parquet")
    found = pq.read_table(tmp_path / "out.parquet")
    assert sorted(found.column("doc_id").to_pylist()) == sorted(r["doc_id"] for r in naive if r["source"] == "wiki")
    with pytest.raises(BadQuery):
        export(desk, Query(set=kind, source="no such"), tmp_path / "none.csv")


def test_a_person_filters_sorts_pages_and_opens(here: Here, browser_page: Any) -> None:
    page = browser_page
    page.goto(here.url + "/documents")
    page.get_by_text("documents in docs").wait_for()
    page.get_by_role("combobox", name="Source").click()
    page.get_by_role("option", name="wiki").click()
    page.wait_for_url("**source=wiki**")
    page.get_by_label("Where").fill("tokens > 20")
    page.keyboard.press("Enter")
    page.wait_for_url("**where=**")
    page.get_by_role("combobox", name="Sort by").click()
    page.get_by_role("option", name="overall_score").click()
    page.get_by_role("checkbox", name="Large first").click()
    page.wait_for_url("**down=true**")
    shown = httpx.get(
        f"{here.url}/api/v1/documents?source=wiki&where=tokens+%3E+20&sort=overall_score&down=true", timeout=60
    ).json()
    first = shown["rows"][0]["doc"][:12]
    page.locator("table tbody tr").first.get_by_role("link", name=first).click()
    page.get_by_role("heading", name="Tokens").wait_for()
    token = page.locator(".tc-text span").first
    assert token.get_attribute("title").split()[0].isdigit()
    shot(page, "documents-open")
    deep = page.url
    page.reload()
    page.get_by_role("heading", name="Tokens").wait_for()
    assert page.url == deep and page.get_by_label("Where").input_value() == "tokens > 20"
    page.locator("h1").click()
    page.keyboard.press("j")
    page.wait_for_url(lambda url: url != deep)
    with page.expect_event("load"):  # a step back loads the page of that state
        page.go_back()
    page.wait_for_url(deep)
    page.get_by_role("button", name="Close document").click()
    page.get_by_role("heading", name="Tokens").wait_for(state="detached")


def test_pages_are_turned_by_buttons_and_keys(here: Here, browser_page: Any) -> None:
    page = browser_page
    page.goto(here.url + "/documents?size=10")
    page.get_by_text("1–10 of").wait_for()
    page.get_by_role("button", name="Next page").click()
    page.get_by_text("11–20 of").wait_for()
    page.keyboard.press("]")
    page.get_by_text("21–30 of").wait_for()
    page.keyboard.press("[")
    page.get_by_text("11–20 of").wait_for()
    assert "page=2" in page.url


def test_hostile_text_is_shown_as_text(here: Here, browser_page: Any) -> None:
    found = httpx.get(f"{here.url}/api/v1/documents?where=file+%3D+%27hostile.txt%27", timeout=60).json()["rows"][0]["doc"]
    browser_page.goto(f"{here.url}/documents?doc={found}&where=file+%3D+%27hostile.txt%27")
    browser_page.get_by_role("heading", name="Tokens").wait_for()
    assert "<script>window.hacked = 1</script>" in browser_page.get_by_role("region", name="Text").inner_text()
    assert "{{ 7 * 7 }}" in browser_page.get_by_role("region", name="Text").inner_text()
    assert browser_page.evaluate("window.hacked === undefined")


def test_a_fault_of_the_reader_is_said_in_the_page(here: Here, browser_page: Any) -> None:
    browser_page.goto(here.url + "/documents?where=nonsense")
    browser_page.get_by_role("alert").get_by_text("cannot use 'nonsense'").wait_for()
    browser_page.goto(here.url + "/documents?page=0")
    browser_page.get_by_role("alert").get_by_text("page is 0").wait_for()


def test_copies_and_downloads(here: Here, browser_page: Any) -> None:
    page = browser_page
    page.goto(here.url + "/documents?source=web")
    page.get_by_text("documents in docs").wait_for()
    page.wait_for_function("window.did_handshake")
    page.get_by_role("button", name="Copy as Python").click()
    page.get_by_text("copied as Python").wait_for()
    page.wait_for_function("async () => (await navigator.clipboard.readText()).includes('import typecase as tc')")
    with page.expect_download() as coming:
        page.get_by_role("link", name="Download as csv").click()
    text = Path(coming.value.path()).read_text(encoding="utf-8")
    assert text.startswith("doc_id,") and text.count(",web,") >= 5


def told_of(here: Here, **query: Any) -> Answer:
    """The twin's answer, as the client reads it."""
    from typecase.app.web.client import Client

    with Client(here.url) as client:
        found: Answer = client.documents(**query)
        return found


def test_the_client_gives_the_same_dataclasses(here: Here, desk: Desk) -> None:
    assert told_of(here, source="wiki", size=5) == answer(desk, Query(source="wiki", size=5))
    doc = answer(desk, Query()).rows[3].doc
    assert told_of(here, doc=doc) == answer(desk, Query(doc=doc))
