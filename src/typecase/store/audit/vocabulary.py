"""Vocabulary: one tokenizer as the audit sees it, whatever file it lies in.

    tokenizer.json, vocab + merges          the tokenizers library
    rank file (tiktoken), tekken.json       tiktoken
    *.model (SentencePiece), *.gguf         said as a tokenizer.json, then the tokenizers library

Every id has a spelling (how the file writes it), the bytes that it stands for in a text, and a kind. `codec` is the real
encoder: what the audit claims of a token, it has seen that encoder do.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import orjson
import tokenizers

from typecase.core.glitch.categories import fallback_byte
from typecase.errors import BadQuery, CorruptStore, NotFound
from typecase.store.audit.gguf import definition_in_gguf
from typecase.store.audit.sentencepiece import UNUSED, definition_of, read_sentencepiece
from typecase.store.packages import SCHEME, one_file
from typecase.store.tokenizer.alphabet import BYTE_OF_CHAR, spelled_bytes, spelling
from typecase.store.tokenizer.engines import RankEngine
from typecase.store.tokenizer.files import (
    find_tokenizer,
    hash_of_ranks,
    read_definition,
    read_pair,
    read_ranks,
    read_roles,
)
from typecase.store.tokenizer.known import PATTERNS, PUBLISHED_RANKS, Pattern
from typecase.store.tokenizer.proof import guard_against

Model = Literal["BPE", "ranks", "Unigram", "WordPiece", "WordLevel"]
Kind = Literal["normal", "byte", "special", "added", "unused", "gap"]

BYTE_ALPHABET = frozenset(BYTE_OF_CHAR)
_MOSTLY = 0.1
"""A vocabulary of which more than this share begins with Ġ spells bytes, in the published audits."""


class Codec(Protocol):
    """The encoder and decoder of a vocabulary. Special tokens that a text spells become their ids; none are put around."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]: ...

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]: ...

    def normalize(self, text: str) -> str: ...


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """See the module docstring. `merges` of a BPE, `ranks` of a rank table, `scores` of a Unigram model; else empty.

    `whole_first`: a piece that is an entry becomes it, merges or not. `prefix` marks the pieces of a WordPiece that go on.
    `names` are ids and texts of added tokens: an id may have several, its spelling is one of them.
    """

    where: str
    file_kind: str
    model: Model
    spellings: tuple[str | None, ...]
    data: tuple[bytes | None, ...]
    kinds: tuple[Kind, ...]
    codec: Codec
    fingerprint: str
    byte_level: bool
    whole_first: bool = False
    merges: Mapping[tuple[str, str], int] | None = None
    ranks: Mapping[bytes, int] | None = None
    scores: Mapping[str, float] | None = None
    prefix: str = ""
    has_normalizer: bool = False
    names: tuple[tuple[int, str], ...] = ()

    @property
    def num_ids(self) -> int:
        return len(self.spellings)

    @property
    def reports_bytes(self) -> frozenset[str] | None:
        """The byte alphabet where a published report would take one, None where it counts <0xNN> and ASCII."""
        given = [text for text in self.spellings if text is not None]
        share = sum(text.startswith("Ġ") for text in given) / max(1, len(given))
        return BYTE_ALPHABET if share > _MOSTLY else None

    def text_of(self, token: int) -> str | None:
        """What the token adds to a text, None for bytes that are no whole characters and for a gap."""
        data = self.data[token]
        try:
            return None if data is None else data.decode()
        except UnicodeDecodeError:
            return None


def open_vocabulary(
    path: str | Path, *, pattern: str | None = None, special_tokens: Mapping[str, int] | None = None
) -> Vocabulary:
    """Reads the vocabulary that `path` names: a file, a folder or `package:NAME/FILE`.

    `pattern` and `special_tokens` belong to a rank file that is not known by its hash. Raises NotFound, BadQuery, CorruptStore.
    """
    spec = str(path)
    other = _other_file(spec)
    if other is not None and ".model" in other.name:
        return _from_definition(definition_of(read_sentencepiece(other)), str(other), "SentencePiece")
    if other is not None and other.suffix == ".gguf":
        definition, types = definition_in_gguf(other)
        return _from_definition(definition, str(other), "GGUF", types)
    if other is not None:
        return _from_tekken(other)
    files = find_tokenizer(spec)
    where = str(files.main)
    if files.is_rank_file:
        return _from_ranks(read_ranks(files.main), where, "rank file", pattern, special_tokens)
    if files.merges is not None:
        ranks, definition = read_pair(files)
        if ranks is not None and hash_of_ranks(ranks) in PUBLISHED_RANKS:
            return _from_ranks(ranks, where, "vocab and merges", pattern, special_tokens)
    else:
        definition, _ = read_definition(files.main)
    roles = set(read_roles(files).values())
    return _from_definition(definition, where, "tokenizer.json", roles=roles)


