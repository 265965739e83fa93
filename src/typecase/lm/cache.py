"""Answer cache: what a model once said is not asked again. A re-run replays, byte for byte, without a call.

    lm = CachedLM(RemoteLM(…), "answers.db")

    row ──► key = hash(model fingerprint, request, row) ──► known? ──yes──► the stored result
                                                              └──no──► the model ──► stored at once ──► the result

One SQLite file in write-ahead mode: each result is committed by itself as it comes, so a killed run keeps all that had
come in order and the next one goes on from there; many processes may read and write it together. Past `size_bytes`
the oldest tenth is dropped. Failures that asking again cannot change (a prompt that is too long) are kept like answers;
the others are asked again. A stored value that no longer reads counts as damaged and is asked again.

Price: about 20 µs to find and 120 µs to store a row, and some 200 bytes on disk for a short answer. The rows of one window
(`window_rows`) are held in memory, and a remote model runs dry between windows. Not for network file systems: the log
needs shared memory. After a power cut, not after a kill, the last seconds of answers may have to be asked again.
"""

from __future__ import annotations

import base64
import json
import sqlite3
import threading
import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, cast

import numpy as np
import orjson

from typecase.errors import BadQuery, CorruptStore, NotFound, TryAgain, TypecaseError
from typecase.lm.protocol import (
    LASTING,
    LM,
    Answer,
    Can,
    Choices,
    Failure,
    Form,
    Generation,
    Result,
    Scores,
    Vector,
    no_string,
    pairs_of,
    require,
    windows,
)
from typecase.lm.slots import Filled, FillsSlots, Slot

_FORMAT = 1
_TABLES = """
create table if not exists answers
    (key blob primary key, at integer not null, size integer not null, value blob not null) without rowid;
create index if not exists by_age on answers (at);
create table if not exists totals (one integer primary key check (one = 1), next integer not null, size integer not null);
insert or ignore into totals values (1, 1, 0);
"""  # fmt: skip
_ROW_BYTES = 64
Kept = Result | Filled
R = TypeVar("R", bound=Kept)
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class CacheStats:
    """What a cache did since it was opened, and what it holds.

    `repeats` are rows equal to another of the same window: asked once, answered together. `damaged` is part of `misses`.
    """

    hits: int
    misses: int
    repeats: int
    stored: int
    evicted: int
    damaged: int
    entries: int
    size_bytes: int

    @property
    def hit_rate(self) -> float:
        """Share of rows that were not asked, 0 if there was no row."""
        rows = self.hits + self.misses + self.repeats
        return (self.hits + self.repeats) / rows if rows else 0.0


