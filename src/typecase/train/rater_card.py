"""Rater card: what a fitted rater was taught, how it was measured and how well it did, beside raters that know nothing.

    figures_of(test, taught, ratings) -> plain numbers      card_text(figures, …) -> Markdown

    majority   always says the level, or domain, that was most frequent in training
    prior      draws one by its frequency in training; its accuracy is expected, not drawn

Documents and sources of the test were not trained on. Intervals are bootstraps over whole sources, not over documents.
The card holds no clock, host or path: equal inputs give an equal card.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from typecase.core.learn.agreement import (
    calibration_error,
    macro_f1,
    mean_absolute_error,
    quadratic_kappa,
    spearman,
)
from typecase.core.learn.bootstrap import drawn_interval, group_draws
from typecase.core.rating import Rubric
from typecase.lm.rate.rater import F32, Ratings
from typecase.lm.rate.seeds import F64, I64, Seeds
from typecase.lm.starter.train import HIT, summary_of
from typecase.train.sampling import nearest_levels

CARD = "RATER_CARD.md"
_BINS = 10
_BOOTSTRAPS = 1000


def figures_of(test: Seeds, taught: Seeds, ratings: Ratings) -> dict[str, Any]:
    """Everything that the card says was measured; `ratings` are of the documents of `test`, in order.

    What was not rated counts in `unrated` and in nothing else; a figure that cannot be told is None.
    """
    rated = np.flatnonzero(ratings.rated)
    figures: dict[str, Any] = {
        "documents": len(test),
        "sources": len(set(test.sources)),
        "taught_documents": len(taught),
        "taught_sources": len(set(taught.sources)),
        "unrated": len(test) - len(rated),
    }
    if not len(rated):
        return figures | {"criteria": {}, "summary": None, "domain": None}
    test, scores = test.pick(rated.astype(np.int64)), ratings.scores[rated].astype(np.float64)
    levels, surety = _levels(ratings, rated, scores)
    asked = [name for name in ratings.rubric.columns if name in test.rubric.columns]
    figures["criteria"] = {
        name: _criterion(test, taught, test.rubric.columns.index(name), scores[:, at], levels[:, at], surety[:, at])
        for at, name in enumerate(asked)
    }
    told = asked == list(test.rubric.columns) or test.rubric.summary in asked
    figures["summary"] = _summary(test, ratings.rubric, scores, ratings.confidence[rated]) if told else None
    figures["domain"] = _domain(test, taught, ratings, rated) if ratings.rubric.domains else None
    return figures


def _levels(ratings: Ratings, rated: I64, scores: F64) -> tuple[I64, F32]:
    """The whole level that was said and how surely; NaN where the rater does not tell."""
    if ratings.detail is None:
        return nearest_levels(scores), np.full(scores.shape, np.nan, np.float32)
    return ratings.detail.levels[rated].astype(np.int64), ratings.detail.surety[rated]


def _criterion(test: Seeds, taught: Seeds, column: int, score: F64, level: I64, surety: F32) -> dict[str, float | None]:
    low, high = test.rubric.low, test.rubric.high
    truth, before = nearest_levels(test.scores[:, column]), nearest_levels(taught.scores[:, column])
    share = np.bincount(before - low, minlength=high - low + 1) / len(before)
    usual = np.full(len(truth), int(share.argmax()))
    told = not np.isnan(surety).any()
    return {
        "accuracy": float((level == truth).mean()),
        "majority_accuracy": float((truth - low == usual).mean()),
        "prior_accuracy": float(share[truth - low].mean()),
        "macro_f1": macro_f1(level - low, truth - low, num_classes=high - low + 1),
        "majority_macro_f1": macro_f1(usual, truth - low, num_classes=high - low + 1),
        "rho": spearman(score, test.scores[:, column]),
        "kappa": quadratic_kappa(score, test.scores[:, column], low=low, high=high),
        "error": mean_absolute_error(score, test.scores[:, column]),
        "mean_error": mean_absolute_error(np.full(len(score), taught.scores[:, column].mean()), test.scores[:, column]),
        "calibration_error": calibration_error(surety, level == truth, num_bins=_BINS) if told else None,
    }


def _summary(test: Seeds, asked: Rubric, scores: F64, confidence: F32) -> dict[str, Any]:
    said, truth = summary_of(scores, asked), summary_of(test.scores, test.rubric)
    middle = (test.rubric.low + test.rubric.high) / 2
    told = not np.isnan(confidence).any()
    return {
        "rho": spearman(said, truth),
        "rho_interval": drawn_interval(lambda rows: spearman(said[rows], truth[rows]), group_draws(test.sources, _BOOTSTRAPS)),
        "two_class": float(((said >= middle) == (truth >= middle)).mean()),
        "within_one": float((np.abs(said - truth) <= 1).mean()),
        "spread_said": float(said.std()),
        "spread_true": float(truth.std()),
        "confidence_error": calibration_error(confidence, np.abs(said - truth) <= HIT, num_bins=_BINS) if told else None,
    }


def _domain(test: Seeds, taught: Seeds, ratings: Ratings, rated: I64) -> dict[str, Any]:
    said, truth, num = ratings.domain[rated].astype(np.int64), test.votes.argmax(1), len(test.rubric.domains)
    share = np.bincount(taught.votes.argmax(1), minlength=num) / len(taught)
    usual = np.full(len(truth), int(share.argmax()))
    trust = ratings.domain_confidence[rated]
    return {
        "accuracy": float((said == truth).mean()),
        "accuracy_interval": drawn_interval(
            lambda rows: float((said[rows] == truth[rows]).mean()), group_draws(test.sources, _BOOTSTRAPS)
        ),
        "majority_accuracy": float((usual == truth).mean()),
        "prior_accuracy": float(share[truth].mean()),
        "macro_f1": macro_f1(said, truth, num_classes=num),
        "majority_macro_f1": macro_f1(usual, truth, num_classes=num),
        "calibration_error": None if np.isnan(trust).any() else calibration_error(trust, said == truth, num_bins=_BINS),
    }


def card_text(figures: Mapping[str, Any], made: Mapping[str, Any]) -> str:
    """The card in Markdown. `made` holds what was made: rubric, model, data, run, settings, all as plain values."""
    parts = [_head(made), _data(figures, made), _run(made)]
    parts += [_scores(figures), _summary_text(figures), _domains(figures)] if figures["criteria"] else [_NOTHING]
    return "\n\n".join([*(part for part in parts if part), _limits(figures, made)]) + "\n"


_NOTHING = "## Not measured\n\nNo document of the test was rated: look at the statuses of a rating run."


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in [header, ["---"] * len(header), *rows])


def _head(made: Mapping[str, Any]) -> str:
    return f"""# Rater {made["name"]}

