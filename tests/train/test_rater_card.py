"""Figures of a rater against plain counting, and a card that says what they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.train.made import made_annotations, rubric
from typecase.lm.rate.rater import RATER_FAILED, Detail, FakeRater, Ratings, pack_texts, unrated
from typecase.lm.rate.seeds import Seeds
from typecase.train.rater_card import card_text, figures_of

MADE: dict[str, Any] = {
    "name": "notes-lm",
    "form": "student",
    "rubric": "notes",
    "rubric_version": 1,
    "criteria": 2,
    "domains": 2,
    "base": "a tiny model",
    "parameters": 80_000,
    "trained_parameters": 1_000,
    "how": " (updates of rank 2, merged)",
    "fingerprint": "f" * 32,
    "seed": 1,
    "balance": {"kept": 120, "removed": {"no_document": 3}},
    "documents": 120,
    "annotations": "a" * 32,
    "split_by": "source",
    "held_out_documents": 10,
    "shown": "each document once an epoch",
    "history": [{"step": step, "trained": None if not step else 0.5, "held_out": 1 / (step + 1)} for step in range(40)],
    "best_step": 39,
    "steps": 39,
    "settings": "AdamW.",
    "window": 24,
    "long": "shown by head and tail",
}


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Seeds:
    return made_annotations(tmp_path_factory.mktemp("made") / "notes").documents


def taught_and_test(seeds: Seeds) -> tuple[Seeds, Seeds]:
    return seeds.pick(np.arange(0, 80)), seeds.pick(np.arange(80, 120))


def ratings_of(seeds: Seeds, scores: np.ndarray, domain: np.ndarray, surety: float) -> Ratings:
    ratings = unrated(seeds.rubric, len(seeds))
    ratings.scores[:], ratings.domain[:], ratings.status[:] = scores, domain, 0
    ratings.domain_confidence[:] = ratings.confidence[:] = surety
    levels = np.round(scores).astype(np.int8)
    nothing = ((),) * len(seeds)
    told = np.full(scores.shape, surety, np.float32)
    mass = np.ones(len(seeds), np.float32)
    return replace(ratings, detail=Detail(levels, told, mass, nothing, (None,) * len(seeds), nothing))


def test_who_says_the_truth_is_right_in_everything(seeds: Seeds) -> None:
    taught, test = taught_and_test(seeds)
    figures = figures_of(test, taught, ratings_of(test, test.scores, test.votes.argmax(1), 1.0))
    for row in figures["criteria"].values():
        assert row["accuracy"] == row["macro_f1"] == 1 and row["rho"] == pytest.approx(1) and row["kappa"] == 1
        assert row["error"] == 0 and row["calibration_error"] == 0
    assert figures["domain"]["accuracy"] == 1 and figures["domain"]["calibration_error"] == 0
    assert figures["summary"]["rho"] == pytest.approx(1) and figures["unrated"] == 0


def test_who_always_says_the_usual_is_the_majority(seeds: Seeds) -> None:
    taught, test = taught_and_test(seeds)
    levels = [int(np.bincount(taught.scores[:, k].astype(int)).argmax()) for k in range(2)]
    usual = int(taught.votes.argmax(1).mean() > 0.5)
    said = ratings_of(test, np.tile(np.array(levels, float), (len(test), 1)), np.full(len(test), usual), 0.25)
    figures = figures_of(test, taught, said)
    for k, row in enumerate(figures["criteria"].values()):
        truth = test.scores[:, k].astype(int)
        right = sum(level == levels[k] for level in truth) / len(truth)
        share = {level: (taught.scores[:, k] == level).mean() for level in (1, 2, 3)}
        assert row["accuracy"] == row["majority_accuracy"] == pytest.approx(right)
        assert row["prior_accuracy"] == pytest.approx(np.mean([share[level] for level in truth]))
        assert row["macro_f1"] == row["majority_macro_f1"] and row["rho"] == 0
        assert row["calibration_error"] == pytest.approx(abs(0.25 - right), abs=1e-6)
    assert figures["domain"]["accuracy"] == figures["domain"]["majority_accuracy"]
    assert "and not to be leaned on: `loud`, `wet`." in card_text(figures, MADE)


def test_what_was_not_rated_counts_as_that_alone(seeds: Seeds) -> None:
    taught, test = taught_and_test(seeds)
    said = ratings_of(test, test.scores.copy(), test.votes.argmax(1), 1.0)
    said.scores[3:10], said.status[3:10], said.domain[3:10] = np.nan, RATER_FAILED, -1
    figures = figures_of(test, taught, said)
    assert figures["unrated"] == 7 and figures["documents"] == 40
    assert figures["criteria"]["loud"]["accuracy"] == 1
    assert "7 documents of the test got no rating" in card_text(figures, MADE)
    nothing = figures_of(test, taught, unrated(test.rubric, len(test)))
    assert nothing["unrated"] == 40 and "Not measured" in card_text(nothing, MADE)


def test_a_rater_that_tells_no_more_than_scores_has_a_card_too(seeds: Seeds) -> None:
    taught, test = taught_and_test(seeds)
    figures = figures_of(test, taught, FakeRater(rubric()).rate(*pack_texts(test.texts)))
    assert figures["criteria"]["loud"]["calibration_error"] is None
    text = card_text(figures, MADE)
    assert text == card_text(figures, MADE) and "3 no_document" in text and "updates of rank 2" in text
    shown = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ") and line.count("|") == 4]
    assert {"0", "39"} < set(shown) and len(shown) < 20, "a long run is shown in a few rows"
