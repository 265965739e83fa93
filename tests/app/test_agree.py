"""agree, calibrate, drift, compare: the verbs and their commands, on files as users have them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import orjson
import pytest
from click.testing import CliRunner

from tests.conftest import make_documents
from tests.lm.test_pairwise import ROOMY, Judge
from typecase.app.agree.agreeing import agree, statement_of
from typecase.app.agree.calibrating import LabelFile, open_session, propose_from
from typecase.app.agree.compare_writing import Plan
from typecase.app.agree.comparing import compare, model_table
from typecase.app.agree.drifting import drift
from typecase.app.agree.readings import open_readings
from typecase.app.commands.agree import agree_command, calibrate_command, compare_command, drift_command
from typecase.core.learn.agreement import spearman
from typecase.errors import AlreadyExists, BadQuery, BadRecipe, CorruptStore, FingerprintMismatch, NotFound
from typecase.lm.protocol import Failure
from typecase.lm.rate.rubric import load_rubric
from typecase.store import shards
from typecase.store.manifest import read_manifest

RUBRIC = load_rubric("dataman")
Docs = Callable[..., Path]


def run(command: click.Command, *arguments: object, code: int = 0, input: str | None = None) -> str:
    result = CliRunner().invoke(command, [str(a) for a in arguments], catch_exceptions=False, input=input)
    assert result.exit_code == code, result.output
    return result.output


def write(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return path


def rows_of(ids: Sequence[str], scores: np.ndarray, **more: Any) -> list[dict[str, Any]]:
    return [
        {"doc_id": doc, "overall_score": float(score), "accuracy": 4, "domain": "Law" if score > 3 else "A", **more}
        for doc, score in zip(ids, scores, strict=True)
    ]


@pytest.fixture
def raters(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A model, people, and the documents they rated: 120 documents of 30 sources."""
    dice = np.random.default_rng(0)
    ids = [f"d{k:03d}" for k in range(120)]
    truth = dice.integers(1, 6, 120).astype(np.float64)
    said = np.clip(truth + dice.normal(0, 0.6, 120), 1, 5)
    docs = write(
        tmp_path / "docs.jsonl", [{"id": d, "text": "x" * (50 + 40 * k), "source": f"s{k % 30}"} for k, d in enumerate(ids)]
    )
    model = write(tmp_path / "model.jsonl", rows_of(ids[:110], said[:110], confidence=0.6, domain_confidence=0.5))
    people = write(tmp_path / "people.jsonl", rows_of(ids[10:], truth[10:], rater_kind="person"))
    return model, people, docs


def test_agree_joins_counts_and_says_who_was_measured(raters: tuple[Path, Path, Path]) -> None:
    model, people, docs = raters
    report = agree([model, people], docs=docs, by=["source", "level", "length", "domain"], resamples=200)
    (pair,) = report.pairs
    assert (pair.both, pair.only_left, pair.only_right, pair.groups) == (100, 10, 10, 30)
    assert pair.statement == "a rater with people" and pair.kinds == ("unstated", "people")
    overall = next(one for one in pair.criteria if one.criterion == "overall_score")
    rho = overall.figures["spearman"]
    assert rho.low < rho.value < rho.high and rho.value > 0.8
    assert overall.upper_documents < overall.documents == 100
    assert overall.figures["exact"].value > overall.baselines["majority"]["exact"]
    assert sum(map(sum, overall.confusion)) == 100 and overall.calibration_error is not None
    assert pair.domain is not None and pair.domain.documents == 100 and pair.domain.abstention[0][0] == 1.0
    assert sum(part.documents for part in pair.parts if part.by == "level") == 100
    assert {part.by for part in pair.parts} == {"source", "level", "length", "domain"}
    again = agree([model, people], docs=docs, by=["source", "level", "length", "domain"], resamples=200)
    assert repr(report) == repr(again)


