"""The rules of C4 and FineWeb, with the published thresholds as data.

C4: Raffel et al. 2020 (arXiv 1910.10683), section 2.2; FineWeb: Penedo et al. 2024 (arXiv 2406.17557), section 3.6; both in
the form of the common open implementation. C4 edits lines before it judges, so it proposes lines and marks first. The
literal C4 line rule deletes about one clean line in six; it is here to be compared with, not as a default.

`…_scripts` knows the closing signs of other scripts and counts units for words.
"""

from __future__ import annotations

import re
from typing import Final

from typecase.core.program.language import Origin, Statement, remove_str
from typecase.core.rules.page import Page, Rule
from typecase.core.rules.quality import duplicates
from typecase.core.words import UNIT, is_word_boundary, units_of

Decision = tuple[str, str]

MAX_WORD_CHARS: Final = 1000
MIN_LINE_WORDS: Final = 3
MIN_SENTENCES: Final = 5
TERMINAL: Final = (".", "?", "!", '"', "'")
TERMINAL_SCRIPTS: Final = (
    *TERMINAL, "。", "！", "？", "…", "”", "’", "」", "』", "）", "।", "॥", "؟", "۔", "።", "။", "។", "։", "·", "»",
)  # fmt: skip
POLICY: Final = ("terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies", "use cookies")
_CITATION: Final = re.compile(r"\[\d*\]|\[edit\]|\[citation needed\]")
_SENTENCE: Final = re.compile(r"[.!?…]+[\"'”’)\]]*(?=\s|$)|[。！？।۔؟։]")

C4_RULES: Final = (
    Rule("c4.long_word", "a line with a word of more than 1000 characters"),
    Rule("c4.terminal", "a line that does not end in a closing sign, or ends in an ellipsis"),
    Rule("c4.few_words", "a line of fewer than three words"),
    Rule("c4.javascript", "a line that speaks of javascript"),
    Rule("c4.policy", "a line that speaks of terms of use, privacy or cookies"),
    Rule("c4.citation", "a citation mark"),
    Rule("c4.lorem_ipsum", "a page with lorem ipsum"),
    Rule("c4.curly_bracket", "a page with {"),
    Rule("c4.sentences", "fewer than five sentences are left"),
)

MIN_TERMINAL_LINES: Final = 0.12
MAX_SHORT_LINES: Final = 0.67
SHORT_CHARS: Final = 30
MAX_DUPLICATE_CHARS: Final = 0.01
MAX_LINES_PER_WORD: Final = 0.3

FINEWEB_RULES: Final = (
    Rule("fineweb.empty", "no line that is not blank"),
    Rule("fineweb.terminal", "fewer than 12 % of the lines end in a closing sign"),
    Rule("fineweb.short_lines", "more than 67 % of the lines have 30 characters or fewer"),
    Rule("fineweb.duplicates", "more than 1 % of the characters are in duplicate lines"),
    Rule("fineweb.lists", "more than 0.3 line ends a word"),
)


def c4_lines(page: Page, *, scripts: bool) -> list[Statement]:
    """Labels the lines that C4 removes; returns its citation marks as statements."""
    marks: list[Statement] = []
    for i in page.written:
        body = page.bodies[i]
        rule = _c4_line(body, scripts=scripts)
        if rule:
            page.label(i, rule)
        elif "[" in body:
            marks += _citations(page, i)
    return marks


def _c4_line(body: str, *, scripts: bool) -> str:
    words = body.split()
    if max(map(len, words)) > MAX_WORD_CHARS:
        return "c4.long_word"
    ends = _CITATION.sub("", body).rstrip()
    if not ends.endswith(TERMINAL_SCRIPTS if scripts else TERMINAL) or ends.endswith("..."):
        return "c4.terminal"
    if (units_of(body) < MIN_LINE_WORDS * UNIT) if scripts else (len(words) < MIN_LINE_WORDS):
        return "c4.few_words"
    lower = body.lower()
    if "lorem ipsum" in lower or "{" in body:
        return ""  # the document decision
    if "javascript" in lower:
        return "c4.javascript"
    return "c4.policy" if any(phrase in lower for phrase in POLICY) else ""


def _citations(page: Page, line: int) -> list[Statement]:
    """A statement for each mark whose removal cuts and glues no word."""
    text = page.lines[line]
    found = list(_CITATION.finditer(text))
    made = []
    for match in found:
        same = [m.start() for m in re.finditer(re.escape(match[0]), text)]
        left, right = text[: match.start()], text[match.end() :]
        if not is_word_boundary(left + right, len(left)):
            continue
        nth, of = (same.index(match.start()) + 1, len(same)) if len(same) > 1 else (0, 0)
        made.append(remove_str(line, match[0], nth=nth, of=of, origin=Origin("rule", "c4.citation", "1", 0.95)))
    return made


def c4(page: Page) -> Decision | None:
    """What C4 says of the lines that it left; run `c4_lines` first."""
    return _c4(page)


def c4_scripts(page: Page) -> Decision | None:
    """`c4`; the scripts matter for the lines alone."""
    return _c4(page)


def _c4(page: Page) -> Decision | None:
    alive = [page.bodies[i] for i in page.written if not page.labels.get(i, "").startswith("c4.")]
    for body in alive:
        if "lorem ipsum" in body.lower():
            return "c4.lorem_ipsum", body[:60]
        if "{" in body:
            return "c4.curly_bracket", body[:60]
    sentences = sum(max(1, len(_SENTENCE.findall(body))) for body in alive)
    return ("c4.sentences", f"{sentences} sentences") if sentences < MIN_SENTENCES else None


def fineweb(page: Page) -> Decision | None:
    """The literal rules: closing signs of many scripts, words between blanks."""
    return _fineweb(page, len(page.text.split()))


def fineweb_scripts(page: Page) -> Decision | None:
    """The same with units for words, and a short line is one of five units or fewer in unspaced scripts."""
    return _fineweb(page, units_of(page.text) // UNIT)


def _fineweb(page: Page, num_words: int) -> Decision | None:
    lines = [page.bodies[i] for i in page.written]
    if not lines:
        return "fineweb.empty", "0 lines"
    terminal = sum(line.endswith(TERMINAL_SCRIPTS) for line in lines) / len(lines)
    if terminal < MIN_TERMINAL_LINES:
        return "fineweb.terminal", f"{terminal:.3f}"
    short = sum(len(line) <= SHORT_CHARS for line in lines) / len(lines)
    if short > MAX_SHORT_LINES:
        return "fineweb.short_lines", f"{short:.3f}"
    duplicated = duplicates(lines)[1] / max(1, len(page.text.replace("\n", "")))
    if duplicated > MAX_DUPLICATE_CHARS:
        return "fineweb.duplicates", f"{duplicated:.3f}"
    lists = page.text.count("\n") / max(1, num_words)
    return ("fineweb.lists", f"{lists:.3f}") if lists > MAX_LINES_PER_WORD else None
