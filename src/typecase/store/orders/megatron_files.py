"""Megatron files: the caches of Megatron-Core, NeMo and Megatron-LM, found by what they describe, read and written.

    cache/GPTDataset_indices/                                   find(sequence_length=2048, num_samples=1600)
      61ba…-GPTDataset-train-{description.txt, …_index.npy}       -> matches
      9f02…-GPTDataset-train-{description.txt, …_index.npy}       -> differs: num_samples is 800, asked 1600
      80cb…-BlendedDataset-train-{description.txt, …}

A cache is named by the md5 of a text that holds the path of the data and an object of the tokenizer, so a run elsewhere
looks for another name. The text lies beside the arrays: it is matched key by key here, paths by their last parts, and a set
that does not fit says which keys differ. Price: one small file a set, three maps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from typecase.core.order.blend import BlendTables
from typecase.core.order.order import Lengths
from typecase.core.order.tables import Tables
from typecase.errors import BadQuery, CorruptStore, NotFound
from typecase.store.atomic import write_bytes
from typecase.store.orders.descriptions import Description
from typecase.store.orders.extra import extra_of
from typecase.store.orders.npy import keep_or_write, open_npy

DATASET_PARTS: Final = ("document_index", "sample_index", "shuffle_index")
BLEND_PARTS: Final = ("dataset_index", "dataset_sample_index")
_OLD_PARTS: Final = {"doc_idx": "document_index", "sample_idx": "sample_index", "shuffle_idx": "shuffle_index"}
_OLD_BLEND: Final = {"index": "dataset_index", "sample_index": "dataset_sample_index"}

_NEW = re.compile(r"([0-9a-f]{32})-([A-Za-z_][A-Za-z0-9_]*)(?:-(train|valid|test))?-([a-z_]+\.(?:txt|npy))")
_OLD = re.compile(r"([0-9a-f]{32})(?:\.(dsc)|_(doc_idx|sample_idx|shuffle_idx|index|sample_index)\.npy)")

ANY: Final = object()
"""Of a key that may have any value."""


@dataclass(frozen=True, slots=True)
class MegatronIndex:
    """One set of a cache.

    `md5` is its name; `description` None where the text is missing or damaged; `paths` the files that are there, by part
    (`description`, `document_index`, …); `missing` the parts that are not. `differs` says, a sentence a key, why it is not what
    was asked; `problems` what else is wrong with it.
    """

    folder: Path
    md5: str
    class_name: str
    index_split: str
    description: Description | None
    paths: Mapping[str, Path]
    missing: tuple[str, ...]
    differs: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def is_blend(self) -> bool:
        return any(part in self.paths or part in self.missing for part in BLEND_PARTS)

    @property
    def complete(self) -> bool:
        """Whether the framework would load it; else it builds the whole set anew."""
        return not self.missing

    @property
    def matches(self) -> bool:
        return not self.differs and self.description is not None

    def path(self, part: str) -> Path:
        """Raises NotFound."""
        if part not in self.paths:
            raise NotFound(
                f"the {part} of {self.md5} is missing in {self.folder}; copy the whole set, or build the order again"
            )
        return self.paths[part]


def find_megatron_indexes(
    cache_folder: Path | str,
    *,
    dataset_path: object = ANY,
    num_samples: object = ANY,
    index_split: object = ANY,
    random_seed: object = ANY,
    sequence_length: object = ANY,
    split: object = ANY,
    tokenizer: object = ANY,
    class_name: object = ANY,
) -> tuple[MegatronIndex, ...]:
    """Every set in `cache_folder`: those that match first, then the rest, the nearest first, with what differs.

    What is left out may have any value. A path matches one that ends alike: `./corpus` and `/data/corpus`. A blend matches
    where one of its members does, its own size and split counting before theirs. Raises NotFound when there is no such folder.
    """
    folder = Path(cache_folder)
    if not folder.is_dir():
        raise NotFound(f"there is no folder {folder}; give the cache path of the run, or PREFIX/cache/GPTDataset_indices")
    asked = {
        "class": class_name,
        "dataset_path": dataset_path,
        "num_samples": num_samples,
        "index_split": index_split,
        "random_seed": random_seed,
        "sequence_length": sequence_length,
        "split": split,
        "tokenizer": tokenizer,
    }
    asked = {key: value for key, value in asked.items() if value is not ANY}
    sets = [_look(folder, key, paths, asked) for key, paths in _sets_in(folder).items()]
    return tuple(sorted(sets, key=lambda s: (not s.matches, len(s.differs), not s.complete, s.is_blend, s.md5, s.index_split)))


def megatron_cache_folder(prefix: Path | str, class_name: str = "GPTDataset") -> Path:
    """Where Megatron keeps the caches of the token set `prefix` when a run names no cache path."""
    return Path(prefix) / "cache" / f"{class_name}_indices"


def members_of(blend: MegatronIndex, sets: Iterable[MegatronIndex]) -> tuple[MegatronIndex, ...]:
    """The sets among `sets` that the members of `blend` read, in its order. Raises NotFound for one that is not there."""
    by_name = {(index.md5, index.index_split): index for index in sets if not index.is_blend}
    found = []
    for number, member in enumerate(blend.description.members if blend.description else ()):
        index = by_name.get((member.md5, member.index_split))
        if index is None:
            path = member.values.get("dataset_path")
            raise NotFound(
                f"member {number} of the blend {blend.md5}, {path}, has no cache {member.md5}; build its order again"
            )
        found.append(index)
    return tuple(found)


def _sets_in(folder: Path) -> dict[tuple[str, str, str], dict[str, Path]]:
    """Files by part, by (md5, class, split); split "" where the name does not tell."""
    sets: dict[tuple[str, str, str], dict[str, Path]] = {}
    for file in sorted(folder.iterdir()):
        if found := _NEW.fullmatch(file.name):
            key = found[1], found[2], found[3] or ""
            sets.setdefault(key, {})[found[4].rsplit(".", 1)[0]] = file
        elif found := _OLD.fullmatch(file.name):
            sets.setdefault((found[1], "", ""), {})["description" if found[2] else found[3]] = file
    return {key: paths if key[1] else _renamed(paths) for key, paths in sets.items()}


def _renamed(paths: dict[str, Path]) -> dict[str, Path]:
    """The parts of a set from before Core, by today's names."""
    blend = "index" in paths or "sample_index" in paths
    names = _OLD_BLEND if blend else _OLD_PARTS
    return {names.get(part, part): path for part, path in paths.items()}


