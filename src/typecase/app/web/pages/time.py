"""Time machine, drawn: a slider over steps, the batch as rows of coloured documents, the loss curve, and a document's steps."""

from __future__ import annotations

from html import escape
from typing import Any

from nicegui import ui

from typecase.app.web import parts
from typecase.app.web.answers.time import Answer, Curve, PieceShown, SampleShown
from typecase.app.web.shell import Key, View

_COLOURS = 6
_ENDLESS = 1_000_000


def controls(view: View[Any]) -> None:
    runs = view.names("run")
    parts.choice(view, "run", "Run", {"": runs[0] if runs else "(none)", **{n: n for n in runs[1:]}}, fresh=True)
    parts.field(view, "step", "Step", width="7rem", to=lambda text: int(text.replace(",", "") or 0))
    parts.field(view, "rank", "Rank", width="6rem", to=parts.whole, placeholder="all")
    parts.field(view, "doc", "Document", width="14rem", placeholder="number or id")
    losses = view.names("losses", "model")
    if losses:
        parts.choice(view, "losses", "Losses", {"": "beside the run", "-": "none", **{n: n for n in losses}})

    slider = parts.Slider(min=0, max=max(view.query.step, 1), value=view.query.step)
    slider.props('label aria-label="Step" color=primary').classes("tc-slider")

    asked = {"step": -1}

    async def moved(event: Any) -> None:
        asked["step"] = int(event.args)
        await view.go(step=asked["step"], page=1)

    slider.on("change", moved, throttle=0.2, leading_events=False)

    def follow(answer: Answer) -> None:
        last = (answer.steps or _ENDLESS) - 1
        slider.props(f"max={max(last, 1)}")
        if answer.step != asked["step"]:  # else the hand on it may be further on
            slider.set_value(answer.step)

    view.on_answer(follow)


def result(view: View[Any], answer: Answer) -> None:
    of = f" of {answer.steps:,}" if answer.steps is not None else ""
    ui.label(
        f"Step {answer.step:,}{of}: {answer.total:,} samples of {answer.sample_tokens:,} tokens on {answer.ranks:,} ranks,"
        f" in the order of {answer.framework}"
    )
    beside = answer.curve is not None or answer.doc
    with ui.element("div").classes("tc-two tc-wide-left tc-second-first" if beside else ""):
        with ui.element("div"):
            _batch(view, answer)
        if beside:
            with ui.element("div"):
                if answer.curve is not None:
                    _curve(view, answer, answer.curve)
                if answer.doc:
                    _seen(view, answer)


def _batch(view: View[Any], answer: Answer) -> None:
    parts.heading("The batch")
    keys = dict.fromkeys((p.member, p.doc) for sample in answer.samples for p in sample.pieces)
    colours = {key: f"d{k % _COLOURS}" for k, key in enumerate(keys)}
    for sample in answer.samples:
        _sample(view, answer, sample, colours)
    if not answer.samples:
        ui.label("There are no more samples: go back a page.")
    parts.pager(view, total=answer.total, page=answer.page, size=answer.size)


def _sample(view: View[Any], answer: Answer, one: SampleShown, colours: dict[tuple[int, int], str]) -> None:
    with ui.element("article").classes("tc-hit").props(f'aria-label="Sample {one.index}"'):
        trained = "" if one.trained else "  read but not trained on"
        place = f"sample {one.index:,}  ·  rank {one.rank}  micro-batch {one.micro_batch}  slot {one.slot}{trained}"
        ui.label(place).classes("tc-dim")
        bar, text = [], []
        for p in one.pieces:
            colour, said = colours[p.member, p.doc], _said(answer, p)
            bar.append(_strip(view, answer, one, p, colour))
            text.append(f'<span class="{colour}" title="{escape(said)}">{escape(p.text)}</span>')
        if one.padding:
            bar.append(f'<span class="tc-padding" title="{one.padding} tokens of padding"></span>')
        ui.html("".join(bar), sanitize=False).classes("tc-stripe").props(
            f'role="group" aria-label="Documents of sample {one.index}"'
        )
        if view.query.tokens:
            parts.text_block("".join(text), label=f"Text of sample {one.index}")


