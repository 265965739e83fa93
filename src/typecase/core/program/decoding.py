"""Decoding: which bytes may follow, so that whatever is written is a valid program of the chunk that is shown.

    "" ─ keep_all() ──────────────────────────────────────────────── done
     ├── drop_all() ──────────────────────────────────────────────── done
     ├── remove_lines(line_start= S , line_end= E ) ──────────────── done ─ "\\n" ─ the next statement, or the end
     └── remove_str(line= L , text=" a string of row L ") ────────── done ─ …

The language (language.py) in the one spelling that `show` writes, restricted to the chunk: S a row that its owner may remove
and that no statement has touched, E ≥ S with no touched row between; the string a part of row L, which ends only where it
occurs once and both edges fit (decoding_strings). keep_all and drop_all stand alone, nothing is said twice, and a program
ends only behind a statement. `need` is the number of bytes that the shortest ending of what was begun takes: a writer that
never lets it exceed what is left to write cannot be cut off.

Laws: a path from `start` to an accepting state is text that `parse` reads, that `show` gives back, and that `join` and `run`
refuse nothing of (guards of size and protected kinds of lines aside). From every state that `step` reaches an accepting one
can be reached. Replacements and forms are left out: rules do them exactly.

States are values; a step is a few microseconds. Source: B.12 of the specification of refining, after grammar-constrained
decoding as in Willard and Louf, arXiv 2307.09702.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

import numpy as np

from typecase.core.program.chunks import Chunk, Row
from typecase.core.program.decoding_rows import removable_rows
from typecase.core.program.decoding_strings import I32, Cuts, RowTable, Stretches, cuts_of, open_row, row_table, without
from typecase.core.program.guards import STRICT, GuardPolicy
from typecase.core.program.language import MAX_PROGRAM_BYTES, MAX_STATEMENTS
from typecase.errors import BadQuery

OPERATIONS: Final = ("keep_all", "drop_all", "remove_lines", "remove_str")
Place = Literal["head", "first", "last", "line", "fixed", "string", "done"]

_LINES: Final = b"remove_lines(line_start="
_TO: Final = b" line_end="
_STRING: Final = b"remove_str(line="
_TEXT: Final = b' text="'
_QUOTE: Final = ord('"')
_COMMA: Final = ord(",")
_CLOSE: Final = ord(")")
_NEWLINE: Final = ord("\n")
_MOST_BYTES: Final = MAX_PROGRAM_BYTES - (16 << 10)
"""A program this long gets no further statement: one statement takes less than the rest."""
_FAR: Final = 1 << 30


class Ledger(NamedTuple):
    """What finished statements have done: bits of touched rows, open stretches of rows with cuts, statements, bytes."""

    touched: int = 0
    cut: tuple[tuple[int, Stretches], ...] = ()
    num: int = 0
    size: int = 0
    alone: bool = False


class State(NamedTuple):
    """Where a writer stands. Rows are numbered as shown.

    said     what is written of a name or number        rest     what must follow before `then`
    row      first row of a range, or row of a string   starts   characters where the string may have begun, int32
    at       bytes of the string so far                 begun    bytes of the statement so far
    """

    place: Place
    ledger: Ledger
    said: bytes = b""
    rest: bytes = b""
    then: Place = "done"
    row: int = -1
    starts: I32 | None = None
    at: int = 0
    begun: int = 0


_Key = tuple[int, tuple[tuple[int, Stretches], ...], bool]


class _Digits(NamedTuple):
    """The bytes that may follow the beginning of a number, and the least bytes to the statement's end."""

    bytes: tuple[int, ...]
    need: int


@dataclass(frozen=True, slots=True)
class _Open:
    """What a ledger leaves: rows that may begin a range, with the last row of each; rows with strings, with the least bytes."""

    first: dict[int, int]
    strings: dict[int, int]
    heads: tuple[tuple[bytes, int], ...]
    """Beginnings of statements, and the least bytes that follow each."""


