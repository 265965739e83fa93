"""The card of a tagger: what it was made from, what was measured on pages of generators it was not taught, its limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from typecase.core.program.proposal import Proposal
from typecase.core.twins.agreement import Tally, tally, total
from typecase.core.twins.marks import Twin
from typecase.lm.refine.refiner import Refiner
from typecase.lm.tagger.model import Tagger
from typecase.lm.tagger.thresholds import LONG_CHARS, Tagged, figures_without
from typecase.lm.tagger.train import Settings


def removed_lines(proposal: Proposal) -> set[int]:
    """The lines that a proposal removes."""
    statements = [s for s in proposal.program.statements if s.name == "remove_lines"]
    return {line for s in statements for line in range(s.line_start, s.line_end + 1)}


def tallies_of(refiner: Refiner, twins: Sequence[Twin]) -> list[Tally]:
    """The tally of each twin."""
    proposals = refiner.propose([twin.text for twin in twins])
    return [tally(twin, removed_lines(proposal)) for twin, proposal in zip(twins, proposals, strict=True)]


def figures_of(
    tagger: Tagger, taught: Sequence[Twin], held: Sequence[Twin], seen: Tagged | None, settings: Settings, *, seed: int
) -> dict[str, Any]:
    """All figures of the card; those of measurement are empty where no page is held out.

    `seen` is what the tagger said of the held-out pages; by it the thresholds are judged, see tagger_thresholds.
    """
    pages = tallies_of(tagger, held)
    clean = [replace(twin, text=twin.clean, gone=()) for twin in held]
    texts = tallies_of(tagger, clean)
    families = sorted({twin.family for twin in held})
    by_family = {}
    for family in families:
        at = [number for number, twin in enumerate(held) if twin.family == family]
        row = total(pages[i] for i in at).figures()
        by_family[family] = {**row, "untouched": total(texts[i] for i in at).figures()["untouched"]}
    whole = {**total(pages).figures(), "untouched": total(texts).figures()["untouched"]} if held else {}
    size_of = {family: sum(len(twin.gone) for twin in held if twin.family == family) for family in families}
    largest = max(families, key=lambda family: size_of[family], default="")
    rest = total(done for twin, done in zip(held, pages, strict=True) if twin.family != largest).figures()
    rest["untouched"] = total(done for twin, done in zip(held, texts, strict=True) if twin.family != largest).figures()[
        "untouched"
    ]
    return {
        "fingerprint": tagger.fingerprint,
        "seed": seed,
        "least": tagger.least,
        "long": tagger.long,
        "sure": tagger.sure,
        "mixed": settings.mixed,
        "taught": _counts(taught),
        "held": _counts(held),
        "all": whole,
        "without": figures_without(seen, over=settings.over, touched=settings.touched) if seen else {},
        "largest": largest,
        "rest": rest if held else {},
        "mean_f1": round(sum(row["f1"] for row in by_family.values()) / max(1, len(by_family)), 5),
        "families": by_family,
    }


def _counts(twins: Sequence[Twin]) -> dict[str, Any]:
    return {
        "pages": len(twins),
        "generators": sorted({twin.generator for twin in twins}),
        "families": len({twin.family for twin in twins}),
        "lines": sum(len([line for line in twin.lines if line.strip()]) for twin in twins),
        "boilerplate": sum(len(twin.gone) for twin in twins),
    }


def card_text(figures: Mapping[str, Any], *, size: int) -> str:
    """The card in Markdown. It holds no time, host or path: equal inputs give an equal card."""
    return "\n\n".join((_head(figures, size), _made(figures), _measured(figures), _limits())) + "\n"


def _head(figures: Mapping[str, Any], size: int) -> str:
    return f"""# Line tagger

Removes the lines of a page that are no part of its text: menus, breadcrumbs, tables of contents of a site, footers. Hashed \
words of lines, measures of form and place, two forests of small trees, smoothing along the page; no language model.

fingerprint `{figures["fingerprint"]}`, seed {figures["seed"]}, {size / 1e6:.2f} MB, made by

    typecase refiner fit seeds/twins -o OUT --kind tagger --seed {figures["seed"]}

A line goes when its chance to be boilerplate is {figures["least"]:.2f} or more ({max(figures["least"], figures["long"]):.2f} \
if it has over {LONG_CHARS} characters), on a page that has a line with {figures["sure"]:.2f} or more."""


def _made(figures: Mapping[str, Any]) -> str:
    taught, held = figures["taught"], figures["held"]
    return f"""## What it was made from

Twins: pages of HTML documentation as a crawler's extractor gives them, each line labelled by whether it stands in the main \
content that the layout's selectors name. {taught["pages"]:,} pages, {taught["families"]} layouts, {taught["lines"]:,} \
written lines, {taught["boilerplate"]:,} of them boilerplate, by these generators: {", ".join(taught["generators"])}. \
{figures["mixed"]:,} further pages were mixed out of their parts, with lines from hand-written wordings (menus, cookie \
notices, share and newsletter boxes, footers, navigation in some twenty languages). The text of every second page was \
taught without its boilerplate too.

Held out, not one page of them taught to words or forests: {held["pages"]:,} pages, {held["families"]} layouts, generators \
{", ".join(held["generators"]) or "none"}. Some of these pages were looked at while the measures were invented, and the three \
thresholds above were chosen on them; the second row of the table says what that gained."""


def _measured(figures: Mapping[str, Any]) -> str:
    if not figures["families"]:
        return "## What was measured\n\nNothing: no page was held out."
    without = {**figures["without"], "pages": figures["all"]["pages"]}
    rows = [
        ("all", figures["all"]),
        ("all, thresholds by other generators", without),
        *_rest(figures),
        *figures["families"].items(),
    ]
    lines = [
        "## What was measured",
        "",
        "On the held-out pages. F1 is of boilerplate lines, micro; over-deletion the share of the clean characters that went;",
        "untouched the share of texts, given without any boilerplate, that came back whole. Layouts with long menus weigh most",
        f"in the first rows: the mean F1 of layouts is {figures['mean_f1']:.3f}.",
        "",
        "| layout | pages | precision | recall | F1 | over-deletion | untouched |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, row in rows:
        shares = " | ".join(f"{row[key]:.3f}" for key in ("precision", "recall", "f1"))
        losses = f"{100 * row['over_deletion']:.2f} % | {100 * row['untouched']:.1f} %"
        lines.append(f"| {name} | {row['pages']} | {shares} | {losses} |")
    return "\n".join(lines)


def _rest(figures: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(f"all but {figures['largest']}", figures["rest"])] if len(figures["families"]) > 1 else []


def _limits() -> str:
    return """## Limits

* Taught on technical documentation, most of it in English. News, shops and forums are known from wordings only.
* A line is removed or kept whole: a mark stuck to a line ("¶", "[edit]") is for the rules.
* A table of contents of the page itself counts as boilerplate where the layout holds it outside of the main content, and
  as text where it does not; the tagger sees no difference and mostly leaves it.
* The title of a text may stand right below a menu and look like its last entry: on some pages it goes with it.
* Lines in the midst of a text, such as an advertisement in the wording of a sentence, mostly stay.
* Menus that only list names (all classes of a library) look like the indexes that some pages are; many stay."""
