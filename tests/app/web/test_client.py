"""The client: for every page the dataclasses of the page, its files, its actions, and the errors that the server raised."""

from __future__ import annotations

import dataclasses
import re
import socket
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.app.web.conftest import Here
from tests.app.web.served import HOSTILE
from typecase.app.web.answers.runs import Cancel
from typecase.app.web.catalogue import Catalogue
from typecase.app.web.client import Client, _error_of
from typecase.app.web.desk import Desk
from typecase.app.web.registry import PAGES, Page
from typecase.errors import (
    AlreadyExists,
    BadQuery,
    CorruptStore,
    FixInput,
    ModelUnavailable,
    NotFound,
    StaleEdit,
    TryAgain,
    TypecaseError,
)

pytest.importorskip("nicegui")
STATES: dict[str, list[dict[str, Any]]] = {
    "overview": [{"kind": "docs"}],
    "documents": [{"source": "wiki", "sort": "tokens", "down": True, "size": 4}, {"set": "tokens", "doc": "7"}],
    "search": [{"q": "the", "size": 3}, {"ids": "262", "context": 2, "top": 3, "size": 2}],
    "time": [{"step": 3, "size": 2, "doc": "7", "tokens": 20}],
    "attribute": [{"text": f"{HOSTILE} and more"}],
    "audit": [{"token": 300, "size": 2}, {"text": "t1", "low": 3, "up": "rank"}],
    "lineage": [{"of": "docs"}],
}
"""States of pages besides their first, with something to show."""


@pytest.fixture(scope="module")
def desk(served: Path) -> Desk:
    return Desk(Catalogue([served]))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_page_is_a_method_that_gives_its_answer(page: Page, here: Here, desk: Desk) -> None:
    with Client(here.url) as client:
        for state in ({}, *STATES.get(page.name, [])):
            told = getattr(client, page.name)(**state)
            assert type(told) is page.twin.kind
            assert told == page.twin.answer(desk, page.twin.query(**state)), state


@pytest.mark.parametrize("page", [p for p in PAGES if p.twin.export is not None], ids=lambda p: p.name)
def test_every_download_is_the_file_of_the_page_or_its_error(page: Page, here: Here, desk: Desk, tmp_path: Path) -> None:
    state, kind, export = STATES.get(page.name, [{}])[0], page.twin.formats[0], page.twin.export
    own, came = tmp_path / f"own.{kind}", tmp_path / f"came.{kind}"
    assert export is not None
    with Client(here.url) as client:
        try:
            export(desk, page.twin.query(**state), own)
        except TypecaseError as error:
            with pytest.raises(type(error), match=re.escape(str(error))):
                client.download(page.name, kind, came, **state)
        else:
            assert client.download(page.name, kind, came, **state).read_bytes() == own.read_bytes() != b""
            with pytest.raises(AlreadyExists):
                client.download(page.name, kind, came, **state)
        with pytest.raises(BadQuery, match="choose one of"):
            client.download(page.name, "exe", tmp_path / "x.exe", **state)
    assert {p.name for p in tmp_path.iterdir()} <= {own.name, came.name}, "nothing is left of what failed"


def test_the_client_names_its_pages(here: Here) -> None:
    with Client(here.url) as client:
        assert {p.name for p in PAGES} <= set(dir(client))
        with pytest.raises(AttributeError, match="there are overview"):
            _ = client.nothing
        with pytest.raises(TypeError):
            client.documents(nothing=1)
        with pytest.raises(NotFound):
            client.download("nothing", "csv", Path("x.csv"))


def test_errors_are_those_that_the_server_raised(here: Here) -> None:
    with Client(here.url) as client:
        with pytest.raises(NotFound, match="no docs or tokens called 'nothing'"):
            client.documents(set="nothing")
        with pytest.raises(BadQuery, match="page is 0"):
            client.documents(page=0)
        with pytest.raises(NotFound, match="there is no job 99"):
            client.act("runs", "cancel", Cancel(99))
        with pytest.raises(NotFound, match="no action"):
            client.act("runs", "nothing", Cancel(1))
        with pytest.raises(BadQuery, match="the body"):
            client.act("runs", "cancel", Cancel("one"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "status", "raised"),
    [
        *((k.__name__, s, k) for k, s in ((StaleEdit, 409), (CorruptStore, 500), (TryAgain, 503))),
        *(("NeedsExtra", 400, FixInput), ("Refused", 401, FixInput), ("Refused", 413, FixInput)),
        *(("TypecaseError", 500, TypecaseError), ("ValueError", 500, TypecaseError), ("annotations", 500, TypecaseError)),
    ],
)
def test_every_branch_of_the_tree_comes_back(kind: str, status: int, raised: type[TypecaseError]) -> None:
    error = _error_of(orjson.dumps({"error": {"kind": kind, "message": "what to do", "status": status}}), status)
    assert type(error) is raised and str(error) == "what to do"


@pytest.mark.parametrize("content", [b"", b"<html>", b"[]", b'{"error": "x"}', b"null"])
def test_an_answer_of_another_server_is_said(content: bytes) -> None:
    assert "answered 502" in str(_error_of(content, 502))


def test_a_server_that_is_not_there_is_said() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with Client(f"http://127.0.0.1:{port}") as client, pytest.raises(ModelUnavailable, match="is `typecase serve` running"):
        client.overview()


def test_answers_can_be_compared_and_kept(here: Here) -> None:
    with Client(here.url) as client:
        told = client.documents(size=2)
    assert dataclasses.replace(told, page=2) != told and len({r.doc for r in told.rows}) == 2