A language model that fills the form `{made["form"]}` of the rubric `{made["rubric"]}`, version {made["rubric_version"]}: \
{made["criteria"]} criteria, {made["domains"]} domains. Made from {made["base"]}, {made["parameters"]:,} weights, of which \
{made["trained_parameters"]:,} were trained{made["how"]}.

fingerprint `{made["fingerprint"]}`, seed {made["seed"]}. Every figure here was written by the command that made the rater, \
from the saved files, as `typecase rate` reads them."""


def _data(figures: Mapping[str, Any], made: Mapping[str, Any]) -> str:
    balance = made["balance"]
    left_out = ", ".join(f"{number:,} {reason}" for reason, number in balance["removed"].items())
    return f"""## Data

{balance["kept"]:,} readings of {made["documents"]:,} documents taught it{f"; left out: {left_out}" if left_out else ""}. \
Annotation set `{made["annotations"]}`.

Split by {made["split_by"]}, a variant with its original: {figures["taught_documents"]:,} documents of \
{figures["taught_sources"]:,} sources to learn from, {made["held_out_documents"]:,} to choose the weights by, \
{figures["documents"]:,} of {figures["sources"]:,} sources for the figures below. \
Shown in training: {made["shown"]}."""


def _run(made: Mapping[str, Any]) -> str:
    rows = [
        [f"{scored['step']:,}", "–" if scored["trained"] is None else f"{scored['trained']:.4f}", f"{scored['held_out']:.4f}"]
        for scored in made["history"]
    ]
    return f"""## Training

