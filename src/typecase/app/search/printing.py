"""What a person reads of a search: hits with their context, quoted stretches."""

from __future__ import annotations

from collections.abc import Sequence

from typecase.app.printing import table
from typecase.app.search.searching import Hit, Quoted, Searched
from typecase.store.index.phrases import Variant

_STEPS = 6


def found_lines(found: Searched, variants: Sequence[Variant], as_text: int | None, *, colour: bool) -> list[str]:
    """The count, the variants of the text with theirs, and the hits."""
    lines = [
        f"{found.asked!r}: {found.count:,} times as these tokens"
        if as_text is not None
        else f"{found.asked}: {found.count:,} times"
    ]
    if as_text is not None:
        lines[0] += f", {as_text:,} times as text however it is cut into tokens"
    variants = [v for v in variants[1:] if v.count]
    if variants:
        rows = [(f"{v.count:,}", repr(v.text), v.reason) for v in variants]
        lines += ["  other ways to write it", *(f"    {line}" for line in table(rows))]
    for hit in found.hits:
        lines += ["", *_hit(hit, colour)]
    return lines


def _hit(hit: Hit, colour: bool) -> list[str]:
    d = hit.document
    score = d.scores.get("overall_score")
    known = [d.doc_id[:12] if d.doc_id else "", d.source or "", d.place or ""]
    known += [f"overall_score {score:.1f}"] if isinstance(score, int | float) else []
    head = f"document {d.doc} [{hit.start:,}, {hit.stop:,})  {'  '.join(k for k in known if k)}".rstrip()
    own = f"\x1b[1;31m{hit.text}\x1b[0m" if colour else f"⟦{hit.text}⟧"
    lines = [head, "  " + (hit.before + own + hit.after).replace("\n", "⏎")]
    if hit.sightings:
        steps = [str(s.seat.step) for s in hit.sightings if s.seat is not None]
        more = f" … {len(steps) - _STEPS} more" if len(steps) > _STEPS else ""
        lines.append(f"  trained at step {', '.join(steps[:_STEPS])}{more}" if steps else "  never trained within the run")
    return lines


def quoted_lines(found: Sequence[Quoted], total: int) -> list[str]:
    """Stretches of a text that stand in the set."""
    covered = len({k for q in found for k in range(q.start, q.stop)})
    lines = [f"{covered:,} of {total:,} tokens stand verbatim in the set, in {len(found):,} stretches"]
    for q in found:
        lines.append(f"  [{q.start}, {q.stop})  {q.count:,} times  {q.text!r}")
        lines += [f"      document {d.doc}  {d.doc_id or ''}  {d.source or ''}  {d.place or ''}".rstrip() for d in q.documents]
    return lines
