"""Reading: from files to everything a `Tokenizer` is made of. One function a kind of file.

rank file, or a pair whose ids follow its merges   -> tiktoken
tokenizer.json, any other pair                     -> tokenizers, and tiktoken where that is proven equal
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import orjson
import tokenizers

from typecase.errors import BadQuery, FixInput
from typecase.store.tokenizer.alphabet import spelled_bytes
from typecase.store.tokenizer.engines import Engine, GuardedEngine, JsonEngine, RankEngine
from typecase.store.tokenizer.files import (
    find_tokenizer,
    hash_of_ranks,
    read_definition,
    read_pair,
    read_ranks,
    read_roles,
)
from typecase.store.tokenizer.known import (
    BOS_NAMES,
    EOD_NAMES,
    EOS_NAMES,
    PAD_NAMES,
    PATTERNS,
    PROBE_TEXTS,
    PUBLISHED_RANKS,
    Pattern,
)
from typecase.store.tokenizer.lexicon import ByteLexicon, Lexicon, LibraryLexicon
from typecase.store.tokenizer.proof import plan_fast

_UNSET = (None, "", False)


@dataclass(frozen=True, slots=True)
class Settings:
    """What is given beside the files: for a rank file that is not known by its hash."""

    pattern: str | None = None
    special_tokens: tuple[tuple[str, int], ...] | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read, and the engine and lexicon made of it."""

    engine: Engine
    engine_reason: str
    lexicon: Lexicon
    vocab_size: int
    num_ids: int
    special_tokens: Mapping[str, int]
    added_tokens: Mapping[str, int]
    roles: Mapping[str, int | None]
    fingerprint: str
    probe_ids: tuple[tuple[int, ...], ...]


def read_tokenizer(spec: str, settings: Settings) -> Reading:
    """Reads the tokenizer that `spec` names; see `tokenizer_files` for what it may be."""
    files = find_tokenizer(spec)
    where = str(files.main)
    if files.is_rank_file:
        return _read_ranks(read_ranks(files.main), where, {}, settings)
    roles = read_roles(files)
    if files.merges is not None:
        ranks, definition = read_pair(files)
        if ranks is not None and (settings != Settings() or hash_of_ranks(ranks) in PUBLISHED_RANKS):
            return _read_ranks(ranks, where, roles, settings)
        data = orjson.dumps(definition)
    else:
        definition, data = read_definition(files.main)
    if settings != Settings():
        raise BadQuery(f"{where} says its own pattern and special tokens: leave out pattern= and special_tokens=")
    return _read_definition(definition, data, where, roles)


def _read_ranks(ranks: dict[bytes, int], where: str, named: Mapping[str, str], settings: Settings) -> Reading:
    digest = hash_of_ranks(ranks)
    published = PUBLISHED_RANKS.get(digest)
    if published is None and settings.pattern is None:
        raise BadQuery(
            f"{where} is no published rank file known here (sha256 {digest[:12]}…), and a rank file does not say how text is"
            f" cut: give pattern= ({', '.join(PATTERNS)} or a regular expression) and special_tokens="
        )
    pattern: Pattern | str
    if settings.pattern is not None:
        pattern = PATTERNS.get(settings.pattern, settings.pattern)
    else:
        assert published is not None
        pattern = published.pattern
    if settings.special_tokens is not None:
        special = dict(settings.special_tokens)
    else:
        special = dict(published.special_tokens) if published else {}
    _check_special(special, ranks, where)
    reason = f"the ranks of {published.name}" if published else "a rank file"
    cut = pattern if isinstance(pattern, str) else pattern.name
    return _reading(
        RankEngine(ranks, pattern, special),
        reason,
        ByteLexicon(ranks, special),
        vocab_size=len(ranks),
        num_ids=max((*ranks.values(), *special.values())) + 1,
        special=special,
        added=special,
        named=named,
        meaning={"kind": "ranks", "ranks": digest, "pattern": cut, "special_tokens": special},
    )


def _check_special(special: Mapping[str, int], ranks: Mapping[bytes, int], where: str) -> None:
    taken = set(ranks.values())
    clash = [name for name, token_id in special.items() if token_id in taken or token_id < 0]
    if clash or len(set(special.values())) != len(special):
        raise BadQuery(
            f"special_tokens {clash or list(special)} need ids of their own, from 0 up, apart from the ranks of {where}"
        )


