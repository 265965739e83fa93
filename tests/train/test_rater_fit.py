"""From an annotation set to a rater that is opened and rates: it learns, resumes to the same bytes, and says how it did."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.lm.tiny import one_thread
from tests.train.made import made_annotations, rubric
from typecase.core.learn.agreement import spearman
from typecase.errors import AlreadyExists, BadQuery, BadRecipe, NotFound
from typecase.lm.rate.annotations import Annotations
from typecase.lm.rate.rater import pack_texts
from typecase.lm.rate.raters import open_rater
from typecase.lm.rate.rubric import load_rubric
from typecase.store.manifest import first_damage, read_manifest
from typecase.train.annotation_set import read_annotations

pytest.importorskip("torch")
pytest.importorskip("transformers")

from typecase.train import rater_fit
from typecase.train.rater_fit import fit_rater
from typecase.train.rater_recipe import RaterRecipe, split_of
from typecase.train.tune import Scored

assert one_thread
SEEDS = Path(__file__).parents[2] / "seeds"
QUICK = RaterRecipe(base="tiny", window=24, epochs=0.5, batch=8, every=3, rate=1e-2, device="cpu")


class Killed(Exception):
    """Stands for a power cut."""


class Cut:
    """Pulls the plug after some steps."""

    def __init__(self, after: int) -> None:
        self.after = after

    def stepped(self, step: int, steps: int, loss: float) -> None:
        if step == self.after:
            raise Killed

    def scored(self, scored: Scored, best: bool) -> None:
        pass


@pytest.fixture(scope="module")
def annotations(tmp_path_factory: pytest.TempPathFactory) -> Annotations:
    return made_annotations(tmp_path_factory.mktemp("made") / "notes")


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_tiny_model_learns_the_form_and_rates_sources_it_never_saw(tmp_path: Path) -> None:
    made = made_annotations(tmp_path / "notes", num=240)
    fitted = fit_rater(made, tmp_path / "rater", replace(QUICK, epochs=8, every=64))
    losses = [scored.held_out for scored in fitted.tuned.history]
    assert losses[-1] < 0.05 * losses[0] and f"{losses[-1]:.4f}" in fitted.card
    domain = fitted.figures["domain"]
    assert domain["accuracy"] > 0.9 > domain["majority_accuracy"]
    for row in fitted.figures["criteria"].values():
        assert row["accuracy"] > row["majority_accuracy"] and row["rho"] > 0.6

    rater = open_rater(tmp_path / "rater")
    assert rater.fingerprint == fitted.fingerprint and fitted.fingerprint in fitted.card
    said = rater.rate(*pack_texts(["fish boat! wave! salt! tide!", "cow barn wheat hedge path", " "]))
    assert said.domain_names() == ["Sea", "Land", None]
    assert said.status_names() == ["ok", "ok", "empty_text"]
    assert said.scores[0, 0] > said.scores[1, 0] and said.scores[0, 1] > said.scores[1, 1]


def test_the_folder_is_whole_and_its_manifest_balances(annotations: Annotations, tmp_path: Path) -> None:
    fit_rater(annotations, tmp_path / "rater", QUICK)
    manifest = read_manifest(tmp_path / "rater")
    assert manifest.kind == "rater" and first_damage(tmp_path / "rater", manifest) is None
    assert manifest.balance is not None and manifest.balance.kept == 120
    assert sum(manifest.counts[part] for part in ("train", "held_out", "test")) == manifest.counts["documents"] == 120
    assert {entry.name for entry in manifest.files} | {"manifest.json"} == set(bytes_of(tmp_path / "rater"))
    assert not list(tmp_path.glob(".*.partial"))
    with pytest.raises(AlreadyExists, match="exists"):
        fit_rater(annotations, tmp_path / "rater", QUICK)


@pytest.mark.parametrize("rank", [0, 2])
def test_a_fit_that_was_killed_ends_with_the_same_folder(annotations: Annotations, tmp_path: Path, rank: int) -> None:
    recipe = replace(QUICK, rank=rank, blank=0.3, random=0.2)
    fit_rater(annotations, tmp_path / "straight" / "rater", recipe)
    for after in (1, 5):
        with pytest.raises(Killed):
            fit_rater(annotations, tmp_path / "broken" / "rater", recipe, watch=Cut(after))
        assert list((tmp_path / "broken").glob(".rater.*.partial")) and not (tmp_path / "broken" / "rater").exists()
    fit_rater(annotations, tmp_path / "broken" / "rater", recipe)
    assert bytes_of(tmp_path / "broken" / "rater") == bytes_of(tmp_path / "straight" / "rater")


def test_another_seed_is_another_rater(annotations: Annotations, tmp_path: Path) -> None:
    made = [fit_rater(annotations, tmp_path / str(seed), replace(QUICK, seed=seed, epochs=0.1)) for seed in (1, 2)]
    assert made[0].fingerprint != made[1].fingerprint


def test_an_update_of_a_checkpoint_is_saved_as_a_plain_checkpoint(annotations: Annotations, tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    first = fit_rater(annotations, tmp_path / "first", QUICK).folder / "model"
    second = fit_rater(annotations, tmp_path / "second", replace(QUICK, base=str(first), rank=2)).folder / "model"
    before, after = load_file(first / "model.safetensors"), load_file(second / "model.safetensors")
    assert before.keys() == after.keys()
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    assert changed and all("_proj" in name for name in changed)
    assert (first / "tokenizer.json").read_bytes() == (second / "tokenizer.json").read_bytes()


def test_the_rater_is_asked_as_it_was_trained(annotations: Annotations, tmp_path: Path) -> None:
    fit_rater(annotations, tmp_path / "blank", replace(QUICK, blank=1.0, form="rubric_first", epochs=0.1))
    fit_rater(annotations, tmp_path / "ends", replace(QUICK, long="ends", epochs=0.1))
    blank: Any = open_rater(tmp_path / "blank")
    assert blank.inner.passes == 1 and blank.window_tokens == 24
    ends: Any = open_rater(tmp_path / "ends")
    assert ends.view == "head_tail" and ends.head_tail_tokens == 24
    assert ends.rubric.fingerprint == rubric().fingerprint


@pytest.mark.parametrize("split_by", ["source", "document"])
def test_no_source_and_no_variant_lies_on_two_sides(split_by: Any) -> None:
    made, _ = read_annotations(SEEDS, load_rubric("dataman"))
    seeds = made.documents
    split = split_of(seeds, replace(QUICK, split_by=split_by))
    sides = (split.train, split.held_out, split.test)
    assert sorted(np.concatenate(sides).tolist()) == list(range(len(seeds)))
    assert all(len(side) > 0.05 * len(seeds) for side in sides)
    side_of = {int(row): name for name, side in enumerate(sides) for row in side}
    for row in np.flatnonzero(seeds.original >= 0):
        assert side_of[int(row)] == side_of[int(seeds.original[row])]
    sources = [{seeds.sources[row] for row in side} for side in sides]
    apart = not (sources[0] & sources[1] or sources[0] & sources[2] or sources[1] & sources[2])
    assert apart == (split_by == "source")


def test_of_a_large_fold_a_part_is_drawn_and_the_rest_is_not_learnt_from(annotations: Annotations) -> None:
    whole = split_of(annotations.documents, QUICK)
    part = split_of(annotations.documents, replace(QUICK, held_out=4, measured=3))
    assert np.array_equal(part.train, whole.train)
    assert len(part.held_out) == 4 and set(part.held_out) < set(whole.held_out)
    assert len(part.test) == 3 and set(part.test) < set(whole.test)


def test_what_cannot_be_fitted_is_refused_before_any_training(
    annotations: Annotations, tmp_path: Path, monkeypatch: Any
) -> None:
    def never(*given: Any, **more: Any) -> None:
        raise AssertionError("training began")

    monkeypatch.setattr(rater_fit, "tune", never)
    few = made_annotations(tmp_path / "few", sources=2)
    with pytest.raises(BadRecipe, match="3 sources or more, there are 2 sources"):
        fit_rater(few, tmp_path / "out", QUICK)
    with pytest.raises(BadRecipe, match=r"context of base holds 1024 tokens.* at most \d+, not 2000"):
        fit_rater(annotations, tmp_path / "out", replace(QUICK, window=2000))
    with pytest.raises(NotFound, match="no model at"):
        fit_rater(annotations, tmp_path / "out", replace(QUICK, base=str(tmp_path / "nowhere")))
    with pytest.raises(BadRecipe, match="no form 'sonnet'"):
        fit_rater(annotations, tmp_path / "out", replace(QUICK, form="sonnet"))
    with pytest.raises(BadQuery, match="no device 'teapot'"):
        fit_rater(annotations, tmp_path / "out", replace(QUICK, device="teapot"))
    with pytest.raises(BadQuery, match="epochs"):
        replace(QUICK, epochs=0)
    assert not (tmp_path / "out").exists()


FIT = """
import sys, torch
from pathlib import Path
from tests.train.made import made_annotations
from tests.train.test_rater_fit import QUICK
from typecase.train.rater_fit import fit_rater
torch.set_num_threads(1)
class Told:
    def stepped(self, step, steps, loss): print("step", step, flush=True)
    def scored(self, scored, best): pass
