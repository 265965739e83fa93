"""The laws of the weights audit against slow, obvious versions of themselves."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from typecase.core.glitch.bigrams import PairCounter, fragment_pairs
from typecase.core.glitch.copies import class_of, controls_of, is_borderline, share_of
from typecase.core.glitch.decision import FINE, SUSPECT, UNDER_TRAINED, UNREACHABLE, Signals, advise, decide
from typecase.core.glitch.gate import Budget, check, parse_budget
from typecase.core.glitch.indicators import (
    centred_distances,
    component_distances,
    cosine_distances,
    first_component,
    l2_distances,
    ranks,
)
from typecase.core.glitch.neighbours import densities
from typecase.core.glitch.outliers import median_threshold, plateau_of, soft_threshold, threshold_of
from typecase.core.glitch.references import agreement, settle, spearman, tight_part, warnings_of
from typecase.core.glitch.utf8 import classify

# Indicators


@given(st.integers(0, 10_000), st.integers(2, 30), st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_indicators_are_their_formulas(seed: int, num_rows: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(num_rows, width)).astype(np.float32).astype(np.float64)
    m, p = rng.normal(size=width), rng.normal(size=width)
    p /= np.linalg.norm(p)
    mean, norms = u.mean(axis=0), np.linalg.norm(u, axis=1)

    def cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return 1 - a @ b / (np.linalg.norm(a, axis=1) * np.linalg.norm(b))

    np.testing.assert_allclose(cosine_distances(norms, u @ m, m), cosine(u, m), atol=1e-12)
    np.testing.assert_allclose(l2_distances(norms, u @ m, m), np.linalg.norm(u - m, axis=1), rtol=1e-9)
    if width > 1:
        expected = cosine(u - np.outer(u @ p, p), m - (m @ p) * p)
        np.testing.assert_allclose(component_distances(norms, u @ m, u @ p, m, p), expected, atol=1e-6)
        np.testing.assert_allclose(centred_distances(norms, u @ m, u @ mean, m, mean), cosine(u - mean, m - mean), atol=1e-6)


def test_the_first_component_is_that_of_an_eigenvector() -> None:
    rng = np.random.default_rng(0)
    rows = (rng.normal(size=(300, 6)) * [1, 5, 1, 2, 1, 1] + 7).astype(np.float32)
    found = first_component(rows)
    _, vectors = np.linalg.eigh(np.cov(rows.T))
    assert abs(found @ vectors[:, -1]) == pytest.approx(1, abs=1e-5)


def test_identical_rows_are_at_distance_zero() -> None:
    row = np.random.default_rng(1).normal(size=500).astype(np.float32).astype(np.float64)
    assert abs(cosine_distances(np.array([np.linalg.norm(row)]), np.array([row @ row]), row)[0]) < 1e-14


def test_ranks_put_dead_rows_first_and_unknown_last() -> None:
    values = np.array([0.5, np.nan, 0.1, np.nan, 0.1, 0.0])
    assert ranks(values, np.array([False, True, False, False, False, False])).tolist() == [5, 1, 3, 6, 4, 2]


# Neighbours


@given(st.integers(0, 10_000), st.integers(2, 60))
@settings(max_examples=30, deadline=None)
def test_densities_of_few_rows_are_exact(seed: int, num_rows: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(num_rows, 5)).astype(np.float32)
    unit = rows.astype(np.float64) / np.linalg.norm(rows, axis=1, keepdims=True)
    distances = 1 - unit @ unit.T
    np.fill_diagonal(distances, np.inf)
    expected = [np.mean(sorted(row[np.isfinite(row)])[:8]) for row in distances]
    np.testing.assert_allclose(densities(rows), expected, atol=1e-5)


def test_a_cluster_among_many_rows_is_found_by_buckets() -> None:
    rng = np.random.default_rng(0)
    rows = (rng.normal(size=(20_000, 64)) + rng.normal(size=64)).astype(np.float32)
    dead = rng.choice(20_000, 25, replace=False)
    rows[dead] = (rng.normal(size=64) + 0.02 * rng.normal(size=(25, 64))).astype(np.float32)
    found = densities(rows)
    assert set(np.argsort(found)[:25].tolist()) == set(dead.tolist())
    assert np.array_equal(found, densities(rows))


def test_few_rows_have_few_neighbours() -> None:
    assert np.isnan(densities(np.ones((1, 3), np.float32))).all()
    assert densities(np.ones((3, 3), np.float32)).tolist() == pytest.approx([0, 0, 0], abs=1e-6)


# References


def test_references_settle_on_the_tightest_direction() -> None:
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(200, 16)).astype(np.float32)
    rows[:12] = rows[0] + 0.01 * rng.normal(size=(12, 16)).astype(np.float32)
    found = settle([0, 1, 2, 3, 4, 150], list(range(200)), lambda ids: rows[list(ids)])
    assert set(found.ids) <= set(range(12)) and len(found.ids) == 6 and found.settled > 0


def test_only_what_stands_together_is_structural() -> None:
    rng = np.random.default_rng(3)
    tight = np.ones((8, 16)) + 0.01 * rng.normal(size=(8, 16))
    assert tight_part(range(8), tight.astype(np.float32), 1.0) == tuple(range(8))
    mixed = np.concatenate((tight, rng.normal(size=(3, 16)))).astype(np.float32)
    assert tight_part(range(20, 31), mixed, 1.0) == tuple(range(20, 28))
    assert tight_part(range(8), rng.normal(size=(8, 16)).astype(np.float32), 1.0) == ()
    assert tight_part(range(2), tight[:2].astype(np.float32), 1.0) == ()


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=3, max_size=30))
def test_spearman_is_pearson_of_mean_ranks(pairs: list[tuple[int, int]]) -> None:
    a, b = (np.array(column, np.float64) for column in zip(*pairs))

    def ranked(v: np.ndarray) -> np.ndarray:
        return np.array([(np.sum(v < x) + 1 + np.sum(v <= x)) / 2 for x in v])

    if len(set(a)) > 1 and len(set(b)) > 1:
        assert spearman(a, b) == pytest.approx(np.corrcoef(ranked(a), ranked(b))[0, 1])
    else:
        assert np.isnan(spearman(a, b))


def test_agreement_and_warnings() -> None:
    values = np.linspace(0.1, 1, 200)
    assert agreement(values, values * 2).jaccard == 1 and agreement(values, -values).spearman == pytest.approx(-1)
    good = np.concatenate(([0.001] * 5, [0.01], np.linspace(0.3, 0.9, 100)))
    assert warnings_of(good, range(5)) == ()
    compressed = np.concatenate(([0.001] * 5, np.linspace(0.37, 0.9, 100)))
    assert "compressed" in warnings_of(compressed, range(5))[0]


# Outliers


def test_the_share_is_the_published_count() -> None:
    """GPT-2: 49912 ordinary tokens give 999 at or below the 2nd percentile."""
    values = np.random.default_rng(0).permutation(49912).astype(np.float64)
    ordinary = np.ones(len(values), np.bool_)
    assert (values <= threshold_of(values, ordinary)).sum() == 999
    assert np.isnan(threshold_of(values, ~ordinary))


def test_the_plateau_of_gpt2() -> None:
    """The published values of GPT-2 small: ten tokens at 0.0014 to 0.0016, then 0.0076, 0.022, 0.036 and on."""
    listed = [
        0.00143921,
        0.00145763,
        0.00147873,
        0.00148576,
        0.00153571,
        0.00154209,
        0.00156629,
        0.00158066,
        0.00158507,
        0.00160545,
    ]
    rest = [0.00763935, 0.022287, 0.036516, 0.0397143, 0.0400726, 0.135858, 0.139732, 0.163166]
    values = np.concatenate((listed, rest, np.linspace(0.2, 0.7, 400)))
    found = plateau_of(np.random.default_rng(0).permutation(values))
    assert found is not None and found.size == 10 and found.high == 0.00160545 and found.after == 0.00763935
    assert plateau_of(np.linspace(0.3, 0.7, 400)) is None and plateau_of(np.array([0.1, 0.2])) is None


@given(st.lists(st.booleans(), min_size=0, max_size=60))
def test_the_soft_threshold_is_the_published_rule(verified: list[bool]) -> None:
    values = np.arange(len(verified), dtype=np.float64)
    expected = float("nan") if not verified else values[-1]
    for at in range(12, len(verified)):
        window = verified[at - 12 : at + 13]
        if sum(window) / len(window) < 2 / 3:
            expected = values[at - 1]
            break
    assert np.array_equal(soft_threshold(values, np.array(verified, np.bool_)), expected, equal_nan=True)


def test_the_median_threshold() -> None:
    values = np.array([1.0, 2.0, 3.0, 9.0])
    assert median_threshold(values, np.array([True, True, False, True])) == 2 and median_threshold(values, values > 99) == 0


# Copies


def test_classes_and_intervals() -> None:
    assert [class_of(p) for p in (None, 0.0, 0.0005, 0.005, 0.05, 0.5, 0.95)] == [
        "not_tested", "strong_verified", "strong_verified", "weak_verified", "weak_verified", "weak_rejected", "strong_rejected"
    ]  # fmt: skip
    assert is_borderline(0.006) and is_borderline(0.019) and not is_borderline(0.004) and not is_borderline(0.03)
    found = share_of(0, 64)
    assert found.low == 0 and found.high == pytest.approx(0.0566, abs=1e-3)
    assert share_of(32, 64).low == pytest.approx(0.3807, abs=1e-3) and share_of(0, 0).high == 1


def test_a_model_that_cannot_copy_is_void() -> None:
    good = controls_of([0.9, 0.8, 0.2], [0.5, 0.001], [1e-5, 1e-6], [(0.5, 0.4), (0.001, 0.4)])
    assert not good.void and good.can_copy == 0.8 and good.false_verified.hits == 1 and good.dead_verified.hits == 2
    assert good.stable.hits == 1
    assert controls_of([0.1, 0.2], [], [], []).void and controls_of([], [], [], []).void


# Decision


@pytest.mark.parametrize(
    ("signals", "decision", "advice"),
    [
        (Signals(), FINE, "keep"),
        (Signals(verified=True, max_prob=1e-5), UNDER_TRAINED, "drop"),
        (Signals(verified=True, max_prob=0.0, leaf=False), UNDER_TRAINED, "replace"),
        (Signals(verified=True, max_prob=0.008, borderline=True), SUSPECT, "keep"),
        (Signals(verified=False, max_prob=0.7, candidate=True, prediction="never"), FINE, "keep"),
        (Signals(row="zero"), UNDER_TRAINED, "drop"),
        (Signals(row="zero", wanted=True), UNDER_TRAINED, "reinitialise"),
        (Signals(row="ordinary", candidate=True, percentile=1.0), SUSPECT, "keep"),
        (Signals(row="ordinary", candidate=False, prediction="at_risk", count=3), FINE, "keep"),
        (Signals(row="ordinary", in_plateau=True, candidate=True), UNDER_TRAINED, "drop"),
        (Signals(prediction="never"), SUSPECT, "keep"),
        (Signals(prediction="at_risk", count=2, wanted=True), SUSPECT, "retrain"),
        (Signals(reachable=False), UNREACHABLE, "drop"),
        (Signals(reachable=False, count=5), FINE, "keep"),
        (Signals(kind="special", verified=True, max_prob=0.0), UNDER_TRAINED, "keep"),
        (Signals(kind="unused", verified=True, max_prob=0.0), UNDER_TRAINED, "replace"),
    ],
)
def test_decisions(signals: Signals, decision: str, advice: str) -> None:
    found, reasons = decide(signals)
    assert found == decision and advise(signals, found) == advice
    assert (decision == FINE) or reasons


def test_reasons_name_every_side() -> None:
    s = Signals(verified=True, max_prob=2e-5, candidate=True, percentile=0.4, prediction="never", reachable=False)
    assert decide(s)[1] == (
        "the model cannot repeat it (p 2e-05)",
        "its row is in the lowest 0.4 % of its category",
        "the corpus never shows it",
        "no text makes it",
    )


# Bigrams of incomplete tokens


@given(st.lists(st.binary(min_size=1, max_size=3).map(lambda b: bytes(x | 0x80 for x in b)), max_size=12))
@settings(deadline=None)
def test_pairs_are_those_that_decode_together_and_not_alone(some: list[bytes]) -> None:
    data = [*"龍契é😀".encode().split(b"\x00"), *some, b"\xe9\xbe", b"\x8d", b"a\xf0\x9f", b"\x98\x80b", b"\xc3"]

    def decodes(raw: bytes) -> bool:
        return raw.decode("utf-8", "replace").encode() == raw

    kinds = [classify(d) for d in data]
    expected = {
        (a, b)
        for a in range(len(data))
        for b in range(len(data))
        if kinds[a].kind == "prefix" and kinds[b].kind == "suffix" and decodes(data[a] + data[b])
    }
    found = list(fragment_pairs(data, kinds))
    assert len(found) == len(set(found)) and set(found) == expected
    assert (len(data) - 5, len(data) - 4) in expected and (len(data) - 3, len(data) - 2) in expected


@given(
    st.lists(st.lists(st.integers(0, 12), max_size=30), max_size=5),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), unique=True, max_size=20),
    st.sampled_from(["uint8", "uint16", "uint32", "int32", "int64"]),
)
@settings(deadline=None, max_examples=60)
def test_pairs_are_counted_within_runs(runs: list[list[int]], pairs: list[tuple[int, int]], dtype: str) -> None:
    """Ids of 10 and more are beyond the vocabulary: they begin no pair, and end none."""
    counter = PairCounter(pairs, 10)
    for part in (runs[:2], runs[2:]):
        flat = np.array([t for run in part for t in run], dtype)
        counter.add(flat, np.cumsum([0, *map(len, part)]))
    naive = Counter(two for run in runs for two in itertools.pairwise(run))
    assert counter.counts.tolist() == [naive[pair] for pair in pairs]


# Gate


def test_budgets() -> None:
    assert parse_budget("wasted=2.5%") == Budget("wasted", 2.5, True) and parse_budget(" zero_rows =3") == Budget(
        "zero_rows", 3
    )
    for wrong in ("nothing=1", "wasted", "wasted=x", "wasted=-1"):
        with pytest.raises(ValueError, match=r"measure|budget"):
            parse_budget(wrong)
    assert check(Budget("wasted", 2, True), tuple(range(3)), 100).passed is False
    assert check(Budget("wasted", 3), tuple(range(3)), 100).passed is True
