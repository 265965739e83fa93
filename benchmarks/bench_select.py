"""Selecting documents for a token budget: 5 million synthetic rows, 105 strata (7 sources x 15 domains), a tenth is kept.

    python benchmarks/bench_select.py [--quick] [--json] [--huge]

Two policies: the best by an integer score of 1 to 5 inside every stratum (huge ties), and a draw by score with chance.
Peers on the same arrays in memory, quotas by largest remainder given to each:

    duckdb    a window query, all cores: running sum of tokens by stratum in order of key, kept while it is below the quota
    numpy     one lexsort of all rows by stratum, key, hash, and a running sum; it must keep the very same rows

`streamed` decides and applies over candidates in 50 files instead of one array, and `memory` is its peak against that of
the duckdb query over arrays, each in a process of its own, interpreter included. `ranked` is the draw by rank in the stratum,
against the draw by score as it is.

--huge: no peers; rows are made part by part as they are walked, 10, 20, 50 and 100 million of them, never all at once. It
prints seconds and peak memory, which must stay where it is while time grows in a line. About 10 minutes.
"""

from __future__ import annotations

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
    mine, sql, sort = best_of([ours, query.kept, lambda: by_numpy(pool, quotas, chance=chance)], rounds)
    return [
        rate(f"{name} vs duckdb", len(pool) / 1e6, mine, sql, "million rows/s"),
        rate(f"{name} vs numpy", len(pool) / 1e6, mine, sort, "million rows/s"),
    ]


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
    """One selection of made rows: seconds in all, of them for making rows, and peak memory."""
    begin = time.perf_counter()
    budget = sum(int(pool.amount.sum()) for pool in Made(rows)) // 10
    making = time.perf_counter() - begin
    begin = time.perf_counter()
    passes = 0

    class Walked:
        def __iter__(self) -> Iterator[Pool]:
            nonlocal passes
            passes += 1
            yield from Made(rows)

    cuts = decide(Walked(), STRATA, budget=Budget(tokens=budget), policy=SAMPLED, seed=SEED)
    kept = sum(int(apply(cuts, pool, policy=SAMPLED, seed=SEED).kept.sum()) for pool in Walked())
    spent = time.perf_counter() - begin
    assert kept == int(cuts.kept.sum()) and int(cuts.quota.sum()) == budget
    alone = spent - passes * making
    print(f"{rows:>12,} rows  {spent:7.1f} s, {alone:6.1f} s without making rows  {high_water_mb():6.0f} MB peak")


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
    if sys.argv[1:2] == ["--huge"]:
        for millions in [int(n) for n in sys.argv[2:]] or [10, 20, 50, 100]:
            huge(millions * 1_000_000)
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
    report(records, as_json=args.json, notes=[f"{rows:,} rows, {len(STRATA)} strata; typecase on one core, duckdb on all"])


if __name__ == "__main__":
    main()
