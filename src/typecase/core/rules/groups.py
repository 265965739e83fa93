"""Rules: a refiner without a model. It proposes a real program for a page, and every statement names its rule.

    rules=("encoding", "furniture", "frequent", "document")           the default
    also  "urls", "gopher_quality", "gopher_repetition", "c4", "fineweb" and their script-aware variants "…_scripts"

    document decision    one rule says drop: the program is drop_doc(), its origin the rule
    lines                labelled lines become remove_lines, one statement for each run of one rule
    marks                what is stuck to a line becomes remove_str
    characters           mojibake, control characters, zero-width characters become normalize

Policy against over-deletion: nothing is removed because it is short. A line goes because of what it says (furniture), of
where it stands together with what it repeats (titles, contents), or because it is frequent in the corpus AND at the edge
of the page AND no heading, code or sentence of the body (rules_frequent). Blank lines go with the run beside them. The
program then passes the guards like any other.

Price: about 0.2 ms for a page of 1.4 KB.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from typecase.core.lines import line_table
from typecase.core.program.forms import pieces_of
from typecase.core.program.language import Origin, Program, Statement, canonical, drop_doc, keep_all, normalize, remove_lines
from typecase.core.program.protect import protected_lines
from typecase.core.rules import documents as rules_documents
from typecase.core.rules import frequent as rules_frequent
from typecase.core.rules import layout as rules_layout
from typecase.core.rules import lines as rules_lines
from typecase.core.rules import marks as rules_marks
from typecase.core.rules import quality as rules_quality
from typecase.core.rules import web as rules_web
from typecase.core.rules.page import Page, Rule
from typecase.errors import BadProgram

DEFAULT: Final = ("encoding", "furniture", "frequent", "document")

_ENCODING: Final = tuple(
    Rule(f"encoding.{form}", f"the registered form {form!r}", confidence=1.0) for form in ("mojibake", "controls", "zero_width")
)

_ASCII_CONTROLS: Final = bytes({*range(32), 127} - {9, 10, 13})

GROUPS: Final[dict[str, tuple[Rule, ...]]] = {
    "encoding": _ENCODING,
    "furniture": (*rules_lines.RULES, *rules_layout.RULES, *rules_marks.RULES),
    "frequent": rules_frequent.RULES,
    "urls": rules_lines.URL_RULES,
    "document": rules_documents.RULES,
    "gopher_quality": rules_quality.QUALITY_RULES,
    "gopher_quality_scripts": rules_quality.QUALITY_RULES,
    "gopher_repetition": rules_quality.REPETITION_RULES,
    "c4": rules_web.C4_RULES,
    "c4_scripts": rules_web.C4_RULES,
    "fineweb": rules_web.FINEWEB_RULES,
    "fineweb_scripts": rules_web.FINEWEB_RULES,
}
"""Name -> its rules."""

RULES: Final[dict[str, Rule]] = {rule.id: rule for rules in GROUPS.values() for rule in rules}

Decision = tuple[str, str]
"""Rule id and what it measured."""

_DECIDERS: Final[dict[str, Callable[[Page], Decision | None]]] = {
    "document": rules_documents.decide,
    "gopher_quality": rules_quality.gopher_quality,
    "gopher_quality_scripts": rules_quality.gopher_quality_scripts,
    "gopher_repetition": rules_quality.gopher_repetition,
    "c4": rules_web.c4,
    "c4_scripts": rules_web.c4_scripts,
    "fineweb": rules_web.fineweb,
    "fineweb_scripts": rules_web.fineweb_scripts,
}


@dataclass(frozen=True, slots=True)
class Proposal:
    """A program, and for a drop what the rule measured."""

    program: Program
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Rules:
    """The refiner made of the named groups of rules. Raises BadProgram for a name that does not exist."""

    names: tuple[str, ...] = DEFAULT

    def __post_init__(self) -> None:
        if unknown := [name for name in self.names if name not in GROUPS]:
            raise BadProgram(f"no rules {', '.join(map(repr, unknown))}; there are {', '.join(GROUPS)}")
        if len(set(self.names)) < len(self.names):
            raise BadProgram(f"rules are named twice: {', '.join(self.names)}")

    def propose(self, text: str, *, frequent: Sequence[int] | None = None) -> Proposal:
        """A canonical program for `text`. `frequent` says of each line whether many documents of the corpus have it."""
        page = Page(text)
        if "furniture" in self.names:
            rules_lines.label_lines(page)
            rules_layout.label_layout(page)
        if "urls" in self.names:
            rules_lines.label_urls(page)
        if frequent is not None and "frequent" in self.names:
            rules_frequent.label_frequent(page, frequent)
        if page.labels:
            _spare_quoted(page)
        marks: list[Statement] = []
        for name in ("c4", "c4_scripts"):
            if name in self.names:
                marks += rules_web.c4_lines(page, scripts=name == "c4_scripts")
        for name in self.names:
            decided = _DECIDERS[name](page) if name in _DECIDERS else None
            if decided is not None:
                return Proposal(Program((drop_doc(origin=origin_of(decided[0])),)), decided[1])
        if "furniture" in self.names:
            marks += rules_marks.marks(page)
        if "encoding" in self.names:
            marks += _encoding(text)
        statements = [*_line_statements(page), *marks]
        return Proposal(canonical(Program(tuple(statements or (keep_all(),)))))


def origin_of(rule: str) -> Origin:
    """The origin of a statement that a rule proposed."""
    found = RULES[rule]
    return Origin("line_freq" if rule.startswith("line.frequent") else "rule", rule, str(found.version), found.confidence)


def _spare_quoted(page: Page) -> None:
    """What looks like furniture inside a code fence or a formula is quoted, not furniture."""
    for line in protected_lines(page.text, *line_table(page.text), ("fence", "math")):
        page.labels.pop(line, None)


def _encoding(text: str) -> list[Statement]:
    """A statement for every form of the group that would change the text."""
    rules = _ENCODING
    if text.isascii():
        data = text.encode()
        if len(data) == len(data.translate(None, _ASCII_CONTROLS)):
            return []
        rules = tuple(rule for rule in _ENCODING if rule.id == "encoding.controls")
    forms = [(rule, rule.id.removeprefix("encoding.")) for rule in rules]
    return [normalize(form, origin=origin_of(rule.id)) for rule, form in forms if pieces_of([form], text, 0, len(text))]


def _line_statements(page: Page) -> list[Statement]:
    """The labelled lines as ranges of one rule each, with blank lines beside and inside them."""
    if not page.labels:
        return []
    made: list[Statement] = []
    labels = page.labels | _blanks(page)
    for i in sorted(labels):
        if made and made[-1].line_end == i - 1 and made[-1].origin.name == labels[i]:
            made[-1] = made[-1]._replace(line_end=i)
        else:
            made.append(remove_lines(i, i, origin=origin_of(labels[i])))
    return made


def _blanks(page: Page) -> dict[int, str]:
    """Blank lines that go with the labelled runs: those inside a run, and those after it where it is a paragraph.

    A run at the end of the page takes the blank lines before it instead, so that no run leaves a gap of two.
    """
    blanks: dict[int, str] = {}
    num_lines = len(page.bodies)
    for first, last in _runs(page):
        after, before = last + 1, first
        while after < num_lines and not page.bodies[after]:
            after += 1
        while before > 0 and not page.bodies[before - 1]:
            before -= 1
        if after == num_lines:
            blanks |= dict.fromkeys(range(before, first), page.labels[first])
        if after == num_lines or before < first or first == 0:
            blanks |= dict.fromkeys(range(last + 1, after), page.labels[last])
        rule = page.labels[first]
        for i in range(first, last):
            rule = page.labels.get(i, rule)
            if not page.bodies[i]:
                blanks[i] = rule
    return blanks


def _runs(page: Page) -> list[tuple[int, int]]:
    """Maximal runs of labelled lines with nothing but blank lines between them, as (first, last) labelled lines."""
    runs: list[tuple[int, int]] = []
    previous = -1
    for i in page.written:
        if i not in page.labels:
            previous = -1
        elif previous >= 0:
            runs[-1] = (runs[-1][0], i)
            previous = i
        else:
            runs.append((i, i))
            previous = i
    return runs
