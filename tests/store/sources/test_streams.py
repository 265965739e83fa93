"""Streams: every byte that can be decompressed, and the reason for the end."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from typecase.store.sources import streams
from typecase.store.sources.rows import DAMAGED, TRUNCATED, UNREADABLE
from typecase.store.sources.streams import Stream, compression_of

TEXT = b"".join(b'{"text": "line %d of a file", "n": %d}\n' % (i, i * i % 977) for i in range(60_000))


def zst(data: bytes) -> bytes:
    return bytes(pa.Codec("zstd").compress(data, asbytes=True))


def read(path: Path, data: bytes | None = None, *, start: int = 0) -> tuple[bytes, tuple[str, str] | None]:
    if data is not None:
        path.write_bytes(data)
    with Stream(str(path), start=start) as stream:
        chunks = list(iter(stream.read, b""))
        assert stream.read() == b""
        return b"".join(chunks), stream.cut


PACKED = {
    "x": TEXT,
    "x.gz": gzip.compress(TEXT[:100_000]) + gzip.compress(b"") + gzip.compress(TEXT[100_000:]),
    "x.zst": b"".join(zst(TEXT[i : i + 300_000]) for i in range(0, len(TEXT), 300_000)),
}


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize("start", [0, 1, 777_777, len(TEXT), len(TEXT) + 5])
def test_the_whole_and_from_any_place(tmp_path: Path, name: str, start: int) -> None:
    assert read(tmp_path / name, PACKED[name], start=start) == (TEXT[start:], None)


@pytest.mark.parametrize("name", ["x.gz", "x.zst"])
def test_magic_bytes_stand_in_for_the_extension(tmp_path: Path, name: str) -> None:
    path = tmp_path / "nameless"
    path.write_bytes(PACKED[name])
    assert compression_of(str(path)) == {"x.gz": "gzip", "x.zst": "zstd"}[name]
    assert read(path) == (TEXT, None)


@pytest.mark.parametrize("name", ["x.gz", "x.zst"])
@pytest.mark.parametrize("share", [0, 0.0001, 0.3, 0.62, 0.9999])
def test_a_cut_file_gives_all_before_the_cut(tmp_path: Path, name: str, share: float) -> None:
    packed = PACKED[name]
    out, cut = read(tmp_path / name, packed[: int(len(packed) * share)])
    assert cut is not None and cut[0] == TRUNCATED
    assert TEXT.startswith(out)
    assert len(out) >= len(TEXT) * share * 0.7 - 150_000  # no whole chunk is lost


def test_a_cut_gzip_gives_what_zlib_gives(tmp_path: Path) -> None:
    packed = gzip.compress(TEXT)[:-4000]
    expected = zlib.decompressobj(31).decompress(packed)
    assert read(tmp_path / "x.gz", packed)[0] == expected


def test_a_cut_between_zstd_frames_is_no_cut(tmp_path: Path) -> None:
    assert read(tmp_path / "x.zst", zst(TEXT[:1000]) + zst(TEXT[1000:5000])) == (TEXT[:5000], None)


def test_zeros_after_gzip_are_padding_and_anything_else_is_damage(tmp_path: Path) -> None:
    assert read(tmp_path / "x.gz", gzip.compress(b"abc") + b"\0" * 1000) == (b"abc", None)
    out, cut = read(tmp_path / "x.gz", gzip.compress(b"abc") + b"rubbish")
    assert out == b"abc" and cut is not None and cut[0] == DAMAGED
    out, cut = read(tmp_path / "x.zst", zst(b"abc") + b"rubbish")
    assert out == b"abc" and cut is not None and cut[0] == DAMAGED


def test_skippable_zstd_frames_are_passed_over(tmp_path: Path) -> None:
    skip = b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"
    assert read(tmp_path / "x.zst", skip + zst(b"abc") + skip + zst(b"def")) == (b"abcdef", None)


@pytest.mark.parametrize("name", ["x.gz", "x.zst"])
def test_a_wrong_name_is_damage_not_a_crash(tmp_path: Path, name: str) -> None:
    out, cut = read(tmp_path / name, b"this is plain text\n")
    assert out == b"" and cut is not None and cut[0] == DAMAGED


@pytest.mark.parametrize("name", ["x", "x.gz", "x.zst"])
def test_what_cannot_be_opened_is_unreadable(tmp_path: Path, name: str) -> None:
    out, cut = read(tmp_path / "absent" / name)
    assert out == b"" and cut is not None and cut[0] == UNREADABLE


@pytest.mark.parametrize("name", ["x", "x.gz"])
def test_what_may_not_be_read_is_unreadable(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, *args: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied", path)

    (tmp_path / name).write_bytes(PACKED[name])
    monkeypatch.setattr(streams, "open", refuse, raising=False)
    assert read(tmp_path / name) == (b"", (UNREADABLE, "Permission denied"))


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 3000), min_size=1, max_size=4),
    at=st.floats(0, 1, exclude_max=True),
    change=st.one_of(st.none(), st.integers(1, 255)),
    kind=st.sampled_from(["gz", "zst"]),
)
def test_any_change_ends_well(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], at: float, change: int | None, kind: str
) -> None:
    """Cut or flip one byte: never an error, and before a change in a gzip everything is right."""
    pack = gzip.compress if kind == "gz" else zst
    parts = [TEXT[:size] for size in sizes]
    packed = bytearray(b"".join(pack(part) for part in parts))
    place = int(at * len(packed))
    if change is None:
        del packed[place:]
    else:
        packed[place] ^= change
    out, cut = read(tmp_path_factory.mktemp("s") / f"x.{kind}", bytes(packed))
    if change is None:
        assert b"".join(parts).startswith(out)
        assert cut is not None or out in [b"".join(parts[:k]) for k in range(len(parts) + 1)]
    elif kind == "gz":
        assert cut is not None or out == b"".join(parts) or place < 10 or len(out) < len(b"".join(parts))
