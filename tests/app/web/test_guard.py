"""The guard, asked in this process: who may read and act, what may be named, how much may be asked, what is never told."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest

from tests.app.web.conftest import Here
from typecase.app.web import api
from typecase.app.web.catalogue import Catalogue
from typecase.app.web.desk import Desk, Limits
from typecase.app.web.registry import PAGES, Action, Page
from typecase.app.web.safety import Guard, is_loopback
from typecase.app.web.server import Settings, make_app
from typecase.app.web.state import ask, read_query
from typecase.errors import FixInput, NotFound, StaleEdit

pytest.importorskip("fastapi")
URL = "http://127.0.0.1:8300"


@dataclasses.dataclass(frozen=True)
class Asked:
    """What the toy is asked: `how` it is to answer."""

    how: str = ask("", "how to answer", longest=50)
    seconds: float = ask(0.0, "how long that takes", low=0, high=5)


@dataclasses.dataclass(frozen=True)
class Told:
    """What the toy answers."""

    said: str


def toy(monkeypatch: pytest.MonkeyPatch) -> list[Asked]:
    """Puts a page `toy` into the JSON side alone: it waits, crashes and edits as it is asked; what it did is kept."""
    done: list[Asked] = []

    def answer(desk: Desk, query: Asked) -> Told:
        time.sleep(query.seconds)
        if query.how == "crash":
            raise RuntimeError("the toy is broken")
        if query.how == "stale":
            raise StaleEdit("somebody was quicker")
        return Told("\x00" if query.how == "zero" else query.how)

    def edit(desk: Desk, asked: Asked) -> Told:
        done.append(asked)
        return Told(asked.how)

    module: Any = ModuleType("toy")
    module.Query, module.Answer, module.answer = Asked, Told, answer
    module.python = module.command = lambda desk, query: ""
    module.ACTIONS = (Action("edit", Asked, Told, edit, "edits", edits=True), Action("do", Asked, Told, edit, "does"))
    monkeypatch.setitem(sys.modules, "typecase.app.web.answers.toy", module)
    monkeypatch.setattr(api, "PAGES", (*PAGES, Page("toy", "Toy", "", "z", "A toy.")))
    return done


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[Asked]:
    return toy(monkeypatch)


def app_of(folder: Path, settings: Settings | None = None, **options: Any) -> Guard:
    return make_app(Desk(Catalogue([folder]), **options), settings or Settings(), pages=False)


def asking(app: Guard, *requests: httpx.Request) -> list[httpx.Response]:
    """The answers to some requests at once; what the application raises beyond its answer is left aside, as a server does."""

    async def ask_all() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport) as client:
            return list(await asyncio.gather(*(client.send(r) for r in requests)))

    return asyncio.run(ask_all())


def get(path: str, **headers: str) -> httpx.Request:
    return httpx.Request("GET", URL + path, headers={k.replace("_", "-"): v for k, v in headers.items()})


def post(path: str, body: bytes = b"{}", **headers: str) -> httpx.Request:
    named = {"content-type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
    return httpx.Request("POST", URL + path, content=body, headers=named)


def is_refusal(answer: httpx.Response, status: int, words: str = "") -> bool:
    """Whether an answer is an error of ours: its status, its words, and nothing of the inside."""
    told = answer.json()["error"]
    assert (answer.status_code, told["status"]) == (status, status), answer.text
    assert "Traceback" not in answer.text and ".py" not in answer.text
    return words in told["message"]


# Who may reach it.


def test_others_need_a_token() -> None:
    assert Settings().host == "127.0.0.1" and Settings().token is None
    Settings().check()
    for host in ("localhost", "127.0.0.2", "::1", "[::1]"):
        assert is_loopback(host)
        Settings(host).check()
    for host in ("0.0.0.0", "::", "192.168.1.4", "example.org", "127.0.0.1.example.org", ""):
        assert not is_loopback(host)
        with pytest.raises(FixInput, match="token"):
            Settings(host).check()
        Settings(host, token="secret").check()
    for token in ("", "  "):
        with pytest.raises(FixInput, match="empty"):
            Settings(token=token).check()


def test_a_token_comes_once_and_is_a_cookie_from_then_on(tmp_path: Path) -> None:
    token = "päss; wörd\u2028"
    app = app_of(tmp_path, Settings("0.0.0.0", token=token))
    (first,) = asking(app, httpx.Request("GET", URL + "/documents", params={"token": token, "set": "a b"}))
    assert first.status_code == 303 and first.headers["location"] == "/documents?set=a+b"
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and "wörd" not in cookie
    kept = cookie.partition(";")[0]
    plain = httpx.BasicAuth("anybody", token)
    basic = next(plain.auth_flow(get("/api/v1/overview"))).headers["authorization"]
    known = [get("/api/v1/overview", cookie=kept), get("/api/v1/overview", cookie=f"a=b; {kept}; c")]
    known += [get("/api/v1/overview", authorization=basic)]
    assert [a.status_code for a in asking(app, *known)] == [200, 200, 200]
    wrong = [
        *(get("/api/v1/overview"), get("/api/v1/overview?token="), get("/api/v1/overview?token=wrong")),
        *(get("/api/v1/overview", cookie="typecase="), get("/api/v1/overview", cookie=kept[:-1])),
        *(get("/api/v1/overview", authorization=a) for a in ("", "Bearer", "Bearer x", "Basic", "Basic !!", "Digest x")),
        *(get("/api/v1/openapi.json"), get("/nothing"), post("/api/v1/runs/cancel", b'{"job": 1}')),
    ]
    answers = asking(app, *wrong)
    assert all(is_refusal(a, 401, "token") for a in answers)
    asks = [a.headers.get("www-authenticate", "").startswith("Basic") for a in answers]
    assert asks == [not a.url.path.startswith("/api/") for a in answers], "a browser asks for it, a program is told"


@pytest.mark.parametrize(
    "path", ["//evil.example", "/%5Cevil.example", "/%0d%0aSet-Cookie:%20a=b", "/a%3Fb%23c", "/%2F%2Fevil"]
)
def test_signing_in_leads_nowhere_else(tmp_path: Path, path: str) -> None:
    app = app_of(tmp_path, Settings(token="secret"))
    (answer,) = asking(app, get(path + "?token=secret"))
    where = answer.headers["location"]
    assert answer.status_code == 303 and where[0] == "/" and where[1:2] not in ("/", "\\") and "\r" not in where
    assert httpx.URL(URL).join(where).host == "127.0.0.1"


# Who may act.


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "evil.example:8300", "", "[::2]", "a@127.0.0.1", "["]
)
def test_a_foreign_name_of_the_server_is_refused(tmp_path: Path, host: str) -> None:
    app = app_of(tmp_path, Settings(hosts=("workbench.example",)))
    (answer,) = asking(app, get("/api/v1/overview", host=host))
    assert is_refusal(answer, 400, "not called")


@pytest.mark.parametrize("host", ["127.0.0.1:8300", "LOCALHOST:1", "[::1]:8300", "workbench.example", "Workbench.Example:80"])
def test_its_own_names_are_answered(tmp_path: Path, host: str) -> None:
    app = app_of(tmp_path, Settings(hosts=("workbench.example",)))
    assert asking(app, get("/api/v1/overview", host=host))[0].status_code == 200


def test_pages_of_others_cannot_act(tmp_path: Path, done: list[Asked]) -> None:
    app = app_of(tmp_path, allow_edit=True)
    foreign = [
        *({"origin": o} for o in ("http://evil.example", "null", "http://127.0.0.1:9999", "http://[", "", "127.0.0.1:8300")),
        *({"sec_fetch_site": s} for s in ("cross-site", "same-site")),
        {"origin": "http://evil.example", "content_type": "text/plain"},
    ]
    answers = asking(app, *(post("/api/v1/toy/edit", b'{"how": "foreign"}', **h) for h in foreign))
    assert all(is_refusal(a, 403, "may not act here") for a in answers) and not done
    own = [{}, {"origin": URL}, {"sec_fetch_site": "same-origin"}]
    answers = asking(app, *(post("/api/v1/toy/edit", b'{"how": "own"}', **h) for h in own))
    assert [a.status_code for a in answers] == [200, 200, 200] and {d.how for d in done} == {"own"}


def test_sockets_of_others_are_closed(tmp_path: Path) -> None:
    app = app_of(tmp_path)

    async def opened(origin: str) -> str:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            return {"type": "websocket.connect"}

        headers = [(b"host", b"127.0.0.1:8300"), (b"origin", origin.encode())]
        scope = {"type": "websocket", "path": "/_nicegui_ws/socket.io", "query_string": b"", "headers": headers}
        await app(scope, receive, send)
        return f"{sent[0]['type']} {sent[0].get('code')}"

    assert asyncio.run(opened("http://evil.example")) == "websocket.close 1008"


def test_nothing_is_edited_where_edits_are_off(tmp_path: Path, done: list[Asked]) -> None:
    app = app_of(tmp_path)
    edit, do = asking(app, post("/api/v1/toy/edit"), post("/api/v1/toy/do", b'{"how": "do"}'))
    assert is_refusal(edit, 400, "--allow-edit") and do.status_code == 200
    assert [d.how for d in done] == ["do"]
    for page in PAGES:
        for action in page.twin.actions:
            if action.edits:
                with pytest.raises(FixInput, match="--allow-edit"):
                    api.perform(Desk(Catalogue([tmp_path])), action, None)


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "TRACE", "CONNECT"])
def test_other_methods_do_nothing(tmp_path: Path, method: str) -> None:
    (answer,) = asking(app_of(tmp_path), httpx.Request(method, URL + "/api/v1/overview"))
    assert is_refusal(answer, 405)


def test_every_answer_keeps_itself_to_this_server(here: Here) -> None:
    for path in ("/", "/api/v1/overview", "/nothing", "/api/v1/nothing"):
        headers = httpx.get(here.url + path, timeout=60).headers
        assert "default-src 'self'" in headers["content-security-policy"], path
        assert headers["x-frame-options"] == "DENY" and headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers


# What may be named.

OUTSIDE = (
    "..",
    "../docs",
    "docs/../docs",
    "/etc/passwd",
    "/",
    "docs/",
    "./docs",
    "%2e%2e",
    "docs\\..",
    "~",
    "file:///etc/passwd",
)


def open_one(page: Page) -> dict[str, str]:
    """The state of a page that shows one thing, where names of other things are looked at."""
    return {f.name: "1" for f in dataclasses.fields(page.twin.query) if f.name in ("doc", "token")}


def test_no_parameter_names_a_path(served: Path) -> None:
    """Every parameter of every page that names a thing, with names that lead out: never an answer from there."""
    desk = Desk(Catalogue([served]))
    for page in PAGES:
        for field in dataclasses.fields(page.twin.query):
            if field.name in ("set", "index", "run", "losses", "audit", "selection", "of", "job"):
                for name in ("../docs", str(served / "docs"), "docs/part-00000.parquet"):
                    with pytest.raises(FixInput):
                        page.twin.answer(desk, read_query(page.twin.query, {**open_one(page), field.name: name}))
    for name in OUTSIDE:
        with pytest.raises(NotFound):
            desk.catalogue.get(name)


def test_addresses_lead_to_no_file(here: Here) -> None:
    port = int(here.url.rpartition(":")[2])
    ways = [
        "/../../etc/passwd",
        "/..%2f..%2f..%2fetc%2fpasswd",
        "//etc/passwd",
        "/api/v1/..%2f..%2fetc%2fpasswd",
        "/_nicegui/../x",
    ]
    version = httpx.get(here.url, timeout=60).text.partition("/_nicegui/")[2].partition("/")[0]
    for kind in ("static", "components", "libraries", "resources/x", "esm/x"):
        ways += [f"/_nicegui/{version}/{kind}/{up * 12}etc/passwd" for up in ("../", "..%2f", "%2e%2e/")]
    for way in ways:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as raw:
            raw.sendall(f"GET {way} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
            answer = b"".join(iter(lambda: raw.recv(65536), b""))
        assert b"root:" not in answer and b" 200 " not in answer.partition(b"\r\n")[0], way


def test_links_that_lead_out_are_not_followed(served: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "losses.csv").write_text("step,loss\n0,1.0\n")
    (secret / "run.json").write_text((served / "run.json").read_text())
    for kind in (".bin", ".idx"):
        (secret / f"pair{kind}").write_bytes(next((served / "tokens").glob(f"*{kind}")).read_bytes())
    for name in ("losses.csv", "run.json", "pair.bin", "pair.idx"):
        (tmp_path / "served").mkdir(exist_ok=True)
        (tmp_path / "served" / name).symlink_to(secret / name)
    (tmp_path / "served" / "half.idx").write_bytes((secret / "pair.idx").read_bytes())
    (tmp_path / "served" / "half.bin").symlink_to(secret / "pair.bin")
    (tmp_path / "served" / "folder").symlink_to(served)
    (tmp_path / "served" / "own.csv").write_text("")
    (tmp_path / "served" / "loss.csv").symlink_to(tmp_path / "served" / "own.csv")
    kept = tmp_path / "served" / "docs"
    kept.mkdir()
    for file in (served / "docs").iterdir():
        (kept / file.name).symlink_to(file)
    items = Catalogue([tmp_path / "served"]).items
    assert {(i.name, i.kind, bool(i.note)) for i in items} == {("loss.csv", "losses", False), ("docs", "unknown", True)}
    assert "leads out" in next(i.note for i in items if i.name == "docs")
    both = Catalogue([tmp_path / "served", served, secret])
    assert {"docs", "losses", "run", "tokens"} <= {i.kind for i in both.items} and not any(i.note for i in both.items)


# How much may be asked.


def test_bodies_are_bounded_whatever_they_say_of_their_length(tmp_path: Path, done: list[Asked]) -> None:
    app = app_of(tmp_path, limits=Limits(body_bytes=1000))

    async def endless() -> Any:
        for _ in range(100):
            yield b" " * 100

    chunked = httpx.Request("POST", URL + "/api/v1/toy/do", content=endless(), headers={"content-type": "application/json"})
    big, unsaid = asking(app, post("/api/v1/toy/do", b" " * 1001), chunked)
    assert is_refusal(big, 413, "1,000") and is_refusal(unsaid, 413, "1,000") and not done
    for length in ("many", "-1", "1e3", "\u0661"):
        (odd,) = asking(app, httpx.Request("POST", URL + "/api/v1/toy/do", headers=[(b"content-length", length.encode())]))
        assert is_refusal(odd, 400, "length")
    (just,) = asking(app, post("/api/v1/toy/do", b"{}" + b" " * 998))
    assert just.status_code == 200


def test_values_and_rows_are_bounded(served: Path) -> None:
    app = app_of(served)
    for page in PAGES:
        for field in dataclasses.fields(page.twin.query):
            if field.type in ("str", str) and field.metadata["longest"] < 60_000:
                long = {field.name: "x" * (field.metadata["longest"] + 1)}
                (answer,) = asking(app, httpx.Request("GET", f"{URL}/api/v1/{page.name}", params=long))
                assert is_refusal(answer, 400, "characters"), (page.name, field.name)
            if field.name in ("size", "top", "limit"):
                (answer,) = asking(app, get(f"/api/v1/{page.name}?{field.name}=1000000000"))
                assert is_refusal(answer, 400), page.name
    many = "&".join(f"kind={n}" for n in range(5000))
    assert is_refusal(asking(app, get(f"/api/v1/overview?{many}"))[0], 400, "twice")


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'{"how": 1}', b'{"seconds": 1e999}', b"[" * 5000, b"\xff\xfe", b'{"x":"\\ud800"}']
)
def test_bodies_that_are_none_are_refused(tmp_path: Path, done: list[Asked], body: bytes) -> None:
    (answer,) = asking(app_of(tmp_path), post("/api/v1/toy/do", body))
    assert answer.status_code in (200, 400) and (answer.status_code == 200 or is_refusal(answer, 400, "body"))


def test_too_many_at_once_are_told_to_come_again(tmp_path: Path, done: list[Asked]) -> None:
    app = app_of(tmp_path, limits=Limits(at_once=1, waiting=2))
    answers = asking(app, *(get("/api/v1/toy?seconds=0.2") for _ in range(6)))
    assert sorted(a.status_code for a in answers) == [200, 200, 200, 503, 503, 503]
    assert all(is_refusal(a, 503, "try again") for a in answers if a.status_code == 503)
    assert asking(app, get("/api/v1/toy"))[0].status_code == 200, "and then it goes on"


def test_an_answer_that_takes_too_long_is_given_up(tmp_path: Path, done: list[Asked]) -> None:
    app = app_of(tmp_path, limits=Limits(seconds=0.1))
    began = time.monotonic()
    (answer,) = asking(app, get("/api/v1/toy?seconds=1"))
    assert is_refusal(answer, 503, "0.1 seconds") and time.monotonic() - began < 3


# What an answer never tells.


def test_faults_of_ours_are_said_without_their_traces(tmp_path: Path, done: list[Asked], caplog: Any) -> None:
    app = app_of(tmp_path)
    crash, stale, zero = asking(app, *(get(f"/api/v1/toy?how={how}") for how in ("crash", "stale", "zero")))
    assert is_refusal(crash, 500, "please report it") and is_refusal(stale, 409) and zero.json() == {"said": "\x00"}
    assert any(r.exc_info for r in caplog.records), "the trace is in the log"
    for path in ("/api/v1/nothing", "/api/v1/", "/api/v1/toy/nothing"):
        assert is_refusal(asking(app, get(path))[0], 404)


def test_a_fault_beyond_the_answers_is_one_of_ours_too(tmp_path: Path, done: list[Asked], monkeypatch: Any) -> None:
    def broken_plain(value: Any) -> Any:
        raise RuntimeError(f"inside {__file__}")

    monkeypatch.setattr(api, "plain", broken_plain)
    (answer,) = asking(app_of(tmp_path), get("/api/v1/toy"))
    assert is_refusal(answer, 500, "please report it") and "inside" not in answer.text


def test_damaged_data_is_said_without_a_trace(served: Path, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for file in (served / "docs").iterdir():
        data = file.read_bytes()
        (tmp_path / "docs" / file.name).write_bytes(data if file.suffix == ".json" else data[: len(data) // 2])
    app = app_of(tmp_path)
    for page, answer in zip(PAGES, asking(app, *(get(f"/api/v1/{p.name}") for p in PAGES)), strict=True):
        assert answer.status_code == 200 or is_refusal(answer, answer.status_code), page.name
    assert asking(app, get("/api/v1/documents"))[0].status_code in (400, 500)


def test_pages_at_fault_are_said_without_a_trace(here: Here) -> None:
    for path in ("/documents?page=x", "/audit?nothing=1", "/nothing", "/documents/nothing", "/search?where=1"):
        answer = httpx.get(here.url + path, timeout=60)
        assert answer.status_code in (200, 404) and "Traceback" not in answer.text, path
