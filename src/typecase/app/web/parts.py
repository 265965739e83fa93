"""Parts that pages are made of: tables, pagers, tokens in colour, choices. All text from outside goes through `html.escape`
or a label, so that it stays text.

    table(("name", "rows"), [(Link("web", "/documents?set=web"), 1200)], numbers={1})
    tokens_block(pieces, ids, special={0}, boundaries={12})              one span a token, its id on hover
    pager(view, total=10**6, page=3, size=50)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from nicegui import ui

from typecase.app.web.shell import Key, View


@dataclass(frozen=True, slots=True)
class Link:
    """A text that leads somewhere."""

    text: str
    to: str


class Slider(ui.slider):
    """A slider that moves at once, not when the server has said so: held arrows would be slowed down and thrown back."""

    LOOPBACK = False


def heading(text: str, level: int = 2) -> None:
    """A heading below that of the page."""
    ui.html(escape(text), sanitize=False, tag=f"h{level}")


def table(
    heads: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    numbers: Collection[int] = (),
    tight: Collection[int] = (),
    caption: str,
) -> None:
    """A table of texts, numbers and links; columns `numbers` are set to the right, those and `tight` never break lines.

    `caption` names it for those who listen.
    """
    shapes = {**dict.fromkeys(tight, ' class="tc-tight"'), **dict.fromkeys(numbers, ' class="tc-number"')}
    html = [f'<table class="tc-table" aria-label="{escape(caption)}"><thead><tr>']
    html += [f'<th scope="col"{shapes.get(k, "")}>{escape(h)}</th>' for k, h in enumerate(heads)]
    html.append("</tr></thead><tbody>")
    for row in rows:
        html.append("<tr>" + "".join(f"<td{shapes.get(k, '')}>{_cell(c)}</td>" for k, c in enumerate(row)) + "</tr>")
    html.append("</tbody></table>")
    html_region("".join(html), label=caption)


def _cell(value: Any) -> str:
    if isinstance(value, Link):
        return f'<a href="{escape(value.to)}">{escape(value.text) or "(empty)"}</a>'
    return escape(number(value))


def number(value: Any) -> str:
    """A value as people read it: thousands apart, few digits, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def tokens_html(
    pieces: Sequence[str],
    ids: Sequence[int],
    *,
    special: Collection[int] = (),
    poor: Collection[int] = (),
    boundaries: Collection[int] = (),
    marked: Collection[int] = (),
) -> str:
    """Tokens as spans: shades tell them apart, their ids show on hover.

    `special` and `poor` (under-trained) are ids, `boundaries` and `marked` places in `pieces`.
    """
    special, poor = set(special), set(poor)
    boundaries, marked = set(boundaries), set(marked)
    html = []
    for k, (piece, token) in enumerate(zip(pieces, ids, strict=True)):
        shade = "m" if k in marked else "s" if token in special else "u" if token in poor else "eo"[k % 2]
        said = f"{token}" + (" special" if token in special else "") + (" under-trained" if token in poor else "")
        edge = " b" if k in boundaries else ""
        html.append(f'<span class="{shade}{edge}" title="{said}">{escape(piece) or "∅"}</span>')
    return "".join(html)


def tokens_block(pieces: Sequence[str], ids: Sequence[int], *, label: str = "Tokens", **marks: Any) -> None:
    """Tokens in a box that scrolls; see `tokens_html`."""
    text_block(tokens_html(pieces, ids, **marks), label=label)


def text_block(html: str, *, label: str = "Text") -> None:
    """Escaped text, or spans of `tokens_html`, in a box that scrolls."""
    ui.html(html, sanitize=False).classes("tc-text").props(f'tabindex="0" role="region" aria-label="{escape(label)}"')


def html_region(html: str, *, label: str) -> None:
    """Escaped HTML that is wider than the page may be."""
    ui.html(html, sanitize=False).classes("tc-scroll").props(f'tabindex="0" role="region" aria-label="{escape(label)}"')


def plain_block(text: str, *, label: str = "Text") -> None:
    """Text of a document as it stands."""
    text_block(escape(text), label=label)


def picture(options: dict[str, Any], *, label: str, height: str = "18rem") -> ui.echart:
    """A chart of ECharts, with words for those who do not see it."""
    said = {"enabled": True, "label": {"description": label}}
    options = {"aria": said, "animation": False, "textStyle": {"fontFamily": "inherit"}, **options}
    chart = ui.echart(options, renderer="svg").style(f"height:{height};width:100%")
    return chart.props(f'role="img" aria-label="{escape(label)}"')


def choice(
    view: View[Any],
    field: str,
    label: str,
    options: Mapping[str, str],
    *,
    width: str = "14rem",
    fresh: bool = False,
    clears: Sequence[str] = (),
) -> ui.select:
    """A list to choose from that sets `field` of the state, and shows it.

    `clears` are fields that go back to what they are by default; with `fresh` all others do, as for another set.
    """
    back = {f.name: f.default for f in dataclasses.fields(view.query) if fresh or f.name in clears}

    async def chosen(event: Any) -> None:
        if event.value != getattr(view.query, field):
            await view.go(**{**_first(view), **back, field: event.value or ""})

    now = getattr(view.query, field)
    known = options if now in options else {**options, now: str(now)}  # a change of its own would be taken for a person's
    select = ui.select(dict(known), label=label, value=now, on_change=chosen)
    select.props("dense outlined options-dense").style(f"width:{width}")
    view.on_state(lambda query: _show(select, getattr(query, field)))
    return select


def suggested(view: View[Any], field: str, label: str, *, width: str = "12rem", clears: Sequence[str] = ()) -> ui.select:
    """A list whose options come with the answer; see `offer`."""
    return choice(view, field, label, {"": ""}, width=width, clears=clears)


