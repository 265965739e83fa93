"""The tokenizer in a GGUF, as a `tokenizer.json` says it.

A GGUF names the cut of its text only by a label (`tokenizer.ggml.pre`); `_CUTS` says what each means. A label that is not
there is refused, as a wrong cut gives wrong verdicts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from typecase.errors import BadQuery, NotFound
from typecase.store.audit.sentencepiece import CONTROL, UNKNOWN, USER, definition_of, pieces_of_lists
from typecase.store.gguf import read_keys
from typecase.store.tokenizer.known import CL100K, GPT2, O200K, QWEN2

_PLAIN = ("gpt-2", "default", "olmo", "mpt", "jais", "phi-2", "stablelm", "dolma")
_DIGITS = ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b")
_CUTS = {
    **dict.fromkeys(_PLAIN, GPT2.published),
    "llama-bpe": CL100K.published,
    "llama3": CL100K.published,
    "dbrx": CL100K.published,
    "qwen2": QWEN2.published,
    "gpt-4o": O200K.published,
}


def definition_in_gguf(path: Path) -> tuple[dict[str, Any], list[int]]:
    """The tokenizer of a GGUF as a `tokenizer.json` says it, and the type of every token (empty when none are given).

    Raises NotFound when the file holds none, BadQuery for a kind or a cut that is not known.
    """
    keys = read_keys(path)
    types = list(keys.get("tokenizer.ggml.token_type", ()))
    if "tokenizer.huggingface.json" in keys:
        definition: dict[str, Any] = orjson.loads(keys["tokenizer.huggingface.json"])
        return definition, types
    tokens = keys.get("tokenizer.ggml.tokens")
    if tokens is None:
        raise NotFound(f"{path} holds no tokenizer (tokenizer.ggml.tokens): name the file of the whole model")
    kind = keys.get("tokenizer.ggml.model")
    if kind == "gpt2":
        return _byte_level(path, keys, tokens, types), types
    if kind in ("llama", "t5"):
        pieces = pieces_of_lists(
            tokens,
            keys.get("tokenizer.ggml.scores", ()),
            types,
            is_bpe=kind == "llama",
            dummy_prefix=bool(keys.get("tokenizer.ggml.add_space_prefix", True)),
            charmap=bytes(b & 0xFF for b in keys.get("tokenizer.ggml.precompiled_charsmap", ())),
        )
        return definition_of(pieces), types
    raise BadQuery(f"{path} holds a tokenizer of kind {kind!r}; gpt2, llama and t5 can be audited")


def _byte_level(path: Path, keys: dict[str, Any], tokens: list[str], types: list[int]) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    added = [
        {"id": index, "content": tokens[index], **flags, "special": kind != USER}
        for index, kind in enumerate(types)
        if kind in (UNKNOWN, CONTROL, USER)
    ]
    label = keys.get("tokenizer.ggml.pre", "default")
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "NFC"} if label == "qwen2" else None,
        "pre_tokenizer": _cut(path, label),
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "vocab": {text: index for index, text in enumerate(tokens)},
            "merges": [merge.split(" ", 1) for merge in keys.get("tokenizer.ggml.merges", ())],
            "ignore_merges": label in ("llama-bpe", "llama3"),
        },
    }


def _cut(path: Path, label: str) -> dict[str, Any]:
    if label in _DIGITS:
        parts: list[dict[str, Any]] = [{"type": "Digits", "individual_digits": True}, _split(GPT2.published)]
    elif label in _CUTS:
        parts = [_split(_CUTS[label])]
    else:
        known = ", ".join(sorted({*_CUTS, *_DIGITS}))
        raise BadQuery(f"{path} cuts its text by {label!r}, unknown here ({known}): audit its tokenizer.json instead")
    bytes_ = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {"type": "Sequence", "pretokenizers": [*parts, bytes_]}


def _split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