def _read_definition(definition: dict[str, Any], data: bytes, where: str, named: Mapping[str, str]) -> Reading:
    model = definition["model"]
    if model.get("dropout"):
        raise BadQuery(f"{where} sets dropout {model['dropout']}, which makes ids random: set model.dropout to null")
    if _mark_roles(definition, named):
        data = orjson.dumps(definition)
    by_library = JsonEngine(data, where)
    library = by_library.library
    vocabulary = _vocabulary(model)
    spelled = {token: raw for token in vocabulary if (raw := spelled_bytes(token))}
    plan = plan_fast(definition, library, spelled)
    engine: Engine = by_library
    reason = "byte-level BPE, proven to give the same ids under tiktoken"
    if isinstance(plan, str):
        reason = plan
    else:
        engine = GuardedEngine(plan, by_library)
    tokens = sorted(library.get_added_tokens_decoder().items())
    added = {token.content: token_id for token_id, token in tokens}
    special = {token.content: token_id for token_id, token in tokens if token.special}
    ids = vocabulary | added
    special |= {name: ids[name] for name in named.values() if name in ids}
    return _reading(
        engine,
        reason,
        _lexicon(definition, library, spelled, added),
        vocab_size=library.get_vocab_size(with_added_tokens=False),
        num_ids=max(ids.values()) + 1,
        special=special,
        added=added,
        named=named,
        meaning=_meaning(definition),
    )


def _mark_roles(definition: Mapping[str, Any], named: Mapping[str, str]) -> bool:
    """Marks added tokens that the configuration gives a part as special, as the framework does; whether any was not."""
    unmarked = [
        token
        for token in definition.get("added_tokens") or ()
        if token.get("content") in named.values() and token.get("special") is False
    ]
    for token in unmarked:
        token["special"] = True
    return bool(unmarked)


def _lexicon(
    definition: Mapping[str, Any], library: tokenizers.Tokenizer, spelled: Mapping[str, bytes], added: Mapping[str, int]
) -> Lexicon:
    """By bytes when the library decodes so; entries outside the byte alphabet then stand for their own UTF-8, as there."""
    if (definition.get("decoder") or {}).get("type") != "ByteLevel":
        return LibraryLexicon(library)
    vocabulary = definition["model"]["vocab"]
    tokens = {data: vocabulary[token] for token, data in spelled.items() if token not in added}
    odd = {token: token_id for token, token_id in vocabulary.items() if token not in spelled}
    return ByteLexicon(tokens, odd | dict(added))


def _vocabulary(model: Mapping[str, Any]) -> dict[str, int]:
    """Token -> id; a Unigram model lists pairs (token, score) in order of id."""
    vocabulary = model["vocab"]
    return vocabulary if isinstance(vocabulary, dict) else {pair[0]: index for index, pair in enumerate(vocabulary)}


def _meaning(definition: Mapping[str, Any]) -> dict[str, object]:
    """What decides the ids, written the same whichever version of the library wrote the file."""
    model = definition["model"]
    merges = [merge.split(" ") if isinstance(merge, str) else merge for merge in model.get("merges", ())]
    return {
        "kind": "tokenizers",
        "vocab": model["vocab"],
        "merges": merges,
        "model": {key: value for key, value in model.items() if key not in ("vocab", "merges") and value not in _UNSET},
        "normalizer": definition.get("normalizer"),
        "pre_tokenizer": definition.get("pre_tokenizer"),
        "added_tokens": sorted(definition.get("added_tokens") or (), key=lambda token: int(token["id"])),
    }


def _reading(
    engine: Engine,
    engine_reason: str,
    lexicon: Lexicon,
    *,
    vocab_size: int,
    num_ids: int,
    special: Mapping[str, int],
    added: Mapping[str, int],
    named: Mapping[str, str],
    meaning: Mapping[str, object],
) -> Reading:
    probe_ids = tuple(_probe(engine, text) for text in PROBE_TEXTS)
    digest = blake2b(orjson.dumps([meaning, probe_ids], option=orjson.OPT_SORT_KEYS), digest_size=16)
    roles = _roles(special, named)
    return Reading(engine, engine_reason, lexicon, vocab_size, num_ids, special, added, roles, digest.hexdigest(), probe_ids)


def _probe(engine: Engine, text: str) -> tuple[int, ...]:
    """Ids of a probe text; (-1,) where the vocabulary cannot spell it."""
    try:
        return tuple(engine.encode(text).tolist())
    except FixInput:
        return (-1,)


def _roles(special: Mapping[str, int], named: Mapping[str, str]) -> dict[str, int | None]:
    def first(*names: str | None) -> int | None:
        return next((special[name] for name in names if name is not None and name in special), None)

    return {
        "bos_id": first(named.get("bos"), *BOS_NAMES),
        "eos_id": first(named.get("eos"), *EOS_NAMES),
        "eod_id": first(*EOD_NAMES, named.get("eos"), *EOS_NAMES),
        "pad_id": first(named.get("pad"), *PAD_NAMES),
    }
