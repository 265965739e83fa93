"""What a refining run did to a corpus, in numbers: read from its programs, which have a row for every document.

    kept           documents, bytes and units that entered, were left by the document stage, and were left in the end
                   of all, by source, by length before
    lengths        before and after: mean, quantiles, the share of short documents
    programs       calls per program, operations, refusals by code, guards by source, failures
    tops           the lines and strings removed most often; the largest deletions
    flops          what the refiner read and wrote, where it tells how many parameters it has

Everything but the tops is exact and narrow: no text is read. The tops look at the first `look` documents by id, which are a
sample, for ids are hashes; the largest deletions are those of the whole run. The same run gives the same report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb

from typecase.app.refine.refining import Run, open_run, rerun
from typecase.core.lines import line_table
from typecase.core.program.flops import stages_of, training_tokens
from typecase.core.program.language import Program
from typecase.core.program.run import Outcome
from typecase.core.program.statistics import BUCKETS, Lengths, bucket_names, lengths_of, removed_lines
from typecase.store import shards
from typecase.store.documents import documents_of, join_side, row_of

LOOK = 20_000
_SHOWN_CHARS = 200
_CALLS = ("0", "1", "2", "3–5", "6–10", "11+")
_TRAINED = 1_676_000_000
"""Parameters of the model in whose training tokens a refiner's cost is told: the published 1.7 B, without embeddings."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What was left of some documents: `…_in` entered, `…_documents` were left by the document stage, `…_out` in the end."""

    name: str
    documents_in: int
    documents_out: int
    edited: int
    bytes_in: int
    bytes_documents: int
    bytes_out: int
    units_in: int
    units_documents: int
    units_out: int


@dataclass(frozen=True, slots=True)
class Programs:
    """What the programs were like.

    per_program     documents by how many statements their program has; keep and drop decisions are no statement
    mean_calls      statements per document that has any
    operations      statements that were run, by name
    rules           statements that were run, by who asked for them
    codes           statements that were not run, by code
    guarded         by source, documents held back by a guard on the whole, and statements by a guard on one (G_…, E_PROTECTED)
    refused         documents whose program was refused, by code
    asked           documents that the refiner was asked about, in so many `chunks`; `rejected` of them edit nothing
    truncated       answers that were cut off; `refusals` of answers by code
    failures        share of documents whose program was refused; chunk_failures: share of chunks that edit nothing
    """

    per_program: dict[str, int]
    mean_calls: float
    operations: dict[str, int]
    rules: dict[str, int]
    codes: dict[str, int]
    guarded: dict[str, dict[str, int]]
    refused: dict[str, int]
    failures: float
    asked: int
    chunks: int
    rejected: int
    truncated: int
    refusals: dict[str, int]
    chunk_failures: float | None


@dataclass(frozen=True, slots=True)
class Flops:
    """What the refiner cost: `flops` = 2 · parameters · tokens, summed over its stages, and on how many tokens a model of
    `trained_parameters` could be trained for that. Tokens are those of all stages, `parameters` of the largest model."""

    parameters: int
    tokens_in: int
    tokens_out: int
    flops: float
    trained_parameters: int
    training_tokens: float


@dataclass(frozen=True, slots=True)
class Deletion:
    """A document that lost much, with the beginning of the longest piece that it lost."""

    doc_id: str
    status: str
    reason: str
    removed_bytes: int
    bytes_before: int
    piece: str


