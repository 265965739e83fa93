"""Lock: one writer of a journal at a time; the second is told who the first is.

A file lock that the system lets go of when its holder dies, however it dies; what the file says is for the message alone.
"""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path

import orjson

from typecase.errors import Conflict, FixInput, TryAgain


class Lock:
    """Holds `path` until it is released. Raises Conflict when someone else does, FixInput when the folder is read-only."""

    def __init__(self, path: Path, author: str, time: str) -> None:
        self.path = path
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise FixInput(
                f"{path} cannot be written ({error.strerror}): make its folder writable, or name another one for the journal"
            ) from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = holder_of(path)
            os.close(self._fd)
            raise Conflict(
                f"the journal {path.with_suffix('.sqlite')} is being written by {other}; wait until that ends, or end it"
            ) from None
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "author": author, "since": time}
        try:
            os.ftruncate(self._fd, 0)
            os.write(self._fd, orjson.dumps(holder))
        except OSError as error:
            os.close(self._fd)
            raise TryAgain(f"{path} cannot be written ({error.strerror}): free some space and repeat") from None

    def release(self) -> None:
        """Lets go; a second call does nothing."""
        if self._fd >= 0:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = -1


def holder_of(path: Path) -> str:
    """Who wrote himself into the lock file `path`."""
    try:
        row = orjson.loads(path.read_bytes())
        return f"{row['author']} (process {row['pid']} on {row['host']}, since {row['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
