"""serve: the workbench in a browser."""

from __future__ import annotations

import secrets
from pathlib import Path

import click

from typecase.errors import NeedsExtra


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to bind to; any but loopback asks for a token.")
@click.option("--port", default=8300, show_default=True, type=click.IntRange(0, 65535), help="Port; 0 takes a free one.")
@click.option("--host-name", "names", multiple=True, help="A name that the server goes by, as browsers write it. Repeatable.")
@click.option("--token", envvar="TYPECASE_TOKEN", help="Readers must bring this; also from TYPECASE_TOKEN. `auto` makes one.")
@click.option("--allow-edit", is_flag=True, help="Let pages and the API change what is served.")
@click.option("--seconds", default=30.0, show_default=True, type=click.FloatRange(1, 3600), help="Longest time for an answer.")
def serve_command(
    paths: tuple[Path, ...], host: str, port: int, names: tuple[str, ...], token: str | None, allow_edit: bool, seconds: float
) -> None:
    """Open a workbench in the browser over what lies under PATHS: documents, token sets, indexes, ratings, run files."""
    try:
        import fastapi  # noqa: F401
        import nicegui  # noqa: F401
    except ImportError:
        raise NeedsExtra("serve", "ui") from None
    from typecase.app.web.catalogue import Catalogue
    from typecase.app.web.desk import Desk, Limits
    from typecase.app.web.safety import is_loopback
    from typecase.app.web.server import Settings, serve

    if token == "auto" or (token is None and not is_loopback(host)):
        token = secrets.token_urlsafe(24)
    catalogue = Catalogue(paths)
    desk = Desk(catalogue, allow_edit=allow_edit, limits=Limits(seconds=seconds))

    def started(where: str) -> None:
        click.echo(f"{len(catalogue.items)} things from {', '.join(map(str, paths))}; edits {'on' if allow_edit else 'off'}")
        click.echo(f"open {where}")

    serve(desk, Settings(host, port, token, names), started=started)
