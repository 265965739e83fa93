"""Finding and reading what defines a tokenizer; nothing is imported, nothing is fetched.

    tokenizer.json                                  the definition of the tokenizers library, alone or in a folder
    *.tiktoken, *.tiktoken.gz                       a rank file: lines of `base64(token) rank`
    vocab.json|encoder.json + merges.txt|vocab.bpe  GPT-2's pair
    package:NAME, package:NAME/FILE                 any of these inside an installed package

A folder is asked in this order of kinds, as a `tokenizer.json` says all that the others say. Two files of one kind are
refused rather than guessed between.
"""

from __future__ import annotations

import base64
import gzip
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from typecase.errors import BadQuery, CorruptStore, NotFound
from typecase.store.atomic import write_bytes
from typecase.store.packages import SCHEME, one_file, package_files, package_of
from typecase.store.tokenizer.alphabet import BYTE_ORDER, UTF8_BYTES, spelled_bytes

_PAIRS = (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe"))
_DEFINITION = "tokenizer.json"
_SETTINGS = ("special_tokens_map.json", "tokenizer_config.json")
_ROLES = ("bos", "eos", "pad")
_KINDS = "tokenizer.json, *.tiktoken[.gz], vocab.json + merges.txt, encoder.json + vocab.bpe"


@dataclass(frozen=True, slots=True)
class TokenizerFiles:
    """Where a tokenizer lies: `main` is the tokenizer.json, rank file or vocabulary; `merges` belongs to a pair."""

    main: Path
    merges: Path | None = None

    @property
    def is_rank_file(self) -> bool:
        return _is_rank_file(self.main)

    @property
    def settings(self) -> tuple[Path, ...]:
        """The configuration beside it, which names its special tokens; a file of another name than usual has none."""
        if self.merges is None and self.main.name != _DEFINITION:
            return ()
        return tuple(path for name in _SETTINGS if (path := self.main.with_name(name)).is_file())


def find_tokenizer(spec: str) -> TokenizerFiles:
    """The files that `spec` names: a file, a folder or `package:NAME[/FILE]`.

    Raises NotFound when there are none, BadQuery when there is more than one candidate; both list what was seen.
    """
    if spec.startswith(SCHEME):
        return _find_in_package(spec)
    path = Path(spec)
    if path.is_dir():
        candidates = _candidates([child for child in path.iterdir() if child.is_file()])
        return _only(candidates, f"the folder {path}", f"name one of them, such as {path}/FILE")
    if not path.is_file():
        raise NotFound(f"no tokenizer at {path}: expected a file, a folder or {SCHEME}NAME")
    return _as_files(path)


def copy_tokenizer(spec: str, folder: Path) -> list[str]:
    """Copies the files that define the tokenizer `spec` into `folder`, which then opens as the same one; their names."""
    found = find_tokenizer(spec)
    files = {path.name: path for path in (found.merges, *found.settings) if path is not None}
    files[found.main.name if found.is_rank_file or found.merges else _DEFINITION] = found.main
    for name, file in files.items():
        write_bytes(folder / name, file.read_bytes())
    return sorted(files)


def _as_files(path: Path) -> TokenizerFiles:
    for vocabulary, merges in _PAIRS:
        if path.name in (vocabulary, merges):
            if not path.with_name(merges).is_file() or not path.with_name(vocabulary).is_file():
                raise NotFound(f"{path} is half of a tokenizer: {vocabulary} and {merges} must lie side by side")
            return TokenizerFiles(path.with_name(vocabulary), path.with_name(merges))
    if not _is_rank_file(path) and path.suffix != ".json":
        raise BadQuery(f"{path} is no tokenizer that can be opened: expected {_KINDS}; convert other kinds to tokenizer.json")
    return TokenizerFiles(path)


def _is_rank_file(path: Path) -> bool:
    return path.name.endswith((".tiktoken", ".tiktoken.gz"))


def _candidates(files: Iterable[Path]) -> list[TokenizerFiles]:
    """Every tokenizer among `files`; the kind that says most wins within a folder."""
    found: list[TokenizerFiles] = []
    folders: dict[Path, set[str]] = {}
    for file in files:
        folders.setdefault(file.parent, set()).add(file.name)
    for folder, names in sorted(folders.items()):
        ranks = sorted(name for name in names if _is_rank_file(Path(name)))
        if _DEFINITION in names:
            found.append(TokenizerFiles(folder / _DEFINITION))
        elif ranks:
            found += [TokenizerFiles(folder / name) for name in ranks]
        else:
            found += [TokenizerFiles(folder / v, folder / m) for v, m in _PAIRS if v in names and m in names]
    return found


def _only(candidates: list[TokenizerFiles], place: str, remedy: str) -> TokenizerFiles:
    if not candidates:
        raise NotFound(f"{place} holds no tokenizer: expected {_KINDS}")
    if len(candidates) > 1:
        names = ", ".join(files.main.name for files in candidates)
        raise BadQuery(f"{place} holds {len(candidates)} tokenizers ({names}): {remedy}")
    return candidates[0]


def _find_in_package(spec: str) -> TokenizerFiles:
    name, wanted = package_of(spec)
    if wanted:
        return _as_files(one_file(spec, "file"))
    return _only(_candidates(package_files(name)), f"the package {name}", f"write {SCHEME}{name}/FILE")


def read_ranks(path: Path) -> dict[bytes, int]:
    """Token bytes -> rank, from a rank file.

    Raises CorruptStore for a line that is none, a token or rank given twice, or a byte of UTF-8 that no token spells.
    """
    lines = _rank_lines(path)
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(lines, 1):
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except ValueError as error:
            raise CorruptStore(f"line {number} of {path} is no `base64 rank` ({error}): cut short, or no rank file") from error
    if len(ranks) != len(lines) or len(set(ranks.values())) != len(ranks) or min(ranks.values(), default=0) < 0:
        raise CorruptStore(f"{path} lists a token or a rank twice, or a rank below 0: no rank file does")
    missing = [byte for byte in sorted(UTF8_BYTES) if bytes([byte]) not in ranks]
    if missing:
        raise CorruptStore(
            f"{path} has no token for the byte 0x{missing[0]:02x} ({len(missing)} bytes missing): texts would be lost"
        )
    return ranks


def _rank_lines(path: Path) -> list[bytes]:
    data = path.read_bytes()
    try:
        return [line for line in (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines() if line]
    except (EOFError, OSError, zlib.error) as error:
        raise CorruptStore(f"{path} is no gzip file ({error}): cut short, or not compressed") from error


def hash_of_ranks(ranks: Mapping[bytes, int]) -> str:
    """SHA-256 of the ranks written one a line in order of rank; equal to the hash of a published rank file."""
    lines = [b"%s %d\n" % (base64.b64encode(token), rank) for token, rank in sorted(ranks.items(), key=lambda item: item[1])]
    return sha256(b"".join(lines)).hexdigest()


def read_definition(path: Path) -> tuple[dict[str, Any], bytes]:
    """The JSON object of a tokenizer.json, and as bytes. Raises CorruptStore when it is none."""
    data = path.read_bytes()
    definition = _parse_object(data, path)
    model = definition.get("model")
    if not isinstance(model, dict) or "vocab" not in model:
        raise CorruptStore(f"{path} has no model with a vocabulary: it is no tokenizer.json")
    return definition, data


def _parse_object(data: bytes, path: Path) -> dict[str, Any]:
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise CorruptStore(f"{path} is no JSON ({error}): the file is cut short or of another kind") from error
    if not isinstance(value, dict):
        raise CorruptStore(f"{path} holds a JSON {type(value).__name__}, expected an object")
    return value


def read_pair(files: TokenizerFiles) -> tuple[dict[bytes, int] | None, dict[str, Any]]:
    """GPT-2's pair as (ranks, definition); ranks are None unless the ids follow the merges, as GPT-2's own do.

    The definition is what the pair means to the tokenizers library: byte-level BPE cut by GPT-2's pattern. Entries that
    are neither a byte nor the result of a merge cannot come from text; they are taken as special tokens.
    """
    assert files.merges is not None
    vocabulary = _parse_object(files.main.read_bytes(), files.main)
    merges = _read_merges(files.merges)
    made = {left + right for left, right in merges}
    special = [token for token in vocabulary if token not in made and len(spelled_bytes(token) or b"") != 1]
    broken = [token for pair in merges for token in (*pair, "".join(pair)) if token not in vocabulary]
    if broken:
        raise CorruptStore(
            f"{files.merges} merges {broken[0]!r}, which {files.main.name} does not list: the two do not belong together"
        )
    definition = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_special(token, vocabulary[token]) for token in sorted(special, key=vocabulary.__getitem__)],
        "normalizer": None,
        "pre_tokenizer": _BYTE_LEVEL,
        "post_processor": None,
        "decoder": _BYTE_LEVEL,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": merges},
    }
    return _ranks_of_pair(vocabulary, merges, set(special)), definition