@dataclass(frozen=True, slots=True)
class Statistics:
    """The report; `looked` documents were looked at for the top lines and strings."""

    folder: str
    by: str
    total: Kept
    dropped: dict[str, int]
    sources: tuple[Kept, ...]
    buckets: tuple[Kept, ...]
    before: Lengths
    after: Lengths
    programs: Programs
    flops: Flops | None
    looked: int
    top_lines: tuple[tuple[str, int], ...]
    top_strings: tuple[tuple[str, int], ...]
    largest: tuple[Deletion, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def statistics(folder: Path | str, *, top: int = 10, look: int = LOOK, trained: int = _TRAINED) -> Statistics:
    """The report of the run in `folder`; see `open_run` for errors."""
    run = open_run(folder)
    manifest = run.store.manifest
    with duckdb.connect(config={"python_enable_replacements": False}) as connection:
        parts = [str(p) for p in run.programs]
        connection.execute(f"create view programs as select * from read_parquet({parts!r})")
        total = _kept(connection, "''")[0] if run.programs else None
        sources = _kept(connection, "source")
        buckets = _by_length(connection)
        before, after = _lengths(connection, "true", "units_before"), _lengths(connection, "status <> 'dropped'", "units_after")
        programs = _programs(connection, manifest.counts)
        largest = _largest(connection, run, top)
    looked, lines, strings = _tops(run, top, look)
    return Statistics(
        folder=str(folder),
        by=_by(manifest.params),
        total=total if total is not None else Kept("all", *[0] * 9),
        dropped=dict(sorted(manifest.balance.removed.items())) if manifest.balance else {},
        sources=tuple(sources),
        buckets=tuple(buckets),
        before=before,
        after=after,
        programs=programs,
        flops=_flops(manifest.params, manifest.counts, trained),
        looked=looked,
        top_lines=tuple(lines),
        top_strings=tuple(strings),
        largest=tuple(largest),
    )


def _by(params: Mapping[str, Any]) -> str:
    names = [*params["rules"]]
    if params["refiner"] is not None:
        names.append(f"{params['refiner']['name']} {params['refiner']['version']}")
    only = f" (only {params['only']})" if params["only"] else ""
    return (", ".join(names) or "nothing") + only


_SUMS = """count(*), count(*) filter (status <> 'dropped'), count(*) filter (status = 'edited'),
    sum(bytes_before), sum(bytes_before) filter (status <> 'dropped'), sum(bytes_after),
    sum(units_before), sum(units_before) filter (status <> 'dropped'), sum(units_after)"""


def _kept(connection: duckdb.DuckDBPyConnection, by: str, order: str = "5 desc, 1") -> list[Kept]:
    rows = connection.execute(f"select {by}, {_SUMS} from programs group by 1 order by {order}").fetchall()
    return [Kept(str(row[0]), *(int(n or 0) for n in row[1:])) for row in rows] or [Kept("", *[0] * 9)]


def _by_length(connection: duckdb.DuckDBPyConnection) -> list[Kept]:
    cases = " ".join(f"when units_before >= {low} then {k}" for k, low in reversed(list(enumerate(BUCKETS))))
    found = {int(one.name): one for one in _kept(connection, f"case {cases} end", "1") if one.name}
    names = bucket_names()
    return [Kept(names[k], *list(asdict(found[k]).values())[1:]) for k in sorted(found)]


def _lengths(connection: duckdb.DuckDBPyConnection, where: str, column: str) -> Lengths:
    units = connection.execute(f"select {column} from programs where {where}").fetchnumpy()[column]
    return lengths_of(units)


def _programs(connection: duckdb.DuckDBPyConnection, counts: Mapping[str, int]) -> Programs:
    alone = "program in ('keep_all()', 'keep_doc()', 'drop_doc()', 'drop_all()')"
    sizes = dict(
        connection.execute(
            f"select case when {alone} then 0 else num_statements end, count(*) from programs group by 1"
        ).fetchall()
    )
    histogram = dict.fromkeys(_CALLS, 0)
    for size, number in sizes.items():
        histogram[_calls(size)] += number
    some = sum(number for size, number in sizes.items() if size)
    guarded: dict[str, dict[str, int]] = {}
    for source, code, number in connection.execute(
        """select source, code, count(*) from (
             select source, reason as code from programs
             where status = 'guarded' and reason in ('G_DOC_RATIO', 'G_SHORT_RESULT')
             union all
             select source, code from (select source, unnest(codes) as code from programs)
             where code in ('E_PROTECTED', 'G_OP_TOO_SMALL', 'G_OP_TOO_LARGE')
           ) group by 1, 2 order by 1, 3 desc, 2"""
    ).fetchall():
        guarded.setdefault(source, {})[code] = number
    documents, chunks = counts.get("documents", 0), counts.get("calls", 0)
    return Programs(
        per_program={name: number for name, number in histogram.items() if number},
        mean_calls=sum(size * number for size, number in sizes.items()) / some if some else 0.0,
        operations=_named(counts, "op:"),
        rules=_named(counts, "rule:"),
        codes=_named(counts, "code:"),
        guarded=guarded,
        refused=_named(counts, "refused:"),
        failures=counts.get("refused", 0) / documents if documents else 0.0,
        asked=counts.get("asked", 0),
        chunks=chunks,
        rejected=counts.get("rejected", 0),
        truncated=counts.get("truncated", 0),
        refusals=_named(counts, "refusal:"),
        chunk_failures=counts.get("rejected", 0) / chunks if chunks else None,
    )


def _calls(size: int) -> str:
    return str(size) if size < 3 else "3–5" if size < 6 else "6–10" if size < 11 else "11+"


def _named(counts: Mapping[str, int], prefix: str) -> dict[str, int]:
    """Counts of this prefix, most first."""
    found = {name.removeprefix(prefix): number for name, number in counts.items() if name.startswith(prefix)}
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _flops(params: Mapping[str, Any], counts: Mapping[str, int], trained: int) -> Flops | None:
    stages = stages_of(params["refiner"] or {}, counts)
    if not stages:
        return None
    cost = sum(one.flops for one in stages)
    read, wrote = sum(one.read for one in stages), sum(one.written for one in stages)
    return Flops(max(one.parameters for one in stages), read, wrote, cost, trained, training_tokens(cost, trained))


def _largest(connection: duckdb.DuckDBPyConnection, run: Run, top: int) -> list[Deletion]:
    """The edited documents that lost most, then by id; dropped ones are counted elsewhere."""
    ids = connection.execute(
        "select doc_id from programs where status = 'edited' order by removed_bytes desc, doc_id limit ?", [top]
    ).fetchall()
    found: list[Deletion] = []
    for (doc_id,) in ids:
        row = row_of(run.programs, doc_id)
        assert row is not None
        _, outcome = rerun(run, run.parent.get(doc_id).text, row)
        piece = max(outcome.changes, key=lambda c: (len(c.removed), -c.start)).removed
        found.append(Deletion(doc_id, row["status"], row["reason"], row["removed_bytes"], row["bytes_before"], _short(piece)))
    return found


def _tops(run: Run, top: int, look: int) -> tuple[int, list[tuple[str, int]], list[tuple[str, int]]]:
    """How many documents were looked at, and the lines and strings that edits removed most often in them."""
    looked = 0
    lines: Counter[str] = Counter()
    strings: Counter[str] = Counter()
    wanted = ("doc_id", "program", "status", "provenance", "text_hash")
    for part in run.parent.parts:
        for table in shards.read_groups(part):
            rows = join_side(table.column("doc_id"), run.programs, wanted).to_pylist()
            for document, row in zip(documents_of(table), rows, strict=True):
                if looked >= look:
                    return looked, _most(lines, top), _most(strings, top)
                looked += 1
                if row["status"] == "edited":
                    _count(document.text, *rerun(run, document.text, row), lines, strings)
    return looked, _most(lines, top), _most(strings, top)


def _count(text: str, program: Program, outcome: Outcome, lines: Counter[str], strings: Counter[str]) -> None:
    starts, stops = line_table(text)
    for number in removed_lines(text, outcome.changes):
        lines[_short(text[starts[number] : stops[number]].strip())] += 1
    # Two that named the same place removed one string.
    places = {
        (verdict.start, verdict.stop, statement.text)
        for statement, verdict in zip(program.statements, outcome.verdicts, strict=True)
        if statement.name in ("remove_str", "replace_str") and verdict.code == "applied"
    }
    strings.update(_short(string) for _, _, string in places)


def _most(counter: Counter[str], top: int) -> list[tuple[str, int]]:
    return sorted(counter.items(), key=lambda item: (-item[1], item[0]))[:top]


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + "…"
