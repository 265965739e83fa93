"""Near duplicates end to end: real text with planted pairs and boilerplate traps, from a folder of documents to one without.

    python benchmarks/bench_dedup.py [--quick] [--json] [--megabytes 1000] [--peers FOLDER]

The text is that of `corpus`, and in it, of real text too:

    pairs above   a text of two halves that stand nowhere together, and a version with words replaced; Jaccard similarity of
                  5-word shingles 0.8 or more by exact count, most of them close to it
    pairs below   the same with more words replaced: 0.5 to 0.78
    traps         300 texts under one licence of 600 words, each with a body of 60 words of its own

Recall is the share of pairs above of which one went; a false pair one below of which one went; a false trap a trap that went.
Peers read the same folder, make the same shingles in Python as their users do, and write what is left:

    rensa         RMinHash, 128 permutations, RMinHashLSH with 16 bands of 8; all cores
    datasketch    MinHash and MinHashLSH(0.8), 128 permutations; over an eighth of the text alone, its rate is that of the part
    gaoya         MinHashStringIndex, its own word n-grams, 128 hashes; all cores

Every run is a process of its own; imports are not counted. `--peers` is a folder of `pip install --target`; a library that
is not there is left out. typecase works in one process.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from corpus import texts
from measure import Record, cost, options, rate, report

from typecase.core.minhash.keepers import jaccard
from typecase.core.minhash.sketch import SHINGLE, shingles_of
from typecase.recipe.dedup import Dedup
from typecase.recipe.ingest import Ingest
from typecase.recipe.run import run_stage
from typecase.store.documents import open_documents

THRESHOLD = 0.8
PAIRS, TRAPS = 300, 300
PEERS = ("rensa", "gaoya", "datasketch")
SHARE = {"datasketch": 8}
BATCH = 2_000
_WORD = re.compile(r"\w+")


def similarity(a: str, b: str) -> float:
    return jaccard(np.unique(shingles_of(a)), np.unique(shingles_of(b)))


def spliced(rng: np.random.Generator, pool: Sequence[str]) -> str:
    """The beginning of one text and the end of another, like neither."""
    while True:
        one, other = (pool[k] for k in rng.integers(0, len(pool), 2))
        made = one[: len(one) // 2] + "\n" + other[len(other) // 2 :]
        if max(similarity(made, one), similarity(made, other)) < 0.6:
            return made


def bodies(rng: np.random.Generator, pool: Sequence[str]) -> Iterator[str]:
    """Stretches of 60 words of which no two share more than a few shingles."""
    seen: set[int] = set()
    while True:
        found = pool[int(rng.integers(len(pool)))].split()
        start = int(rng.integers(max(1, len(found) - 60)))
        body = " ".join(found[start : start + 60])
        mine = set(shingles_of(body).tolist())
        if len(mine) >= 50 and len(mine & seen) <= 5:
            seen |= mine
            yield body


def edited(rng: np.random.Generator, text: str, similarity_wanted: float) -> str:
    """`text` with words replaced, one in so many that about that similarity is left: each spoils SHINGLE shingles."""
    kept = 2 * similarity_wanted / (1 + similarity_wanted)
    rate_of = 1 - kept ** (1 / SHINGLE)

    def one(match: re.Match[str]) -> str:
        return f"q{rng.integers(1 << 40):x}" if rng.random() < rate_of else match.group()

    return _WORD.sub(one, text)


def planted(pool: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Names and texts: above-12-a and -b, below-7-a and -b, trap-3."""
    rng = np.random.default_rng(11)
    pool = [text for text in pool if 3_000 <= len(text) <= 30_000]
    seen: set[int] = set()
    for kind, low, high in (("above", 0.8, 0.97), ("below", 0.5, 0.76)):
        made = 0
        while made < PAIRS:
            first = spliced(rng, pool)
            mine = set(shingles_of(first).tolist())
            if len(mine & seen) > len(mine) // 4:  # halves of other pairs
                continue
            seen |= mine
            second = edited(rng, first, float(rng.uniform(low, high)))
            found = similarity(first, second)
            if (found >= THRESHOLD) if kind == "above" else (found < THRESHOLD - 0.02):
                yield f"{kind}-{made}-a", first
                yield f"{kind}-{made}-b", second
                made += 1
    words = " ".join(spliced(rng, pool) for _ in range(4)).split()[:600]
    for k, body in zip(range(TRAPS), bodies(rng, pool), strict=False):
        yield f"trap-{k}", " ".join(words) + "\n\n" + body


