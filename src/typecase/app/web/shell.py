"""The shell: what every page has around it, and how a page is told what to show.

    +-- typecase ---- Overview  Documents  Search … ---------- ? ( ) --+      navigation; a drawer on narrow screens
    | h1 Documents             copy as Python | command | JSON | file  |
    | controls(view)           drawn once                              |
    | result(view, answer)     drawn for every state                   |
    +------------------------------------------------------------------+

    await view.go(page=2)        the next state: the address changes, the answer is built in a thread, the result drawn anew

A page that is opened by its address is drawn with its answer where that comes within some tenths of a second, else at once
without and filled in when it comes. Only the newest state is drawn: an answer that was overtaken is dropped.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from nicegui import ui
from nicegui.events import KeyEventArguments

from typecase.app.web.api import ROOT, perform
from typecase.app.web.desk import Desk
from typecase.app.web.registry import PAGES, Action, Page, page_named
from typecase.app.web.state import address, check_address, checked
from typecase.app.web.work import Workers
from typecase.errors import TypecaseError

Q = TypeVar("Q")
AT_ONCE_SECONDS = 0.4
STYLE = (Path(__file__).parent / "style.css").read_text(encoding="utf-8")
SCRIPT = """
addEventListener('popstate', () => location.reload());
addEventListener('keydown', e => {
  if (e.key !== '/' || e.ctrlKey || e.altKey || e.metaKey || e.target.closest('input, textarea')) return;
  const first = document.querySelector('.tc-controls input, .tc-controls textarea');
  if (first) { e.preventDefault(); first.focus(); }
});
"""
"""What cannot wait for the server: the state of a step back, and where the very next letter goes."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a page: what is pressed, what it does in words, and the function that does it."""

    key: str
    words: str
    press: Callable[[Any], Awaitable[None] | None]


class View(Generic[Q]):
    """One open page: its state, and what its controls may do. Made for every visit."""

    def __init__(self, desk: Desk, workers: Workers, page: Page, query: Q) -> None:
        self.desk, self.workers, self.page, self.query = desk, workers, page, query
        self.twin = page.twin
        self._body: ui.element | None = None
        self._bar: ui.element | None = None
        self._busy: ui.element | None = None
        self._turn = 0
        self._listeners: list[Callable[[Q], None]] = []
        self._answer_listeners: list[Callable[[Any], None]] = []
        self.answered: Any = None

    async def go(self, **changes: Any) -> None:
        """Shows the state with these fields changed, under its own address."""
        try:
            query = checked(dataclasses.replace(self.query, **changes))  # type: ignore[type-var]
            check_address(self.page.path, query)
        except TypecaseError as error:
            self.complain(error)
            return
        if query != self.query:
            self.query = query
            ui.navigate.history.push(address(self.page.path, query))
        await self.refresh()

    async def refresh(self) -> None:
        """Builds the answer of the state anew and draws it."""
        self._turn += 1
        turn = self._turn
        if self._busy is not None:
            self._busy.set_visibility(True)
        answer: Any = None
        fault: TypecaseError | None = None
        try:
            answer = await self.workers.run(self.twin.answer, self.desk, self.query)
        except TypecaseError as error:
            fault = error
        if turn == self._turn:
            self.draw(answer, fault)

    def draw(self, answer: Any, fault: TypecaseError | None) -> None:
        """Draws an answer, or why there is none."""
        assert self._body is not None and self._busy is not None
        self._busy.set_visibility(False)
        self._body.clear()
        with self._body:
            if fault is not None:
                complaint(fault)
            else:
                self.answered = answer
                for told in self._answer_listeners:
                    told(answer)
                self.page.module.result(self, answer)
        self._draw_bar()
        for listener in self._listeners:
            listener(self.query)

    def on_state(self, listener: Callable[[Q], None]) -> None:
        """`listener(query)` is called after every drawing: controls that show the state follow it there."""
        self._listeners.append(listener)

    def on_answer(self, listener: Callable[[Any], None]) -> None:
        """`listener(answer)` is called before every drawing: controls that offer what the answer knows are filled there."""
        self._answer_listeners.append(listener)

    def here(self, **changes: Any) -> str:
        """The address of this page with some fields changed: for links."""
        return address(self.page.path, dataclasses.replace(self.query, **changes))  # type: ignore[type-var]

    async def act(self, action: str, asked: Any) -> Any:
        """Runs an action of the page; what it gives, or None after saying why not."""
        found: Action = next(a for a in self.twin.actions if a.name == action)
        try:
            return await self.workers.run(perform, self.desk, found, asked)
        except TypecaseError as error:
            self.complain(error)
            return None

    def complain(self, error: TypecaseError) -> None:
        """Says in passing why something cannot be done."""
        ui.notify(str(error), type="negative", multi_line=True, close_button="Close", timeout=15000)

    def link(self, name: str, **fields: Any) -> str:
        """The address of another page, in a state of it."""
        page = page_named(name)
        return address(page.path, page.twin.query(**fields))

    def has(self, name: str) -> bool:
        """Whether there is a page of this name."""
        return any(page.name == name for page in PAGES)

    def names(self, *kinds: str) -> list[str]:
        """The served things of some kinds."""
        return [i.name for i in self.desk.catalogue.of_kind(*kinds)]

    def _draw_bar(self) -> None:
        assert self._bar is not None
        self._bar.clear()
        with self._bar:
            _copy_button("Python", "code", lambda: self.twin.python(self.desk, self.query))
            _copy_button("command", "terminal", lambda: self.twin.command(self.desk, self.query))
            ui.link("JSON", address(f"{ROOT}/{self.page.name}", self.query), new_tab=True).classes("tc-bar-link")
            for kind in self.twin.formats:
                given = address("", self.query).lstrip("?")
                there = f"{ROOT}/{self.page.name}/export?format={kind}{'&' + given if given else ''}"
                ui.link(kind, there).classes("tc-bar-link").props(f'download aria-label="Download as {kind}"')


