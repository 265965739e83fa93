"""What a person reads of a training run: samples with their documents, sightings, plans, comparisons."""

from __future__ import annotations

from collections.abc import Sequence

from typecase.app.printing import table
from typecase.app.trace.tracing import ShownSample, Traced
from typecase.store.timeline.report import Comparison, RunReport, Share
from typecase.store.timeline.samples import SamplePiece, Seat
from typecase.store.timeline.timeline import Sighting

_BORDER = "║"
_SHOWN = 40


def sample_lines(shown: Sequence[ShownSample], *, limit: int, ids: bool) -> list[str]:
    """Samples: a head line, a line for each document, the text with borders between documents, and the padding."""
    lines: list[str] = []
    for one in shown:
        s = one.sample
        lines.append(f"== index {s.index}  {_seat(s.seat)}  sample {s.sample}{_of(s.member)}  {s.num_tokens:,} tokens")
        lines += [f"   {line}" for line in table([_piece(p, s.member) for p in s.pieces])]
        if one.texts is not None and limit:
            more = f" … [{len(s.tokens) - limit:,} more tokens]" if len(s.tokens) > limit else ""
            lines.append(_BORDER.join(t for t in one.texts if t) + more + (f" [+{s.padding} padding]" if s.padding else ""))
        elif s.padding:
            lines.append(f"   {s.padding} tokens of padding")
        if ids or (one.texts is None and limit):
            lines.append(" ".join(map(str, s.tokens[:limit].tolist())))
        lines.append("")
    return lines


def _seat(seat: Seat | None) -> str:
    if seat is None:
        return "beyond the run"
    skipped = "" if seat.trained else " (skipped: consumed, not trained)"
    return f"step {seat.step}  micro-batch {seat.micro_batch}  rank {seat.rank}  slot {seat.slot}{skipped}"


def _of(member: int) -> str:
    return f" of set {member}" if member else ""


def _piece(piece: SamplePiece, member: int) -> tuple[str, ...]:
    d = piece.document
    scores = d.scores.get("overall_score")
    score = f"overall_score {scores:.1f}" if isinstance(scores, int | float) else ""
    known = [part for part in (d.source, d.place, score) if part]
    name = f"document {d.doc}" + (f" of set {member}" if member else "")
    return f"at {piece.at}", name, (d.doc_id or "")[:12], f"tokens [{piece.start:,}, {piece.stop:,})", "  ".join(known)


def sighting_lines(traced: Traced) -> list[str]:
    """Where something is trained, a line a place."""
    places = traced.sightings
    steps = sorted({s.seat.step for s in places if s.seat is not None})
    head = f"{traced.asked}: {traced.hits:,} in the set, {len(places):,} places in the order"
    lines = [head + (f", steps {steps[0]:,} to {steps[-1]:,}" if steps else ", none within the run")]
    rows = [_sighting(s) for s in places[:_SHOWN]]
    lines += [f"  {line}" for line in table(rows)]
    if len(places) > _SHOWN:
        lines.append(f"  … and {len(places) - _SHOWN:,} more; --json gives all")
    return [*lines, f"  {traced.note}"] if traced.note else lines


def _sighting(s: Sighting) -> tuple[str, ...]:
    when = f"step {s.seat.step}" if s.seat else "after the run"
    rank = f"rank {s.seat.rank}" if s.seat else ""
    if s.seat and not s.seat.trained:
        rank += " (skipped)"
    where = f"document {s.document.doc} [{s.start:,}, {s.stop:,})"
    return when, rank, f"index {s.index}", f"sample {s.sample}", f"at {s.at}", where, f"epoch {s.epoch}"


def plan_lines(found: RunReport) -> list[str]:
    """A run in numbers."""
    steps = f"{found.steps:,} steps" if found.steps is not None else "no end"
    lines = [
        f"{found.framework}, {found.split}: {steps}, {found.samples_trained:,} of {found.samples_offered:,} samples"
        f" of {found.sample_tokens:,} tokens",
        f"  {found.trained_tokens:,} tokens trained, {found.padding_tokens:,} slots of padding,"
        f" {found.cut_tokens:,} tokens cut off",
        *(f"  {note}" for note in found.notes),
    ]
    for member in found.members:
        lines += ["", member.path]
        total = max(1, found.trained_tokens)
        rows = [_share("", member.whole, total)]
        for name, shares in member.groups.items():
            rows += [_share(name, share, total) for share in shares]
        head = ("", "documents", "epochs", "share", "repeated", "unseen", "repeats from")
        lines += [f"  {line}" for line in table([head, *rows])]
    return lines


def _share(name: str, share: Share, total: int) -> tuple[str, ...]:
    first = "" if share.first_repeat_index is None else f"index {share.first_repeat_index:,}"
    if share.first_repeat_step is not None:
        first = f"step {share.first_repeat_step:,}"
    return (
        f"{name} {share.name}".strip(),
        f"{share.documents:,}",
        f"{share.epochs:.3f}",
        f"{share.trained_tokens / total:.1%}",
        f"{share.repeated_tokens:,}",
        f"{share.unseen_documents:,}",
        first or "never",
    )


def comparison_lines(found: Comparison) -> list[str]:
    """What a new run changes against an old one."""
    order = "the same order" if found.same_order else f"another order, from sample {found.first_difference:,}"
    lines = [f"up to step {found.step:,} ({found.samples_before:,} samples): {order}"]
    for path in found.repeated:
        before, after = found.shares_before.get(path, 0.0), found.shares_after.get(path, 0.0)
        lines.append(
            f"  {path}: share {before:.1%} before, {after:.1%} after; {len(found.repeated[path]):,} documents trained again,"
            f" {len(found.skipped[path]):,} never"
        )
        for name, docs in (("again", found.repeated[path]), ("never", found.skipped[path])):
            if docs:
                some = ", ".join(map(str, docs[:8])) + (" …" if len(docs) > 8 else "")
                lines.append(f"    {name}: documents {some}")
    return lines
