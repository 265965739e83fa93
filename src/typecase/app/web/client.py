"""A client in Python: the same names, states and answers as the pages, over HTTP.

    with Client("http://127.0.0.1:8300", token="…") as here:
        here.documents(set="docs/web", source="wiki").rows
        here.act("edit", "undo", Undo("web", 17))
        here.download("documents", "jsonl", Path("wiki.jsonl"), source="wiki")

Answers are the frozen dataclasses of the pages; errors are those of the tree, raised here as they were raised there.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import orjson

from typecase import errors
from typecase.app.options import plain
from typecase.app.web.registry import PAGES, Page
from typecase.app.web.state import parameters
from typecase.errors import AlreadyExists, FixInput, ModelUnavailable, NeedsExtra, NotFound, TypecaseError
from typecase.store.atomic import atomic_path

ROOT = "/api/v1"


class Client:
    """A server of `typecase serve` at `url`. Every page is a method of the same name, whose arguments are its state."""

    def __init__(self, url: str, *, token: str | None = None, seconds: float = 60.0) -> None:
        try:
            import httpx
            import pydantic
        except ImportError:
            raise NeedsExtra("the client", "ui") from None
        headers = {"authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=seconds)
        self._failed = httpx.TransportError
        self._reader = pydantic.TypeAdapter

    def __getattr__(self, name: str) -> Callable[..., Any]:
        page = next((p for p in PAGES if p.name == name), None)
        if page is None:
            raise AttributeError(f"there is no page {name!r}: there are {', '.join(p.name for p in PAGES)}")
        return lambda **state: self.answer(page, page.twin.query(**state))

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *(p.name for p in PAGES)])

    def answer(self, page: Page, query: Any) -> Any:
        """The answer of a page in a state, as its dataclass."""
        content = self._sent("GET", f"{ROOT}/{page.name}", params=parameters(query))
        return self._reader(page.twin.kind).validate_json(content)

    def act(self, page: str, action: str, asked: Any) -> Any:
        """What an action gives. Raises NotFound for one that is not there, else what the server raised."""
        found = next((a for p in PAGES if p.name == page for a in p.twin.actions if a.name == action), None)
        if found is None:
            raise NotFound(f"there is no action {action!r} of a page {page!r}")
        body = orjson.dumps(plain(asked))
        content = self._sent("POST", f"{ROOT}/{page}/{action}", content=body, headers={"content-type": "application/json"})
        return self._reader(found.gives).validate_json(content)

    def download(self, page: str, kind: str, out: Path, **state: Any) -> Path:
        """Writes the rows of a page to the new file `out`. Raises AlreadyExists when it is there."""
        if out.exists():
            raise AlreadyExists(f"{out} is there already: name another file")
        found = next((p for p in PAGES if p.name == page), None)
        if found is None:
            raise NotFound(f"there is no page {page!r}: there are {', '.join(p.name for p in PAGES)}")
        params = [("format", kind), *parameters(found.twin.query(**state))]
        content = self._sent("GET", f"{ROOT}/{page}/export", params=params)
        with atomic_path(out) as temporary:
            temporary.write_bytes(content)
        return out

    def _sent(self, method: str, path: str, **given: Any) -> bytes:
        try:
            answer = self._http.request(method, path, **given)
        except self._failed as error:
            raise ModelUnavailable(f"{self._http.base_url} does not answer ({error}): is `typecase serve` running?") from None
        if answer.status_code == 200:
            content: bytes = answer.content
            return content
        raise _error_of(answer.content, answer.status_code)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _error_of(content: bytes, status: int) -> TypecaseError:
    """The error that the server raised, of the same kind; FixInput for a request that it did not let in."""
    try:
        told = orjson.loads(content)["error"]
        kind, message = str(told["kind"]), str(told["message"])
    except (ValueError, KeyError, TypeError):
        return TypecaseError(f"the server answered {status}: {content[:200]!r}")
    found = getattr(errors, kind, None)
    if isinstance(found, type) and issubclass(found, TypecaseError) and found is not NeedsExtra:
        return found(message)
    return FixInput(message) if 400 <= status < 500 else TypecaseError(message)
