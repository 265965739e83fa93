"""Fifty readers during edits: whoever reads sees the set as it was or as it is, whole."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.app.web.conftest import Here, serving
from typecase.app.web.answers.edit import Back, Make
from typecase.app.web.client import Client

pytest.importorskip("nicegui")


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
