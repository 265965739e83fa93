"""Analysing ratings: 10 million synthetic rows of 14 criteria, 50 sources, 15 domains; time and peak memory of one pass.

    python benchmarks/bench_analyse.py --quick       half a million rows

The peer reads the 14 columns into memory whole and asks numpy for the same correlations alone; it has neither groups nor
curves nor examples. Memory is the peak of a process of its own, the libraries in it included.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from measure import Record, cost, options, report

from typecase.core.balance import Balance
from typecase.lm.rate.rubric import load_rubric
from typecase.recipe.rate import ratings_schema
from typecase.store.documents import DOC_SCHEMA
from typecase.store.manifest import FileEntry, Manifest, parent_of, write_manifest
from typecase.store.shards import part_name, write_shard

_PART_ROWS = 500_000
_SOURCES, _DOMAINS = 50, 15


def make(folder: Path, rows: int) -> None:
    """A docs artifact without text and the ratings of it, `rows` rows in parts of half a million."""
    rubric = load_rubric("dataman")
    rng = np.random.default_rng(1)
    made: dict[str, list[FileEntry]] = {"docs": [], "ratings": []}
    for part, start in enumerate(range(0, rows, _PART_ROWS)):
        n = min(_PART_ROWS, rows - start)
        for name, table in (("docs", _docs(rng, start, n)), ("ratings", _ratings(rng, start, n))):
            schema = DOC_SCHEMA if name == "docs" else ratings_schema(rubric)
            write_shard(folder / name / part_name(part), [table.cast(schema)], schema)
            made[name].append(FileEntry.of(folder / name, part_name(part), rows=n))
    for name, kind in (("docs", "docs"), ("ratings", "ratings")):
        parents = (parent_of("docs", folder / "docs", child=folder / "ratings"),) if name == "ratings" else ()
        stage = "ingest" if name == "docs" else "rate"
        write_manifest(folder / name, Manifest(kind, stage, 1, {}, parents, tuple(made[name]), Balance(rows, rows)))


def _ids(start: int, n: int) -> pa.Array:
    return pa.array([f"{i << 96:032x}" for i in range(start, start + n)])


def _docs(rng: np.random.Generator, start: int, n: int) -> pa.Table:
    source = pa.array([f"source {i:02}" for i in range(_SOURCES)]).take(pa.array(rng.integers(0, _SOURCES, n)))
    nothing = pa.array(np.zeros(n, np.int64))
    text, meta = pa.array(["text"]).take(nothing), pa.array(["{}"]).take(nothing)
    columns = [_ids(start, n), text, source, source, nothing, nothing, meta]
    return pa.table(columns, names=DOC_SCHEMA.names)


def _ratings(rng: np.random.Generator, start: int, n: int) -> pa.Table:
    rubric = load_rubric("dataman")
    quality = rng.normal(3.4, 0.8, n)
    scores = {name: np.clip(quality + rng.normal(0, 0.7, n), 1, 5).astype(np.float32) for name in rubric.columns}
    missing = rng.random(n) < 0.01
    domain = pa.array(rubric.labels).take(pa.array(rng.integers(0, _DOMAINS, n)))
    columns = [_ids(start, n), *(pa.array(values, mask=missing) for values in scores.values()), domain]
    trust = pa.array(rng.random(n, np.float32))
    status = pa.array(["ok", "rater_failed"]).take(pa.array(missing.astype(np.int64)))
    columns += [trust, trust, status, pa.array(rng.lognormal(7, 1, n).astype(np.int64) + 1)]
    return pa.table(columns, names=ratings_schema(rubric).names)


def ours(folder: Path) -> None:
    from typecase.app.analyse.analysing import analyse

    found = analyse([folder / "ratings"])
    assert found.sets[0].without_source == 0 and len(found.sets[0].sources) == _SOURCES and found.examples


def peer(folder: Path) -> None:
    names = list(load_rubric("dataman").columns)
    parts = sorted((folder / "ratings").glob("*.parquet"))
    table = pa.concat_tables([pq.read_table(part, columns=names) for part in parts])
    scores = np.column_stack([table.column(name).to_numpy() for name in names]).astype(np.float64)
    whole = scores[~np.isnan(scores).any(axis=1)]
    np.corrcoef(whole, rowvar=False)


def timed(what: str, folder: Path) -> tuple[float, float]:
    """Seconds of one run, and the peak memory in MB of the process that made it."""
    done = subprocess.run([sys.executable, __file__, f"--child={what}", f"--folder={folder}"], check=True, capture_output=True)
    seconds, kilobytes = done.stdout.split()
    return float(seconds), float(kilobytes) / 1000


def main() -> None:
    args = options(__doc__, child="", folder="", rows="10000000")
    if args.child:
        begin = time.perf_counter()
        {"ours": ours, "peer": peer}[args.child](Path(args.folder))
        print(time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        return
    rows = 500_000 if args.quick else int(args.rows)
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), rows)
        (our_time, our_peak), (peer_time, peer_peak) = (timed(what, Path(folder)) for what in ("ours", "peer"))
    million = rows / 1e6
    records: list[Record] = [
        cost(f"all analyses of {million:g}M rows", our_time, peer_time, "s"),
        cost(f"peak memory, {million:g}M rows", our_peak, peer_peak, "MB"),
    ]
    report(records, as_json=args.json, notes=["the peer makes the correlation matrix alone"])


if __name__ == "__main__":
    main()
