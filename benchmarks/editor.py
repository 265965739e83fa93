"""Rules against a reader: agreement with the programs that an editor wrote for seed documents.

    python benchmarks/editor.py [--seeds seeds] [--rules encoding furniture …] [--half tune|held|all] [--show]

The folder holds documents*.jsonl (id, text, source …) and programs.jsonl (id, doc, remove_lines, replace). Lines are those
of `text.strip("\\n").split("\\n")`. Line frequencies are counted over all documents of the folder. Half of the sources, by
a hash of their names, was used to write the rules ("tune"); "held" is the other half.

Printed: line precision, recall, F1 (micro, over lines that are not blank, of documents that both keep); keep/drop agreement;
over-deletion, the share of the characters kept by the editor that the rules removed: by line edits in documents that both
keep, and with wrongly dropped documents. Intervals are bootstrapped over documents.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pyarrow as pa

from typecase.core.lines import contains, document_counts, line_hashes, line_spans
from typecase.core.program.guards import GuardPolicy
from typecase.core.program.run import run
from typecase.core.rules.groups import DEFAULT, Rules
from typecase.recipe.refine_lines import MAX_BYTES, MIN_BYTES, least_documents


@dataclass(frozen=True)
class Edited:
    """A document, what the editor did, what the rules did."""

    doc_id: str
    kind: str
    lines: list[str]
    drop: bool
    gone: set[int]
    rules_drop: str
    rules_gone: dict[int, str]


def read(folder: Path) -> tuple[dict[str, dict[str, str]], list[dict[str, object]]]:
    documents: dict[str, dict[str, str]] = {}
    for path in sorted(folder.glob("documents*.jsonl*")):
        documents |= {row["id"]: row for row in rows_of(path)}
    programs = [row for path in sorted(folder.glob("programs.jsonl*")) for row in rows_of(path)]
    if not documents or not programs:
        raise SystemExit(f"{folder} lacks documents*.jsonl or programs.jsonl; give the folder with --seeds")
    return documents, programs


def rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a JSON lines file, plain, gz or zst."""
    with pa.input_stream(str(path)) as stream:
        return [json.loads(line) for line in stream.read().decode().split("\n") if line]


def frequent_lines(texts: list[str]) -> list[np.ndarray]:
    """For each text, which of its lines are frequent among all."""
    data = [text.encode() for text in texts]
    values = np.frombuffer(b"".join(data), np.uint8)
    offsets = np.concatenate([[0], np.cumsum([len(d) for d in data])]).astype(np.int64)
    first, starts, stops = line_spans(values, offsets)
    hashes = line_hashes(values, starts, stops, min_bytes=MIN_BYTES, max_bytes=MAX_BYTES)
    keys, counts = document_counts(hashes, first)
    flags = contains(keys[counts >= least_documents(len(texts), least=5, share=0.0002)], hashes)
    return [flags[first[i] : first[i + 1]] for i in range(len(texts))]


def half_of(source: str) -> str:
    return "held" if blake2b(source.encode(), digest_size=1).digest()[0] % 2 else "tune"


def edit(row: dict[str, str], program: dict[str, object], rules: Rules, frequent: np.ndarray | None) -> Edited:
    text = row["text"].strip("\n")
    lines = text.split("\n")
    gone = {i for a, b in program["remove_lines"] for i in range(a, b + 1)}  # type: ignore[attr-defined]
    proposal = rules.propose(text, frequent=frequent)
    outcome = run(proposal.program, text, GuardPolicy(nth=True))
    rules_gone: dict[int, str] = {}
    if outcome.status == "edited":
        for statement, verdict in zip(proposal.program.statements, outcome.verdicts, strict=True):
            if statement.name == "remove_lines" and verdict.code == "applied":
                rules_gone |= dict.fromkeys(range(statement.line_start, statement.line_end + 1), statement.origin.name)
    dropped = outcome.reason if outcome.status == "dropped" else ""
    return Edited(row["id"], row["kind"], lines, program["doc"] == "drop", gone, dropped, rules_gone)


