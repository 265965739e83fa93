"""Report: an analysis as a folder that a browser, a spreadsheet and a paper can use.

    report/  report.html         one file that needs no other: text, tables, figures, examples; light and dark, screen and paper
             figures/NAME.svg    each figure, and as .png
             data/NAME.csv       the numbers of each figure, and as .json
             summary.json        everything, for machines

The same analysis gives the same bytes. Texts of documents and names of sources are shown, never interpreted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import orjson

from typecase.app.analyse.analysing import Analysis, SetFacts
from typecase.app.analyse.examples import Example
from typecase.app.analyse.findings import findings_of
from typecase.app.analyse.tables import Table, rounded, sample_of, tables_of
from typecase.app.charts.ratings import Chart, charts_of
from typecase.app.charts.style import INK, RULE, SOFT, TAG, drawn, need_matplotlib, style
from typecase.errors import AlreadyExists, NeedsExtra
from typecase.store.atomic import write_bytes
from typecase.store.audit.files import visible

PAGE, SUMMARY = "report.html", "summary.json"
_FOLDERS = {"figures": (".svg", ".png"), "data": (".csv", ".json")}
_MOST_ROWS = 40
_EXAMPLE_SOURCES = 4


@dataclass(frozen=True, slots=True)
class Report:
    """Where a report lies and what it holds."""

    folder: Path
    page: Path
    figures: tuple[str, ...]
    tables: tuple[str, ...]


def as_dict(found: Analysis) -> dict[str, Any]:
    """An analysis as plain values: what `--json` prints and summary.json holds."""
    sets = [
        {
            "name": s.name,
            "content": s.content,
            "rubric": s.rubric.id,
            "rubric_version": s.rubric.version,
            "rubric_fingerprint": s.rubric.fingerprint,
            "scale": [s.rubric.low, s.rubric.high],
            "scale_is_found": s.found_scale,
            "summary": s.rubric.summary,
            "rows": s.rows,
            "readings": s.readings,
            "statuses": dict(s.statuses),
            "codes": dict(s.codes),
            "good_from": s.good_from,
            "without_source": s.without_source,
            "without_perplexity": s.without_surprise,
            "effective_criteria": rounded(s.axes.effective),
            "sample": sample_of(s),
            "findings": findings_of(s),
        }
        for s in found.sets
    ]
    inputs = [{"role": role, "name": name, "content": content} for role, name, content in found.inputs]
    return {"inputs": inputs, "seed": found.seed, "sets": sets, "tables": [table.as_dict() for table in tables_of(found)]}


def check_report(out: Path) -> None:
    """Raises NeedsExtra where a report cannot be made, AlreadyExists where something else lies in the folder."""
    need_matplotlib()
    try:
        import jinja2  # noqa: F401
    except ImportError:
        raise NeedsExtra("writing a report", "report") from None
    if out.exists() and not out.is_dir():
        raise AlreadyExists(f"{out} is a file; name a folder for the report")
    if out.is_dir() and any(out.iterdir()) and not (out / SUMMARY).is_file():
        raise AlreadyExists(f"{out} holds something that is no report; name another folder, or an empty one")


def write_report(found: Analysis, out: Path) -> Report:
    """Writes the folder; an older report there is replaced, its page last. See check_report for errors."""
    check_report(out)
    tables, charts = tables_of(found), charts_of(found)
    made: dict[str, bytes] = {}
    for table in tables:
        made[f"data/{table.name}.csv"] = table.csv().encode()
        made[f"data/{table.name}.json"] = _json(table.as_dict())
    pictures: dict[str, str] = {}
    with style():
        for chart in charts:
            svg, made[f"figures/{chart.name}.png"] = drawn(chart.draw(), chart.name)
            made[f"figures/{chart.name}.svg"] = svg
            pictures[chart.name] = inline(svg.decode(), chart.title)
    made[SUMMARY] = _json(as_dict(found))
    page = render(found, charts, tables, pictures)
    _forget(out, set(made))
    for name, data in made.items():
        write_bytes(out / name, data)
    write_bytes(out / PAGE, page.encode())
    return Report(out, out / PAGE, tuple(c.name for c in charts), tuple(t.name for t in tables))


def render(found: Analysis, charts: Sequence[Chart], tables: Sequence[Table], pictures: dict[str, str]) -> str:
    """The page. Everything that comes from data is escaped by the template; only our own pictures are not."""
    import jinja2

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"safe_line": visible, "block": _block, "cell": _cell}
    template = environment.from_string((files("typecase.app.analyse") / "page.html.j2").read_text("utf-8"))
    first = found.sets[0]
    sections: dict[str, list[Chart]] = {}
    for chart in charts:
        sections.setdefault(chart.section, []).append(chart)
    return template.render(
        found=found,
        first=first,
        sample=sample_of(first),
        facts=list(_facts(found, first)),
        findings=findings_of(first),
        sections=sections,
        pictures=pictures,
        tables={table.name: table for table in tables},
        most_rows=_MOST_ROWS,
        examples=_examples(found, first),
    )


def inline(svg: str, title: str) -> str:
    """An SVG of ours for a page: no prologue and no size of its own, and the page's ink instead of fixed colours."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)

    def coloured(tag: re.Match[str]) -> str:
        own = tag[0]
        for colour, name in ((INK, "ink"), (SOFT, "soft"), (RULE, "rule")):
            own = own.replace(colour, f"var(--{name})")
        return own.replace("'DejaVu Sans'", "var(--sans)")

    body = TAG.sub(coloured, body)
    body = re.sub(r'(<svg[^>]*?) (?:height|width)="[^"]*"', r"\1", body, count=1)
    body = re.sub(r'(<svg[^>]*?) (?:height|width)="[^"]*"', r"\1", body, count=1)
    label = title.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return body.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)