def _look(folder: Path, key: tuple[str, str, str], paths: dict[str, Path], asked: Mapping[str, object]) -> MegatronIndex:
    md5, class_name, index_split = key
    description, problems = None, []
    try:
        if "description" in paths:
            description = Description.read(paths["description"])
    except CorruptStore as error:
        problems.append(str(error))
    if description is not None and description.md5 != md5:
        problems.append(f"its description hashes to {description.md5}: text or file names were changed after it was built")
    blend = description.is_blend if description else any(part in paths for part in BLEND_PARTS)
    return MegatronIndex(
        folder=folder,
        md5=md5,
        class_name=class_name or (description.class_name if description else ""),
        index_split=index_split or (description.index_split if description else ""),
        description=description,
        paths=paths,
        missing=tuple(part for part in ("description", *(BLEND_PARTS if blend else DATASET_PARTS)) if part not in paths),
        differs=_differs(description, asked) if description else ("its description is missing or damaged",) if asked else (),
        problems=tuple(problems),
    )


def _differs(description: Description, asked: Mapping[str, object]) -> tuple[str, ...]:
    if not description.is_blend:
        return _unlike(description.values, asked)
    own = {
        "class": description.class_name,
        "num_samples": description.values.get("size"),
        "index_split": description.index_split,
    }
    rest = {key: value for key, value in asked.items() if key not in own}
    inner = [_unlike(member.values, rest) for member in description.members]
    return _unlike(own, {k: v for k, v in asked.items() if k in own}) + (min(inner, key=len) if inner else ())


def _unlike(values: Mapping[str, Any], asked: Mapping[str, object]) -> tuple[str, ...]:
    sentences = []
    for key, wanted in asked.items():
        if key not in values:
            # An older text that does not tell cannot tell otherwise either.
            continue
        found = values[key]
        same = _same_path(found, wanted) if key == "dataset_path" else found == wanted
        if not same:
            sentences.append(f"{key} is {found!r}, asked {wanted!r}")
    return tuple(sentences)


def _same_path(found: object, wanted: object) -> bool:
    """Whether the one path ends as the whole other does."""
    if found is None or wanted is None:
        return found is wanted
    mine, theirs = (PurePosixPath(str(path)).parts for path in (found, wanted))
    mine, theirs = (tuple(part for part in parts if part != ".") for parts in (mine, theirs))
    shorter = min(len(mine), len(theirs))
    return shorter > 0 and mine[-shorter:] == theirs[-shorter:]


