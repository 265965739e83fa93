"""What a person reads of a spike: the curve, the suspects with their evidence, what was done about them."""

from __future__ import annotations

from collections.abc import Sequence

from typecase.app.edit.printing import radius_lines
from typecase.app.printing import table
from typecase.app.spikes.doctor import Diagnosis, Sign, Suspect
from typecase.app.spikes.treatment import Treated
from typecase.core.spikes.curve import Spike

_SPIKES = 8
_WORDS = {
    "repeated": "{value:.0%} of its runs of 4 tokens repeat (usual {usual:.0%})",
    "stretch": "a stretch of {count:,} tokens repeats itself (usual {usual_count:,})",
    "surprise": "{value:.1f} bits a token under the counts (usual {usual:.1f})",
    "flagged": "{value:.1%} under-trained tokens (usual {usual:.1%})",
    "copied": "{value:.0%} like {of}",
    "length": "{count:,} tokens long (usual {usual_count:,})",
    "score": "{of} {value:.2f} (usual {usual:.2f})",
    "loss": "its own loss is {value:.2f} (usual {usual:.2f})",
}


def diagnosis_lines(found: Diagnosis, shown: Sequence[Suspect]) -> list[str]:
    """The spikes, what was looked at, the suspects, what could not be asked."""
    lines = [*_curve_lines(found)]
    steps = f"step {found.steps[0]}" if len(found.steps) == 1 else f"steps {found.steps[0]} to {found.steps[-1]}"
    lines += [f"looked at {steps}: {len(found.suspects):,} documents, {found.tokens:,} tokens", ""]
    for one in shown:
        lines += _suspect_lines(one)
    lines += [f"not asked, {name}: {why}" for name, why in found.unasked.items()]
    return lines


def _curve_lines(found: Diagnosis) -> list[str]:
    if not found.spikes:
        return []
    rows = [_spike(one, one == found.spike) for one in sorted(found.spikes, key=lambda one: -one.height)[:_SPIKES]]
    more = [f"  … and {len(found.spikes) - _SPIKES:,} more; --json gives all"] if len(found.spikes) > _SPIKES else []
    return [f"{len(found.spikes):,} spikes, the highest first", *(f"  {line}" for line in table(rows)), *more, ""]


def _spike(one: Spike, chosen: bool) -> tuple[str, ...]:
    steps = f"step {one.first}" if one.stop - one.first == 1 else f"steps {one.first} to {one.stop - 1}"
    height = "no number" if one.height == float("inf") else f"{one.height:.0f} deviations"
    return ("→" if chosen else " "), steps, f"loss {one.loss:.3f}", f"usual {one.usual:.3f}", height


def _suspect_lines(one: Suspect) -> list[str]:
    document = one.document
    place = "  ".join(part for part in ((document.doc_id or "")[:12], document.source, document.place) if part)
    of = f" of set {document.member}" if document.member else ""
    head = f"{one.rank:>3}. suspicion {one.suspicion:.1f}  document {document.doc}{of}  step {one.step}"
    lines = [f"{head}  {one.tokens:,} of {one.length:,} tokens  {place}".rstrip()]
    lines += [f"       {sign.z:4.1f}  {_words(sign)}" for sign in one.signs if sign.z >= 1.0]
    if one.text is not None:
        lines.append(f"       {' '.join(one.text.split())[:110]!r}")
    return lines


def _words(sign: Sign) -> str:
    counts = {"count": round(2**sign.value - 1), "usual_count": round(2**sign.usual - 1)} if sign.value < 60 else {}
    return _WORDS[sign.name].format(value=sign.value, usual=sign.usual, of=sign.of, **counts)


def treated_lines(done: Treated, how: str) -> list[str]:
    """What the treatment changes, and where it lies now."""
    num = len(done.planned.edits)
    word = {"drop": "dropped", "mask": "masked"}[how]
    lines = ["", f"{num:,} documents {'would be ' if done.entry is None else ''}{word}", *radius_lines(done.planned.radius)]
    if done.entry is not None:
        lines.append(f"journal entry {done.entry.id}; `typecase edit undo` takes it back")
    if done.written is not None:
        new = done.written
        lines.append(f"{new.prefix}: {new.num_documents:,} documents, {new.num_tokens:,} tokens, by {new.how}")
    return lines
