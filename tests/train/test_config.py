"""Sizes, costs and what cannot be."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.train.small_runs import small_plan, small_shape
from typecase.errors import BadQuery
from typecase.train.config import PRESETS, preset, shape_from
from typecase.train.schedule import rate_at

VOCABULARIES = {"1m": 2048, "3m": 4096, "10m": 8192, "30m": 16384}


@pytest.mark.parametrize("name", list(PRESETS))
def test_a_preset_has_about_as_many_weights_as_it_says(name: str) -> None:
    shape = preset(name, vocab=VOCABULARIES[name], context=512)
    assert 0.9 <= shape.parameters / (int(name[:-1]) * 1e6) <= 1.3


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_the_weights_are_counted_right(tied: bool, kv_heads: int) -> None:
    pytest.importorskip("torch")
    from typecase.train.model import GPT

    shape = small_shape(tied=tied, kv_heads=kv_heads)
    model = GPT(shape)
    assert sum(weight.numel() for weight in model.parameters()) == shape.parameters
    outside = shape.vocab * shape.width * (1 if tied else 2)
    assert shape.parameters - outside == shape.body_parameters


def test_the_cost_of_a_token_is_that_of_its_products() -> None:
    """Counted product by product: two operations a multiplication, three products a weight, and attention without causality."""
    shape = small_shape()
    per_layer = shape.width * (shape.width + 2 * shape.kv_heads * shape.head_width) + shape.width**2 + 3 * shape.width * 48
    products = shape.layers * per_layer + shape.vocab * shape.width
    norms = shape.width * (2 * shape.layers + 1)
    attention = shape.layers * 2 * shape.context * shape.width
    assert shape.flops_per_token == 6 * (products + norms) + 6 * attention


def test_a_shape_comes_back_from_its_values() -> None:
    shape = small_shape(tied=False, rope_base=500.0)
    assert shape_from(shape.as_dict()) == shape


@pytest.mark.parametrize(
    "changes", [{"layers": 0}, {"heads": 3}, {"kv_heads": 3}, {"width": 36}, {"rope_base": 0.0}, {"vocab": -1}]
)
def test_what_is_no_model_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(BadQuery):
        small_shape(**changes)


@pytest.mark.parametrize(
    "changes",
    [{"steps": 0}, {"warmup": 9}, {"learning_rate": 0.0}, {"min_learning_rate": 1.0}, {"beta2": 1.0}, {"dtype": "half"}],
)
def test_what_is_no_plan_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(BadQuery):
        small_plan(**changes)


def test_an_unknown_preset_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadQuery, match="1m, 3m"):
        preset("7b", vocab=10, context=10)


def test_the_rate_rises_and_falls() -> None:
    plan = small_plan(steps=101, warmup=10, learning_rate=1.0, min_learning_rate=0.1)
    rates = [rate_at(step, plan) for step in range(plan.steps)]
    assert rates[0] == pytest.approx(0.1) and rates[9] == rates[10] == 1.0
    assert all(a >= b for a, b in pairwise(rates[10:]))
    assert rates[55] == pytest.approx(0.55) and rates[-1] == pytest.approx(0.1)
    assert rate_at(0, small_plan(steps=1, warmup=0)) == small_plan().learning_rate
