"""Calibrate, drawn: the document to judge with its keys, the counts, and beside it the curve of thresholds and the cut."""

from __future__ import annotations

import dataclasses
from typing import Any
from weakref import WeakKeyDictionary

from nicegui import ui

from typecase.app.web import parts
from typecase.app.web.answers.calibrate import Answer, Asking, Begin, Begun, Judge, Judged, Undo
from typecase.app.web.shell import Key, View
from typecase.core.threshold import Cut, Proposal
from typecase.errors import TypecaseError

_OFF = "Verdicts are off here: start `typecase serve` with --allow-edit."
_SAID = {"keep": "kept", "drop": "dropped", "skip": "skipped"}
_BUTTONS = (
    ("keep", "Keep", "check", "k", "color=positive"),
    ("drop", "Drop", "delete", "d", "color=negative"),
    ("skip", "Skip", "redo", "s", "outline"),
)
_CUTS = 12
_INK = {"precision": "#2f7ed8", "recall": "#9a4fb0", "keeps": "#c77700"}
_AXIS = "#7d8896"


class _Deck:
    """What one open page shows of a file of labels: a verdict draws the next document at once, the curve follows when it was
    computed. The chart stays the same, so that it never flickers."""

    def __init__(self, view: View[Any], answer: Answer) -> None:
        self.view = view
        self.at_work, self.turn = False, 0
        with ui.element("div").classes("tc-two"):
            self.panel = ui.element("div")
            with ui.element("div"):
                self.said = ui.element("div")
                self.chart = parts.picture({}, label="Precision and keep rate by threshold", height="19rem")
        self.table = ui.element("div")
        self.draw_panel()
        self.draw_threshold(answer)

    async def judge(self, verdict: str) -> None:
        asking = self.view.answered.asking
        if asking.document is not None:
            await self._acted("judge", Judge(asking.labels, asking.document.doc_id, verdict, self.view.query.scores))

    async def undo(self) -> None:
        asking = self.view.answered.asking
        if asking.last is not None:
            await self._acted("undo", Undo(asking.labels, self.view.query.scores))

    async def _acted(self, action: str, asked: Any) -> None:
        """One at a time: a key that comes while the last is being written is not taken for the next document."""
        if self.at_work:
            return
        self.at_work = True
        try:
            told: Asking | None = await self.view.act(action, asked)
        finally:
            self.at_work = False
        if told is None or self.view.query.whole:
            await self.view.go(whole=False)
            return
        self.view.answered = dataclasses.replace(self.view.answered, asking=told)
        self.draw_panel()
        await self.follow()

    async def follow(self) -> None:
        """Computes the threshold anew; of several that are under way only the last is shown."""
        self.turn += 1
        turn, query = self.turn, self.view.query
        try:
            answer: Answer = await self.view.workers.run(self.view.twin.answer, self.view.desk, query)
        except TypecaseError as error:
            self.view.complain(error)
            return
        if turn == self.turn and query == self.view.query and _DECKS.get(self.view) is self:
            self.view.answered = answer
            self.draw_threshold(answer)

    def draw_panel(self) -> None:
        self.panel.clear()
        with self.panel:
            _counts(self.view.answered.asking)
            _document(self, self.view.answered)

    def draw_threshold(self, answer: Answer) -> None:
        self.said.clear()
        self.table.clear()
        with self.said:
            _threshold(self.view, answer)
        self.chart.set_visibility(answer.proposal is not None)
        if answer.proposal is not None:
            self.chart.options.update(_curves(answer.proposal, answer.judged))
            self.chart.update()
            with self.table:
                _table(answer.proposal)


_DECKS: WeakKeyDictionary[View[Any], _Deck] = WeakKeyDictionary()


