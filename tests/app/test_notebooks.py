"""Notebooks: documents, hits, samples and edits show themselves as HTML in which any text stays text."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import typecase as tc
from tests.app.web.served import HOSTILE, make_served
from tests.conftest import make_docs_artifact, make_documents
from tests.recipe.test_refine import page
from typecase.app.refine.refining import STATUSES, ids_of, open_run, show_edited
from typecase.core.display import MOST_CHARS, box, changed, facts, marked, plain

KNOWN = {"div", "b", "pre", "i", "mark", "del", "ins", "u"}


class Reader(HTMLParser):
    """The tags of a piece of HTML, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_served(tmp_path_factory.mktemp("notebook"))


def shown(value: object) -> Reader:
    """What a notebook would draw; nothing in it but our own tags."""
    told = Reader(value._repr_html_())  # type: ignore[attr-defined]
    assert set(told.tags) <= KNOWN, told.tags
    return told


@given(st.text(max_size=200), st.text(max_size=50), st.dictionaries(st.text(max_size=5), st.text(max_size=20), max_size=3))
def test_any_text_stays_text(text: str, other: str, known: dict[str, str]) -> None:
    told = Reader(facts(other, known) + box(plain(text)) + box(marked(other, text, other)) + box(changed(text, other)))
    assert set(told.tags) <= KNOWN
    if not any(c in text for c in "\r\0"):
        assert text in Reader(plain(text)).text or not text


def test_a_long_text_says_how_much_was_left_out() -> None:
    assert "and 7 more characters" in Reader(plain("x" * (MOST_CHARS + 7))).text


def test_documents_hits_samples_and_edits(work: Path) -> None:
    hostile = next(d for d in tc.open(work / "docs") if HOSTILE in d.text)
    assert HOSTILE in shown(hostile).text and hostile.id in shown(hostile).text
    with tc.open_search(work / "index", run=work / "run.json") as search:
        hit = search.hits(search.ids_of(" tokens"), limit=1).hits[0]
    told = shown(hit)
    assert hit.before in told.text and "mark" in told.tags
    with tc.open_timeline(work / "run.json") as timeline:
        assert shown(next(iter(timeline.samples([0])))).text.startswith("sample 0")
    plan = tc.plan_edits(work / "tokens", [{"op": "replace", "find": " tokens", "text": " sorts", "limit": 1}])
    assert {"del", "ins"} <= set(shown(plan.changes[0]).tags) and "1 edits" in shown(plan).text
    shown(replace(plan.changes[0], old_text=None, new_text=HOSTILE))


def test_a_refined_document(tmp_path: Path) -> None:
    docs = make_docs_artifact(tmp_path / "docs", make_documents([page(n) for n in range(24)]), 1)
    tc.run_stage(tc.Refine(), {"docs": docs}, tmp_path / "clean")
    run = open_run(tmp_path / "clean")
    told = shown(show_edited(run, ids_of(run, 1, STATUSES[:1])[0]))
    assert "del" in told.tags and "remove_lines" in told.text
