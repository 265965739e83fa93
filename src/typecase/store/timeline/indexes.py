"""Indexes: the index files that a run left, or is to start from, read and written under the framework's own names.

    gpt-neox, nemo 1, legacy   PREFIX_train_indexmap_1600ns_2048sl_42s_packedpi_ac_doc_idx.npy …   beside the data
    megatron-core, nemo 2, …   <md5>-GPTDataset-train-document_index.npy … description.txt         in the run's cache folder

Read, they stand in for the order that is computed: what the run did, even where its settings are told wrongly. Written, the
framework starts from them, an order of typecase's own included. What is read is mapped, not loaded; `checked` compares every
number of it with the token set and with the order built anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from typecase.core.order.blend import BlendTables
from typecase.core.order.blending import normalised
from typecase.core.order.keyed import KeyedLaid, KeyedOrder
from typecase.core.order.megatron import MegatronBlend, MegatronOrder
from typecase.core.order.neox import NeoxOrder
from typecase.core.order.neox_blend import NeoxBlend
from typecase.core.order.order import Laid
from typecase.core.order.tables import Tables
from typecase.errors import BadQuery
from typecase.store.orders.descriptions import Description, describe_blend, describe_megatron
from typecase.store.orders.megatron_files import (
    find_megatron_indexes,
    megatron_cache_folder,
    members_of,
    read_megatron_blend,
    read_megatron_index,
    the_match,
    write_megatron_blend,
    write_megatron_index,
)
from typecase.store.orders.neox_files import NeoxIndexName, find_neox_indexes, read_neox_index, write_neox_index
from typecase.store.orders.verify import Difference, Packing, differences
from typecase.store.orders.verify_blend import blend_differences
from typecase.store.timeline.frameworks import RunPlan
from typecase.store.tokens.store import TokenStore

_OLD_PROFILES = ("legacy", "nemo1")


@dataclass(frozen=True, slots=True)
class Checked:
    """Index files against the token set and the order built anew: where they lie, and what differs, by member ("blend" too)."""

    files: str
    differences: Mapping[str, tuple[Difference, ...]]

    @property
    def agree(self) -> bool:
        return not any(self.differences.values())


@dataclass(frozen=True, slots=True)
class FoundIndex:
    """A set of index files: the framework whose kind it is, its name, what it was built for, and files that are missing."""

    framework: str
    name: str
    folder: str
    settings: Mapping[str, Any]
    missing: tuple[str, ...]


def find_indexes(path: Path) -> list[FoundIndex]:
    """Every set of index files in the folder `path`, in the caches beside the token set `path`, and beside it."""
    found = [
        FoundIndex("gpt-neox", one.name.stem, str(one.folder), asdict(one.name), tuple(p.name for p in one.missing))
        for one in find_neox_indexes(path)
    ]
    caches = [path, megatron_cache_folder(path)]
    for cache in caches:
        if cache.is_dir():
            for one in find_megatron_indexes(cache):
                name = f"{one.md5}-{one.class_name}-{one.index_split}"
                values = dict(one.description.values) if one.description is not None else {}
                found.append(FoundIndex("megatron-core", name, str(cache), values, tuple(one.missing)))
    return found


def read_indexes(plan: RunPlan, stores: Sequence[TokenStore], folder: Path | None = None) -> Laid:
    """The order in a run's own index files, in `folder` or where the framework keeps them.

    Raises NotFound with the nearest misses, CorruptStore for a damaged file, BadQuery for an order that has no index files.
    """
    lengths = [np.array(store.lengths) for store in stores]
    if _has_neox_names(plan):
        neox = plan.framework == "gpt-neox"
        members = tuple(
            _uncut(plan, read_neox_index((folder or store.pair.prefix.parent) / name.stem, held, wraps=neox))
            for name, store, held in zip(neox_names(plan, stores), stores, lengths, strict=True)
        )
        built = plan.blend.lay(lengths) if plan.blend is not None else None
        if isinstance(built, BlendTables):  # GPT-NeoX does not keep blends: it chooses anew at every start
            return BlendTables(members, built.dataset_index, built.dataset_sample_index, built.num_samples, built.wraps)
        return members[0]
    return _read_megatron(plan, stores, lengths, folder)


def _read_megatron(plan: RunPlan, stores: Sequence[TokenStore], lengths: Sequence[Any], folder: Path | None) -> Laid:
    order = _megatron(plan)
    place = folder or plan.cache or megatron_cache_folder(stores[0].pair.prefix)
    extra = int(order.add_extra_token_to_sequence)
    asked = {
        "index_split": order.index_split,
        "random_seed": order.random_seed,
        "sequence_length": order.sequence_length,
        "split": order.split,
    }
    if isinstance(order, MegatronOrder):
        found = find_megatron_indexes(
            place, dataset_path=str(stores[0].pair.prefix), num_samples=order.num_samples, class_name="GPTDataset", **asked
        )
        return _uncut(plan, read_megatron_index(the_match(found), lengths[0], extra=extra))
    sized = {"num_samples": order.size} if order.weights is not None else {}
    blend = the_match(find_megatron_indexes(place, class_name="BlendedDataset", **sized, **asked))
    sets = members_of(blend, find_megatron_indexes(place))
    tables = [_uncut(plan, read_megatron_index(s, held, extra=extra)) for s, held in zip(sets, lengths, strict=True)]
    return read_megatron_blend(blend, tables)


def _uncut(plan: RunPlan, tables: Tables) -> Tables:
    """Samples of a packed order need no cutting; one that is too long in files that were read shows that they are foreign."""
    return replace(tables, cuts=getattr(plan.order or plan.blend, "packing_impl", "packed") != "packed")


def checked(plan: RunPlan, stores: Sequence[TokenStore], read: Laid, built: Laid, where: str) -> Checked:
    """Every number of the index files `read` against the token sets and the order `built` anew."""
    found: dict[str, tuple[Difference, ...]] = {}
    mine = read.members if isinstance(read, BlendTables) else (read,)
    anew = built.members if isinstance(built, BlendTables) else (built,)
    packing: Packing = getattr(plan.order or plan.blend, "packing_impl", "packed")
    for store, tables, rebuilt in zip(stores, mine, anew, strict=True):
        assert isinstance(tables, Tables) and isinstance(rebuilt, Tables)
        held = np.array(store.lengths)
        found[str(store.pair.prefix)] = differences(
            tables, held, rebuilt=rebuilt, packing=packing, alternatives=_alternatives(plan, held)
        )
    if isinstance(read, BlendTables) and isinstance(built, BlendTables):
        found["blend"] = blend_differences(read, rebuilt=built)
    return Checked(where, found)


def _alternatives(plan: RunPlan, lengths: Any) -> dict[str, Tables]:
    """The same settings under the other framework's rules: the usual reason why an order is another."""
    order = plan.order
    try:
        if isinstance(order, MegatronOrder):
            neox = NeoxOrder(
                seq_length=order.sequence_length,
                seed=order.random_seed,
                split=order.split,
                index_split=order.index_split,
                num_samples=order.num_samples,
            )
            return {"the rules of GPT-NeoX": neox.lay(lengths)} if order.num_samples is not None else {}
        if isinstance(order, NeoxOrder) and order.packing_impl == "packed" and order.num_samples is not None:
            core = MegatronOrder(
                sequence_length=order.seq_length,
                random_seed=order.seed,
                split=order.split,
                index_split=order.index_split,
                num_samples=order.num_samples,
            )
            return {"the rules of Megatron-Core": core.lay(lengths)}
    except BadQuery:
        pass
    return {}


