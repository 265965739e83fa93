"""Lines of strings and of columns: kernels against readable versions."""

from __future__ import annotations

import re

import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings

from typecase.core.lines import (
    contains,
    document_counts,
    line_hashes,
    line_spans,
    line_table,
    merge_counts,
)

TEXTS = st.one_of(
    st.text(max_size=40),
    st.lists(st.sampled_from(["a", "B", " ", "\t", "12", "7", "é", "中", "\n", "\r\n", "\r", "}", "page"]), max_size=25).map(
        "".join
    ),
)
COLUMNS = st.lists(TEXTS, max_size=6)


def column(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    data = [text.encode() for text in texts]
    offsets = np.concatenate([[0], np.cumsum([len(d) for d in data])]).astype(np.int64)
    return np.frombuffer(b"".join(data), np.uint8), offsets


def slow_lines(text: str) -> list[str]:
    return re.split(r"\r\n|\r|\n", text)


def slow_fold(line: str) -> str:
    """The fold that is hashed: ASCII alone is folded."""
    line = re.sub(r"[ \t]+", " ", line.strip(" \t"))
    return re.sub(r"[0-9]+", "0", re.sub(r"[A-Z]", lambda m: m[0].lower(), line))


@given(TEXTS)
@settings(deadline=None)
def test_the_table_of_a_text(text: str) -> None:
    starts, stops = line_table(text)
    assert [text[a:b] for a, b in zip(starts, stops, strict=True)] == slow_lines(text)
    assert "".join(text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)) == text


@given(COLUMNS)
@settings(deadline=None)
def test_the_lines_of_a_column(texts: list[str]) -> None:
    values, offsets = column(texts)
    first, starts, stops = line_spans(values, offsets)
    found = [
        [values[starts[j] : stops[j]].tobytes().decode() for j in range(first[i], first[i + 1])] for i in range(len(texts))
    ]
    assert found == [slow_lines(text) for text in texts]


@given(COLUMNS)
@settings(deadline=None)
def test_equal_folds_have_equal_hashes(texts: list[str]) -> None:
    values, offsets = column(texts)
    _, starts, stops = line_spans(values, offsets)
    hashes = line_hashes(values, starts, stops, min_bytes=1, max_bytes=12)
    lines = [line for text in texts for line in slow_lines(text)]
    by_fold: dict[str, set[int]] = {}
    for line, value in zip(lines, hashes.tolist(), strict=True):
        fold = slow_fold(line)
        counted = 1 <= len(fold.encode()) <= 12 and any("a" <= c <= "z" or c > "\x7f" for c in fold)
        assert (value != 0) == counted, (line, fold)
        if counted:
            by_fold.setdefault(fold, set()).add(value)
    assert all(len(values) == 1 for values in by_fold.values())
    assert len({min(v) for v in by_fold.values()}) == len(by_fold)


@given(COLUMNS, st.integers(0, 6))
@settings(deadline=None)
def test_counts_are_sums_over_any_division(texts: list[str], cut: int) -> None:
    def counts(part: list[str]) -> tuple[np.ndarray, np.ndarray]:
        values, offsets = column(part)
        first, starts, stops = line_spans(values, offsets)
        return document_counts(line_hashes(values, starts, stops, min_bytes=1, max_bytes=40), first)

    whole, parts = counts(texts), merge_counts([counts(texts[:cut]), counts(texts[cut:])])
    assert whole[0].tolist() == parts[0].tolist() and whole[1].tolist() == parts[1].tolist()
    assert max(whole[1].tolist(), default=0) <= len(texts)
    folds = [{slow_fold(line) for line in slow_lines(text)} for text in texts]
    expected = sorted(
        sum(fold in other for other in folds)
        for fold in set().union(*folds)
        if len(fold.encode()) <= 40 and any("a" <= c <= "z" or c > "\x7f" for c in fold)
    )
    assert sorted(whole[1].tolist()) == expected


def test_members_are_found() -> None:
    have = np.array([3, 7, 2**64 - 1], np.uint64)
    asked = np.array([0, 3, 4, 7, 2**64 - 1], np.uint64)
    assert contains(have, asked).tolist() == [False, True, False, True, True]
    assert contains(have[:0], asked).tolist() == [False] * 5
    assert merge_counts([])[0].tolist() == []


def test_one_hash_is_pinned() -> None:
    """Counts lie on disk: another hash would be another format."""
    values, offsets = column(["Page 3 of  12"])
    _, starts, stops = line_spans(values, offsets)
    assert line_hashes(values, starts, stops, min_bytes=1, max_bytes=99).tolist() == [0x10F56D2D36648883]