fit_rater(made_annotations(Path(sys.argv[1])), Path(sys.argv[2]), QUICK, watch=Told())
"""


@pytest.mark.slow
def test_a_process_that_is_killed_is_taken_up_by_another(annotations: Annotations, tmp_path: Path) -> None:
    fit_rater(annotations, tmp_path / "straight", QUICK)
    for attempt, last in enumerate(("step 2", "step 4", None)):
        command = [sys.executable, "-c", FIT, str(tmp_path / f"notes{attempt}"), str(tmp_path / "broken")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as process:
            assert process.stdout is not None
            lines = []
            for line in process.stdout:
                lines.append(line.strip())
                if lines[-1] == last:
                    process.kill()
        assert lines, "nothing was learnt"
    assert process.returncode == 0 and lines[0] == "step 4", "the last process begins behind the checkpoint of step 3"
    assert bytes_of(tmp_path / "broken") == bytes_of(tmp_path / "straight")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_model_of_a_million_weights_beats_the_majority_on_the_seeds(tmp_path: Path) -> None:
    made, _ = read_annotations(SEEDS, load_rubric("dataman"))
    recipe = RaterRecipe(base="small", window=128, long="ends", epochs=2, batch=16, every=54, device="cpu")
    fitted = fit_rater(made, tmp_path / "rater", recipe)
    overall = fitted.figures["criteria"]["overall_score"]
    assert fitted.figures["unrated"] == 0
    assert overall["accuracy"] > overall["majority_accuracy"] and overall["rho"] > 0.3
    assert overall["error"] < overall["mean_error"]
    taught = split_of(made.documents, recipe).train
    size = [len(text) for text in made.documents.pick(taught).texts]
    assert abs(spearman(size, made.documents.scores[taught, -1])) < 0.5, "length alone would not do"


def test_epochs_follow_one_another_without_a_seam(annotations: Annotations) -> None:
    class Data:
        seeds = annotations.documents

        def row(self, doc: int, *, epoch: int) -> tuple[int, int]:
            return doc, epoch

    train = np.arange(0, 120, 2)
    plan, steps = rater_fit._plan(Data(), train, replace(QUICK, rule="plain", epochs=2, batch=7))  # type: ignore[arg-type]
    shown: Sequence[Any] = [row for step in range(steps) for row in plan(step)]
    assert steps == round(2 * 60 / 7)
    assert sorted(doc for doc, _ in shown[:60]) == train.tolist() and {epoch for _, epoch in shown[:60]} == {0}
    assert {epoch for _, epoch in shown[60:]} == {1}
    assert plan(3) == plan(3) and shown[:60] != [(doc, 0) for doc, _ in shown[60:120]]
