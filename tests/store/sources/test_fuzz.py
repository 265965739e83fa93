"""Random damage to files of every format: never an error, never a lost row."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from typecase.store.sources.files import list_files
from typecase.store.sources.read import Reading, ids_of, read_file
from typecase.store.sources.rows import TOO_LONG, Rows

WORDS = 'the quick brown fox jumps over the lazy dog <b>ключ</b> 😀, "quoted" and\nsplit'.split(" ")  # noqa: SIM905


def texts(num: int) -> list[str]:
    rng = np.random.default_rng(3)
    return [" ".join(rng.choice(WORDS, 12)) for _ in range(num)]


def jsonl(num: int = 30) -> bytes:
    frame = pa.table({"text": texts(num), "n": range(num)})
    return b"".join(b'{"text":%s,"n":%d}\n' % (_json(t), n) for t, n in zip(*(c.to_pylist() for c in frame.columns)))


def _json(text: str) -> bytes:
    return b'"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").encode() + b'"'


def csv(num: int = 30) -> bytes:
    return b"text,n\n" + b"".join(b'"%s",%d\n' % (t.replace('"', '""').encode(), n) for n, t in enumerate(texts(num)))


def parquet(num: int = 30, **options: object) -> bytes:
    sink = io.BytesIO()
    frame = pa.table(
        {"text": texts(num), "n": range(num), "t": pa.array(range(num), pa.timestamp("us")), "l": [[1, None]] * num}
    )
    pq.write_table(frame, sink, row_group_size=10, **options)
    return sink.getvalue()


def warc(num: int = 12) -> bytes:
    records = []
    for n, text in enumerate(texts(num)):
        body = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(text.encode())
        records.append(
            b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://e.org/%d\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n"
            % (n, len(body), body)
        )
    return b"".join(records)


def zst(data: bytes) -> bytes:
    return bytes(pa.Codec("zstd").compress(data, asbytes=True))


SEEDS = {
    "x.jsonl": jsonl(),
    "x.jsonl.gz": gzip.compress(jsonl()),
    "x.jsonl.zst": zst(jsonl(15)) + zst(jsonl(15)),
    "x.csv": csv(),
    "x.tsv.gz": gzip.compress(csv().replace(b",", b"\t")),
    "snappy.parquet": parquet(),
    "plain.parquet": parquet(compression="none", use_dictionary=False),
    "x.parquet.zst": zst(parquet(compression="zstd")),
    "x.txt": texts(1)[0].encode(),
    "x.html": b"<html><meta charset=utf-8><body><div>" + "<p>".join(texts(9)).encode() + b"</div></body></html>",
    "x.warc": warc(),
    "x.warc.gz": b"".join(gzip.compress(part + b"\r\n\r\n") for part in warc().split(b"\r\n\r\n")),
}

mutation = st.tuples(
    st.sampled_from(["flip", "cut", "drop", "insert", "repeat", "zero"]), st.floats(0, 1, exclude_max=True), st.integers(0, 255)
)


def mutated(data: bytes, kind: str, at: float, value: int) -> bytes:
    place = int(at * len(data))
    stop = place + 1 + value % 40
    match kind:
        case "flip":
            return data[:place] + bytes([data[place] ^ (value or 1)]) + data[place + 1 :] if data else data
        case "cut":
            return data[:place]
        case "drop":
            return data[:place] + data[stop:]
        case "insert":
            return data[:place] + bytes([value]) * (1 + value % 7) + data[place:]
        case "repeat":
            return data[:stop] + data[place:]
        case _:
            return data[:place] + b"\0" * (stop - place) + data[stop:]


def read(path: Path, limit_bytes: int) -> list[Rows]:
    (file,) = list_files([str(path)])
    blocks = list(read_file(file, Reading(limit_bytes=limit_bytes)))
    seen: list[int] = []
    for rows in blocks:
        rows.text.validate(full=True)
        rows.meta.validate(full=True)
        assert len(rows) == len(rows.text) == len(rows.meta) == len(rows.rows) == len(rows.offsets)
        assert all(len(doc_id) == 32 for doc_id in ids_of(rows, file.name))
        seen += [*rows.rows.tolist(), *(fault.row for fault in rows.faults), *(skipped.row for skipped in rows.skipped)]
    assert len(seen) == len(set(seen))
    assert not blocks or blocks[-1].next_row > max(seen, default=-1)
    return blocks


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    name=st.sampled_from(sorted(SEEDS)),
    mutations=st.lists(mutation, min_size=1, max_size=4),
    limit=st.sampled_from([60, 1 << 20]),
)
def test_damage_never_stops_a_reader(
    tmp_path_factory: pytest.TempPathFactory, name: str, mutations: list[tuple[str, float, int]], limit: int
) -> None:
    data = SEEDS[name]
    for change in mutations:
        data = mutated(data, *change)
    path = tmp_path_factory.mktemp("f") / name
    path.write_bytes(data)
    blocks = read(path, limit)
    rows = sum(len(block) + len(block.faults) + len(block.skipped) for block in blocks)
    if name == "x.jsonl":
        lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        assert rows == sum(1 for line in lines if line.strip() or len(line) > limit)
    if name in ("x.txt", "x.html"):
        assert rows == 1


@pytest.mark.parametrize("name", sorted(SEEDS))
def test_the_seeds_are_whole(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(SEEDS[name])
    blocks = read(path, 1 << 20)
    assert not [fault for block in blocks for fault in block.faults if fault.reason != TOO_LONG]
    assert sum(map(len, blocks)) == {"x.txt": 1, "x.html": 1}.get(name, 12 if "warc" in name else 30)