_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


def _special(token: str, index: int) -> dict[str, object]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": index, "content": token, **flags, "special": True}


def _read_merges(path: Path) -> list[list[str]]:
    """Pairs of tokens in order; a first line `#version…` is skipped."""
    try:
        lines = path.read_text("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise CorruptStore(f"{path} is not UTF-8 ({error}): it is no list of merges") from error
    start = 1 if lines and lines[0].startswith("#version") else 0
    pairs = [line.rstrip("\r").split(" ") for line in lines[start:] if line.strip()]
    for number, pair in enumerate(pairs, start + 1):
        if len(pair) != 2:
            raise CorruptStore(
                f"line {number} of {path} has {len(pair)} parts, a merge has 2: the file is cut short or no list of merges"
            )
    return pairs


def _ranks_of_pair(vocabulary: Mapping[str, int], merges: list[list[str]], special: set[str]) -> dict[bytes, int] | None:
    ranks = {bytes([byte]): rank for rank, byte in enumerate(BYTE_ORDER)}
    for left, right in merges:
        token = spelled_bytes(left + right)
        if token is None or token in ranks:
            return None
        ranks[token] = len(ranks)
    spelled = {spelled_bytes(token): index for token, index in vocabulary.items() if token not in special}
    return ranks if spelled == ranks else None


def read_roles(files: TokenizerFiles) -> dict[str, str]:
    """Which token plays bos, eos, pad, from tokenizer_config.json and special_tokens_map.json where they are."""
    roles: dict[str, str] = {}
    for path in files.settings:
        config = _parse_object(path.read_bytes(), path)
        for role in _ROLES:
            token = config.get(f"{role}_token")
            content = token.get("content") if isinstance(token, dict) else token
            if isinstance(content, str):
                roles[role] = content
    return roles
