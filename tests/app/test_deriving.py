"""Deriving whole: from planted texts to a rubric; edits, stale steps, replays, a teacher by post; the commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from tests.conftest import make_documents
from typecase.app.commands.rubric import perplexity_command, rubric_command
from typecase.app.derive import deriving
from typecase.app.derive.deriving import FILES, Derivation, derive
from typecase.errors import BadRecipe, CorruptStore, FingerprintMismatch, ModelUnavailable, NotFound, StaleEdit, TryAgain
from typecase.lm.cache import AnswerCache, CachedLM
from typecase.lm.derive.deriving import Pruning
from typecase.lm.fake import FakeLM
from typecase.lm.protocol import Can, Failure
from typecase.lm.rate.rubric import builtin_rubrics, load_rubric
from typecase.recipe.perplexity import Perplexity
from typecase.recipe.run import run_stage

Docs = Callable[..., Path]
LINE = "the compositor sets a line of type letter by letter and locks the forme with quoins before the press runs again"
BANNER = "We use cookies. Accept all cookies. "


def texts() -> list[str]:
    """120 ordinary texts, 10 of noise, 10 of a banner over and over: a tail is 10 of 140."""
    rng = np.random.default_rng(2)
    found = [" ".join(rng.choice(LINE.split(), 40)) + "." for _ in range(120)]
    noise = [" ".join("".join(rng.choice(list("qxzjkv"), 6)) for _ in range(30)) for _ in range(10)]
    return [*found, *noise, *(BANNER * 8 + str(k) for k in range(10))]


def reply(prompt: str) -> str:
    """Names what it sees, in words that differ; names criteria by the first phrase."""
    if "<<<" not in prompt:
        phrase = prompt.split("- ")[1].split("\n")[0]
        return json.dumps({"id": phrase, "name": phrase, "question": f"Free of {phrase}?", "anchors": {"1": "no", "5": "yes"}})
    body = prompt.split("<<<\n")[1]
    end = "high" if "perplexity: high" in prompt else "low"
    if "cookies" in body:
        cause, evidence = ["cookie banner", "cookie consent banner"][last_digit(body) % 2], "Accept all cookies"
    else:
        cause, evidence = "random letters", body.split()[0]
    return json.dumps({"causes": [{"cause": cause, "evidence": evidence, "direction": end}]})


def last_digit(body: str) -> int:
    return int(body.rstrip("> \n")[-1])


PLAN = Derivation("fake", quantile=0.072, pruning=Pruning())


@pytest.fixture
def docs(docs_artifact: Docs) -> Path:
    return docs_artifact(make_documents(texts()), 2)


@pytest.fixture
def teacher(monkeypatch: pytest.MonkeyPatch) -> FakeLM:
    lm = FakeLM(can=Can(generate=True), reply=reply)
    opened: dict[Path, AnswerCache] = {}

    def open_teacher(spec: str, out: Path) -> CachedLM:
        if out not in opened:
            opened[out] = AnswerCache(out / "answers.db")
        return CachedLM(lm, opened[out])

    monkeypatch.setattr(deriving, "open_teacher", open_teacher)
    return lm


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_planted_causes_become_criteria(docs: Path, tmp_path: Path, teacher: FakeLM) -> None:
    made = derive(docs, tmp_path / "out", PLAN)
    tails = lines(tmp_path / "out" / FILES["tails"])
    planted = {d.id: d.text for d in make_documents(texts())[120:]}
    assert {row["doc_id"] for row in tails} == set(planted)
    assert all((row["end"] == "low") == ("cookies" in planted[str(row["doc_id"])]) for row in tails)
    rubric = load_rubric(tmp_path / "out/rubric.toml")
    assert set(rubric.columns) == {"cookie_banner", "random_letters"} == set(made.report["rubric"]["criteria"])
    provenance = json.loads((tmp_path / "out/provenance.json").read_text())
    assert provenance["random_letters"]["support"] == {"low": 0, "high": 10}
    for one in provenance["cookie_banner"]["evidence"]:
        assert planted[one["doc_id"]][one["start"] : one["stop"]] == one["text"] == "Accept all cookies"
    assert made.report["coverage"] == 1 and made.report["codes"] == {"ok": 20}
    assert made.report["redundancy"]["correlation"] == [[1.0, -1.0], [-1.0, 1.0]]
    assert "ngram" in made.report["log"]["perplexity"] and "average linkage" in made.report["log"]["merge rule"]
    assert derive(docs, tmp_path / "out", PLAN).notes == tuple(f"{name}: there already" for name in FILES.values())


def test_a_replay_from_the_answers_is_byte_identical(docs: Path, tmp_path: Path, teacher: FakeLM) -> None:
    out = tmp_path / "out"
    derive(docs, out, PLAN)
    names = [*FILES.values(), "provenance.json", "report.json"]
    before, asked = {name: (out / name).read_bytes() for name in names}, teacher.rows_asked
    for name in [*names, "state.json"]:
        (out / name).unlink()
    derive(docs, out, PLAN)
    assert {name: (out / name).read_bytes() for name in names} == before and teacher.rows_asked == asked


def test_an_edit_is_taken_and_what_follows_is_made_again(docs: Path, tmp_path: Path, teacher: FakeLM) -> None:
    out = tmp_path / "out"
    derive(docs, out, PLAN)
    clusters = lines(out / FILES["clusters"])
    clusters[1]["kept"], clusters[1]["reason"] = False, "not wanted"
    (out / FILES["clusters"]).write_text("\n".join(json.dumps(row) for row in clusters) + "\n")
    made = derive(docs, out, PLAN)
    assert made.notes[2:] == (
        "3-clusters.jsonl: edited by hand, taken as it is",
        "4-names.jsonl: stale, made again",
        "rubric.toml: stale, made again",
    )
    assert len(load_rubric(out / "rubric.toml").criteria) == 1
    tails = (out / FILES["tails"]).read_text().splitlines()[1:]
    (out / FILES["tails"]).write_text("\n".join(tails) + "\n")
    with pytest.raises(StaleEdit, match=r"3-clusters\.jsonl was edited by hand"):
        derive(docs, out, PLAN)
    kept = derive(docs, out, PLAN, keep_edits=True)
    assert (
        "3-clusters.jsonl: edited by hand, taken as it is" in kept.notes
        and "2-causes.jsonl: stale, made again" not in kept.notes
    )
    assert len(lines(out / FILES["causes"])) == 19


def test_steps_stop_where_they_are_told(docs: Path, tmp_path: Path, teacher: FakeLM) -> None:
    for number, step in enumerate(deriving.STEPS, start=1):
        assert len(derive(docs, tmp_path / "out", PLAN, until=step).notes) == number
        assert sum((tmp_path / "out" / name).exists() for name in FILES.values()) == number


def test_a_line_that_is_spoiled_is_named(docs: Path, tmp_path: Path, teacher: FakeLM) -> None:
    out = tmp_path / "out"
    derive(docs, out, PLAN, until="causes")
    good = (out / FILES["causes"]).read_text()
    (out / FILES["causes"]).write_text(good + "{oops\n")
    with pytest.raises(CorruptStore, match="line 21 is not JSON"):
        derive(docs, out, PLAN)
    (out / FILES["causes"]).write_text(good + '{"doc": 1}\n')
    with pytest.raises(CorruptStore, match="line 21 is no cause"):
        derive(docs, out, PLAN)
    row = {**lines_of(good)[0], "doc_id": "f" * 32}
    (out / FILES["tails"]).write_text((out / FILES["tails"]).read_text().replace(str(lines_of(good)[0]["doc_id"]), "f" * 32))
    (out / FILES["causes"]).unlink()
    with pytest.raises(NotFound, match="f" * 32):
        derive(docs, out, PLAN)
    assert row


def lines_of(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_rounds_ask_again_for_what_is_not_covered(docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hesitant(prompt: str) -> str:
        known = "Causes that were named" in prompt
        return reply(prompt) if "<<<" not in prompt or "cookies" in prompt or known else "no idea"

    monkeypatch.setattr(deriving, "open_teacher", lambda spec, out: FakeLM(can=Can(generate=True), reply=hesitant))
    first = derive(docs, tmp_path / "one", PLAN)
    assert first.report["codes"] == {"not_json": 10, "ok": 10} and first.report["coverage"] == 0.5
    second = derive(docs, tmp_path / "two", Derivation("fake", quantile=0.072, rounds=3))
    assert second.report["codes"] == {"not_json": 10, "ok": 20} and second.report["coverage"] == 1
    assert {row["round"] for row in lines(tmp_path / "two" / FILES["causes"])} == {1, 2}


def test_trial_ratings_drop_one_of_two(docs: Path, tmp_path: Path, teacher: FakeLM) -> None:
    out, ratings = tmp_path / "out", tmp_path / "ratings.jsonl"
    derive(docs, out, PLAN)
    levels = [1, 2, 3, 4, 5, 4]
    ratings.write_text(
        "\n".join(json.dumps({"id": str(k), "cookie_banner": n, "random_letters": 6 - n}) for k, n in enumerate(levels))
    )
    made = derive(docs, out, Derivation("fake", quantile=0.072, version=2), ratings=ratings)
    assert (
        made.report["redundant"] == {"random_letters": "cookie_banner"}
        and made.report["redundancy"]["basis"] == "trial ratings"
    )
    rubric = load_rubric(out / "rubric.toml")
    assert rubric.columns == ("cookie_banner",) and rubric.version == 2
    ratings.write_text('{"id": "1", "other": 3}\n')
    with pytest.raises(BadRecipe):
        derive(docs, out, PLAN, ratings=ratings)


def test_a_teacher_by_post_is_waited_for(docs: Path, tmp_path: Path) -> None:
    post = tmp_path / "post"
    plan = Derivation(f"post:{post}", quantile=0.072)
    for _ in range(2):
        with pytest.raises(TryAgain, match="requests wait for a reply"):
            derive(docs, tmp_path / "out", plan)
        with (post / "replies.jsonl").open("a") as file:
            for request in lines(post / "requests.jsonl"):
                file.write(json.dumps({"id": request["id"], "reply": reply(str(request["prompt"]))}) + "\n")
    made = derive(docs, tmp_path / "out", plan)
    assert set(made.report["rubric"]["criteria"]) == {"cookie_banner", "random_letters"}


def test_a_teacher_that_is_down_leaves_no_file(docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    down = FakeLM(can=Can(generate=True), failures={"": Failure("connection", "planted")})
    monkeypatch.setattr(deriving, "open_teacher", lambda spec, out: down)
    with pytest.raises(ModelUnavailable, match="failed:connection"):
        derive(docs, tmp_path / "out", PLAN)
    assert not (tmp_path / "out" / FILES["causes"]).exists()
    mute = FakeLM(can=Can(generate=True), replies={"": "…"})
    monkeypatch.setattr(deriving, "open_teacher", lambda spec, out: mute)
    with pytest.raises(BadRecipe, match="no cause"):
        derive(docs, tmp_path / "out", PLAN)


def test_a_perplexity_of_other_documents_is_refused(docs: Path, docs_artifact: Docs, tmp_path: Path, teacher: FakeLM) -> None:
    mine = run_stage(Perplexity(unit="bytes"), {"docs": docs}, tmp_path / "mine").folder
    made = derive(docs, tmp_path / "out", Derivation("fake", perplexity=str(mine), quantile=0.072))
    assert "unit bytes" in made.report["log"]["perplexity"] and not (tmp_path / "out/perplexity").exists()
    other = docs_artifact(make_documents(["another text"]), 1, "other")
    with pytest.raises(FingerprintMismatch):
        derive(other, tmp_path / "else", Derivation("fake", perplexity=str(mine)))


def test_the_commands(docs: Path, tmp_path: Path, teacher: FakeLM) -> None:
    run = CliRunner().invoke
    out = tmp_path / "out"
    shown = run(rubric_command, ["derive", str(docs), "-o", str(out), "--teacher", "fake", "--quantile", "0.072", "--quiet"])
    assert shown.exit_code == 0, shown.output
    assert "10 low 10 high" in shown.output and "rubric derived 1: cookie_banner, random_letters" in shown.output
    shown = run(
        rubric_command, ["derive", str(docs), "-o", str(tmp_path / "t"), "--teacher", "fake", "--step", "tails", "--json"]
    )
    assert json.loads(shown.output)["notes"] == ["1-tails.jsonl: made"]
    shown = run(rubric_command, ["show", str(out / "rubric.toml"), "--anchors"])
    assert "Free of cookie banner?" in shown.output and "1  no" in shown.output
    assert "accuracy" in run(rubric_command, ["show", "dataman"]).output
    assert (
        load_rubric("dataman", "zh").criteria[0].question in run(rubric_command, ["show", "dataman", "--language", "zh"]).output
    )
    listed = run(rubric_command, ["list"]).output
    assert all(name in listed for name in builtin_rubrics())
    assert {one["id"] for one in json.loads(run(rubric_command, ["list", "--json"]).output)} >= {"dataman"}
    found = run(perplexity_command, [str(docs), "-o", str(tmp_path / "ppl"), "--quiet"])
    assert found.exit_code == 0 and "(token-weighted)" in found.output and "arithmetic (published)" in found.output
    value = json.loads(run(perplexity_command, [str(docs), "-o", str(tmp_path / "ppl"), "--json"]).output)
    assert value["perplexity"]["documents"] == 140 and value["sources"]["test"]["documents"] == 140
