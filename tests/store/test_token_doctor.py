"""The doctor names what is wrong, where first, and raises for no damage."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.store.naive_tokens import bin_of, idx_bytes, idx_of, legacy_bytes, write_set
from tests.store.test_tokens import PAIRS
from typecase.errors import FingerprintMismatch, NotFound
from typecase.store.manifest import FileEntry, Manifest, read_manifest, write_manifest
from typecase.store.tokens.damage import Finding, Severity
from typecase.store.tokens.doctor import Examination, examine
from typecase.store.tokens.fingerprint import fingerprint, promised_fingerprint, verify
from typecase.store.tokens.pair import find_pair
from typecase.store.tokens.roundtrip import guess_tokenizer
from typecase.store.tokens.store import open_tokens


def _finding(exam: Examination, code: str) -> Finding:
    assert code in (codes := [f.code for f in exam.findings]), codes
    return next(f for f in exam.findings if f.code == code)


def _texts(num: int, eod: int | None, seed: int = 0) -> list[list[list[int]]]:
    """Documents of ids 1 … 999, with `eod` at the end."""
    rng = np.random.default_rng(seed)
    end = [] if eod is None else [eod]
    return [[[*rng.integers(1, 1000, rng.integers(1, 30)).tolist(), *end]] for _ in range(num)]


@pytest.mark.parametrize("idx", PAIRS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_sets_of_the_frameworks_are_well(idx: Path) -> None:
    exam = examine(idx)
    raw = np.fromfile(idx.with_suffix(".bin"), exam.dtype)
    assert exam.ok and exam.census is not None
    assert (exam.census.min_id, exam.census.max_id) == (int(raw.min()), int(raw.max()))


@pytest.mark.parametrize("full", [True, False])
def test_documents_with_eod(tmp_path: Path, full: bool) -> None:
    exam = examine(write_set(tmp_path / "x", _texts(300, 0)), full=full)
    assert exam.ok and exam.eod is not None and exam.eod.eod == 0 and exam.eod.exact is full
    sampled = "" if full else "sampled "
    assert _finding(exam, "eod").message == f"300 of 300 {sampled}documents end with EOD id 0 (guessed)"


@pytest.mark.parametrize("full", [True, False])
def test_documents_without_eod(tmp_path: Path, full: bool) -> None:
    """A published token set lacked every EOD: said in plain words, and the documents still come from the index."""
    prefix = write_set(tmp_path / "x", _texts(300, None))
    sampled = "" if full else "sampled "
    told = _finding(examine(prefix, eod=0, full=full), "no-eod")
    assert told.message == f"0 of 300 {sampled}documents end with EOD id 0: boundaries come from the .idx alone"
    guessed = examine(prefix, full=full)
    assert guessed.eod is not None and guessed.eod.eod is None and guessed.ok
    assert "no id ends most of 300" in _finding(guessed, "no-eod").message


def test_some_documents_without_eod(tmp_path: Path) -> None:
    documents = _texts(50, 0)
    documents[7][0][-1] = 5
    exam = examine(write_set(tmp_path / "x", documents), eod=0)
    found = _finding(exam, "no-eod")
    assert found.message.startswith("49 of 50 documents end with EOD id 0") and found.document == 7
    assert found.byte == 2 * sum(len(d[0]) for d in documents[:8]) - 2


def test_an_id_common_inside_is_not_taken_for_eod(tmp_path: Path) -> None:
    documents = [[[*([3, 8, 4, 9] * 5), 8]] for _ in range(50)]
    exam = examine(write_set(tmp_path / "x", documents))
    assert exam.eod is not None and exam.eod.eod is None


def test_eod_inside_documents(tmp_path: Path) -> None:
    documents = [[[1, 0]], [[2, 3, 0, 4, 0]], [[5, 0]]]
    found = _finding(examine(write_set(tmp_path / "x", documents), eod=0), "eod-inside")
    assert "1 times" in found.message and (found.document, found.byte) == (1, 8)


def test_eod_of_documents_with_several_sequences(tmp_path: Path) -> None:
    """The last token of a document is the last of its last sequence with tokens."""
    documents = [[[1], [2, 0], []], [], [[3, 0]], [[], [4], [5]], [[6, 7, 0], []]]
    exam = examine(write_set(tmp_path / "x", documents), eod=0)
    assert exam.eod is not None
    assert (exam.eod.num_documents, exam.eod.num_ending, exam.eod.num_inside) == (4, 3, 0)
    assert exam.eod.without == (3, 12) and exam.num_empty_documents == 1
    assert _finding(exam, "empty-documents").document == 1
    assert "3 sequences have no tokens" in _finding(exam, "empty-sequences").message


def test_ids_outside_the_vocabulary(tmp_path: Path) -> None:
    prefix = write_set(tmp_path / "x", [[[1, 2]], [[3, 50_300, 7]], [[50_301]]])
    exam = examine(prefix, vocab_size=50_257)
    found = _finding(exam, "outside-vocabulary")
    assert not exam.ok and found.message.startswith("2 ids") and (found.document, found.byte) == (1, 6)
    assert examine(prefix, vocab_size=50_302).ok


def test_negative_ids(tmp_path: Path) -> None:
    found = _finding(examine(write_set(tmp_path / "x", [[[1]], [[2, -100, -100]]], "int32")), "negative-id")
    assert found.message.startswith("2 ids are negative (least -100)") and (found.document, found.byte) == (1, 8)


@pytest.mark.parametrize(
    ("dtype", "max_id", "vocab_size", "code"),
    [
        ("int32", 65_499, None, "vocabulary-trap"),
        ("int32", 65_535, None, "vocabulary-trap"),
        ("int32", 5, 65_536, "vocabulary-trap"),
        ("int32", 5, 65_500, "vocabulary-trap"),
        ("int32", 5, 65_499, "wide-dtype"),
        ("int32", 65_498, None, "wide-dtype"),
        ("int32", 65_536, None, None),
        ("uint16", 65_535, 65_536, None),
    ],
)
def test_vocabularies_that_megatron_core_reads_as_uint16(
    tmp_path: Path, dtype: str, max_id: int, vocab_size: int | None, code: str | None
) -> None:
    exam = examine(write_set(tmp_path / "x", [[[max_id]]], dtype), vocab_size=vocab_size)
    assert {f.code for f in exam.findings} & {"vocabulary-trap", "wide-dtype"} == ({code} if code else set())


def test_cut_bin(tmp_path: Path) -> None:
    prefix = write_set(tmp_path / "x", _texts(100, 0))
    os.truncate(bin_of(prefix), bin_of(prefix).stat().st_size - 7)
    exam = examine(prefix)
    found = exam.findings[0]
    assert not exam.ok and found.code == "outside-bin" and found.severity is Severity.ERROR and found.document == 99
    assert exam.eod is not None and (exam.eod.num_documents, exam.eod.num_ending) == (99, 99)
    assert not examine(prefix, full=False).ok


def test_index_of_another_set(tmp_path: Path) -> None:
    prefix, other = write_set(tmp_path / "x", _texts(100, 0)), write_set(tmp_path / "y", _texts(90, 0, seed=1))
    idx_of(prefix).write_bytes(idx_of(other).read_bytes())
    exam = examine(prefix, eod=0)
    assert not exam.ok and "belongs to another .bin" in exam.findings[0].message
    assert _finding(exam, "eod-inside").severity is Severity.WARNING


def test_wrong_dtype_code(tmp_path: Path) -> None:
    prefix = write_set(tmp_path / "x", _texts(20, 0))
    data = idx_of(prefix).read_bytes()
    idx_of(prefix).write_bytes(data[:17] + b"\x04" + data[18:])
    exam = examine(prefix)
    assert not exam.ok and "have 2 bytes a token, the header says int32" in _finding(exam, "wrong-dtype").message


@pytest.mark.parametrize("data", [b"", b"garbage!!", b"TNTIDX\0\0", b"MMIDIDX\0\0"])
def test_an_index_that_cannot_be_read(tmp_path: Path, data: bytes) -> None:
    prefix = write_set(tmp_path / "x", [[[1]]])
    idx_of(prefix).write_bytes(data)
    exam = examine(prefix)
    assert not exam.ok and [f.code for f in exam.findings] == ["index"] and exam.format is None


def test_a_cut_index_says_what_can_be_saved(tmp_path: Path) -> None:
    prefix = write_set(tmp_path / "x", _texts(100, 0))
    os.truncate(idx_of(prefix), 34 + 4 * 60)
    exam = examine(prefix)
    assert not exam.ok and "`--repair` can read 60 documents" in _finding(exam, "repairable").message


def test_gaps_and_overlaps_by_place(tmp_path: Path) -> None:
    np.arange(10, dtype=np.uint16).tofile(tmp_path / "x.bin")
    (tmp_path / "x.idx").write_bytes(idx_bytes(8, [3, 2, 3], [14, 0, 2], [0, 1, 2, 3]))
    exam = examine(tmp_path / "x")
    gap, overlap = _finding(exam, "gap"), _finding(exam, "overlap")
    assert exam.ok and gap.message.startswith("6 bytes") and gap.byte == 8
    assert overlap.message.startswith("2 bytes") and overlap.byte == 2
    assert _finding(exam, "not-contiguous").document == 0


def test_unaligned_pointers(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"\x07\x01\x00\x02\x00")
    (tmp_path / "x.idx").write_bytes(idx_bytes(8, [1, 1], [1, 3], [0, 1, 2]))
    exam = examine(tmp_path / "x")
    assert _finding(exam, "unaligned").byte == 1
    with open_tokens(tmp_path / "x") as store:
        assert store.read_many([0, 1])[0].tolist() == [1, 2]


def test_notes(tmp_path: Path) -> None:
    merged = examine(write_set(tmp_path / "d", [[[1]], [[2]]], index=[0]))
    assert merged.ok and _finding(merged, "no-documents").severity is Severity.WARNING and merged.num_documents == 2
    assert _finding(examine(write_set(tmp_path / "m", [[[1], [2]]], "int32", modes=[0, 1])), "multimodal")
    assert "code 7" in _finding(examine(write_set(tmp_path / "f", [[[1]]], "float64")), "float").message
    np.array([1, 2], np.int32).tofile(tmp_path / "t.bin")
    (tmp_path / "t.idx").write_bytes(legacy_bytes(4, 4, [1, 1], [0, 1, 2]))
    assert examine(tmp_path / "t").format == "TNTIDX" and _finding(examine(tmp_path / "t"), "legacy")
    (tmp_path / ".t.bin.123.tmp").touch()
    assert ".t.bin.123.tmp" in _finding(examine(tmp_path / "t"), "stray-file").message


def test_an_empty_set_is_well(tmp_path: Path) -> None:
    exam = examine(write_set(tmp_path / "x", []), eod=0, vocab_size=100)
    assert exam.ok and (exam.num_documents, exam.num_tokens, exam.findings) == (0, 0, ())


def test_no_set_at_all(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        examine(tmp_path / "x")


class _Letters:
    """A tokenizer of single characters; `shift` makes another vocabulary of it."""

    def __init__(self, shift: int, size: int = 2000) -> None:
        self.shift, self.size = shift, size

    def encode(self, text: str) -> list[int]:
        return [ord(c) - self.shift for c in text.upper()] if self.shift == 7 else [ord(c) - self.shift for c in text]

    def decode(self, ids: Sequence[int]) -> str:
        if max(ids, default=0) >= self.size:
            raise KeyError(max(ids))
        return "".join(chr(i + self.shift) for i in ids)


def test_round_trip_tells_tokenizers_apart(tmp_path: Path) -> None:
    text = [[[ord(c) for c in f"document {k} in small letters"] + [0]] for k in range(30)]
    prefix = write_set(tmp_path / "x", text)
    candidates: dict[str, Any] = {"right": _Letters(0), "upper": _Letters(7), "small": _Letters(0, 50)}
    with open_tokens(prefix) as store:
        assert guess_tokenizer(store, candidates, eod=0) == {"right": 1.0, "small": 0.0, "upper": 0.0}
    assert examine(prefix, tokenizer=_Letters(0)).round_trip == 1.0
    assert _finding(examine(prefix, tokenizer=_Letters(0)), "tokenizer").severity is Severity.NOTE
    assert _finding(examine(prefix, tokenizer=_Letters(7)), "tokenizer").severity is Severity.WARNING


def _with_manifest(prefix: Path) -> Path:
    files = tuple(FileEntry.of(prefix.parent, file.name) for file in (bin_of(prefix), idx_of(prefix)))
    write_manifest(prefix.parent, Manifest("tokens", "build", 1, {}, (), files))
    return prefix


def test_a_flipped_bit_is_found_by_the_manifest(tmp_path: Path) -> None:
    prefix = _with_manifest(write_set(tmp_path / "a" / "text_document", _texts(20, 0)))
    pair = find_pair(prefix)
    assert verify(prefix) == fingerprint(pair) == promised_fingerprint(pair, read_manifest(prefix.parent))
    assert examine(prefix).ok and "every byte" in _finding(examine(prefix), "manifest").message
    data = bytearray(bin_of(prefix).read_bytes())
    data[11] ^= 4
    bin_of(prefix).write_bytes(data)
    open_tokens(prefix).close()
    with pytest.raises(FingerprintMismatch, match="its bytes changed"):
        verify(prefix)
    assert not examine(prefix).ok and _finding(examine(prefix), "changed").severity is Severity.ERROR
    assert examine(prefix, full=False).ok


def test_the_fingerprint_is_of_bytes_not_of_places(tmp_path: Path) -> None:
    documents = _texts(5, 0)
    here, there = write_set(tmp_path / "a" / "x", documents), write_set(tmp_path / "b" / "y", documents)
    other = write_set(tmp_path / "c" / "x", documents, index=[0])
    with open_tokens(here) as a, open_tokens(there) as b, open_tokens(other) as c:
        assert a.fingerprint() == b.fingerprint() != c.fingerprint()
        assert verify(here, b.fingerprint()) == a.fingerprint() and len(a.fingerprint()) == 32
    with pytest.raises(NotFound, match="holds no manifest"):
        verify(here)


def test_a_manifest_of_other_files(tmp_path: Path) -> None:
    _with_manifest(write_set(tmp_path / "a" / "text_document", [[[1]]]))
    stranger = write_set(tmp_path / "a" / "stranger", [[[1]]])
    with pytest.raises(NotFound, match=r"no hash of stranger\.idx"):
        verify(stranger)
    assert _finding(examine(stranger), "manifest").severity is Severity.WARNING