def test_agree_never_calls_models_people() -> None:
    assert "not agreement with people" in statement_of("model", "model")
    assert "not agreement with people" in statement_of("unstated", "model")
    assert statement_of("people", "unstated") == "a rater with people"


def test_three_sets_have_an_alpha(raters: tuple[Path, Path, Path], tmp_path: Path) -> None:
    model, people, docs = raters
    third = write(tmp_path / "third.jsonl", rows_of([f"d{k:03d}" for k in range(60)], np.full(60, 3.0)))
    report = agree([model, people, third], docs=docs, resamples=100)
    assert len(report.pairs) == 3 and 0 < report.alpha["overall_score"].value < 1
    flat = next(one for one in report.pairs[2].criteria if one.criterion == "overall_score")
    assert np.isnan(flat.figures["spearman"].value)  # a rater that always says 3


def test_one_file_of_several_readings_is_compared_with_itself(tmp_path: Path) -> None:
    dice = np.random.default_rng(3)
    ids = [f"d{k}" for k in range(40)]
    first, second = (dice.integers(1, 6, 40).astype(np.float64) for _ in range(2))
    rows = [*rows_of(ids, second, rater="ben"), *rows_of(ids, first, rater="anna"), *rows_of(ids[:9], first[:9], rater="cleo")]
    path = write(tmp_path / "r.jsonl", rows)
    report = agree([path], people=[str(path)], resamples=100)
    assert [pair.both for pair in report.pairs] == [40, 9, 9] and "people with people" in report.pairs[0].statement
    overall = next(c for c in report.pairs[0].criteria if c.criterion == "overall_score")
    assert overall.figures["bias"].value == pytest.approx(float((first - second).mean()))
    assert report.alpha["overall_score"].value < 0.5


def test_an_artifact_and_its_rows_as_lines_are_the_same_set(rated: Any, tmp_path: Path) -> None:
    from typecase.lm.rate.rater import FakeRater, pack_texts
    from typecase.recipe.rate import ratings_schema, table_of
    from typecase.store.manifest import FileEntry, Manifest, write_manifest

    scores = rated[2]
    ratings = FakeRater(RUBRIC).rate(*pack_texts([*list(scores)[:20], "  "]))
    schema = ratings_schema(RUBRIC)
    ids = [*list(scores)[:20], "zz"]
    table = table_of(ratings, schema).add_column(0, schema.field("doc_id"), [ids]).cast(schema)
    folder = tmp_path / "artifact"
    shards.write_shard(folder / shards.part_name(0), [table], schema)
    write_manifest(folder, Manifest("ratings", "rate", 1, {}, (), (FileEntry.of(folder, shards.part_name(0), rows=21),)))
    lines = write(tmp_path / "lines.jsonl", [{**row, "rater_kind": "model"} for row in table.to_pylist()])
    a, b = open_readings(folder, RUBRIC), open_readings(lines, RUBRIC)
    assert (a.ids, a.columns, a.domain, a.kind, dict(a.unusable)) == (b.ids, b.columns, b.domain, b.kind, dict(b.unusable))
    assert len(a) == 20 and dict(a.unusable) == {"status empty_text": 1}
    np.testing.assert_array_equal(a.scores, b.scores)
    np.testing.assert_array_equal(a.domain_confidence, b.domain_confidence)


def test_agree_on_the_terminal_and_as_json(raters: tuple[Path, Path, Path]) -> None:
    model, people, docs = raters
    shown = run(agree_command, model, people, "--docs", docs, "--resamples", 100, "--by", "level", "--whole")
    for words in (
        "measured: a rater with people",
        "trivial raters",
        "where selection happens",
        "only the first 10",
        "domain of",
    ):
        assert words in shown
    value = json.loads(run(agree_command, model, people, "--resamples", 100, "--json"))
    assert value["pairs"][0]["both"] == 100
    assert "too narrow" in " ".join(value["warnings"])


