"""Sketches: shingles of words, bands that meet as often as the formula says, the same for a text wherever it lies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from typecase.core.minhash.sketch import (
    MIN_SHINGLES,
    PERMUTATIONS,
    RECALL,
    Scheme,
    keys_of,
    scheme_for,
    shingle_texts,
    shingles_of,
    sketch_sets,
    sketch_texts,
)
from typecase.errors import FixInput


def laid(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    raw = [text.encode() for text in texts]
    return np.frombuffer(b"".join(raw), np.uint8), np.cumsum([0, *map(len, raw)]).astype(np.int64)


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0])
def test_a_scheme_keeps_its_promise(threshold: float) -> None:
    scheme = scheme_for(threshold)
    assert scheme.recall(threshold) >= RECALL and scheme.permutations <= PERMUTATIONS
    assert scheme.recall(threshold) == pytest.approx(1 - (1 - threshold**scheme.rows) ** scheme.bands)


def test_golden_scheme_and_bounds() -> None:
    assert scheme_for(0.8) == Scheme(16, 6)
    for wrong in (0.0, 0.29, 1.01):
        with pytest.raises(FixInput, match=r"from 0\.3 to 1"):
            scheme_for(wrong)


@given(st.lists(st.sampled_from("abc"), max_size=30), st.integers(1, 6))
def test_shingles_are_runs_of_words(words: list[str], size: int) -> None:
    runs = [tuple(words[k : k + size]) for k in range(len(words) - size + 1)]
    found = shingles_of(" ".join(words), size).tolist()
    assert len(found) == len(runs)
    assert [found.index(one) for one in found] == [runs.index(run) for run in runs]


def test_bands_meet_as_often_as_the_formula_says() -> None:
    """Pairs of sets of similarity 0.6: meetings of 600 pairs are binomial; five standard deviations."""
    rng, scheme, pairs = np.random.default_rng(1), Scheme(10, 4), 600
    met = 0
    for _ in range(pairs):
        shingles = rng.integers(0, 1 << 63, 125, dtype=np.uint64)
        met += bool((keys_of(shingles[:100], scheme) == keys_of(shingles[25:], scheme)).any())
    expected = scheme.recall(0.6)
    assert abs(met / pairs - expected) < 5 * (expected * (1 - expected) / pairs) ** 0.5


def test_a_text_is_sketched_alike_wherever_it_lies() -> None:
    rng, scheme = np.random.default_rng(2), scheme_for(0.8)
    texts = [" ".join(f"w{n}" for n in rng.integers(0, 99, size)) for size in (0, 3, MIN_SHINGLES + 3, 50, 200)]
    wanted = np.array([True, True, True, False, True])
    keys, counts = sketch_texts(*laid(texts), wanted, scheme)
    shingles, again = shingle_texts(*laid(texts), wanted)
    assert counts.tolist() == again.tolist() == [0, 0, MIN_SHINGLES - 1, 0, 196]
    assert not keys[:4].any() and len(shingles) == counts.sum()
    assert keys[4].tolist() == keys_of(shingles_of(texts[4]), scheme).tolist()
    both = np.concatenate((shingles_of(texts[3]), shingles_of(texts[4])))
    assert sketch_sets(both, np.array([0, 46, 242]), scheme)[1].tolist() == keys[4].tolist()


def test_golden_keys() -> None:
    """Signatures are part of what an artifact's bytes follow from: they may not change unnoticed."""
    keys = keys_of(shingles_of(" ".join(f"word{k}" for k in range(40))), Scheme(2, 3))
    assert [f"{key:016x}" for key in keys.tolist()] == GOLDEN


GOLDEN = ["8e1a8b2242958ab7", "b5529095b6d072fa"]
