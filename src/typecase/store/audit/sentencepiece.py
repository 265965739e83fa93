"""SentencePiece models, read without its library and said as a `tokenizer.json` says the same.

    ModelProto  1 pieces {1 piece, 2 score, 3 type}    2 trainer {3 model type, 35 byte fallback}
                3 normalizer {2 character map, 3 dummy prefix, 4 drop extra spaces}

A BPE model lists no merges: any two neighbours merge whose joint text is a piece, the piece of highest score first. Hence every
split of every piece into two pieces is a merge, ranked by the score of the whole.

Types of pieces are those of GGUF too: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typecase.errors import BadQuery, CorruptStore
from typecase.store.audit.protobuf import as_bytes, as_float, as_int, fields

NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)
_UNIGRAM, _BPE = 1, 2


@dataclass(frozen=True, slots=True)
class Pieces:
    """Pieces by id with scores and types, and the switches of trainer and normalizer."""

    pieces: tuple[str, ...]
    scores: tuple[float, ...]
    types: tuple[int, ...]
    is_bpe: bool
    byte_fallback: bool
    character_map: bytes = b""
    dummy_prefix: bool = True
    drop_extra_spaces: bool = False


def read_sentencepiece(path: Path) -> Pieces:
    """The pieces of a `.model` file. Raises CorruptStore when it is none, BadQuery for a model of words or characters."""
    data = path.read_bytes()
    pieces: list[tuple[str, float, int]] = []
    trainer: dict[int, Any] = {}
    normalizer: dict[int, Any] = {}
    try:
        for number, value in fields(data):
            if number == 1:
                pieces.append(_piece(as_bytes(value)))
            elif number in (2, 3):
                (trainer if number == 2 else normalizer).update(fields(as_bytes(value)))
        kind = as_int(trainer.get(3, _UNIGRAM))
    except (ValueError, UnicodeDecodeError) as error:
        raise CorruptStore(f"{path} is no SentencePiece model ({error}): the file is cut short or of another kind") from error
    if not pieces:
        raise CorruptStore(f"{path} is no SentencePiece model: it lists no pieces")
    if kind not in (_UNIGRAM, _BPE):
        raise BadQuery(f"{path} is a SentencePiece model of type {kind}; only Unigram (1) and BPE (2) can be audited")
    texts, scores, types = zip(*pieces)
    return Pieces(
        texts,
        scores,
        types,
        kind == _BPE,
        bool(trainer.get(35, 0)) or BYTE in types,
        bytes(normalizer.get(2, b"")),
        bool(normalizer.get(3, 1)),
        bool(normalizer.get(4, 1)),
    )


def _piece(data: bytes) -> tuple[str, float, int]:
    text, score, kind = "", 0.0, NORMAL
    for number, value in fields(data):
        if number == 1:
            text = as_bytes(value).decode()
        elif number == 2:
            score = as_float(value)
        elif number == 3:
            kind = as_int(value)
    return text, score, kind


def definition_of(pieces: Pieces) -> dict[str, Any]:
    """What the model means to the tokenizers library. Unused pieces keep their id and are never matched."""
    added = [
        _added(index, text, special=kind != USER)
        for index, (text, kind) in enumerate(zip(pieces.pieces, pieces.types))
        if kind in (UNKNOWN, CONTROL, USER)
    ]
    unknown = next((index for index, kind in enumerate(pieces.types) if kind == UNKNOWN), None)
    if pieces.is_bpe:
        model: dict[str, Any] = {
            "type": "BPE",
            "vocab": {text: index for index, text in enumerate(pieces.pieces)},
            "merges": _merges(pieces),
            "unk_token": None if unknown is None else pieces.pieces[unknown],
            "fuse_unk": True,
            "byte_fallback": pieces.byte_fallback,
        }
    else:
        vocab = [[text, score] for text, score in zip(pieces.pieces, pieces.scores)]
        model = {"type": "Unigram", "vocab": vocab, "unk_id": unknown, "byte_fallback": pieces.byte_fallback}
    strip = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if pieces.dummy_prefix else []
    back = [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}, *strip]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": _normalizers(pieces)},
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": {"type": "Sequence", "decoders": back},
        "model": model,
    }


def _normalizers(pieces: Pieces) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    if pieces.character_map:
        steps.append({"type": "Precompiled", "precompiled_charsmap": base64.b64encode(pieces.character_map).decode()})
    if pieces.drop_extra_spaces:
        steps.append({"type": "Strip", "strip_left": True, "strip_right": True})
        steps.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})
    if pieces.dummy_prefix:
        steps.append({"type": "Prepend", "prepend": "▁"})
    steps.append({"type": "Replace", "pattern": {"String": " "}, "content": "▁"})
    return steps


def _added(index: int, text: str, *, special: bool) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": index, "content": text, **flags, "special": special}


def _merges(pieces: Pieces) -> list[list[str]]:
    merging = {text for text, kind in zip(pieces.pieces, pieces.types) if kind in (NORMAL, USER)}
    ranked: list[tuple[float, int, str, str]] = []
    for index, (text, score, kind) in enumerate(zip(pieces.pieces, pieces.scores, pieces.types)):
        if kind == NORMAL:
            for cut in range(1, len(text)):
                if text[:cut] in merging and text[cut:] in merging:
                    ranked.append((-score, index, text[:cut], text[cut:]))
    ranked.sort(key=lambda row: row[:2])
    return [[left, right] for _, _, left, right in ranked]


def pieces_of_lists(
    texts: Sequence[str], scores: Sequence[float], types: Sequence[int], *, is_bpe: bool, dummy_prefix: bool, charmap: bytes
) -> Pieces:
    """The same from the lists of a GGUF; lists that are missing mean all normal, all of one score."""
    kinds = tuple(types) or (NORMAL,) * len(texts)
    values = tuple(scores) or (0.0,) * len(texts)
    return Pieces(tuple(texts), values, kinds, is_bpe, BYTE in kinds, charmap, dummy_prefix)