Weights of step {made["best_step"]:,} of {made["steps"]:,}, the best by the loss of the held-out documents (nats a token \
of the reply). {made["settings"]}

{_table(["step", "loss in training", "held out"], _thinned(rows))}"""


def _thinned(rows: list[list[str]], most: int = 12) -> list[list[str]]:
    """The first and last row, and some between."""
    if len(rows) <= most:
        return rows
    return [rows[round(k * (len(rows) - 1) / (most - 1))] for k in range(most)]


_SHOWN = (
    *("accuracy", "majority_accuracy", "prior_accuracy", "macro_f1", "majority_macro_f1"),
    *("rho", "kappa", "error", "mean_error", "calibration_error"),
)


def _scores(figures: Mapping[str, Any]) -> str:
    rows = [[f"`{name}`", *(_number(row[key]) for key in _SHOWN)] for name, row in figures["criteria"].items()]
    header = ["criterion", "accuracy", "majority", "prior", "macro-F1", "majority F1", "rho", "kappa", "error", "mean's error"]
    return f"""## Scores, on documents and sources not trained on

{_table([*header, "ECE"], rows)}

accuracy: the whole level is the annotators'. majority: always the most frequent level; prior: a level drawn by its frequency. \
rho: Spearman's rank correlation of the expected score. kappa: quadratic-weighted. error: mean absolute, in levels; mean's \
error: always saying the mean. ECE: expected calibration error of the chance of the level that was said."""


def _summary_text(figures: Mapping[str, Any]) -> str:
    summary = figures["summary"]
    if summary is None:
        return ""
    low, high = summary["rho_interval"]
    return f"""The summary: rho {summary["rho"]:.2f} (95 % interval {low:.2f} to {high:.2f}, bootstrap over sources), within \
one level {summary["within_one"]:.0%}, the right half of the scale {summary["two_class"]:.0%}; its spread \
{summary["spread_said"]:.2f}, the annotators' {summary["spread_true"]:.2f}; ECE of `confidence` \
{_number(summary["confidence_error"])}."""


def _domains(figures: Mapping[str, Any]) -> str:
    domain = figures["domain"]
    if domain is None:
        return ""
    low, high = domain["accuracy_interval"]
    rows = [
        ["this rater", f"{domain['accuracy']:.1%} ({low:.0%} to {high:.0%})", _number(domain["macro_f1"])],
        ["always the most frequent", f"{domain['majority_accuracy']:.1%}", _number(domain["majority_macro_f1"])],
        ["drawn by frequency", f"{domain['prior_accuracy']:.1%}", "–"],
    ]
    return f"""## Domains, on documents and sources not trained on

{_table(["rater", "accuracy", "macro-F1"], rows)}

ECE of `domain_confidence`: {_number(domain["calibration_error"])}."""


def _limits(figures: Mapping[str, Any], made: Mapping[str, Any]) -> str:
    behind = [
        name for name, row in figures["criteria"].items() if row["accuracy"] <= row["majority_accuracy"] or row["rho"] < 0.3
    ]
    names = ", ".join(f"`{name}`" for name in behind) or "none"
    unrated = f"\n- {figures['unrated']:,} documents of the test got no rating." if figures["unrated"] else ""
    return f"""## Limits

- It agrees with its annotators as far as the table says; whether they agree with people is not measured here.
- Not better than the most frequent level, or with rho below 0.3, and not to be leaned on: {names}.
- A text of more than {made["window"]:,} tokens was {made["long"]} in training.{unrated}"""
