"""Selecting documents for a token budget: 5 million synthetic rows, 105 strata (7 sources x 15 domains), a tenth is kept.

    python benchmarks/bench_select.py [--quick] [--json]
    python benchmarks/bench_select.py --huge [MILLIONS …] [--plot FILE.svg]

Two policies: the best by an integer score of 1 to 5 inside every stratum (huge ties), and a draw by score with chance.
Peers on the same arrays in memory, quotas by largest remainder given to each:

    duckdb    a window query, all cores: running sum of tokens by stratum in order of key, kept while it is below the quota
    numpy     one lexsort of all rows by stratum, key, hash, and a running sum; it must keep the very same rows
    masks     the way of DataMan's published script, in our own code: for every stratum a mask over all rows, its rows sorted by
              score, the first share + 0.1 of them kept, cut where the quota is met, and filled up with copies where it is not;
              ties fall as they come, so it sorts less than the others

`streamed` decides and applies over candidates in 50 files instead of one array, and `memory` is its peak against that of
the duckdb query over arrays, each in a process of its own, interpreter included. `ranked` is the draw by rank in the stratum,
against the draw by score as it is.

--huge: no peers; rows are made part by part as they are walked, 10, 20, 50 and 100 million of them, never all at once, each
size in a process of its own. It prints seconds, the processor's seconds, and peak memory, which must stay where it is while
time grows in a line; --plot draws both. About 3 minutes on a quiet machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from measure import Record, best_of, cost, options, rate, report

from typecase.core.selection.decide import apply, decide, select
from typecase.core.selection.keys import gumbel_noise, hash_ids, id_words
from typecase.core.selection.quota import apportion
from typecase.core.selection.scores import slice_pool
from typecase.core.selection.selection import Budget, Policy, Pool
from typecase.recipe.columns import map_columns, write_columns

STRATA = [(f"source{s}", f"domain{d:02d}") for s in range(7) for d in range(15)]
TOP = Policy(key="top_k")
SAMPLED = Policy(key="gumbel", temperature=1.0)
SEED = 1


def make_pool(rows: int) -> Pool:
    rng = np.random.default_rng(7)
    weights = rng.dirichlet(np.ones(len(STRATA)) * 2)
    return Pool(
        rng.integers(0, 256, (rows, 16), dtype=np.uint8),
        rng.lognormal(6.2, 1.1, rows).astype(np.int64) + 1,
        rng.choice(len(STRATA), rows, p=weights).astype(np.int32),
        rng.choice([1.0, 2.0, 3.0, 4.0, 5.0], rows, p=[0.05, 0.1, 0.2, 0.35, 0.3]),
    )


def quotas_of(pool: Pool, budget: int) -> list[int]:
    masses = np.bincount(pool.stratum, pool.amount, len(STRATA)).astype(np.int64)
    return apportion(masses.tolist(), budget)


def by_numpy(pool: Pool, quotas: list[int], *, chance: bool) -> np.ndarray:
    """Kept rows, bool (rows,): sort everything once."""
    key = pool.score + gumbel_noise(pool.ids, seed=SEED, purpose="select noise") if chance else pool.score
    order = np.lexsort((hash_ids(pool.ids, seed=0, purpose="select tie"), -key, pool.stratum))
    stratum, amount = pool.stratum[order], pool.amount[order]
    running = np.cumsum(amount)
    starts = np.searchsorted(stratum, np.arange(len(quotas)))
    base = np.where(starts > 0, running[np.maximum(starts, 1) - 1], 0)
    kept = np.zeros(len(pool), np.bool_)
    kept[order] = running - amount - base[stratum] < np.array(quotas)[stratum]
    return kept


def by_masks(pool: Pool, quotas: list[int]) -> np.ndarray:
    """Rows taken, int64, repeated ones again: the published algorithm with a seed and a stable sort."""
    dice, taken = np.random.default_rng(SEED), []
    for stratum, quota in enumerate(quotas):
        rows = np.flatnonzero(pool.stratum == stratum)
        total = int(pool.amount[rows].sum())
        rows = rows[np.argsort(-pool.score[rows], kind="stable")][: int(np.ceil(len(rows) * (quota / total + 0.1)))]
        running = np.cumsum(pool.amount[rows])
        if running[-1] >= quota:
            taken.append(rows[: int(np.searchsorted(running, quota)) + 1])
            continue
        more, missing = [], quota - int(running[-1])
        while missing > 0:
            more.append(int(dice.choice(rows)))
            missing -= int(pool.amount[more[-1]])
        taken += [rows, np.array(more)]
    return np.concatenate(taken)


@dataclass(frozen=True)
class Query:
    """The DuckDB peer: a connection that sees the arrays and the quotas."""

    connection: duckdb.DuckDBPyConnection
    chance: bool

    @classmethod
    def over(cls, pool: Pool, quotas: list[int], *, chance: bool) -> Query:
        hi, lo = id_words(pool.ids)
        rows = pa.table(
            {
                "hi": hi,
                "lo": lo,
                "tokens": pool.amount,
                "stratum": pool.stratum,
                "score": pool.score,
                "row": np.arange(len(pool)),
            }
        )
        connection = duckdb.connect()
        connection.register("rows", rows)
        connection.register("quotas", pa.table({"stratum": np.arange(len(quotas), dtype=np.int32), "quota": quotas}))
        return cls(connection, chance)

    def kept(self) -> np.ndarray:
        """Numbers of the kept rows, int64."""
        key = "score - ln(-ln((hash(hi, lo, 1) + 0.5) / 18446744073709551616.0))" if self.chance else "score"
        found = self.connection.sql(
            f"""
            with keyed as (select row, stratum, tokens, {key} as key, hash(hi, lo) as tie, hi, lo from rows),
            summed as (select row, stratum, tokens, sum(tokens) over (partition by stratum order by key desc, tie, hi, lo
                       rows unbounded preceding) as running from keyed)
            select row from summed join quotas using (stratum) where running - tokens < quota
            """
        ).to_arrow_table()
        return found.column("row").to_numpy()


def check(pool: Pool, quotas: list[int], kept: np.ndarray) -> None:
    """Every stratum meets its quota to one document."""
    met = np.bincount(pool.stratum[kept], pool.amount[kept], len(quotas)).astype(np.int64)
    over = met - np.array(quotas)
    assert (over >= 0).all() and (over < pool.amount.max()).all()


def compare(name: str, pool: Pool, policy: Policy, *, rounds: int) -> list[Record]:
    budget = int(pool.amount.sum()) // 10
    quotas, chance = quotas_of(pool, budget), policy.needs_seed
    query = Query.over(pool, quotas, chance=chance)

    def ours() -> np.ndarray:
        return select(pool, STRATA, budget=Budget(tokens=budget), policy=policy, seed=SEED).kept

    assert (ours() == by_numpy(pool, quotas, chance=chance)).all()
    check(pool, quotas, np.flatnonzero(ours()))
    check(pool, quotas, query.kept())
    peers = {"duckdb": query.kept, "numpy": lambda: by_numpy(pool, quotas, chance=chance)}
    if not chance:
        peers["masks"] = lambda: by_masks(pool, quotas)
    mine, *theirs = best_of([ours, *peers.values()], rounds)
    million = len(pool) / 1e6
    return [rate(f"{name} vs {peer}", million, mine, one, "million rows/s") for peer, one in zip(peers, theirs, strict=True)]


def repeats_note(pool: Pool, budget: int) -> str:
    """What the published way repeats where good documents are short: scores fall with length, the budget is a tenth."""
    short = replace(pool, score=-np.log2(pool.amount).round())
    taken = by_masks(short, quotas_of(short, budget))
    distinct = np.unique(taken)
    again = 1 - pool.amount[distinct].sum() / pool.amount[taken].sum()
    return f"where the best are short, the published way fills {again:.0%} of the budget with copies; typecase repeats nothing"


class Files:
    """A pool in many files, mapped one after the other."""

    def __init__(self, folder: Path) -> None:
        self.paths = sorted(folder.glob("*.arrow"))

    def __iter__(self) -> Iterator[Pool]:
        for path in self.paths:
            columns, _ = map_columns(path)
            yield Pool(columns["ids"], columns["amount"], columns["stratum"], columns["score"])


def write_files(pool: Pool, folder: Path, num: int) -> None:
    for k in range(num):
        part = slice_pool(pool, len(pool) * k // num, len(pool) * (k + 1) // num)
        columns = {"ids": part.ids, "amount": part.amount, "stratum": part.stratum, "score": part.score}
        write_columns(folder / f"{k:05d}.arrow", columns)


def streamed(folder: Path, budget: int, policy: Policy = SAMPLED) -> int:
    """Decides and applies over the files; returns the rows kept."""
    cuts = decide(Files(folder), STRATA, budget=Budget(tokens=budget), policy=policy, seed=SEED)
    return sum(int(apply(cuts, pool, policy=policy, seed=SEED).kept.sum()) for pool in Files(folder))


def peak_mb(*argv: str) -> float:
    """Peak memory of this script's work in a process of its own, interpreter and imports included."""
    done = subprocess.run([sys.executable, __file__, "peak", *argv], check=True, capture_output=True, text=True)
    return float(done.stdout)