async def show(
    desk: Desk, workers: Workers, page: Page, query: Any, *, dark: bool | None, fault: TypecaseError | None = None
) -> None:
    """Draws a whole page; `fault` says what was wrong with its address."""
    view: View[Any] = View(desk, workers, page, query)
    if fault is not None:
        frame(view, dark)
        view.draw(None, fault)
        return
    wanted = asyncio.ensure_future(workers.run(page.twin.answer, desk, query))
    frame(view, dark)
    await asyncio.wait({wanted}, timeout=AT_ONCE_SECONDS)
    if wanted.done():
        _settle(view, wanted)
        return

    async def later() -> None:
        await asyncio.wait({wanted})
        if view._turn == 0:
            _settle(view, wanted)

    ui.timer(0.0, later, once=True)


def _settle(view: View[Any], wanted: asyncio.Future[Any]) -> None:
    error = wanted.exception()
    if isinstance(error, TypecaseError):
        view.draw(None, error)
    else:
        view.draw(wanted.result(), None)


def frame(view: View[Any], dark: bool | None) -> None:
    """Navigation, heading, the bar of copies and downloads, and the places of controls and result."""
    ui.add_css(STYLE)
    ui.page_title(f"{view.page.title} · typecase")
    mode = ui.dark_mode(dark)
    ui.link("Skip to content", "#content").classes("tc-skip")
    with ui.left_drawer(value=None, bordered=True).props('width=190 breakpoint=900 aria-label="Pages"') as drawer:
        _navigation(view)
    with ui.header().classes("tc-header").style("background:#1d4f8c"):
        ui.button(icon="menu", on_click=drawer.toggle).props('flat dense color=white aria-label="Menu"')
        ui.link("typecase", "/").classes("tc-brand")
        ui.space()
        help_ = _help(view)
        ui.button("?", on_click=help_.open).props('flat dense color=white aria-label="Keyboard help"')
        _mode_button(mode)
    with ui.element("div").classes("tc-main").props('id="content"'):
        with ui.row().classes("tc-title"):
            ui.html(view.page.title, sanitize=False, tag="h1")
            ui.space()
            view._bar = ui.row().classes("tc-bar").props('role="group" aria-label="Copy and download"')
        view._busy = ui.linear_progress(show_value=False).props('indeterminate aria-label="Working"').classes("tc-busy")
        view._busy.set_visibility(False)
        with ui.element("section").props('aria-label="Controls"').classes("tc-controls"):
            view.page.module.controls(view)
        view._body = ui.element("section").props('aria-label="Result" aria-live="polite"').classes("tc-result")
    _keyboard(view, help_)
    ui.add_body_html(f"<script>{SCRIPT}</script>")


