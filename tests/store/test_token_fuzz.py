"""Damage at random: a typed error or the right tokens; never a crash, a hang or a wrong answer elsewhere.

What may differ after a flipped bit is only what that bit describes: a token in the `.bin` (no checksum can tell), or the one
sequence or document whose length, pointer or boundary it is.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.store.naive_tokens import bin_of, idx_of, legacy_bytes, write_set
from tests.store.test_tokens import DOCUMENTS
from typecase.errors import TypecaseError
from typecase.store.tokens.doctor import examine
from typecase.store.tokens.fingerprint import fingerprint
from typecase.store.tokens.pair import TokenPair
from typecase.store.tokens.repair import repair
from typecase.store.tokens.store import open_tokens

KINDS = st.sampled_from(["text", "int32", "merged", "multimodal", "legacy"])


def _build(prefix: Path, documents: list[list[list[int]]], kind: str) -> Path:
    sequences = [s for document in documents for s in document]
    if kind == "multimodal":
        return write_set(prefix, documents, "int32", modes=[0] * len(sequences))
    if kind == "legacy":
        write_set(prefix, documents, "int32")
        index = np.cumsum([0, *map(len, documents)]).tolist()
        idx_of(prefix).write_bytes(legacy_bytes(4, 4, [len(s) for s in sequences], index))
        return prefix
    return write_set(prefix, documents, "int32" if kind == "int32" else "uint16", index=[0] if kind == "merged" else None)


def _use_everything(prefix: Path, sequences: list[list[int]], out: Path) -> int:
    """Calls all that reads a set; returns how many of `sequences` still read as they were."""
    examine(prefix, eod=0, vocab_size=70_000)
    try:
        repair(prefix, out)
    except TypecaseError:
        assert not out.exists()
    else:
        open_tokens(out).close()
    with open_tokens(prefix, damaged=True) as store:
        for call in (
            lambda: store.read_many(range(store.num_documents)),
            lambda: store.document_of(np.arange(store.pair.bin.stat().st_size // store.dtype.itemsize)),
            lambda: [len(block.tokens) for block in store.blocks()],
            lambda: store.read(store.num_documents - 1),
        ):
            try:
                call()
            except TypecaseError:
                continue
    with open_tokens(prefix) as store:
        return sum(store.read_sequence(k).tolist() == ids for k, ids in enumerate(sequences) if k < store.num_sequences)


@settings(max_examples=150, deadline=None)
@given(documents=DOCUMENTS, kind=KINDS, bit=st.integers(0, 1 << 40))
@example(documents=[[[1]]] * 13, kind="text", bit=18 * 8)  # N = 13 becomes 12: the size then fits a multimodal set
def test_one_flipped_bit_in_the_index(
    tmp_path_factory: pytest.TempPathFactory, documents: list[list[list[int]]], kind: str, bit: int
) -> None:
    folder = tmp_path_factory.mktemp("flip")
    prefix = _build(folder / "x", documents, kind)
    data = bytearray(idx_of(prefix).read_bytes())
    bit %= 8 * len(data)
    data[bit // 8] ^= 1 << (bit % 8)
    in_dtype = bit // 8 == (16 if kind == "legacy" else 17)
    idx_of(prefix).write_bytes(data)
    sequences = [s for document in documents for s in document]
    try:
        same = _use_everything(prefix, sequences, folder / "out")
    except TypecaseError:
        return
    assert in_dtype or same >= len(sequences) - 1


@settings(max_examples=100, deadline=None)
@given(documents=DOCUMENTS, kind=KINDS, cut=st.integers(0, 1 << 40), add=st.booleans(), of_bin=st.booleans())
def test_files_of_another_size(
    tmp_path_factory: pytest.TempPathFactory, documents: list[list[list[int]]], kind: str, cut: int, add: bool, of_bin: bool
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    prefix = _build(folder / "x", documents, kind)
    path = bin_of(prefix) if of_bin else idx_of(prefix)
    data = path.read_bytes()
    cut %= len(data) + 1
    path.write_bytes(data + data[: cut or 1] if add else data[:cut])
    sequences = [s for document in documents for s in document]
    added = len(path.read_bytes()) - len(data)
    if not added or (not of_bin and kind != "legacy" and abs(added) == len(sequences)):
        return  # as many bytes more or less as there are sequences: the file of a multimodal set, or of a text one
    with pytest.raises(TypecaseError):
        _use_everything(prefix, sequences, folder / "out")


@settings(max_examples=60, deadline=None)
@given(
    head=st.binary(max_size=80),
    magic=st.sampled_from([b"", b"MMIDIDX\0\0" + bytes([1]) + bytes(7), b"TNTIDX\0\0" + bytes([1]) + bytes(7)]),
)
def test_noise_for_an_index(tmp_path_factory: pytest.TempPathFactory, head: bytes, magic: bytes) -> None:
    folder = tmp_path_factory.mktemp("noise")
    bin_of(folder / "x").write_bytes(bytes(range(50)))
    idx_of(folder / "x").write_bytes(magic + head)
    with pytest.raises(TypecaseError):
        _use_everything(folder / "x", [], folder / "out")


@settings(max_examples=50, deadline=None)
@given(documents=DOCUMENTS, bit=st.integers(0, 1 << 40), of_bin=st.booleans())
def test_any_flipped_bit_changes_the_fingerprint(
    tmp_path_factory: pytest.TempPathFactory, documents: list[list[list[int]]], bit: int, of_bin: bool
) -> None:
    prefix = write_set(tmp_path_factory.mktemp("print") / "x", documents)
    before = fingerprint(TokenPair.at(prefix))
    path = bin_of(prefix) if of_bin else idx_of(prefix)
    data = bytearray(path.read_bytes())
    if not data:
        return
    bit %= 8 * len(data)
    data[bit // 8] ^= 1 << (bit % 8)
    path.write_bytes(data)
    assert fingerprint(TokenPair.at(prefix)) != before
