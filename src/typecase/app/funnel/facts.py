"""Facts of a funnel: what became of the documents from the first stage to an artifact, and what that did to them.

    ingest 645 ─► refine 602 ─► dedup 600 ─► select 157      in = kept + removed (by reason) + quarantined (by reason)

The stages are those of the artifact's lineage that gave documents. What was chosen is compared with what there was: shares of
every source and domain, scores, lengths, and, on a sample of the texts, how varied they are. Warnings follow fixed rules that
are said in them. Price: the manifests, the narrow columns of the selection, and SAMPLE documents of both ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from typecase.core.balance import Balance
from typecase.core.minhash.sketch import shingle_texts
from typecase.core.selection.diversity import effective_number, gram_entropy, near_rate
from typecase.errors import BadQuery
from typecase.store.documents import DocumentStore, open_documents
from typecase.store.lineage import Ancestor, ancestors
from typecase.store.shards import buffers_of, lengths_of, read_columns, read_groups

SAMPLE, NEAR = 4000, 0.8
STARVED_SHARE, STARVED_BELOW = 0.005, 0.25
_BINS = 12
_SORTS = 0.1
F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Step:
    """One stage of the funnel: its folder, and what became of the documents that entered it."""

    stage: str
    folder: Path
    balance: Balance
    tokens: int | None


@dataclass(frozen=True, slots=True)
class Shift:
    """The share of a group before and after, of documents and of the budget's unit; 0 to 1."""

    name: str
    documents: int
    kept: int
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Spread:
    """A distribution before and after over the same bins: `edges` (bins + 1,), counts of documents."""

    name: str
    unit: str
    edges: tuple[float, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    mean_before: float
    mean_after: float


@dataclass(frozen=True, slots=True)
class Variety:
    """How varied a sample is: documents, effective numbers of sources and domains, bits of a run of two words, share of
    documents that resemble an earlier one of the sample at Jaccard NEAR."""

    documents: int
    sources: float
    domains: float | None
    gram_bits: float
    near: float


@dataclass(frozen=True, slots=True)
class Funnel:
    """All of it. `decision` is what the newest selection decided (budget, met, short, strata), None where there is none."""

    name: str
    folder: Path
    steps: tuple[Step, ...]
    shifts: Mapping[str, tuple[Shift, ...]]
    spreads: tuple[Spread, ...]
    before: Variety
    after: Variety
    decision: Mapping[str, Any] | None
    warnings: tuple[str, ...]


def funnel_of(path: Path | str, *, sample: int = SAMPLE) -> Funnel:
    """The funnel that leads to the artifact in `path`, of documents or tokens.

    Raises NotFound for a folder that is no artifact, BadQuery for one that no documents lead to.
    """
    line = [one for one in ancestors(path) if one.manifest is not None]
    stages = [one for one in line if one.kind in ("docs", "tokens") and one.manifest and one.manifest.balance is not None]
    stages = _main_line(stages)
    if not any(one.kind == "docs" for one in stages):
        raise BadQuery(f"{path}: no documents lead to it; give a folder that a stage over documents, or build, made")
    steps = tuple(_step(one) for one in reversed(stages))
    docs = [one for one in stages if one.kind == "docs"]
    chosen = next((one for one in docs if one.manifest is not None and one.manifest.stage == "select"), None)
    first, last = open_documents(docs[-1].folder), open_documents(docs[0].folder)
    decision = dict(chosen.manifest.decision) if chosen is not None and chosen.manifest is not None else None
    shifts = _shifts(decision, first, last)
    before, after = _varieties(first, last, shifts, sample)
    spreads = tuple(_spreads(chosen, first, last))
    warnings = tuple(_warnings(steps, shifts, before, after, decision))
    return Funnel(docs[0].folder.name, Path(path), steps, shifts, spreads, before, after, decision, warnings)


def _main_line(stages: Sequence[Ancestor]) -> list[Ancestor]:
    """The newest stage, and from each on the one that it took its documents from."""
    if not stages:
        return []
    found, by_content = [stages[0]], {one.content: one for one in stages}
    while True:
        manifest = found[-1].manifest
        parents = manifest.parents if manifest is not None else ()
        own = next((by_content[p.content] for p in parents if p.role == "docs" and p.content in by_content), None)
        if own is None or own in found:
            return found
        found.append(own)


def _step(one: Ancestor) -> Step:
    assert one.manifest is not None and one.manifest.balance is not None
    return Step(one.manifest.stage, one.folder, one.manifest.balance, one.manifest.counts.get("tokens"))


def _shifts(decision: Mapping[str, Any] | None, first: DocumentStore, last: DocumentStore) -> dict[str, tuple[Shift, ...]]:
    """From the decision of a selection, else by source from the documents of both ends."""
    if decision is not None and decision.get("shares"):
        return {
            column: tuple(
                Shift(name, row["documents"], row["kept_documents"], row["share_before"], row["share_after"])
                for name, row in sorted(rows.items(), key=lambda one: (-one[1]["share_before"], one[0]))
            )
            for column, rows in decision["shares"].items()
        }
    before, after = _sources(first), _sources(last)
    all_before, all_after = max(1, sum(before.values())), max(1, sum(after.values()))
    rows = sorted(before, key=lambda name: (-before[name], name))
    return {
        "source": tuple(
            Shift(name, before[name], after.get(name, 0), before[name] / all_before, after.get(name, 0) / all_after)
            for name in rows
        )
    }


def _sources(store: DocumentStore) -> dict[str, int]:
    counts: dict[str, int] = {}
    for table in store.tables(["source"]):
        for row in pc.value_counts(table.column("source")).to_pylist():
            counts[row["values"]] = counts.get(row["values"], 0) + row["counts"]
    return counts


def _spreads(chosen: Ancestor | None, first: DocumentStore, last: DocumentStore) -> Iterator[Spread]:
    """Scores of the selection, and lengths of the texts."""
    if chosen is not None:
        store = open_documents(chosen.folder)
        parts = [read_columns(part, ["score", "kept"]) for part in store.side_parts("selection")]
        table = pa.concat_tables(parts).filter(pc.is_valid(pc.field("score"))) if parts else None
        if table is not None and table.num_rows:
            scores = table.column("score").to_numpy()
            kept = table.column("kept").to_numpy(zero_copy_only=False)
            yield _spread("score", "the score that the selection went by", scores, scores[kept])
    before, after = _lengths(first), _lengths(last)
    if len(before):
        yield _spread("length", "the length in bytes, as a power of ten", np.log10(1 + before), np.log10(1 + after))


def _lengths(store: DocumentStore) -> F64:
    found = [lengths_of(table.column("text")) for part in store.parts for table in read_groups(part, ["text"])]
    return np.concatenate(found).astype(np.float64) if found else np.zeros(0)


def _spread(name: str, unit: str, before: F64, after: F64) -> Spread:
    low, high = float(before.min()), float(before.max())
    edges = np.linspace(low, high if high > low else low + 1, _BINS + 1)
    counts = [np.histogram(one, edges)[0] for one in (before, after)]
    return Spread(
        name, unit, tuple(edges.tolist()), tuple(counts[0].tolist()), tuple(counts[1].tolist()),
        float(before.mean()), float(after.mean()) if len(after) else float("nan"),
    )  # fmt: skip


def _varieties(
    first: DocumentStore, last: DocumentStore, shifts: Mapping[str, Sequence[Shift]], sample: int
) -> tuple[Variety, Variety]:
    """Of both ends, on equally many runs of words."""
    texts = [_sampled(store, sample) for store in (first, last)]
    buffers = [buffers_of(one) for one in texts]
    runs = [shingle_texts(values, offsets, np.ones(len(offsets) - 1, np.bool_), 2)[0] for values, offsets in buffers]
    least = min(len(one) for one in runs)
    made = []
    for side, (values, offsets) in enumerate(buffers):
        rows = len(offsets) - 1
        shingles, counts = shingle_texts(values, offsets, np.ones(rows, np.bool_))
        own = {
            column: effective_number([one.after if side else one.before for one in rows_]) for column, rows_ in shifts.items()
        }
        made.append(
            Variety(
                rows, own.get("source", 0.0), own.get("domain"), gram_entropy(runs[side][:least]),
                near_rate(values, offsets, shingles, counts, NEAR),
            )
        )  # fmt: skip
    return made[0], made[1]


def _sampled(store: DocumentStore, most: int) -> pa.Array:
    """Texts of the first documents of every part; ids are hashes, so this is a random sample."""
    each = -(-most // max(1, len(store.parts)))
    found = []
    for part in store.parts:
        held = 0
        for table in read_groups(part, ["text"]):
            found.append(table.column("text").slice(0, each - held).combine_chunks())
            held += len(found[-1])
            if held >= each:
                break
    return pa.concat_arrays([pc.cast(one, pa.large_string()) for one in found]) if found else pa.array([], pa.large_string())


def _warnings(
    steps: Sequence[Step],
    shifts: Mapping[str, Sequence[Shift]],
    before: Variety,
    after: Variety,
    decision: Mapping[str, Any] | None,
) -> Iterator[str]:
    """What to look at, the graver first; every rule says itself."""
    for column, rows in shifts.items():
        starved = [one for one in rows if one.before >= STARVED_SHARE and one.after < STARVED_BELOW * one.before]
        if starved:
            said = ", ".join(f"{one.name} ({one.before:.1%} to {one.after:.1%})" for one in starved[:5])
            yield f"{len(starved)} of {len(rows)} {column}s starve, falling below a quarter of their share: {said}."
    if decision is not None:
        unit = decision["unit"]
        if decision["short"]:
            yield f"{decision['short']:,} {unit} of the budget of {decision['budget']:,} found no document."
        if decision["copied_amount"] > decision["met"] or decision["copies"] > sum(r["kept"] for r in decision["strata"]):
            more = decision["copies"] - sum(row["kept"] for row in decision["strata"])
            yield f"The budget repeats data: {more:,} copies besides {decision['copies'] - more:,} documents."
        if decision["budget"] and decision["met"] > 1.05 * decision["budget"]:
            yield (
                f"{decision['met'] / decision['budget'] - 1:.0%} more {unit} than the budget: each of"
                f" {len(decision['strata']):,} strata is met to one document, and documents are long beside their quotas."
            )
        for column, strength in decision.get("association", {}).items():
            if isinstance(strength, float) and strength >= _SORTS:
                yield f"The cut sorts by {column} (association {strength:.2f}), not by quality alone."
    if after.near > 0.05:
        yield f"{after.near:.1%} of the sampled documents that are kept resemble another at Jaccard {NEAR:g}: dedup --near."
    if before.gram_bits and after.gram_bits < 0.95 * before.gram_bits:
        yield f"What is kept says less: {after.gram_bits:.2f} bits a run of two words against {before.gram_bits:.2f} before."
    for step in steps:
        lost = step.balance.num_quarantined
        if lost > 0.01 * max(1, step.balance.entered):
            yield f"{step.stage} quarantined {lost:,} of {step.balance.entered:,} documents: look at their reasons."
