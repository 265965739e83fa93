"""Refiner card: what a fitted language model refiner was taught, and how it did on sources that it was not taught.

    figures_of(refiner, free, pairs) -> plain numbers      card_text(figures, …) -> Markdown

Lines are measured as for the tagger (core/twins/agreement): precision, recall and F1 of removed lines, the share of clean
characters that were deleted, and the share of clean texts that came out untouched. `exact` counts texts whose removed lines
are those of the pair. `valid` counts answers that are programs: constrained ones are by construction, free ones are asked
once more.
The card holds no clock, host or path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from typecase.core.program.language import Program, Statement
from typecase.core.program.parse import parse
from typecase.core.program.proposal import Proposal
from typecase.core.twins.agreement import tally, total
from typecase.core.twins.marks import Twin
from typecase.lm.refine.refiner import Refiner
from typecase.lm.tagger.card import removed_lines
from typecase.train.refiner_pairs import Pair

CARD = "REFINER_CARD.md"


def figures_of(refiner: Refiner, free: Refiner | None, pairs: Sequence[Pair]) -> dict[str, Any]:
    """All figures; `free` is the same model unconstrained, asked only how many of its answers are programs."""
    lines = [pair for pair in pairs if pair.program is not None]
    judged = [pair for pair in pairs if pair.decision is not None]
    figures: dict[str, Any] = {"texts": len(pairs), "sources": sorted({pair.source for pair in pairs})}
    if lines:
        twins = [_twin(pair) for pair in lines]
        proposals = refiner.propose([twin.text for twin in twins])
        removed = [removed_lines(one) for one in proposals]
        clean = [replace(twin, text=twin.clean, gone=()) for twin in twins]
        untouched = total(
            tally(twin, removed_lines(one)) for twin, one in zip(clean, refiner.propose([t.text for t in clean]), strict=True)
        )
        figures["lines"] = total(tally(twin, own) for twin, own in zip(twins, removed, strict=True)).figures()
        figures["lines"]["untouched"] = untouched.figures()["untouched"]
        exact = sum(own == _written(twin) for twin, own in zip(twins, removed, strict=True))
        figures["exact"] = round(exact / len(twins), 4)
        figures["valid"] = _valid(proposals)
        figures["valid_free"] = _valid(free.propose([twin.text for twin in twins])) if free is not None else None
    if judged:
        figures["decisions"] = _decisions(refiner, judged)
    return figures


def _twin(pair: Pair) -> Twin:
    """The pair as a twin: its lines that go."""
    program = parse(pair.program or "")
    assert isinstance(program, Program), "read_pairs gives programs that were shown by us"
    gone = {line for s in program.statements if s.name == "remove_lines" for line in range(s.line_start, s.line_end + 1)}
    lines = pair.text.split("\n")
    kept = tuple(line for line in sorted(gone) if line < len(lines) and lines[line].strip())
    return Twin(pair.text, kept, pair.source, pair.source, pair.source, "", "")


def _written(twin: Twin) -> set[int]:
    return set(twin.gone)


def _valid(proposals: Sequence[Proposal]) -> float | None:
    """The share of answers that are programs."""
    answers = [answer for one in proposals for answer in one.answers]
    wrong = sum(bool(answer.refusals) or answer.truncated for answer in answers)
    return round(1 - wrong / len(answers), 4) if answers else None


def _decisions(refiner: Refiner, pairs: Sequence[Pair]) -> dict[str, Any]:
    said = [one.decision for one in refiner.propose([pair.text for pair in pairs])]
    told = [getattr(one, "name", None) for one in said if one is None or isinstance(one, Statement)]
    if not any(told):
        return {"texts": len(pairs), "accuracy": None, "majority": None}
    right = sum(getattr(one, "name", "") == f"{pair.decision}_doc" for one, pair in zip(said, pairs, strict=True))
    most = max(sum(pair.decision == name for pair in pairs) for name in ("keep", "drop"))
    return {"texts": len(pairs), "accuracy": round(right / len(pairs), 4), "majority": round(most / len(pairs), 4)}


def card_text(figures: Mapping[str, Any], made: Mapping[str, Any]) -> str:
    """The card as Markdown."""
    taught = ", ".join(f"{name} {count:,}" for name, count in made["kinds"].items() if count)
    lost = ", ".join(f"{reason} {count:,}" for reason, count in made["lost"].items()) or "none"
    parts = [
        f"# {made['name']}: a language model that writes refining programs ({made['domain']})",
        f"Made from {made['base']} with {made['parameters']:,} weights, {made['trained']:,} of them trained{made['how']}, by"
        f" `typecase refiner fit`; fingerprint `{made['fingerprint']}`, seed {made['seed']}.",
        "## What it was taught",
        f"{made['pairs']:,} texts of {made['taught_sources']:,} sources ({taught}), as {made['examples']:,} questions in the"
        f" form `{made['form']}`, stages {', '.join(made['stages'])}; {made['idle']:,} of them with nothing to do."
        f" Left out: {lost}."
        f" {made['best_step']} of {made['steps']} steps gave the best held-out loss, {made['held_out_loss']:.3f} nats a token.",
        "## How it does, on sources that it was not taught",
        _measured(figures),
        "## Limits",
        _limits(figures),
    ]
    return "\n\n".join(parts) + "\n"


def _measured(figures: Mapping[str, Any]) -> str:
    said = [f"{figures['texts']:,} texts of {', '.join(figures['sources'])}."]
    if row := figures.get("lines"):
        said += [
            "| precision | recall | F1 | clean characters deleted | clean texts untouched | exact |\n"
            "|---|---|---|---|---|---|\n"
            f"| {row['precision']:.3f} | {row['recall']:.3f} | {row['f1']:.3f} | {100 * row['over_deletion']:.2f} % |"
            f" {100 * row['untouched']:.1f} % | {100 * figures['exact']:.1f} % |"
        ]
        free = figures["valid_free"]
        other = f"; asked freely {100 * free:.1f} %" if free is not None else ""
        said += [f"Answers that are programs: {100 * (figures['valid'] or 0):.1f} % constrained{other}."]
    if (row := figures.get("decisions")) and row["accuracy"] is not None:
        said += [
            f"Keep or drop: {100 * row['accuracy']:.1f} % of {row['texts']:,} right, always the most frequent"
            f" {100 * row['majority']:.1f} %."
        ]
    return "\n\n".join(said)


def _limits(figures: Mapping[str, Any]) -> str:
    row = figures.get("lines")
    weak = row is not None and (row["f1"] < 0.85 or row["over_deletion"] > 0.005 or row["untouched"] < 0.98)
    told = "- It misses what the shipped tagger is held to (F1 0.85, 0.5 % deleted, 98 % untouched); compare before use.\n"
    return (told if weak else "") + (
        "- Guards stay on when it is run: what deletes too much is refused, with the reason.\n"
        "- It removes; it never writes a word. Pages unlike those of its sources are not measured here."
    )