def counts_of(done: Edited) -> np.ndarray:
    """Line hits, false alarms, misses; clean characters, those removed by lines, by drops; drop hits, false alarms, misses."""
    out = np.zeros(9)
    if done.drop or done.rules_drop:
        out[6:] = (
            bool(done.drop and done.rules_drop),
            bool(done.rules_drop and not done.drop),
            bool(done.drop and not done.rules_drop),
        )
    clean = 0 if done.drop else sum(len(line) for i, line in enumerate(done.lines) if i not in done.gone)
    out[3] = clean
    if done.rules_drop and not done.drop:
        out[5] = clean
    if not done.drop and not done.rules_drop:
        removed = done.rules_gone.keys()
        written = {i for i, line in enumerate(done.lines) if line.strip()}
        out[:3] = (
            len(removed & done.gone & written),
            len((removed - done.gone) & written),
            len((done.gone - removed) & written),
        )
        out[4] = sum(len(done.lines[i]) for i in removed - done.gone)
    return out


def summary(rows: np.ndarray) -> dict[str, float]:
    hit, false, miss, clean, line_chars, drop_chars, drop_hit, drop_false, drop_miss = rows.sum(axis=0)
    precision, recall = hit / max(1, hit + false), hit / max(1, hit + miss)
    return {
        "line precision": precision,
        "line recall": recall,
        "line F1": 2 * precision * recall / max(1e-9, precision + recall),
        "over-deletion, lines": line_chars / max(1, clean),
        "over-deletion, with drops": (line_chars + drop_chars) / max(1, clean),
        "drop precision": drop_hit / max(1, drop_hit + drop_false),
        "drop recall": drop_hit / max(1, drop_hit + drop_miss),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=Path, default=Path(__file__).parents[1] / "seeds")
    options.add_argument("--rules", nargs="+", default=list(DEFAULT))
    options.add_argument("--half", choices=("tune", "held", "all"), default="all")
    options.add_argument("--show", action="store_true", help="print the false alarms (and, of the tuned half, the misses)")
    given = options.parse_args()
    documents, programs = read(given.seeds)
    texts = [row["text"].strip("\n") for row in documents.values()]
    frequent = dict(zip(documents, frequent_lines(texts), strict=True)) if "frequent" in given.rules else {}
    rules = Rules(tuple(given.rules))
    done = [
        edit(documents[p["id"]], p, rules, frequent.get(p["id"]))  # type: ignore[index]
        for p in programs
        if given.half in ("all", half_of(documents[p["id"]]["source"]))  # type: ignore[index]
    ]
    rows = np.array([counts_of(d) for d in done])
    rng = np.random.default_rng(0)
    samples = [summary(rows[rng.integers(0, len(rows), len(rows))]) for _ in range(500)]
    print(f"{len(done)} documents ({given.half}), rules {' '.join(given.rules)}")
    for name, value in summary(rows).items():
        low, high = np.percentile([s[name] for s in samples], (2.5, 97.5))
        print(f"  {name:28} {100 * value:6.2f} %   [{100 * low:.2f}, {100 * high:.2f}]")
    untouched = [d for d in done if not d.drop and not d.gone]
    same = sum(not d.rules_gone and not d.rules_drop for d in untouched)
    print(f"  documents without an edit     {same} of {len(untouched)} left alone")
    by_rule: dict[str, Counter[bool]] = {}
    for d in done:
        if not d.drop:
            for i, rule in d.rules_gone.items():
                by_rule.setdefault(rule, Counter())[i in d.gone] += 1
    print("  rule: lines right, lines wrong")
    for rule, c in sorted(by_rule.items()):
        print(f"    {rule:24} {c[True]:5} {c[False]:5}")
    print("  drops:", dict(Counter((d.rules_drop, "right" if d.drop else "wrong") for d in done if d.rules_drop)))
    if given.show:
        show(done, misses=given.half == "tune")


def show(done: list[Edited], *, misses: bool) -> None:
    for d in done:
        if d.rules_drop and not d.drop:
            print(f"  wrong drop {d.doc_id} {d.kind} {d.rules_drop}: {d.lines[:4]}")
        if misses and d.drop and not d.rules_drop:
            print(f"  missed drop {d.doc_id} {d.kind}: {d.lines[:4]}")
        if not d.drop and not d.rules_drop:
            for i in sorted(d.rules_gone.keys() - d.gone):
                print(f"  wrong {d.doc_id} {d.kind} [{i}] {d.rules_gone[i]}: {d.lines[i][:100]!r}")
            for i in sorted(d.gone - d.rules_gone.keys()) if misses else ():
                print(f"  missed {d.doc_id} {d.kind} [{i}] {d.lines[i][:100]!r}")


if __name__ == "__main__":
    main()
