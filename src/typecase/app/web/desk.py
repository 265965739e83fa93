"""The desk: what every page works with. The catalogue, readers that are kept open, jobs, and what is allowed.

    with desk.borrow(("search", item.name), opener, stamp) as search: ...

A reader is lent to one request at a time, so readers need not be safe for threads; a few idle ones are kept for the next. The
stamp (sizes and times of the files) is part of the key: after an edit the next request opens the set as it is then.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from typecase.app.search.searching import Search, open_search
from typecase.app.web.catalogue import Catalogue, Item
from typecase.app.web.jobs import Jobs
from typecase.errors import FixInput
from typecase.store.journal.opening import journal_path, open_as_edited
from typecase.store.timeline.timeline import Timeline, open_timeline
from typecase.store.tokens.store import TokenStore


class Closing(Protocol):
    def close(self) -> None: ...


R = TypeVar("R", bound=Closing)
T = TypeVar("T")
MOST_KNOWN = 64


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one request: seconds for an answer, bytes of a body, rows of a page, tokens of a document, at work at once."""

    seconds: float = 30.0
    body_bytes: int = 4 << 20
    rows: int = 200
    tokens: int = 4000
    at_once: int = 8
    waiting: int = 128
    export_rows: int = 1_000_000


class Desk:
    """The served things with all that pages share."""

    def __init__(
        self, catalogue: Catalogue, *, allow_edit: bool = False, limits: Limits | None = None, most_idle: int = 16
    ) -> None:
        self.catalogue, self.allow_edit, self.limits = catalogue, allow_edit, limits or Limits()
        self.jobs = Jobs()
        self._idle: OrderedDict[Hashable, list[Closing]] = OrderedDict()
        self._lock, self._most_idle = threading.Lock(), most_idle
        self._known: OrderedDict[Hashable, tuple[Hashable, Any]] = OrderedDict()
        self._making: dict[Hashable, threading.Lock] = {}

    def need_edit(self) -> None:
        """Raises FixInput where edits are off."""
        if not self.allow_edit:
            raise FixInput("edits are off here: start `typecase serve` with --allow-edit to change what is served")

    @contextmanager
    def borrow(self, key: Hashable, opener: Callable[[], R], stamp: Hashable = ()) -> Iterator[R]:
        """A reader for this request alone; one that failed is closed, another goes back for the next request."""
        full = (key, stamp)
        reader: Any = self._taken(full)
        if reader is None:
            reader = opener()
        try:
            yield reader
        except BaseException:
            reader.close()
            raise
        self._returned(full, reader)

    def _taken(self, full: Hashable) -> Closing | None:
        with self._lock:
            waiting = self._idle.get(full)
            return waiting.pop() if waiting else None

    def _returned(self, full: Hashable, reader: Closing) -> None:
        with self._lock:
            self._idle.setdefault(full, []).append(reader)
            self._idle.move_to_end(full)
            out: list[Closing] = []
            while sum(map(len, self._idle.values())) > self._most_idle:
                oldest = next(iter(self._idle))
                out += self._idle[oldest][:1]
                del self._idle[oldest][:1]
                if not self._idle[oldest]:
                    del self._idle[oldest]
        for one in out:
            one.close()

    def remember(self, key: Hashable, stamp: Hashable, make: Callable[[], T]) -> T:
        """What `make` gives, made once for a stamp; a few dozen such values are kept. Meant for counts and lists of names."""
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        with making:
            known = self._known.get(key)
            if known is not None and known[0] == stamp:
                value: T = known[1]
                return value
            value = make()
            with self._lock:
                self._known[key] = (stamp, value)
                self._known.move_to_end(key)
                while len(self._known) > MOST_KNOWN:
                    gone, _ = self._known.popitem(last=False)
                    self._making.pop(gone, None)
            return value

    @contextmanager
    def tokens(self, item: Item) -> Iterator[TokenStore]:
        """A token set as its journal says it is now."""
        with self.borrow(("tokens", item.path), lambda: open_as_edited(item.path), stamp_of(item)) as store:
            yield store

    @contextmanager
    def search(self, item: Item, run: Item | None = None) -> Iterator[Search]:
        """An index over its token set as its journal says it is now, with the steps of `run`."""
        tokens = self.set_of(item)
        name = f"{tokens.path}@" if tokens is not None and tokens.journal is not None else None

        def opened() -> Search:
            return open_search(item.path, tokens=name, run=run.path if run is not None else None)

        stamp = (stamp_of(item), stamp_of(tokens) if tokens else (), stamp_of(run) if run else ())
        with self.borrow(("search", item.path, run.path if run else None), opened, stamp) as search:
            yield search

    @contextmanager
    def timeline(self, run: Item) -> Iterator[Timeline]:
        """A run laid over its sets, as their journals say they are now."""
        stamps = tuple(stamp_of(i) for i in self.catalogue.of_kind("tokens") if i.journal is not None)
        with self.borrow(
            ("timeline", run.path), lambda: open_timeline(run.path, edited=True), (stamp_of(run), stamps)
        ) as timeline:
            yield timeline

    def set_of(self, index: Item) -> Item | None:
        """The token set that an index was made from, where it was served."""
        for parent in index.manifest().parents:
            if parent.kind == "tokens":
                place = (index.path / parent.path).resolve()
                for item in self.catalogue.of_kind("tokens"):
                    if item.path.resolve() == place or item.pair.prefix.resolve() == place or item.content == parent.content:
                        return item
        return None

    def close(self) -> None:
        """Lets go of the readers and stops the jobs."""
        self.jobs.stop()
        with self._lock:
            readers = [one for waiting in self._idle.values() for one in waiting]
            self._idle.clear()
        for one in readers:
            one.close()


def stamp_of(item: Item) -> tuple[tuple[str, int, int], ...]:
    """Sizes and times of the files that say what a thing holds now: a change of any makes readers open anew."""
    paths: list[Path] = [item.path]
    if item.kind == "tokens":
        pair = item.pair
        journal = journal_path(pair)
        paths = [pair.idx, pair.bin, journal, journal.with_name(journal.name + "-wal")]
    elif item.path.is_dir():
        paths = [item.path / "manifest.json"]
    found = []
    for path in paths:
        try:
            facts = path.stat()
            found.append((path.name, facts.st_mtime_ns, facts.st_size))
        except OSError:
            found.append((path.name, 0, 0))
    return tuple(found)