def offer(select: ui.select, options: Mapping[str, str], none: str) -> None:
    """Gives a list its options; "" is called `none`."""
    now = select.value or ""
    told = {"": none, **({} if now in options or not now else {now: str(now)}), **options}
    if select.options != told:
        select.set_options(told, value=now)


def _show(select: ui.select, value: Any) -> None:
    if value not in select.options:
        select.set_options({**dict(select.options), value: str(value)}, value=value)
    elif select.value != value:
        select.set_value(value)


def _show_tick(box: ui.checkbox, value: bool) -> None:
    if box.value != value:
        box.set_value(value)


def tick(view: View[Any], field: str, label: str) -> ui.checkbox:
    """A box that sets a yes or no of the state."""

    async def ticked(event: Any) -> None:
        if event.value != getattr(view.query, field):
            await view.go(**{field: bool(event.value), **_first(view)})

    box = ui.checkbox(label, value=getattr(view.query, field), on_change=ticked)
    view.on_state(lambda query: _show_tick(box, getattr(query, field)))
    return box


def definitions(rows: Sequence[tuple[str, str]]) -> None:
    """Names and values, side by side."""
    cells = "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in rows)
    ui.html(cells, sanitize=False, tag="dl").classes("tc-facts")


def field(
    view: View[Any],
    name: str,
    label: str,
    *,
    width: str = "14rem",
    to: Callable[[str], Any] = str,
    area: bool = False,
    placeholder: str = "",
    clears: Sequence[str] = (),
) -> ui.input | ui.textarea:
    """A field that sets `name` of the state when Enter is pressed or it is left, and puts the fields `clears` back.

    In an `area` Shift+Enter begins a line.
    """
    others = {f.name: f.default for f in dataclasses.fields(view.query) if f.name in clears}
    make: Any = ui.textarea if area else ui.input
    told = {"text": _text(getattr(view.query, name))}
    box: Any = make(label=label, value=told["text"], placeholder=placeholder)

    def follow(query: Any) -> None:
        """Shows another value of the state; what is being typed when an answer comes stays."""
        text = _text(getattr(query, name))
        if text != told["text"]:
            told["text"] = text
            box.set_value(text)

    async def done() -> None:
        try:
            fresh = to(box.value or "")
        except ValueError:
            ui.notify(f"{label}: {box.value!r} is no number", type="negative")
            return
        if fresh != getattr(view.query, name):
            told["text"] = _text(fresh)
            await view.go(**{name: fresh, **others, **_first(view)})

    if area:
        box.on(
            "keydown",
            done,
            args=[],
            js_handler="(e) => { if (e.key === 'Enter' && !e.shiftKey) { e.preventDefault(); emit(); } }",
        )
        box.props("autogrow")
    else:
        box.on("keydown.enter", done)
    box.on("blur", done)
    box.props(f'dense outlined aria-label="{escape(label)}"').style(f"width:{width}")
    view.on_state(follow)
    return box  # type: ignore[no-any-return]


def whole(text: str) -> int | None:
    """A whole number, None for nothing."""
    return int(text.replace(",", "")) if text.strip() else None


def decimal(text: str) -> float | None:
    """A number, None for nothing."""
    return float(text.replace(",", "")) if text.strip() else None


def document_link(view: View[Any], set_name: str, doc: int) -> str:
    """Where a document of a token set is shown."""
    return view.link("documents", set=set_name, doc=str(doc))


def steps(view: View[Any], run: str, set_name: str, doc: int, seen: Sequence[Any], sightings: int) -> None:
    """Links to the steps of a run that train on a place of a document: those of `seen`, the first of all `sightings`."""
    with ui.row().classes("tc-line"):
        for one in seen:
            if one.step is not None:
                ui.link(f"step {one.step:,}", view.link("time", run=run, step=one.step, doc=str(doc), set=set_name))
        if sightings > len(seen):
            ui.label(f"and {sightings - len(seen):,} more").classes("tc-dim")
        elif run and not any(one.step is not None for one in seen):
            ui.label("never within the run").classes("tc-dim")


def visible(text: str) -> str:
    """A token's text with its blanks and line ends to be seen."""
    return text.replace(" ", "␣").replace("\n", "⏎").replace("\t", "⇥") or "∅"


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _first(view: View[Any]) -> dict[str, Any]:
    """Another choice begins at the first page."""
    return {"page": 1} if hasattr(view.query, "page") else {}


def pager(view: View[Any], *, total: int, page: int, size: int) -> None:
    """Buttons to turn pages of `size` rows, and where one is."""
    last = max(1, -(-total // size))
    low, high = min((page - 1) * size + 1, total), min(page * size, total)
    with ui.element("nav").classes("tc-pager").props('aria-label="Rows"'):
        for icon, words, to, off in (
            ("first_page", "First page", 1, page <= 1),
            ("chevron_left", "Previous page", page - 1, page <= 1),
            ("chevron_right", "Next page", page + 1, page >= last),
            ("last_page", "Last page", last, page >= last),
        ):
            button = ui.button(icon=icon, on_click=lambda to=to: view.go(page=to))
            button.props(f'flat dense aria-label="{words}"').set_enabled(not off)
        ui.label(f"{low:,}–{high:,} of {total:,}")


async def turn(view: View[Any], by: int) -> None:
    """The next or the previous page, where there is one."""
    answer = view.answered
    page = view.query.page + by
    if answer is not None and 1 <= page <= max(1, -(-int(answer.total) // answer.size)):
        await view.go(page=page)


PAGING = (
    Key("[", "previous page of rows", lambda view: turn(view, -1)),
    Key("]", "next page of rows", lambda view: turn(view, 1)),
)
"""Keys for a page whose answer has `total` and `size`, and whose state has `page`."""
