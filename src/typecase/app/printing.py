"""What a person reads on a terminal: balances, summaries, trees. Plain text, aligned; JSON is made elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from typecase.app.health import ArtifactExamination
from typecase.app.views import ArtifactInfo, ShownDocument, ShownTokens, TokenSetInfo
from typecase.core.balance import Balance
from typecase.recipe.run import Artifact
from typecase.recipe.why import Fate
from typecase.store.tokens.doctor import Examination


def balance_lines(balance: Balance) -> list[str]:
    """The balance as one sum and a line for each reason."""
    lines = [
        f"in {balance.entered:,} = kept {balance.kept:,} + removed {balance.num_removed:,}"
        f" + quarantined {balance.num_quarantined:,}"
    ]
    for name, reasons in (("removed", balance.removed), ("quarantined", balance.quarantined)):
        for reason, number in sorted(reasons.items(), key=lambda item: (-item[1], item[0])):
            lines.append(f"  {name:<12}{number:>9,}  {reason}")
    return lines


def artifact_lines(artifact: Artifact) -> list[str]:
    """A stage's result: where it lies, its balance and its counts."""
    manifest = artifact.manifest
    state = "  (was there already)" if artifact.reused else ""
    lines = [f"{manifest.stage} -> {shown_path(artifact.folder)}{state}"]
    if manifest.balance is not None:
        lines += [f"  {line}" for line in balance_lines(manifest.balance)]
    if counts := counts_line(manifest.counts):
        lines.append(f"  {counts}")
    return lines


def counts_line(counts: Mapping[str, int]) -> str:
    """Documents, bytes of text and tokens, whichever are known."""
    parts = []
    if counts.get("text_bytes"):
        parts.append(f"text {size(counts['text_bytes'])}")
    if counts.get("tokens"):
        parts.append(f"{counts['tokens']:,} tokens")
    return ", ".join(parts)


def summary_lines(name: str, artifacts: Sequence[Artifact]) -> list[str]:
    """A finished recipe on one screen: a row for each stage, then where the results lie."""
    lines = [f"recipe {name}", "", f"  {'stage':<8}{'in':>9}{'kept':>9}{'removed':>9}{'quarant.':>9}{'text':>10}{'tokens':>11}"]
    for artifact in artifacts:
        b, counts = artifact.manifest.balance, artifact.manifest.counts
        if b is None:
            continue
        text = size(counts["text_bytes"]) if counts.get("text_bytes") else ""
        tokens = f"{counts['tokens']:,}" if counts.get("tokens") else ""
        numbers = "".join(f"{n:>9,}" for n in (b.entered, b.kept, b.num_removed, b.num_quarantined))
        lines.append(f"  {artifact.manifest.stage:<8}{numbers}{text:>10}{tokens:>11}")
    lines += ["", *reason_lines(artifacts), "", "results"]
    lines += [f"  {a.manifest.stage:<8}{shown_path(a.folder)}" for a in artifacts]
    return lines


def reason_lines(artifacts: Sequence[Artifact]) -> list[str]:
    """Why documents left, over all stages."""
    lines = ["why documents left"]
    for artifact in artifacts:
        balance = artifact.manifest.balance
        if balance is None:
            continue
        reasons = [(r, n, "") for r, n in balance.removed.items()] + [
            (r, n, " (quarantined)") for r, n in balance.quarantined.items()
        ]
        for reason, number, note in sorted(reasons, key=lambda item: (-item[1], item[0])):
            lines.append(f"  {artifact.manifest.stage:<8}{number:>6,}  {reason}{note}")
    return lines if len(lines) > 1 else ["no document left"]


def fate_lines(doc_id: str, told: Sequence[Fate]) -> list[str]:
    """What became of a document, a line for each stage."""
    rows = []
    for one in told:
        shown = [f"{k} {_short(v)}" for k, v in one.detail.items() if v not in (None, "", [], {}) and v != one.reason]
        rows.append((one.stage, one.outcome, ", ".join([one.reason, *shown] if one.reason else shown)))
    return [f"document {doc_id}", *(f"  {line}" for line in table(rows))]


def _short(value: object) -> str:
    text = f"{value:.2f}" if isinstance(value, float) else str(value).replace("\n", "; ")
    return text if len(text) <= 80 else text[:77] + "…"


def size(size_bytes: int) -> str:
    """Bytes in decimal units."""
    value = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} TB"