def controls(view: View[Any]) -> None:
    known = view.names("labels")
    files = {"": known[0] if known else "(none yet)", **{n: n for n in known[1:]}}
    parts.choice(view, "labels", "Labels", files, clears=("begin", "whole"))
    parts.field(view, "precision", "Precision wished", width="9rem", to=parts.decimal, placeholder="0.9", clears=("keep_rate",))
    parts.field(view, "keep_rate", "or keep rate", width="8rem", to=parts.decimal, placeholder="0.3", clears=("precision",))
    parts.choice(view, "shape", "Curve", {"isotonic": "never falling", "logistic": "logistic"}, width="10rem")
    parts.tick(view, "scores", "Show scores")
    parts.choice(
        view, "set", "Documents", {"": "those of the ratings", **{n: n for n in view.names("docs")}}, clears=("whole",)
    )
    ui.button("New sample", icon="add", on_click=lambda: view.go(begin=True, labels="")).props("flat dense no-caps")


def result(view: View[Any], answer: Answer) -> None:
    if answer.asking is None:
        _beginning(view, answer)
        return
    ui.label(f"{answer.criterion} of {answer.ratings}, documents of {answer.set}").classes("tc-dim")
    _DECKS[view] = _Deck(view, answer)


# Asking.


def _counts(asking: Asking) -> None:
    done = asking.sample - asking.open
    with ui.row().classes("tc-line"):
        ui.label(f"{done:,} of {asking.sample:,} judged").classes("tc-big")
        ui.label(", ".join(f"{asking.verdicts.get(v, 0):,} {said}" for v, said in _SAID.items()))
    ui.linear_progress(done / max(1, asking.sample), show_value=False).props('aria-label="Part judged"')


def _document(deck: _Deck, answer: Answer) -> None:
    asking, editable = answer.asking, answer.editable
    assert asking is not None
    one = asking.document
    with ui.row().classes("tc-line").props('role="group" aria-label="Verdict"').style("margin:.5rem 0"):
        for verdict, words, icon, key, look in _BUTTONS:
            button = ui.button(f"{words} ({key})", icon=icon, on_click=lambda verdict=verdict: deck.judge(verdict))
            button.props(f"no-caps dense unelevated {look}").classes("tc-verdict").set_enabled(editable and one is not None)
        undo = ui.button("Undo (u)", icon="undo", on_click=deck.undo).props("flat no-caps dense")
        undo.set_enabled(editable and asking.last is not None)
        if asking.last is not None:
            ui.label(f"last: {_SAID[asking.last.verdict]} {asking.last.doc_id[:8]}").classes("tc-dim")
    if not editable:
        ui.label(_OFF)
    if one is None:
        parts.heading("Every document of the sample has a verdict")
        ui.label("Undo takes the last back; a new sample with another seed asks about others.")
        return
    with ui.row().classes("tc-line"):
        parts.heading(f"Document {one.doc_id[:8]}")
        said = [one.source, f"{one.chars:,} characters", f"score {one.score:.2f}" if one.score is not None else ""]
        ui.label("  ·  ".join(s for s in said if s)).classes("tc-dim")
        ui.space()
        ui.link("All of it", deck.view.link("documents", set=answer.set, doc=one.doc_id))
    parts.plain_block(one.text or "(an empty text)")
    if one.chars > len(one.text):
        more = ui.button("Whole text (m)", on_click=lambda: deck.view.go(whole=True)).props("flat dense no-caps")
        more.tooltip(f"{one.chars - len(one.text):,} more characters")


# The threshold.


def _threshold(view: View[Any], answer: Answer) -> None:
    if answer.proposal is None:
        parts.heading("No threshold yet")
        ui.label(answer.why[:1].upper() + answer.why[1:] + ".")
        return
    found, wish = answer.proposal, _wish(view)
    if found.cut is None:
        parts.heading(f"No threshold gives {wish}")
        ui.label("The score does not go high enough: wish for less, or take another score.")
    else:
        parts.heading(f"Threshold {found.cut.threshold:.3f} for {wish}")
        _cut(found.cut, "")
        if found.sure is not None and found.sure != found.cut:
            parts.heading(f"To be sure {found.sure.threshold:.3f}", 3)
            _cut(found.sure, "its whole interval fulfils the wish")
    people = f"People would keep {found.base_rate:.0%} of all documents"
    ui.label(f"{people}; a kept one scores above a dropped one in {found.separation:.0%} of pairs.").classes("tc-dim")
    for warning in (*found.warnings, *answer.notes):
        ui.label(f"Note: {warning}.").classes("tc-note")


