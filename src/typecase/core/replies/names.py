"""Names: what may stand before a value — the number of a criterion, a name of it, a word for the domain.

    "[3] language consistency (one tongue): 4"   ->   Label(number=2, criterion=2, …, rest at ": 4")

Names are the ids, aliases and display names of the rubric in every language, folded; one that would mean two criteria
means none. A name that ends in "score" also counts without that word, unless another criterion has it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from typecase.core.rating import Rubric
from typecase.core.replies.lines import fold_name

DOMAIN_WORDS = (
    "domain", "application domain", "applied domain", "domain type", "domain label", "best domain", "subject domain",
    "primary domain", "category", "领域", "应用领域", "所属领域", "领域类型", "应用领域类型", "领域分类",
)  # fmt: skip
SCORE_WORDS = ("score", "rating", "level", "grade", "value", "得分", "评分", "分数", "打分", "等级")

_NUMBER = re.compile(
    r"(?:(?:criterion|criteria|item|no\.?|指标|标准|第) ?)?#?"
    r"(?:\[ ?(\d{1,3}) ?\]|\( ?(\d{1,3}) ?\)|(\d{1,3}) ?(?:[)、]|[.:](?!\d))) ?(?:[:.]|-(?!\d))? ?"
)
_BEFORE_NAME = re.compile(r"(?:(?:criterion|criteria|item|指标|标准|第) ?)?#?(\d{1,3}) ?[:.|–-]? ?(?=[^\d\W])")
_WITH_WORD = re.compile(r"(?:criterion|criteria|指标|标准) ?#?(\d{1,3}) ?(?=[:=–-])")
_GROUP = re.compile(r" ?\(([^()]{1,80})\)")
_FILLER = re.compile(rf"(?: ?(?:{'|'.join(SCORE_WORDS)}|is|为|是)(?![a-z])){{1,3}}")


@dataclass(frozen=True, slots=True)
class Label:
    """What opens a line. `rest` is where the value would begin.

    number      the criterion's row by its number, None without one; -1 for a number that no criterion has
    criterion   the criterion's row by its name, None without one
    other       another criterion's row that a bracket behind the name speaks of
    domain      whether a word for the domain stands there
    """

    number: int | None
    criterion: int | None
    other: int | None
    domain: bool
    rest: int


@dataclass(frozen=True, slots=True)
class Names:
    """Finds labels. `pattern` matches a criterion's name, `rows` tells whose it is; the same for domains."""

    rows: dict[str, int]
    pattern: re.Pattern[str]
    domain_rows: dict[str, int]
    domain_pattern: re.Pattern[str] | None
    letter_pattern: re.Pattern[str] | None
    domain_word: re.Pattern[str]
    num_criteria: int

    def label(self, text: str, at: int = 0) -> Label | None:
        """The label that `text` begins with at `at`; None if it begins with something else."""
        number, pos = self._number(text, at)
        name = self.pattern.match(text, pos)
        if name:
            criterion = self.rows[_key(name[0])]
            pos, other = self._group(text, name.end(), criterion)
            filler = _FILLER.match(text, pos)
            return Label(number, criterion, other, False, filler.end() if filler else pos)
        word = self.domain_word.match(text, pos)
        if word:
            return Label(None, None, None, True, word.end())
        return Label(number, None, None, False, pos) if number is not None else None

    def find(self, text: str) -> set[int]:
        """Rows of the criteria that are named anywhere in `text`."""
        return {self.rows[_key(match[0])] for match in self.pattern.finditer(text)}

    def _number(self, text: str, at: int) -> tuple[int | None, int]:
        match = _NUMBER.match(text, at) or _WITH_WORD.match(text, at)
        if match is None:
            match = _BEFORE_NAME.match(text, at)
            if match is None or not (self.pattern.match(text, match.end()) or self.domain_word.match(text, match.end())):
                return None, at
        number = int(next(group for group in match.groups() if group))
        return (number - 1 if 1 <= number <= self.num_criteria else -1), match.end()

    def _group(self, text: str, pos: int, criterion: int) -> tuple[int, int | None]:
        """Behind a bracket of words after a name; one that holds a number (no scale) or no answer is left for the value."""
        group = _GROUP.match(text, pos)
        if group is None or (_VALUE_LIKE.match(group[1]) and not _SCALE.fullmatch(group[1].strip())):
            return pos, None
        named = self.rows.get(_key(group[1].strip()))
        return group.end(), named if named is not None and named != criterion else None


_VALUE_LIKE = re.compile(r" ?(?:[+-]?\d|n ?/ ?a(?![a-z])|na(?![a-z])|none|不适用|无)")
_SCALE = re.compile(r"\d{1,3} ?(?:-|–|to|\.\.|~) ?\d{1,3}")


def names_of(rubric: Rubric) -> Names:
    """The names of a rubric; kept for the last few rubrics."""
    criteria = tuple((c.id, *c.aliases, *c.names.values()) for c in rubric.criteria)
    domains = tuple((d.letter, d.id, *d.aliases, *d.names.values()) for d in rubric.domains)
    return _names(criteria, domains)


@lru_cache(maxsize=16)
def _names(criteria: tuple[tuple[str, ...], ...], domains: tuple[tuple[str, ...], ...]) -> Names:
    rows = _without_scores(_table(criteria))
    words = [word for word in DOMAIN_WORDS if word not in rows]
    domain_rows = _table(domains)
    letters = [fold_name(letter) for letter, *_ in domains]
    longer = [name for name in domain_rows if name not in letters]
    return Names(
        rows,
        _either(list(rows)),
        domain_rows,
        _either(longer) if longer else None,
        _either([letter for letter in letters if letter in domain_rows]) if domains else None,
        _either(words) if words else re.compile(r"(?!)"),
        len(criteria),
    )


def _table(groups: tuple[tuple[str, ...], ...]) -> dict[str, int]:
    owners: dict[str, set[int]] = {}
    for row, group in enumerate(groups):
        for name in group:
            if (key := fold_name(name)) and not key.isdigit():
                owners.setdefault(key, set()).add(row)
    return {name: row for name, (row, *others) in ((n, sorted(rows)) for n, rows in owners.items()) if not others}


def _without_scores(rows: dict[str, int]) -> dict[str, int]:
    short = {name.removesuffix(" score"): row for name, row in rows.items() if name.endswith(" score")}
    return {**{name: row for name, row in short.items() if name not in rows}, **rows}


def _key(found: str) -> str:
    return " ".join(found.replace("-", " ").split())


def _either(names: list[str]) -> re.Pattern[str]:
    """Any of the folded names, the longest first; a hyphen may stand for a blank, and a word does not go on behind it."""
    if not names:
        return re.compile(r"(?!)")
    parts = []
    for name in sorted(names, key=lambda name: (-len(name), name)):
        body = re.escape(name).replace("\\ ", "[ -]")
        before = r"(?<![a-z0-9])" if name[0].isascii() else ""
        parts.append(before + body + (r"(?![a-z0-9]|-[a-z0-9])" if name[-1].isascii() and name[-1].isalnum() else ""))
    return re.compile("|".join(parts))
