"""Repair: a new token set from every whole document of a damaged one. The source is never touched.

    balance   documents of the source = kept + removed (outside the .bin | negative length | index cut off)

A set merged without document index gets one; TNTIDX, gaps and relocated sequences come out as a contiguous MMIDIDX set;
bytes that no sequence covers are left behind and counted. Price: one read and one write of the tokens, and some 20 bytes a
sequence of memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from typecase.core.balance import Balance
from typecase.errors import AlreadyExists, BadQuery
from typecase.store import provenance, shards
from typecase.store.tokens.damage import Finding, broken_documents, survey
from typecase.store.tokens.idx import Layout
from typecase.store.tokens.pair import SET_NAME, TokenPair, find_pair
from typecase.store.tokens.salvage import salvage
from typecase.store.tokens.store import TokenStore
from typecase.store.tokens.writer import TokenSetWriter

_BLOCK_TOKENS = 1 << 21


@dataclass(frozen=True, slots=True)
class RepairSummary:
    """What a repair made. `findings` is the damage met, `notes` what was done about it, `dropped_bytes` what no sequence
    covers."""

    source: Path
    prefix: Path
    balance: Balance
    num_sequences: int
    num_tokens: int
    dropped_bytes: int
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    provenance: Path | None


def repair(path: Path | str, out: Path | str) -> RepairSummary:
    """Writes every whole document of the set at `path` to the new folder `out`, in order.

    Raises CorruptStore when the index cannot be read at all, AlreadyExists when `out` holds anything.
    """
    out, pair = Path(out), find_pair(path)
    if pair.idx.resolve().parent == out.resolve():
        raise BadQuery(f"{out} is the folder of the damaged set; give a new one")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise AlreadyExists(f"{out} exists and is not empty; give a new folder")
    found = salvage(pair)
    layout, bin_bytes = found.layout, pair.bin.stat().st_size
    facts = survey(layout, bin_bytes=bin_bytes)
    whole, removed = _judge(layout, bin_bytes)
    if found.num_missing:
        removed["index cut off"] = found.num_missing
    balance = Balance(layout.num_documents + found.num_missing, int(np.count_nonzero(whole)), removed)
    rows = provenance.open_provenance(pair.idx.parent)
    carried = rows is not None and _num_rows(rows) == balance.entered
    with TokenStore(pair, layout, facts) as store:
        prefix = TokenPair.at(out / SET_NAME).prefix
        code = layout.header.dtype_code
        with TokenSetWriter(prefix, store.dtype, multimodal=layout.modes is not None, dtype_code=code) as writer:
            _copy(store, writer, whole)
            if rows is not None and carried:
                shards.write_shard(out / provenance.NAME, _kept_rows(rows, whole), provenance.PROVENANCE_SCHEMA)
    notes = found.notes
    if rows is not None and not carried:
        notes = (*notes, f"{rows.path} has {_num_rows(rows)} documents, not {balance.entered}: provenance was not carried over")
    return RepairSummary(
        source=pair.prefix,
        prefix=prefix,
        balance=balance,
        num_sequences=writer.num_sequences,
        num_tokens=writer.num_tokens,
        dropped_bytes=max(0, bin_bytes - writer.num_tokens * store.dtype.itemsize),
        findings=facts.findings,
        notes=notes,
        provenance=out / provenance.NAME if carried else None,
    )


def _judge(layout: Layout, bin_bytes: int) -> tuple[npt.NDArray[np.bool_], dict[str, int]]:
    """Which documents are whole, bool (documents,), and how many are not, by reason."""
    negative, outside = broken_documents(layout, bin_bytes=bin_bytes)
    counts = {"negative length": int(negative.sum()), "outside the .bin": int(outside.sum())}
    return ~(negative | outside), {reason: count for reason, count in counts.items() if count}


def _copy(store: TokenStore, writer: TokenSetWriter, whole: npt.NDArray[np.bool_]) -> None:
    index = store.layout.document_index.astype(np.int64)
    counts = np.diff(index)
    keep = np.zeros(store.num_sequences, np.bool_)
    keep[: int(index[-1])] = np.repeat(whole, counts)
    for block in store.blocks(_BLOCK_TOKENS):
        wanted = keep[block.sequences]
        tokens = block.tokens if wanted.all() else block.tokens[np.repeat(wanted, np.diff(block.offsets))]
        writer.append_bytes(tokens.view(np.uint8))
    modes = store.modes[keep] if store.modes is not None else None
    writer.append_lengths(store.lengths[keep], per_document=counts[whole], modes=modes)


def _num_rows(table: provenance.Provenance) -> int:
    return sum(group.num_rows for group in shards.read_groups(table.path, ["doc"]))


def _kept_rows(table: provenance.Provenance, whole: npt.NDArray[np.bool_]) -> Iterator[pa.Table]:
    """The rows of the documents that are whole, numbered anew. Documents cut off with the index were the last ones."""
    seen = kept = 0
    for group in shards.read_groups(table.path):
        own = whole[seen : seen + group.num_rows]
        seen += group.num_rows
        mask = np.concatenate((own, np.zeros(group.num_rows - len(own), np.bool_)))
        rows = group.filter(pa.array(mask))
        numbers = pa.array(np.arange(kept, kept + rows.num_rows))
        kept += rows.num_rows
        yield rows.set_column(rows.schema.get_field_index("doc"), "doc", numbers).select(provenance.PROVENANCE_SCHEMA.names)