def _wish(view: View[Any]) -> str:
    query = view.query
    if query.keep_rate is not None:
        return f"a keep rate of {query.keep_rate:g}"
    return f"a precision of {query.precision if query.precision is not None else 0.9:g}"


def _cut(cut: Cut, about: str) -> None:
    rows = [
        ("keeps", f"{cut.keep_rate:.1%}"),
        ("precision", _within(cut.precision, cut.precision_low, cut.precision_high)),
        ("recall", _within(cut.recall, cut.recall_low, cut.recall_high)),
    ]
    parts.definitions([*rows, *([("", about)] if about else [])])


def _within(value: float, low: float, high: float) -> str:
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"


def _curves(found: Proposal, judged: tuple[Judged, ...]) -> dict[str, Any]:
    """Precision with its interval and the keep rate by threshold; verdicts as points; the cut as a line; as ECharts has it."""
    curve = found.curve
    low = [[c.threshold, c.precision_low] for c in curve]
    wide = [[c.threshold, c.precision_high - c.precision_low] for c in curve]
    band = {
        "type": "line",
        "stack": "band",
        "symbol": "none",
        "lineStyle": {"opacity": 0},
        "silent": True,
        "tooltip": {"show": False},
    }
    marks = [{"xAxis": c.threshold, "name": n} for c, n in ((found.cut, "cut"), (found.sure, "sure")) if c is not None]
    cut = {
        "symbol": "none",
        "data": marks,
        "label": {"formatter": "{b}", "color": _AXIS},
        "lineStyle": {"color": "#2c8a4b", "width": 2},
    }
    points = [
        {
            "type": "scatter",
            "name": name,
            "symbolSize": 7,
            "itemStyle": {"color": colour, "opacity": 0.6},
            "data": [[j.score, height] for j in judged if j.verdict == verdict],
            "silent": True,
        }
        for name, verdict, height, colour in (("kept", "keep", 1.0, "#2c8a4b"), ("dropped", "drop", 0.0, "#b3403a"))
    ]
    lines = [
        {**_line("precision", [[c.threshold, c.precision] for c in curve]), "markLine": cut},
        _line("keeps", [[c.threshold, c.keep_rate] for c in curve]),
    ]
    areas = [
        {**band, "name": "interval of precision", "data": low, "areaStyle": {"opacity": 0}},
        {**band, "name": "interval of precision", "data": wide, "areaStyle": {"opacity": 0.2, "color": _INK["precision"]}},
    ]
    axis = {"axisLabel": {"color": _AXIS}, "nameTextStyle": {"color": _AXIS}, "splitLine": {"lineStyle": {"opacity": 0.25}}}
    return {
        "grid": {"left": 44, "right": 20, "top": 48, "bottom": 40},
        "legend": {"data": ["precision", "keeps", "kept", "dropped"], "textStyle": {"color": _AXIS}, "top": 0},
        "xAxis": {"type": "value", "name": "threshold", "nameLocation": "middle", "nameGap": 26, "scale": True, **axis},
        "yAxis": {"type": "value", "min": 0, "max": 1, **axis},
        "tooltip": {"trigger": "axis", "renderMode": "richText"},
        "series": [*areas, *lines, *points],
    }


def _line(name: str, data: list[list[float]]) -> dict[str, Any]:
    ink = {"color": _INK[name]}
    return {"type": "line", "name": name, "data": data, "symbol": "none", "lineStyle": {**ink, "width": 2}, "itemStyle": ink}