def write_corpus(folder: Path, size_bytes: int, *, with_planted: bool = True) -> int:
    """Documents in `folder`/docs; returns bytes of text."""
    pool = texts(size_bytes)
    rows = [(f"real-{k}", text) for k, text in enumerate(pool)] + (list(planted(pool)) if with_planted else [])
    order = np.random.default_rng(5).permutation(len(rows))
    with (folder / "corpus.jsonl").open("wb") as file:
        for k in order:
            file.write(orjson.dumps({"id": rows[k][0], "text": rows[k][1]}) + b"\n")
    made = run_stage(Ingest(inputs=(str(folder / "corpus.jsonl"),), id_key="id"), {}, folder / "docs")
    return int(made.manifest.counts["text_bytes"])


def names_of(folder: Path) -> dict[str, str]:
    """doc_id -> the name it was planted under."""
    out: dict[str, str] = {}
    for part in open_documents(folder).parts:
        table = pq.read_table(part, columns=["doc_id", "row"])
        out |= dict(zip(table.column("doc_id").to_pylist(), table.column("row").to_pylist(), strict=True))
    with (folder.parent / "corpus.jsonl").open("rb") as file:
        names = [orjson.loads(line)["id"] for line in file]
    return {doc_id: names[row] for doc_id, row in out.items()}


def by_typecase(docs: Path, out: Path) -> set[str]:
    made = run_stage(Dedup(near=THRESHOLD), {"docs": docs}, out)
    parts = open_documents(made.folder).side_parts("removed")
    return {doc_id for part in parts for doc_id in pq.read_table(part).column("doc_id").to_pylist()}


def shingles(text: str) -> list[str]:
    words = _WORD.findall(text.lower())
    return [" ".join(words[k : k + SHINGLE]) for k in range(len(words) - SHINGLE + 1)]


def flags_of_rensa(found: Sequence[str]) -> list[bool]:
    import rensa

    lsh = rensa.RMinHashLSH(THRESHOLD, 128, 16)
    flags: list[bool] = []
    for start in range(0, len(found), BATCH):  # shingles of all texts at once would take ten times the memory
        sets = [shingles(text) for text in found[start : start + BATCH]]
        matrix = rensa.RMinHash.digest_matrix_from_token_sets(sets, 128, 42)
        flags += lsh.insert_matrix_and_query_duplicate_flags(matrix, start)
    return flags


def flags_of_datasketch(found: Sequence[str]) -> list[bool]:
    from datasketch import MinHash, MinHashLSH

    lsh, flags = MinHashLSH(threshold=THRESHOLD, num_perm=128), []
    for k, text in enumerate(found):
        sketch = MinHash(num_perm=128)
        sketch.update_batch([s.encode() for s in set(shingles(text))])
        flags.append(any(sketch.jaccard(other) >= THRESHOLD for _, other in held_by(lsh, sketch)))
        if not flags[-1]:
            _HELD[k] = sketch
            lsh.insert(k, sketch)
    return flags


_HELD: dict[int, Any] = {}


def held_by(lsh: Any, sketch: Any) -> list[tuple[int, Any]]:
    return [(k, _HELD[k]) for k in lsh.query(sketch)]


def flags_of_gaoya(found: Sequence[str]) -> list[bool]:
    from gaoya.minhash import MinHashStringIndex

    index = MinHashStringIndex(
        hash_size=32,
        jaccard_threshold=THRESHOLD,
        num_bands=16,
        band_size=8,
        num_hashes=128,
        analyzer="word",
        lowercase=True,
        ngram_range=(SHINGLE, SHINGLE),
    )
    index.par_bulk_insert_docs(list(range(len(found))), list(found))
    return [min(index.query(text), default=k) < k for k, text in enumerate(found)]