_OTHERS = re.compile(r"\.gguf$|\.model(\.v[0-9a-z]+)?$|(^|/)tekken[^/]*\.json$")


def _other_file(spec: str) -> Path | None:
    """The file of a kind that only the audit reads, None for all others."""
    if not _OTHERS.search(spec):
        return None
    if spec.startswith(SCHEME):
        return one_file(spec, "file")
    if not Path(spec).is_file():
        raise NotFound(f"no file at {spec}")
    return Path(spec)


def _from_definition(
    definition: dict[str, Any], where: str, file_kind: str, types: Sequence[int] = (), roles: set[str] | None = None
) -> Vocabulary:
    model = definition["model"]
    kind: Any = model.get("type") or "BPE"
    if kind not in ("BPE", "Unigram", "WordPiece", "WordLevel"):
        raise BadQuery(f"{where} has a model of type {kind!r}: BPE, Unigram, WordPiece and WordLevel can be audited")
    if model.get("dropout"):
        raise BadQuery(f"{where} sets dropout {model['dropout']}, which makes ids random: set model.dropout to null")
    library = _opened(definition, where)
    listed = model["vocab"]
    vocab = listed if isinstance(listed, dict) else {piece: index for index, (piece, _) in enumerate(listed)}
    # The library numbers added tokens itself where the file leaves a gap: its numbers are those that a text gets.
    added: dict[int, dict[str, Any]] = {
        token_id: {"content": token.content, "special": token.special}
        for token_id, token in library.get_added_tokens_decoder().items()
    }
    num_ids = max([*vocab.values(), *added]) + 1
    spellings: list[str | None] = [None] * num_ids
    for text, index in vocab.items():
        spellings[index] = text
    for index, token in added.items():
        spellings[index] = token["content"]
    names = roles or set()
    byte_level = (definition.get("decoder") or {}).get("type") == "ByteLevel" or "ByteLevel" in _types(definition)
    metaspace = "▁" in orjson.dumps([definition.get("decoder"), definition.get("normalizer")]).decode()
    prefix = model.get("continuing_subword_prefix") or ("##" if kind == "WordPiece" else "")
    data: list[bytes | None] = []
    kinds: list[Kind] = []
    for index, text_or_none in enumerate(spellings):
        fallback = fallback_byte(text_or_none) if text_or_none is not None and model.get("byte_fallback") else None
        data.append(_bytes_of(text_or_none, index in added, byte_level, metaspace, prefix, fallback))
        token_or_none = added.get(index)
        unused = index < len(types) and types[index] == UNUSED
        kinds.append(_kind(text_or_none, token_or_none, names, unused=unused, fallback=fallback, byte_level=byte_level))
    merges = [merge.split(" ") if isinstance(merge, str) else merge for merge in model.get("merges") or ()]
    return Vocabulary(
        where,
        file_kind,
        kind,
        tuple(spellings),
        tuple(data),
        tuple(kinds),
        LibraryCodec(library),
        _fingerprint([kind, listed, merges, definition.get("normalizer"), definition.get("pre_tokenizer"), sorted(added)]),
        byte_level,
        bool(model.get("ignore_merges")),
        {(left, right): rank for rank, (left, right) in reversed(list(enumerate(merges)))} if kind == "BPE" else None,
        None,
        dict(listed) if kind == "Unigram" else None,
        prefix if kind == "WordPiece" else "",
        library.normalizer is not None,
        tuple((token_id, str(token["content"])) for token_id, token in sorted(added.items()) if token["content"]),
    )


def _opened(definition: dict[str, Any], where: str) -> tokenizers.Tokenizer:
    try:
        library = tokenizers.Tokenizer.from_str(orjson.dumps(definition).decode())
    except Exception as error:
        if type(error) not in (Exception, ValueError):  # the library raises the bare class
            raise
        raise CorruptStore(f"{where} is no tokenizer that tokenizers {tokenizers.__version__} can read: {error}") from error
    library.no_truncation()
    library.no_padding()
    return library


def _types(definition: Mapping[str, Any]) -> set[str]:
    """Types of the pre-tokenizer and its parts."""
    part = definition.get("pre_tokenizer") or {}
    return {part.get("type", ""), *(inner.get("type", "") for inner in part.get("pretokenizers", ()))}


def _bytes_of(
    text: str | None, added: bool, byte_level: bool, metaspace: bool, prefix: str, fallback: int | None
) -> bytes | None:
    if text is None:
        return None
    if fallback is not None:
        return bytes([fallback])
    if added:
        return text.encode()
    if byte_level:
        spelled = spelled_bytes(text)
        return text.encode() if spelled is None else spelled
    if prefix and text.startswith(prefix):
        text = text.removeprefix(prefix)
    return (text.replace("▁", " ") if metaspace else text).encode("utf-8", "surrogateescape")


