"""GGUF headers: the key/values of a model file, tensors left alone; and the tokenizer among them.

    "GGUF"  u32 version  u64 tensors  u64 keys  { key, u32 type, value } …      strings are u64 length and bytes, UTF-8
    types   0 u8  1 i8  2 u16  3 i16  4 u32  5 i32  6 f32  7 bool  8 string  9 array {u32 type, u64 n …}  10 u64  11 i64  12 f64

The file is mapped, so a header of megabytes in front of gigabytes costs its own size: 0.1 s for 50,000 tokens.

A GGUF names the cut of its text only by a label (`tokenizer.ggml.pre`); `_CUTS` says what each means. A label that is not
there is refused, as a wrong cut gives wrong verdicts.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Any

import orjson

from typecase.errors import BadQuery, CorruptStore, NotFound
from typecase.store.audit.sentencepiece import CONTROL, UNKNOWN, USER, definition_of, pieces_of_lists
from typecase.store.tokenizer.known import CL100K, GPT2, O200K, QWEN2

_FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_LONGEST = 1 << 31

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


def read_keys(path: Path) -> dict[str, Any]:
    """Every key/value of a GGUF. Raises CorruptStore when the file is none or breaks off."""
    with path.open("rb") as file:
        try:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError as error:
            raise CorruptStore(f"{path} is empty: it is no GGUF") from error
        with data:
            try:
                return HeaderReader(data).keys()
            except (struct.error, ValueError, UnicodeDecodeError) as error:
                raise CorruptStore(f"{path} is no GGUF that can be read ({error}): cut short, or of another kind") from error


class HeaderReader:
    """Reads a header from its first byte on; `place` is the byte that comes next."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data, self.place, self.num_tensors = data, 0, 0

    def keys(self) -> dict[str, Any]:
        """Every key/value. Afterwards `num_tensors` tensor descriptions come next. Raises ValueError or struct.error."""
        if self.data[:4] != b"GGUF":
            raise ValueError(f"it begins with {self.data[:4]!r}")
        self.place = 4
        version = self.number("I")
        if version not in (2, 3):
            raise ValueError(f"version {version}; 2 and 3 are known")
        self.num_tensors = self.count()
        return {self.string(): self.value(self.number("I")) for _ in range(self.count())}

    def count(self) -> int:
        """The next number, as a number of entries."""
        found = int(self.number("Q"))
        if found > _LONGEST:
            raise ValueError(f"{found} entries at byte {self.place}")
        return found

    def number(self, form: str) -> Any:
        """The next number in the notation of `struct`."""
        (value,) = struct.unpack_from("<" + form, self.data, self.place)
        self.place += struct.calcsize("<" + form)
        return value

    def string(self) -> str:
        """The next string."""
        size = self.count()
        raw = self.data[self.place : self.place + size]
        if len(raw) != size:
            raise ValueError(f"a string of {size} bytes at byte {self.place}")
        self.place += size
        return raw.decode("utf-8", "surrogateescape")

    def value(self, kind: int) -> Any:
        """The next value of a type."""
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            inner, size = self.number("I"), self.count()
            if inner in (_STRING, _ARRAY):
                return [self.value(inner) for _ in range(size)]
            form = f"<{size}{_FORMATS[inner]}" if inner in _FORMATS else ""
            if not form:
                raise ValueError(f"values of type {inner}")
            values = struct.unpack_from(form, self.data, self.place)
            self.place += struct.calcsize(form)
            return list(values)
        if kind not in _FORMATS:
            raise ValueError(f"a value of type {kind}")
        return self.number(_FORMATS[kind])


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
