"""The report of an audit as a folder: for a browser, for a review, for a notebook and for training code.

    report/  report.html              one file that needs no other: findings, figures, tables; light and dark, screen and paper
             report.md                the same in text, in the order of the published reports
             tokens.parquet, .jsonl   a row for each token: everything that the audits say of it
             ids.json, ids/NAME.npy   ids to mask, drop, replace, re-initialise and retrain; int64, rising
             figures/NAME.svg         each figure

The same verdict gives the same bytes. Tokens are shown, never interpreted: what cannot be seen is written as an escape.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa

from typecase.app.audit.sections import (
    DECISIONS,
    Section,
    calibration_of,
    findings_of,
    rows_of,
    sections_of,
    shown,
)
from typecase.app.audit.verdict import Verdicts
from typecase.app.options import plain
from typecase.core.glitch.decision import SUSPECT, UNDER_TRAINED
from typecase.errors import AlreadyExists, NeedsExtra
from typecase.store.atomic import write_bytes, write_json
from typecase.store.audit.files import escaped, markdown_rows, visible, write_table

if TYPE_CHECKING:
    from typecase.app.search.searching import Hit, Search

PAGE, TEXT, TABLE, LINES, IDS = "report.html", "report.md", "tokens.parquet", "tokens.jsonl", "ids.json"
_PAGE_ROWS, _TEXT_ROWS, _OPEN = 300, 1000, 20
_SAID_OF_A_TABLE = 400

Header = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AuditReport:
    """Where a report lies: its page (None without pictures), its files by name, and how many ids each list holds."""

    folder: Path
    page: Path | None
    files: tuple[str, ...]
    lists: Mapping[str, int]


def write_audit_report(
    found: Verdicts, out: str | Path, *, basis: Sequence[tuple[str, Header]] = (), pictures: bool = True
) -> AuditReport:
    """Writes the folder; an older report there is replaced, its page last.

    `basis` are the tables that were joined, by name, with their headers. Without `pictures` there is no page, and no library
    is needed but those of the base. Raises NeedsExtra, AlreadyExists where something else lies there.
    """
    out = Path(out)
    _check(out, pictures)
    sections, header = sections_of(found), plain(found.header())
    basis = [(name, plain(dict(own))) for name, own in basis]
    made = [TABLE, LINES]
    for name in made:
        write_table(out / name, found.table, header)
    lists = found.lists()
    write_json(out / IDS, lists)
    made.append(IDS)
    for name, ids in lists.items():
        write_bytes(out / "ids" / f"{name}.npy", _npy(ids))
        made.append(f"ids/{name}.npy")
    write_bytes(out / TEXT, "".join(line + "\n" for line in _markdown(found, sections, basis)).encode())
    made.append(TEXT)
    page = None
    if pictures:
        drawn = _pictures(found, basis)
        for name, (_, svg, _) in drawn.items():
            write_bytes(out / "figures" / f"{name}.svg", svg)
            made.append(f"figures/{name}.svg")
        page = out / PAGE
        write_bytes(page, _page(found, sections, basis, drawn).encode())
        made.append(PAGE)
    for old in sorted([*(out / "figures").glob("*.svg"), out / PAGE]):
        if old.is_file() and old.relative_to(out).as_posix() not in made:
            old.unlink()
    return AuditReport(out, page, tuple(made), {name: len(ids) for name, ids in lists.items()})


def with_examples(found: Verdicts, search: Search, *, tokens: int = 300, each: int = 2, context: int = 12) -> Verdicts:
    """The verdict with a column `examples`: where the worst tokens stand in an indexed corpus, with what is around them.

    Of the first `tokens` under-trained and suspect tokens that stand in it, `each` places: a list of lines
    `doc_id: before⟦token⟧after`, empty for a token that stands nowhere, null for one that was not looked for.
    """
    limits = np.iinfo(search.index.text.dtype)
    places: dict[int, list[str]] = {}
    rows = found.table.select([n for n in ("i", "decision", "rank") if n in found.table.column_names]).to_pylist()
    bad = [row for row in rows if row["decision"] in (UNDER_TRAINED, SUSPECT) and row["i"] <= limits.max]
    bad.sort(key=lambda row: (DECISIONS.index(row["decision"]), row.get("rank") or 0, row["i"]))
    shown_tokens = 0
    for row in bad:
        if shown_tokens == tokens:
            break
        found_hits = search.hits([row["i"]], limit=each, context=context).hits if search.index.count([row["i"]]) else ()
        places[row["i"]] = [_example(hit) for hit in found_hits]
        shown_tokens += bool(found_hits)
    column = pa.array([places.get(row["i"]) for row in rows], pa.list_(pa.string()))
    table = found.table.drop_columns(["examples"]) if "examples" in found.table.column_names else found.table
    return replace(found, table=table.append_column("examples", column))


def _example(hit: Hit) -> str:
    where = hit.document.doc_id or f"document {hit.document.doc}"
    text = f"{hit.before}⟦{hit.text}⟧{hit.after}"
    return f"{where}: {visible(text.encode('utf-8', 'replace').decode())}"


def _check(out: Path, pictures: bool) -> None:
    if pictures:
        from typecase.app.charts.style import need_matplotlib

        need_matplotlib()
        try:
            import jinja2  # noqa: F401
        except ImportError:
            raise NeedsExtra("writing the page of a report", "report") from None
    if out.exists() and not out.is_dir():
        raise AlreadyExists(f"{out} is a file; name a folder for the report")
    if out.is_dir() and any(out.iterdir()) and not (out / TABLE).is_file():
        raise AlreadyExists(f"{out} holds something that is no report of an audit; name another folder, or an empty one")


def _npy(ids: Iterable[int]) -> bytes:
    """Ids as the bytes of a .npy file, int64."""
    file = io.BytesIO()
    np.save(file, np.array(sorted(ids), np.int64))
    return file.getvalue()


def _crossed(sections: Sequence[Section]) -> tuple[list[str], list[dict[str, Any]]]:
    """Sections by decisions, with their sums: every token once."""
    names = ["group", *(d.replace("_", "-") for d in DECISIONS), "tokens"]
    counted = [[*(s.decisions[d] for d in DECISIONS), len(s.ids)] for s in sections]
    sums = [sum(column) for column in zip(*counted, strict=True)]
    rows: list[list[Any]] = [[s.title, *own] for s, own in zip(sections, counted, strict=True)]
    rows.append(["Sum", *sums])
    return names, [dict(zip(names, row, strict=True)) for row in rows]


def _calibration(found: Verdicts) -> tuple[list[str], list[dict[str, Any]]]:
    names = ["times in the corpus", "tokens", "judged", "under-trained", "share"]
    rows = [
        [b.name, b.tokens, b.judged, b.under_trained, f"{b.under_trained / b.judged:.1%}" if b.judged else ""]
        for b in calibration_of(found.table)
    ]
    return names, [dict(zip(names, row, strict=True)) for row in rows]


def _correlations(found: Verdicts) -> tuple[list[str], list[dict[str, Any]]]:
    names = ["indicator", "Spearman with log count"]
    return names, [dict(zip(names, (name, f"{value:+.3f}"), strict=True)) for name, value in found.correlations.items()]


def _reasons(found: Verdicts) -> tuple[list[str], list[dict[str, Any]]]:
    """Why tokens cannot be reached, as far as the tokenizer was audited."""
    names = ["reason", "tokens"]
    if not {"reach", "failing"} <= set(found.table.column_names):
        return names, []
    counted: dict[str, int] = {}
    for row in found.table.select(["reach", "failing"]).to_pylist():
        if row["reach"] == "unreachable":
            name = " + ".join(row["failing"]) if isinstance(row["failing"], list) else str(row["failing"])
            counted[name] = counted.get(name, 0) + 1
    ordered = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    return names, [dict(zip(names, pair, strict=True)) for pair in ordered]


def _summaries(found: Verdicts, sections: Sequence[Section]) -> Iterator[tuple[str, list[str], list[dict[str, Any]]]]:
    """Titles and tables that are of the whole vocabulary; none that is empty."""
    yield "Every token once", *_crossed(sections)
    counted = {"advice": found.advice, "origin of the under-trained": found.origins}
    for title, names, rows in (
        ("Counts and verdicts", *_calibration(found)),
        ("Indicators and counts", *_correlations(found)),
        ("Why tokens are unreachable", *_reasons(found)),
        *(
            (name.capitalize(), [name, "tokens"], [{name: k, "tokens": n} for k, n in of.items()])
            for name, of in counted.items()
        ),
    ):
        if rows:
            yield title, names, rows


def _said(header: Header) -> Iterator[tuple[str, str]]:
    """What a table says of itself, short enough to be read."""
    for name, value in header.items():
        if value in (None, "", [], {}, ()):
            continue
        text = value if isinstance(value, str) else orjson.dumps(plain(value), option=orjson.OPT_NON_STR_KEYS).decode()
        yield name, visible(text if len(text) <= _SAID_OF_A_TABLE else text[:_SAID_OF_A_TABLE] + "…")


def _markdown(found: Verdicts, sections: Sequence[Section], basis: Sequence[tuple[str, Header]]) -> Iterator[str]:
    yield f"# Token audit: {escaped(_subject(basis))}"
    yield ""
    for finding in findings_of(found, sections):
        yield f"* {escaped(finding)}"
    for title, names, rows in _summaries(found, sections):
        yield ""
        yield f"## {title}"
        yield ""
        yield from markdown_rows(names, rows)
    for section in sections:
        if not section.listed or not section.ids:
            continue
        names, rows = rows_of(found, section, _TEXT_ROWS)
        yield ""
        yield f"## {section.title}: {len(section.ids):,}"
        yield ""
        yield section.about + (f" The first {len(rows):,}; all are in {TABLE}." if len(rows) < len(section.ids) else "")
        yield ""
        yield from markdown_rows(names, rows)
    for name, header in basis:
        yield ""
        yield f"## Basis: {escaped(name)}"
        yield ""
        for key, text in _said(header):
            yield f"* {escaped(key)}: {escaped(text)}"


def _subject(basis: Sequence[tuple[str, Header]]) -> str:
    """What was audited: a model where there is one, else a tokenizer."""
    headers = list(_headers(basis))
    models = [one["model"] for one in headers if "output_matrix" in one and isinstance(one.get("model"), str)]
    tokenizers = [one["tokenizer"] for one in headers if isinstance(one.get("tokenizer"), str)]
    return next(iter([*models, *tokenizers]), "a vocabulary")


def _main_indicator(basis: Sequence[tuple[str, Header]]) -> str:
    return next((str(one["main_indicator"]) for one in _headers(basis) if one.get("main_indicator")), "main_indicator")


def _headers(basis: Sequence[tuple[str, Header]]) -> Iterator[Header]:
    """Headers, and those of other audits that they hold: prompts hold that of the weights, a corpus that of its tokenizer."""
    for _, header in basis:
        yield header
        yield from (value for name in ("weights", "tokenizer") if isinstance(value := header.get(name), Mapping))


def _pictures(found: Verdicts, basis: Sequence[tuple[str, Header]]) -> dict[str, tuple[Any, bytes, str]]:
    """Charts by name: what they are, their SVG, and that as a page takes it in."""
    from typecase.app.analyse.page import inline
    from typecase.app.charts.audit import charts_of_audit
    from typecase.app.charts.style import drawn, style

    pictures = {}
    with style():
        for chart in charts_of_audit(found.table, _main_indicator(basis)):
            svg, _ = drawn(chart.draw(), chart.name)
            pictures[chart.name] = (chart, svg, inline(svg.decode(), chart.title))
    return pictures


def _page(
    found: Verdicts,
    sections: Sequence[Section],
    basis: Sequence[tuple[str, Header]],
    pictures: Mapping[str, tuple[Any, bytes, str]],
) -> str:
    """The page. Everything that comes from data is escaped by the template; only our own pictures and style are not."""
    import jinja2

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"safe_line": visible, "cell": _cell}
    listed = [(s, *rows_of(found, s, _PAGE_ROWS)) for s in sections if s.listed and s.ids]
    template = environment.from_string((files("typecase.app.audit") / "page.html.j2").read_text("utf-8"))
    return template.render(
        style=report_style(),
        subject=_subject(basis),
        found=found,
        facts=list(_facts(found, sections)),
        findings=list(findings_of(found, sections)),
        pictures=[(chart, svg) for chart, _, svg in pictures.values()],
        summaries=list(_summaries(found, sections)),
        sections=listed,
        open_rows=_OPEN,
        table=TABLE,
        basis=[(name, list(_said(header))) for name, header in basis],
        example=shown(b" \xe2\x80"),
    )


def report_style() -> str:
    """The style of every report: one sheet, so that they look alike."""
    page = (files("typecase.app.analyse") / "page.html.j2").read_text("utf-8")
    return page[page.index("<style>") + len("<style>") : page.index("</style>")]


def _facts(found: Verdicts, sections: Sequence[Section]) -> Iterator[tuple[str, str]]:
    yield f"{found.num_ids:,}", "tokens"
    for decision in DECISIONS[:3]:
        yield f"{found.decisions.get(decision, 0):,}", decision.replace("_", "-")
    partial = next(s for s in sections if s.name == "partial")
    yield f"{len(partial.ids):,}", "parts of characters"
    yield f"{sum(n for name, n in found.advice.items() if name != 'keep'):,}", "to do something about"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list):
        return visible("; ".join(map(str, value)))
    return f"{value:.4g}" if isinstance(value, float) else visible(str(value))
