"""Descriptions: the text by whose md5 Megatron names the files of a cache.

    {                                                  md5 -> 61ba457227bdad93704b5f2f2e224610-GPTDataset-train-
        "class": "GPTDataset",                                description.txt       this text
        "dataset_path": "corpus_text_document",               document_index.npy    sequences
        "num_samples": 1600,                                  sample_index.npy      rows
        "index_split": "train",                               shuffle_index.npy     shuffle
        …

A blend's description holds those of its members. Neither says whether a sample has an extra token, whether a cut last
validation sample is kept, or anything of the data but its path: two runs may share a cache wrongly, an edited file goes on with
the old one. The forms of Core 0.4 (`path_prefix`), of 0.9 and 0.10 (`renormalize_blend_weights`) and of the plain text
before Core (`.dsc`) are read; what is made here is the form since 0.7. Price: microseconds.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from typecase.core.order.splits import megatron_matrix
from typecase.errors import BadQuery, CorruptStore, NotFound

_OLD_KEYS = {
    "Data prefix": "dataset_path",
    "Dataset name": "index_split",
    "Number of samples": "num_samples",
    "Number of epochs": "num_epochs",
    "Sequence length": "sequence_length",
    "Random seed": "random_seed",
    "Split": "split",
}
_OLD_LINE = re.compile(rf"({'|'.join(_OLD_KEYS)}) (.*)")
_OLD_MEMBER = re.compile(rf"GPT Dataset\n\n(?:(?:{'|'.join(_OLD_KEYS)}) .*\n)+")
_OLD_NUMBERS = frozenset({"num_samples", "num_epochs", "sequence_length", "random_seed"})


@dataclass(frozen=True)
class Description:
    """One description: its `text`, as it is hashed, and `values`, what it says by today's names, `class` among them."""

    text: str
    values: Mapping[str, Any]

    @classmethod
    def parse(cls, text: str, *, where: str = "the description") -> Description:
        """Reads the text of a cache of any age. Raises CorruptStore for a text that is none."""
        if text.startswith(("GPT Dataset\n", "Blendable dataset\n")):
            return cls(text, _old_values(text))
        try:
            values = json.loads(text)
        except (ValueError, RecursionError):
            raise CorruptStore(f"{where} is neither JSON nor the text of an older Megatron: {text[:60]!r}") from None
        if not isinstance(values, dict) or not isinstance(values.get("class"), str):
            raise CorruptStore(f"{where} names no dataset class: it is not the description of a Megatron cache")
        if not isinstance(values.get("datasets", []), list) or not all(isinstance(m, dict) for m in values.get("datasets", [])):
            raise CorruptStore(f"{where} lists members that are no descriptions: it is not that of a Megatron blend")
        return cls(text, {_today(key): value for key, value in values.items()})

    @classmethod
    def read(cls, path: Path) -> Description:
        """Reads a `description.txt` or `.dsc`. Raises NotFound and CorruptStore."""
        try:
            return cls.parse(path.read_bytes().decode(), where=str(path))
        except FileNotFoundError:
            raise NotFound(f"there is no description {path}; the cache was copied without it, or its writer stopped") from None
        except UnicodeDecodeError as error:
            raise CorruptStore(f"{path} is not text at byte {error.start}; copy it again") from None

    @cached_property
    def md5(self) -> str:
        """The name that Megatron gives the cache."""
        return hashlib.md5(self.text.encode(), usedforsecurity=False).hexdigest()

    @property
    def class_name(self) -> str:
        return str(self.values["class"])

    @property
    def is_blend(self) -> bool:
        return "datasets" in self.values

    @property
    def index_split(self) -> str:
        """`train`, `valid` or `test`; of a blend from before 0.7 that of its members."""
        values: Mapping[str, Any] = self.values
        if self.is_blend:
            members = self.members
            return str(values["split"] if "split" in values else members[0].index_split if members else "train")
        return str(values.get("index_split", "train"))

    @property
    def members(self) -> tuple[Description, ...]:
        """Of a blend: the descriptions of its datasets."""
        if self.text.startswith("Blendable"):
            return tuple(Description.parse(text) for text in _OLD_MEMBER.findall(self.text))
        return tuple(Description.parse(json.dumps(values, indent=4)) for values in self.values.get("datasets", ()))

    @property
    def sequence_length(self) -> int:
        """Raises CorruptStore where the description does not give it."""
        found = self.members[0].values.get("sequence_length") if self.members else self.values.get("sequence_length")
        if type(found) is not int or found < 1:
            raise CorruptStore(
                f"the description {self.md5} gives no sequence length: {found!r}; it is not that of a GPT dataset"
            )
        return found


