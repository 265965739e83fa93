"""The card of a starter rater: what it was made from, what was measured and how, and where it must not be trusted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from typecase.core.rating import Rubric
from typecase.lm.starter.evaluate import FOLDS
from typecase.lm.starter.train import HIT, Settings

_WEAK = 0.55


def card_text(figures: Mapping[str, Any], rubric: Rubric, settings: Settings, *, fingerprint: str, size: int, seed: int) -> str:
    """The card in Markdown. It holds no time, host or path: equal inputs give an equal card."""
    parts = [
        _head(figures, rubric, fingerprint, size, seed),
        _made(figures, settings),
        score_table(figures),
        summary(figures, rubric),
        domain_table(figures),
        confidence(figures),
        damage_table(figures),
        _limits(figures),
    ]
    return "\n\n".join(parts) + "\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _head(figures: Mapping[str, Any], rubric: Rubric, fingerprint: str, size: int, seed: int) -> str:
    return f"""# Starter rater

Rates documents on the {len(rubric.criteria)} criteria and {len(rubric.domains)} domains of the rubric `{rubric.id}`, \
version \
{rubric.version}: hashed n-grams, measures of form, word lists and small trees; no language model.

fingerprint `{fingerprint}`, seed {seed}, {size / 1e6:.1f} MB. Every figure here was written by the command that made \
the weights:

    python -m typecase.lm.starter.fit --seeds seeds --out src/typecase/lm/weights --seed {seed}"""


def _made(figures: Mapping[str, Any], settings: Settings) -> str:
    return f"""## What it was made from

{figures["documents"]} excerpts of 80 to 450 words from {figures["sources"]} sources, {figures["variants"]} of them \
variants with \
damage: documentation and data of Debian packages, and passages written for the purpose. All ratings were made by a \
strong language \
model that read every excerpt against a rubric; no person rated anything. A document with several readings counts with \
their mean. \
Word lists were written by a language model that had seen about a hundred of the documents, whole or in part; the \
list of spelled words is SCOWL. Licences are in `seeds/NOTICE.md`.

In training, {settings.planted_share:g} copies of every undamaged document with a planted fault are added; as a lesson \
in scores each \
has the weight {settings.planted_weight:g}, rated as its original plus the mean effect that readers saw in such damage.

**Split.** {FOLDS}-fold cross-validation over sources; a variant lies on the side of its original. Every document was \
rated by a model \
that saw no document of its source, through the shipped code with rounded weights. The settings were chosen by hand on \
other divisions of the \
same documents, so expect a little less on new sources."""


def score_table(figures: Mapping[str, Any]) -> str:
    rows = [
        [
            f"`{name}`",
            *(number(row[key]) for key in ("rho", "kappa", "macro_f1", "error", "calibration", "ridge_rho", "ridge_kappa")),
            *(number(row[key]) for key in ("readability_rho", "length_rho", "common_error", "common_f1", "readers_kappa")),
        ]
        for name, row in figures["criteria"].items()
    ]
    header = [
        "criterion",
        "rho",
        "kappa",
        "macro-F1",
        "error",
        "gap",
        "ridge rho",
        "ridge kappa",
        "Flesch rho",
        "length rho",
        "mean's error",
        "mean's macro-F1",
        "readers' kappa",
    ]
    return f"""## Scores, on sources never seen

{table(header, rows)}

rho: Spearman's rank correlation with the readers' mean. kappa: quadratic-weighted, of whole levels. macro-F1: of \
whole levels. error: mean absolute, in levels. gap: \
distance of rated and read means over ten groups of equal size. ridge: the same figures for ridge regression on hashed \
byte \
n-grams (3 to 5). Flesch: a curve of Flesch's reading ease alone. length: a curve of the length alone. mean: always saying \
the mean. readers' kappa: of two \
readings, on \
{figures["read_often"]} documents read four times: no rater can be shown to pass it."""


def summary(figures: Mapping[str, Any], rubric: Rubric) -> str:
    summary, length = figures["summary"], figures["length"]
    low, high = summary["rho_interval"]
    return f"""`{rubric.summary or "mean of all criteria"}`: rho 95 % interval {low:.2f} to {high:.2f} (bootstrap over \
sources); \
{summary["rho_upper_range"]:.2f} among documents read as 3 or better, where selection happens; within one level \
{summary["within_one"]:.0%}; the right side of 3 {summary["two_class"]:.0%}. Its spread is \
{summary["spread_said"]:.2f}, the readers' \
{summary["spread_readers"]:.2f}.

