"""Small indexes by the hundred: nothing here is about power cuts, so nothing waits for the disk."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from typecase.store import atomic


@pytest.fixture(autouse=True, scope="module")
def _no_waiting_for_the_disk() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(atomic, "sync_file", lambda path: None)
        yield
