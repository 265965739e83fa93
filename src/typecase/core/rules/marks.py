"""Marks stuck to a line: edit links, permalinks, anchors. Each becomes a `remove_str` of the one place."""

from __future__ import annotations

import re
from typing import Final

from typecase.core.program.language import Origin, Statement, remove_str
from typecase.core.rules.page import Page, Rule

RULES: Final = (
    Rule("mark.edit", "an edit link after a heading"),
    Rule("mark.permalink", "a permalink sign after a heading"),
    Rule("mark.anchor", "an anchor sign before a heading of an API reference"),
    Rule("mark.more", "a link to more in an API reference"),
)

_MARKS: Final = (
    ("mark.edit", "[edit", re.compile(r"\S(\s*\[edit(?: \| edit source)?\])$")),
    ("mark.permalink", "¶", re.compile(r"\S(\s*¶)$")),
    ("mark.anchor", "◆", re.compile(r"^(◆\s*)\S")),
    ("mark.more", "More...", re.compile(r"\S( More\.\.\.)$")),
)
_MAX_CHARS = 300


def marks(page: Page) -> list[Statement]:
    """A statement for every mark on a line that is not removed as a whole."""
    made: list[Statement] = []
    for rule in RULES:
        key, pattern = next((k, p) for name, k, p in _MARKS if name == rule.id)
        if key not in page.text:
            continue
        origin = Origin("rule", rule.id, str(rule.version), rule.confidence)
        for i in page.written:
            if i in page.labels or len(page.lines[i]) > _MAX_CHARS or key not in page.lines[i]:
                continue
            match = pattern.search(page.lines[i].rstrip())
            if match is not None and page.lines[i].count(match[1]) == 1:
                made.append(remove_str(i, match[1], origin=origin))
    return made
