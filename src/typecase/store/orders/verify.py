"""Verify: do the arrays of an order belong to this token set, and to this order?

    alone, over the lengths                            beside the order built anew
      sequences   each of the set, equally often         the same split, the same shuffle
      rows        where this stream must be cut          the same number of samples
      shuffle     every sample once                      the same shuffle, from the same seed

The frameworks load whatever lies under the right name: after an edit or a new tokenizer the old rows cut the new tokens, and
nothing complains. Alone, a set is found out by its rows, which follow from lengths and sequences; beside an order built
anew, by the first place that differs. Price: 10^8 sequences, rows and indices take about 7 s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from typecase.core.order.order import Ints, Lengths
from typecase.core.order.tables import Tables
from typecase.store.orders.walk import (
    CHUNK,
    Walk,
    count_places,
    first_unlike,
    overflow_rows,
    packed_rows,
    permuted,
    unpacked_rows,
)

Packing: TypeAlias = Literal["packed", "pack_until_overflow", "unpacked"]

_DTYPES = {"sequences": ("int32", "int64"), "rows": ("int32", "int64"), "shuffle": ("uint32", "int64")}
_OTHER_SET = "the set was edited or tokenised again after the order was built, or the order is of another set: build it again"
_DAMAGE = "the file was changed after the framework wrote it: copy it again, or build the order again"
_OTHER_ORDER = "compare seed, split and samples with the run's configuration; if they are right, build the order again"


@dataclass(frozen=True, slots=True)
class Difference:
    """What disagrees: `code`, stable, for programs; `sentence` with the first place and both values; `remedy`."""

    code: str
    sentence: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.sentence}; {self.remedy}"


def differences(
    tables: Tables,
    lengths: Lengths,
    *,
    rebuilt: Tables | None = None,
    bounds: tuple[int, int] | None = None,
    packing: Packing = "packed",
    alternatives: Mapping[str, Tables] | None = None,
) -> tuple[Difference, ...]:
    """What in `tables` does not belong to sequences of these `lengths`, nor to the order `rebuilt` over them; none if all does.

    `bounds` are the sequences [begin, end) of the split, if known. `alternatives` are orders under other rules by name, as
    "the split rule of GPT-NeoX": the one that fits is named where `rebuilt` does not. Codes:

    `dtype`, `shape`, `sequences-beyond`, `sequences-missing`, `split`, `sequences-order`, `rows-rising`, `rows`, `extra-token`,
    `samples`, `sample-length`, `exposed`, `shuffle-repeats`, `shuffle-order`, `other-rule`.
    """
    found = [*_dtypes(tables, rebuilt), *_shape(tables)]
    counts, beyond = count_places(tables.sequences, len(lengths))
    if beyond >= 0:
        found.append(_beyond(tables, len(lengths), beyond))
    else:
        found += _members(tables, counts, rebuilt, bounds, packing)
        found += _rows(tables, lengths, packing, rebuilt)
    found += _shuffle(tables, rebuilt)
    if rebuilt is not None:
        found += _sizes(tables, rebuilt)
    if found:
        found += _other_rules(tables, alternatives or {})
    return tuple(found)


def _dtypes(tables: Tables, rebuilt: Tables | None) -> Iterator[Difference]:
    for name, array, mine in _arrays(tables, rebuilt):
        allowed = _DTYPES[name] if mine is None else (str(mine.dtype),)
        if str(array.dtype) not in allowed:
            yield Difference(
                "dtype",
                f"{name} are {array.dtype}, the framework makes {' or '.join(allowed)}",
                "another release or program wrote the file; the numbers may still be right",
            )


def _arrays(tables: Tables, rebuilt: Tables | None) -> Iterator[tuple[str, npt.NDArray[Any], npt.NDArray[Any] | None]]:
    for name in _DTYPES:
        yield name, getattr(tables, name), None if rebuilt is None else getattr(rebuilt, name)


def _shape(tables: Tables) -> Iterator[Difference]:
    if len(tables.rows) != len(tables.shuffle) + 1:
        rows, shuffle = len(tables.rows), len(tables.shuffle)
        yield Difference(
            "shape",
            f"there are {rows} rows, which bound {rows - 1} samples, and {shuffle} in the shuffle",
            "the files are of different builds: copy all of one, or build the order again",
        )


def _beyond(tables: Tables, num_sequences: int, place: int) -> Difference:
    return Difference(
        "sequences-beyond",
        f"place {place} is sequence {int(tables.sequences[place])}, the set has {num_sequences}",
        "the order is of a larger set, or the set was cut: open the set that the order was built for",
    )


def _members(
    tables: Tables, counts: Ints, rebuilt: Tables | None, bounds: tuple[int, int] | None, packing: Packing
) -> Iterator[Difference]:
    if rebuilt is not None:
        yield from _beside(tables, counts, rebuilt)
    elif packing == "packed" and len(tables.sequences):
        yield from _evenly(tables, counts, bounds)


def _evenly(tables: Tables, counts: Ints, bounds: tuple[int, int] | None) -> Iterator[Difference]:
    """Every sequence of the split, and no other, as often as there are epochs."""
    held = np.flatnonzero(counts)
    begin, end = (int(held[0]), int(held[-1]) + 1) if bounds is None else bounds
    epochs = max(round(len(tables.sequences) / max(end - begin, 1)), 1)
    wanted = np.zeros(len(counts), np.int64)
    wanted[begin:end] = epochs
    yield from _uneven(counts, wanted, f"sequences [{begin}, {end}) are to stand {epochs} times each")


def _uneven(counts: Ints, wanted: Ints, rule: str) -> Iterator[Difference]:
    few, many = np.flatnonzero(counts < wanted), np.flatnonzero(counts > wanted)
    if len(few) or len(many):
        parts = [
            f"{len(them)} are {what}, the first {them[0]} ({counts[them[0]]} times, not {wanted[them[0]]})"
            for them, what in ((few, "missing"), (many, "too many"))
            if len(them)
        ]
        yield Difference("sequences-missing", f"{rule}; {' and '.join(parts)}", f"{_DAMAGE}; or it is of another split")


def _beside(tables: Tables, counts: Ints, rebuilt: Tables) -> Iterator[Difference]:
    place = first_unlike(tables.sequences, rebuilt.sequences)
    if place < 0 and len(tables.sequences) == len(rebuilt.sequences):
        return
    wanted, _ = count_places(rebuilt.sequences, len(counts))
    mine, theirs = (_range(c) for c in (counts, wanted))
    if mine != theirs:
        sentence = f"the order draws from sequences [{mine[0]}, {mine[1]}), this split gives [{theirs[0]}, {theirs[1]})"
        yield Difference("split", sentence, "another split or rounding rule, or the set has grown or shrunk since")
    elif not np.array_equal(counts, wanted):
        yield from _uneven(counts, wanted, f"{len(tables.sequences)} places, built anew {len(rebuilt.sequences)}")
    else:
        values = f"place {place} is sequence {int(tables.sequences[place])}, built anew {int(rebuilt.sequences[place])}"
        sentence = f"the sequences are the right ones in another order: {values}"
        yield Difference("sequences-order", sentence, f"another seed or another rule for the last epoch; {_OTHER_ORDER}")


def _range(counts: Ints) -> tuple[int, int]:
    held = np.flatnonzero(counts)
    return (int(held[0]), int(held[-1]) + 1) if len(held) else (0, 0)


def _rows(tables: Tables, lengths: Lengths, packing: Packing, rebuilt: Tables | None) -> Iterator[Difference]:
    comparable = rebuilt is not None and _equal(tables.sequences, rebuilt.sequences)
    if rebuilt is not None and comparable and _equal(tables.rows, rebuilt.rows):
        return
    found = [*_rows_alone(tables, lengths, packing)]
    yield from found
    if rebuilt is not None and comparable and not found and (row := first_unlike(tables.rows, rebuilt.rows)) >= 0:
        mine, theirs = (tuple(map(int, t.rows[row])) for t in (tables, rebuilt))
        yield Difference("rows", f"sample {row}: the file says {mine}, built anew {theirs}", _OTHER_ORDER)


def _rows_alone(tables: Tables, lengths: Lengths, packing: Packing) -> Iterator[Difference]:
    rising = _first_fall(tables.rows)
    if rising >= 0:
        before, after = (tuple(map(int, tables.rows[k])) for k in (rising - 1, rising))
        yield Difference("rows-rising", f"row {rising} is {after} and row {rising - 1} is {before}: rows never fall", _DAMAGE)
    walk = _walk(tables, lengths, packing, tables.extra)
    if walk.wrong >= 0:
        yield _wrong_row(tables, lengths, packing, walk)
    elif packing == "packed":
        yield from _count(tables, walk.tokens)


def _walk(tables: Tables, lengths: Lengths, packing: Packing, extra: int) -> Walk:
    if packing == "pack_until_overflow":
        return overflow_rows(tables.sequences, tables.rows, lengths, seq_length=tables.seq_length)
    if packing == "unpacked":
        return unpacked_rows(tables.sequences, tables.rows)
    return packed_rows(
        tables.sequences, tables.rows, lengths, seq_length=tables.seq_length, extra=extra, partial=not tables.wraps
    )


def _first_fall(rows: npt.NDArray[Any]) -> int:
    for first in range(1, len(rows), CHUNK):
        chunk = rows[first - 1 : first + CHUNK].astype(np.int64)
        step = np.diff(chunk, axis=0)
        hits = np.flatnonzero((step[:, 0] < 0) | ((step[:, 0] == 0) & (step[:, 1] < 0)))
        if len(hits):
            return first + int(hits[0])
    return -1


def _wrong_row(tables: Tables, lengths: Lengths, packing: Packing, walk: Walk) -> Difference:
    if packing == "packed" and walk.found is not None and _walk(tables, lengths, packing, 1 - tables.extra).wrong < 0:
        return Difference(
            "extra-token",
            f"row {walk.wrong} is {walk.found}, samples with {tables.extra} extra tokens give {walk.expected}, and all rows are"
            f" those of samples with {1 - tables.extra}",
            f"read the order with extra = {1 - tables.extra} (add_extra_token_to_sequence is {tables.extra == 0})",
        )
    file = f"the file says {walk.found}" if walk.found is not None else "the file ends"
    given = f"the set gives {walk.expected}" if walk.expected is not None else "the tokens of the set end before it"
    return Difference("rows", f"sample {walk.wrong}: {file}, {given}", _OTHER_SET)


def _count(tables: Tables, tokens: int) -> Iterator[Difference]:
    """As many samples as the stream holds, or one more, cut."""
    whole, rest = divmod(tokens - tables.extra, tables.seq_length)
    built = len(tables.rows) - 1
    if built != max(whole, 0) and not (built == whole + 1 and rest and not tables.wraps):
        sentence = f"there are {built} samples, and {tokens} tokens give {whole} of {tables.seq_length}"
        yield Difference("samples", sentence, f"{_DAMAGE}; Megatron's own count of cut samples errs on large validation sets")


def _shuffle(tables: Tables, rebuilt: Tables | None) -> Iterator[Difference]:
    index, unread = permuted(tables.shuffle)
    if index >= 0:
        sample = int(tables.shuffle[index])
        what = "which does not exist" if not 0 <= sample < len(tables.shuffle) else "which an earlier index reads"
        yield Difference(
            "shuffle-repeats", f"training index {index} reads sample {sample}, {what}, and none reads sample {unread}", _DAMAGE
        )
    if rebuilt is None or len(rebuilt.shuffle) != len(tables.shuffle):
        return
    place = first_unlike(tables.shuffle, rebuilt.shuffle)
    if place >= 0 and index < 0:
        values = f"{int(tables.shuffle[place])}, built anew {int(rebuilt.shuffle[place])}"
        yield Difference("shuffle-order", f"training index {place} reads sample {values}", f"another seed; {_OTHER_ORDER}")


def _sizes(tables: Tables, rebuilt: Tables) -> Iterator[Difference]:
    for code, what in (("sample-length", "seq_length"), ("extra-token", "extra")):
        if (mine := getattr(tables, what)) != (theirs := getattr(rebuilt, what)):
            yield Difference(code, f"the order has {what} {mine}, built anew {theirs}", _OTHER_ORDER)
    mine, theirs = len(tables.rows) - 1, len(rebuilt.rows) - 1
    if mine != theirs:
        sentence = f"the order has {mine} samples, built anew {theirs}"
        yield Difference("samples", sentence, f"another number of samples asked, or other lengths; {_OTHER_ORDER}")
    elif tables.num_samples != rebuilt.num_samples:
        sentence = f"the order offers {tables.num_samples} samples, built anew {rebuilt.num_samples}"
        yield Difference("exposed", sentence, "one of them follows GPT-NeoX since 2021, which offers one less than it builds")


def _same(tables: Tables, other: Tables) -> bool:
    return all(_equal(mine, theirs) for _, mine, theirs in _arrays(tables, other) if theirs is not None)


def _equal(mine: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> bool:
    return len(mine) == len(theirs) and first_unlike(mine, theirs) < 0


def _other_rules(tables: Tables, alternatives: Mapping[str, Tables]) -> Iterator[Difference]:
    for name, other in alternatives.items():
        if _same(tables, other):
            yield Difference("other-rule", f"the arrays are exactly those of {name}", f"take the order as that of {name}")
