"""Overview, drawn: a table of what was served."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from typecase.app.web import parts
from typecase.app.web.answers.overview import Answer
from typecase.app.web.shell import View


def controls(view: View[Any]) -> None:
    kinds = sorted({i.kind for i in view.desk.catalogue.items})
    parts.choice(view, "kind", "Kind", {"": "all kinds", **{k: k for k in kinds}})
    ui.button("Look again", icon="refresh", on_click=lambda: view.go(look=True)).props("flat dense no-caps")


def result(view: View[Any], answer: Answer) -> None:
    rows = [(i.name, i.kind, i.stage, i.rows, i.size_bytes, i.kept, i.removed, i.quarantined, i.note) for i in answer.items]
    heads = ("name", "kind", "made by", "rows", "bytes", "kept", "removed", "quarantined", "note")
    parts.table(heads, rows, numbers={3, 4, 5, 6, 7}, caption="What was served")
