"""The OpenAPI is what the server does: valid and invalid parameters of every page are answered as it says."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from typecase.app.web.api import make_api
from typecase.app.web.catalogue import Catalogue
from typecase.app.web.desk import Desk
from typecase.app.web.registry import PAGES
from typecase.app.web.work import Workers
from typecase.store.provenance import NAME as PROVENANCE

pytest.importorskip("fastapi")
EXAMPLES, OF_EXPORTS = 10, 3
GETS = [f"/api/v1/{page.name}{tail}" for page in PAGES for tail in ("", "/export") if not tail or page.twin.export is not None]
POSTS = [f"/api/v1/{page.name}/{action.name}" for page in PAGES for action in page.twin.actions]
FITTING: dict[str, tuple[str, ...]] = {
    "set": ("tokens", "docs", "-"),
    **{name: (name, "") for name in ("index", "audit")},
    "run": ("run.json", "-"),
    "losses": ("losses.csv", "-"),
    "source": ("wiki", "web", "none of them"),
    "domain": ("science", "code"),
    "score": ("overall_score",),
    "sort": ("tokens", "source", "count", "decoded", "rank"),
    "where": ("source = 'wiki'", "tokens > 20 and source <> 'web'", "tokens / 0 > 1", "count > 3 and percentile < 50"),
    "q": ("the", "the text\nthe token", "a|the", "[a-z]+ing", "464", "\u202e<b>", "é" * 300),
    "text": (" the text of a document that is in the set, and the text of another one, and nothing of it is new",),
    "ids": ("262", "262,2420", "50256"),
    "steps": ("0:3", "7"),
    "doc": ("7", "0"),
    "decision": ("suspect", "fine"),
    **dict.fromkeys(("across", "up"), ("count", "rank", "max_prob")),
    "of": ("docs", "tokens"),
    "kind": ("docs", "tokens"),
}
"""Texts that parameters of these names can mean something by."""

ODD = (
    *("", "-", "nothing", "../docs", "-1", "3:1", "1:2:3", "262,", "(", "(a+)+$", "\\", "%", "'", '"', "\x01", "e\u0301"),
    *("\ud7ff\U0010ffff", "source = 1", "lower(tokens) = ''", "case when", "1e400 > tokens", "i = 99999999999999999999999"),
)
"""Texts that few expect."""


@dataclass(frozen=True)
class Server:
    """The JSON side in this process, its OpenAPI, and a loop to ask it in."""

    runner: asyncio.Runner
    client: httpx.AsyncClient
    spec: dict[str, Any]
    ids: tuple[str, ...]

    def ask(self, request: httpx.Request) -> httpx.Response:
        return self.runner.run(self.client.send(request))


@pytest.fixture(scope="module")
def server(served: Path) -> Iterator[Server]:
    import pyarrow.parquet as pq

    desk = Desk(Catalogue([served]))
    workers = Workers(desk.limits)
    app = make_api(desk, workers)
    ids = pq.read_table(served / "tokens" / PROVENANCE, columns=["doc_id"]).column("doc_id").to_pylist()
    with asyncio.Runner() as runner:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)  # type: ignore[arg-type]
        client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")
        yield Server(runner, client, app.openapi(), tuple(ids[:3]))
        runner.run(client.aclose())
    workers.close()
    desk.close()


def valid(schema: dict[str, Any], fitting: tuple[str, ...]) -> st.SearchStrategy[Any]:
    """Values that a schema allows: those that are near its bounds, and of texts those that mean something."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema["type"] == "boolean":
        return st.sampled_from(["true", "false", "1", "0", "True"])
    if schema["type"] in ("integer", "number"):
        low, high = schema.get("minimum", -(2**53)), schema.get("maximum", 2**53)
        near = [v for v in (1, 3, 7, 60, low, low + 1, high) if low <= v <= high]
        return st.sampled_from(near) if schema["type"] == "integer" else st.sampled_from(near) | st.floats(low, high)
    if schema["type"] == "array":
        return st.lists(valid(schema["items"], fitting), max_size=3)
    odd = [w for w in ODD if len(w) <= schema["maxLength"]]
    texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=min(12, schema["maxLength"]))
    some = st.sampled_from([w for w in fitting if len(w) <= schema["maxLength"]] or odd)
    return some | some | some | st.sampled_from(odd) | texts


