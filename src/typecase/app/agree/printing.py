"""What agree, calibrate, drift and compare say on a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from typecase.app.agree.agreeing import AgreementReport, PairAgreement
from typecase.app.agree.calibrating import Asked, Calibration
from typecase.app.agree.comparing import Compared
from typecase.app.agree.drifting import DriftReport
from typecase.app.printing import table
from typecase.core.learn.bootstrap import Interval
from typecase.core.threshold import Cut

_MAIN = ("quadratic_kappa", "spearman", "kendall", "exact", "within_one", "two_class", "mae", "bias")
_TITLES = {
    "quadratic_kappa": "kappa²", "spearman": "rho", "kendall": "tau", "exact": "exact", "within_one": "±1",
    "two_class": "2-class", "positive": "positive", "negative": "negative", "macro_f1": "macro-F1", "kappa": "kappa",
    "mae": "error", "level_error": "error", "bias": "bias", "pearson": "r",
}  # fmt: skip
_MORE = ("positive", "negative", "macro_f1", "kappa", "pearson")
_PART = ("exact", "within_one", "two_class", "quadratic_kappa", "spearman", "mae", "bias")
_NOT_IN_A_LEVEL = ("quadratic_kappa", "spearman")
_SHOWN_CUTS = 12


def number(value: float | None) -> str:
    """Two decimals; "-" where there is none."""
    return "-" if value is None or math.isnan(value) else f"{value:.2f}"


def between(one: Interval | None) -> str:
    """A figure with its interval."""
    if one is None or math.isnan(one.value):
        return "-"
    return f"{one.value:.2f} [{number(one.low)}, {number(one.high)}]"


def agreement_lines(report: AgreementReport, *, whole: bool) -> list[str]:
    """Every pair of sets on a screen; `whole` adds the further figures and the confusion tables."""
    lines = []
    for one in report.sets:
        notes = f"  {one['repeated']} repeated readings averaged" if one["repeated"] else ""
        unusable = one["unusable"]
        if isinstance(unusable, Mapping) and unusable:
            notes += "  left out: " + ", ".join(f"{n} {reason}" for reason, n in unusable.items())
        lines.append(f"{one['name']}: {one['documents']:,} documents, {one['kind']}{notes}")
    for pair in report.pairs:
        lines += ["", *pair_lines(pair, report, whole=whole)]
    if report.alpha:
        lines += ["", "all sets together, Krippendorff's alpha for ordered levels"]
        lines += [f"  {line}" for line in table([(c, between(a)) for c, a in report.alpha.items()])]
    lines += [f"note: {text}" for text in report.warnings]
    return lines


def pair_lines(pair: PairAgreement, report: AgreementReport, *, whole: bool) -> list[str]:
    lines = [
        f"{pair.left}  against  {pair.right} (the reference)",
        f"  measured: {pair.statement}",
        f"  both rated {pair.both:,}; only the first {pair.only_left:,}, only the second {pair.only_right:,}."
        f"  95 % intervals over {pair.groups:,} groups ({report.grouped_by}), {report.resamples} resamples",
        "",
    ]
    figures = (*_MAIN, *_MORE) if whole else _MAIN
    head = ("", "n", "kappa² [95 %]", "rho [95 %]", *(_TITLES[f] for f in figures if f not in ("quadratic_kappa", "spearman")))
    rows = [head]
    for one in pair.criteria:
        rows.append(_criterion_row(one.criterion, one.documents, one.figures, figures))
    lines += [f"  {line}" for line in table(rows)]
    blind = _blind_rows(pair)
    if blind:
        lines += ["", "  trivial raters, mean over the criteria", *(f"  {line}" for line in table(blind))]
    lines += ["", "  where selection happens: documents that the reference puts at the middle level or above"]
    rows = [head]
    for one in pair.criteria:
        rows.append(_criterion_row(one.criterion, one.upper_documents, one.upper, figures))
    lines += [f"  {line}" for line in table(rows)]
    for one in pair.criteria:
        if one.calibration_error is not None:
            lines.append(f"  {one.criterion}: confidence is off by {one.calibration_error:.3f} on average (ECE)")
    if pair.domain is not None:
        lines += ["", *_domain_lines(pair, whole=whole)]
    if pair.parts:
        lines += ["", *(f"  {line}" for line in _part_lines(pair))]
    if whole:
        for one in pair.criteria:
            lines += ["", f"  {one.criterion}: rows the first, columns the reference"]
            lines += [f"  {line}" for line in table([[str(n) for n in row] for row in one.confusion])]
    return lines


def _part_lines(pair: PairAgreement) -> list[str]:
    """Breakdowns. Within one level of the reference a correlation or kappa means nothing and is not shown."""
    rows = [("by", "value", "criterion", "n", *(_TITLES[f] for f in _PART))]
    for p in pair.parts:
        shown = (between(p.figures.get(f)) if p.by != "level" or f not in _NOT_IN_A_LEVEL else "" for f in _PART)
        rows.append((p.by, p.value, p.criterion, f"{p.documents:,}", *shown))
    return table(rows)


def _criterion_row(name: str, rows: int, found: Mapping[str, Interval], figures: Sequence[str]) -> tuple[str, ...]:
    rest = (f for f in figures if f not in ("quadratic_kappa", "spearman"))
    return (
        name,
        f"{rows:,}",
        between(found.get("quadratic_kappa")),
        between(found.get("spearman")),
        *(number(found[f].value) if f in found else "-" for f in rest),
    )


def _blind_rows(pair: PairAgreement) -> list[tuple[str, ...]]:
    shown = ("exact", "within_one", "two_class", "macro_f1", "level_error")
    able = [one for one in pair.criteria if one.baselines]
    if not able:
        return []
    rows = [("", *(_TITLES[f] for f in shown))]
    for name in able[0].baselines:
        means = [sum(one.baselines[name][f] for one in able) / len(able) for f in shown]
        rows.append((name, *(number(mean) for mean in means)))
    return rows


def _domain_lines(pair: PairAgreement, *, whole: bool) -> list[str]:
    domain = pair.domain
    assert domain is not None
    lines = [
        f"  domain of {domain.documents:,} documents: "
        + ", ".join(f"{_TITLES.get(name, name)} {between(one)}" for name, one in domain.figures.items())
    ]
    for name, found in domain.baselines.items():
        lines.append(f"    {name}: accuracy {number(found['accuracy'])}, macro-F1 {number(found['macro_f1'])}")
    if domain.calibration_error is not None:
        lines.append(f"    confidence is off by {domain.calibration_error:.3f} on average (ECE)")
    if domain.abstention:
        curve = ", ".join(f"{share:.0%} {accuracy:.2f}" for share, _, accuracy in domain.abstention)
        lines.append(f"    accuracy if only the surest are answered: {curve}")
    if whole:
        used = [k for k in range(len(domain.labels)) if any(domain.confusion[k]) or any(row[k] for row in domain.confusion)]
        head = ("", *(domain.labels[k][:6] for k in used))
        body = [(domain.labels[k], *(str(domain.confusion[k][j]) for j in used)) for k in used]
        lines += [f"    {line}" for line in table([head, *body])]
    return lines


def asked_lines(one: Asked, done: int, total: int, *, scores: bool, whole: bool) -> list[str]:
    """A document to be judged. Control characters are shown as �, so that no text can move the cursor."""
    head = f"── {done + 1} of {total}  {one.source}" + (f"  score {one.score:.2f}" if scores else "")
    return [head, "", _excerpt(one.text, whole), ""]


def _excerpt(text: str, whole: bool, head: int = 1400, tail: int = 400) -> str:
    safe = "".join(c if c in "\n\t" or (c.isprintable() and c != "\x7f") or c == "\u00a0" else "�" for c in text)
    if whole or len(safe) <= head + tail + 100:
        return safe
    return f"{safe[:head]}\n[… {len(safe) - head - tail:,} characters: m shows all …]\n{safe[-tail:]}"


def calibration_lines(found: Calibration) -> list[str]:
    """The proposed threshold, then the curve."""
    p = found.proposal
    verdicts = ", ".join(f"{n} {verdict}" for verdict, n in found.verdicts.items())
    lines = [
        f"{found.criterion} of {found.ratings}; {verdicts} in {found.labels_file}",
        f"  people would keep {p.base_rate:.0%} of the documents; kept rank above dropped in {p.separation:.0%} of pairs",
    ]
    if p.cut is None:
        lines.append("  no threshold fulfils the wish: the score does not go high enough")
    else:
        lines.append(f"  threshold {p.cut.threshold:.3f}: {_cut_text(p.cut)}")
    if p.sure is not None and p.sure != p.cut:
        lines.append(f"  to be sure {p.sure.threshold:.3f}: {_cut_text(p.sure)}")
    lines += [f"  note: {text}" for text in (*p.warnings, *found.notes)]
    step = max(1, len(p.curve) // _SHOWN_CUTS)
    rows = [("threshold", "keeps", "precision", "recall")]
    for cut in p.curve[::step]:
        rows.append(
            (
                f"{cut.threshold:.3f}",
                f"{cut.keep_rate:.1%}",
                _within(cut.precision, cut.precision_low, cut.precision_high),
                _within(cut.recall, cut.recall_low, cut.recall_high),
            )
        )
    return [*lines, "", *(f"  {line}" for line in table(rows))]


def _cut_text(cut: Cut) -> str:
    precision = _within(cut.precision, cut.precision_low, cut.precision_high)
    return f"keeps {cut.keep_rate:.1%}, precision {precision}, recall {_within(cut.recall, cut.recall_low, cut.recall_high)}"


def _within(value: float, low: float, high: float) -> str:
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"


def drift_lines(report: DriftReport) -> list[str]:
    """What moved, pair by pair; then the anchors."""
    lines: list[str] = []
    for pair in report.pairs:
        rows = [("", "n old", "n new", "mean old", "mean new", "shift [95 %]", "index", "KS", "p (Holm)", "")]
        for one in pair.criteria:
            mark = "moved" if one.moved else ""
            rows.append(
                (
                    one.criterion, f"{one.num_old:,}", f"{one.num_new:,}", number(one.mean_old), number(one.mean_new),
                    between(one.shift), number(one.index), number(one.gap), f"{one.holm_p:.2g}", mark,
                )
            )  # fmt: skip
        lines += [f"{pair.old}  ->  {pair.new}", *(f"  {line}" for line in table(rows))]
        if pair.domains is not None:
            d = pair.domains
            mark = "  moved" if d.moved else ""
            lines.append(f"  domains: chi² {d.statistic:.1f} ({d.freedom}), p (Holm) {d.holm_p:.2g}, V {d.effect:.2f}{mark}")
            lines += [f"    {line}" for line in table([(n, f"{a:.1%}", f"-> {b:.1%}") for n, a, b in d.shares[:6]])]
        lines.append("")
    if report.anchors:
        kept = [("anchors", "n", "shift [95 %]", "mean change", "by a level or more", "largest", "")]
        for one_ in report.anchors:
            kept.append(
                (
                    one_.criterion, f"{one_.anchors:,}", between(one_.shift), number(one_.mean_change),
                    f"{one_.level_changes:.1%}", number(one_.largest), "ALARM" if one_.alarm else "",
                )
            )  # fmt: skip
        lines += table(kept)
        lines.append("the rater moved: do not mix new ratings with old ones" if report.alarm else "the rater stands still")
    return [*lines, *(f"note: {text}" for text in report.notes)]


def compared_lines(found: Compared) -> list[str]:
    """How the comparisons went."""
    lines = [f"{found.documents:,} documents compared by {found.model} ({found.way}) -> {found.folder}"]
    if found.reused:
        lines.append(f"  {found.reused:,} comparisons were there already")
    rows = [("", "pairs", "valid", "orders agree", "bias", "label mass", "spread", "± error", "groups")]
    for one in found.criteria:
        rows.append(
            (
                one.criterion, f"{one.pairs:,}", f"{one.valid:,}", number(one.consistent), f"{one.bias:+.2f}",
                number(one.label_mass), number(one.spread), number(one.error), str(one.components),
            )
        )  # fmt: skip
        if one.missing:
            lines.append(f"  {one.criterion} missing: " + ", ".join(f"{n} {reason}" for reason, n in one.missing.items()))
    return [*lines, *(f"  {line}" for line in table(rows)), *(f"note: {text}" for text in found.warnings)]
