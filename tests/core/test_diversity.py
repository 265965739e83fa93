"""Diversity in numbers: against formulas written out, and against comparing every pair."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from typecase.core.minhash.sketch import shingle_texts, shingles_of
from typecase.core.selection.diversity import effective_number, gram_entropy, near_rate

WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau".split()  # noqa: SIM905


def columns(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    data = [text.encode() for text in texts]
    offsets = np.concatenate(([0], np.cumsum([len(one) for one in data]))).astype(np.int64)
    return np.frombuffer(b"".join(data), np.uint8), offsets


def rate(texts: list[str], threshold: float = 0.8) -> float:
    values, offsets = columns(texts)
    shingles, counts = shingle_texts(values, offsets, np.ones(len(texts), np.bool_))
    return near_rate(values, offsets, shingles, counts, threshold)


def prose(seed: int, words: int = 120) -> list[str]:
    return [WORDS[k] for k in np.random.default_rng(seed).integers(0, len(WORDS), words)]


@pytest.mark.parametrize(
    ("masses", "number"), [([], 0), ([0, 0], 0), ([7], 1), ([1, 1, 1, 1], 4), ([2, 1, 1], 2 * np.sqrt(2)), ([1, 0, 1], 2)]
)
def test_the_effective_number_is_that_of_equal_groups(masses: list[float], number: float) -> None:
    assert effective_number(masses) == pytest.approx(number)


@given(st.lists(st.floats(0.001, 100), min_size=1, max_size=20))
def test_the_effective_number_lies_between_one_and_all(masses: list[float]) -> None:
    assert 1 - 1e-9 <= effective_number(masses) <= len(masses) + 1e-9
    assert effective_number(np.array(masses) * 3) == pytest.approx(effective_number(masses))


def test_entropy_of_runs_in_bits() -> None:
    assert gram_entropy(np.zeros(0, np.uint64)) == 0
    assert gram_entropy(np.arange(8, dtype=np.uint64)) == pytest.approx(3)
    assert gram_entropy(np.array([1, 1, 2, 3], np.uint64)) == pytest.approx(1.5)


def test_near_duplicates_are_those_that_comparing_all_pairs_finds() -> None:
    texts = [" ".join(prose(n)) for n in range(12)]
    changed = prose(3)
    changed[60] = "changed"
    half = prose(4)[:60] + prose(99)[:60]
    texts += [" ".join(changed), " ".join(half), texts[5], "short", "short", "other"]
    sets = [set(shingles_of(text).tolist()) for text in texts]
    true = 0
    for k, one in enumerate(sets):
        alike = (len(one & other) / len(one | other) >= 0.8 for other in sets[:k] if one and other)
        true += texts[k] in texts[:k] or any(alike)
    assert true == 3 and rate(texts) == pytest.approx(true / len(texts))


def test_none_and_one_text_resemble_nothing() -> None:
    assert rate([]) == 0 and rate(["a text"]) == 0
