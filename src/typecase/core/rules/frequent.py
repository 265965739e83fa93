"""Lines and paragraphs that many documents of the corpus have: menus, footers, notices, whatever their language.

A line, or a paragraph of several lines or of one long one, counts once a document, folded (core.lines, core.paragraphs). It is
frequent when enough documents have it (the stage decides). A frequent line is removed only where all of this holds:

    place     before the first, or after the last, line of the body; a line of the body is one that is not frequent and
              has BODY_WORDS or more
    company   three lines of furniture in a row, or a line of LONG_WORDS or more: a lone short line may be a heading
              ("NAME", "See also"), and headings are frequent in every collection of manuals; the short line right above
              the body is its heading in any company. A frequent paragraph is company enough
    kind      no code (`}`, `return 0;`, `#include …`), table, field (`Date:`), heading in capitals or by number; one such line
              keeps its whole paragraph
    share     frequent lines are less than half of the page: a page that is mostly frequent is a copy of another one, and
              that is for dedup to judge

Price: a look at the lines of the page's edges.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from typecase.core.rules.page import Page, Rule, words_in

RULES: Final = (
    Rule("line.frequent", "a line that many documents of the corpus have, at the edge of the page", confidence=0.9),
    Rule("line.frequent_paragraph", "a paragraph that many documents have, at the edge of the page", confidence=0.9),
)

LINE: Final = 1
PARAGRAPH: Final = 2
"""Bits of how a line is frequent: by itself, as a part of a paragraph that is, or both; 0 where it is not."""

BODY_WORDS: Final = 12
LONG_WORDS: Final = 6
COMPANY: Final = 3
_COMPANIONS: Final = frozenset(
    (
        "line.nav",
        "line.account",
        "line.share",
        "line.cookie",
        "line.breadcrumb",
        "line.generated",
        "line.copyright",
        "line.script",
    )
)
_CODE: Final = re.compile(
    r"[{};]\s*$|^\s*(?:#\s*(?:include|define|if|endif|else|pragma)|import |from \S+ import|use |using |package |return\b|end\b|"
    r"fi$|done$|esac$|//|/\*|\*/|<[/!?a-zA-Z])|[=<>]{1,2}\s|\w\(|\$\w|^[A-Z][A-Za-z-]+:(?: |$)"
)
_HEADING: Final = re.compile(
    r"(?i:chapter|section|part|appendix|table|figure|book|volume) [0-9ivxlc]+\.?|#+ .*|\d+(?:\.\d+)*\.? .*"
)


def label_frequent(page: Page, frequent: Sequence[int]) -> None:
    """Labels the frequent lines of `page` that the policy lets go; `frequent` has the bits LINE and PARAGRAPH of every line."""
    common = {i for i in page.written if frequent[i]}
    if not common:
        return
    chars = sum(len(page.bodies[i]) for i in page.written)
    if 2 * sum(len(page.bodies[i]) for i in common) >= chars:
        return
    body = [
        n
        for n, i in enumerate(page.written)
        if i not in common and i not in page.labels and words_in(page.bodies[i]) >= BODY_WORDS
    ]
    if not body:
        return
    paragraphs = _free_paragraphs(page, frequent)
    _label_zone(page, page.written[: body[0]], frequent, paragraphs, above=True)
    _label_zone(page, page.written[body[-1] + 1 :], frequent, paragraphs, above=False)


def _free_paragraphs(page: Page, frequent: Sequence[int]) -> set[int]:
    """Lines of frequent paragraphs none of whose lines is protected."""
    free: set[int] = set()
    held: list[int] = []
    for i in range(len(page.bodies) + 1):
        if i < len(page.bodies) and frequent[i] & PARAGRAPH and page.bodies[i]:
            held.append(i)
            continue
        if not any(_protected(page, line) for line in held):
            free.update(held)
        held = []
    return free


def _label_zone(page: Page, zone: Sequence[int], frequent: Sequence[int], paragraphs: set[int], *, above: bool) -> None:
    """Labels the frequent lines of one edge; `above` the body, the last short line is its heading and stays."""
    run: list[int] = []
    for i in [*zone, -1]:
        if i >= 0 and (frequent[i] or page.labels.get(i) in _COMPANIONS):
            run.append(i)
            continue
        company = len(run)
        if above and run and run[-1] == zone[-1] and words_in(page.bodies[run[-1]]) < LONG_WORDS:
            run.pop()
        for line in run:
            if (
                frequent[line] & LINE
                and (company >= COMPANY or words_in(page.bodies[line]) >= LONG_WORDS)
                and not _protected(page, line)
            ):
                page.label(line, "line.frequent")
            elif line in paragraphs:
                page.label(line, "line.frequent_paragraph")
        run = []


def _protected(page: Page, line: int) -> bool:
    """Code, tables, and headings in capitals or by number."""
    body = page.bodies[line]
    return bool(_CODE.search(page.lines[line]) or _HEADING.fullmatch(body)) or body.count("|") >= 2 or body.isupper()
