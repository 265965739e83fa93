"""Time machine: a batch is what the run reads, a document's steps are where it is read; a person moves through a run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import typecase as tc
from tests.app.web.accessible import problems
from tests.app.web.conftest import Here, shot
from typecase.app.web.answers.time import Query, answer, export, python, thinned
from typecase.app.web.catalogue import Catalogue
from typecase.app.web.desk import Desk
from typecase.errors import BadQuery, NotFound

pytest.importorskip("nicegui")


@pytest.fixture(scope="module")
def desk(served: Path) -> Desk:
    return Desk(Catalogue([served]))


@pytest.mark.parametrize(("step", "rank"), [(0, None), (7, 1), (19, None)])
def test_a_batch_is_what_the_run_reads(desk: Desk, served: Path, step: int, rank: int | None) -> None:
    told = [s for page in (1, 2, 3) for s in answer(desk, Query(step=step, rank=rank, size=3, page=page, tokens=8192)).samples]
    with tc.open_timeline(served / "run.json") as timeline:
        samples = list(timeline.at(step, rank=rank))
    assert [s.index for s in told] == [s.index for s in samples]
    for shown, sample in zip(told, samples, strict=True):
        assert [(p.doc, p.start, p.stop) for p in shown.pieces] == [(p.document.doc, p.start, p.stop) for p in sample.pieces]
        assert sum(p.stop - p.start for p in shown.pieces) + shown.padding == shown.tokens


def test_the_places_of_a_document_show_it(desk: Desk) -> None:
    told = answer(desk, Query(doc="7"))
    assert told.sightings == len(told.seen) > 0
    for seen in told.seen:
        if seen.step is not None:
            batch = answer(desk, Query(step=seen.step, size=64))
            (sample,) = [s for s in batch.samples if s.index == seen.index]
            assert any(p.doc == 7 and p.at == seen.at for p in sample.pieces)


def test_losses_lie_beside_a_run(desk: Desk) -> None:
    told = answer(desk, Query(step=7))
    assert told.curve is not None and told.curve.name == "losses.csv" and told.curve.here == pytest.approx(3.3)
    assert told.curve.steps == tuple(range(20))
    assert answer(desk, Query(losses="-")).curve is None


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=3000), st.integers(2, 200))
def test_a_thinned_curve_keeps_its_extremes(values: list[float], most: int) -> None:
    steps = np.arange(len(values))
    own, kept = thinned(steps, np.array(values), most)
    assert kept.max() == max(values) and kept.min() == min(values)
    assert len(own) <= max(most, 2) and np.all(np.diff(own) > 0)
    assert np.array_equal(np.array(values)[own], kept)


@pytest.mark.parametrize("query", [Query(step=20), Query(rank=2), Query(doc="nothing"), Query(doc="5000")])
def test_what_a_run_has_not_is_refused(desk: Desk, query: Query) -> None:
    with pytest.raises(BadQuery):
        answer(desk, query)


def test_only_what_was_served_is_named(desk: Desk) -> None:
    for query in (Query(run="../run.json"), Query(losses="/etc/passwd"), Query(doc="1", set="docs")):
        with pytest.raises(NotFound):
            answer(desk, query)
    compile(python(desk, Query(doc="3")), "copied", "exec")


def test_a_batch_is_downloaded(desk: Desk, tmp_path: Path) -> None:
    export(desk, Query(step=3, size=1), tmp_path / "batch.jsonl")
    rows = [orjson.loads(line) for line in (tmp_path / "batch.jsonl").read_bytes().splitlines()]
    assert [r["index"] for r in rows] == [s.index for s in answer(desk, Query(step=3, size=64)).samples]


def test_a_person_moves_through_a_run(here: Here, browser_page: Any) -> None:
    page = browser_page
    page.goto(here.url + "/time")
    page.get_by_text(re.compile(r"^Step 0 of 20")).wait_for()
    page.locator("h1").click()
    page.keyboard.press(".")
    page.get_by_text(re.compile(r"^Step 1 of 20")).wait_for()
    page.get_by_role("slider", name="Step").locator("[tabindex]").focus()
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    page.get_by_text(re.compile(r"^Step 7 of 20")).wait_for()
    page.get_by_text("3.3000 nats a token").wait_for()
    page.get_by_role("img", name="Loss by step").locator("svg").wait_for()
    page.get_by_role("link", name=re.compile(r"^document \d+ of tokens")).first.click()
    page.get_by_role("heading", name=re.compile("places in training")).wait_for()
    assert page.get_by_text(re.compile(r"^Step 7 of 20")).is_visible()
    assert problems(page) == []
    shot(page, "time-document")
    page.emulate_media(color_scheme="dark")
    page.reload()
    page.get_by_role("heading", name=re.compile("places in training")).wait_for()
    assert problems(page) == []
    page.get_by_role("table", name="Places in training").get_by_role("link").first.click()
    page.get_by_text(re.compile(r"^Step \d+ of 20")).wait_for()
    page.get_by_label("Rank").fill("1")
    page.keyboard.press("Enter")
    page.wait_for_url("**rank=1**")
    page.get_by_text(": 4 samples of").wait_for()