def neox_names(plan: RunPlan, stores: Sequence[TokenStore]) -> list[NeoxIndexName]:
    """The names of the index sets of a run that keeps them in GPT-NeoX's way, one for each token set."""
    order = plan.order or plan.blend
    if isinstance(order, NeoxBlend):
        asked = order.requests(order.shares([store.num_sequences for store in stores]))
    elif isinstance(order, MegatronBlend):
        asked = order.samples_asked(len(stores))
    else:
        asked = [plan.num_samples]
    neox = isinstance(order, NeoxOrder | NeoxBlend)
    several = plan.blend is not None and neox
    length, seed = (plan.schedule.seq_length or 0, 0)
    if isinstance(order, NeoxOrder | NeoxBlend | KeyedOrder):
        length, seed = order.seq_length, order.seed
    elif isinstance(order, MegatronOrder | MegatronBlend):
        length, seed = order.sequence_length, order.random_seed
    return [
        NeoxIndexName(
            prefix=store.pair.prefix.name,
            name=f"{plan.index_split}_{k}" if several else plan.index_split,
            num_samples=asked[k],
            seq_length=length,
            seed=seed,
            packing_impl=getattr(order, "packing_impl", "packed") if neox or isinstance(order, KeyedOrder) else None,
            allow_chopped=getattr(order, "allow_chopped", True),
        )
        for k, store in enumerate(stores)
    ]


