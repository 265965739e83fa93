"""Safety: who may ask, from where, for what; what is too large or too much is refused in words, and nothing leaks."""

from __future__ import annotations

import dataclasses
import shutil
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.app.web.conftest import Here, serving
from typecase.app.web.catalogue import Catalogue
from typecase.app.web.registry import PAGES

pytest.importorskip("nicegui")
TOKEN = "a-token-of-this-test"
ACTIONS = [(p, a) for p in PAGES for a in p.twin.actions]


@pytest.fixture(scope="module")
def open_to_all(served: Path) -> Iterator[Here]:
    """A server on every address of the machine, which asks for a token."""
    with serving(served, "--host", "0.0.0.0", env={"TYPECASE_TOKEN": TOKEN}) as started:
        yield started


def local(here: Here) -> str:
    """Its address by the loopback name."""
    return f"http://127.0.0.1:{here.url.partition('?')[0].rstrip('/').rpartition(':')[2]}"


def test_it_binds_to_this_machine_alone_by_default(here: Here) -> None:
    assert here.url.startswith("http://127.0.0.1:")
    port = int(here.url.rpartition(":")[2])
    others = {i[4][0] for i in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {"127.0.0.1"}
    for address in others:
        with pytest.raises(OSError), socket.create_connection((address, port), timeout=2):
            pass


def test_beyond_this_machine_a_token_is_asked_for(open_to_all: Here) -> None:
    base = local(open_to_all)
    for path in ("/", "/documents", "/api/v1/overview", "/api/v1/openapi.json"):
        refused = httpx.get(base + path, timeout=60)
        assert refused.status_code == 401 and "token" in refused.json()["error"]["message"], path
        assert httpx.get(base + path, headers={"authorization": "Bearer wrong"}, timeout=60).status_code == 401
    assert httpx.get(f"{base}/api/v1/overview", headers={"authorization": f"Bearer {TOKEN}"}, timeout=60).status_code == 200
    first = httpx.get(f"{base}/documents?token={TOKEN}&set=docs", timeout=60)
    cookie = first.headers["set-cookie"]
    assert first.status_code == 303 and first.headers["location"] == "/documents?set=docs"
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert httpx.get(f"{base}/api/v1/overview", cookies=dict(first.cookies), timeout=60).status_code == 200


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_headers_let_nothing_in_or_out(here: Here, page: Any) -> None:
    told = httpx.get(f"{here.url}{page.path}", timeout=60)
    policy = told.headers["content-security-policy"]
    assert "default-src 'self'" in policy and "frame-ancestors 'none'" in policy and "http" not in policy
    assert told.headers["x-content-type-options"] == "nosniff" and told.headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize(("page", "action"), ACTIONS, ids=lambda x: x.name)
def test_other_pages_may_not_act_and_edits_are_off(here: Here, page: Any, action: Any) -> None:
    where = f"{here.url}/api/v1/{page.name}/{action.name}"
    for headers in ({"origin": "http://elsewhere.example"}, {"sec-fetch-site": "cross-site"}, {"origin": "null"}):
        refused = httpx.post(where, json={}, headers=headers, timeout=60)
        assert refused.status_code == 403 and "may not act here" in refused.json()["error"]["message"]
    assert httpx.get(f"{here.url}/api/v1/overview", headers={"host": "elsewhere.example"}, timeout=60).status_code == 400
    if action.edits:
        names = {f.name: f.type for f in dataclasses.fields(action.takes) if f.default is dataclasses.MISSING}
        body = {name: "x" if "str" in str(kind) else 1 for name, kind in names.items()}
        refused = httpx.post(where, json=body, timeout=60)
        assert refused.status_code == 400 and "edits are off" in refused.json()["error"]["message"]


@pytest.mark.parametrize("name", ["../tokens", "/etc/passwd", "docs/../../etc", "docs\\..", "tokens.bin", "file:///etc/passwd"])
@pytest.mark.parametrize("page", [p for p in PAGES if "set" in p.twin.query.__dataclass_fields__], ids=lambda p: p.name)
def test_only_what_was_served_has_a_name(here: Here, page: Any, name: str) -> None:
    there = {"doc": "0"} if "doc" in page.twin.query.__dataclass_fields__ else {}
    refused = httpx.get(f"{here.url}/api/v1/{page.name}", params={"set": name, **there}, timeout=60)
    assert refused.status_code == 400 and refused.json()["error"]["kind"] in ("NotFound", "BadQuery")


def test_links_that_lead_out_are_not_followed(served: Path, tmp_path: Path) -> None:
    work, outside = tmp_path / "work", tmp_path / "outside"
    shutil.copytree(served / "docs", work / "docs")
    shutil.copytree(served / "docs", outside / "docs")
    (work / "away").symlink_to(outside)
    assert [i.name for i in Catalogue([work]).of_kind("docs")] == ["docs"]


def test_conditions_read_no_files(here: Here) -> None:
    for where in (
        "source in (select 1)",
        "read_text('/etc/passwd') = ''",
        "1=1; drop table x",
        "1=1 -- x",
        "getenv('HOME') = ''",
    ):
        refused = httpx.get(f"{here.url}/api/v1/documents", params={"where": where}, timeout=60)
        assert refused.status_code == 400 and "root:" not in refused.text, where


def test_what_is_too_large_or_too_long_is_refused_in_words(here: Here) -> None:
    body = b'{"text": "' + b"x" * (5 << 20) + b'"}'
    refused = httpx.post(
        f"{here.url}/api/v1/attribute/read", content=body, headers={"content-type": "application/json"}, timeout=60
    )
    assert refused.status_code == 413 and "at most" in refused.json()["error"]["message"]
    for name, value in (("where", "x" * 3000), ("page", "9" * 30), ("size", "1000000"), ("source", "a\x00b")):
        refused = httpx.get(f"{here.url}/api/v1/documents", params={name: value}, timeout=60)
        assert refused.status_code == 400 and refused.json()["error"]["kind"] == "BadQuery", name
    assert httpx.get(f"{here.url}/api/v1/documents", params={"nothing": "1"}, timeout=60).status_code == 400
    assert httpx.get(f"{here.url}/api/v1/nothing", timeout=60).status_code == 404


def test_a_crowd_is_answered_or_told_to_try_again(here: Here) -> None:
    """Eighty, forty at once: every answer is whole, or says that there are too many."""

    def ask(n: int) -> tuple[int, str]:
        told = httpx.get(f"{here.url}/api/v1/documents", params={"page": 1 + n % 2}, timeout=60)
        return told.status_code, told.text

    with ThreadPoolExecutor(40) as pool:
        found = list(pool.map(ask, range(80)))
    assert {status for status, _ in found} <= {200, 503} and any(status == 200 for status, _ in found)
    assert all("Traceback" not in text for _, text in found)
    assert len({text for n, (status, text) in enumerate(found) if status == 200 and n % 2 == 0}) <= 1