def _table(found: Proposal) -> None:
    parts.heading("Thresholds")
    curve = found.curve
    shown = sorted(
        {*range(0, len(curve), max(1, len(curve) // _CUTS)), *(curve.index(c) for c in (found.cut, found.sure) if c)}
    )
    marks = {found.cut: "the wish", found.sure: "to be sure"} if found.cut != found.sure else {found.cut: "the wish, surely"}
    rows = [
        (
            f"{c.threshold:.3f}",
            f"{c.keep_rate:.1%}",
            _within(c.precision, c.precision_low, c.precision_high),
            _within(c.recall, c.recall_low, c.recall_high),
            marks.get(c, ""),
        )
        for c in (curve[k] for k in shown)
    ]
    heads = ("threshold", "keeps", "precision", "recall", "")
    parts.table(
        ("threshold", "keeps", "precision", "recall", "fulfils"), rows, numbers=range(len(heads) - 1), caption="Thresholds"
    )


# A new sample.


def _beginning(view: View[Any], answer: Answer) -> None:
    with ui.element("article").classes("tc-card tc-narrow").props('aria-label="New sample"'):
        parts.heading("Draw a sample")
        ui.label(
            f"A score is not a decision. Say keep or drop for some documents of {answer.set}, drawn by score and source, and a"
            " threshold follows. The score is hidden while you judge; fifty verdicts say something, two hundred a good deal."
        )
        with ui.row().classes("tc-controls"):
            known = view.names("ratings")
            ui.select(
                known,
                label="Ratings",
                value=answer.ratings,
                on_change=lambda e: view.go(ratings=e.value, criterion="", begin=True),
            ).props("dense outlined options-dense").style("width:14rem")
            criterion = ui.select(list(answer.criteria), label="Score", value=answer.criterion)
            criterion.props("dense outlined options-dense").style("width:14rem")
            size = _number("Sample size", 200)
            bins = _number("Score bins", 5)
            seed = _number("Seed", 0)
            name = ui.input("File", value=_free(answer.files)).props("dense outlined").style("width:14rem")

        async def begin() -> None:
            asked = Begin(
                name.value or "", answer.ratings, view.query.set, answer.rubric, str(criterion.value), int(size.value or 0),
                int(bins.value or 0), int(seed.value or 0),
            )  # fmt: skip
            made: Begun | None = await view.act("begin", asked)
            if made is not None:
                await view.go(labels=made.labels, begin=False, ratings="", criterion="")

        button = ui.button("Draw and begin", icon="play_arrow", on_click=begin).props("no-caps unelevated color=primary")
        button.set_enabled(answer.editable)
        if not answer.editable:
            ui.label(_OFF)
        ui.label("The file lies beside the ratings; `typecase calibrate` goes on with it.").classes("tc-dim")


def _number(label: str, value: int) -> ui.number:
    return ui.number(label, value=value, min=0, precision=0).props("dense outlined").style("width:7rem")


def _free(files: tuple[str, ...]) -> str:
    """A name that no file of labels has yet."""
    taken = {name.rpartition("/")[2] for name in files}
    return next(n for n in ("labels.jsonl", *(f"labels-{k}.jsonl" for k in range(2, len(files) + 3))) if n not in taken)


async def judged(view: View[Any], verdict: str) -> None:
    """The verdict on the document that is shown; nothing where none is, or verdicts are off."""
    deck = _DECKS.get(view)
    if deck is not None and view.desk.allow_edit:
        await (deck.undo() if verdict == "undo" else deck.judge(verdict))


KEYS = (
    Key("k", "keep the document", lambda view: judged(view, "keep")),
    Key("d", "drop it", lambda view: judged(view, "drop")),
    Key("s", "skip it", lambda view: judged(view, "skip")),
    Key("u", "undo the last verdict", lambda view: judged(view, "undo")),
    Key("m", "show its whole text", lambda view: view.go(whole=True)),
)
