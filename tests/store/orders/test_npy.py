"""Array files: what numpy writes is read and written bit for bit; anything else is refused by name, and nothing crashes."""

from __future__ import annotations

import io
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from typecase.errors import AlreadyExists, BadQuery, CorruptStore, NotFound
from typecase.store.orders.npy import keep_or_write, open_npy, write_npy

NUMBERS = arrays(
    st.sampled_from([np.int32, np.int64, np.uint32, np.uint8, np.int16]),
    array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=9),
)
SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)


def _saved(array: np.ndarray, *, allow_pickle: bool = False) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=allow_pickle)
    return file.getvalue()


def _file(folder: Path, data: bytes) -> Path:
    (folder / "a.npy").write_bytes(data)
    return folder / "a.npy"


@SHARED
@given(array=NUMBERS)
def test_written_and_read_as_numpy_does(tmp_path: Path, array: np.ndarray) -> None:
    write_npy(tmp_path / "a.npy", array, sync=False)
    assert (tmp_path / "a.npy").read_bytes() == _saved(array)
    found = open_npy(tmp_path / "a.npy", ndim=array.ndim)
    assert found.dtype == array.dtype and found.shape == array.shape and np.array_equal(found, array)
    assert found.size == 0 or not found.flags.writeable


def test_arrays_of_any_layout_are_written_in_c_order(tmp_path: Path) -> None:
    wanted = np.arange(12, dtype=np.int32).reshape(6, 2)
    for array in (np.asfortranarray(wanted), wanted.astype(">i4"), np.repeat(wanted, 2, axis=0)[::2]):
        write_npy(tmp_path / "a.npy", array)
        assert (tmp_path / "a.npy").read_bytes() == _saved(wanted)
    with pytest.raises(BadQuery, match="made of numbers"):
        write_npy(tmp_path / "b.npy", np.array([None]))


class _Bomb:
    def __reduce__(self) -> tuple[object, ...]:
        return pytest.fail, ("unpickled",)


ROWS = np.arange(8, dtype=np.int32).reshape(4, 2)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"PK\x03\x04 something", "no .npy file"),
        (pickle.dumps(_Bomb()), "no .npy file"),
        (_saved(np.array([_Bomb()], dtype=object), allow_pickle=True), "pickled objects"),
        (_saved(ROWS)[:-1], "cut at byte 159 of 160"),
        (_saved(ROWS)[:60], "within its header"),
        (_saved(ROWS)[:9], "header of unknown version"),
        (_saved(ROWS) + b"x", "1 bytes longer than its header says"),
        (_saved(ROWS.ravel()), "not of 2 dimensions, the last of 2"),
        (_saved(ROWS.reshape(2, 4)), "not of 2 dimensions, the last of 2"),
        (_saved(ROWS.astype(np.float32)), "not the numbers"),
        (_saved(ROWS.astype("U3")), "not the numbers"),
        (_saved(ROWS.astype(bool)), "not the numbers"),
        (_saved(ROWS.astype(">i4")), "big-endian"),
        (_saved(np.asfortranarray(ROWS)), "Fortran order"),
        (_saved(np.zeros((4, 2), [("a", "<i4")])), "not plain numbers"),
        (_saved(ROWS).replace(b"(4, 2)", b"(-4,2)"), "impossible shape"),
        (_saved(ROWS).replace(b"(4, 2)", b"(4,1j)"), "impossible shape"),
        (_saved(ROWS).replace(b"False", b"print"), "damaged .npy header"),
        (_saved(ROWS).replace(b"False", b"12345"), "damaged .npy header"),
        (_saved(ROWS).replace(b"'descr'", b"'discr'"), "damaged .npy header"),
    ],
)
def test_what_is_no_array_of_an_order_is_refused_by_name(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(CorruptStore, match=message):
        open_npy(_file(tmp_path, data), ndim=2, columns=2)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no file"):
        open_npy(tmp_path / "a.npy", ndim=1)
    with pytest.raises(NotFound):
        open_npy(tmp_path, ndim=1)


@SHARED
@given(data=st.data())
def test_cuts_and_flipped_bits_never_crash(tmp_path: Path, data: st.DataObject) -> None:
    whole = _saved(data.draw(NUMBERS))
    cut = data.draw(st.integers(0, len(whole)))
    head = min(len(whole), 128)
    mutant = bytearray(whole if data.draw(st.booleans()) else whole[:cut])
    for bit in data.draw(st.lists(st.integers(0, head * 8 - 1), max_size=3)):
        if bit >> 3 < len(mutant):
            mutant[bit >> 3] ^= 1 << (bit & 7)
    try:
        found = open_npy(_file(tmp_path, bytes(mutant)), ndim=data.draw(st.integers(1, 2)))
    except CorruptStore:
        return
    assert found.nbytes < len(mutant) and found.dtype.kind in "iu"
    assert int(found.sum(dtype=np.float64)) is not None


@SHARED
@given(header=st.binary(max_size=200) | st.text("{}()[]'\":,0123456789descr<i4fotanhpeFTlsu _-", max_size=200).map(str.encode))
def test_headers_of_anything_never_crash(tmp_path: Path, header: bytes) -> None:
    for version, width in ((1, 2), (2, 4), (3, 4)):
        data = b"\x93NUMPY" + bytes([version, 0]) + len(header).to_bytes(width, "little") + header
        with pytest.raises(CorruptStore):
            open_npy(_file(tmp_path, data), ndim=1)


@pytest.mark.parametrize("depth", [100, 5_000, 60_000])
def test_a_nested_header_does_not_exhaust_the_parser(tmp_path: Path, depth: int) -> None:
    header = b"(" * depth
    with pytest.raises(CorruptStore):
        open_npy(_file(tmp_path, b"\x93NUMPY\x02\x00" + len(header).to_bytes(4, "little") + header), ndim=1)


def test_a_file_is_kept_or_refused_or_replaced(tmp_path: Path) -> None:
    a, b = tmp_path / "a.npy", tmp_path / "b.npy"
    keep_or_write({a: ROWS}, replace=False)
    before = a.stat().st_mtime_ns, a.stat().st_ino
    keep_or_write({a: ROWS}, replace=False)
    assert (a.stat().st_mtime_ns, a.stat().st_ino) == before
    for other in (ROWS + 1, ROWS[:3], ROWS.astype(np.int64), ROWS.ravel()):
        with pytest.raises(AlreadyExists, match="holds another order"):
            keep_or_write({b: ROWS, a: other}, replace=False)
        assert not b.exists()
    keep_or_write({a: ROWS + 1}, replace=True)
    assert np.array_equal(open_npy(a, ndim=2), ROWS + 1)