def invalid(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that a schema does not allow."""
    if schema["type"] == "array":
        return st.just("\0")
    if "enum" in schema:
        return st.sampled_from(["", "no such", schema["enum"][0].upper() + "x"])
    if schema["type"] == "boolean":
        return st.sampled_from(["", "yes", "2", "null"])
    if schema["type"] in ("integer", "number"):
        beyond = [str(schema[k] + by) for k, by in (("minimum", -1), ("maximum", 1)) if k in schema]
        odd = [] if schema["type"] == "number" else ["1.5", "1e3"]
        return st.sampled_from([*beyond, *odd, "", "x", "nan", "inf", "1e999", "0x10", "9" * 400])
    return st.sampled_from(["\0", "a\0b"]) if schema["maxLength"] > 50_000 else st.just("x" * (schema["maxLength"] + 1))


def parameters_of(server: Server, path: str) -> dict[str, dict[str, Any]]:
    return {p["name"]: p["schema"] for p in server.spec["paths"][path]["get"]["parameters"]}


@st.composite
def states(draw: st.DrawFn, server: Server, path: str, *, spoilt: bool) -> list[tuple[str, Any]]:
    """Parameters of a page: a few valid ones, and, if it is to be spoilt, one that is not."""
    schemas = parameters_of(server, path)
    named = draw(st.lists(st.sampled_from(sorted(schemas)), max_size=4, unique=True)) if schemas else []
    named += [name for name in ("q", "text") if name in schemas and name not in named and draw(st.booleans())]
    fitting = {**FITTING, "doc": (*FITTING["doc"], *server.ids)}
    given = [(name, draw(valid(schemas[name], fitting.get(name, ())))) for name in named]
    pairs = [(n, one) for n, value in given for one in (value if isinstance(value, list) else [value])]
    if spoilt:
        ways = ["unknown", *(n for n in schemas if n not in named), *(f"twice {n}" for n in schemas if n in named)]
        way = draw(st.sampled_from(ways))
        if way == "unknown":
            pairs.append(("unknown" if "format" in schemas or draw(st.booleans()) else "format ", "1"))
        elif way.startswith("twice "):
            name = way.removeprefix("twice ")
            pairs.append((name, "x" * 40_000 if schemas[name]["type"] == "string" else "\0"))
        else:
            pairs.append((way, draw(invalid(schemas[way]))))
    return [(n, str(v).lower() if isinstance(v, bool) else str(v)) for n, v in pairs]


def holds(server: Server, path: str, method: str, answer: httpx.Response) -> None:
    """Checks an answer against what the OpenAPI says of its status."""
    responses = server.spec["paths"][path][method]["responses"]
    assert str(answer.status_code) in responses, (answer.status_code, answer.text[:500])
    kind = answer.headers["content-type"].partition(";")[0]
    content = responses[str(answer.status_code)]["content"]
    assert kind in content, (kind, list(content))
    if kind == "application/json":
        schema = {**content[kind]["schema"], "components": server.spec["components"]}
        jsonschema.Draft202012Validator(schema).validate(answer.json())
    assert answer.status_code not in (500, 503), answer.text[:500]


@pytest.mark.parametrize("path", GETS)
@settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(data=st.data())
def test_valid_parameters_are_answered_as_it_says(server: Server, path: str, data: st.DataObject) -> None:
    if path.endswith("/export") and data.draw(st.integers(1, EXAMPLES)) > OF_EXPORTS:
        return
    answer = server.ask(httpx.Request("GET", f"http://127.0.0.1{path}", params=data.draw(states(server, path, spoilt=False))))
    holds(server, path, "get", answer)
    assert answer.status_code in (200, 400, 409)


@pytest.mark.parametrize("path", GETS)
@settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(data=st.data())
def test_invalid_parameters_are_refused(server: Server, path: str, data: st.DataObject) -> None:
    answer = server.ask(httpx.Request("GET", f"http://127.0.0.1{path}", params=data.draw(states(server, path, spoilt=True))))
    holds(server, path, "get", answer)
    assert answer.status_code == 400 and len(answer.json()["error"]["message"]) > 10


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize("body", [b"", b"{", b"null", b"[1]", b'"text"', b'{"job": {}, "text": [], "set": 1, "id": "x"}'])
def test_bodies_that_are_none_are_refused(server: Server, path: str, body: bytes) -> None:
    headers = {"content-type": "application/json"}
    answer = server.ask(httpx.Request("POST", f"http://127.0.0.1{path}", content=body, headers=headers))
    holds(server, path, "post", answer)
    assert answer.status_code == 400


def test_the_document_is_sound_and_whole(server: Server) -> None:
    assert server.spec == server.ask(httpx.Request("GET", "http://127.0.0.1/api/v1/openapi.json")).json()
    for name, schema in server.spec["components"]["schemas"].items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object", name
    found = {(path, method) for path, own in server.spec["paths"].items() for method in own}
    assert found == {(p, "get") for p in GETS} | {(p, "post") for p in POSTS}
    names = [own["operationId"] for by in server.spec["paths"].values() for own in by.values()]
    assert len(set(names)) == len(names)
    for path in GETS:
        for told in server.spec["paths"][path]["get"]["parameters"]:
            assert told["description"], (path, told["name"])
            if "default" in told["schema"]:
                jsonschema.Draft202012Validator(told["schema"]).validate(told["schema"]["default"])
