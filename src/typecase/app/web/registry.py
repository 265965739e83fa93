"""The register of pages: adding a page is one file in `answers/`, one in `pages/`, and one line here.

    answers/NAME.py   Query, Answer        frozen dataclasses: the page's state, and its JSON twin
                      answer(desk, query)  builds the one from the other; calls verbs, holds no logic of its own
                      python(desk, query), command(desk, query)      the same as code, for "copy as"
                      ACTIONS              what can be done: POST /api/v1/NAME/ACTION           optional
                      FORMATS, export(desk, query, out)              downloads                  optional
    pages/NAME.py     controls(view)       drawn once: what the person chooses
                      result(view, answer) drawn for every state
                      KEYS                 keys of its own                                      optional

Modules are imported when a page is first asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the workbench. `key` goes there after `g`; `section` is the heading of its part of docs/serve.md."""

    name: str
    title: str
    icon: str
    key: str
    about: str

    @property
    def path(self) -> str:
        return "/" if self.name == "overview" else f"/{self.name}"

    @property
    def section(self) -> str:
        return self.title

    @property
    def twin(self) -> Twin:
        return Twin(importlib.import_module(f"typecase.app.web.answers.{self.name}"))

    @property
    def module(self) -> ModuleType:
        """How it is drawn; needs the extra `ui`."""
        return importlib.import_module(f"typecase.app.web.pages.{self.name}")


@dataclass(frozen=True, slots=True)
class Action:
    """Something that a page can do: `run(desk, asked)` of a frozen dataclass `asked` of kind `takes` gives a `gives`.

    `edits` says that it changes what is served: it is refused unless the server was started with --allow-edit.
    """

    name: str
    takes: type[Any]
    gives: Any
    run: Callable[..., Any]
    about: str
    edits: bool = False


class Twin:
    """The JSON side of a page: its module of `answers`, with what is optional filled in."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.query: type[Any] = module.Query
        self.kind: type[Any] = module.Answer
        self.answer: Callable[..., Any] = module.answer
        self.python: Callable[..., str] = module.python
        self.command: Callable[..., str] = module.command
        self.actions: tuple[Action, ...] = getattr(module, "ACTIONS", ())
        self.formats: tuple[str, ...] = getattr(module, "FORMATS", ())
        self.export: Callable[[Any, Any, Path], None] | None = getattr(module, "export", None)


PAGES: tuple[Page, ...] = (
    Page("overview", "Overview", "dashboard", "o", "What was served, how it balances, what to look at."),
    Page("documents", "Documents", "article", "d", "Filter, sort and page documents; one of them from all sides."),
    Page("search", "Search", "search", "s", "Where a text or token ids stand, what follows, in which documents and steps."),
    Page("time", "Time machine", "history", "t", "What a step of a run reads, and every step that reads a document."),
    Page("edit", "Edit", "edit_note", "e", "What an edit would change and touch; the journal, with undo."),
    Page("refine", "Refine review", "rate_review", "f", "What refining took out, who asked for it, and your verdict on it."),
    Page("ratings", "Ratings", "insights", "i", "Scores by source and domain, how they go together, examples of every level."),
    Page(
        "select",
        "Select",
        "filter_alt",
        "l",
        "How a selection came about, why a document is in it, and what another would keep.",
    ),
    Page("audit", "Token audit", "fact_check", "u", "The verdict on every token: a table, a plot, one token from all sides."),
    Page("attribute", "Attribute", "format_quote", "b", "What of a model's output stands in the set, and where it comes from."),
    Page("lineage", "Lineage", "account_tree", "h", "What everything was made from, and what went into what."),
    Page(
        "calibrate", "Calibrate", "tune", "c", "Say keep or drop for a drawn sample; a threshold follows, with its uncertainty."
    ),
    Page("runs", "Runs", "sync", "r", "Work in the background: progress, log, cancel."),
)


def page_named(name: str) -> Page:
    """The page called `name`; KeyError for none."""
    return {p.name: p for p in PAGES}[name]
