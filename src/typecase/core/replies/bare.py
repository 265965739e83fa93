"""Bare: an answer without names, a line a field, read by position; or one score, or one domain, alone.

E            the domain first, then a line a criterion in the rubric's order
4
3
"""

from __future__ import annotations

from typecase.core.rating import Rubric
from typecase.core.replies.claims import Claim, Claims
from typecase.core.replies.lines import Line, lines_of
from typecase.core.replies.names import Names
from typecase.core.replies.values import read_domain, read_value

_LONGEST = 64


def read_bare(text: str, names: Names, rubric: Rubric, *, cut: bool) -> tuple[Claims, tuple[str, ...]] | None:
    """Claims by position, and notes; None where the lines have names, so that they are read by these."""
    lines = list(lines_of(text))
    if any(_is_named(line, names) for line in lines):
        return None
    num, with_domain = len(rubric.criteria), int(bool(rubric.domains))
    notes: tuple[str, ...] = ()
    size = num + with_domain
    if (len(lines) == 2 * size and [line.text for line in lines[:size]] == [line.text for line in lines[size:]]) or (
        with_domain and len(lines) == 2 * num + 1 and [x.text for x in lines[1 : num + 1]] == [x.text for x in lines[num + 1 :]]
    ):
        lines, notes = lines[:size], ("duplicate_half",)
    claims = Claims()
    domain = _domain(lines[0], names, rubric) if with_domain and lines else None
    scored = lines[1:] if domain is not None else lines
    claims.domain(domain, _letter_place(lines[0], domain, rubric) if domain else None)
    values = [_value(line, row, rubric) for row, line in enumerate(scored)]
    complete = len(scored) == num
    if not complete or None in values:
        return claims, _misfit(len(scored), num, cut, notes)
    if cut and not _whole(text, rubric):
        values, notes = values[:-1], (*notes, "truncated_reply")
    claims.scores += [value for value in values if value is not None]
    return claims, notes


def read_one_score(text: str, rubric: Rubric, criterion: str, claims: Claims) -> bool:
    """Adds the score that is all of `text`; False if the text is anything else."""
    lines = list(lines_of(text))
    value = _value(lines[0], rubric.columns.index(criterion), rubric) if len(lines) == 1 else None
    if value is not None:
        claims.scores.append(value)
    return value is not None


def read_one_domain(text: str, names: Names, rubric: Rubric, claims: Claims) -> bool:
    """Adds the domain that is all of `text`; False if the text is anything else."""
    lines = list(lines_of(text))
    if len(lines) != 1 or _is_named(lines[0], names) or len(lines[0].text) > _LONGEST:
        return False
    outcome = read_domain(lines[0].text, 0, names, rubric)
    if outcome is None or (outcome == "unknown_domain" and len(lines[0].text.split()) > 3):
        return False
    claims.domain(outcome, _letter_place(lines[0], outcome, rubric))
    return True


def _misfit(found: int, num: int, cut: bool, notes: tuple[str, ...]) -> tuple[str, ...]:
    codes: tuple[str, ...] = ("truncated_reply",) if cut and found <= num else ()
    if found and found != num:
        codes += ("too_few_scores" if found < num else "too_many_scores",)
    return (*codes, *(("misaligned",) if found == num else ()), *notes)


def _is_named(line: Line, names: Names) -> bool:
    label = names.label(line.text)
    return label is not None and (label.domain or label.criterion is not None)


def _domain(line: Line, names: Names, rubric: Rubric) -> str | None:
    """The domain or code of a first line that looks like one; None for a line that does not."""
    text = line.text
    if not text or len(text) > _LONGEST or text[0].isdigit():
        return None
    outcome = read_domain(text, 0, names, rubric)
    letter_like = len(text.strip("[]() .")) == 1 and text.strip("[]() .").isalpha()
    return None if outcome == "unknown_domain" and not letter_like else outcome


def _value(line: Line, row: int, rubric: Rubric) -> Claim | None:
    """The claim of a line that is a value and nothing else; None for a line that is not."""
    if len(line.text) > _LONGEST:
        return None
    value = read_value(line.text, 0, rubric, alone=True)
    if value is None:
        return None
    place = line.place(value.start, value.stop) if value.stop else None
    return Claim(row, value.outcome, place, None, line.marked, line.wide)


def _whole(text: str, rubric: Rubric) -> bool:
    """Whether the last line of a cut answer is surely whole: the scale has single digits, or the line was ended."""
    last = text.rsplit("\n", 1)[-1].strip()
    return not last or (len(last) == 1 and rubric.low >= 0 and rubric.high < 10)


def _letter_place(line: Line, outcome: str | None, rubric: Rubric) -> tuple[int, int] | None:
    letter = next((d.letter for d in rubric.domains if d.id == outcome), None)
    at = len(line.raw) - len(line.raw.lstrip(" *`[("))
    if letter is None or not line.raw.startswith(letter, at) or line.raw[at + len(letter) :].strip(" *`])."):
        return None
    return line.start + at, line.start + at + len(letter)
