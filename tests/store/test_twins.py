"""Twins out of HTML: what a layout's selectors keep, files that come back, files that are no twins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from typecase.core.twins.marks import Twin
from typecase.errors import CorruptStore, NotFound
from typecase.store.twins import Family, main, plain_text, read_families, read_twins, twin_of, twins_of, write_twins

TEXT = "The first sentence of the text. " * 6
HTML = f"""<html><head><title>t</title></head><body>
<ul class="nav"><li>Title</li><li>Next page</li></ul>
<main><h1>Title<a class="headerlink">¶</a></h1><p>{TEXT}</p><ul class="nav"><li>Inner menu</li></ul>
<table><tr><td>a</td><td>b</td></tr></table></main>
<footer>Copyright</footer></body></html>"""
FAMILY = Family("f", "g", "pkg", "main", (".nav", ".headerlink"), "MIT", "train")


def test_content_is_what_the_selectors_say():
    twin = twin_of(HTML, FAMILY, path="p.html")
    assert twin is not None and twin.text == plain_text(HTML)
    gone = [twin.lines[i].strip() for i in twin.gone]
    assert gone == ["• Title", "• Next page", "• Inner menu", "Copyright"]
    assert "Title¶" in twin.clean and "a\t\tb" in twin.clean and "menu" not in twin.clean


def test_a_page_without_the_content_gives_nothing():
    assert twin_of("<body><p>redirect</p></body>", FAMILY) is None
    assert twin_of("<body><main>short</main></body>", FAMILY) is None


def test_families_are_known_and_their_sides_share_no_generator():
    families = read_families()
    assert len({family.id for family in families}) == len(families)
    sides = {side: {f.generator for f in families if f.side == side} for side in ("train", "held")}
    assert not sides["train"] & sides["held"]
    assert len(sides["train"]) >= 8 and len(sides["held"]) >= 8


def test_files_of_twins_come_back(tmp_path: Path):
    twins = [Twin("a\nb\n\nc", (0, 1, 3), "f", "g", "s", "p", "MIT"), Twin("ü", (), "f", "g", "s", "q", "MIT")]
    assert write_twins(tmp_path / "t.jsonl.zst", twins) == 2
    assert read_twins(tmp_path / "t.jsonl.zst") == twins


BEYOND = '{"text":"a","gone":[[0,4]],"family":"","generator":"","source":"","path":"","licence":""}'


@pytest.mark.parametrize("line", ["{", '{"text": "a"}', BEYOND])
def test_what_is_no_twin_is_named(tmp_path: Path, line: str):
    (tmp_path / "t.jsonl").write_text(line + "\n")
    with pytest.raises(CorruptStore, match="line 1"):
        read_twins(tmp_path / "t.jsonl")


def test_no_file(tmp_path: Path):
    with pytest.raises(NotFound):
        read_twins(tmp_path / "t.jsonl.zst")


def test_pages_are_drawn_alike_and_no_text_twice(tmp_path: Path):
    folder = tmp_path / "pkg" / "doc"
    folder.mkdir(parents=True)
    for number in range(6):
        (folder / f"{number}.html").write_text(HTML.replace("a</td>", f"a{number // 2}</td>"))
    made = list(twins_of(tmp_path, FAMILY, pages=5, chars=10_000))
    assert len({twin.text for twin in made}) == len(made) == 3
    assert made == list(twins_of(tmp_path, FAMILY, pages=5, chars=10_000))
    assert not list(twins_of(tmp_path, replace(FAMILY, under="elsewhere"), pages=5, chars=10_000))


def test_the_command_writes_both_sides(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    page = tmp_path / "in" / "mkdocs-doc" / "a.html"
    page.parent.mkdir(parents=True)
    page.write_text(HTML.replace("<main>", '<div role="main">').replace("</main>", "</div>"))
    main([str(tmp_path / "in"), "-o", str(tmp_path / "out"), "--pages", "2"])
    assert [twin.family for twin in read_twins(tmp_path / "out" / "held.jsonl.zst")] == ["mkdocs"]
    assert read_twins(tmp_path / "out" / "train.jsonl.zst") == []
    assert "mkdocs" in capsys.readouterr().out