def write_indexes(
    plan: RunPlan,
    stores: Sequence[TokenStore],
    laid: Laid,
    folder: Path,
    *,
    framework: str,
    tokenizer: Mapping[str, Any] | None = None,
    paths: Sequence[str] = (),
    split: str = "100,0,0",
) -> tuple[Path, ...]:
    """Writes the order as index files of `framework` into `folder`, under the names that it will look for.

    Megatron's names are hashes over the run's settings, its data paths as the run is given them (`paths`, by default those of
    the token sets) and what its tokenizer says of itself (`tokenizer`); a keyed order is written for a run with `split`. Raises
    BadQuery when the order cannot be said in that framework's files, AlreadyExists where others lie.
    """
    members, blend = _as_tables(plan, laid, stores, framework)
    if framework == "gpt-neox" or _has_neox_names(plan):
        written: list[Path] = []
        for name, tables in zip(neox_names(plan, stores), members, strict=True):
            written += write_neox_index(folder, name, tables)
        return tuple(written)
    if tokenizer is None:
        raise BadQuery(
            "Megatron names its cache files by a hash that covers what the tokenizer says of itself: give it as a table, or by"
            " the description.txt of any run with the same tokenizer"
        )
    said = list(paths) or [str(store.pair.prefix) for store in stores]
    described = [_described(plan, k, path, tokenizer, split) for k, path in enumerate(said)]
    written = [p for d, tables in zip(described, members, strict=True) for p in write_megatron_index(folder, d, tables)]
    if blend is not None:
        description = describe_blend(described, weights=_weights_used(plan, blend), size=plan.num_samples)
        written += write_megatron_blend(folder, description, blend)
    return tuple(written)


def _weights_used(plan: RunPlan, blend: BlendTables) -> Sequence[float]:
    """The weights as a blend's description holds them."""
    order = plan.blend
    assert isinstance(order, MegatronBlend)
    if order.profile != "core":
        raise BadQuery(
            f"blends of {order.profile} can be read and computed, but are not written: write those of a newer release"
        )
    if order.weights is not None:
        return normalised(normalised(order.weights))
    sizes = [member.num_samples for member in blend.members]
    return sizes if order.size is None else normalised(sizes)


def _described(plan: RunPlan, k: int, path: str, tokenizer: Mapping[str, Any], split: str) -> Description:
    order = plan.order or plan.blend
    if isinstance(order, KeyedOrder):
        asked, seed, length, said = plan.num_samples, order.seed, order.seq_length, split
    else:
        megatron = _megatron(plan)
        asked = megatron.samples_asked(k + 1)[k] if isinstance(megatron, MegatronBlend) else megatron.num_samples
        seed, length, said = megatron.random_seed, megatron.sequence_length, megatron.split or ""
    return describe_megatron(
        dataset_path=path,
        num_samples=asked,
        index_split=plan.index_split,
        random_seed=seed,
        sequence_length=length,
        split=said or None,
        tokenizer=tokenizer,
    )


def _as_tables(
    plan: RunPlan, laid: Laid, stores: Sequence[TokenStore], framework: str
) -> tuple[tuple[Tables, ...], BlendTables | None]:
    if isinstance(laid, KeyedLaid):
        # GPT-NeoX offers one sample fewer than its files hold.
        held = (
            laid.order.lay(np.array(stores[0].lengths), num_samples=laid.num_samples + 1) if framework == "gpt-neox" else laid
        )
        return (held.tables(),), None
    if framework != plan.framework:
        raise BadQuery(f"the order of a {plan.framework} run is written as its own index files, not as those of {framework}")
    if isinstance(laid, BlendTables):
        return laid.members, laid if plan.framework != "gpt-neox" else None
    assert isinstance(laid, Tables)
    return (laid,), None


def _has_neox_names(plan: RunPlan) -> bool:
    order = plan.order or plan.blend
    return isinstance(order, NeoxOrder | NeoxBlend) or getattr(order, "profile", "") in _OLD_PROFILES


def _megatron(plan: RunPlan) -> MegatronOrder | MegatronBlend:
    order = plan.order or plan.blend
    if isinstance(order, MegatronOrder | MegatronBlend):
        return order
    raise BadQuery("the keyed order needs no index files: it is computed; `typecase order write` makes them for a framework")
