"""Runs: the work of this server in the background."""

from __future__ import annotations

from dataclasses import dataclass

from typecase.app.web.desk import Desk
from typecase.app.web.jobs import JobTold
from typecase.app.web.registry import Action
from typecase.app.web.state import ask


@dataclass(frozen=True, slots=True)
class Query:
    job: int | None = ask(None, "the job whose log is shown", low=1)


@dataclass(frozen=True, slots=True)
class Answer:
    """The jobs of this server, newest first, and the one that was asked for."""

    jobs: tuple[JobTold, ...]
    chosen: JobTold | None


@dataclass(frozen=True, slots=True)
class Cancel:
    """Asks job `job` to stop."""

    job: int


def answer(desk: Desk, query: Query) -> Answer:
    """The jobs as they stand. Raises NotFound for one that is not there."""
    chosen = desk.jobs.get(query.job).told() if query.job is not None else None
    return Answer(desk.jobs.told(), chosen)


def python(desk: Desk, query: Query) -> str:
    given = f"job={query.job}" if query.job is not None else ""
    return (
        f'from typecase.app.web.client import Client\n\nwith Client("http://127.0.0.1:8300") as here:\n    here.runs({given})'
    )


def command(desk: Desk, query: Query) -> str:
    return "typecase run RECIPE WORK"


def _cancel(desk: Desk, asked: Cancel) -> JobTold:
    return desk.jobs.cancel(asked.job)


ACTIONS = (Action("cancel", Cancel, JobTold, _cancel, "Ask a job to stop"),)