def by_peer(name: str, docs: Path, out: Path) -> set[str]:
    """Reads the documents, flags those that have a near duplicate before them, writes the others."""
    tables = [pq.read_table(part) for part in open_documents(docs).parts]
    table = pa.concat_tables(tables)
    if name in SHARE:
        table = table.slice(0, table.num_rows // SHARE[name])
    flags = {"rensa": flags_of_rensa, "gaoya": flags_of_gaoya, "datasketch": flags_of_datasketch}[name](
        table.column("text").to_pylist()
    )
    gone = np.array(flags, np.bool_)
    pq.write_table(table.filter(pa.array(~gone)), out, compression="zstd")
    return set(table.column("doc_id").filter(pa.array(gone)).to_pylist())


def one(name: str, docs: Path, out: Path) -> None:
    """Runs one of them and prints seconds, peak memory, and who went."""
    if name == "typecase":
        warm = docs.parent / "warm"
        run_stage(Dedup(near=THRESHOLD), {"docs": warm / "docs"}, Path(tempfile.mkdtemp(dir=warm)) / "out")
    else:
        importlib.import_module(name)
    begin = time.perf_counter()
    gone = by_typecase(docs, out) if name == "typecase" else by_peer(name, docs, out)
    took = time.perf_counter() - begin
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    print(json.dumps({"seconds": took, "peak": int(status["VmHWM"].split()[0]) / 1024, "gone": sorted(gone)}))


def measured(name: str, folder: Path, peers: str) -> dict[str, Any]:
    argv = [sys.executable, __file__, "one", name, str(folder / "docs"), str(folder / f"out-{name}"), peers]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def judged(gone: Sequence[str], names: dict[str, str], known: set[str]) -> tuple[float, int, int]:
    """Recall over the pairs above, pairs below that lost one, traps that went; of documents that were looked at."""
    lost = {names[doc_id] for doc_id in gone}

    def pairs(kind: str) -> list[bool]:
        both = [(f"{kind}-{k}-a", f"{kind}-{k}-b") for k in range(PAIRS)]
        return [a in lost or b in lost for a, b in both if a in known and b in known]

    above = pairs("above")
    return sum(above) / max(1, len(above)), sum(pairs("below")), sum(name.startswith("trap") for name in lost)


def records(folder: Path, size: int, peers: str) -> tuple[list[Record], list[str]]:
    names = names_of(folder / "docs")
    order = list(names)
    found: dict[str, dict[str, Any]] = {}
    for name in ("typecase", *PEERS):
        if name == "typecase" or importlib.util.find_spec(name) is not None:
            found[name] = measured(name, folder, peers)
    out, notes = [], []
    for name, run in found.items():
        known = {names[doc_id] for doc_id in order[: len(order) // SHARE.get(name, 1)]}
        recall, below, traps = judged(run["gone"], names, known)
        notes.append(
            f"{name:<10} recall {recall:.4f}, false pairs {below}, false traps {traps}, removed {len(run['gone']):,},"
            f" {run['seconds']:.1f} s, {run['peak']:,.0f} MB"
        )
        if name == "typecase":
            out.append(Record("recall at the threshold (bound 0.98)", recall, 0.98, "share", recall / 0.98))
            out.append(Record("false traps", traps, 0, "documents", 1.0 if traps == 0 else 0.0))
            continue
        work = size / 1e6
        out.append(rate(f"{name}, end to end", work, found["typecase"]["seconds"], run["seconds"] * SHARE.get(name, 1), "MB/s"))
        out.append(cost(f"{name}, peak memory", found["typecase"]["peak"], run["peak"], "MB"))
    return out, notes


def main() -> None:
    if sys.argv[1:2] == ["one"]:
        name, docs, out, peers = sys.argv[2:]
        sys.path.append(peers)
        one(name, Path(docs), Path(out))
        return
    args = options(__doc__, megabytes="100", peers="")
    sys.path.append(args.peers)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "warm").mkdir()
        size = write_corpus(folder, 20_000_000 if args.quick else int(float(args.megabytes) * 1e6))
        write_corpus(folder / "warm", 1_000_000, with_planted=False)
        found, notes = records(folder, size, args.peers)
    report(found, as_json=args.json, notes=[*notes, f"{size / 1e6:.0f} MB of text; similarity {THRESHOLD}"])


if __name__ == "__main__":
    main()
