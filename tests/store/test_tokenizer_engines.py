"""Long runs, refusals, and the way white space is parted."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from hypothesis import given

from typecase.errors import BadQuery, CorruptStore, FixInput
from typecase.store.tokenizer.engines import JsonEngine, RankEngine
from typecase.store.tokenizer.known import CL100K, GPT2, O200K, PATTERNS, Pattern
from typecase.store.tokenizer.proof import FastPlan
from typecase.store.tokenizer.tokenizer import open_tokenizer

from .tokenizer_samples import BYTES, GPT4, RUNS, definition_of, library, library_ids, planned, texts

SINGLE = {bytes([byte]): byte for byte in range(256)}


@pytest.mark.parametrize("char", ["a", " ", "\n", "-", "7", "中"])
def test_a_million_of_one_character(char: str) -> None:
    text = char * (300_000 // len(char.encode()))
    for path in (BYTES, RUNS, GPT4):
        assert open_tokenizer(path).encode(text).tolist() == library_ids(library(path), text)


def test_a_long_text_without_a_space() -> None:
    text = "".join(random.Random(4).choices("abcdefghijklmnopqrstuvwxyzABCDEF", k=300_000))
    for path in (BYTES, GPT4):
        assert open_tokenizer(path).encode(text).tolist() == library_ids(library(path), text)


@pytest.mark.parametrize(
    ("pattern", "white"),
    [
        pytest.param(GPT2, " ", id="gpt2"),
        pytest.param(CL100K, "\n\u2003", id="cl100k-breaks"),
        pytest.param(GPT2, "\n\u2003", id="gpt2-breaks", marks=pytest.mark.slow),
        pytest.param(CL100K, " ", id="cl100k", marks=pytest.mark.slow),
        pytest.param(O200K, " ", id="o200k", marks=pytest.mark.slow),
    ],
)
def test_a_million_spaces_before_a_word(pattern: Pattern, white: str) -> None:
    made = definition_of(BYTES if pattern is GPT2 else GPT4)
    if pattern is O200K:
        made["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = O200K.published
    plan, opened = planned(made)
    assert isinstance(plan, FastPlan)
    assert plan.pattern is pattern
    text = "x" + white * (1_050_000 // len(white)) + "word" + " " * 100_000 + "x" + "\n" * 100_000 + "y "
    ids = RankEngine(plan.table, plan.pattern, {}, plan.ids).encode(text)  # tiktoken alone, no library to fall back on
    assert ids.tolist() == library_ids(opened, text)


def test_a_cut_of_ones_own_that_tiktoken_gives_up_on_is_refused_in_a_line() -> None:
    engine = RankEngine(SINGLE, r"\s+(?!\S)|\s|\S+", {})
    with pytest.raises(FixInput, match=r"^tiktoken gave up: ") as caught:
        engine.encode(" " * 1_100_000 + "x")
    assert "\n" not in str(caught.value)


def test_a_panic_is_a_refusal() -> None:
    engine = RankEngine({b"a": 0}, r"\S", {})
    with pytest.raises(FixInput, match="tiktoken gave up"):
        engine.encode("b")
    assert engine.encode("a").tolist() == [0]


def test_a_pattern_that_is_none() -> None:
    with pytest.raises(BadQuery, match="no regular expression"):
        RankEngine(SINGLE, "(", {})


def test_a_library_that_gives_up_is_a_refusal() -> None:
    made = {"version": "1.0", "added_tokens": [], "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "?"}}
    engine = JsonEngine(json.dumps(made).encode(), "here")
    assert engine.encode("a").tolist() == [0]
    with pytest.raises(FixInput, match="tokenizers gave up: "):
        engine.encode("b")


def test_a_definition_that_the_library_cannot_read() -> None:
    made = {"version": "1.0", "model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a", "b"]]}}
    with pytest.raises(CorruptStore, match=r"^here is no tokenizer that tokenizers .* can read: .*`b` out of vocabulary"):
        JsonEngine(json.dumps(made).encode(), "here")


@given(text=texts)
def test_parts_only_when_runs_are_long(text: str) -> None:
    for pattern in PATTERNS.values():
        assert pattern.parts(text) == [text]


@given(text=texts)
def test_ids_by_rank_are_mapped(text: str) -> None:
    ids = np.arange(255, -1, -1, dtype=np.int32)
    straight = RankEngine(SINGLE, GPT2, {}).encode(text)
    assert np.array_equal(RankEngine(SINGLE, GPT2, {}, ids).encode(text), 255 - straight)
    assert bytes(straight.tolist()) == text.encode()
    assert straight.dtype == np.int32
