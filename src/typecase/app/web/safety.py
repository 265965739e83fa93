"""Safety: what every request passes before it is answered.

    Host      is a name of this server                      else 400   a foreign name that leads here (DNS rebinding) is refused
    Origin    of anything but GET and of websockets         else 403   is this server: other pages cannot act for the reader
    token     where one is set: ?token= once, or as the     else 401   then a cookie, HttpOnly, SameSite=Strict;
              password that the browser asks for                       programs send a Bearer
    body      at most so many bytes                         else 413

Every answer carries a Content-Security-Policy that lets nothing in or out but this server, and may not be framed. The page
library compiles its templates in the browser, which needs 'unsafe-eval' and inline scripts; texts of documents are therefore
put in as text or escaped, never as markup (see `tokens_html`).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import orjson

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "typecase"
LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1", "[::1]"))
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; "
    "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


def is_loopback(host: str) -> bool:
    """Whether a server bound to `host` can be reached from this machine alone."""
    if host.lower() in LOOPBACK:
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Guard:
    """The first layer of the server; see the module docstring.

    `hosts` are the names by which the server may be called. Without a token nobody is asked for one.
    """

    def __init__(self, app: App, *, hosts: Iterable[str], token: str | None = None, body_bytes: int = 4 << 20) -> None:
        self.app, self.token, self.body_bytes = app, token, body_bytes
        self.hosts = frozenset(h.lower().strip("[]") for h in hosts) | frozenset(h.strip("[]") for h in LOOPBACK)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
        refused = self._refused(scope, headers)
        if refused is not None:
            await _refuse(scope, send, *refused)
            return
        if scope["type"] == "http" and self.token is not None and (away := self._signed_in(scope, headers)) is not None:
            await _redirect(send, away, _ticket(self.token))
            return
        if scope["type"] == "websocket":
            await self.app(scope, receive, _with_headers(send))
        else:
            await self._answer(scope, receive, _with_headers(send))

    def _refused(self, scope: Scope, headers: MutableMapping[str, str]) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if _name_of(host) not in self.hosts:
            return 400, f"this server is not called {host!r}: open the address that it printed, or add --host-name"
        acts = scope["type"] == "websocket" or scope["method"] not in ("GET", "HEAD", "OPTIONS")
        origin = headers.get("origin")
        if acts and origin is not None and _place_of(origin) != host.lower():
            return 403, f"a page of {origin!r} may not act here: use the pages of this server"
        if acts and origin is None and headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return 403, "a page of another site may not act here: use the pages of this server"
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()):
            return 400, f"the length of the body is {length!r}: it is a number of bytes"
        if int(length) > self.body_bytes:
            return 413, f"the body has {length} bytes: at most {self.body_bytes:,} are read"
        if self.token is not None and not self._known(scope, headers):
            return 401, "this server asks for its token: open the address that it printed, or send it as a Bearer"
        return None

    def _known(self, scope: Scope, headers: MutableMapping[str, str]) -> bool:
        assert self.token is not None
        asked = dict(parse_qsl(scope["query_string"].decode("latin-1"))).get("token", "")
        given = [*_credentials(headers.get("authorization", "")), asked]
        known = hmac.compare_digest(_cookie(headers.get("cookie", "")).encode(), _ticket(self.token).encode())
        return known or any(hmac.compare_digest(one.encode(), self.token.encode()) for one in given)

    def _signed_in(self, scope: Scope, headers: MutableMapping[str, str]) -> str | None:
        """Where to go with the cookie and without the token in the address, when it came there or as a password."""
        told = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        fresh = headers.get("authorization", "").lower().startswith("basic ") and not _cookie(headers.get("cookie", ""))
        if scope["method"] != "GET" or scope["path"].startswith("/api/") or not ("token" in dict(told) or fresh):
            return None
        rest = urlencode([(k, v) for k, v in told if k != "token"])
        path = "/" + quote(str(scope["path"]).lstrip("/\\"))
        return f"{path}?{rest}" if rest else path

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets the application answer; a body that goes on beyond its bound is refused instead."""
        seen, started = 0, False

        async def bounded() -> MutableMapping[str, Any]:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            return message if seen <= self.body_bytes else {"type": "http.disconnect"}

        async def sending(message: MutableMapping[str, Any]) -> None:
            nonlocal started
            if seen <= self.body_bytes or started:
                started = True
                await send(message)

        try:
            await self.app(scope, bounded, sending)
        except Exception:
            if seen <= self.body_bytes:
                raise
        if seen > self.body_bytes and not started:
            await _refuse(scope, send, 413, f"the body goes on: at most {self.body_bytes:,} bytes are read")


def _name_of(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.rpartition(":")[0].lower() if host.rpartition(":")[2].isdigit() and ":" in host else host.lower()


def _cookie(text: str) -> str:
    """Our cookie among those of a header; what other servers of this host have put there is passed over."""
    pairs = (part.strip().partition("=") for part in text.split(";"))
    return next((value for name, _, value in pairs if name == COOKIE), "")


def _ticket(token: str) -> str:
    """What the cookie holds: the token cannot be read from it, and any token can be kept."""
    return hashlib.sha256(b"typecase cookie " + token.encode()).hexdigest()


def _credentials(header: str) -> list[str]:
    """The Bearer, or the password of a Basic header, whatever the name is."""
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return [value.strip()]
    if scheme.lower() == "basic":
        try:
            return [base64.b64decode(value.strip(), validate=True).decode().partition(":")[2]]
        except (binascii.Error, UnicodeDecodeError):
            return []
    return []


def _place_of(origin: str) -> str:
    """Host and port of an origin; nothing for one that is none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _with_headers(send: Send) -> Send:
    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            names = {name for name, _ in HEADERS}
            own = [(k, v) for k, v in message.get("headers", []) if k.lower() not in names]
            message = {**message, "headers": [*own, *HEADERS]}
        await send(message)

    return sending


async def _refuse(scope: Scope, send: Send, status: int, words: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": words[:120]})
        return
    body = orjson.dumps({"error": {"kind": "Refused", "message": words, "status": status}})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *HEADERS]
    if status == 401 and not str(scope["path"]).startswith("/api/"):
        headers.append((b"www-authenticate", b'Basic realm="typecase: the token as password", charset="UTF-8"'))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _redirect(send: Send, to: str, ticket: str) -> None:
    cookie = f"{COOKIE}={ticket}; Path=/; HttpOnly; SameSite=Strict"
    headers = [(b"location", to.encode()), (b"set-cookie", cookie.encode()), (b"cache-control", b"no-store"), *HEADERS]
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
