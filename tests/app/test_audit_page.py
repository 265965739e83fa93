"""The report of an audit: every token once, nothing invisible and nothing interpreted, the same bytes, usable lists."""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st

from tests.app.test_audit_model import BYTES
from tests.conftest import make_docs_artifact, make_documents
from typecase.app.audit.auditing import audit_tokenizer
from typecase.app.audit.page import write_audit_report
from typecase.app.audit.sections import calibration_of, rows_of, sections_of, shown
from typecase.app.audit.verdict import Verdicts, audit_report
from typecase.app.commands.audit import audit_command
from typecase.errors import AlreadyExists, NeedsExtra
from typecase.recipe.build import Build
from typecase.recipe.index import Index
from typecase.recipe.run import run_stage
from typecase.store.audit.files import read_table, write_table

HOSTILE = [
    *(b"<script>alert(1)</script>", b"\x00\t\r\n", b" a ", b"|`*_[x](y)", b"\xe2\x80", b"\xff"),
    *(c.encode() for c in ("\u202eabc", "\ufeff", "\u200b", "\u00a0", "\u0301")),
    *(b"\\u0000", b"'\"&{{ 7 * 7 }}", "汉字".encode(), b"{% raw %}", b"</td><td>"),
]
BASIS = [
    (
        "weights.parquet",
        {"model": "models/<b>x</b>", "output_matrix": "w", "main_indicator": "e_out_cosine", "plateau": None, "num_ids": 120},
    )
]


def planted(extra: dict[str, Any] | None = None) -> Verdicts:
    """A verdict of 120 tokens, the first of them hostile; the hostile ones are under-trained by their prompts."""
    rng = np.random.default_rng(0)
    number = 120
    data = [HOSTILE[i] if i < len(HOSTILE) else f" w{i}".encode() for i in range(number)]
    kinds = ["byte" if i in (20, 21) else "special" if i == 22 else "gap" if i == 23 else "normal" for i in range(number)]
    table = pa.table(
        {
            "i": pa.array(range(number), pa.int64()),
            "hex": [d.hex() for d in data],
            "decoded": [d.decode("utf-8", "replace") for d in data],
            "category": ["OK"] * number,
            "kind": kinds,
            "reach": ["unreachable" if i in (30, 31, 32) else "reachable" for i in range(number)],
            "failing": [["merge"] if i in (30, 31, 32) else [] for i in range(number)],
            "utf8": ["prefix" if i in (4, 40) else "never" if i == 5 else "whole" for i in range(number)],
            "count": [0 if i < 12 else int(n) for i, n in enumerate(rng.integers(1, 3000, number))],
            "prediction": ["never" if i < 12 else "expected" for i in range(number)],
            "row": ["ordinary"] * number,
            "main_indicator": [None if i == 50 else 0.01 * i for i in range(number)],
            "e_out_l2": [0.02 * i for i in range(number)],
            "percentile": [float(i) for i in range(number)],
            "rank": list(range(1, number + 1)),
            "candidate": [i < 12 for i in range(number)],
            "max_prob": [None if i >= 20 else 1e-5 if i < 16 else 0.5 for i in range(number)],
            "verified": [None if i >= 20 else i < 16 for i in range(number)],
            **(extra or {}),
        }
    )
    return audit_report([(table, {"num_ids": number})], wanted=[3])


@given(st.binary(max_size=12))
@example(b"\xe2\x80\x8b")
@example("␣".encode())
@example("\ufe0f".encode())
def test_nothing_of_a_token_is_invisible(data: bytes) -> None:
    text = shown(data)
    assert all(unicodedata.category(c)[0] not in "CZ" for c in text) and "\n" not in text
    assert not text or unicodedata.category(text[0])[0] != "M"


@given(st.binary(max_size=6), st.binary(max_size=6))
@example(b" ", "␣".encode())
@example(b"\\xff", b"\xff")
@example(b"\\u0000", b"\x00")
def test_other_bytes_are_other_lines(a: bytes, b: bytes) -> None:
    assert (shown(a) == shown(b)) == (a == b)