def test_readings_are_averaged_counted_or_left_out_with_a_reason(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "overall_score": 2, "domain": "Law", "rater": "anna"},
        {"id": "a", "overall_score": 4, "domain": "C", "rater": "ben"},
        {"id": "b", "overall_score": 9, "domain": "Nowhere", "rater": "ben"},
        {"overall_score": 3},
        {"id": "c", "overall_score": None, "status": "rater_failed"},
    ]
    path = write(tmp_path / "r.jsonl", rows)
    with path.open("ab") as file:
        file.write(b"no json\n")
    found = open_readings(path, RUBRIC)
    assert found.ids == ("a",) and found.column("overall_score").tolist() == [3.0]
    assert found.repeated == 1 and found.domain == ("Law",)
    assert found.unusable == {
        "a score outside 1..5": 1, "no JSON object": 1, "no id": 1, "no score": 1, "status rater_failed": 1,
    }  # fmt: skip
    assert open_readings(f"{path}#ben", RUBRIC).column("overall_score").tolist() == [4.0]
    with pytest.raises(NotFound, match="anna, ben"):
        open_readings(f"{path}#carl", RUBRIC)
    with pytest.raises(NotFound, match="no ratings"):
        open_readings(tmp_path / "none", RUBRIC)
    with pytest.raises(BadQuery, match="no criterion"):
        open_readings(write(tmp_path / "x.jsonl", [{"id": "a", "taste": 3}]), RUBRIC)


def test_agree_refuses_what_cannot_be_meant(raters: tuple[Path, Path, Path], tmp_path: Path) -> None:
    model, people, _ = raters
    stranger = write(tmp_path / "s.jsonl", rows_of(["zz"], np.array([3.0])))
    for wrong, message in (
        (lambda: agree([model]), "one reading a document"),
        (lambda: agree([]), "needs sets"),
        (lambda: agree([model, stranger]), "share no document"),
        (lambda: agree([model, people], by=["colour"]), "no breakdown"),
        (lambda: agree([model, people], people=["else"]), "none of the sets"),
    ):
        with pytest.raises(BadQuery, match=message):
            wrong()


@pytest.fixture
def rated(docs_artifact: Docs, tmp_path: Path) -> tuple[Path, Path, dict[str, float]]:
    """150 documents that score 1 to 5; the file of their ratings; the score of each."""
    documents = make_documents([f"text {k}\x1b[2J " + "word " * k for k in range(150)])
    ids = sorted(d.id for d in documents)
    scores = np.round(np.linspace(1, 5, 150), 3)
    return (
        docs_artifact(documents),
        write(tmp_path / "ratings.jsonl", rows_of(ids, scores)),
        dict(zip(ids, scores.tolist(), strict=True)),
    )


def label_all(docs: Path, ratings: Path, out: Path, *, size: int = 80) -> None:
    session, file = open_session(docs, ratings, out, size=size), LabelFile(out)
    while (one := session.current) is not None:
        file.append(session.answer("keep" if one.score > 3 else "drop"))


def test_a_session_asks_resumes_and_takes_back(rated: tuple[Path, Path, dict[str, float]], tmp_path: Path) -> None:
    docs, ratings, scores = rated
    out = tmp_path / "labels.jsonl"
    session, file = open_session(docs, ratings, out, size=20), LabelFile(out)
    first = session.current
    assert first is not None and first.score == scores[first.doc_id] and first.text.startswith("text")
    file.append(session.answer("keep"))
    file.append(session.answer("skip"))
    taken = session.undo()
    assert taken is not None
    file.append(taken)
    with out.open("ab") as torn:
        torn.write(b'{"doc_id": "cut o')
    again = open_session(docs, ratings, out, size=20)
    assert again.verdicts == {first.doc_id: "keep"} == session.verdicts
    assert again.progress == {"keep": 1, "drop": 0, "skip": 0, "open": 19}
    assert again.asked == session.asked and b"cut o" not in out.read_bytes()
    with pytest.raises(BadQuery):
        again.answer("maybe")
    with pytest.raises(AlreadyExists, match="size"):
        open_session(docs, ratings, out, size=21)
    assert open_session(docs, ratings, tmp_path / "new.jsonl", size=20).undo() is None


