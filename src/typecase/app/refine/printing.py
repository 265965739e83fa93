"""A refined document, a report and a comparison, as a person reads them.

on a terminal    removed text struck through in red, replaced text followed by what it became in green
piped            `- ` a removed line, `~ ` a changed one with [-removed-] and {+new+} in it, `! ` held back by a guard
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from typecase.app.printing import size
from typecase.app.refine.diff import Difference
from typecase.app.refine.refining import EditedDocument, EditedLine, Piece, Said
from typecase.app.refine.stats import Kept, Programs, Statistics
from typecase.core.program.statistics import QUANTILES, Agreement

_MARKS = {"kept": "  ", "removed": "- ", "changed": "~ ", "held": "! "}
_CONTROLS = {c: f"\\x{c:02x}" for c in (*range(9), *range(10, 32), *range(127, 160))}
_SHOWN_STATEMENTS = 40


def document_lines(one: EditedDocument, *, color: bool = False) -> list[str]:
    """The document with its edits marked, then its program: who proposed what, how sure, and the verdict."""
    reason = f" ({one.reason})" if one.reason else ""
    detail = f": {one.detail}" if one.detail else ""
    sizes = f"{one.bytes_before:,} -> {one.bytes_after:,} bytes"
    lines = [f"{one.doc_id}  {one.source}  {one.status}{reason}{detail}  {sizes}", ""]
    struck = one.status == "dropped"
    lines += [_line(line, color=color, struck=struck) for line in one.lines]
    lines += ["", "program"]
    lines += [f"  {_visible(line)}" for line in _statements(one.statements)]
    if one.decision is not None:
        scores = ", ".join(f"{name} {'none' if value is None else f'{value:g}'}" for name, value in one.scores.items())
        lines.append(f"  decision of the refiner: {one.decision}{f' ({scores})' if scores else ''}")
    if one.calls:
        lines.append(f"  {one.calls} chunk{'s' * (one.calls > 1)} asked, {one.rejected or 0} without an edit that could be run")
    for chunk, code, message in one.refusals:
        where = f"chunk {chunk}" if chunk >= 0 else "document"
        lines.append(_visible(f"  refused, {where}: {code} {message}"))
    return lines


def _statements(statements: Sequence[Said]) -> list[str]:
    lines = []
    for said in statements[:_SHOWN_STATEMENTS]:
        by = f"{said.by} {said.version}".strip() or "nobody in particular"
        about = f": {said.about}" if said.about else ""
        lines.append(f"{said.statement}   {by}, {said.confidence:.2f}, {said.verdict}{about}")
    if len(statements) > _SHOWN_STATEMENTS:
        lines.append(f"… and {len(statements) - _SHOWN_STATEMENTS:,} more")
    return lines


def _line(line: EditedLine, *, color: bool, struck: bool) -> str:
    kind = "removed" if struck else line.kind
    if color:
        return f"{click.style(f'{line.number:>5} ', dim=True)}{''.join(_styled(piece) for piece in line.pieces)}"
    whole = len(line.pieces) < 2 and kind != "changed"
    return f"{_MARKS[kind]}{''.join(_visible(p.text) if whole else _marked(p) for p in line.pieces)}"


def _styled(piece: Piece) -> str:
    text = _visible(piece.text)
    if piece.kind == "kept":
        return text
    if piece.kind == "held":
        return click.style(text, fg="yellow", underline=True)
    return click.style(text, fg="red", strikethrough=True) + (
        click.style(_visible(piece.target), fg="green") if piece.target else ""
    )


def _marked(piece: Piece) -> str:
    text = _visible(piece.text)
    if piece.kind == "kept":
        return text
    new = f"{{+{_visible(piece.target)}+}}" if piece.target else ""
    return f"[-{text}-]{new}"


def _visible(text: str) -> str:
    """A terminal does not obey what a document says."""
    return text.translate(_CONTROLS)


def statistics_lines(found: Statistics) -> list[str]:
    """The report of a run on a screen or two."""
    lines = [f"refined by {found.by}", ""]
    lines += _kept_table("", (found.total,), "all")
    lines += [f"  {number:>9,}  dropped by {reason}" for reason, number in _most_first(found.dropped)]
    if len(found.sources) > 1:
        lines += ["", *_kept_table("by source", found.sources[:20])]
    lines += ["", *_kept_table("by length before, in units", found.buckets), "", *_length_lines(found), ""]
    lines += _program_lines(found.programs)
    if found.flops is not None:
        cost = found.flops
        tokens = cost.tokens_in + cost.tokens_out
        alike = cost.flops == 2 * cost.parameters * tokens
        how = f"= 2 · {cost.parameters:,} parameters · {tokens:,} tokens" if alike else f"of two models on {tokens:,} tokens"
        lines += [
            "",
            f"cost: {cost.flops:.2e} FLOPs {how};"
            f" the training of {cost.trained_parameters / 1e9:.1f} B parameters on {cost.training_tokens:,.0f} tokens",
        ]
    for title, tops in (("lines", found.top_lines), ("strings", found.top_strings)):
        if tops:
            lines += ["", f"{title} removed most often, in {found.looked:,} documents"]
            lines += [f"  {number:>7,}  {_visible(text)}" for text, number in tops]
    if found.largest:
        lines += ["", "largest deletions"]
        for one in found.largest:
            piece = _visible(" ".join(one.piece.split())[:90])
            lines.append(f"  {one.doc_id}  {size(one.removed_bytes)} of {size(one.bytes_before)}: {piece}")
    return lines


def _kept_table(title: str, rows: Sequence[Kept], name: str = "") -> list[str]:
    lines = [
        f"{title:<28}{'documents':>10}{'kept':>8}{'edited':>8}{'bytes':>10}{'after doc.':>11}{'kept':>8}{'units kept':>12}"
    ]
    for row in rows:
        lines.append(
            f"  {_visible(name or row.name)[:25]:<26}{row.documents_in:>10,}{_percent(row.documents_out, row.documents_in):>8}"
            f"{_percent(row.edited, row.documents_in):>8}{size(row.bytes_in):>10}"
            f"{_percent(row.bytes_documents, row.bytes_in):>11}{_percent(row.bytes_out, row.bytes_in):>8}"
            f"{_percent(row.units_out, row.units_in):>12}"
        )
    return lines


def _length_lines(found: Statistics) -> list[str]:
    heads = "".join(f"{f'{percent}%':>8}" for percent in QUANTILES)
    lines = [f"{'units per document':<28}{'mean':>10}{heads}{'< 200':>8}"]
    for name, lengths in (("before", found.before), ("after", found.after)):
        numbers = "".join(f"{number:>8,}" for number in lengths.quantiles)
        lines.append(f"  {name:<26}{lengths.mean:>10,.1f}{numbers}{100 * lengths.short:>7.1f}%")
    return lines


def _program_lines(programs: Programs) -> list[str]:
    sizes = ", ".join(f"{name}: {number:,}" for name, number in programs.per_program.items())
    lines = [f"statements per program     {sizes}; mean {programs.mean_calls:.1f} where there is one"]
    for title, counts in (
        ("operations run", programs.operations),
        ("proposed by", programs.rules),
        ("statements not run", programs.codes),
        ("programs refused", programs.refused),
        ("answers refused", programs.refusals),
    ):
        if counts:
            lines.append(f"{title:<27}{', '.join(f'{name} {number:,}' for name, number in list(counts.items())[:12])}")
    for source, codes in programs.guarded.items():
        lines.append(f"{'guards':<27}{source}: {', '.join(f'{code} {number:,}' for code, number in codes.items())}")
    if programs.asked:
        rate = programs.chunk_failures
        failed = f", {100 * rate:.2f}% of them failed" if rate is not None else ""
        lines.append(
            f"{'refiner':<27}{programs.asked:,} documents, {programs.chunks:,} chunks{failed}, {programs.truncated:,} cut off"
        )
    return lines


def difference_lines(found: Difference) -> list[str]:
    """Two runs compared, the second as the reference."""
    lines = [f"A {found.first}", f"B {found.second}", ""]
    lines.append(
        f"{found.compared:,} documents compared, {found.same:,} with the same result ({_percent(found.same, found.compared)})"
    )
    for number, about in (
        (found.only_first, "in A alone"),
        (found.only_second, "in B alone"),
        (found.other_text, "with another text"),
    ):
        if number:
            lines.append(f"  {number:,} {about}, left out")
    lines += ["", "status in A / in B"]
    lines += [f"  {number:>9,}  {pair}" for pair, number in found.crossed.items()]
    lines += ["", f"{'A against B':<20}{'both':>9}{'A alone':>9}{'B alone':>9}{'precision':>11}{'recall':>9}{'F1':>9}"]
    for name, one in (("dropped documents", found.drops), ("removed lines", found.lines)):
        lines.append(_agreement_line(name, one))
    for example in found.examples:
        lines += ["", f"{example.doc_id}  {_fate(example.first)} / {_fate(example.second)}"]
        lines += [f"  A - {_visible(line)}" for line in example.first_lines]
        lines += [f"  B - {_visible(line)}" for line in example.second_lines]
        lines += [f"      {_visible(example.begins)}"] if example.begins else []
        if (more := example.only_first + example.only_second - len(example.first_lines) - len(example.second_lines)) > 0:
            lines.append(f"  … and {more:,} lines more")
    return lines


def _fate(fate: tuple[str, str]) -> str:
    return f"{fate[0]} ({fate[1]})" if fate[1] else fate[0]


def _agreement_line(name: str, one: Agreement) -> str:
    shares = "".join(f"{'–' if value is None else f'{value:.3f}':>{width}}" for value, width in (
        (one.precision, 11), (one.recall, 9), (one.f1, 9)
    ))  # fmt: skip
    return f"  {name:<18}{one.both:>9,}{one.only_first:>9,}{one.only_second:>9,}{shares}"


def _most_first(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}%" if whole else "–"
