"""What travels to a worker: answers and errors as they are, and machines that do not fit refused in words."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from typecase.engine import shipped
from typecase.errors import FixInput, NeedsExtra, WorkerLost


def added(step: int, n: int) -> int:
    return n + step


def raised(error: Exception, n: int) -> int:
    raise error


def sent(fn: Callable[[Any], Any], task: object) -> Any:
    """There and back."""
    return shipped.answer_of(shipped.run(shipped.pack(fn), pickle.dumps(task)))


def test_answers_come_back() -> None:
    assert [sent(partial(added, step), 1) for step in (1, 2, 2, 1)] == [2, 3, 3, 2]


@pytest.mark.parametrize(
    "error", [FixInput("three"), NeedsExtra("it", "lm"), WorkerLost("x"), KeyError("k"), OSError(2, "gone")]
)
def test_errors_come_back_as_themselves(error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        sent(partial(raised, error), 1)
    assert type(caught.value) is type(error) and caught.value.args == error.args
    assert "in raised" in str(caught.value.__cause__), "the worker's traceback lies behind it"


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    call = shipped.pack(partial(added, 1))
    here = shipped.version()
    monkeypatch.setattr(shipped, "version", lambda: "9.9")
    with pytest.raises(FixInput, match=rf"has typecase 9\.9, but the run was started by {here}"):
        shipped.answer_of(shipped.run(call, pickle.dumps(1)))


def test_a_machine_without_the_working_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "only on another machine"
    place.mkdir()
    monkeypatch.chdir(place)
    call = shipped.pack(partial(added, 1))
    monkeypatch.chdir(tmp_path)
    place.rmdir()
    with pytest.raises(FixInput, match=r"cannot enter .*only on another machine \(No such file"):
        shipped.answer_of(shipped.run(call, pickle.dumps(1)))


def test_a_module_that_a_machine_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("only_here")
    exec("def fn(n):\n    return n", module.__dict__)
    monkeypatch.setitem(sys.modules, "only_here", module)
    call = shipped.pack(module.fn)
    monkeypatch.delitem(sys.modules, "only_here")
    with pytest.raises(FixInput, match="has no module 'only_here'"):
        shipped.answer_of(shipped.run(call, pickle.dumps(1)))