def test_a_threshold_follows_from_the_labels(rated: tuple[Path, Path, dict[str, float]], tmp_path: Path) -> None:
    docs, ratings, _ = rated
    out = tmp_path / "labels.jsonl"
    label_all(docs, ratings, out)
    found = propose_from(out, precision=0.95)
    assert found.proposal.cut is not None and 2.7 < found.proposal.cut.threshold < 3.2
    assert found.verdicts == {"keep": found.proposal.kept, "drop": 80 - found.proposal.kept, "skip": 0}
    assert found.notes == ()
    wider = write(
        tmp_path / "wider.jsonl", [*map(orjson.loads, ratings.read_bytes().splitlines()), *rows_of(["x"], np.ones(1))]
    )
    assert "151 documents" in propose_from(out, precision=0.95, ratings=wider).notes[0]
    half = propose_from(out, keep_rate=0.5, shape="logistic").proposal.cut
    assert half is not None and half.keep_rate == pytest.approx(0.5, abs=0.01)
    moved = write(tmp_path / "moved.jsonl", rows_of(["x"], np.array([3.0])))
    with pytest.raises(FingerprintMismatch, match="drawn from"):
        propose_from(out, precision=0.9, ratings=moved)
    with pytest.raises(NotFound, match="no labels"):
        propose_from(tmp_path / "none.jsonl", precision=0.9)
    with pytest.raises(CorruptStore, match="no file of labels"):
        propose_from(ratings, precision=0.9)


def test_calibrate_by_keys(rated: tuple[Path, Path, dict[str, float]], tmp_path: Path) -> None:
    docs, ratings, _ = rated
    out = tmp_path / "labels.jsonl"
    said = run(calibrate_command, docs, "--ratings", ratings, "-o", out, "--sample", 6, input="k\nd\nu\ns\nm\nx\nd\nq\nk\n")
    assert "1 keep, 1 drop, 1 skip, 3 open" in said
    assert "\x1b" not in said and "�[2J" in said  # a text cannot move the cursor
    value = json.loads(
        run(calibrate_command, docs, "--ratings", ratings, "-o", out, "--sample", 6, "--json", input="k\n").split("> ")[-1]
    )
    assert value == {"keep": 2, "drop": 1, "skip": 1, "open": 2}
    shown = run(calibrate_command, "--labels", out, "--keep-rate", "0.4")
    assert "threshold" in shown and "too few labels" in shown
    with pytest.raises(BadQuery, match="--labels"):
        run(calibrate_command, docs)


def test_drift_finds_what_moved_and_corrects_for_its_tests(tmp_path: Path) -> None:
    dice = np.random.default_rng(0)
    ids = [f"d{k}" for k in range(400)]
    old = write(tmp_path / "old.jsonl", rows_of(ids, np.clip(dice.normal(2.5, 0.7, 400), 1, 5)))
    new = write(tmp_path / "new.jsonl", rows_of([f"n{d}" for d in ids], np.clip(dice.normal(3.5, 0.7, 400), 1, 5)))
    report = drift(old, new, resamples=100)
    by_name = {one.criterion: one for one in report.pairs[0].criteria}
    assert by_name["overall_score"].moved and not by_name["accuracy"].moved
    assert report.tests == 3 and by_name["overall_score"].holm_p >= by_name["overall_score"].p
    assert report.pairs[0].domains is not None and report.pairs[0].domains.moved
    assert not report.alarm
    same = drift(old, old, resamples=100)
    assert not any(one.moved for one in same.pairs[0].criteria) and "--anchors" in same.notes[0]


