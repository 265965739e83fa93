"""NeoX files: the three arrays that GPT-NeoX, NeMo 1 and Megatron-LM before Core leave beside their data.

    corpus_text_document_train_indexmap_1600ns_2048sl_42s_packedpi_ac_doc_idx.npy        sequences
    `------ prefix -----´ `name´        R     L      seed  packing      sample_idx.npy     rows
    `---------------------------- stem -------------------------´       shuffle_idx.npy    shuffle

The name is all that is known of such a set, and all that the framework looks at: it loads the three files when they exist,
whatever they hold. So a set is never overwritten here by another, and `verify` says whether it belongs to a token set.

GPT-NeoX before August 2024, the Pythia runs among it, and NeMo 1 write the stem without packing. Price: three maps.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from typecase.core.order.order import Lengths
from typecase.core.order.tables import Tables
from typecase.errors import BadQuery, NotFound
from typecase.store.orders.npy import keep_or_write, open_npy

PARTS = ("doc_idx", "sample_idx", "shuffle_idx")
"""Sequences, rows and shuffle, as the frameworks name them."""

_NUMBER = "0|[1-9][0-9]*"
_STEM = re.compile(
    r"(?P<prefix>.*)_(?P<name>(?:train|valid|test)(?:_[0-9]+)?)_indexmap"
    rf"_(?P<samples>{_NUMBER}|None)ns_(?P<length>{_NUMBER})sl_(?P<seed>{_NUMBER})s"
    r"(?:_(?P<packing>packed|pack_until_overflow|unpacked)pi(?P<chopped>_ac)?)?",
    re.DOTALL,
)
_PART = re.compile(rf"_(?:{'|'.join(PARTS)})\.npy\Z")


@dataclass(frozen=True, slots=True)
class NeoxIndexName:
    """What the name of an index set says.

    `prefix` is the last part of the data path; `name` is `train`, `valid` or `test`, with `_0`, `_1`, … for lists of paths;
    `num_samples` is what was asked, None for whole epochs. `packing_impl` is None in names from before packings had names,
    and `allow_chopped` then means nothing.
    """

    prefix: str
    name: str
    num_samples: int | None
    seq_length: int
    seed: int
    packing_impl: str | None = "packed"
    allow_chopped: bool = True

    @classmethod
    def parse(cls, text: str) -> NeoxIndexName:
        """Reads a stem or the name of one of its files. Raises BadQuery for another name."""
        found = _STEM.fullmatch(_PART.sub("", text))
        if found is None:
            raise BadQuery(
                f"{text!r} is no index of GPT-NeoX or NeMo 1: expected PREFIX_train_indexmap_100ns_2048sl_1234s, then as a rule"
                " _packedpi_ac, then _doc_idx.npy, _sample_idx.npy or _shuffle_idx.npy"
            )
        return cls(
            prefix=found["prefix"],
            name=found["name"],
            num_samples=None if found["samples"] == "None" else int(found["samples"]),
            seq_length=int(found["length"]),
            seed=int(found["seed"]),
            packing_impl=found["packing"],
            allow_chopped=found["chopped"] is not None or found["packing"] is None,
        )

    @property
    def split(self) -> str:
        """`train`, `valid` or `test`."""
        return self.name.split("_")[0]

    @property
    def stem(self) -> str:
        packing = "" if self.packing_impl is None else f"_{self.packing_impl}pi{'_ac' if self.allow_chopped else ''}"
        return f"{self.prefix}_{self.name}_indexmap_{self.num_samples}ns_{self.seq_length}sl_{self.seed}s{packing}"

    def paths(self, folder: Path) -> tuple[Path, ...]:
        """The three files in `folder`: sequences, rows, shuffle."""
        return tuple(folder / f"{self.stem}_{part}.npy" for part in PARTS)


@dataclass(frozen=True, slots=True)
class NeoxIndex:
    """An index set on disk: `paths` of all three files, and those of them that are `missing`."""

    folder: Path
    name: NeoxIndexName
    missing: tuple[Path, ...]

    @property
    def paths(self) -> tuple[Path, ...]:
        return self.name.paths(self.folder)

    @property
    def complete(self) -> bool:
        """Whether the framework would load it; else it builds all three anew."""
        return not self.missing


def find_neox_indexes(path: Path | str) -> tuple[NeoxIndex, ...]:
    """Every index set in the folder `path`, and of the token set whose prefix, `.bin` or `.idx` it names; by name.

    Raises NotFound when there is no such folder.
    """
    path = Path(path)
    if not path.is_dir() and not path.parent.is_dir():
        raise NotFound(f"there is no folder {path.parent}; give the folder of the index files, or the prefix of the token set")
    prefixes = {path.name, path.name.removesuffix(".bin"), path.name.removesuffix(".idx")}
    found = [(path, name) for name in _names_in(path)] if path.is_dir() else []
    found += [(path.parent, name) for name in _names_in(path.parent) if name.prefix in prefixes]
    unique = {(folder, name.stem): name for folder, name in found}
    return tuple(_look(folder, name) for (folder, _), name in sorted(unique.items()))


def _names_in(folder: Path) -> list[NeoxIndexName]:
    stems = {_PART.sub("", file.name) for file in folder.glob("*_indexmap_*.npy") if _PART.search(file.name)}
    return [NeoxIndexName.parse(stem) for stem in stems if _STEM.fullmatch(stem) and not stem.startswith(".")]


def _look(folder: Path, name: NeoxIndexName) -> NeoxIndex:
    return NeoxIndex(folder, name, tuple(file for file in name.paths(folder) if not file.is_file()))


def read_neox_index(path: Path | str, lengths: Lengths, *, wraps: bool = True) -> Tables:
    """The order in the set that `path`, a stem or any of its files, names, over a token set of these `lengths`.

    `wraps` is GPT-NeoX since July 2021: one sample fewer is offered than built, an index beyond is taken modulo that; without,
    as in NeMo 1, Megatron-LM and GPT-NeoX before, all are offered. Raises NotFound and CorruptStore.
    """
    path = Path(path)
    index = _look(path.parent, NeoxIndexName.parse(path.name))
    if len(index.missing) == len(PARTS):
        raise NotFound(f"there is no index {index.name.stem} in {index.folder}; find_neox_indexes lists those that are")
    if index.missing:
        raise NotFound(
            f"{index.missing[0]} is missing although others of its set are there; the framework would build all anew"
        )
    documents, samples, shuffled = index.paths
    rows = open_npy(samples, ndim=2, columns=2)
    shuffle = open_npy(shuffled, ndim=1)
    offered = min(len(shuffle), len(rows) - 1) - 1 if wraps else len(rows) - 1
    return Tables(
        sequences=open_npy(documents, ndim=1),
        rows=rows,
        shuffle=shuffle,
        lengths=lengths,
        seq_length=index.name.seq_length,
        extra=1,
        num_samples=max(offered, 0),
        wraps=wraps,
    )


def write_neox_index(folder: Path | str, name: NeoxIndexName, tables: Tables, *, replace: bool = False) -> tuple[Path, ...]:
    """Writes the three files of `name` into `folder`, in the bytes that GPT-NeoX writes; returns their paths.

    Raises AlreadyExists when one is there and holds something else, unless `replace`; BadQuery when name and tables disagree.
    """
    if name.seq_length != tables.seq_length:
        raise BadQuery(f"{name.stem} says {name.seq_length} tokens a sample, the order has {tables.seq_length}: mend the name")
    paths = name.paths(Path(folder))
    arrays = (tables.sequences, tables.rows, tables.shuffle)
    keep_or_write(dict(zip(paths, arrays, strict=True)), replace=replace)
    return paths