def _strip(view: View[Any], answer: Answer, one: SampleShown, p: PieceShown, colour: str) -> str:
    """A piece in the stripe of its sample, as wide as its tokens; it leads to all steps of its document."""
    to = view.here(doc=str(p.doc), set=_set(answer, p.member))
    width = 100 * (p.stop - p.start) / max(one.tokens, 1)
    asked = " tc-asked" if answer.doc in (str(p.doc), p.doc_id) and view.query.set in ("", _set(answer, p.member)) else ""
    said = escape(_said(answer, p))
    return (
        f'<a class="{colour}{asked}" href="{escape(to)}" style="width:{width:.3f}%" title="{said}" aria-label="{said}">'
        f"{p.doc if width > 4 else ''}</a>"
    )


def _said(answer: Answer, p: PieceShown) -> str:
    name = _set(answer, p.member) or f"set {p.member}"
    return f"document {p.doc} of {name}, tokens [{p.start}, {p.stop})" + (f", {p.source}" if p.source else "")


def _set(answer: Answer, member: int) -> str:
    return answer.sets[member] if member < len(answer.sets) else ""


def _curve(view: View[Any], answer: Answer, curve: Curve) -> None:
    parts.heading("Loss")
    here = (
        f"{curve.here:.4f} nats a token at step {answer.step:,}"
        if curve.here is not None
        else f"no loss at step {answer.step:,}"
    )
    ui.label(f"{curve.name}: {here}").classes("tc-dim")
    steps = sorted({s.step for s in answer.seen if s.step is not None})
    marks: list[dict[str, Any]] = [{"xAxis": s, "lineStyle": {"color": "#b06000", "type": "dotted"}} for s in steps[:100]]
    marks.append({"xAxis": answer.step, "lineStyle": {"color": "#1d5fa8", "width": 2}})
    line = {
        "type": "line",
        "showSymbol": False,
        "data": [[s, v] for s, v in zip(curve.steps, curve.losses, strict=True)],
        "markLine": {"symbol": "none", "label": {"show": False}, "data": marks},
    }
    chart = {
        "grid": {"left": 50, "right": 15, "top": 10, "bottom": 25},
        "xAxis": {"type": "value", "min": "dataMin", "max": "dataMax"},
        "yAxis": {"type": "value", "scale": True},
        "series": [line],
        "tooltip": {"trigger": "axis", "renderMode": "richText"},
    }
    drawn = parts.picture(chart, label=f"Loss by step; {here}", height="14rem")

    async def clicked(event: Any) -> None:
        if isinstance(event.data, list) and event.data:
            await view.go(step=int(event.data[0]), page=1)

    drawn.on_point_click(clicked)


def _seen(view: View[Any], answer: Answer) -> None:
    name = view.query.set or (answer.sets[0] if answer.sets else "")
    with ui.row().classes("tc-title"):
        parts.heading(f"Document {answer.doc}: {answer.sightings:,} places in training")
        ui.space()
        if name:
            ui.link("Show it", view.link("documents", set=name, doc=answer.doc))
        ui.button("Close", on_click=lambda: view.go(doc="", set="")).props("flat dense no-caps")
    rows = [
        (
            parts.Link(f"{s.step:,}", view.here(step=s.step, page=1)) if s.step is not None else "beyond the run",
            s.rank,
            s.index,
            f"[{s.start:,}, {s.stop:,})",
            s.at,
            s.epoch,
        )
        for s in answer.seen
    ]
    if rows:
        parts.table(
            ("step", "rank", "sample", "tokens of it", "at token", "copy"),
            rows,
            numbers={1, 2, 4, 5},
            tight={0, 3},
            caption="Places in training",
        )
    if answer.sightings > len(rows):
        ui.label(f"and {answer.sightings - len(rows):,} more")


async def step(view: View[Any], by: int) -> None:
    """The step before or after."""
    answer: Answer | None = view.answered
    last = (answer.steps or _ENDLESS) - 1 if answer is not None else view.query.step
    to = min(max(view.query.step + by, 0), last)
    if to != view.query.step:
        await view.go(step=to, page=1)


KEYS = (
    *parts.PAGING,
    Key(",", "previous step", lambda view: step(view, -1)),
    Key(".", "next step", lambda view: step(view, 1)),
)
