"""The pure laws of the audit against slow, obvious versions of themselves."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from typecase.core.glitch.categories import (
    fallback_byte,
    group_counts,
    is_byte_token,
    is_special_spelling,
    round_trip_category,
)
from typecase.core.glitch.merging import absorbed_share, appearances, best_segmentation, replay, replay_ranked
from typecase.core.glitch.prediction import NEVER, RISK, Plan, predict
from typecase.core.glitch.scaffold import absorbers, families
from typecase.core.glitch.utf8 import Utf8, classify, completions
from typecase.core.glitch.verdict import Evidence, origin_of, suggestion_of

# UTF-8


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("é中😀".encode(), Utf8("whole")),
        ("\ufffd".encode(), Utf8("whole")),
        (b"", Utf8("whole")),
        (bytes.fromhex("E9BE8DE5A5"), Utf8("prefix", 0, 1)),
        (bytes.fromhex("969AE5A3AB"), Utf8("suffix", 2, 0)),
        (bytes.fromhex("8DE9"), Utf8("both", 1, 2)),
        (bytes.fromhex("F0"), Utf8("prefix", 0, 3)),
        (bytes.fromhex("BF"), Utf8("suffix", 1, 0)),
        *[
            (bytes.fromhex(h), Utf8("never"))
            for h in ("C0", "C1", "F5", "FF", "EDA0", "E080", "F08080", "F490", "80808080", "41E9")
        ],
    ],
)
def test_utf8_classes(data: bytes, expected: Utf8) -> None:
    if data == bytes.fromhex("41E9"):
        expected = Utf8("prefix", 0, 2)
    assert classify(data) == expected


@given(st.text(max_size=6), st.integers(0, 24), st.integers(0, 24))
@settings(max_examples=300)
def test_every_slice_of_a_text_can_be_completed(text: str, i: int, j: int) -> None:
    raw = text.encode()
    piece = raw[min(i, j) : max(i, j)]
    found = classify(piece)
    assert found.kind != "never"
    whole = [c for c in completions(piece, 512) if _decodes(c)]
    assert whole and all(piece in c for c in whole)
    assert (found.kind == "whole") == _decodes(piece)


@given(st.binary(min_size=1, max_size=4))
@settings(max_examples=300)
def test_never_means_that_nothing_completes_it(data: bytes) -> None:
    if classify(data).kind == "never":
        assert not completions(data, 64)
    else:
        assert any(_decodes(c) for c in completions(data, 4096))


def _decodes(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


# Categories


@pytest.mark.parametrize(
    ("text", "again", "special", "expected"),
    [
        ("a", [0], False, "OK"),
        ("<s>", [0], True, "OK_SPECIAL"),
        ("<mask>", [4, 5], False, "UNREACHABLE_SPECIAL"),
        ("[12]", [4], False, "UNREACHABLE_SINGLE_TOKEN"),
        ("\ufffd", [4], False, "UNDECODEABLE"),
        ("x", [4], False, "UNREACHABLE_SINGLE_TOKEN"),
        ("xy", [4, 5], False, "UNREACHABLE_MULTI_TOKEN"),
        ("", [], False, "UNREACHABLE_MULTI_TOKEN"),
    ],
)
def test_round_trip_categories(text: str, again: list[int], special: bool, expected: str) -> None:
    assert round_trip_category(0, text, again, special=special) == expected


def test_report_groups() -> None:
    assert fallback_byte("<0x0A>") == 10 and fallback_byte("<0x00>") == 0 and fallback_byte("<0xZZ>") is None
    assert is_byte_token("a", byte_alphabet=None) and not is_byte_token("é", byte_alphabet=None)
    assert is_special_spelling("<s>") and is_special_spelling("[A]") and not is_special_spelling("<1>")
    assert not is_special_spelling("<0x41>") and not is_special_spelling("<>")
    found = group_counts([("OK", "a"), ("UNDECODEABLE", "Ã"), ("UNREACHABLE_MULTI_TOKEN", "ab"), ("OK", "</s>")], None)
    assert (found.bytes, found.partial, found.unreachable, found.special) == (1, 1, 1, 1)


# Merging


def naive_merges(text: str, ranks: dict[tuple[str, str], int]) -> list[str]:
    parts = list(text)
    while True:
        known = [(ranks[pair], k) for k, pair in enumerate(itertools.pairwise(parts)) if pair in ranks]
        if not known:
            return parts
        k = min(known)[1]
        parts = [*parts[:k], parts[k] + parts[k + 1], *parts[k + 2 :]]


@st.composite
def merge_tables(draw: st.DrawFn) -> dict[tuple[str, str], int]:
    symbols = ["a", "b", "c"]
    ranks: dict[tuple[str, str], int] = {}
    for _ in range(draw(st.integers(0, 10))):
        pair = (draw(st.sampled_from(symbols)), draw(st.sampled_from(symbols)))
        if pair not in ranks and "".join(pair) not in symbols:
            ranks[pair] = len(ranks)
            symbols.append("".join(pair))
    return ranks


@given(merge_tables(), st.text("abc", max_size=14))
@settings(max_examples=200)
def test_replay_is_the_naive_replay(ranks: dict[tuple[str, str], int], text: str) -> None:
    parts, last = replay(list(text), ranks)
    assert parts == naive_merges(text, ranks)
    assert last is None or "".join(last) in "".join(parts)
    table = {"".join(pair).encode(): rank for pair, rank in ranks.items()}
    expected = text.encode()
    assert b"".join(replay_ranked(expected, table)[0]) == expected


@given(merge_tables(), st.lists(st.text("abc", min_size=1, max_size=12), max_size=8))
@settings(max_examples=200)
def test_appearances_are_what_a_replay_of_the_corpus_counts(ranks: dict[tuple[str, str], int], words: list[str]) -> None:
    tokens = ["a", "b", "c", *("".join(pair) for pair in ranks)]
    ids = {token: k for k, token in enumerate(tokens)}
    children = np.full((len(tokens), 2), -1, np.int32)
    for token in tokens[3:]:
        parts, last = replay(list(token), ranks)
        if parts == [token] and last is not None:
            children[ids[token]] = ids[last[0]], ids[last[1]]
    counts, stood = np.zeros(len(tokens), np.int64), Counter[str]()
    for word in words:
        parts = list(word)
        stood.update(parts)
        while True:
            known = [(ranks[pair], k) for k, pair in enumerate(itertools.pairwise(parts)) if pair in ranks]
            if not known:
                break
            k = min(known)[1]
            parts[k : k + 2] = [parts[k] + parts[k + 1]]
            stood[parts[k]] += 1
        for part in parts:
            counts[ids[part]] += 1
    order = np.array(sorted(np.flatnonzero(children[:, 0] >= 0), key=lambda t: len(tokens[t])), np.int64)
    found = appearances(counts, children, order)
    assert found.tolist() == [stood[token] for token in tokens]
    share = absorbed_share(counts, found)
    assert all(np.isnan(s) if not n else 0 <= s <= 1 for s, n in zip(share, found))


def test_best_segmentation() -> None:
    scores = {"a": -1.0, "b": -1.0, "ab": -1.5, "abc": -9.0, "c": -1.0}
    assert best_segmentation("ab", scores, unknown=-20) == ["ab"]
    assert best_segmentation("abc", scores, unknown=-20) == ["ab", "c"]
    assert best_segmentation("axb", scores, unknown=-20) == ["a", "x", "b"]


# Scaffolds


@given(st.lists(st.one_of(st.none(), st.binary(max_size=4)), max_size=14))
@settings(max_examples=200)
def test_absorbers_are_the_larger_ids_that_contain(data: list[bytes | None]) -> None:
    distinct = [d if d is None or data.index(d) == k else None for k, d in enumerate(data)]
    found = absorbers(distinct)
    for k, token in enumerate(distinct):
        holders = [j for j in range(k + 1, len(distinct)) if token and distinct[j] and token in (distinct[j] or b"")]
        assert found.number[k] == len(holders)
        assert [x for x in found.first[k].tolist() if x >= 0] == holders[:5]


def test_families_go_through_scaffolds() -> None:
    children = np.array([(-1, -1)] * 3 + [(0, 1), (3, 2), (4, 0), (0, 2)], np.int32)
    scaffold = np.array([False, False, False, True, True, False, False])
    assert families(children, scaffold).tolist() == [0, 1, 2, 5, 5, 5, 6]


# Prediction and verdict


def test_prediction() -> None:
    counts = np.array([0, 0, 5, 10, 11, 1000], np.int64)
    found = predict(counts, Plan(epochs=1), reachable=np.array([True, False, True, True, True, False]))
    assert found.kinds.tolist() == [NEVER, NEVER, RISK, RISK, "expected", "expected"]
    assert found.at_most.tolist() == [3, 0, 5, 10, 11, 1000]
    assert found.wanted.tolist() == [11, np.inf, 6, 1, 0, 0]
    assert found.never_seen[0] == 1 and found.never_seen[2] == pytest.approx(np.exp(-5))
    longer = predict(counts, Plan(tokens=2 * int(counts.sum()), epochs=3, at_risk=3))
    assert longer.sightings.tolist() == [0, 0, 30, 60, 66, 6000]
    with pytest.raises(ValueError, match="above 0"):
        Plan(tokens=0)


def test_verdicts() -> None:
    def both(**known: object) -> tuple[str, str]:
        values: dict[str, object] = {"kind": "normal", "reachable": True, "fragment": False, "leaf": True, **known}
        e = Evidence(**values)  # type: ignore[arg-type]
        return origin_of(e), suggestion_of(e)

    assert both() == ("ordinary", "keep")
    assert both(kind="byte", reachable=False) == ("byte", "keep")
    assert both(kind="special") == ("reserved", "keep")
    assert both(kind="gap") == ("reserved", "replace")
    assert both(reachable=False) == ("never_encodable", "drop")
    assert both(reachable=False, leaf=False) == ("never_encodable", "replace")
    seen = {"under_trained": True, "documents": 1, "sources": 1, "count": 3}
    assert both(**seen) == ("one_document", "drop")
    assert both(**seen, wanted=True) == ("one_document", "retrain")
    assert both(**{**seen, "documents": 3, "family": 4}) == ("one_family", "drop")
    assert both(**{**seen, "documents": 3, "num_sources": 2}) == ("one_source", "drop")
    assert both(**seen, absorbed=0.95, leaf=False) == ("scaffold", "replace")
    assert both(under_trained=True, count=0, documents=0) == ("unseen", "drop")
    assert both(under_trained=True, count=0, documents=0, fragment=True) == ("fragment", "drop")
