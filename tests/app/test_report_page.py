"""The report: a folder of equal bytes for equal input, a page that needs no other file, and texts that stay texts."""

from __future__ import annotations

import builtins
import csv
import io
import json
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.app.analysing_sets import COLUMNS, corpus, made_documents, made_rows, ratings_artifact
from tests.conftest import make_docs_artifact
from typecase.app.analyse import page as report_page
from typecase.app.analyse.analysing import Analysis, analyse
from typecase.app.analyse.page import Report, check_report, write_report
from typecase.app.charts.ratings import charts_of
from typecase.core.document import Document, Place, id_from_key
from typecase.errors import AlreadyExists, NeedsExtra

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

TWO = ("education", "format")
"""The columns of the rubric prox: small charts."""
HOSTILE = '</pre><script>alert(1)</script> $\\frac{x}$ id="evil" url(#x) & "q" \u202eturned\x07'


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def hostile(tmp_path: Path) -> Analysis:
    sources = ("plain", HOSTILE, "中文来源")
    documents = [Document(id_from_key(str(i)), HOSTILE * 3, sources[i % 3], Place("f", i, 0), {}) for i in range(45)]
    docs = make_docs_artifact(tmp_path / "docs", documents)
    rows = made_rows(documents, columns=TWO)
    return analyse([ratings_artifact(tmp_path / "ratings", docs, rows, columns=TWO)])


class Checked(HTMLParser):
    """Counts what a page opens and closes, and collects ids, links and scripts."""

    VOID = frozenset(("meta", "br", "img", "link"))

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "xlink:href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def checked(page: str) -> Checked:
    parser = Checked()
    parser.feed(page)
    assert parser.open == []
    return parser


def test_texts_of_others_stay_texts(tmp_path: Path) -> None:
    made = write_report(hostile(tmp_path), tmp_path / "report")
    page = made.page.read_text()
    found = checked(page)
    assert "script" not in found.tags and "evil" not in found.ids and "<script" not in page
    assert "\u202e" not in page and "\x07" not in page and "&lt;/pre&gt;&lt;script&gt;" in page
    for name in made.figures:
        svg = (made.folder / "figures" / f"{name}.svg").read_bytes()
        texts = "".join(ElementTree.fromstring(svg).itertext())
        assert "\u202e" not in texts
    assert "中文来源" in (made.folder / "figures" / "means_by_source.svg").read_text()


@pytest.fixture(scope="module", params=[TWO, pytest.param(COLUMNS, marks=pytest.mark.slow)], ids=["two", "all"])
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The report of 120 documents on two criteria, or on all fourteen."""
    folder = tmp_path_factory.mktemp("whole")
    return write_report(analyse([corpus(folder, 120, columns=request.param)[1]]), folder / "report")


def test_the_page_needs_no_other_file_and_its_links_hold(report: Report) -> None:
    page = report.page.read_text()
    found = checked(page)
    assert len(found.ids) == len(set(found.ids))
    for link in found.links:
        if link.startswith("#"):
            assert link[1:] in found.ids, link
        else:
            assert (report.folder / link).is_file(), link
    assert not re.search(r"https?://(?!www\.w3\.org)", page)
    assert page.count("Sample: ") == len(report.figures) and page.count("<svg") == len(report.figures)
    assert "#20242c" not in page.split("</style>", 1)[1]


def test_data_files_hold_what_the_page_shows(report: Report) -> None:
    for name in report.tables:
        told = json.loads((report.folder / "data" / f"{name}.json").read_text())
        lines = list(csv.DictReader(io.StringIO((report.folder / "data" / f"{name}.csv").read_text(), newline="")))
        assert len(lines) == len(told["rows"]) and told["sample"]
        for line, row in zip(lines, told["rows"], strict=True):
            assert {key: "" if value is None else str(value) for key, value in row.items()} == line
    summary = json.loads((report.folder / "summary.json").read_text())
    assert [i["role"] for i in summary["inputs"]] == ["ratings", "docs"] and summary["sets"][0]["rows"] == 120


@pytest.mark.parametrize("columns", [TWO, pytest.param(COLUMNS, marks=pytest.mark.slow)])
def test_equal_input_gives_equal_bytes(tmp_path: Path, columns: tuple[str, ...]) -> None:
    docs, ratings, rows = corpus(tmp_path, 120, columns=columns)
    other = ratings_artifact(tmp_path / "again" / "ratings", docs, rows, num_parts=2, columns=columns)
    for source, name in ((ratings, "a"), (other, "b")):
        write_report(analyse([source], docs=docs), tmp_path / name)
    first, second = (files_of(tmp_path / name) for name in ("a", "b"))
    assert first == second and len(first) > 20
    assert not any(re.search(rb"20\d\d-\d\d-\d\dT|Matplotlib v|Creation", data) for data in first.values())


def test_a_report_replaces_a_report_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docs, ratings, _rows = corpus(tmp_path, 60, columns=TWO)
    monkeypatch.setattr(report_page, "charts_of", lambda found: charts_of(found)[-2:])
    out = tmp_path / "report"
    write_report(analyse([ratings, ratings]), out)
    assert (out / "figures" / "sets.svg").is_file() and (out / "data" / "sets.csv").is_file()
    write_report(analyse([ratings]), out)
    write_report(analyse([ratings]), tmp_path / "fresh")
    assert files_of(out) == files_of(tmp_path / "fresh")
    with pytest.raises(AlreadyExists, match="holds something that is no report"):
        check_report(docs)
    with pytest.raises(AlreadyExists, match="is a file"):
        check_report(out / "report.html")


@pytest.mark.filterwarnings("error::UserWarning", "error::RuntimeWarning")
@pytest.mark.parametrize(("num", "score"), [(1, 3.0), (4, None)])
def test_a_report_of_hardly_anything(tmp_path: Path, num: int, score: float | None) -> None:
    """One document, equal scores, no scores: a page with fewer figures, and no complaint."""
    documents = made_documents(num)
    docs = make_docs_artifact(tmp_path / "docs", documents)
    rows = [{**row, **dict.fromkeys(COLUMNS, score)} for row in made_rows(documents)]
    found = analyse([ratings_artifact(tmp_path / "ratings", docs, rows)] * 2)
    made = write_report(found, tmp_path / "report")
    checked(made.page.read_text())
    assert bool(made.figures) == (score is not None)


def test_without_the_extra_tables_remain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _docs, ratings, _ = corpus(tmp_path, 60)
    real = builtins.__import__

    def none_of_it(name: str, *args: Any, **more: Any) -> Any:
        if name.split(".")[0] in ("matplotlib", "jinja2"):
            raise ImportError(name)
        return real(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", none_of_it)
    assert analyse([ratings]).sets[0].rows == 60
    with pytest.raises(NeedsExtra, match=r"typecase\[report\]"):
        write_report(analyse([ratings]), tmp_path / "report")
    assert not (tmp_path / "report").exists()