def the_match(found: Iterable[MegatronIndex]) -> MegatronIndex:
    """The one complete set that matches. Raises NotFound with the nearest misses, BadQuery with the choice where several do."""
    sets = list(found)
    fitting = [index for index in sets if index.matches and index.complete]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        names = "; ".join(f"{s.md5}-{s.class_name}-{s.index_split}" for s in fitting[:5])
        raise BadQuery(f"{len(fitting)} sets of {fitting[0].folder} match: {names}; ask for more keys")
    near = "; ".join(f"{s.md5}-{s.index_split}: {', '.join(_why_not(s))}" for s in sets[:3])
    raise NotFound(f"no set matches{f'; the nearest: {near}' if near else ': the folder holds no Megatron cache'}")


def _why_not(index: MegatronIndex) -> list[str]:
    return [*index.differs, *(f"{part} is missing" for part in index.missing)] or ["it is incomplete"]


def read_megatron_index(found: MegatronIndex, lengths: Lengths, *, extra: int | None = None) -> Tables:
    """The order in `found` over a token set of these `lengths`.

    The description does not say whether a sample has an extra token. By default `extra_of` tells it from the arrays; where the
    rows would be the same either way, it is 1, as Megatron has it by default. Raises NotFound for a missing part, CorruptStore
    for a damaged one, BadQuery for a blend.
    """
    if found.is_blend:
        raise BadQuery(f"{found.md5} is a blend: read its members, then the blend with read_megatron_blend")
    if found.description is None:
        raise NotFound(
            f"{found.md5} in {found.folder} has no description, so its sequence length is unknown; copy the whole set"
        )
    sequences = open_npy(found.path("document_index"), ndim=1)
    rows = open_npy(found.path("sample_index"), ndim=2, columns=2)
    shuffle = open_npy(found.path("shuffle_index"), ndim=1)
    seq_length = found.description.sequence_length
    if extra is None:
        extra = extra_of(sequences, rows, lengths, seq_length=seq_length).extra
    return Tables(sequences, rows, shuffle, lengths, seq_length, extra, num_samples=max(len(rows) - 1, 0))


def read_megatron_blend(found: MegatronIndex, members: Sequence[Tables]) -> BlendTables:
    """The blend in `found` over the orders of its members, in the order of `found.description.members`."""
    if not found.is_blend:
        raise BadQuery(f"{found.md5} is the index of one dataset: read it with read_megatron_index")
    if found.description is not None and len(found.description.members) != len(members):
        raise BadQuery(f"the blend {found.md5} has {len(found.description.members)} members, {len(members)} were given")
    owners = open_npy(found.path("dataset_index"), ndim=1)
    samples = open_npy(found.path("dataset_sample_index"), ndim=1)
    if len(owners) != len(samples):
        raise CorruptStore(f"the blend {found.md5} in {found.folder} has {len(owners)} choices and {len(samples)} samples")
    return BlendTables(tuple(members), owners, samples, len(owners))


def write_megatron_index(
    cache_folder: Path | str, description: Description, tables: Tables, *, replace: bool = False
) -> tuple[Path, ...]:
    """Writes the four files of a dataset's cache, in the names and bytes of Megatron since 0.7; returns their paths.

    The description comes last: Megatron takes the set only with it. Raises AlreadyExists when a file is there and holds
    something else, unless `replace`; BadQuery when description and tables disagree.
    """
    if description.is_blend or description.sequence_length != tables.seq_length:
        raise BadQuery(
            f"the description is of {description.class_name} and {description.sequence_length} tokens a sample, the order has"
            f" {tables.seq_length}: describe the order that is written"
        )
    arrays = (tables.sequences, tables.rows, tables.shuffle)
    return _write(Path(cache_folder), description, dict(zip(DATASET_PARTS, arrays, strict=True)), replace)


def write_megatron_blend(
    cache_folder: Path | str, description: Description, blend: BlendTables, *, replace: bool = False
) -> tuple[Path, ...]:
    """As `write_megatron_index`, the three files of a blend."""
    if len(description.members) != len(blend.members):
        raise BadQuery(f"the description names {len(description.members)} members, the blend has {len(blend.members)}")
    arrays = (blend.dataset_index, blend.dataset_sample_index)
    return _write(Path(cache_folder), description, dict(zip(BLEND_PARTS, arrays, strict=True)), replace)


def _write(folder: Path, description: Description, arrays: Mapping[str, Any], replace: bool) -> tuple[Path, ...]:
    base = f"{description.md5}-{description.class_name}-{description.index_split}"
    files = {folder / f"{base}-{part}.npy": array for part, array in arrays.items()}
    keep_or_write(files, replace=replace)
    # Its name is the hash of its content: nothing else can be there but a damaged copy.
    write_bytes(folder / f"{base}-description.txt", description.text.encode())
    return (folder / f"{base}-description.txt", *files)
