"""Claims: each place of a text that says a score or a domain, as it stands, before anything is decided.

line      "2. Coherence: 3/5"                  inline    "Accuracy: 4/5; Coherence: 3/5"
row       "| 2 | Coherence | 3 | jumps |"      section   "### Coherence" … "Score: 3/5"
mention   "Coherence deserves a 2/5 after all."    no claim, but an objection to one before it
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from typecase.core.rating import Rubric
from typecase.core.replies.lines import Line, lines_of
from typecase.core.replies.names import SCORE_WORDS, Label, Names
from typecase.core.replies.values import Value, lone_domain, read_domain, read_value

_SCORE_LINE = re.compile(rf"(?:(?:final|overall|my|the) )?(?:{'|'.join(SCORE_WORDS)})(?![a-z])")
_PIECE = re.compile(r"[;,] ?")
_MENTIONED = re.compile(
    r"(\d{1,3}(?:\.\d{1,3})?) ?(?:/|out of) ?(\d{1,3})(?!\d)"
    r"|(?:\b(?:to|as|be|been|is|was|an?|at|of|it|gave|given?|gives|rated?|scored?|deserves?|merits?|rather|actually|only|just|now)"
    r"|改为|改成|应为|给|为) ?(\d{1,3}(?:\.\d{1,3})?)(?![\d/]|\.\d)(?= ?(?:[.,;!)]|instead|rather|now|$))"
)
_REASON = re.compile(
    r"(?:reason(?:s|ing)?|rationale|justification|explanation|comments?|notes?|evidence|理由|说明|解释|原因) ?:"
)
_TABLE_RULE = re.compile(r"[-:| ]+")


@dataclass(frozen=True, slots=True)
class Claim:
    """A score or code for the criterion in row `row`; `also` is the row that number or bracket name against it.

    An objection is no score, but speaks against any other score before it.
    """

    row: int
    outcome: float | str
    place: tuple[int, int] | None = None
    also: int | None = None
    marked: bool = False
    wide: bool = False
    objection: bool = False


@dataclass(slots=True)
class Claims:
    """All claims of a text in order. A domain is an id or a code; `lone` are domains of lines that have no label."""

    scores: list[Claim] = field(default_factory=list)
    domains: list[str] = field(default_factory=list)
    lone: list[str] = field(default_factory=list)
    places: dict[str, tuple[int, int]] = field(default_factory=dict)

    def domain(self, outcome: str | None, place: tuple[int, int] | None = None) -> None:
        """Adds what a labelled domain says; None says nothing."""
        if outcome is not None:
            self.domains.append(outcome)
            if place:
                self.places["domain"] = place


def read_claims(text: str, names: Names, rubric: Rubric, claims: Claims) -> None:
    """Adds the claims of all lines of `text`, thoughts hidden, to `claims`."""
    section: int | None = None
    fresh = False
    for line in lines_of(text):
        if "|" in line.text:
            if not _TABLE_RULE.fullmatch(line.text):
                _read_row(line, names, rubric, claims)
            section = None
            continue
        if section is not None and (value := _section_value(line, rubric, fresh)) is not None:
            claims.scores.append(_claim(section, value, line, None))
            fresh = False
            continue
        opened = _read_line(line, names, rubric, claims)
        if opened is not False:
            section, fresh = opened, True
        elif not _is_sentence(line):
            section = None  # perhaps the heading of something else, whose score would follow
        else:
            fresh = False


def _read_line(line: Line, names: Names, rubric: Rubric, claims: Claims) -> int | bool | None:
    """Adds the claims of a line. The row of a criterion that stands alone, None after a claim, False after prose."""
    claimed = False
    pieces = line.pieces(list(_pieces(line.text, names)))
    for piece in pieces:
        label = names.label(piece.text)
        if label is None:
            continue
        if label.domain:
            outcome = read_domain(piece.text, label.rest, names, rubric)
            claims.domain(outcome, _letter_place(line, outcome, rubric) if len(pieces) == 1 else None)
            claimed = True
            continue
        if len(pieces) == 1 and _is_heading(piece.text, label):
            return label.criterion
        claimed |= _add(piece, label, piece.text, rubric, claims)
    if claimed:
        return None
    if (domain := lone_domain(line.text, names, rubric)) is not None:
        claims.lone.append(domain)
        return None
    if claims.scores:
        _object(line, names, rubric, claims)
    return False


def _is_heading(text: str, label: Label) -> bool:
    """Whether a line is a criterion's name and no more."""
    if label.criterion is None or text[label.rest :].strip(" .:=–-|"):
        return False
    return label.number in (None, label.criterion) and label.other is None


def _add(line: Line, label: Label, text: str, rubric: Rubric, claims: Claims) -> bool:
    """Adds the score that stands behind a label, if one does."""
    if label.criterion is None:
        return _add_by_number(line, label, text, rubric, claims)
    value = read_value(text, label.rest, rubric)
    if value is None:
        return False
    against = label.other if label.other is not None else label.number
    disagrees = against is not None and against != label.criterion
    claims.scores.append(_claim(label.criterion, value, line, against if disagrees else None))
    return True


