"""Search as the set grows: build, counts and successors at 10^6 to 10^8 tokens; a table, and docs/pictures/search-scale.svg.

    python benchmarks/scale_search.py --dir /tmp/typecase-bench [--quick]

Building should grow with the tokens, queries with their logarithm. Texts as in bench_index.
"""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import numpy as np
from bench_search import made_set
from measure import options, seconds

from typecase.engine.local import available_cores
from typecase.recipe.index import Index as IndexStage
from typecase.recipe.run import run_stage
from typecase.store.index.index import open_index

PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "search-scale.svg"
QUERIES = 500


def measured(folder: Path, num_tokens: int) -> tuple[float, float, float]:
    """Seconds to build, microseconds of a count of four tokens, microseconds of what follows them; the best of three."""
    prefix, tokens, _ = made_set(folder, num_tokens)
    out = folder / f"scale_{num_tokens}"
    shutil.rmtree(out, ignore_errors=True)
    build = seconds(lambda: run_stage(IndexStage(threads=available_cores()), {"tokens": prefix}, out))
    index = open_index(out, prefix)
    places = np.random.default_rng(0).integers(0, num_tokens - 4, QUERIES)
    queries = [tokens[p : p + 4].astype(np.int64) for p in places]
    index.count(queries[0])
    index.next(queries[0])
    count = min(seconds(lambda: [index.count(q) for q in queries]) for _ in range(3))
    follow = min(seconds(lambda: [index.next(q) for q in queries]) for _ in range(3))
    shutil.rmtree(out)
    return build, count / QUERIES * 1e6, follow / QUERIES * 1e6


def picture(rows: list[tuple[int, float, float, float]]) -> str:
    """Both axes logarithmic: tokens to the right; seconds of the build, microseconds of the queries upwards."""
    width, height, left, bottom = 640, 360, 60, 320
    low, high = -1.0, 4.0
    first, last = math.log10(rows[0][0]), math.log10(rows[-1][0])

    def at(tokens: int, value: float) -> tuple[float, float]:
        x = left + (math.log10(tokens) - first) / max(last - first, 1e-9) * (width - left - 150)
        return x, bottom - (math.log10(value) - low) / (high - low) * (bottom - 30)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">']
    parts.append(f'<rect width="{width}" height="{height}" fill="white"/>')
    for power in range(int(low), int(high) + 1):
        _, y = at(rows[0][0], 10.0**power)
        parts.append(f'<line x1="{left}" x2="{width - 150}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g}</text>')
    for tokens, *_ in rows:
        x, _ = at(tokens, 1)
        parts.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{tokens / 1e6:g} M</text>')
    lines = (("build, s", "#b02a37", 1), ("count of 4 tokens, µs", "#1c6e8c", 2), ("what follows, µs", "#5a7d2a", 3))
    for name, colour, column in lines:
        points = [at(row[0], row[column]) for row in rows]
        drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{points[-1][0] + 8:.1f}" y="{points[-1][1] + 4:.1f}" fill="{colour}">{name}</text>')
    parts.append(f'<text x="{left}" y="{height - 6}">tokens in the set; both axes logarithmic</text></svg>')
    return "\n".join(parts) + "\n"


def main() -> None:
    args = options(__doc__, dir="/tmp/typecase-bench")
    folder = Path(args.dir)
    folder.mkdir(parents=True, exist_ok=True)
    sizes = [10**5, 10**6] if args.quick else [10**6, 3 * 10**6, 10**7, 3 * 10**7, 10**8]
    rows = [(size, *measured(folder, size)) for size in sizes]
    for size, build, count, follow in rows:
        print(f"{size:>12,} tokens   build {build:8.2f} s   count {count:6.2f} us   next {follow:8.2f} us")
    if not args.quick:
        PICTURE.write_text(picture(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
