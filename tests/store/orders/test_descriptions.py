"""Descriptions of Megatron caches: the published texts and hashes, those of real caches, and those of older releases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.core.order.golden import golden_folder
from typecase.errors import BadQuery, CorruptStore, NotFound
from typecase.store.orders.descriptions import Description, describe_blend, describe_megatron

GOLDEN = sorted((golden_folder() / "megatron-core").glob("*/cache/GPTDataset_indices/*description.txt"))
TEXT_TOKENIZER = {
    "class": "megatron.core.tokenizers.text.text_tokenizer.MegatronTokenizerText",
    "tokenizer_path": None,
    "vocab_size": "50277",
}


def _published(**changes: Any) -> Description:
    values = {
        "dataset_path": "corpus_text_document",
        "num_samples": 1600,
        "index_split": "train",
        "random_seed": 42,
        "sequence_length": 2048,
        "split": "990,5,5",
        "tokenizer": TEXT_TOKENIZER,
    }
    return describe_megatron(**{**values, **changes})


def test_published_hashes() -> None:
    assert len(_published().text) == 571
    assert _published().md5 == "61ba457227bdad93704b5f2f2e224610"
    assert _published(split=None).md5 == "2a369eb89f60da9c28861809b61d8c7b"
    members = [
        _published(split=None, num_samples=483),
        _published(split=None, num_samples=1126, dataset_path="other_text_document"),
    ]
    assert describe_blend(members, weights=[0.3, 0.7], size=1600).md5 == "80cb39ad128655e12480dbf3ff29dc2d"


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name[:8])
def test_descriptions_of_real_caches(path: Path) -> None:
    found = Description.read(path)
    assert found.md5 == path.name.split("-")[0] and found.class_name == "GPTDataset" and not found.is_blend
    keys = ("dataset_path", "num_samples", "index_split", "random_seed", "sequence_length", "split", "tokenizer")
    assert describe_megatron(**{key: found.values[key] for key in keys}).text == found.text
    assert found.index_split in path.name and found.members == ()


def test_a_blend_gives_the_names_of_its_members() -> None:
    members = [_published(), _published(dataset_path="ümläut", num_samples=None, split="0.7,0.3")]
    blend = describe_blend(members, weights=[0.5, 0.5], size=10)
    assert blend.is_blend and blend.index_split == "train" and blend.sequence_length == 2048
    again = Description.parse(blend.text)
    assert [member.md5 for member in again.members] == [member.md5 for member in members]
    assert again.values == blend.values and again.md5 == blend.md5 and again.text.isascii()
    exhaustive = describe_blend(members, weights=[5, 3], size=None)
    assert '"weights": [\n        5,\n        3\n    ],\n    "size": null\n}' in exhaustive.text
    old = describe_blend(members, weights=[0.5, 0.5], size=10, renormalize_blend_weights=False)
    assert old.text.endswith('"size": 10,\n    "renormalize_blend_weights": false\n}')
    with pytest.raises(BadQuery, match="2 members with 1 weights"):
        describe_blend(members, weights=[1.0], size=1)
    with pytest.raises(BadQuery, match="no split 'dev'"):
        _published(index_split="dev")


OLD = """GPT Dataset

Data prefix /data/my corpus_text_document
Dataset name train
Number of samples 1600
Sequence length 2048
Random seed 1234
Split 969, 30, 1
"""


def test_the_plain_text_before_core() -> None:
    found = Description.parse(OLD)
    assert dict(found.values) == {
        "class": "GPTDataset",
        "dataset_path": "/data/my corpus_text_document",
        "index_split": "train",
        "num_samples": 1600,
        "sequence_length": 2048,
        "random_seed": 1234,
        "split": "969, 30, 1",
    }
    other = OLD.replace("1600", "None").replace("Split 969, 30, 1", "Split None")
    assert Description.parse(other).values["num_samples"] is None and Description.parse(other).values["split"] is None
    blend = Description.parse(f"Blendable dataset\n\nDatasets:\n{OLD}\n\n{other}\n\nWeights: [0.25 0.75]\nSize: 77\n")
    assert [member.md5 for member in blend.members] == [found.md5, Description.parse(other).md5]
    assert blend.values["weights"] == [0.25, 0.75] and blend.values["size"] == 77 and blend.index_split == "train"


def test_core_0_4() -> None:
    text = """{
    "class": "GPTDataset",
    "path_prefix": "corpus_text_document",
    "num_samples": 5,
    "index_split": "valid",
    "split": "969, 30, 1",
    "random_seed": 1,
    "sequence_length": 64
}"""
    found = Description.parse(text)
    assert found.values["dataset_path"] == "corpus_text_document" and found.text == text
    assert (found.index_split, found.sequence_length) == ("valid", 64)
    blend = Description.parse('{"class": "BlendedDataset", "datasets": [' + text + '], "weights": [1.0], "size": 5}')
    assert blend.index_split == "valid" and blend.members[0].md5 == found.md5


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1]",
        '{"a": 1}',
        '{"class": 3}',
        "[" * 100_000,
        '{"class": "B", "datasets": 3}',
        '{"class": "B", "datasets": [3]}',
    ],
)
def test_other_texts_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "d.txt").write_text(text)
    with pytest.raises(CorruptStore):
        Description.read(tmp_path / "d.txt")


def test_files_that_are_no_text(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no description"):
        Description.read(tmp_path / "d.txt")
    (tmp_path / "d.txt").write_bytes(b'{"a\xff')
    with pytest.raises(CorruptStore, match="not text at byte 3"):
        Description.read(tmp_path / "d.txt")
    with pytest.raises(CorruptStore, match="no sequence length"):
        _ = Description.parse('{"class": "GPTDataset", "sequence_length": "2"}').sequence_length