def _add_by_number(line: Line, label: Label, text: str, rubric: Rubric, claims: Claims) -> bool:
    if label.number is None or label.number < 0:
        return False
    value = read_value(text, label.rest, rubric, alone=True)
    if value is not None:
        claims.scores.append(_claim(label.number, value, line, None))
        return True
    if (strange := _strange_name(text, label.rest, rubric)) is not None:
        claims.scores.append(_claim(label.number, strange, line, -1))
        return True
    return False


def _strange_name(text: str, at: int, rubric: Rubric) -> Value | None:
    """A score out of the scale's top behind a name that is no criterion's: number and name disagree."""
    colon = text.find(":", at, at + 80)
    if colon < 0 or any(char.isdigit() for char in text[at:colon]):
        return None
    value = read_value(text, colon, rubric)
    return value if value is not None and value.sure else None


def _read_row(line: Line, names: Names, rubric: Rubric, claims: Claims) -> None:
    """A table row: an optional number, the name, the score, then comments."""
    bounds = _cells(line.text)
    number = None
    if len(bounds) > 2 and line.text[slice(*bounds[0])].strip(" .[]()").isdigit():
        number = int(line.text[slice(*bounds[0])].strip(" .[]()")[:6]) - 1
        bounds = bounds[1:]
    if len(bounds) < 2:
        return
    label = names.label(line.text[: bounds[0][1]], bounds[0][0])
    if label is None:
        return
    if label.domain:
        whole = not line.text[label.rest : bounds[0][1]].strip(" .:")
        claims.domain(read_domain(line.text[: bounds[1][1]], bounds[1][0], names, rubric) if whole else "unknown_domain")
        return
    if label.criterion is None or line.text[label.rest : bounds[0][1]].strip(" .:"):
        if label.criterion is None and label.number is not None and label.number >= 0 and label.rest >= bounds[0][1]:
            _add_by_number(line, Label(label.number, None, None, False, bounds[1][0]), line.text, rubric, claims)
        return
    number = label.number if number is None else number
    own = Label(number, label.criterion, label.other, False, bounds[1][0])
    _add(line, own, line.text, rubric, claims)


def _cells(text: str) -> list[tuple[int, int]]:
    """Where the cells of a table row begin and end, without the blanks at their edges."""
    cells, start = [], 0
    for part in text.split("|"):
        inner = part.strip()
        if inner:
            begin = start + part.index(inner)
            cells.append((begin, begin + len(inner)))
        start += len(part) + 1
    return cells


def _pieces(text: str, names: Names) -> Iterator[tuple[int, int]]:
    """The parts of a line, split where a comma or semicolon is followed by a criterion's name or a word for the domain."""
    start = 0
    for match in _PIECE.finditer(text):
        at = match.end()
        label = names.label(text, at) if at < len(text) else None
        if label is not None and (label.domain or label.criterion is not None):
            yield start, match.start()
            start = at
    yield start, len(text)


def _section_value(line: Line, rubric: Rubric, fresh: bool) -> Value | None:
    """The score of a section: a line `Score: 4/5`, or a value alone right below the heading."""
    word = _SCORE_LINE.match(line.text)
    if word:
        return read_value(line.text, word.end(), rubric)
    if fresh and (line.text[0].isdigit() or line.text[0] in "[(+-"):
        value = read_value(line.text, 0, rubric, alone=True)
        return value if value is not None and (value.outcome != "unclear_score" or value.sure) else None
    return None


def _is_sentence(line: Line) -> bool:
    """Whether a line without a claim is a sentence or a reason given, and so no heading."""
    if line.raw.lstrip().startswith(("#", "**", "__")):
        return bool(_REASON.match(line.text))
    if _REASON.match(line.text):
        return True
    return line.text[-1] in ".!?" and ":" not in line.text[:40]


def _object(line: Line, names: Names, rubric: Rubric, claims: Claims) -> None:
    """A sentence behind a claim that names a criterion and gives it a score: no claim, but it may speak against one."""
    text = line.text[:2000]
    said = [match for match in _MENTIONED.finditer(text) if match[3] or float(match[2]) == rubric.high]
    scores = {float(match[1] or match[3]) for match in said}
    scores = {score for score in scores if rubric.low <= score <= rubric.high}
    if not scores:
        return
    for row in sorted(names.find(text)):
        claims.scores.extend(Claim(row, score, objection=True) for score in sorted(scores))


def _letter_place(line: Line, outcome: str | None, rubric: Rubric) -> tuple[int, int] | None:
    """Where the letter of a domain stands in the text, if the line gives it right behind the colon."""
    domain = next((d for d in rubric.domains if d.id == outcome), None)
    colon = max(line.raw.find(":"), line.raw.find("："))
    if domain is None or colon < 0:
        return None
    rest = line.raw[colon + 1 :]
    letter = rest.lstrip(" *`[(\"'")
    begin = line.start + colon + 1 + len(rest) - len(letter)
    follows = letter[len(domain.letter) : len(domain.letter) + 1]
    if letter.startswith(domain.letter) and not follows.isalnum():
        return begin, begin + len(domain.letter)
    return None


def _claim(row: int, value: Value, line: Line, also: int | None) -> Claim:
    place = line.place(value.start, value.stop) if value.stop else None
    return Claim(row, value.outcome, place, also, line.marked, line.wide)