@dataclass(frozen=True)
class Made:
    """Pools of a million rows each, made anew by their number whenever they are walked."""

    rows: int

    def __iter__(self) -> Iterator[Pool]:
        for number, start in enumerate(range(0, self.rows, MADE_ROWS)):
            yield made_pool(number, min(MADE_ROWS, self.rows - start))


MADE_ROWS = 1_000_000


def made_pool(number: int, rows: int) -> Pool:
    rng = np.random.default_rng([7, number])
    return Pool(
        rng.integers(0, 1 << 64, (rows, 2), dtype=np.uint64).view(np.uint8),
        (rng.random(rows) ** 3 * 5000).astype(np.int64) + 1,
        rng.integers(0, len(STRATA), rows).astype(np.int32),
        rng.integers(1, 6, rows).astype(np.float64),
    )


def huge(rows: int) -> None:
    """Prints one selection of made rows: seconds and processor seconds without making rows, and peak memory."""
    begin, begin_cpu = time.perf_counter(), time.process_time()
    budget = sum(int(pool.amount.sum()) for pool in Made(rows)) // 10
    making, making_cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
    decide([make_pool(1000)], STRATA, budget=Budget(tokens=1000), policy=SAMPLED, seed=SEED)  # compiles
    begin, begin_cpu = time.perf_counter(), time.process_time()
    passes = 0

    class Walked:
        def __iter__(self) -> Iterator[Pool]:
            nonlocal passes
            passes += 1
            yield from Made(rows)

    cuts = decide(Walked(), STRATA, budget=Budget(tokens=budget), policy=SAMPLED, seed=SEED)
    kept = sum(int(apply(cuts, pool, policy=SAMPLED, seed=SEED).kept.sum()) for pool in Walked())
    spent, spent_cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
    assert kept == int(cuts.kept.sum()) and int(cuts.quota.sum()) == budget
    print(json.dumps({
        "rows": rows, "passes": passes, "seconds": round(spent - passes * making, 2),
        "processor_seconds": round(spent_cpu - passes * making_cpu, 2), "with_making": round(spent, 2),
        "peak_mb": round(high_water_mb()),
    }))  # fmt: skip