@dataclass(slots=True)
class Automaton:
    """The automaton of one chunk of `text`, whose row `chunk.first` is shown as number `chunk.first - offset`.

    operations   of OPERATIONS, those that may be used
    spared       rows (as in `rows`) that may not be touched, beside those that another chunk owns
    missing      bytes beyond ASCII that the writer cannot write; no string holds one
    """

    text: str
    rows: Sequence[Row]
    chunk: Chunk
    offset: int = 0
    policy: GuardPolicy = STRICT
    operations: Collection[str] = OPERATIONS
    spared: Collection[int] = ()
    missing: frozenset[int] = frozenset()
    _tables: dict[int, RowTable | None] = field(default_factory=dict)
    _cuts: dict[tuple[int, Stretches], Cuts] = field(default_factory=dict)
    _opened: dict[_Key, _Open] = field(default_factory=dict)
    _menus: dict[tuple[_Key, Place, int], dict[bytes, _Digits]] = field(default_factory=dict)
    _removable: frozenset[int] = frozenset()
    _editable: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.operations) - set(OPERATIONS)):
            raise BadQuery(f"operation '{unknown[0]}' cannot be decoded; there are {', '.join(OPERATIONS)}")
        if not {"keep_all", "drop_all"} & set(self.operations):
            raise BadQuery("keep_all or drop_all must be allowed: a chunk without another edit needs a program too")
        owned = [n for n in range(self.chunk.own_first, self.chunk.own_last) if n not in set(self.spared)]
        self._editable = frozenset(n - self.offset for n in owned)
        self._removable = frozenset(n - self.offset for n in removable_rows(self.text, self.rows, owned, self.policy))
        if not self._heads(Ledger()):
            raise BadQuery("drop_all alone is allowed, and a row of the chunk may not be removed: allow keep_all too")

    @property
    def start(self) -> State:
        """Nothing is written."""
        return State("head", Ledger())

    def accepts(self, state: State) -> bool:
        """Whether the program may end here."""
        return state.place == "done"

    def choices(self, state: State) -> list[int]:
        """The bytes that may follow, in order."""
        place = state.place
        if place == "fixed":
            return [state.rest[0]]
        if place == "head":
            said = state.said
            return sorted({head[len(said)] for head, _ in self._heads(state.ledger) if head.startswith(said)})
        if place == "string":
            return self._string_choices(state)
        if place == "done":
            return [_NEWLINE] if self._heads(state.ledger) else []
        return list(self._menu(state)[state.said].bytes)

    def step(self, state: State, byte: int) -> State | None:
        """The state after one more byte; None where it may not follow."""
        begun = state.begun + 1
        if state.place == "string":
            return self._string_step(state, byte, begun)
        if byte not in self.choices(state):
            return None
        if state.place == "fixed":
            rest = state.rest[1:]
            if rest:
                return state._replace(rest=rest, begun=begun)
            return self._arrive(state._replace(rest=b"", begun=begun))
        if state.place == "done":
            return State("head", state.ledger, begun=1)
        if state.place == "head":
            return self._head_step(state, bytes((*state.said, byte)), begun)
        if byte in (_COMMA, _CLOSE):
            return self._number_step(state, begun)
        return state._replace(said=bytes((*state.said, byte)), begun=begun)

    def need(self, state: State) -> int:
        """Bytes of the shortest ending."""
        place = state.place
        if place == "done":
            return 0
        if place == "fixed":
            return len(state.rest) + self._need_then(state)
        if place == "head":
            said = state.said
            heads = self._heads(state.ledger)
            return min(len(head) - len(said) + more for head, more in heads if head.startswith(said))
        if place == "string":
            return self._string_need(state)
        return self._menu(state)[state.said].need

    # Statements.

    def opened(self, ledger: Ledger) -> _Open:
        """What may still be done after `ledger`."""
        key = _key_of(ledger)
        found = self._opened.get(key)
        if found is None:
            found = self._opened[key] = self._open(ledger)
        return found

    def _heads(self, ledger: Ledger) -> tuple[tuple[bytes, int], ...]:
        if ledger.alone or ledger.num >= MAX_STATEMENTS or ledger.size > _MOST_BYTES:
            return ()
        return self.opened(ledger).heads

    def _open(self, ledger: Ledger) -> _Open:
        first = self._ranges(ledger) if "remove_lines" in self.operations else {}
        strings: dict[int, int] = {}
        if "remove_str" in self.operations:
            own = dict(ledger.cut)
            for row in sorted(self._editable):
                cuts = None if self._is_gone(row, ledger, own) else self.cuts(row, own.get(row))
                if cuts is not None and len(cuts.starts):
                    strings[row] = cuts.least
        heads: list[tuple[bytes, int]] = []
        if ledger.num == 0:
            heads += [(b"keep_all()", 0)] if "keep_all" in self.operations else []
            all_go = "drop_all" in self.operations and self._drops_all()
            heads += [(b"drop_all()", 0)] if all_go else []
        if first:
            heads.append((_LINES, min(2 * len(str(n)) for n in first) + len(_TO) + 2))
        if strings:
            heads.append((_STRING, min(len(str(n)) + least for n, least in strings.items()) + len(_TEXT) + 3))
        return _Open(first, strings, tuple(heads))

    def _is_gone(self, row: int, ledger: Ledger, own: dict[int, Stretches]) -> bool:
        return bool(ledger.touched >> row & 1) and row not in own

    def _drops_all(self) -> bool:
        shown = range(self.chunk.own_first - self.offset, self.chunk.own_last - self.offset)
        return all(n in self._removable for n in shown)

    def _ranges(self, ledger: Ledger) -> dict[int, int]:
        """First row of a possible range -> the last row that it may reach to."""
        reach: dict[int, int] = {}
        last = -1
        for row in range(self.chunk.own_last - self.offset - 1, self.chunk.own_first - self.offset - 1, -1):
            if row not in self._removable or ledger.touched >> row & 1:
                last = -1
                continue
            last = row if last < 0 else last
            reach[row] = last
        return dict(sorted(reach.items()))

    def _menu(self, state: State) -> dict[bytes, _Digits]:
        """For each beginning of a number that may stand here, what may follow it."""
        key = _key_of(state.ledger), state.place, state.row
        found = self._menus.get(key)
        if found is None:
            found = self._menus[key] = _digits_of(self._numbers(state), _CLOSE if state.place == "last" else _COMMA)
        return found

    def _numbers(self, state: State) -> dict[bytes, int]:
        """The numbers that may stand here, with the least bytes that follow each."""
        opened = self.opened(state.ledger)
        if state.place == "first":
            return {b"%d" % n: len(_TO) + 2 + len(str(n)) for n in opened.first}
        if state.place == "last":
            return {b"%d" % n: 1 for n in range(state.row, opened.first[state.row] + 1)}
        return {b"%d" % n: len(_TEXT) + 3 + least for n, least in opened.strings.items()}

    def _head_step(self, state: State, said: bytes, begun: int) -> State:
        if said == _LINES:
            return State("first", state.ledger, begun=begun)
        if said == _STRING:
            return State("line", state.ledger, begun=begun)
        if said in (b"keep_all()", b"drop_all()"):
            return self._finished(state.ledger._replace(alone=True), begun)
        return state._replace(said=said, begun=begun)

    def _number_step(self, state: State, begun: int) -> State:
        """The state behind a number and its comma or bracket."""
        number = int(state.said)
        if state.place == "first":
            return State("fixed", state.ledger, rest=_TO, then="last", row=number, begun=begun)
        if state.place == "line":
            return State("fixed", state.ledger, rest=_TEXT, then="string", row=number, begun=begun)
        bits = ((1 << (number + 1)) - 1) & ~((1 << state.row) - 1)
        return self._finished(state.ledger._replace(touched=state.ledger.touched | bits), begun)

    def _arrive(self, state: State) -> State:
        if state.then == "string":
            starts = self._cuts_at(state).starts
            return State("string", state.ledger, row=state.row, starts=starts, begun=state.begun)
        if state.then == "last":
            return State("last", state.ledger, row=state.row, begun=state.begun)
        return self._finished(state.ledger, state.begun)

    def _finished(self, ledger: Ledger, begun: int) -> State:
        return State("done", ledger._replace(num=ledger.num + 1, size=ledger.size + begun))

    def _need_then(self, state: State) -> int:
        if state.then == "last":
            return len(str(state.row)) + 1
        return self._cuts_at(state).least + 2 if state.then == "string" else 0

    # Strings.

    def cuts(self, row: int, stretches: Stretches | None = None) -> Cuts | None:
        """What may be cut from a row, numbered as shown; None where nothing may."""
        own = self.rows[row + self.offset]
        if row not in self._tables:
            self._tables[row] = row_table(self.text[own.start : own.stop], self.policy.separators)
        table = self._tables[row]
        if table is None:
            return None
        if stretches is None:
            stretches = self._untouched(table, own.whole)
        key = row, stretches
        if key not in self._cuts:
            self._cuts[key] = cuts_of(table, stretches, small=self.policy.min_chars, whole=own.whole)
        return self._cuts[key]

    def _untouched(self, table: RowTable, whole: bool) -> Stretches:
        stretches = open_row(table, whole=whole)
        if self.missing:
            for place in np.flatnonzero(np.isin(table.data, list(self.missing))).tolist():
                char = int(np.searchsorted(table.byte_of, place, side="right")) - 1
                stretches = without(table, stretches, char, char + 1)
        return stretches

    def _cuts_at(self, state: State) -> Cuts:
        cuts = self.cuts(state.row, dict(state.ledger.cut).get(state.row))
        assert cuts is not None  # a row without cuts is never offered
        return cuts

    def string_cuts(self, state: State) -> Cuts:
        """What may be cut where `state` stands inside a string."""
        return self._cuts_at(state)

    def _string_choices(self, state: State) -> list[int]:
        cuts, found = self._cuts_at(state), set()
        table, starts = cuts.table, _starts_of(state)
        for start in starts.tolist():
            place = int(table.byte_of[start]) + state.at
            if place < table.byte_of[cuts.last[start]]:
                found.add(int(table.data[place]))
            if (char := int(table.char_of[place])) >= 0 and cuts.may_end(start, char):
                found.add(_QUOTE)
        return sorted(found)

    def _string_step(self, state: State, byte: int, begun: int) -> State | None:
        cuts, starts = self._cuts_at(state), _starts_of(state)
        table = cuts.table
        places = table.byte_of[starts] + state.at
        if byte == _QUOTE:  # a quote of the row is written behind a backslash, so that its byte begins no character
            for start, place in zip(starts.tolist(), places.tolist()):
                if (char := int(table.char_of[place])) >= 0 and cuts.may_end(start, char):
                    return self.closed(state, start, char, begun)
        going = starts[places < table.byte_of[cuts.last[starts]]]
        going = going[table.data[table.byte_of[going] + state.at] == byte]
        return state._replace(starts=going, at=state.at + 1, begun=begun) if len(going) else None

    def closed(self, state: State, start: int, stop: int, begun: int) -> State:
        """The state behind the closing quote of [start, stop) of the row."""
        own = dict(state.ledger.cut)
        cuts = self._cuts_at(state)
        before = own.get(state.row)
        stretches = self._untouched(cuts.table, cuts.whole) if before is None else before
        own[state.row] = without(cuts.table, stretches, start, stop)
        touched = state.ledger.touched | 1 << state.row
        ledger = state.ledger._replace(touched=touched, cut=tuple(sorted(own.items())))
        return State("fixed", ledger, rest=b")", then="done", begun=begun)

    def _string_need(self, state: State) -> int:
        cuts, least = self._cuts_at(state), _FAR
        for start in _starts_of(state).tolist():
            place = int(cuts.table.byte_of[start]) + state.at
            char = int(np.searchsorted(cuts.table.byte_of, place))
            end = cuts.end_after(start, max(char, start + 1))
            if end >= 0:
                least = min(least, int(cuts.table.byte_of[end]) - place)
        return least + 2


def _key_of(ledger: Ledger) -> _Key:
    """What of a ledger decides about what may still be done."""
    return ledger.touched, ledger.cut, ledger.num == 0


def _digits_of(numbers: dict[bytes, int], end: int) -> dict[bytes, _Digits]:
    follow: dict[bytes, set[int]] = {}
    need: dict[bytes, int] = {}
    for number, more in numbers.items():
        for size in range(len(number) + 1):
            said = number[:size]
            follow.setdefault(said, set()).add(number[size] if size < len(number) else end)
            need[said] = min(need.get(said, _FAR), len(number) - size + more)
    return {said: _Digits(tuple(sorted(found)), need[said]) for said, found in follow.items()}


def _starts_of(state: State) -> I32:
    assert state.starts is not None
    return state.starts