def _navigation(view: View[Any]) -> None:
    with ui.element("nav").props('aria-label="Pages"').classes("tc-nav"):
        for page in PAGES:
            link = ui.link(target=page.path).classes("tc-nav-link")
            if page.name == view.page.name:
                link.classes("tc-here").props('aria-current="page"')
            with link:
                ui.icon(page.icon).props('aria-hidden="true"')
                ui.label(page.title)


def _mode_button(mode: ui.dark_mode) -> None:
    names = {None: "system", False: "light", True: "dark"}
    after = {None: False, False: True, True: None}
    icons = {None: "brightness_auto", False: "light_mode", True: "dark_mode"}

    def turn() -> None:
        mode.value = after[mode.value]
        button.props(f'icon={icons[mode.value]} aria-label="Colours: {names[mode.value]}"')
        ui.run_javascript(f'document.cookie = "typecase-mode={names[mode.value]}; path=/; max-age=31536000; samesite=strict"')

    button = ui.button(on_click=turn).props("flat dense color=white")
    button.props(f'icon={icons[mode.value]} aria-label="Colours: {names[mode.value]}"')


def _copy_button(what: str, icon: str, text: Callable[[], str]) -> None:
    def copy() -> None:
        ui.clipboard.write(text())
        ui.notify(f"copied as {what}", timeout=1500)

    label = "Copy as Python" if what == "Python" else f"Copy as {what}"
    ui.button(label, icon=icon, on_click=copy).props("flat dense no-caps size=sm")


def _help(view: View[Any]) -> ui.dialog:
    with ui.dialog() as dialog, ui.card().props('role="document" aria-label="Keyboard"'):
        ui.html("Keys", sanitize=False, tag="h2")
        rows = [("?", "this help"), ("/", "to the first field"), *((f"g {p.key}", f"to {p.title}") for p in PAGES)]
        rows += [(k.key, k.words) for k in keys_of(view)]
        with ui.element("dl").classes("tc-keys"):
            for key, words in rows:
                with ui.element("dt"):
                    ui.html(key, sanitize=str, tag="kbd") if key.isalnum() else ui.label(key).classes("tc-kbd")
                with ui.element("dd"):
                    ui.label(words)
        ui.button("Close", on_click=dialog.close).props("flat no-caps")
    return dialog


def keys_of(view: View[Any]) -> tuple[Key, ...]:
    """The keys of a page."""
    return getattr(view.page.module, "KEYS", ())


def _keyboard(view: View[Any], help_: ui.dialog) -> None:
    waiting = {"g": False}

    async def press(event: KeyEventArguments) -> None:
        if not event.action.keydown or event.modifiers.ctrl or event.modifiers.alt or event.modifiers.meta:
            return
        name = str(event.key.name)
        if waiting["g"]:
            waiting["g"] = False
            there = next((p for p in PAGES if p.key == name), None)
            if there is not None:
                ui.navigate.to(there.path)
                return
        if name == "g":
            waiting["g"] = True
        elif name == "?":
            help_.open()
        else:
            for key in keys_of(view):
                if key.key == name:
                    done = key.press(view)
                    if done is not None:
                        await done

    ui.keyboard(press, repeating=False)


def complaint(error: TypecaseError) -> None:
    """An error as a box: what was found, where, what to do."""
    with ui.element("div").classes("tc-complaint").props('role="alert"'):
        ui.label(type(error).__name__).classes("tc-complaint-kind")
        ui.label(str(error))