def test_drift_by_a_property_and_of_anchors(tmp_path: Path) -> None:
    dice = np.random.default_rng(1)
    ids = [f"d{k}" for k in range(300)]
    scores = np.clip(dice.normal(3, 0.5, 300) + (np.arange(300) % 3 == 0), 1, 5)
    docs = write(
        tmp_path / "docs.jsonl", [{"id": d, "text": "x", "source": f"s{k % 60}", "dump": k % 3} for k, d in enumerate(ids)]
    )
    ratings = write(tmp_path / "r.jsonl", rows_of(ids, scores))
    report = drift(ratings, docs=docs, by="dump", resamples=100)
    assert [pair.new for pair in report.pairs] == ["dump 0", "dump 1", "dump 2"] and report.tests == 9
    assert next(c for c in report.pairs[0].criteria if c.criterion == "overall_score").moved
    few = write(tmp_path / "few.jsonl", [{"id": doc, "text": "x", "source": f"s{k % 2}"} for k, doc in enumerate(ids)])
    by_source = drift(ratings, docs=few, by="source", resamples=100)
    assert all(pair.by_document for pair in by_source.pairs) and "draws documents" in by_source.notes[-1]
    assert not any(pair.by_document for pair in report.pairs)
    later = write(tmp_path / "later.jsonl", rows_of(ids, np.clip(scores - 0.4, 1, 5)))
    shown = run(drift_command, "--anchors", ratings, later, code=1)
    assert "ALARM" in shown and "the rater moved" in shown
    assert "stands still" in run(drift_command, "--anchors", ratings, ratings)
    for wrong, message in (
        (lambda: drift(ratings), "give two sets"),
        (lambda: drift(ratings, docs=docs, by="nothing"), "nothing to compare"),
    ):
        with pytest.raises(BadQuery, match=message):
            wrong()


PLAN = Plan(pairs=60, words=40, anchors=6)


@pytest.fixture
def graded(docs_artifact: Docs) -> tuple[Path, dict[str, int]]:
    """16 documents of a planted quality, and one of white space."""
    documents = make_documents([*("good " * k + "end" for k in range(16)), "   "])
    return docs_artifact(documents), {d.id: k for k, d in enumerate(documents)}


@pytest.mark.parametrize("how", ["random", "telling", "neighbours"])
def test_compare_ranks_documents_and_writes_ratings(graded: tuple[Path, dict[str, int]], tmp_path: Path, how: str) -> None:
    docs, grade = graded
    out = tmp_path / how
    plan = Plan(pairs=60, how=how, words=40)  # type: ignore[arg-type]
    found = compare(docs, out, model=Judge(bias=0.8, can=ROOMY), criteria=["educational_value"], plan=plan)
    (one,) = found.criteria
    assert (found.documents, one.pairs, one.valid, one.components) == (16, 60, 60, 1)
    assert one.bias == pytest.approx(0.8, abs=0.15) and one.label_mass == pytest.approx(0.8, abs=0.01)
    table = shards.read_columns(out / shards.part_name(0))
    scores = np.array(table.column("educational_value").to_pylist())
    assert spearman(scores, [grade[doc] for doc in table.column("doc_id").to_pylist()]) > 0.95
    assert 1 <= scores.min() < scores.max() <= 5
    balance = read_manifest(out).balance
    assert balance is not None and (balance.entered, balance.kept, balance.removed) == (17, 16, {"not compared": 1})
    side = shards.read_columns(out / "pairwise" / shards.part_name(0))
    assert side.num_rows == 16 and min(side.column("error").to_pylist()) > 0
    assert len(open_readings(out, load_rubric("qurating"))) == 16


