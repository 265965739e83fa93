"""Runs, drawn: a table of jobs, the log of one, a button to stop it; looks again every second while one runs."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from typecase.app.web import parts
from typecase.app.web.answers.runs import Answer, Cancel
from typecase.app.web.jobs import JobTold
from typecase.app.web.shell import View


def controls(view: View[Any]) -> None:
    ui.label("Long work runs here in the background. Jobs live as long as the server.").classes("tc-dim")

    async def look() -> None:
        if view.answered is not None and any(j.state == "running" for j in view.answered.jobs):
            await view.refresh()

    ui.timer(1.0, look)


def result(view: View[Any], answer: Answer) -> None:
    if not answer.jobs:
        ui.label("No job has run yet.")
        return
    rows = [
        (
            parts.Link(j.title, view.link("runs", job=j.id)),
            j.state,
            f"{j.phase} {j.done:,}/{j.total:,}",
            f"{j.seconds:.1f}",
            j.result,
        )
        for j in answer.jobs
    ]
    parts.table(("job", "state", "progress", "seconds", "result"), rows, numbers={3}, caption="Jobs")
    if answer.chosen is not None:
        _chosen(view, answer.chosen)


def _chosen(view: View[Any], job: JobTold) -> None:
    parts.heading(job.title)
    share = job.done / job.total if job.total else (1.0 if job.state == "done" else 0.0)
    ui.linear_progress(share, show_value=False).props('aria-label="Part done"')
    ui.label(f"{job.state}, {share:.0%}" + (f", about {job.left:.0f} s left" if job.left is not None else ""))

    async def cancel() -> None:
        await view.act("cancel", Cancel(job.id))
        await view.refresh()

    if job.state == "running":
        ui.button("Cancel", on_click=cancel).props("outline no-caps color=negative")
    if job.link:
        ui.link("What it made", job.link)
    if job.log:
        parts.plain_block("\n".join(job.log), label="Log")