Not length: of {length["pairs"]} pairs within 5 % of each other's length that readers rate a level or more apart, \
{length["right"]:.0%} are put in the readers' order; the longer of the two is the better in {length["longer_right"]:.0%}."""


def domain_table(figures: Mapping[str, Any], name: str = "starter rater") -> str:
    domain = figures["domain"]
    low, high = domain["accuracy_interval"]
    rows = [
        [name, f"{domain['accuracy']:.1%} ({low:.0%} to {high:.0%})", number(domain["macro_f1"])],
        ["ridge on byte n-grams", f"{domain['ridge_accuracy']:.1%}", number(domain["ridge_macro_f1"])],
        ["always the most frequent", f"{domain['common_accuracy']:.1%}", number(domain["common_macro_f1"])],
    ]
    if domain["readers_agree"] is not None:
        rows.append(["two readings of one document", f"{domain['readers_agree']:.1%}", "–"])
    return f"""## Domains, on sources never seen

{table(["rater", "accuracy", "macro-F1"], rows)}"""


def confidence(figures: Mapping[str, Any]) -> str:
    summary, domain = figures["summary"], figures["domain"]

    def rows(bins: Sequence[tuple[int, float, float]]) -> list[list[str]]:
        return [[str(cases), number(said), number(true)] for cases, said, true in bins]

    return f"""## Confidence

`confidence` says how often the summary score lies within {HIT:g} of the readers' mean: overall \
{summary["hit_rate"]:.0%}, expected \
calibration error {summary["confidence_error"]:.3f}.

{table(["documents", "confidence", "came true"], rows(summary["confidence_bins"]))}

`domain_confidence` says how often the domain is the readers': expected calibration error {domain["confidence_error"]:.3f}.

{table(["documents", "confidence", "came true"], rows(domain["confidence_bins"]))}"""


def damage_table(figures: Mapping[str, Any]) -> str:
    rows = [
        [kind, str(row["variants"]), f"{row['readers']:+.2f}", f"{row['rater']:+.2f}", f"{row['lower']:.0%}"]
        for kind, row in figures["damage"].items()
    ]
    return f"""## Damage

Mean change of the summary from an original to its variant, as read and as rated; and how often the variant is rated \
lower. The \
variants were damaged by other means than the copies planted in training.

{table(["damage", "variants", "readers", "rater", "rated lower"], rows)}"""


def _limits(figures: Mapping[str, Any]) -> str:
    weak = ", ".join(f"`{name}`" for name, row in figures["criteria"].items() if row["rho"] < _WEAK)
    kinds = figures["damage"].values()
    read, rated = (sum(row[who] for row in kinds) / max(1, len(kinds)) for who in ("readers", "rater"))
    return f"""## Limits

- Trained and measured on technical documentation, mostly English, and on written passages; elsewhere it was not measured.
- It agrees with a language model's readings; whether it agrees with people was not measured, nor whether selection by \
it helps a model.
- It sees form and vocabulary, not truth: `accuracy` means spelling and encoding. With rho below {_WEAK}, not to be \
leaned on: {weak or "none"}.
- Damage moves the summary by {rated:+.2f} on the mean of the kinds above, readers by {read:+.2f}.
- A text of more than eight windows of 3 kB is read in part (`rated_bytes`), and repetition between windows is not seen.
- `sensitivity` was rated low in few documents: do not use it as a safety filter."""
