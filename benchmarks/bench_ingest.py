"""ingest against pyarrow's own readers, and against datatrove's reader and writer; everything on one core.

    python benchmarks/bench_ingest.py [--quick] [--json]

Ours is the whole stage: hash, read, parse, id, spill, sort, write zstd Parquet, check. A peer that reads and writes does
neither ids, order, duplicates nor quarantine; "alone" is its reader without any writing, in the same kind of process.

JSONL     pyarrow.json.read_json (+ parquet.write_table, zstd 3)     datatrove JsonlReader -> ParquetWriter
CSV       pyarrow.csv.read_csv + parquet.write_table
Parquet   parquet.read_table + parquet.write_table
HTML      resiliparse's extraction alone, over pages in memory
"""

from __future__ import annotations

import csv
import io
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.json as pj
import pyarrow.parquet as pq
from corpus import texts
from measure import Record, best_of, options, rate, report, seconds
from resiliparse.extract.html2text import extract_plain_text

from typecase.recipe.ingest import Ingest
from typecase.recipe.run import run_stage
from typecase.store.documents import open_documents


def documents(size_bytes: int) -> list[str]:
    """Files cut into pieces of about 3 kB, as web documents are."""
    lengths = np.random.default_rng(1).lognormal(7.8, 0.8, 1 << 20).clip(200, 20_000).astype(int).tolist()
    cut, pieces = iter(lengths), []
    for text in texts(size_bytes):
        start = 0
        while start < len(text):
            stop = start + next(cut)
            pieces.append(text[start:stop])
            start = stop
    return pieces


def write_inputs(folder: Path, pieces: list[str]) -> None:
    with (folder / "x.jsonl").open("wb") as file:
        for i, text in enumerate(pieces):
            row = {"id": f"doc-{i}", "text": text, "url": f"https://example.org/{i}", "lang": "en", "score": i % 997 / 997}
            file.write(orjson.dumps(row) + b"\n")
    packed = pa.CompressedOutputStream(str(folder / "x.jsonl.zst"), "zstd")
    packed.write((folder / "x.jsonl").read_bytes())
    packed.close()
    rows = io.StringIO(newline="")
    csv.writer(rows).writerows([("id", "text", "lang"), *((i, text, "en") for i, text in enumerate(pieces))])
    (folder / "x.csv").write_text(rows.getvalue(), newline="")
    table = pa.table({"id": range(len(pieces)), "text": pa.array(pieces, pa.large_string()), "lang": ["en"] * len(pieces)})
    pq.write_table(table, folder / "x.parquet", compression="zstd", row_group_size=20_000)
    (folder / "html").mkdir()
    for i, page in enumerate(pages(pieces)):
        (folder / "html" / f"{i}.html").write_text(page, newline="")


def pages(pieces: list[str]) -> list[str]:
    return [
        "<html><head><meta charset=utf-8><title>t</title></head><body><nav><a href=/>home</a></nav><p>"
        + piece.replace("&", "&amp;").replace("<", "&lt;").replace("\n\n", "</p><p>")
        + "</p></body></html>"
        for piece in pieces[: len(pieces) // 10]
    ]


class Bench:
    """One folder of inputs; `cpu` holds the shortest processor time of our runs by name."""

    def __init__(self, folder: Path, rounds: int) -> None:
        self.folder, self.rounds = folder, rounds
        self.cpu: dict[str, float] = {}

    def ours(self, name: str, **parameters: str) -> Callable[[], None]:
        def run() -> None:
            out = self.folder / "out"
            shutil.rmtree(out, ignore_errors=True)
            begin = time.process_time()
            run_stage(Ingest(inputs=(str(self.folder / name),), **parameters), {}, out)  # type: ignore[arg-type]
            self.cpu[name] = min(self.cpu.get(name, 1e9), time.process_time() - begin)

        return run

    def write(self, table: pa.Table) -> None:
        pq.write_table(table, self.folder / "peer.parquet", compression="zstd", compression_level=3)

    def record(self, title: str, name: str, amount: float, peer: Callable[[], object], **parameters: str) -> Record:
        mine, theirs = best_of([self.ours(name, **parameters), peer], self.rounds)
        return rate(title, amount, mine, theirs, "MB/s")


def read_json(path: Path) -> pa.Table:
    return pj.read_json(path, pj.ReadOptions(use_threads=False, block_size=8 << 20))


def read_csv(path: Path) -> pa.Table:
    return pc.read_csv(path, pc.ReadOptions(use_threads=False, block_size=8 << 20), pc.ParseOptions(newlines_in_values=True))


def read_parquet(path: Path) -> pa.Table:
    return pq.read_table(path, use_threads=False)


def datatrove_seconds(source: Path, folder: Path) -> float:
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.writers import ParquetWriter

    (folder / "in").mkdir()
    (folder / "in" / source.name).symlink_to(source)
    pipeline = [JsonlReader(str(folder / "in")), ParquetWriter(str(folder / "trove"), compression="zstd")]
    return seconds(LocalPipelineExecutor(pipeline=pipeline, tasks=1, workers=1, logging_dir=str(folder / "logs")).run)


def main() -> None:
    chosen = options(__doc__)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    folder = Path(tempfile.mkdtemp(prefix="bench-ingest-"))
    notes = []
    try:
        pieces = documents(24_000_000 if chosen.quick else 200_000_000)
        write_inputs(folder, pieces)
        text = sum(len(p.encode()) for p in pieces) / 1e6
        html = pages(pieces)
        html_amount = sum(len(p.encode()) for p in html) / 1e6
        bench = Bench(folder, 2 if chosen.quick else 3)
        bench.ours("x.jsonl")()  # compiles what is not cached yet
        assert len(open_documents(folder / "out")) == len(pieces)
        jsonl, packed, csv_path, parquet = (folder / f"x.{e}" for e in ("jsonl", "jsonl.zst", "csv", "parquet"))
        mine, theirs = f"{text:,.0f} MB of text", "against pyarrow read + write"

        def rewritten(read: Callable[[Path], pa.Table], path: Path) -> Callable[[], None]:
            return lambda: bench.write(read(path))

        records = [
            bench.record(f"jsonl, {mine}, {theirs}", "x.jsonl", text, rewritten(read_json, jsonl)),
            bench.record(f"jsonl with ids, {theirs}", "x.jsonl", text, rewritten(read_json, jsonl), id_key="id"),
            bench.record("jsonl with ids, against its reader alone", "x.jsonl", text, lambda: read_json(jsonl), id_key="id"),
            bench.record(f"jsonl.zst, {theirs}", "x.jsonl.zst", text, rewritten(read_json, packed)),
            bench.record(f"csv, {theirs}", "x.csv", text, rewritten(read_csv, csv_path)),
            bench.record(f"parquet, {theirs}", "x.parquet", text, rewritten(read_parquet, parquet)),
            bench.record(
                f"html, {html_amount:,.0f} MB in {len(html):,} files, against extraction alone",
                "html", html_amount, lambda: [extract_plain_text(page, main_content=False) for page in html],
            ),
        ]  # fmt: skip
        try:
            peer = datatrove_seconds(jsonl, folder)
            records.append(
                rate(
                    "jsonl, against datatrove JsonlReader -> ParquetWriter", text, seconds(bench.ours("x.jsonl")), peer, "MB/s"
                )
            )
        except ImportError as error:
            notes.append(f"datatrove was not measured: {error}")
        for name, best in bench.cpu.items():
            amount = html_amount if name == "html" else text
            notes.append(f"{name}: {amount / best:,.0f} MB/s of processor time")
        report(records, as_json=chosen.json, notes=notes)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
