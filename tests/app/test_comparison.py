"""examples/comparison.py: every arm of the published comparison from one file."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from typecase.recipe.recipe import load_recipe
from typecase.recipe.refine import Refine

FILE = Path(__file__).parents[2] / "examples" / "comparison.py"
ARMS = ["raw", "gopher_quality", "gopher_repetition", "c4", "fineweb", "all rules", "document", "document + chunk"]


def arms(refiner: str | None = None) -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location("comparison_example", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[str, Any] = module.arms(refiner)
    return found


def refining(recipe: Any) -> Refine | None:
    return next((stage for stage in recipe.stages if isinstance(stage, Refine)), None)


def test_the_arms_are_those_of_the_published_comparison() -> None:
    found = arms()
    assert list(found) == ARMS and refining(found["raw"]) is None
    assert refining(found["all rules"]) == Refine(rules=("gopher_quality", "gopher_repetition", "c4", "fineweb"))
    document, both = refining(found["document"]), refining(found["document + chunk"])
    assert document is not None and document.only == "document" and both == Refine()
    assert load_recipe(FILE).name == "document + chunk"


def test_a_refiner_takes_the_last_two_arms() -> None:
    found = arms("model")
    assert refining(found["document"]) == Refine(rules=(), refiner="model", only="document")
    assert refining(found["document + chunk"]) == Refine(rules=(), refiner="model")
    assert refining(found["c4"]) == Refine(rules=("c4",))


@pytest.mark.slow
def test_it_runs_on_the_sample_corpus(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(FILE), "--work", str(tmp_path)], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    table = done.stdout.split("\n\n")[0].strip().splitlines()
    assert [line[:20].strip() for line in table] == ["arm", *ARMS]
    kept = {line[:20].strip(): float(line.split()[-2].rstrip("%")) for line in table[1:]}
    assert kept["raw"] == 100 > kept["document"] > kept["document + chunk"] > kept["c4"] > kept["all rules"]
    assert "gopher_quality.letters" in done.stdout
