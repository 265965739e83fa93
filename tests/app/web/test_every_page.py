"""What holds for every page: a twin, title, deep link and docs section; names, contrast, keys, two modes, a narrow screen."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.app.web.accessible import problems
from tests.app.web.conftest import Here, shot
from typecase.app.web.registry import PAGES, Page
from typecase.app.web.state import address, parameters, read_query

pytest.importorskip("nicegui")
BOOK = (Path(__file__).parents[3] / "docs" / "serve.md").read_text(encoding="utf-8")
each = pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)


@each
def test_a_page_is_whole(page: Page) -> None:
    twin = page.twin
    assert dataclasses.is_dataclass(twin.query) and twin.query.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert dataclasses.is_dataclass(twin.kind) and twin.kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert all(f.metadata.get("words") for f in dataclasses.fields(twin.query)), "every parameter says what it means"
    assert callable(page.module.controls) and callable(page.module.result)
    assert re.search(rf"^##+ {re.escape(page.section)}$", BOOK, re.M), f"docs/serve.md has no section {page.section}"
    assert (twin.export is None) == (not twin.formats)


def test_names_keys_and_titles_differ() -> None:
    for name in ("name", "title", "key", "path"):
        found = [getattr(p, name) for p in PAGES]
        assert len(set(found)) == len(found)


@each
def test_the_first_state_round_trips(page: Page) -> None:
    query = page.twin.query()
    assert read_query(page.twin.query, parameters(query)) == query and address(page.path, query) == page.path


@each
def test_the_twin_answers_with_the_fields_of_the_page(page: Page, here: Here) -> None:
    told = httpx.get(f"{here.url}/api/v1/{page.name}", timeout=30)
    assert told.status_code == 200, told.text
    assert set(told.json()) == {f.name for f in dataclasses.fields(page.twin.kind)}


@each
def test_a_page_can_be_used_by_everyone(page: Page, here: Here, browser_page: Any) -> None:
    for mode, width in (("light", 1280), ("dark", 1280), ("light", 420)):
        browser_page.emulate_media(color_scheme=mode)
        browser_page.set_viewport_size({"width": width, "height": 900})
        browser_page.goto(here.url + page.path)
        browser_page.locator(".tc-result > *").first.wait_for()
        assert browser_page.title() == f"{page.title} · typecase"
        assert browser_page.locator("h1").inner_text() == page.title
        assert problems(browser_page) == [], (mode, width)
        shot(browser_page, f"{page.name}-{mode}-{width}")
        assert browser_page.evaluate("document.documentElement.scrollWidth <= innerWidth + 1"), "no sideways scrolling"
    assert browser_page.evaluate("window.hacked === undefined")


def test_keys_lead_to_pages_and_help(here: Here, browser_page: Any) -> None:
    browser_page.goto(here.url + "/")
    browser_page.locator(".tc-result > *").first.wait_for()
    browser_page.keyboard.press("?")
    browser_page.get_by_role("heading", name="Keys").wait_for()
    browser_page.keyboard.press("Escape")
    for page in PAGES[1:3]:
        browser_page.keyboard.press("g")
        browser_page.keyboard.press(page.key)
        browser_page.wait_for_url(f"**{page.path}")
        browser_page.locator(".tc-result > *").first.wait_for()


def test_colours_are_chosen_and_kept(here: Here, browser_page: Any) -> None:
    browser_page.goto(here.url + "/")
    for name, dark in (("light", False), ("dark", True)):
        browser_page.get_by_role("button", name=re.compile("Colours")).click()
        browser_page.get_by_role("button", name=f"Colours: {name}").wait_for()
        browser_page.reload()
        browser_page.get_by_role("button", name=f"Colours: {name}").wait_for()
        browser_page.wait_for_function(f"document.body.classList.contains('body--dark') === {str(dark).lower()}")