def grow(millions: list[int], plot: Path | None) -> None:
    """`huge` for every size; draws time and memory over rows."""
    rows = []
    for n in millions:
        done = subprocess.run(
            [sys.executable, __file__, "huge", str(n * 1_000_000)], check=True, capture_output=True, text=True
        )
        rows.append(json.loads(done.stdout))
        print(done.stdout, end="", flush=True)
    if plot is not None:
        draw(rows, plot)


def draw(rows: list[dict[str, float]], path: Path) -> None:
    """Processor seconds and peak memory over rows, side by side, from zero."""
    from typecase.app.charts.style import BLUE, OCHRE, drawn, new_figure, style

    with style():
        figure = new_figure(2.4)
        x = [row["rows"] / 1e6 for row in rows]
        sides = (("processor_seconds", "processor seconds of a selection", BLUE), ("peak_mb", "MB of memory at most", OCHRE))
        for axes, (name, title, colour) in zip(figure.subplots(1, 2), sides, strict=True):
            axes.plot(x, [row[name] for row in rows], color=colour, marker="o", ms=3.5, lw=1.3)
            axes.set_title(title, loc="left", pad=6)
            axes.set_xlabel("million rows", fontsize=7)
            axes.set_xlim(0)
            axes.set_ylim(0, max(row[name] for row in rows) * 1.15)
            axes.grid(axis="y", lw=0.5, alpha=0.4)
        svg, _ = drawn(figure, "select-scale")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(svg)


def high_water_mb() -> float:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) / 1024  # ru_maxrss would count the parent's memory too


def peak(what: str, *argv: str) -> None:
    if what == "streamed":
        streamed(Path(argv[0]), int(argv[1]))
    else:
        pool = make_pool(int(argv[0]))
        Query.over(pool, quotas_of(pool, int(argv[1])), chance=True).kept()
    print(high_water_mb())


def main() -> None:
    if sys.argv[1:2] == ["peak"]:
        peak(*sys.argv[2:])
        return
    if sys.argv[1:2] == ["huge"]:
        huge(int(sys.argv[2]))
        return
    if sys.argv[1:2] == ["--huge"]:
        plot = Path(sys.argv[sys.argv.index("--plot") + 1]) if "--plot" in sys.argv else None
        grow([int(n) for n in sys.argv[2:] if n.isdigit()] or [10, 20, 50, 100], plot)
        return
    args = options(__doc__)
    rows, rounds = (500_000, 2) if args.quick else (5_000_000, 3)
    pool = make_pool(rows)
    budget = int(pool.amount.sum()) // 10
    records = compare("top", pool, TOP, rounds=rounds) + compare("sampled", pool, SAMPLED, rounds=rounds)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(pool, folder, 50)
        query = Query.over(pool, quotas_of(pool, budget), chance=True)
        mine, sql = best_of([lambda: streamed(folder, budget), query.kept], rounds)
        records.append(rate("sampled, streamed vs duckdb", rows / 1e6, mine, sql, "million rows/s"))
        ranked = replace(SAMPLED, normalise="stratum_rank", temperature=0.2)
        mine, plain = best_of([lambda: streamed(folder, budget, ranked), lambda: streamed(folder, budget)], rounds)
        records.append(rate("ranked vs as it is, streamed", rows / 1e6, mine, plain, "million rows/s"))
        ours = peak_mb("streamed", name, str(budget))
        records.append(cost("memory, streamed vs duckdb", ours, peak_mb("duckdb", str(rows), str(budget)), "MB peak"))
    notes = [f"{rows:,} rows, {len(STRATA)} strata; typecase on one core, duckdb on all", repeats_note(pool, budget)]
    report(records, as_json=args.json, notes=notes)


if __name__ == "__main__":
    main()
