"""Page: a text and its lines, looked at once for all rules; Rule: what a rule is called and what it does."""

from __future__ import annotations

from dataclasses import dataclass, field

from typecase.core.lines import line_table


@dataclass(frozen=True, slots=True)
class Rule:
    """A named rule. Its id is the reason in reports and programs; `version` rises when it decides otherwise."""

    id: str
    about: str
    version: int = 1
    confidence: float = 0.95


@dataclass(slots=True)
class Page:
    """A text while the rules look at it.

    `bodies` are the lines without blanks at their ends; `written` are the numbers of those that are not blank. `labels`
    collects, by line, the rule that wants it removed; the first rule to speak wins.
    """

    text: str
    lines: list[str] = field(init=False)
    bodies: list[str] = field(init=False)
    written: list[int] = field(init=False)
    lower: str = field(init=False)
    labels: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        text = self.text
        if "\r" in text:
            self.lines = [text[a:b] for a, b in zip(*line_table(text), strict=True)]
        else:
            self.lines = text.split("\n")
        self.bodies = [line.strip() for line in self.lines]
        self.written = [i for i, body in enumerate(self.bodies) if body]
        self.lower = text.lower()

    def label(self, line: int, rule: str) -> None:
        """`rule` wants `line` removed."""
        self.labels.setdefault(line, rule)


def words_in(body: str) -> int:
    """A quick count of words for deciding what a line looks like; thresholds that matter use units."""
    return body.count(" ") + 1 if body.isascii() else max(body.count(" ") + 1, len(body) // 4 if not _spaced(body) else 0)


def _spaced(body: str) -> bool:
    # Scripts without blanks between words begin at U+0E00 (Thai) and U+2E80 (CJK).
    return not any("\u0e00" <= c <= "\u0eff" or "\u1000" <= c <= "\u109f" or c >= "\u2e80" for c in body)
