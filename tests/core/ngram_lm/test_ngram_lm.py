"""The n-gram model: every byte is in a symbol, counts add up, chances are those of the plain formula and sum to 1."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.ngram_lm.naive import NaiveModel
from typecase.core.ngram_lm.counts import Counts, count, merged, no_counts
from typecase.core.ngram_lm.model import NgramModel, fit
from typecase.core.ngram_lm.symbols import Spelling, Unit, cut, spell
from typecase.lm.rate.rater import pack_texts

TEXTS = ["the cat sat on the mat", "the cat ran", "a dog sat on the cat", "the dog ran on", "mat", "on the mat the cat sat"]


def model_of(texts: list[str], order: int, unit: Unit) -> NgramModel:
    values, offsets = pack_texts(texts)
    symbols = cut(values, offsets, unit)
    return fit(count(symbols, order), spell(values, symbols), unit)


def pieces(text: str) -> list[str]:
    values, offsets = pack_texts([text])
    starts = cut(values, offsets, "words").starts
    return [values[a:b].tobytes().decode() for a, b in itertools.pairwise(starts)]


def test_symbols_are_words_with_their_blank() -> None:
    assert pieces("The cat sat.\n\n第3 Ünïcode  x don't") == [
        "The", " cat", " sat", ".", "\n\n", "第", "3", " Ünïcode", " ", " x", " don", "'", "t",
    ]  # fmt: skip
    assert pieces("x" * 100) == ["x" * 48, "x" * 48, "x" * 4]


@given(st.lists(st.text(max_size=30), min_size=1, max_size=5))
def test_symbols_tile_the_texts(texts: list[str]) -> None:
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    for unit in ("words", "bytes"):
        values, offsets = pack_texts(texts)
        symbols = cut(values, offsets, unit)  # type: ignore[arg-type]
        assert symbols.starts[-1] == len(values) and (np.diff(symbols.starts) > 0).all()
        edges = np.concatenate(([0], symbols.ends))
        assert symbols.starts[edges].tolist() == offsets.tolist()
        alone = [cut(*pack_texts([text]), unit).keys.tolist() for text in texts]  # type: ignore[arg-type]
        assert [symbols.keys[a:b].tolist() for a, b in itertools.pairwise(edges)] == alone


@pytest.mark.parametrize("order", [2, 3, 5])
def test_chances_are_those_of_the_plain_formula(order: int) -> None:
    model, naive = model_of(TEXTS, order, "bytes"), NaiveModel(TEXTS, order)
    asked = [*TEXTS, "a mat", "zebra crossing", "t", "the the the"]
    nats, sizes = model.score(*pack_texts(asked))
    assert sizes.tolist() == [len(text) for text in asked]
    np.testing.assert_allclose(nats, [naive.nats(text, 1 / 256) for text in asked], rtol=2e-6)


def test_words_are_those_of_the_plain_formula_and_unseen_ones_are_spelled() -> None:
    model, naive = model_of(TEXTS, 3, "words"), NaiveModel([pieces(text) for text in TEXTS], 3)
    known = ["the cat sat on the mat", "a cat", "the mat ran"]
    np.testing.assert_allclose(model.score(*pack_texts(known))[0][:1], naive.nats(pieces(known[0]), 0.0), rtol=2e-6)
    values, offsets = pack_texts(TEXTS)
    spelling = spell(values, cut(values, offsets, "words")).log_chances()
    word = [256, *b" zebu", 256]
    spelled = math.exp(sum(float(spelling[a, b]) for a, b in itertools.pairwise(word)))
    expected = -math.log(naive.chance(("the", " cat"), " zebu", spelled))
    both, alone = model.score(*pack_texts(["the cat zebu", "the cat"]))[0]
    assert both - alone == pytest.approx(expected, rel=1e-5)


@settings(max_examples=25)
@given(st.lists(st.text("ab ", max_size=12), min_size=1, max_size=6), st.text("abc ", max_size=4))
def test_chances_behind_any_context_sum_to_one(texts: list[str], context: str) -> None:
    model = model_of(texts, 3, "bytes")
    before = context.encode()
    asked = b"".join(before + bytes([byte]) for byte in range(256))
    offsets = np.arange(257) * (len(before) + 1)
    nats = model.score(np.frombuffer(asked, np.uint8), offsets)[0]
    head = model.score(np.frombuffer(before, np.uint8), np.array([0, len(before)]))[0][0]
    assert math.fsum(np.exp(head - nats)) == pytest.approx(1, abs=1e-5)


@settings(max_examples=25)
@given(st.lists(st.text("ab é", max_size=12), min_size=1, max_size=8), st.data())
def test_counts_of_parts_are_the_counts_of_the_whole(texts: list[str], data: st.DataObject) -> None:
    texts = [text.encode("utf-8", "replace").decode() for text in texts]

    def counted(some: list[str]) -> Counts:
        return count(cut(*pack_texts(some), "words"), 3)

    at = sorted(data.draw(st.lists(st.integers(0, len(texts)), max_size=3)))
    parts = [counted(texts[a:b]) for a, b in zip([0, *at], [*at, len(texts)])]
    whole = counted(texts)
    for some in (parts, parts[::-1]):
        total = merged(some, 3)
        for name in ("grams", "keys", "times"):
            np.testing.assert_array_equal(getattr(total, name), getattr(whole, name))
    assert (np.diff(whole.keys.astype(object)) > 0).all()


def test_chosen_texts_alone_are_counted() -> None:
    values, offsets = pack_texts(TEXTS)
    chosen = np.array([True, False, True, False, False, True])
    symbols = cut(values, offsets, "words")
    some = [text for text, mine in zip(TEXTS, chosen) if mine]
    alone = cut(*pack_texts(some), "words")
    np.testing.assert_array_equal(count(symbols, 3, chosen).grams, count(alone, 3).grams)
    np.testing.assert_array_equal(spell(values, symbols, chosen).pairs, spell(pack_texts(some)[0], alone).pairs)


def test_a_model_of_nothing_spells() -> None:
    model = fit(no_counts(3), Spelling.empty(), "words")
    nats, sizes = model.score(*pack_texts(["ab", ""]))
    assert nats.tolist() == [pytest.approx(3 * math.log(257)), 0.0] and sizes.tolist() == [1, 0]
    assert fit(no_counts(3), Spelling.empty(), "bytes").score(*pack_texts(["ab"]))[0][0] == pytest.approx(2 * math.log(256))


def test_perplexity_of_a_models_own_text_is_its_entropy() -> None:
    """Text is drawn from the model symbol by symbol; nats a symbol must be the mean entropy of the chances drawn from."""
    rng = np.random.default_rng(5)
    model = model_of(["abracadabra " * 3, "a bad cab ", "dab a drab cad "] * 4, 3, "bytes")
    drawn, entropies = b"", []
    for _ in range(3000):
        context = drawn[-2:] if len(drawn) > 1 else drawn
        asked = np.frombuffer(b"".join(context + bytes([b]) for b in range(256)), np.uint8)
        nats = model.score(asked, np.arange(257) * (len(context) + 1))[0]
        # Behind two symbols the start no longer counts: the differences are ln of the conditional chances.
        chances = np.exp(nats.min() - nats) if len(context) else np.exp(-nats)
        chances /= chances.sum()
        entropies.append(-(chances * np.log(np.maximum(chances, 1e-300))).sum())
        drawn += bytes([int(rng.choice(256, p=chances))])
    nats, sizes = model.score(np.frombuffer(drawn, np.uint8), np.array([0, len(drawn)]))
    assert nats[0] / sizes[0] == pytest.approx(np.mean(entropies), rel=0.05)
    assert abs(nats[0] / sizes[0] - math.log(256)) > 2
    learned = model_of([drawn.decode("latin-1")], 3, "bytes")
    assert learned.score(np.frombuffer(drawn, np.uint8), np.array([0, len(drawn)]))[0][0] < nats[0] * 1.05


def test_equal_counts_give_equal_models() -> None:
    one, two, other = model_of(TEXTS, 3, "words"), model_of(TEXTS[::-1], 3, "words"), model_of(TEXTS[1:], 3, "words")
    assert one.fingerprint == two.fingerprint != other.fingerprint
