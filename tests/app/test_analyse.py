"""Analysing ratings: every number against a naive count over the rows, the same for any parts, and each mistake named."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pytest
from click.testing import CliRunner

from tests.app.analysing_sets import COLUMNS, corpus, made_documents, made_rows, ratings_artifact, write_parts
from tests.conftest import make_docs_artifact
from typecase.app.analyse import sets as analysing_sets
from typecase.app.analyse.analysing import analyse
from typecase.app.analyse.findings import findings_of
from typecase.app.analyse.tables import tables_of
from typecase.app.charts.ratings import charts_of
from typecase.app.commands.analyse import analyse_command
from typecase.core.document import id_from_key
from typecase.core.learn.agreement import pearson, spearman
from typecase.errors import BadQuery, CorruptStore, FingerprintMismatch, FixInput, NotFound, SchemaMismatch
from typecase.recipe.select import SELECTION_SCHEMA
from typecase.store.manifest import FileEntry, Manifest, write_manifest
from typecase.store.shards import part_name, write_shard


def rounded_levels(values: list[float]) -> list[int]:
    return [math.floor(v + 0.5) for v in values]


def test_every_number_is_that_of_the_rows(tmp_path: Path) -> None:
    _docs, ratings, rows = corpus(tmp_path)
    sources = {d.id: d.source for d in made_documents(300)}
    (s,) = analyse([ratings]).sets
    assert s.rows == len(rows) and dict(s.statuses) == Counter(row["status"] for row in rows) and s.without_source == 0
    for k, c in enumerate(s.criteria):
        values = [row[c.id] for row in rows if row[c.id] is not None]
        assert (c.id, c.rows, c.missing, c.outside) == (COLUMNS[k], len(values), len(rows) - len(values), 0)
        assert c.mean == pytest.approx(np.mean(values), abs=1e-5) and c.variance == pytest.approx(np.var(values), abs=1e-5)
        assert list(c.levels) == [rounded_levels(values).count(level) for level in range(1, 6)]
        both = [(row[c.id], row["overall_score"]) for row in rows if row[c.id] is not None and row["overall_score"] is not None]
        x, y = zip(*both, strict=True)
        assert c.pearson_with_summary == pytest.approx(pearson(x, y), abs=1e-4)
        assert c.spearman_with_summary.rho == pytest.approx(spearman(x, y), abs=5e-3)
        assert s.pair_rows[k][-1] == len(both)
    overall = [row["overall_score"] for row in rows if row["overall_score"] is not None]
    assert list(s.histogram) == np.histogram(overall, bins=64, range=(1, 5))[0].tolist()
    for group in s.sources:
        own = [row for row in rows if sources[row["doc_id"]] == group.name]
        overall = [row["overall_score"] for row in own if row["overall_score"] is not None]
        assert group.rows == len(own) and group.means[-1] == pytest.approx(np.mean(overall), abs=1e-5)
        assert (group.good, group.judged) == (sum(level >= 3 for level in rounded_levels(overall)), len(overall))
    domains = Counter(row["domain"] or "(unknown)" for row in rows)
    assert {g.name: g.rows for g in s.domains} == domains
    crossed = Counter((sources[row["doc_id"]], row["domain"] or "(unknown)") for row in rows)
    for group, counts in zip(s.sources, s.crossed, strict=True):
        assert list(counts) == [crossed[group.name, d.name] for d in s.domains]


def test_parts_and_blocks_make_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docs, ratings, rows = corpus(tmp_path)
    other = ratings_artifact(tmp_path / "again" / "ratings", docs, rows, num_parts=7)
    whole = [table.as_dict() for table in tables_of(analyse([ratings], seed=4))]
    monkeypatch.setattr(analysing_sets, "BLOCK_ROWS", 37)
    assert [table.as_dict() for table in tables_of(analyse([other], seed=4))] == whole
    assert [table.as_dict() for table in tables_of(analyse([other], seed=5))] != whole


def test_lines_of_ratings_are_the_same_as_the_artifact(tmp_path: Path) -> None:
    """Keys instead of ids, two readings of a document, holes: the mean is analysed."""
    docs, ratings, rows = corpus(tmp_path)
    lines = [{**row, "rated_bytes": None} for row in rows] + [{**rows[0], "rated_bytes": None}]
    path = tmp_path / "people.jsonl"
    path.write_bytes(b"\n".join(orjson.dumps(line) for line in lines) + b"\n\n")
    first, second = analyse([ratings, path], docs=docs).sets
    assert (second.readings, second.rows) == (len(rows) + 1, len(rows)) and second.name == "people"
    assert second.criteria == first.criteria and second.sources == first.sources
    assert second.length == first.length  # lengths of the texts themselves, where the ratings do not say how much was read
    (tmp_path / "keys.jsonl").write_text('{"id": "7", "clarity": 2}\n{"id": "7", "clarity": 1}\n{"id": "8", "clarity": 0}\n')
    found = analyse([tmp_path / "keys.jsonl"], docs=docs)
    (s,) = found.sets
    assert s.found_scale and (s.rubric.low, s.rubric.high) == (0, 2) and s.criteria[0].mean == 0.75
    assert {e.doc_id for e in found.examples} == {id_from_key("7"), id_from_key("8")}
    assert {g.name for g in s.sources} == {"web", "code"}


def test_examples_are_of_their_cell_and_begin_their_documents(tmp_path: Path) -> None:
    _docs, ratings, rows = corpus(tmp_path)
    texts, by_id = {d.id: d for d in made_documents(300)}, {row["doc_id"]: row for row in rows}
    examples = analyse([ratings], num_examples=2).examples
    cells = Counter((e.criterion, e.source, e.level) for e in examples)
    assert max(cells.values()) == 2
    every = Counter(
        (c, texts[row["doc_id"]].source, math.floor(row[c] + 0.5)) for row in rows for c in COLUMNS if row[c] is not None
    )
    assert cells == {cell: min(2, n) for cell, n in every.items()}
    for e in examples:
        assert texts[e.doc_id].text.startswith(e.excerpt) and e.text_characters == len(texts[e.doc_id].text)
        assert by_id[e.doc_id][e.criterion] == pytest.approx(e.score) and texts[e.doc_id].source == e.source


def test_scores_over_perplexity(tmp_path: Path) -> None:
    _docs, ratings, rows = corpus(tmp_path)
    tokens = [0 if k == 3 else 10 + k % 50 for k in range(len(rows))]
    nats = [6 - (row["overall_score"] or 3.0) for row in rows]
    side = [
        {"doc_id": row["doc_id"], "nll": n * t if k != 5 else None, "tokens": t, "bytes": 4 * t}
        for k, (row, n, t) in enumerate(zip(rows, nats, tokens, strict=True))
        if k != 8
    ]
    write_parts(tmp_path / "perplexity", pa.Table.from_pylist(side), 3)
    found = analyse([ratings], perplexity=tmp_path / "perplexity")
    (s,) = found.sets
    overall = s.surprise[-1]
    known = [k for k, row in enumerate(rows) if row["overall_score"] is not None and k not in (3, 5, 8)]
    assert s.without_surprise == 3 and overall.rank.rows == len(known)
    assert overall.rank.rho == pytest.approx(-1, abs=1e-2) and overall.rank.low <= overall.rank.rho
    assert "perplexity" in {table.name for table in tables_of(found)}
    unscored = [{**row, "unscored": row["tokens"] // 2, "nll": row["nll"]} for row in side]
    write_parts(tmp_path / "half", pa.Table.from_pylist(unscored), 1)
    (half,) = analyse([ratings], perplexity=tmp_path / "half").sets
    assert half.surprise[-1].points[0].x > 1.8 * overall.points[0].x


def test_before_and_after_a_selection(tmp_path: Path) -> None:
    docs, ratings, rows = corpus(tmp_path)
    kept = {row["doc_id"] for row in rows if (row["overall_score"] or 0) > 3.5}
    chosen = [{"doc_id": row["doc_id"], "kept": row["doc_id"] in kept} for row in rows]
    folder = tmp_path / "selected"
    write_shard(folder / "selection" / part_name(0), [pa.Table.from_pylist(chosen, schema=SELECTION_SCHEMA)], SELECTION_SCHEMA)
    entry = FileEntry.of(folder, f"selection/{part_name(0)}", rows=len(rows))
    write_manifest(folder, Manifest("docs", "select", 1, {}, (), (entry,), None))
    c = analyse([ratings], selection=folder).sets[0].chosen
    assert c is not None and (c.before, c.after) == (len(rows), len(kept))
    sources = {d.id: d.source for d in made_documents(300)}
    assert {s.name: s.after for s in c.sources} == Counter(sources[i] for i in kept)
    assert sum(one.after for one in c.levels) == sum(one.after for one in c.lengths) == len(kept)
    assert all(after > before for _, before, after in c.means)
    with pytest.raises(SchemaMismatch, match="no table of a selection"):
        analyse([ratings], selection=docs)


def test_constant_columns_and_scores_off_the_scale_are_reported(tmp_path: Path) -> None:
    documents = made_documents(40)
    docs = make_docs_artifact(tmp_path / "docs", documents)
    rows = [{**row, "sensitivity": 5.0} for row in made_rows(documents)]
    rows[0]["accuracy"], rows[1]["accuracy"] = 0.0, 7.0
    (s,) = analyse([ratings_artifact(tmp_path / "ratings", docs, rows)]).sets
    by_id = {c.id: c for c in s.criteria}
    assert by_id["sensitivity"].constant and math.isnan(by_id["sensitivity"].pearson_with_summary)
    assert by_id["accuracy"].outside == 2 and len(s.axes.columns) == 13
    said = "\n".join(findings_of(s))
    assert "Accuracy: 2 scores lie off the scale 1..5" in said and "Hardly tells documents apart: Sensitivity" in said


@pytest.mark.parametrize("num", [1, 40])
def test_any_number_of_criteria(tmp_path: Path, num: int) -> None:
    documents = made_documents(60)
    docs = make_docs_artifact(tmp_path / "docs", documents)
    columns = [f"criterion_{k}" for k in range(num)]
    ratings = ratings_artifact(tmp_path / "ratings", docs, made_rows(documents, columns=columns), columns=columns)
    found = analyse([ratings])
    (s,) = found.sets
    assert [c.id for c in s.criteria] == columns and s.found_scale and s.summary is None
    assert {table.name for table in tables_of(found)} >= {"criteria", "correlation", "axes", "sources", "length"}
    assert "Name one with --rubric" in "\n".join(findings_of(s))


def test_reason_codes_are_counted_by_source(tmp_path: Path) -> None:
    _docs, _ratings, rows = corpus(tmp_path, 60)
    schema = pa.schema(
        [("doc_id", pa.string()), ("education", pa.float32()), ("format", pa.float32()), ("domain", pa.string())]
    )
    schema = schema.append(pa.field("status", pa.string())).append(pa.field("codes", pa.list_(pa.string())))
    said = [
        {"doc_id": r["doc_id"], "education": 2.0, "format": 3.0, "status": "ok", "codes": ["low_label_mass"] * (k % 3) or None}
        for k, r in enumerate(rows)
    ]
    folder = tmp_path / "coded"
    files = write_parts(folder, pa.Table.from_pylist(said, schema=schema), 2)
    write_manifest(folder, Manifest("ratings", "rate", 1, {}, (), tuple(files), None))
    (s,) = analyse([folder], docs=None).sets
    assert s.rubric.id == "prox" and s.codes == (("low_label_mass", 60),) and s.statuses == (("ok", 60),)
    assert (
        s.reasons == (("status", "ok", "(unknown)", 60), ("code", "low_label_mass", "(unknown)", 60)) and s.without_source == 60
    )
    assert "by reason code: low_label_mass 60" in "\n".join(findings_of(s))


def test_few_rated_documents_of_many_are_joined_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docs, _ratings, rows = corpus(tmp_path)
    lines = tmp_path / "few.jsonl"
    lines.write_bytes(b"\n".join(orjson.dumps({**row, "rated_bytes": None}) for row in rows[::29]))
    whole = analyse([lines], docs=docs)
    monkeypatch.setattr(analysing_sets, "BLOCK_ROWS", 2)
    small = analyse([lines], docs=docs)
    assert [table.as_dict() for table in tables_of(small)] == [table.as_dict() for table in tables_of(whole)]
    assert whole.sets[0].without_source == 0 and sum(c.rank.rows for c in whole.sets[0].length) > 100


@pytest.mark.parametrize("num", [1, 2, 3])
def test_a_handful_of_documents(tmp_path: Path, num: int) -> None:
    """Nothing can be said of so few, and nothing breaks."""
    documents = made_documents(num)
    docs = make_docs_artifact(tmp_path / "docs", documents)
    rows = [{**row, **dict.fromkeys(COLUMNS, 3.0)} for row in made_rows(documents)]
    found = analyse([ratings_artifact(tmp_path / "ratings", docs, rows)])
    (s,) = found.sets
    assert s.rows == num and all(c.constant and c.mean == 3.0 for c in s.criteria) and s.axes.columns == ()
    assert tables_of(found) and findings_of(s) and charts_of(found)


def test_names_in_another_language(tmp_path: Path) -> None:
    _docs, ratings, _rows = corpus(tmp_path, 60)
    english, chinese = (analyse([ratings], language=language).sets[0] for language in (None, "zh"))
    assert [c.id for c in chinese.criteria] == [c.id for c in english.criteria]
    assert (english.criteria[0].name, chinese.criteria[0].name) == ("Accuracy", "准确性")
    with pytest.raises(NotFound, match="no wording in 'fr'"):
        analyse([ratings], language="fr")


def test_many_sources_are_counted_together_beyond_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("typecase.app.analyse.scan._MOST_SOURCES", 5)
    _docs, ratings, rows = corpus(tmp_path, sources=[f"s{k:02}" for k in range(20)])
    (s,) = analyse([ratings], num_examples=1).sets
    assert len(s.sources) == 6 and sum(g.rows for g in s.sources) == len(rows) and s.sources[0].name == "(others)"


def test_what_cannot_be_analysed_is_said(tmp_path: Path) -> None:
    docs, ratings, rows = corpus(tmp_path)
    stranger = make_docs_artifact(tmp_path / "stranger", made_documents(3, ("elsewhere",)))
    lines = tmp_path / "lines.jsonl"
    with pytest.raises(NotFound, match="no ratings at"):
        analyse([tmp_path / "nowhere"])
    with pytest.raises(SchemaMismatch, match="holds docs, not ratings"):
        analyse([docs])
    with pytest.raises(FingerprintMismatch, match="share no ancestor"):
        analyse([ratings], docs=stranger)
    with pytest.raises(FixInput, match="examples cannot be -1"):
        analyse([ratings], num_examples=-1)
    with pytest.raises(BadQuery, match="no column 'education' of rubric 'prox'"):
        analyse([ratings], rubric="prox")
    with pytest.raises(NotFound, match=r"no part-\*\.parquet"):
        analyse([ratings], perplexity=tmp_path)
    with pytest.raises(SchemaMismatch, match="has no column 'nll'"):
        analyse([ratings], perplexity=docs)
    for text, message in (
        ("", "holds no rows"),
        ("{", "line 1 is not JSON"),
        ('{"id": "a", "x": 1}\n[]', "line 2: a row needs the text 'id'"),
        ('{"id": "a", "domain": "Law"}', "no field holds numbers"),
    ):
        lines.write_text(text)
        with pytest.raises(BadQuery, match=message):
            analyse([lines])
    turned = ratings_artifact(tmp_path / "turned", docs, rows[::-1])
    with pytest.raises(CorruptStore, match="do not rise by doc_id"):
        analyse([turned])


def test_the_command_line(tmp_path: Path) -> None:
    _docs, ratings, rows = corpus(tmp_path)
    said = CliRunner().invoke(analyse_command, [str(ratings), "--quiet"], catch_exceptions=False)
    assert said.exit_code == 0 and "accuracy (text_accuracy)" in said.output and "wiki" in said.output
    told = CliRunner().invoke(analyse_command, [str(ratings), "--json", "--good", "4"], catch_exceptions=False)
    answer = json.loads(told.output)
    assert answer["sets"][0]["rows"] == len(rows) and answer["sets"][0]["good_from"] == 4
    assert {table["name"] for table in answer["tables"]} >= {"criteria", "sources", "domains_by_source", "examples"}