def test_every_token_stands_in_one_section() -> None:
    found = planted()
    sections = sections_of(found)
    assert sorted(i for s in sections for i in s.ids) == list(range(found.num_ids))
    assert {d: sum(s.decisions[d] for s in sections) for d in found.decisions} == dict(found.decisions)
    named = {s.name: set(s.ids) for s in sections}
    assert named["bytes"] == {20, 21} and named["special"] == {22, 23} and named["unreachable"] == {30, 31, 32}
    assert named["partial"] == {4, 5, 40} and named["under_trained"] == set(range(16)) - {4, 5}
    names, rows = rows_of(found, next(s for s in sections if s.name == "under_trained"), 3)
    assert [row["i"] for row in rows] == [0, 1, 2] and names[:3] == ["i", "token", "hex"] and "absorbed_by" not in names


def test_calibration_is_a_naive_count() -> None:
    found = planted()
    rows = found.table.select(["count", "verified", "decision"]).to_pylist()
    for one in calibration_of(found.table):
        own = (
            [r for r in rows if one.low <= r["count"] <= (one.high or 10**9)]
            if one.high != 0
            else [r for r in rows if not r["count"]]
        )
        assert one.tokens == len(own) and one.judged == sum(r["verified"] is not None for r in own)
        assert one.under_trained == sum(r["verified"] is True for r in own)
    assert sum(b.tokens for b in calibration_of(found.table)) == found.num_ids
    assert calibration_of(found.table.drop_columns(["count"])) == ()