def describe_megatron(
    *,
    dataset_path: str | None,
    num_samples: int | None,
    index_split: str,
    random_seed: int,
    sequence_length: int,
    split: str | None,
    tokenizer: Mapping[str, Any],
    class_name: str = "GPTDataset",
) -> Description:
    """The description that Megatron makes of one dataset.

    `dataset_path` is the prefix as the run was given it; `split` None for paths given by split; `tokenizer` the object that the
    run's tokenizer shows, as any description of such a run holds it under `tokenizer`.
    """
    if index_split not in ("train", "valid", "test"):
        raise BadQuery(f"there is no split {index_split!r}: train, valid or test")
    return _described(
        {
            "class": class_name,
            "dataset_path": dataset_path,
            "num_samples": num_samples,
            "index_split": index_split,
            "random_seed": random_seed,
            "sequence_length": sequence_length,
            "split": split,
            "split_matrix": None if split is None else megatron_matrix(split),
            "tokenizer": dict(tokenizer),
        }
    )


def describe_blend(
    members: Sequence[Description],
    *,
    weights: Sequence[float],
    size: int | None,
    renormalize_blend_weights: bool | None = None,
    class_name: str = "BlendedDataset",
) -> Description:
    """The description that Megatron makes of a blend of `members`.

    `weights` as they are used: shares normalised for the last time, or the sizes of the members, integers, with `size` None.
    Core 0.9 and 0.10 add `renormalize_blend_weights`.
    """
    if not members or len(members) != len(weights):
        raise BadQuery(f"a blend of {len(members)} members with {len(weights)} weights: give each member one")
    values: dict[str, Any] = {
        "class": class_name,
        "datasets": [dict(member.values) for member in members],
        "split": members[0].index_split,
        "weights": list(weights),
        "size": size,
    }
    if renormalize_blend_weights is not None:
        values["renormalize_blend_weights"] = renormalize_blend_weights
    return _described(values)


def _described(values: dict[str, Any]) -> Description:
    return Description(json.dumps(values, indent=4), values)


def _today(key: str) -> str:
    return "dataset_path" if key == "path_prefix" else key


def _old_values(text: str) -> dict[str, Any]:
    """A `.dsc`: of one dataset, or of a blend with those of its members, one after the other."""
    if text.startswith("GPT Dataset"):
        return _old_member(text)
    values: dict[str, Any] = {"class": "BlendableDataset"}
    values["datasets"] = [_old_member(part) for part in _OLD_MEMBER.findall(text)]
    for line in text.splitlines():
        name, _, value = line.partition(": ")
        if name == "Size":
            values["size"] = _number(value)
        elif name == "Weights":
            values["weights"] = [float(number) for number in re.findall(r"[0-9][0-9.e+-]*", value)]
    return values


def _old_member(text: str) -> dict[str, Any]:
    values: dict[str, Any] = {"class": "GPTDataset"}
    for line in text.splitlines():
        if found := _OLD_LINE.fullmatch(line):
            key = _OLD_KEYS[found[1]]
            values[key] = _number(found[2]) if key in _OLD_NUMBERS else None if found[2] == "None" else found[2]
    return values


def _number(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None
