"""Planted damage: a dose hits that share of units, a higher one keeps the faults of a lower one, nothing else moves."""

from __future__ import annotations

from collections import Counter

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from typecase.core.damage.phrases import CHATTER, CLICHES, FOREIGN, HOSTILE, PLATITUDES, WEB_FURNITURE
from typecase.core.damage.planting import DAMAGES, DOSES, Damage, cut_sentences, damaged
from typecase.lm.rate.damage import _ADVERTS
from typecase.lm.rate.rubric import load_rubric

TEXT = (
    "The harbour master counted seventeen fishing boats before breakfast. Yesterday's thunderstorm had damaged several"
    " moorings, although nobody mentioned insurance.\n\nRepairs continued throughout the afternoon; carpenters replaced"
    " broken planking. A quartermaster phoned the lighthouse about additional equipment.\n* rope and canvas\n* lanterns\n"
)
LONG = "\n\n".join(TEXT.replace("seventeen", f"seventeen{k}") for k in range(12))
OTHER = "Wheat grows slowly here. Ploughing begins in March. Hedges shelter the partridges.\n"
BY_NAME = {damage.name: damage for damage in DAMAGES}


def plant(damage: Damage, dose: float, text: str = LONG) -> str:
    return damaged(text, damage, dose, seed=3, other=OTHER)


def test_each_criterion_has_one_damage() -> None:
    rubric = load_rubric("dataman")
    assert [damage.criterion for damage in DAMAGES] == [column for column in rubric.columns if column != rubric.summary]
    assert len(BY_NAME) == len(DAMAGES) and all(0 < dose <= 1 for dose in DOSES) and list(DOSES) == sorted(DOSES)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.name)
def test_damage_grows_with_the_dose_and_is_the_same_every_time(damage: Damage) -> None:
    assert plant(damage, 0) == LONG
    texts = [plant(damage, dose) for dose in DOSES]
    assert texts == [plant(damage, dose) for dose in DOSES]
    assert damaged(LONG, damage, 0.4, seed=4, other=OTHER) != texts[3]
    kept = [sum((Counter(LONG) & Counter(text)).values()) - abs(len(text) - len(LONG)) for text in texts]
    changed = [text != LONG for text in texts]
    assert changed[2:] == [True] * 3 and len(set(texts)) >= 4
    if damage.name != "displaced":  # which keeps every letter
        assert kept[-1] < kept[1]


@given(st.sampled_from(DOSES), st.sampled_from(DOSES), st.integers(0, 50))
@settings(max_examples=20)
def test_a_higher_dose_keeps_the_faults_of_a_lower_one(low: float, high: float, seed: int) -> None:
    low, high = min(low, high), max(low, high)
    for name in ("misspelt", "dumbed-down"):
        few, many = (damaged(LONG, BY_NAME[name], dose, seed=seed).split() for dose in (low, high))
        for before, at_low, at_high in zip(LONG.split(), few, many, strict=True):
            assert at_low in (before, at_high)


def test_a_dose_hits_that_share_of_the_units() -> None:
    text = "Carpenters mended planking. " * 400
    for dose in DOSES:
        sentences = cut_sentences(plant(BY_NAME["platitudes"], dose, text))[0]
        share = sum(sentence in PLATITUDES for sentence in sentences) / 400
        assert abs(share - dose) < 0.08


@given(st.text(alphabet="ab.!? \n\t", max_size=60))
def test_sentences_and_gaps_tile_the_text(text: str) -> None:
    sentences, gaps = cut_sentences(text)
    assert len(sentences) == len(gaps) + 1
    assert "".join(part for pair in zip(sentences, [*gaps, ""], strict=True) for part in pair) == text


def test_displaced_sentences_are_the_same_sentences() -> None:
    moved = plant(BY_NAME["displaced"], 0.8)
    assert moved != LONG and Counter(moved.split()) == Counter(LONG.split())
    assert all(moved.count(sentence) == LONG.count(sentence) for sentence in set(cut_sentences(LONG)[0]) if sentence)
    assert moved.count("\n") == LONG.count("\n")


def test_invaders_need_another_text() -> None:
    assert damaged(TEXT, BY_NAME["invaded"], 0.8, seed=1, other="  \n") == TEXT
    assert "partridges" in damaged(LONG, BY_NAME["invaded"], 0.8, seed=1, other=OTHER)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.name)
@pytest.mark.parametrize("text", ["", "\n\n", "x", "日本語。", "a\ud800b"])
def test_any_text_is_damaged_without_an_error(damage: Damage, text: str) -> None:
    assert isinstance(damaged(text, damage, 1.0, seed=1, other=text), str)


def test_a_dose_is_a_share() -> None:
    with pytest.raises(ValueError, match=r"share of units in \[0, 1\], got 1.5"):
        damaged(TEXT, DAMAGES[0], 1.5, seed=1)


def test_no_phrase_is_one_that_raters_are_trained_on() -> None:
    phrases = {
        phrase.casefold() for group in (FOREIGN, WEB_FURNITURE, PLATITUDES, CLICHES, CHATTER, HOSTILE) for phrase in group
    }
    assert not phrases & {advert.casefold() for advert in _ADVERTS}
