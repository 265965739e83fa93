"""Importance: the published definition to the bit, the fast one beside it, and log-weights that find a planted source."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from typecase.core.selection.importance import BUCKETS, features_of, log_ratio_of, sha_features

TEXTS = st.lists(st.text(max_size=60) | st.text("ab c.!?\n_9é中’", max_size=40), max_size=5)


def bytes_of(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    data = [t.encode("utf-8", "replace") for t in texts]
    offsets = np.cumsum([0, *map(len, data)]).astype(np.int64)
    return np.frombuffer(b"".join(data), np.uint8), offsets


def naive_words(text: str) -> list[str]:
    """NLTK's WordPunct tokens, lower-cased."""
    return re.findall(r"\w+|[^\w\s]+", text.lower())


def naive_counts(text: str, num_buckets: int) -> list[int]:
    """The published features: unigrams and bigrams, SHA-256 of the text of each, modulo the buckets."""
    words = naive_words(text)
    counts = [0] * num_buckets
    for gram in [*words, *(f"{a} {b}" for a, b in itertools.pairwise(words))]:
        counts[int(hashlib.sha256(gram.encode("utf-8")).hexdigest(), 16) % num_buckets] += 1
    return counts


def naive_log_weights(target: list[str], corpus: list[str], num_buckets: int) -> list[float]:
    """Of every text of the corpus."""
    shares = []
    for texts in (target, corpus):
        total = [sum(column) for column in zip(*(naive_counts(t, num_buckets) for t in texts), strict=True)]
        mass = sum(total)
        shares.append([n / mass for n in total])
    ratio = [math.log(t + 1e-8) - math.log(r + 1e-8) for t, r in zip(*shares, strict=True)]
    return [sum(c * x for c, x in zip(naive_counts(text, num_buckets), ratio, strict=True)) for text in corpus]


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=60), min_size=1, max_size=4))
def test_sha256_is_the_published_definition(texts: list[str]) -> None:
    buckets = 97
    made = features_of(*bytes_of(texts), "sha256", buckets)
    start = 0
    for i, text in enumerate(texts):
        found = np.bincount(made.buckets[start : made.ends[i]], minlength=buckets)
        assert found.tolist() == naive_counts(text, buckets)
        assert made.words[i] == len(naive_words(text))
        start = int(made.ends[i])


def test_log_weights_are_the_published_ones() -> None:
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(300)] + [".", ",", "!?"]
    corpus = [" ".join(rng.choice(words, 150)) for _ in range(12)]
    target = [" ".join(rng.choice(words[:60], 150)) for _ in range(5)]
    of_target, of_corpus = sha_features(target).counts(), sha_features(corpus).counts()
    found = sha_features(corpus).log_weights(log_ratio_of(of_target, of_corpus))
    np.testing.assert_allclose(found, naive_log_weights(target, corpus, BUCKETS), rtol=0, atol=1e-6)


@given(TEXTS)
def test_fast_words_are_the_same_words(texts: list[str]) -> None:
    """As many words, and as many different features, as the naive tokens have (in so many buckets that none collide)."""
    texts = [t.encode("utf-8", "replace").decode().lower() for t in texts]
    made = features_of(*bytes_of(texts), "fast", 1 << 30)
    start = 0
    for i, text in enumerate(texts):
        words = re.findall(r"\w+|[^\w\s]+", text)
        grams = Counter([*((w,) for w in words), *itertools.pairwise(words)])
        assert made.words[i] == len(words)
        assert sorted(Counter(made.buckets[start : made.ends[i]].tolist()).values()) == sorted(grams.values())
        start = int(made.ends[i])


def test_fast_golden() -> None:
    made = features_of(*bytes_of(["the cat sat!", "", "the cat 中文 é"]), "fast")
    assert made.ends.tolist() == [7, 7, 14] and made.words.tolist() == [4, 0, 4]
    assert made.buckets.tolist()[:3] == made.buckets.tolist()[7:10], "the, cat, the cat"
    assert made.buckets.tolist() == GOLDEN


GOLDEN = [8197, 9058, 26, 5835, 3499, 6655, 311, 8197, 9058, 26, 4834, 3284, 9293, 8695]


def test_parts_add_up() -> None:
    values, offsets = bytes_of(["one two three", "two three four", "five"])
    whole = features_of(values, offsets).counts()
    parts = sum(features_of(values, offsets[k : k + 2]).counts() for k in range(3))
    assert (whole == parts).all() and whole.sum() == 5 + 5 + 1


@pytest.mark.parametrize("hashing", ["fast", "sha256"])
def test_a_planted_source_is_found_and_length_does_not_count_per_word(hashing: str) -> None:
    """Three word sources; the target is one of them. AUC of the log-weight, and what its share of a word owes to length."""
    rng = np.random.default_rng(1)
    chances = [rng.dirichlet(np.full(30, 0.5)) for _ in range(3)]
    words = np.array([f"w{i}" for i in range(30)])

    def text(source: int, length: int) -> str:
        return " ".join(rng.choice(words, length, p=chances[source]))

    truth = rng.integers(0, 3, 240)
    lengths = rng.integers(20, 400, 240)
    corpus = [text(int(s), int(n)) for s, n in zip(truth, lengths, strict=True)]
    target = [text(0, 300) for _ in range(60)]
    made = features_of(*bytes_of(corpus), hashing)  # type: ignore[arg-type]
    of_target = features_of(*bytes_of(target), hashing).counts()  # type: ignore[arg-type]
    weight = made.log_weights(log_ratio_of(of_target, made.counts()))
    mine, other = weight[truth == 0], weight[truth != 0]
    assert (mine[:, None] > other[None, :]).mean() > 0.99
    per_word = weight / made.words
    inside = truth == 0
    assert abs(np.corrcoef(lengths[inside], weight[inside])[0, 1]) > 0.9, "a sum grows with length"
    assert abs(np.corrcoef(lengths[inside], per_word[inside])[0, 1]) < 0.5


def test_an_empty_side_has_no_share() -> None:
    ratio = log_ratio_of(np.zeros(4, np.int64), np.array([1, 0, 0, 1]))
    assert ratio[1] == 0 and ratio[0] < -17