class AnswerCache:
    """Results by key in one file. Open it in as many processes as you like; close it or use it in a `with`."""

    def __init__(self, path: Path | str, *, size_bytes: int = 4 << 30) -> None:
        if size_bytes < 1 << 16:
            raise BadQuery(f"an answer cache needs 65,536 bytes or more, got size_bytes={size_bytes}")
        self.path, self.size_bytes = Path(path), size_bytes
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._hits = self._misses = self._stored = self._evicted = self._damaged = self._repeats = 0
        try:
            self._db = sqlite3.connect(self.path, timeout=60.0, isolation_level=None, check_same_thread=False)
        except sqlite3.OperationalError as error:
            raise NotFound(
                f"the answer cache {self.path} cannot be opened ({error}): give a path in a writable folder"
            ) from None
        try:
            self._open()
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise self._broken(error) from None

    def _open(self) -> None:
        self._db.execute("pragma journal_mode = wal")
        self._db.execute("pragma synchronous = normal")
        (version,) = self._db.execute("pragma user_version").fetchone()
        if version not in (0, _FORMAT):
            self._db.close()
            raise CorruptStore(
                f"the answer cache {self.path} has format {version}, this version reads {_FORMAT}: use another path"
            )
        self._db.executescript(_TABLES)
        self._db.execute(f"pragma user_version = {_FORMAT}")

    def _broken(self, error: sqlite3.DatabaseError) -> TypecaseError:
        if isinstance(error, sqlite3.OperationalError):  # locked for a minute, disk full, no longer writable
            return TryAgain(
                f"the answer cache {self.path} cannot be used now ({error}): see to it, then run again; nothing is lost"
            )
        return CorruptStore(f"the answer cache {self.path} cannot be read ({error}): move it away; its answers are asked anew")

    def get(self, key: bytes) -> Kept | None:
        """The result stored under `key`; None if there is none or it no longer reads."""
        with self._lock:
            try:
                row = self._db.execute("select value from answers where key = ?", (key,)).fetchone()
            except sqlite3.DatabaseError as error:
                raise self._broken(error) from None
            result = _decode(row[0]) if row else None
            self._hits += result is not None
            self._misses += result is None
            self._damaged += row is not None and result is None
            return result

    def put(self, key: bytes, result: Kept) -> None:
        """Stores `result`, committed on return; an older one under `key` is replaced."""
        value = _encode(result)
        size = len(value) + len(key) + _ROW_BYTES
        with self._lock:
            try:
                self._db.execute("begin immediate")
                try:
                    self._insert(key, value, size)
                    self._db.execute("commit")
                except BaseException:
                    if self._db.in_transaction:
                        self._db.execute("rollback")
                    raise
            except sqlite3.DatabaseError as error:
                raise self._broken(error) from None

    def _insert(self, key: bytes, value: bytes, size: int) -> None:
        old = self._db.execute("select size from answers where key = ?", (key,)).fetchone()
        at, total = self._db.execute("select next, size from totals").fetchone()
        total += size - (old[0] if old else 0)
        self._db.execute("insert or replace into answers values (?, ?, ?, ?)", (key, at, size, value))
        if total > self.size_bytes:
            total -= self._evict(total - self.size_bytes * 9 // 10)
        self._db.execute("update totals set next = ?, size = ?", (at + 1, total))
        self._stored += 1

    def _evict(self, excess_bytes: int) -> int:
        freed, last = 0, -1
        for at, size in self._db.execute("select at, size from answers order by at"):
            freed, last = freed + size, at
            self._evicted += 1
            if freed >= excess_bytes:
                break
        self._db.execute("delete from answers where at <= ?", (last,))
        return freed

    def stats(self) -> CacheStats:
        """What happened so far."""
        with self._lock:
            (entries,) = self._db.execute("select count(*) from answers").fetchone()
            (size,) = self._db.execute("select size from totals").fetchone()
        counts = (self._hits, self._misses - self._repeats, self._repeats, self._stored, self._evicted, self._damaged)
        return CacheStats(*counts, entries, size)

    def repeated(self) -> None:
        """Counts a missed row whose equal is under way."""
        self._repeats += 1

    def close(self) -> None:
        """Closes the file."""
        self._db.close()

    def __enter__(self) -> AnswerCache:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class CachedLM:
    """`lm` behind an answer cache. Same results, same order, same fingerprint."""

    def __init__(self, lm: LM, cache: AnswerCache, *, window_rows: int = 4096) -> None:
        if window_rows < 1:
            raise BadQuery(f"a window holds 1 row or more, got window_rows={window_rows}")
        self.lm, self.cache, self._window_rows = lm, cache, window_rows

    @property
    def name(self) -> str:
        """Of the model behind."""
        return self.lm.name

    @property
    def fingerprint(self) -> str:
        """Of the model behind."""
        return self.lm.fingerprint

    @property
    def can(self) -> Can:
        """What the model behind can."""
        return self.lm.can

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """By the model behind."""
        return self.lm.count_tokens(texts)

    def generate(
        self,
        prompts: Iterable[str],
        *,
        max_tokens: int,
        seed: int,
        stop: Sequence[str] = (),
        temperature: float = 0.0,
        form: Form | None = None,
        top_logprobs: int = 0,
    ) -> Iterator[Answer | Failure]:
        """Stored answers, and the model's for the rest."""
        wanted = Generation.checked(self, max_tokens, seed, stop, temperature, form, top_logprobs)
        request = {
            "do": "generate",
            "max_tokens": max_tokens,
            "seed": seed if temperature > 0 else 0,  # the likeliest token needs no draw
            "stop": wanted.stop,
            "temperature": float(temperature),
            "form": [form.kind, form.body] if form else None,
            "top_logprobs": top_logprobs,
        }
        settings: dict[str, Any] = {
            "max_tokens": max_tokens, "seed": seed, "stop": stop, "temperature": temperature, "form": form,
            "top_logprobs": top_logprobs,
        }  # fmt: skip
        return self._through(request, no_string(prompts), lambda rows: self.lm.generate(rows, **settings))

    def score(self, texts: Iterable[str]) -> Iterator[Scores | Failure]:
        """Stored scores, and the model's for the rest."""
        require(self, "score")
        return self._through({"do": "score"}, no_string(texts), self.lm.score)

    def score_continuations(
        self, prompts: Iterable[str], continuations: Iterable[Sequence[str]]
    ) -> Iterator[Choices | Failure]:
        """Stored scores, and the model's for the rest."""
        require(self, "continuations")

        def ask(pairs: list[tuple[str, tuple[str, ...]]]) -> Iterator[Choices | Failure]:
            return self.lm.score_continuations([prompt for prompt, _ in pairs], [texts for _, texts in pairs])

        return self._through({"do": "continuations"}, pairs_of(no_string(prompts), continuations), ask)

    def embed(self, texts: Iterable[str]) -> Iterator[Vector | Failure]:
        """Stored vectors, and the model's for the rest."""
        require(self, "embed")
        return self._through({"do": "embed"}, no_string(texts), self.lm.embed)

    def can_fill(self, slots: Sequence[Slot]) -> bool:
        """Whether the model behind can; if not, a form is asked gap after gap, and those continuations are stored."""
        return isinstance(self.lm, FillsSlots) and self.lm.can_fill(slots)

    def fill(self, prompts: Iterable[str], slots: Sequence[Slot], *, passes: int) -> Iterator[Filled | Failure]:
        """Stored readings of the form, and the model's for the rest."""
        lm = self.lm
        if not isinstance(lm, FillsSlots):
            raise BadQuery(f"{self.name} cannot read a form at once: use `typecase.lm.slots.fill`, which asks gap after gap")
        request = {"do": "fill", "slots": [[slot.before, slot.labels] for slot in slots], "passes": passes}
        return self._through(request, no_string(prompts), lambda rows: lm.fill(rows, slots, passes=passes))

    def _through(
        self, request: Mapping[str, object], rows: Iterable[Row], ask: Callable[[list[Row]], Iterator[R]]
    ) -> Iterator[R]:
        head = blake2b(orjson.dumps([_FORMAT, self.fingerprint, request], option=orjson.OPT_SORT_KEYS)).digest()
        for window in windows(rows, self._window_rows):
            yield from self._window(head, window, ask)

    def _window(self, head: bytes, window: list[Row], ask: Callable[[list[Row]], Iterator[R]]) -> Iterator[R]:
        keys = [_key(head, row) for row in window]
        known: dict[bytes, Kept] = {}
        missing: dict[bytes, Row] = {}
        for key, row in zip(keys, window):
            if (stored := self.cache.get(key)) is not None:
                known[key] = stored
            elif key in missing:
                self.cache.repeated()
            else:
                missing[key] = row
        coming, expected = ask(list(missing.values())) if missing else iter(()), deque(missing)
        try:
            for key in keys:
                while key not in known:
                    self._learn(known, expected.popleft(), next(coming))
                yield cast(R, known[key])
        finally:  # a remote model's requests end here, not when the garbage is collected
            if isinstance(coming, Generator):
                coming.close()

    def _learn(self, known: dict[bytes, Kept], key: bytes, result: Kept) -> None:
        known[key] = result
        if not isinstance(result, Failure) or result.kind in LASTING:
            self.cache.put(key, result)


def _key(head: bytes, row: object) -> bytes:
    digest = blake2b(head, digest_size=16)
    for text in (row,) if isinstance(row, str) else (cast(tuple[str, tuple[str, ...]], row)[0], *cast(Any, row)[1]):
        encoded = text.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.digest()


_KINDS: Mapping[str, type[Kept]] = {"A": Answer, "S": Scores, "C": Choices, "V": Vector, "F": Failure, "G": Filled}
_LETTERS = {kind: letter for letter, kind in _KINDS.items()}


def _encode(result: Kept) -> bytes:
    fields = {name: getattr(result, name) for name in type(result).__dataclass_fields__}
    for name, value in fields.items():
        if isinstance(value, np.ndarray):
            fields[name] = _packed(value)
        elif isinstance(result, Filled) and name == "logprobs":
            fields[name] = [_packed(own) for own in value]
    # The standard library's JSON, not orjson: it carries lone surrogates.
    return zlib.compress(json.dumps([_LETTERS[type(result)], fields]).encode(), 1)


def _packed(values: np.ndarray[Any, Any]) -> dict[str, str]:
    return {values.dtype.str: base64.b64encode(values.tobytes()).decode()}


def _unpacked(stored: Mapping[str, str]) -> np.ndarray[Any, Any]:
    ((dtype, data),) = stored.items()
    return np.frombuffer(base64.b64decode(data), dtype)


def _decode(value: bytes) -> Kept | None:
    """The result, None if the bytes are damaged (zlib keeps a checksum)."""
    try:
        letter, fields = json.loads(zlib.decompress(value))
        for name, stored in fields.items():
            if isinstance(stored, dict):
                fields[name] = _unpacked(stored)
            elif letter == "G" and name == "logprobs":
                fields[name] = tuple(_unpacked(own) for own in stored)
            elif name == "top":
                fields[name] = tuple(tuple((text, logprob) for text, logprob in token) for token in stored)
        return _KINDS[letter](**fields)
    except (zlib.error, ValueError, TypeError, KeyError):
        return None