def _facts(found: Analysis, s: SetFacts) -> Iterator[tuple[str, str]]:
    yield f"{s.rows:,}", "documents"
    if s.summary is not None and s.summary.rows:
        yield f"{s.summary.mean:.2f}", f"mean {s.summary.name}"
        judged = sum(g.judged for g in s.sources)
        yield f"{sum(g.good for g in s.sources) / max(1, judged):.0%}", f"good, at {s.good_from:g} or above"
    if len(s.axes.columns) > 1:
        yield f"{s.axes.effective:.1f}", f"effective of {len(s.criteria)} criteria"
    if len(s.sources) > 1:
        yield f"{len(s.sources):,}", "sources"
    if len(s.domains) > 1:
        yield f"{len(s.domains):,}", "domains"
    if len(found.sets) > 1:
        yield f"{len(found.sets)}", "annotation sets"


@dataclass(frozen=True, slots=True)
class ExampleGroup:
    """Examples of one criterion, by falling level; those of the largest sources only."""

    criterion: str
    name: str
    question: str
    open: bool
    levels: tuple[tuple[int, str, tuple[Example, ...]], ...]


def _examples(found: Analysis, s: SetFacts) -> list[ExampleGroup]:
    shown = [e for e in found.examples if e.excerpt and e.source in {g.name for g in s.sources[:_EXAMPLE_SOURCES]}]
    groups = []
    for criterion in s.rubric.criteria:
        own = [e for e in shown if e.criterion == criterion.id]
        levels = tuple(
            (level, criterion.anchors.get(level, ""), tuple(e for e in own if e.level == level))
            for level in range(s.rubric.high, s.rubric.low - 1, -1)
        )
        levels = tuple(level for level in levels if level[2])
        if levels:
            name = criterion.name(s.rubric.language)
            groups.append(ExampleGroup(criterion.id, name, criterion.question, criterion.id == s.rubric.summary, levels))
    return sorted(groups, key=lambda g: not g.open)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else visible(str(value))


def _block(text: str) -> str:
    """A text over several lines, with characters that cannot be seen or that turn a line around as escapes."""
    return "\n".join(visible(line) for line in text.replace("\r\n", "\n").split("\n"))


def _json(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _forget(out: Path, names: set[str]) -> None:
    """Removes what an older report had and this one has not: figures and data only."""
    for folder, kinds in _FOLDERS.items():
        for path in sorted((out / folder).glob("*")):
            if path.suffix in kinds and f"{folder}/{path.name}" not in names:
                path.unlink()