def shown_path(path: Path) -> str:
    """A path as short as it can be said from here."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns aligned to the left, two blanks apart."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))] if rows else []
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def info_lines(found: TokenSetInfo | ArtifactInfo) -> list[str]:
    """What lies at a path."""
    if isinstance(found, ArtifactInfo):
        lines = [f"{found.path}: {found.kind}, made by {found.stage}", f"  {found.rows:,} rows in {found.parts} parts"]
        if counts := counts_line(found.counts):
            lines.append(f"  {counts}")
        lines += [f"  {number:>9,}  {source or '(no source)'}" for source, number in found.sources.items()]
        return [*lines, f"  fingerprint {found.fingerprint}", f"  content     {found.content}"]
    lines = [
        f"{found.path}: token set, {found.format}, {found.dtype}",
        f"  {found.documents:,} documents, {found.sequences:,} sequences, {found.tokens:,} tokens, {size(found.bin_bytes)}",
        f"  tokens a document: {found.shortest:,} to {found.longest:,}, median {found.median:,}",
        f"  provenance {'yes' if found.provenance else 'no'}, tokenizer {found.tokenizer or 'not recorded'}",
    ]
    return [*lines, *(f"  {note}" for note in found.notes)]


_BREAK = "│"
_TINTS = ("48;5;254", "48;5;252")


def shown_lines(shown: Sequence[ShownTokens] | Sequence[ShownDocument], *, ids: bool, colour: bool) -> list[str]:
    """Documents for a person: a head line, the text with its token boundaries, the ids when asked."""
    lines: list[str] = []
    for one in shown:
        if isinstance(one, ShownDocument):
            meta = "  ".join(f"{k}={_short(v)}" for k, v in one.meta.items())
            lines += [f"== {one.doc_id}  {one.source}  {one.place}  {one.text_bytes:,} bytes  {meta}".rstrip(), one.text, ""]
            continue
        head = "  ".join(v for v in (one.doc_id, one.source, one.place) if v)
        cut = f", first {len(one.tokens):,} shown" if len(one.tokens) < one.num_tokens else ""
        lines.append(f"== document {one.doc}  {head}  {one.num_tokens:,} tokens{cut}")
        if one.pieces is not None:
            lines.append(_marked(one.pieces, set(one.boundaries), colour))
        if ids or one.pieces is None:
            lines.append(" ".join(map(str, one.tokens)))
        lines.append("")
    return lines


def _marked(pieces: Sequence[str], boundaries: set[int], colour: bool) -> str:
    """Token boundaries as changing shades on a terminal, else as bars; a sequence begins at a double bar."""
    if colour:
        tinted = (f"\x1b[{_TINTS[i % 2]}m\x1b[38;5;16m{piece}\x1b[0m" for i, piece in enumerate(pieces))
        return "".join(("║" if i in boundaries else "") + piece for i, piece in enumerate(tinted))
    return "".join(("║" if i in boundaries else _BREAK if i else "") + piece for i, piece in enumerate(pieces))


def examination_lines(exam: Examination | ArtifactExamination) -> list[str]:
    """What the doctor found, errors first."""
    if isinstance(exam, ArtifactExamination):
        lines = [f"{exam.path}: {exam.kind}, {exam.files} files"]
    else:
        what = f"{exam.format or 'unreadable'}, {exam.dtype or '?'}"
        lines = [f"{exam.prefix}: {what}, {exam.num_documents:,} documents, {exam.num_tokens:,} tokens"]
        if exam.eod is not None and exam.eod.eod is not None:
            lines.append(f"  {exam.eod.num_ending:,} of {exam.eod.num_documents:,} documents end with id {exam.eod.eod}")
        if exam.census is not None and exam.census.max_id is not None:
            lines.append(f"  ids from {exam.census.min_id:,} to {exam.census.max_id:,}")
        if exam.round_trip is not None:
            lines.append(f"  {exam.round_trip:.0%} of sampled documents come back identical from decode and encode")
    for finding in exam.findings:
        place = [f"document {finding.document}"] if finding.document is not None else []
        place += [f"byte {finding.byte}"] if finding.byte is not None else []
        where = f"  ({', '.join(place)})" if place else ""
        lines.append(f"  {finding.severity:<8}{finding.code}: {finding.message}{where}")
    return [*lines, "healthy" if exam.ok else "damaged: `--repair FOLDER` saves the whole documents of a token set"]
