"""Finding and reading tokenizers, and one line for everything that is none."""

from __future__ import annotations

import base64
import gzip
import importlib
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from typecase.errors import BadQuery, CorruptStore, NotFound, TypecaseError
from typecase.store.tokenizer.alphabet import BYTE_OF_CHAR, BYTE_ORDER, UTF8_BYTES, spelled_bytes, spelling
from typecase.store.tokenizer.files import copy_tokenizer, find_tokenizer, hash_of_ranks, read_ranks
from typecase.store.tokenizer.tokenizer import open_tokenizer

from .tokenizer_samples import BYTES, GPT4, PAIR, RANKS, RUNS, SAMPLES


def refused(path: Path | str, kind: type[TypecaseError], words: str, pattern: str | None = None) -> None:
    with pytest.raises(kind, match=words) as caught:
        open_tokenizer(path, pattern=pattern)
    assert "\n" not in str(caught.value)


# the alphabet


def test_the_alphabet_spells_every_byte_once() -> None:
    assert sorted(BYTE_OF_CHAR.values()) == sorted(BYTE_ORDER) == list(range(256))
    everything = bytes(range(256))
    assert spelled_bytes(spelling(everything)) == everything
    assert spelling(b" the\n") == "ĠtheĊ"
    assert spelled_bytes("a b") is None
    assert {byte for code in (*range(0xD800), *range(0xE000, 0x110000, 97)) for byte in chr(code).encode()} == UTF8_BYTES


# finding


def test_a_folder_with_a_definition_beside_a_pair(tmp_path: Path) -> None:
    shutil.copy(BYTES / "tokenizer.json", tmp_path)
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(PAIR / name, tmp_path)
    assert find_tokenizer(str(tmp_path)).main.name == "tokenizer.json"
    assert find_tokenizer(str(tmp_path / "merges.txt")).main.name == "vocab.json"
    shutil.copy(PAIR / "vocab.json", tmp_path / "encoder.json")
    refused(tmp_path / "encoder.json", NotFound, "half of a tokenizer: encoder.json and vocab.bpe must lie side by side")


def test_no_tokenizer_or_two(tmp_path: Path) -> None:
    refused(tmp_path, NotFound, "holds no tokenizer: expected tokenizer.json")
    refused(tmp_path / "absent", NotFound, "no tokenizer at .*absent")
    for name in ("a.tiktoken", "b.tiktoken"):
        shutil.copy(RANKS, tmp_path / name)
    refused(tmp_path, BadQuery, r"holds 2 tokenizers \(a.tiktoken, b.tiktoken\): name one of them")
    (tmp_path / "tokenizer.model").write_bytes(b"x")
    refused(tmp_path / "tokenizer.model", BadQuery, "convert other kinds to tokenizer.json")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """`package("name")` makes an importable package that fails when imported; its data folder is returned."""

    def make(name: str) -> Path:
        folder = tmp_path / "site" / name / "data"
        folder.mkdir(parents=True)
        (folder.parent / "__init__.py").write_text("raise RuntimeError('imported')")
        monkeypatch.syspath_prepend(str(tmp_path / "site"))
        importlib.invalidate_caches()
        return folder

    return make


def test_inside_a_package_without_importing_it(package: Callable[[str], Path]) -> None:
    data = package("some_letters")
    shutil.copy(PAIR / "vocab.json", data / "encoder.json")
    shutil.copy(PAIR / "merges.txt", data / "vocab.bpe")
    assert open_tokenizer("package:some-letters") == open_tokenizer(PAIR)
    assert "some_letters" not in sys.modules
    shutil.copy(RUNS, data / "runs.json")
    assert open_tokenizer("package:some_letters/data/runs.json") == open_tokenizer(RUNS)
    shutil.copytree(BYTES, data / "more")
    refused(
        "package:some-letters", BadQuery, r"holds 2 tokenizers \(encoder.json, tokenizer.json\): write package:some-letters/"
    )
    refused("package:some-letters/none.json", NotFound, "has no file at none.json")


def test_inside_a_distribution_of_another_name(package: Callable[[str], Path], tmp_path: Path) -> None:
    shutil.copytree(BYTES, package("letters_data") / "one")
    info = tmp_path / "site" / "printers_letters-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: printers-letters\nVersion: 1.0\n")
    listed = ["letters_data/__init__.py", "letters_data/data/one/tokenizer.json", "letters_data/gone.json"]
    (info / "RECORD").write_text("".join(f"{name},,\n" for name in listed))
    assert open_tokenizer("package:printers-letters") == open_tokenizer(BYTES)


def test_packages_that_are_not_there() -> None:
    refused("package:no-such-letters", NotFound, "no package named no-such-letters is installed: pip install")
    refused("package:", BadQuery, "names no package")
    refused("package:not/a/thing", NotFound, "no package named not")
    refused("package:json", NotFound, "the package json holds no tokenizer")


def test_copies_open_as_the_same(tmp_path: Path) -> None:
    for number, spec in enumerate((BYTES, PAIR, RUNS, GPT4)):
        folder = tmp_path / str(number)
        names = copy_tokenizer(str(spec), folder)
        assert names == sorted(path.name for path in folder.iterdir())
        copy, original = open_tokenizer(folder), open_tokenizer(spec)
        assert copy == original
        assert copy.eod_id == original.eod_id
    assert copy_tokenizer(str(RANKS), tmp_path / "ranks") == ["tiny.tiktoken"]


# rank files


def ranks_of(lines: list[str], path: Path) -> Path:
    path.write_text("\n".join(lines))
    return path


