"""The small tokenizers of tests/data/tokenizers, the library's own answer, and texts that try everything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tokenizers
from hypothesis import strategies as st

from typecase.store.tokenizer.alphabet import spelled_bytes
from typecase.store.tokenizer.proof import FastPlan, plan_fast

SAMPLES = Path(__file__).parent.parent / "data" / "tokenizers"
BYTES, PAIR, RUNS, GPT4 = SAMPLES / "bytes", SAMPLES / "pair", SAMPLES / "runs.json", SAMPLES / "gpt4.json"
PIECES, UNIGRAM, RANKS = SAMPLES / "pieces.json", SAMPLES / "unigram.json", SAMPLES / "tiny.tiktoken"

PARTS = [
    *(" ", "  ", "   ", " " * 9, "\n", "\r\n", "\t", "\x0b", "\x85", "\xa0", "\u3000", "\u200b"),
    *("a", "B", "the", " sorts", "compositors", "é", "e\u0301", "\u0301", "ſ", "ǅ", "ʰ", "中", "활", "\u1161", "ก", "🙂"),
    *("1", "23", "٣", "Ⅷ", "½", "'s", "'S", "'ſ", "'re", "'LL", "'", "!", "--", "/", "_", "<|", "|>", "|||", "|||EMAIL|||"),
    *("<|endoftext|>", "<|padding|>", "[CLS]", "</s>"),
]

texts = st.one_of(
    st.lists(st.sampled_from(PARTS), max_size=40).map("".join),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    st.lists(st.one_of(st.sampled_from(PARTS), st.characters(exclude_categories=["Cs"])), max_size=40).map("".join),
)


def library(path: Path) -> tokenizers.Tokenizer:
    """The tokenizers library alone: special tokens in text stay text, nothing cut short or padded."""
    opened = tokenizers.Tokenizer.from_file(str(path / "tokenizer.json" if path.is_dir() else path))
    opened.no_truncation()
    opened.no_padding()
    opened.encode_special_tokens = True
    return opened


def library_ids(opened: tokenizers.Tokenizer, text: str) -> list[int]:
    return opened.encode(text, add_special_tokens=False).ids


def definition_of(path: Path) -> dict[str, Any]:
    return json.loads((path / "tokenizer.json" if path.is_dir() else path).read_text("utf-8"))


def planned(made: dict[str, Any]) -> tuple[FastPlan | str, tokenizers.Tokenizer]:
    """The plan for a tokenizer.json, and the library with it open."""
    opened = tokenizers.Tokenizer.from_str(json.dumps(made))
    entries = made["model"]["vocab"]
    return plan_fast(
        made, opened, {token: raw for token in entries if isinstance(token, str) and (raw := spelled_bytes(token))}
    ), opened
