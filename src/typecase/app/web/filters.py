"""Conditions that a request brings: an expression over columns, never a statement.

    source = 'wiki' and overall_score >= 4            columns, values, comparisons, and a few functions
    doc_id in (select content from read_text(…))      refused: there is no select, so no file can be read and nothing written

A condition goes into `where …` of a query of our own, so it is read word by word first: only the words listed here, the columns
that the table has, numbers and quoted texts pass.
"""

from __future__ import annotations

import difflib
import re
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from typecase.errors import BadQuery, TryAgain

LONGEST = 2000
_WORD = re.compile(
    r"""\s+ | (?P<text>'(?:[^']|'')*') | (?P<name>"(?:[^"]|"")+" | [A-Za-z_][A-Za-z_0-9]*)
      | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?) | (?P<sign><>|<=|>=|!=|\|\||[-+*/%=<>(),])""",
    re.X,
)
_KEYWORDS = frozenset(
    """and or not in is null like ilike between true false case when then else end similar to escape distinct""".split()  # noqa: SIM905
)
_FUNCTIONS = frozenset(
    """abs ceil coalesce contains ends_with floor greatest isnan least length ln log2 lower prefix regexp_matches round sqrt
    starts_with suffix trim upper""".split()  # noqa: SIM905
)


def check_condition(text: str, columns: Collection[str]) -> set[str]:
    """The columns that a condition speaks of. Raises BadQuery for anything that is not an expression over `columns`."""
    if len(text) > LONGEST:
        raise BadQuery(f"the condition has {len(text):,} characters: at most {LONGEST:,} are read")
    words = list(_words(text))
    if not words:
        raise BadQuery("the condition is empty: write one such as source = 'wiki'")
    found: set[str] = set()
    depth = 0
    for k, (kind, word) in enumerate(words):
        depth += (word == "(") - (word == ")") if kind == "sign" else 0
        if depth < 0:
            break
        if kind == "name":
            column = _column(words, k, columns)
            if column is not None:
                found.add(column)
    if depth:
        raise BadQuery(f"the condition {text!r} opens and closes brackets unevenly")
    return found


def _column(words: Sequence[tuple[str, str]], k: int, columns: Collection[str]) -> str | None:
    """The column that the name at place k means; None for a word of the language or a function."""
    word = words[k][1]
    plain = word[1:-1].replace('""', '"') if word.startswith('"') else word
    known = {c.lower(): c for c in columns}
    if plain.lower() in known:
        return known[plain.lower()]
    if not word.startswith('"'):
        called = k + 1 < len(words) and words[k + 1][1] == "("
        if called and plain.lower() in _FUNCTIONS:
            return None
        if plain.lower() == "from":
            if k >= 2 and [w.lower() for _, w in words[k - 2 : k]] in (["is", "distinct"], ["not", "distinct"]):
                return None
        elif plain.lower() in _KEYWORDS:
            return None
    near = difflib.get_close_matches(plain, list(columns), n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise BadQuery(f"the condition cannot use {word!r}: there are the columns {', '.join(sorted(columns))}{hint}")


def _words(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    before = ""
    while at < len(text):
        found = _WORD.match(text, at)
        if found is None:
            raise BadQuery(f"the condition cannot hold {text[at : at + 12]!r}: write columns, numbers and 'texts'")
        word = found.group()
        if (before, word) in (("-", "-"), ("/", "*")):
            raise BadQuery("the condition cannot hold a comment")
        before = word
        if found.lastgroup is not None:
            yield found.lastgroup, word
        at = found.end()


def quoted(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def column(name: str) -> str:
    """The name of a column as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def parquet(paths: Sequence[Path]) -> str:
    """A table over Parquet files."""
    return "read_parquet([" + ", ".join(quoted(str(p)) for p in paths) + "])"


@contextmanager
def reading(paths: Sequence[Path], *, seconds: float, tables: Mapping[str, pa.Table] | None = None) -> Iterator[Any]:
    """A connection that can read these files and tables, nothing else, and is broken off after some seconds.

    Raises BadQuery with DuckDB's words for a query at fault, TryAgain for one that took too long.
    """
    config: dict[str, str | bool | int | float | list[str]] = {
        "python_enable_replacements": False,
        "threads": 2,
        "memory_limit": "2GB",
    }
    with duckdb.connect(config=config) as connection:
        for name, table in (tables or {}).items():
            connection.register(name, table)
        allowed = ", ".join(quoted(str(p)) for p in paths)
        connection.execute(f"set allowed_paths = [{allowed}]")
        connection.execute("set enable_external_access = false")
        connection.execute("set lock_configuration = true")
        timer = threading.Timer(seconds, connection.interrupt)
        timer.start()
        try:
            yield connection
        except duckdb.InterruptException:
            raise TryAgain(f"the query took longer than {seconds:g} seconds: ask for less") from None
        except duckdb.Error as error:
            raise BadQuery(f"the query cannot run: {str(error).splitlines()[0]}") from None
        finally:
            timer.cancel()
