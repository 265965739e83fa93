"""Values: the text behind a label, as a number on the scale, a code, or nothing that claims to be a value.

": 4/5 (one typo)"   4.0          ": 8/10"    wrong_denominator       ": 3 or 4"   unclear_score
" - N/A"             na_value     ": 6"       out_of_range            ": clear"    None, prose
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from typecase.core.rating import Rubric
from typecase.core.replies.names import Names

_SEPARATOR = re.compile(r" ?(?:[:=|,]|->|=>|→|–|-(?= ))? ?[\[(]? ?")
_NUMBER = re.compile(r"([+-]?)(\d{1,9}(?:\.\d{1,9})?)(?![\d]|\.\d)")
_UNIT = r"(?:分|points?|pts|stars?)"
_OUT_OF = re.compile(
    rf" ?(?:{_UNIT}? ?[\[(]?(?:/|out of|over|of|满分(?:为)?|共|总分) ?(\d{{1,9}}(?:\.\d{{1,9}})?) ?{_UNIT}?|{_UNIT}(?![a-z]))"
)
_SHUT = re.compile(r"(?: ?[\])]){0,3}")
_COMMENT = re.compile(r" ?(?:[.,;:!|()\[\]、#](?!\d)|[-–] |–(?!\d))| (?:because|since|as|due|given|因为|由于)(?![a-z])")
_ANY_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_NOT_GIVEN = re.compile(
    r"(?:n ?/ ?a|n\.a\.|na|none|null|nil|nan|not applicable|not available|unknown|不适用|无法判断|无法评分|无|未知)(?![a-z0-9])"
)
_DOMAIN_GAP = re.compile(r"[\])}.:,;|/&() –-]{0,6}")


@dataclass(frozen=True, slots=True)
class Value:
    """A number or a code, where its digits stand in the folded line, and whether a denominator or unit shows it is a score."""

    outcome: float | str
    start: int = 0
    stop: int = 0
    sure: bool = False


def read_value(text: str, at: int, rubric: Rubric, *, alone: bool = False) -> Value | None:
    """The value behind a label that ends at `at`; None if there is none. `alone` allows no comment behind it."""
    separator = _SEPARATOR.match(text, at)
    pos = separator.end() if separator else at
    given = _NOT_GIVEN.match(text, pos)
    if given:
        return Value("na_value") if _comment(text, given.end()) is not None else None
    number = _NUMBER.match(text, pos)
    if number is None:
        return Value("unclear_score") if text[pos : pos + 1].isdigit() else None
    score, end = float(number[0]), number.end()
    top = _OUT_OF.match(text, end)
    end = top.end() if top else end
    place = (number.start(2), number.start(2) + len(number[2].partition(".")[0]))
    comment = _comment(text, end)
    if comment is None or (alone and comment.strip(" .,;|")) or _others(comment, rubric):
        return Value("unclear_score", *place, bool(top))
    if top and top[1] and float(top[1]) != rubric.high:
        return Value("wrong_denominator", *place, True)
    return Value(score if rubric.low <= score <= rubric.high else "out_of_range", *place, bool(top))


def read_domain(text: str, at: int, names: Names, rubric: Rubric) -> str | None:
    """The id or code of the domain behind a label that ends at `at`; None where a blank was left blank."""
    separator = _SEPARATOR.match(text, at)
    pos = separator.end() if separator else at
    if not text[pos:].strip(" .,;:-–/[]()|?"):
        return None
    if _NOT_GIVEN.fullmatch(text[pos:].strip(" .[]()|")) and text[pos:].strip(" .[]()|") not in names.domain_rows:
        return "no_domain"
    first = _one_domain(text, pos, names)
    if first is None:
        return "unknown_domain"
    row, end = first
    found = {row, *_named_domains(text, end, names)}
    if len(found) > 1:
        return "multiple_domains"
    gap = _DOMAIN_GAP.match(text, end)
    second = _one_domain(text, gap.end(), names) if gap and gap.end() > end else None
    end = second[1] if second and second[0] == row else end
    if _comment(text, end) is None or text[end : end + 1] in ("#", "|"):
        return "unknown_domain"
    return rubric.domains[row].id


def lone_domain(text: str, names: Names, rubric: Rubric) -> str | None:
    """The domain of a line that is a letter and a name of one domain and nothing else."""
    if names.domain_pattern is None or names.letter_pattern is None or len(text) > 200:
        return None
    body = text.lstrip("[( ")
    letter = names.letter_pattern.match(body)
    if letter is None:
        return None
    gap = _DOMAIN_GAP.match(body, letter.end())
    name = names.domain_pattern.match(body, gap.end() if gap else letter.end())
    if name is None or body[name.end() :].strip(" .)]"):
        return None
    one, two = names.domain_rows[letter[0]], names.domain_rows[" ".join(name[0].replace("-", " ").split())]
    return rubric.domains[one].id if one == two else None


def _one_domain(text: str, pos: int, names: Names) -> tuple[int, int] | None:
    for pattern in (names.domain_pattern, names.letter_pattern):
        match = pattern.match(text, pos) if pattern else None
        if match:
            return names.domain_rows[" ".join(match[0].replace("-", " ").split())], match.end()
    return None


def _named_domains(text: str, pos: int, names: Names) -> set[int]:
    """Domains named from `pos` on: by a name anywhere, by a letter where it can be no word of a sentence."""
    found = set()
    if names.domain_pattern:
        found = {
            names.domain_rows[" ".join(match[0].replace("-", " ").split())]
            for match in names.domain_pattern.finditer(text, pos)
        }
    for match in names.letter_pattern.finditer(text, pos) if names.letter_pattern else ():
        after = text[match.end() : match.end() + 5].lstrip()
        if not after or after[0] in ",;/&|)].:" or after.startswith(("and ", "or ", "和", "或")):
            found.add(names.domain_rows[match[0]])
    return found


def _comment(text: str, end: int) -> str | None:
    """What follows a value if it may follow one; None if the number goes on as something else."""
    shut = _SHUT.match(text, end)
    end = shut.end() if shut else end
    if end == len(text) or not text[end:].strip():
        return ""
    return text[end:] if _COMMENT.match(text, end) else None


def _others(comment: str, rubric: Rubric) -> bool:
    """Whether a comment holds a number that might be meant as the score."""
    return any(rubric.low <= float(match[0][:12]) <= rubric.high for match in _ANY_NUMBER.finditer(comment))