def _kind(
    text: str | None, added: Mapping[str, Any] | None, roles: set[str], *, unused: bool, fallback: int | None, byte_level: bool
) -> Kind:
    if text is None:
        return "gap"
    if unused:
        return "unused"
    if added is not None:
        return "special" if added.get("special") or text in roles else "added"
    single = byte_level and len(text) == 1 and text in BYTE_ALPHABET
    return "byte" if fallback is not None or single else "normal"


def _from_ranks(
    ranks: Mapping[bytes, int],
    where: str,
    file_kind: str,
    pattern: str | None,
    special_tokens: Mapping[str, int] | None,
    *,
    first_id: int = 0,
) -> Vocabulary:
    published = PUBLISHED_RANKS.get(hash_of_ranks(dict(ranks)))
    if published is None and pattern is None:
        raise BadQuery(
            f"{where} is no published rank file known here, and a rank file does not say how text is cut: give a pattern"
            f" ({', '.join(PATTERNS)} or a regular expression) and the special tokens"
        )
    cut: Pattern | str = PATTERNS.get(pattern, pattern) if pattern is not None else published.pattern  # type: ignore[union-attr]
    special = dict(special_tokens) if special_tokens is not None else dict(published.special_tokens) if published else {}
    num_ids = max([*(rank + first_id for rank in ranks.values()), *special.values()]) + 1
    spellings: list[str | None] = [None] * num_ids
    data: list[bytes | None] = [None] * num_ids
    kinds: list[Kind] = ["gap"] * num_ids
    for raw, rank in ranks.items():
        token = rank + first_id
        spellings[token], data[token] = spelling(raw), raw
        kinds[token] = "byte" if len(raw) == 1 else "normal"
    for name, token in special.items():
        spellings[token], data[token], kinds[token] = name, name.encode(), "special"
    return Vocabulary(
        where,
        file_kind,
        "ranks",
        tuple(spellings),
        tuple(data),
        tuple(kinds),
        RankCodec(ranks, cut, special, tuple(data), first_id),
        _fingerprint(["ranks", hash_of_ranks(dict(ranks)), cut if isinstance(cut, str) else cut.name, special, first_id]),
        True,
        True,
        ranks=ranks,
    )


def _from_tekken(path: Path) -> Vocabulary:
    """Mistral's tekken.json: a rank table, its cut, and special tokens in front."""
    try:
        raw = orjson.loads(path.read_bytes())
        config = raw["config"]
        num_special = int(config["default_num_special_tokens"])
        size = int(config["default_vocab_size"]) - num_special
        ranks = {base64.b64decode(row["token_bytes"]): int(row["rank"]) for row in raw["vocab"][:size]}
        named = raw.get("special_tokens") or ()
        names = {int(row["rank"]): str(row["token_str"]) for row in named}
        pattern = str(config["pattern"])
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise CorruptStore(f"{path} is no tekken.json ({error!r}): cut short, or of another kind") from error
    special = {names.get(index, f"<SPECIAL_{index}>"): index for index in range(num_special)}
    return _from_ranks(ranks, str(path), "tekken.json", pattern, special, first_id=num_special)


def _fingerprint(meaning: object) -> str:
    return blake2b(orjson.dumps(meaning, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS), digest_size=16).hexdigest()


class LibraryCodec:
    """The tokenizers library."""

    def __init__(self, library: tokenizers.Tokenizer) -> None:
        self.library = library

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [one.ids for one in self.library.encode_batch_fast(list(texts), add_special_tokens=False)]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        found: list[str] = self.library.decode_batch([list(one) for one in ids], skip_special_tokens=False)
        return found

    def normalize(self, text: str) -> str:
        normalizer = self.library.normalizer
        return text if normalizer is None else str(normalizer.normalize_str(text))


class RankCodec:
    """tiktoken over a rank table; ids are ranks from `first_id` on."""

    def __init__(
        self,
        ranks: Mapping[bytes, int],
        pattern: Pattern | str,
        special: Mapping[str, int],
        data: tuple[bytes | None, ...],
        first_id: int,
    ) -> None:
        self._data = data
        # tiktoken looks for a thousand special tokens in 160 us a text; whether there is one is known in 1 us.
        self._guard = guard_against(special, nfc=False)
        if first_id == 0:
            self._engine = RankEngine(ranks, pattern, special)
        else:
            # tiktoken numbers ranks from 0; special tokens stand in front, so both are moved and moved back.
            count = len(ranks)
            ids = np.concatenate((np.arange(first_id, first_id + count), np.arange(first_id))).astype(np.int32)
            self._engine = RankEngine(ranks, pattern, {name: count + token for name, token in special.items()}, ids)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        engine, admits = self._engine, self._guard.admits
        return [(engine.encode(t) if admits(t) else engine.encode_special(t)).tolist() for t in texts]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        return [b"".join([self._data[k] or b"" for k in one]).decode("utf-8", "replace") for one in ids]

    def normalize(self, text: str) -> str:
        return text
