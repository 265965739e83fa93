"""The JSON side: every page has a twin, with the same names and numbers, described by OpenAPI.

    GET  /api/v1/documents?set=docs/web&page=3        the page's Answer
    GET  /api/v1/documents/export?format=csv&…        its rows as a file
    POST /api/v1/edit/undo   {"set": "web"}           an action
    GET  /api/v1/openapi.json

Errors are those of the tree: FixInput 400, Conflict 409, Damaged 500, TryAgain 503, each as
{"error": {"kind": "NotFound", "message": "what was found, where, what to do", "status": 400}}.
"""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException

from typecase.app.options import plain
from typecase.app.web.desk import Desk
from typecase.app.web.registry import PAGES, Action, Page
from typecase.app.web.state import described, read_query
from typecase.app.web.work import Workers
from typecase.errors import BadQuery, Conflict, Damaged, FixInput, TryAgain, TypecaseError

ROOT = "/api/v1"
STATUS: tuple[tuple[type[TypecaseError], int], ...] = ((FixInput, 400), (Conflict, 409), (Damaged, 500), (TryAgain, 503))


@dataclass(frozen=True, slots=True)
class Fault:
    """An error: its kind in the tree, what was found, where, and what to do, and the status it came with."""

    kind: str
    message: str
    status: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The body of every answer that is none."""

    error: Fault


_REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": Refused, "description": "The request is at fault: change it."},
    401: {"model": Refused, "description": "The server asks for its token."},
    403: {"model": Refused, "description": "Pages of other servers may not act here."},
    409: {"model": Refused, "description": "Something else got there first."},
    500: {"model": Refused, "description": "The data on disk is not what it should be."},
    413: {"model": Refused, "description": "The body is too long."},
    503: {"model": Refused, "description": "Nothing is wrong with the request: try again."},
}


def status_of(error: TypecaseError) -> int:
    """The status of an error of the tree."""
    return next((status for kind, status in STATUS if isinstance(error, kind)), 500)


def make_api(desk: Desk, workers: Workers) -> FastAPI:
    """The application that answers `/api/v1/…`; pages are added by `server`."""
    app = FastAPI(
        title="typecase",
        version=version("typecase"),
        description="What the pages of `typecase serve` show, as JSON. Every page has a twin of the same name.",
        openapi_url=f"{ROOT}/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
    app.add_exception_handler(TypecaseError, _typecase_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _unforeseen)
    for page in PAGES:
        _add(app, desk, workers, page)

    @app.api_route(ROOT + "/{rest:path}", methods=["GET", "POST"], include_in_schema=False)
    async def unknown(rest: str) -> Response:
        return _answered({"error": {"kind": "NotFound", "message": f"there is no {ROOT}/{rest}", "status": 404}}, 404)

    return app


def _add(app: FastAPI, desk: Desk, workers: Workers, page: Page) -> None:
    twin = page.twin

    async def answer(request: Request) -> Response:
        query = read_query(twin.query, request.query_params.multi_items())
        return _answered(plain(await workers.run(twin.answer, desk, query)))

    app.add_api_route(
        f"{ROOT}/{page.name}",
        answer,
        methods=["GET"],
        operation_id=page.name,
        summary=page.title,
        description=page.about,
        tags=[page.name],
        responses={200: {"model": twin.kind}, **_REFUSALS},
        openapi_extra={"parameters": described(twin.query)},
    )
    if twin.export is not None:
        _add_export(app, desk, workers, page)
    for action in twin.actions:
        app.add_api_route(
            f"{ROOT}/{page.name}/{action.name}",
            _acting(desk, workers, action),
            methods=["POST"],
            operation_id=f"{page.name}_{action.name}",
            summary=action.about,
            tags=[page.name],
            responses={200: {"model": action.gives}, **_REFUSALS},
        )


def _add_export(app: FastAPI, desk: Desk, workers: Workers, page: Page) -> None:
    twin = page.twin

    async def export(request: Request) -> Response:
        given = [(k, v) for k, v in request.query_params.multi_items() if k != "format"]
        kind = request.query_params.get("format", twin.formats[0])
        if kind not in twin.formats:
            raise BadQuery(f"format is {kind!r}: choose one of {', '.join(twin.formats)}")
        query = read_query(twin.query, given)
        return await exported(desk, workers, page, query, kind)

    choice = {"type": "string", "enum": list(twin.formats), "default": twin.formats[0]}
    app.add_api_route(
        f"{ROOT}/{page.name}/export",
        export,
        methods=["GET"],
        operation_id=f"{page.name}_export",
        summary=f"{page.title} as a file",
        tags=[page.name],
        response_class=Response,
        responses={200: {"content": {"application/octet-stream": {}}, "description": "A file."}, **_REFUSALS},
        openapi_extra={
            "parameters": [
                {"name": "format", "in": "query", "required": False, "description": "kind of file", "schema": choice},
                *described(twin.query),
            ]
        },
    )


async def exported(desk: Desk, workers: Workers, page: Page, query: Any, kind: str) -> Response:
    """The rows of a page as a file, written to a folder that goes when it was sent."""
    export = page.twin.export
    assert export is not None
    folder = tempfile.TemporaryDirectory(prefix="typecase-")
    out = Path(folder.name) / f"{page.name}.{kind}"
    try:
        await workers.run(export, desk, query, out, seconds=desk.limits.seconds * 10)
    except BaseException:
        folder.cleanup()
        raise
    return FileResponse(
        out, filename=out.name, media_type="application/octet-stream", background=BackgroundTask(folder.cleanup)
    )


def _acting(desk: Desk, workers: Workers, action: Action) -> Callable[..., Awaitable[Response]]:
    async def act(asked: Any) -> Response:
        return _answered(plain(await workers.run(perform, desk, action, asked)))

    parameter = inspect.Parameter("asked", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=action.takes)
    act.__signature__ = inspect.Signature([parameter])  # type: ignore[attr-defined]
    return act


def perform(desk: Desk, action: Action, asked: Any) -> Any:
    """Runs an action, where it is allowed. Raises FixInput for an edit where edits are off."""
    if action.edits:
        desk.need_edit()
    return action.run(desk, asked)


def _answered(value: Any, status: int = 200) -> Response:
    body = orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY)
    return Response(body, status, media_type="application/json", headers={"cache-control": "no-store"})


async def _typecase_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, TypecaseError)
    status = status_of(error)
    return _answered({"error": {"kind": type(error).__name__, "message": str(error), "status": status}}, status)


async def _unforeseen(_: Request, error: Exception) -> Response:
    """What no one raised on purpose; the server's log has its traceback, the answer has not."""
    message = f"{type(error).__name__}; this is a fault of typecase, please report it"
    return _answered({"error": {"kind": "TypecaseError", "message": message, "status": 500}}, 500)


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    told = "; ".join(f"{'.'.join(str(p) for p in e['loc'][1:]) or 'body'}: {e['msg']}" for e in error.errors()[:5])
    return _answered({"error": {"kind": "BadQuery", "message": f"the body is at fault: {told}", "status": 400}}, 400)


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    told = {"error": {"kind": "Refused", "message": str(error.detail), "status": error.status_code}}
    response = _answered(told, error.status_code)
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    return response


def names_of(kind: type[Any]) -> list[str]:
    """The fields of an answer."""
    return [f.name for f in fields(kind)]
