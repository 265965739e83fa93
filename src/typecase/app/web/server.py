"""The server: guard, API and pages in one application, and running it.

guard -> /api/v1/…            the JSON side; needs no page library to be loaded
      -> /, /documents …      pages
      -> /_nicegui/…          the page library's own files, from the installed package: nothing comes from elsewhere
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request

from typecase.app.web.api import make_api
from typecase.app.web.desk import Desk
from typecase.app.web.registry import PAGES, Page
from typecase.app.web.safety import Guard, is_loopback
from typecase.app.web.state import address, read_query
from typecase.app.web.work import Workers
from typecase.errors import FixInput, TypecaseError

_MODES = {"light": False, "dark": True}


@dataclass(frozen=True, slots=True)
class Settings:
    """How the server is reached: `token` is asked for where one is set; `hosts` are further names that it goes by."""

    host: str = "127.0.0.1"
    port: int = 8300
    token: str | None = None
    hosts: tuple[str, ...] = ()

    def check(self) -> None:
        """Raises FixInput for a server that others could reach without a token, or with an empty one."""
        if self.token is not None and not self.token.strip():
            raise FixInput("the token is empty, so everybody has it: give one that cannot be guessed, or --token auto")
        if self.token is None and not is_loopback(self.host):
            raise FixInput(f"{self.host} can be reached from elsewhere: a token is needed, give --token")


def make_app(desk: Desk, settings: Settings, *, pages: bool = True) -> Guard:
    """The whole application; without `pages` the JSON side alone, which does not load the page library."""
    settings.check()
    workers = Workers(desk.limits)
    app = make_api(desk, workers)
    if pages:
        _add_pages(app, desk, workers)
    inner = app.router.lifespan_context

    @contextlib.asynccontextmanager
    async def lifespan(of: FastAPI) -> AsyncIterator[Any]:
        async with inner(of) as state:
            yield state
        workers.close()
        desk.close()

    app.router.lifespan_context = lifespan
    hosts = (settings.host, *settings.hosts)
    return Guard(app, hosts=hosts, token=settings.token, body_bytes=desk.limits.body_bytes)


def _add_pages(app: FastAPI, desk: Desk, workers: Workers) -> None:
    from nicegui import ui

    from typecase.app.web import shell

    def page_of(page: Page) -> Callable[[Request], Any]:
        async def page_(request: Request) -> None:
            fault: TypecaseError | None = None
            try:
                query = read_query(page.twin.query, request.query_params.multi_items())
            except TypecaseError as error:
                query, fault = page.twin.query(), error
            dark = _MODES.get(request.cookies.get("typecase-mode", ""))
            await shell.show(desk, workers, page, query, dark=dark, fault=fault)

        return page_

    for page in PAGES:
        ui.page(page.path, title=f"{page.title} · typecase", response_timeout=desk.limits.seconds)(page_of(page))
    ui.run_with(app, title="typecase", dark=None, language="en-US", tailwind=False, show_welcome_message=False, favicon="🔠")


def serve(desk: Desk, settings: Settings, *, started: Callable[[str], None] | None = None, log_level: str = "warning") -> None:
    """Serves until it is interrupted; `started` is told the address. Raises FixInput for a port that is taken."""
    import uvicorn

    app = make_app(desk, settings)
    listening = _listening(settings)
    port = listening.getsockname()[1]
    shown = f"[{settings.host}]" if ":" in settings.host else settings.host
    if started is not None:
        started(f"http://{shown}:{port}/" + (f"?token={settings.token}" if settings.token else ""))
    config = uvicorn.Config(
        app,
        log_level=log_level,
        access_log=False,
        ws_max_size=desk.limits.body_bytes,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=3,
        lifespan="on",
        server_header=False,
    )
    uvicorn.Server(config).run(sockets=[listening])


def _listening(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except (OSError, OverflowError) as error:
        listening.close()
        raise FixInput(f"{settings.host}:{settings.port} cannot be served ({error}): name another with --port") from None
    return listening


def paths_of(pages: Iterable[Page]) -> list[str]:
    """The addresses of pages in their first state."""
    return [address(p.path) for p in pages]