def test_a_report_is_whole_and_the_same_again(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    found = planted()
    made = write_audit_report(found, tmp_path / "a", basis=BASIS)
    again = write_audit_report(planted(), tmp_path / "b", basis=BASIS)
    assert made.page == tmp_path / "a" / "report.html" and made.files == again.files
    for name in made.files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    assert {p.relative_to(tmp_path / "a").as_posix() for p in (tmp_path / "a").rglob("*") if p.is_file()} == set(made.files)
    assert {"figures/plane.svg", "figures/indicators.svg", "figures/prompts.svg"} <= set(made.files)
    lists = json.loads((tmp_path / "a" / "ids.json").read_text())
    assert lists == found.lists() and lists["mask"] == list(range(16)) and 3 in lists["retrain"]
    for name, ids in lists.items():
        held = np.load(tmp_path / "a" / "ids" / f"{name}.npy")
        assert held.dtype == np.int64 and held.tolist() == sorted(ids)
    table, header = read_table(tmp_path / "a" / "tokens.parquet")
    assert table.equals(found.table.replace_schema_metadata(table.schema.metadata)) and header["num_ids"] == 120
    lines = (tmp_path / "a" / "tokens.jsonl").read_text().splitlines()
    assert len(lines) == 121 and json.loads(lines[1])["i"] == 0 and json.loads(lines[1])["count"] == 0
    (tmp_path / "a" / "figures" / "old.svg").write_text("<svg/>")
    write_audit_report(found, tmp_path / "a", basis=BASIS, pictures=False)
    assert not (tmp_path / "a" / "report.html").exists() and not list((tmp_path / "a" / "figures").iterdir())


def test_hostile_tokens_are_shown_and_never_interpreted(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    write_audit_report(planted(), tmp_path / "r", basis=BASIS)
    page = (tmp_path / "r" / "report.html").read_text()
    text = (tmp_path / "r" / "report.md").read_text()
    for written in (page, text):
        assert not re.search("[\x00-\x08\x0b-\x1f\u200b-\u200f\u202a-\u202e\ufeff\u0301]", written)
    assert (
        "&lt;script&gt;alert(1)&lt;/script&gt;" in page
        and "<script" not in page
        and "49" not in re.findall(r"<bdi>(.*?)</bdi>", page)
    )
    assert "<bdi>&#39;&#34;&amp;{{␣7␣*␣7␣}}</bdi>" in page and "<bdi>\\u202eabc</bdi>" in page and "models/&lt;b&gt;" in page
    assert (
        "<bdi>\\xe2\\x80</bdi>" in page and "<bdi>\\u0000\\u0009\\u000d\\u000a</bdi>" in page and "<bdi>\\\\u0000</bdi>" in page
    )
    assert not re.search(r'(src|href)="(?!#|figures/|tokens\.parquet)', page.replace("xlink:href", "href"))
    assert "prefers-color-scheme: dark" in page and page.count("<svg role") == 3 and "Content-Security-Policy" in page
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    width = None
    for line in text.splitlines():
        bars = len(re.findall(r"(?<!\\)\|", line))
        if line.startswith("| i | token"):
            width = bars
        elif not line.startswith("|"):
            width = None
        if width is not None:
            assert bars == width, line
    assert "\\<script\\>" in text and "| Sum | " in text


def test_a_folder_that_is_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(AlreadyExists, match="no report of an audit"):
        write_audit_report(planted(), tmp_path / "mine", pictures=False)
    with pytest.raises(AlreadyExists, match="is a file"):
        write_audit_report(planted(), tmp_path / "mine" / "letter.txt", pictures=False)


@pytest.mark.parametrize("missing", ["matplotlib", "jinja2"])
def test_without_the_extra_tables_are_written(missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(NeedsExtra, match=r"typecase\[report\]"):
        write_audit_report(planted(), tmp_path / "r")
    assert not (tmp_path / "r").exists()
    made = write_audit_report(planted(), tmp_path / "r", pictures=False)
    assert made.page is None and {"report.md", "tokens.parquet", "tokens.jsonl", "ids.json", "ids/mask.npy"} <= set(made.files)


def test_the_tokenizer_alone_has_a_page_without_figures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    tokenizer = audit_tokenizer(BYTES)
    write_table(tmp_path / "t.parquet", tokenizer.table, tokenizer.header())
    result = CliRunner().invoke(audit_command, ["report", str(tmp_path / "t.parquet"), "-o", str(tmp_path / "r")])
    assert result.exit_code == 0 and "report.html" in result.output and "mask 0" in result.output
    page = (tmp_path / "r" / "report.html").read_text()
    assert "<svg" not in page and "Byte tokens: 256" in page and "Figures" not in page


def test_examples_come_from_an_index(tmp_path: Path) -> None:
    docs = make_docs_artifact(tmp_path / "docs", make_documents(["the cat sat", "a dog\nran and the cat", "nothing here"]))
    built = run_stage(Build(tokenizer=str(BYTES)), {"docs": docs}, tmp_path / "tokens").folder
    run_stage(Index(), {"tokens": built}, tmp_path / "index")
    tokenizer = audit_tokenizer(BYTES)
    letter = next(row["i"] for row in tokenizer.table.to_pylist() if row["hex"] == b"g".hex())
    absent = next(row["i"] for row in tokenizer.table.to_pylist() if row["hex"] == b"Q".hex())
    bad = [i in (letter, absent) for i in range(tokenizer.num_ids)]
    table = tokenizer.table.append_column("verified", pa.array(bad)).append_column("max_prob", pa.array([0.0] * len(bad)))
    write_table(tmp_path / "v.parquet", table, {"num_ids": len(bad)})
    arguments = ["report", "v.parquet", "-o", "r", "--plain", "--index", "index"]
    result = CliRunner().invoke(
        audit_command, [str(tmp_path / a) if a in ("v.parquet", "r", "index") else a for a in arguments]
    )
    assert result.exit_code == 0, result.output
    rows = read_table(tmp_path / "r" / "tokens.parquet")[0].to_pylist()
    places = rows[letter]["examples"]
    assert places and all("⟦g⟧" in place and re.match(r"[0-9a-f]{32}: ", place) for place in places)
    assert any("\\u000a" in place for place in places) and rows[absent]["examples"] == []
    assert all(row["examples"] is None for row in rows if not row["verified"])
    assert "⟦g⟧" in (tmp_path / "r" / "report.md").read_text()
