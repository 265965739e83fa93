"""The JSON side: it answers as its OpenAPI says whatever it is asked; the client gives the pages' own dataclasses."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings

from tests.app.web.conftest import Here, serving
from typecase.app.web.answers.edit import Back, Make
from typecase.app.web.catalogue import Catalogue
from typecase.app.web.client import Client
from typecase.app.web.desk import Desk
from typecase.app.web.registry import PAGES, Page
from typecase.errors import BadQuery, FixInput, ModelUnavailable, NotFound

pytest.importorskip("nicegui")


@pytest.fixture(scope="module")
def schema(here: Here) -> Any:
    schemathesis = pytest.importorskip("schemathesis")
    return schemathesis.openapi.from_url(f"{here.url}/api/v1/openapi.json")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_answers_are_as_the_openapi_says(schema: Any, page: Page) -> None:
    """Whatever the parameters: a documented status, a body of the schema, and never a fault of our own."""
    from schemathesis.specs.openapi import checks

    wanted = [checks.status_code_conformance, checks.response_schema_conformance, checks.content_type_conformance]
    operation = schema[f"/api/v1/{page.name}"]["GET"]

    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(case=operation.as_strategy())
    def holds(case: Any) -> None:
        response = case.call(timeout=60)
        assert response.status_code in (200, 400, 409, 503), response.text
        case.validate_response(response, checks=wanted)

    holds()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_the_client_gives_the_dataclasses_of_the_page(here: Here, served: Path, page: Page) -> None:
    with Client(here.url) as client:
        told = getattr(client, page.name)()
    assert isinstance(told, page.twin.kind)
    if page.name != "runs":
        own = page.twin.answer(Desk(Catalogue([served])), page.twin.query())
        assert type(own) is type(told) and own.__dataclass_fields__.keys() == told.__dataclass_fields__.keys()


def test_the_client_raises_what_the_server_raised(here: Here, tmp_path: Path) -> None:
    with Client(here.url) as client:
        with pytest.raises(NotFound, match="was served"):
            client.documents(set="nothing")
        with pytest.raises(BadQuery, match="cannot use 'nonsense'"):
            client.documents(where="nonsense")
        with pytest.raises(FixInput, match="edits are off"):
            client.act("edit", "undo", Back("tokens", 1))
        with pytest.raises(AttributeError, match="there is no page"):
            client.nothing()
        client.download("documents", "jsonl", tmp_path / "rows.jsonl", source="wiki")
        assert (tmp_path / "rows.jsonl").read_text().count("\n") == client.documents(source="wiki").total
    with Client("http://127.0.0.1:9") as away, pytest.raises(ModelUnavailable, match="is `typecase serve` running"):
        away.overview()


@pytest.fixture
def changing(served: Path, tmp_path: Path) -> Iterator[Here]:
    shutil.copytree(served, tmp_path / "work")
    with serving(tmp_path / "work", "--allow-edit") as started:
        yield started


def test_fifty_readers_during_edits_see_the_set_before_or_after(changing: Here) -> None:
    """A document is changed and taken back again and again: whoever reads sees one of the two texts, whole."""
    with Client(changing.url) as client:
        first = client.documents(set="tokens", doc="0").detail.tokens.ids
        state = {"find": " tokens", "text": " sorts", "document": 0, "limit": 1}
        codes = tuple(d.code for d in client.edit(set="tokens", **state).preview.radius.dangers)
        entry = client.act("edit", "make", Make("tokens", allow=codes, **state)).entry  # type: ignore[arg-type]
        second = client.documents(set="tokens", doc="0").detail.tokens.ids
        client.act("edit", "undo", Back("tokens", entry))
    assert first != second
    stop, seen, faults = threading.Event(), set(), []

    def read(n: int) -> None:
        with httpx.Client(base_url=changing.url, timeout=60) as http:
            while not stop.is_set():
                told = http.get("/api/v1/documents", params={"set": "tokens", "doc": "0", "page": 1 + n % 2})
                if told.status_code == 200:
                    seen.add(tuple(told.json()["detail"]["tokens"]["ids"]))
                elif told.status_code != 503:
                    faults.append(told.text)

    with ThreadPoolExecutor(50) as pool:
        readers = [pool.submit(read, n) for n in range(50)]
        with Client(changing.url) as client:
            for _ in range(4):
                made = client.act("edit", "make", Make("tokens", allow=codes, **state)).entry  # type: ignore[arg-type]
                client.act("edit", "undo", Back("tokens", made))
        stop.set()
        for reader in readers:
            reader.result(120)
    assert not faults, faults[:3]
    assert seen <= {first, second} and first in seen
