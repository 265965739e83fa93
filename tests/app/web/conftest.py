"""The real server over a small real set, and a real browser that opens it.

    def test_it(browser_page, here): browser_page.goto(here.url + "/documents")

`here` is a server started by the command line in a process of its own; `editable` another, over a copy, that may edit. A page
fails its test when the browser's console has an error. Pictures go to the folder TYPECASE_SHOTS, where it is set.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.app.web.served import make_served

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_DIRECT = "from typecase.app.cli import main; import sys; main(['serve', *sys.argv[1:]])"


@dataclass(frozen=True)
class Here:
    """A server under test: its address, the folder that it serves, its process, and what it has written."""

    url: str
    folder: Path
    process: subprocess.Popen[str]
    written: list[str]


@contextlib.contextmanager
def serving(folder: Path, *options: str, env: dict[str, str] | None = None) -> Iterator[Here]:
    """`typecase serve FOLDER --port 0 …` in a process of its own, until the block ends."""
    pytest.importorskip("nicegui")
    pytest.importorskip("fastapi")
    command = [sys.executable, "-c", _DIRECT, str(folder), "--port", "0", *options]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "MPLBACKEND": "agg", **(env or {})},
    )
    assert process.stdout is not None
    written: list[str] = []
    url = ""
    reader = threading.Thread(target=lambda out: written.extend(out), args=(process.stdout,), daemon=True)
    try:
        for line in process.stdout:
            written.append(line)
            found = re.match(r"open (http\S+)", line)
            if found:
                url = found.group(1).rstrip("/")
                break
        assert url, "".join(written)
        reader.start()
        _answers(url)
        yield Here(url, folder, process, written)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
        if reader.ident is not None:
            reader.join(10)
        process.stdout.close()


def _answers(url: str) -> None:
    import httpx

    for _ in range(200):
        with contextlib.suppress(httpx.TransportError):
            httpx.get(url.partition("?")[0] + "/api/v1/openapi.json", timeout=5)
            return
        time.sleep(0.05)
    raise AssertionError(f"{url} does not answer")


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with documents, ratings, tokens, an index and a run; read only by agreement."""
    return make_served(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="session")
def here(served: Path) -> Iterator[Here]:
    """A server that may not edit."""
    with serving(served) as started:
        yield started


@pytest.fixture
def editable(served: Path, tmp_path: Path) -> Iterator[Here]:
    """A server that may edit, over a copy of its own."""
    shutil.copytree(served, tmp_path / "work")
    with serving(tmp_path / "work", "--allow-edit") as started:
        yield started


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Debian's browser with an empty profile; it ends with its module, for its event loop would stay open in this process."""
    playwright = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM.exists():
        pytest.skip("no chromium: apt-get install chromium")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=str(CHROMIUM), args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture
def browser_page(chromium: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A page in a fresh context; errors in its console, or requests that leave this machine, fail the test."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.set_default_timeout(15_000)
    wrong: list[str] = []
    page.on("console", lambda m: wrong.append(f"console: {m.text}") if m.type == "error" else None)
    page.on("pageerror", lambda e: wrong.append(f"script: {e}"))
    page.on("request", lambda r: None if re.match(r"(https?|wss?)://127\.0\.0\.1|data:|blob:", r.url) else wrong.append(r.url))
    yield page
    shot(page, request.node.name)
    context.close()
    assert not wrong, wrong


def shot(page: Any, name: str) -> None:
    """A picture of the page, where somebody wants pictures."""
    folder = os.environ.get("TYPECASE_SHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        plain = re.sub(r"[^\w-]+", "_", name)
        page.screenshot(path=str(Path(folder) / f"{plain}.png"))