def test_compare_goes_on_and_asks_again_what_failed_in_passing(graded: tuple[Path, dict[str, int]], tmp_path: Path) -> None:
    docs, _ = graded
    lm = Judge(can=ROOMY, failures={"good " * 15 + "end": Failure("timeout", "planted")})
    first = compare(docs, tmp_path / "a", model=lm, criteria=["educational_value"], plan=PLAN)
    missing = first.criteria[0].missing["timeout"]
    assert missing > 0 and first.criteria[0].valid == 60 - missing
    log = tmp_path / "a" / "comparisons.jsonl"
    log.write_bytes(b"\n".join(log.read_bytes().split(b"\n")[:31]) + b'\n{"torn')
    calm = Judge(can=ROOMY)
    calm._failures = {}
    asked = calm.rows_asked
    again = compare(docs, tmp_path / "a", model=_same_name(calm, lm), criteria=["educational_value"], plan=PLAN)
    whole = compare(docs, tmp_path / "b", model=_same_name(Judge(can=ROOMY), lm), criteria=["educational_value"], plan=PLAN)
    assert again.reused == 30 and again.criteria[0].valid == 60 and calm.rows_asked - asked < 2 * 60
    part = shards.part_name(0)
    assert (tmp_path / "a" / part).read_bytes() == (tmp_path / "b" / part).read_bytes()
    with pytest.raises(AlreadyExists, match="plan"):
        compare(docs, tmp_path / "a", model=lm, criteria=["educational_value"], plan=Plan(pairs=61))
    assert whole.criteria == again.criteria


def _same_name(lm: Judge, other: Judge) -> Judge:
    assert lm.fingerprint == other.fingerprint
    return lm


def test_a_model_that_goes_by_place_is_found_out(graded: tuple[Path, dict[str, int]], tmp_path: Path) -> None:
    docs, _ = graded
    lm = Judge(bias=-90.0, mass=0.01, can=ROOMY)
    found = compare(docs, tmp_path / "out", model=lm, criteria=["educational_value"], plan=PLAN)
    assert found.criteria[0].consistent is not None and found.criteria[0].consistent < 0.1
    said = " ".join(found.warnings)
    assert "goes by place" in said and "to give a label" in said


def test_a_model_is_named_by_path_address_or_table(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m.toml").write_text('[model]\npath = "m"\nchat = true\n')
    assert model_table(tmp_path / "m.toml") == {"path": str((tmp_path / "m").resolve()), "chat": True}
    assert model_table("http://host/v1#x") == {"url": "http://host/v1", "model": "x"}
    with pytest.raises(NotFound):
        model_table(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("= 1")
    with pytest.raises(BadRecipe):
        model_table(tmp_path / "bad.toml")


def test_the_rater_of_a_comparison_opens_and_places_documents(
    graded: tuple[Path, dict[str, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from typecase.lm import models
    from typecase.lm.rate.rater import pack_texts
    from typecase.lm.rate.raters import open_rater

    docs, _ = graded
    monkeypatch.setattr(models, "open_lm", lambda *a, **k: Judge(can=ROOMY))
    compare(docs, tmp_path / "out", model="http://host/v1#judge", criteria=["educational_value"], plan=PLAN)
    rater = open_rater(tmp_path / "out" / "rater")
    ratings = rater.rate(*pack_texts(["end", "good " * 8, "good " * 15]))
    low, middle, high = ratings.scores[:, 0]
    assert 1 <= low < middle < high <= 5


def test_compare_on_the_terminal_and_as_json(
    graded: tuple[Path, dict[str, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from typecase.lm import models

    docs, _ = graded
    monkeypatch.setattr(models, "open_lm", lambda *a, **k: Judge(bias=0.5, can=ROOMY))
    asked = (docs, "-o", tmp_path / "out", "--model", "http://host/v1#judge", "--criterion", "style", "--pairs", 40)
    shown = run(compare_command, *asked)
    assert "16 documents compared by judge (labels)" in shown and "writing_style" in shown and "comparisons a document" in shown
    value = json.loads(run(compare_command, *asked, "--json"))
    assert value["reused"] == 40 and value["criteria"][0]["bias"] == pytest.approx(0.5, abs=0.01)
    assert (tmp_path / "out" / "rater" / "rater.toml").is_file()
    with pytest.raises(BadQuery, match="no criterion"):
        run(
            compare_command, docs, "-o", tmp_path / "x", "--model", "http://host/v1#judge", "--criterion", "taste", "--pairs", 4
        )