def test_rank_files_plain_and_compressed(tmp_path: Path) -> None:
    packed = tmp_path / "x.tiktoken.gz"
    packed.write_bytes(gzip.compress(RANKS.read_bytes()))
    assert read_ranks(packed) == read_ranks(RANKS)
    assert open_tokenizer(packed, pattern="gpt2") == open_tokenizer(RANKS, pattern="gpt2")
    assert open_tokenizer(RANKS, pattern="gpt2") != open_tokenizer(RANKS, pattern="cl100k")
    shuffled = ranks_of(sorted(RANKS.read_text().splitlines()), tmp_path / "other_name.tiktoken")
    assert hash_of_ranks(read_ranks(shuffled)) == hash_of_ranks(read_ranks(RANKS))


def test_a_rank_file_that_is_not_known_needs_a_pattern(tmp_path: Path) -> None:
    refused(RANKS, BadQuery, r"no published rank file known here .* give pattern= \(gpt2, cl100k, qwen2, o200k or")
    own = open_tokenizer(RANKS, pattern=r"\p{L}+|[^\p{L}]+")
    assert own.decode(own.encode("the case\n")) == "the case\n"
    assert (own.bos_id, own.eod_id, dict(own.special_tokens), own.num_ids) == (None, None, {}, 512)
    refused(RANKS, BadQuery, "no regular expression", pattern="(")
    refused(BYTES, BadQuery, "says its own pattern", pattern="gpt2")
    for specials in ({"<a>": 3}, {"<a>": 600, "<b>": 600}, {"<a>": -1}):
        with pytest.raises(BadQuery, match="need ids of their own"):
            open_tokenizer(RANKS, pattern="gpt2", special_tokens=specials)


def test_rank_files_that_are_none(tmp_path: Path) -> None:
    lines = RANKS.read_text().splitlines()
    path = tmp_path / "x.tiktoken"
    refused(ranks_of([*lines[:300], "dG!l"], path), CorruptStore, "line 301 of .* is no `base64 rank`")
    refused(ranks_of([*lines, "dGhl x"], path), CorruptStore, "line 513 of .* is no `base64 rank`")
    refused(ranks_of([*lines, lines[0]], path), CorruptStore, "lists a token or a rank twice")
    refused(ranks_of([*lines, "dGhlIGNhc2U= 3"], path), CorruptStore, "lists a token or a rank twice")
    refused(ranks_of(lines[:100], path), CorruptStore, r"has no token for the byte 0x64 \(.* bytes missing\)")
    refused(ranks_of([], path), CorruptStore, "has no token for the byte 0x00")
    packed = tmp_path / "y.tiktoken.gz"
    packed.write_bytes(gzip.compress(RANKS.read_bytes())[:-20])
    refused(packed, CorruptStore, "is no gzip file")
    packed.write_bytes(b"plain")
    refused(packed, CorruptStore, "is no gzip file")


# definitions and pairs


def test_definitions_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    whole = (BYTES / "tokenizer.json").read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    refused(path, CorruptStore, "is no JSON .*: the file is cut short or of another kind")
    for data in (b"[]", b'"x"'):
        path.write_bytes(data)
        refused(path, CorruptStore, "expected an object")
    path.write_bytes(b'{"model": {"type": "BPE"}}')
    refused(path, CorruptStore, "has no model with a vocabulary")
    path.write_bytes(b'{"model": {"type": "BPE", "vocab": {"a": 0}}}')
    refused(path, CorruptStore, "is no tokenizer that tokenizers .* can read")
    shutil.copy(BYTES / "tokenizer.json", path)
    (tmp_path / "tokenizer_config.json").write_bytes(b'{"eos')
    refused(tmp_path, CorruptStore, "tokenizer_config.json is no JSON")


def test_pairs_that_do_not_belong_together(tmp_path: Path) -> None:
    vocabulary = json.loads((PAIR / "vocab.json").read_text("utf-8"))
    merges = (PAIR / "merges.txt").read_text("utf-8")
    (tmp_path / "vocab.json").write_text(json.dumps({token: i for token, i in vocabulary.items() if token != "Ġthe"}))
    (tmp_path / "merges.txt").write_text(merges)
    refused(tmp_path, CorruptStore, "merges 'Ġthe', which vocab.json does not list")
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
    (tmp_path / "merges.txt").write_text(merges[:-4])
    refused(tmp_path, CorruptStore, "line .* of .*merges.txt has 1 parts|merges .* which vocab.json does not list")
    (tmp_path / "merges.txt").write_bytes(b"\xff\xfe")
    refused(tmp_path, CorruptStore, "is not UTF-8")


def test_a_pair_whose_ids_follow_its_merges_is_a_rank_file(tmp_path: Path) -> None:
    merges = (PAIR / "merges.txt").read_text("utf-8").splitlines()[1:]
    tokens = [*(spelling(bytes([byte])) for byte in BYTE_ORDER), *(line.replace(" ", "") for line in merges)]
    (tmp_path / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate([*tokens, "<|endoftext|>"])}))
    shutil.copy(PAIR / "merges.txt", tmp_path)
    lines = [f"{base64.b64encode(spelled_bytes(token) or b'').decode()} {i}" for i, token in enumerate(tokens)]
    pair = open_tokenizer(tmp_path, pattern="gpt2", special_tokens={"<|endoftext|>": len(tokens)})
    ranks = ranks_of(lines, tmp_path / "x.tiktoken")
    assert pair == open_tokenizer(ranks, pattern="gpt2", special_tokens={"<|endoftext|>": len(tokens)})
    assert SAMPLES.is_dir()
    plain = open_tokenizer(tmp_path / "vocab.json")  # without settings it is what the tokenizers library makes of it
    text = "the sorts<|endoftext|>  lie"
    assert plain.encode(text).tolist() == pair.encode(text).tolist()
    assert plain.eod_id == pair.eod_id == len(tokens)
