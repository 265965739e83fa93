"""The proof that tiktoken may stand in: right on any merges, and refused where it would not be."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from typecase.store.tokenizer.alphabet import BYTE_ORDER, spelling
from typecase.store.tokenizer.engines import RankEngine
from typecase.store.tokenizer.known import GPT2, PATTERNS
from typecase.store.tokenizer.proof import FastPlan, Guard, _is_settled_nfc, guard_against

from .tokenizer_samples import BYTES, GPT4, PIECES, RUNS, UNIGRAM, definition_of, planned

LETTERS = "abcd"
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


def definition(merges: list[tuple[str, str]], extra: list[str] = [], shortcut: bool = False) -> dict[str, Any]:  # noqa: B006
    """A tokenizer.json of 256 bytes, the results of `merges`, and `extra` entries that no merge makes."""
    tokens = [spelling(bytes([byte])) for byte in BYTE_ORDER]
    for token in [*("".join(pair) for pair in merges), *extra]:
        if token not in tokens:
            tokens.append(token)
    model = {"type": "BPE", "vocab": {token: i for i, token in enumerate(tokens)}, "merges": [list(pair) for pair in merges]}
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": BYTE_LEVEL,
        "post_processor": None,
        "decoder": BYTE_LEVEL,
        "model": {**model, "ignore_merges": shortcut},
    }


def by_tiktoken(plan: FastPlan, text: str) -> list[int]:
    return RankEngine(plan.table, plan.pattern, {}, plan.ids).encode(text).tolist()


@st.composite
def vocabularies(draw: st.DrawFn) -> dict[str, Any]:
    """Merges of any two tokens there are, in any order of rank: reachable, unreachable and doubly made results."""
    tokens, merges = list(LETTERS), []
    for _ in range(draw(st.integers(1, 12))):
        pair = (draw(st.sampled_from(tokens)), draw(st.sampled_from(tokens)))
        if pair not in merges:
            merges.append(pair)
            tokens.append("".join(pair))
    merges = draw(st.permutations(merges))
    extra = draw(st.lists(st.text(LETTERS, min_size=2, max_size=5), max_size=3))
    return definition(merges, extra, draw(st.booleans()))


@settings(max_examples=400)
@given(made=vocabularies(), words=st.lists(st.text(LETTERS, max_size=14), min_size=1, max_size=6))
def test_a_plan_gives_the_ids_of_the_library(made: dict[str, Any], words: list[str]) -> None:
    plan, library = planned(made)
    if isinstance(plan, FastPlan):
        text = " ".join([*words, *(token for token in made["model"]["vocab"] if set(token) <= set(LETTERS))])
        assert by_tiktoken(plan, text) == library.encode(text).ids


def test_an_entry_that_merging_cannot_reach_is_left_out() -> None:
    # "abc" is made of a + bc, but in "abc" a + b comes first: the library never produces it.
    plan, library = planned(definition([("a", "b"), ("b", "c"), ("a", "bc")]))
    assert isinstance(plan, FastPlan)
    assert b"abc" not in plan.table
    assert by_tiktoken(plan, "abc") == library.encode("abc").ids == [256, library.token_to_id("c")]
    trusting = {**plan.table, b"abc": len(plan.table)}  # what a table of all merges would hold
    assert RankEngine(trusting, GPT2, {}).encode("abc").tolist() == [len(plan.table)]


def test_merges_of_one_token_that_alternate_in_rank_are_no_proof() -> None:
    merges = [("a", "bc"), ("b", "c"), ("a", "b"), ("ab", "c")]  # "abc" first and last, others between
    plan, _ = planned(definition(merges))
    assert plan == "the merges into 'abc' and 'bc' alternate in rank"


def test_looked_up_whole_but_never_merged() -> None:
    made = definition([("a", "b")], extra=["cdab"], shortcut=True)  # alone it ends in c, d, ab: three symbols
    plan, library = planned(made)
    assert isinstance(plan, FastPlan)
    for text in ("cdab", "cdab cdab", "acdab", "cdabd"):
        assert by_tiktoken(plan, text) == library.encode(text).ids
    assert len(by_tiktoken(plan, "cdab")) == 1


def test_looked_up_whole_yet_its_halves_are_neighbours_is_no_proof() -> None:
    made = definition([("a", "b"), ("c", "d")], extra=["abcd"], shortcut=True)
    plan, _ = planned(made)
    assert plan == "'abcd' is no merge, yet its two parts are neighbours (1 such entries)"


def test_what_else_is_no_proof() -> None:
    def reason(change: dict[str, Any], model: dict[str, Any] = {}) -> str:  # noqa: B006
        made = definition([("a", "b")]) | change
        made["model"] = {**made["model"], **model}
        plan, _ = planned(made)
        assert isinstance(plan, str)
        return plan

    assert "NFKC" in reason({"normalizer": {"type": "NFKC"}})
    assert "Sequence" in reason({"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]}})
    prefixed = {**BYTE_LEVEL, "add_prefix_space": True}
    assert "pre-tokenizer" in reason({"pre_tokenizer": prefixed})
    assert "pre-tokenizer" in reason({"pre_tokenizer": None})
    assert "pre-tokenizer" in reason({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [BYTE_LEVEL, BYTE_LEVEL]}})
    nested = {"type": "Split", "pattern": {"Regex": r"\p{N}{1,3}+"}, "behavior": "Isolated", "invert": False}
    whole = {**BYTE_LEVEL, "use_regex": False}
    assert "pre-tokenizer" in reason({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [nested, whole]}})
    assert "end_of_word_suffix" in reason({}, {"end_of_word_suffix": "</w>", "vocab": _suffixed()})
    short = {token: i for token, i in definition([("a", "b")])["model"]["vocab"].items() if token not in "xyz"}
    assert reason({}, {"vocab": short}) == "the vocabulary has no token for 3 of the bytes of UTF-8"
    twice = {**definition([("a", "b")])["model"]["vocab"], "zz": 5}
    assert reason({}, {"vocab": twice}) == "two entries of the vocabulary share an id"


def _suffixed() -> dict[str, int]:
    tokens = [*definition([("a", "b")])["model"]["vocab"], "ab</w>", "a</w>"]
    return {token: i for i, token in enumerate(tokens)}


def test_the_known_cuts_are_found_by_their_spelling() -> None:
    for pattern in PATTERNS.values():
        whole = {**BYTE_LEVEL, "use_regex": False}
        for manner in ({"behavior": "Isolated", "invert": False}, {"behavior": "Removed", "invert": True}):
            split = {"type": "Split", "pattern": {"Regex": pattern.published}, **manner}
            plan, _ = planned(
                definition([("a", "b")]) | {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, whole]}}
            )
            assert isinstance(plan, FastPlan)
            assert plan.pattern is pattern


def test_space_runs_need_every_length() -> None:
    made = definition_of(RUNS)
    plan, _ = planned(made)
    assert isinstance(plan, FastPlan)
    assert isinstance(plan.pattern, str)
    assert "{2,8}" in plan.pattern
    made["added_tokens"] = [token for token in made["added_tokens"] if token["content"] != " " * 5]
    plan, _ = planned(made)
    assert isinstance(plan, FastPlan)
    assert plan.pattern is GPT2
    assert not plan.guard.admits("a  b")  # any run goes to the library then


@pytest.mark.parametrize("path", [BYTES, RUNS, GPT4, PIECES, UNIGRAM], ids=lambda path: path.stem)
def test_the_samples_plan_or_not(path: Path) -> None:
    plan, _ = planned(definition_of(path))
    assert isinstance(plan, FastPlan) == (path not in (PIECES, UNIGRAM))


# the guard


def test_the_guard_finds_any_added_token() -> None:
    guard = guard_against(["<|end|>", "<think>", "|||IP|||", "e\u0301!", ""], nfc=False)
    assert len(guard.added) == 4
    for text in ("<|end|>", "x<think>y", "a|||IP|||", "e\u0301!", "é!"):
        assert not guard.admits(text)
    for text in ("", "<|end", "< think>", "||IP||", "é"):
        assert guard.admits(text)
    assert guard_against([], nfc=False) == Guard((), False)


@given(text=st.text(max_size=20))
def test_settled_text_is_left_alone_by_the_library(text: str) -> None:
    text = text.encode("utf-8", "ignore").decode()
    if _is_settled_nfc(text):
        assert tokenizers.normalizers.NFC().normalize_str(text) == text == unicodedata.normalize("NFC", text)


def test_unknown_and_unsettled_characters_are_not_admitted() -> None:
    guard = guard_against([], nfc=True)
    assert guard.admits("plain")
    assert guard.admits("\u00e9 中 한 \U0010fffd \ue000")
    assert not guard.admits("e\u0301")
    assert not guard.admits("\u212a")
    assert not guard.admits("a\u0378")  # unassigned in every version so far
    assert not guard.admits("a\U00050000")
