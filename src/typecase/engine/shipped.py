"""What travels to a worker that this process did not start, and what comes back.

    pack(fn)                 -> bytes    the function; where its modules are found; the folder that relative paths begin in
    run(call, task)          -> bytes    on the worker: the answer, or the error that the function raised
    answer_of(bytes)         -> value    here: the answer, or that error raised as itself, with the worker's traceback behind it

A worker keeps the last function it was sent, so that what comes with it (a decision, a stage) is unpickled once, and
modules keep what they hold (a model) from task to task, as in a process of `Local`.

Errors: FixInput where a machine does not see the working folder or has another version of typecase. Price: a pickle of the
function a map, a pickle of each task and answer.
"""

from __future__ import annotations

import os
import pickle
import platform
import sys
import traceback
from collections.abc import Callable
from functools import cache
from importlib import metadata
from typing import Any

from typecase.errors import FixInput

Dumps = Callable[[Any], bytes]


def pack(fn: Callable[[Any], Any], dumps: Dumps = pickle.dumps) -> bytes:
    """`fn` as bytes, with the import path and the working folder of this process. `dumps` may pickle more than the
    standard one does, if `pickle.loads` reads it."""
    return pickle.dumps((tuple(sys.path), os.getcwd(), version(), dumps(fn)))  # noqa: PTH109


def run(call: bytes, task: bytes, dumps: Dumps = pickle.dumps) -> bytes:
    """Calls what `pack` made with a pickled task; never raises for what the function raises."""
    try:
        return dumps((True, _opened(call)(pickle.loads(task))))
    except BaseException as error:  # noqa: BLE001  # it travels to the one who asked
        return _packed_error(error, dumps)


def answer_of(answer: bytes) -> Any:
    """The value that `run` came to, or raises the error of the worker as it was raised there."""
    well, value = pickle.loads(answer)
    if well:
        return value
    error, trace = value
    raise error from _OnWorker(trace)


class _OnWorker(Exception):
    """Shows the worker's traceback as the cause of its error."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def _packed_error(error: BaseException, dumps: Dumps) -> bytes:
    trace = f"on {platform.node()}, process {os.getpid()}:\n{''.join(traceback.format_exception(error))}"
    try:
        data = dumps((False, (error, trace)))
        pickle.loads(data)
    except Exception:  # noqa: BLE001  # whatever its pickling raises: say what it was
        return dumps((False, (RuntimeError(f"{type(error).__name__}: {error}"), trace)))
    return data


_last: list[tuple[bytes, Callable[[Any], Any]]] = []
"""The function of the running map, and the bytes that it came in."""


def _opened(call: bytes) -> Callable[[Any], Any]:
    if not _last or _last[0][0] != call:
        _last[:] = [(call, _unpacked(call))]
    return _last[0][1]


def _unpacked(call: bytes) -> Callable[[Any], Any]:
    path, folder, sent_by, fn = pickle.loads(call)
    if sent_by != version():
        raise FixInput(
            f"{platform.node()} has typecase {version()}, but the run was started by {sent_by}: install one version everywhere"
        )
    try:
        os.chdir(folder)
    except OSError as error:
        raise FixInput(
            f"{platform.node()} cannot enter {folder} ({error.strerror}): work in a folder that every machine sees under the"
            " same name"
        ) from None
    sys.path.extend(place for place in path if place not in sys.path)
    try:
        opened: Callable[[Any], Any] = pickle.loads(fn)
    except ModuleNotFoundError as error:
        raise FixInput(
            f"{platform.node()} has no module {error.name!r}: install it there, or keep the recipe and its modules in a folder"
            " that every machine sees"
        ) from error
    return opened


@cache
def version() -> str:
    """The version of typecase that runs here."""
    return metadata.version("typecase")
