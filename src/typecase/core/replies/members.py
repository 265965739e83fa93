"""Members: claims out of JSON in a text, whatever way it is nested.

    {"accuracy": 4, "domain": "E"}        {"scores": {"1": "4/5"}}        [{"criterion": "accuracy", "score": 4}]

What does not parse as JSON (cut off, single quotes) is left to be read line by line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from typecase.core.rating import Rubric
from typecase.core.replies.claims import Claim, Claims
from typecase.core.replies.lines import fold, hide
from typecase.core.replies.names import SCORE_WORDS, Label, Names
from typecase.core.replies.values import read_domain, read_value

_MOST_TRIES = 16
_DEEPEST = 8
_OPENING = re.compile(r"(?:^|(?<=[\n:`>]))[ \t]{0,40}([{\[])(?=\s{0,200}[\"{\[])")
_SCORE_KEYS = (*SCORE_WORDS, "scores")
_NAME_KEYS = ("criterion", "criteria", "name", "id", "dimension", "metric", "label")
_TOP_KEYS = ("max", "maximum", "max score", "maximum score", "out of", "scale", "total", "max value", "满分")
_CONTAINERS = frozenset(
    (
        *_SCORE_KEYS, "ratings", "evaluation", "evaluations", "result", "results", "criteria", "dimensions", "assessment",
        "answer", "output", "response", "review", "quality", "评分结果", "结果", "评价",
    )
)  # fmt: skip
"""Keys under which scores may stand; what stands under another key, such as an example or a maximum, is not an answer."""
_NUMBER_KEYS = ("number", "index", "no", "#", "criterion number")

Pairs = list[tuple[str, Any]]


class _Object:
    """A JSON object whose repeated keys are all kept."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs


def read_members(text: str, names: Names, rubric: Rubric, claims: Claims) -> str:
    """Adds the claims of the JSON values in `text` to `claims`; the text with those values blanked out."""
    for start, stop, value in list(_values(text)):
        before = len(claims.scores), len(claims.domains)
        inside = Claims()
        _Walk(text[start:stop], start, names, rubric, inside).read(value, 0)
        claims.scores += inside.scores
        for outcome in inside.domains:
            claims.domain(outcome)
        claims.places |= inside.places
        if (len(claims.scores), len(claims.domains)) != before:
            text = hide(text, start, stop)
    return text


def _values(text: str) -> Iterator[tuple[int, int, Any]]:
    """JSON objects and lists that begin a line, a fence or the text; a bounded number of tries."""
    decoder = json.JSONDecoder(object_pairs_hook=_Object)
    at = tries = 0
    while tries < _MOST_TRIES and (opening := _OPENING.search(text, at)) is not None:
        tries += 1
        start = opening.start(1)
        try:
            value, stop = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            at = opening.end()
            continue
        yield start, stop, value
        at = stop


class _Walk:
    def __init__(self, text: str, start: int, names: Names, rubric: Rubric, claims: Claims) -> None:
        self.text, self.start, self.names, self.rubric, self.claims = text, start, names, rubric, claims

    def read(self, value: Any, depth: int) -> None:
        if depth > _DEEPEST:
            return
        if isinstance(value, list):
            for item in value:
                self.read(item, depth + 1)
        elif isinstance(value, _Object) and not self._item(value):
            for key, inner in value.pairs:
                self._member(key, inner, depth)

    def _member(self, key: str, value: Any, depth: int) -> None:
        folded = fold(key[:200])[0]
        label = Label(int(folded) - 1, None, None, False, 0) if folded.isdigit() else self.names.label(folded)
        if label is not None and label.domain and label.rest == len(folded):
            self.claims.domain(self._domain(value), self._place(key, r'"?([^"\s,}]{1,8})"?(?=\s*[,}])'))
        elif label is not None and (label.criterion is not None or folded.isdigit()) and label.rest in (0, len(folded)):
            self._score(key, label, self._of_item(value) if isinstance(value, _Object) else value)
        elif isinstance(value, list | _Object) and folded in _CONTAINERS:
            self.read(value, depth + 1)

    def _item(self, value: _Object) -> bool:
        """Whether the object is one criterion's: it says which and what."""
        named, numbered = _inner(value, _NAME_KEYS), _inner(value, _NUMBER_KEYS)
        keys = {fold(key[:200])[0] for key, _ in value.pairs}
        if not keys & set(_SCORE_KEYS) or not (isinstance(named, str | int) or isinstance(numbered, int | str)):
            return False
        folded = fold(str(named)[:200])[0] if isinstance(named, str | int) else ""
        label = self.names.label(folded) if folded and not folded.isdigit() else None
        number = int(folded) - 1 if folded.isdigit() and len(folded) < 4 else None
        if numbered is not None and str(numbered).isdecimal() and len(str(numbered)) < 4:
            number = int(str(numbered)) - 1
        criterion = label.criterion if label and label.rest == len(folded) else None
        if label is not None and label.number is not None:
            number = label.number if number in (None, label.number) else -1
        if criterion is None and folded and not folded.isdigit():
            if number is None or not 0 <= number < self.names.num_criteria:
                return False  # a field that is not asked for, such as a remark
            self.claims.scores.append(Claim(number, "criterion_mismatch", also=-1))
            return True
        self._score("", Label(number, criterion, None, False, 0), self._of_item(value))
        return True

    def _of_item(self, value: _Object) -> Any:
        """The score in an object, with its denominator if the object names another than the scale's."""
        score, top = _inner(value, _SCORE_KEYS), _inner(value, _TOP_KEYS)
        plain = isinstance(top, int | float) and not isinstance(top, bool)
        return f"{score}/{top}" if plain and top != self.rubric.high else score

    def _score(self, key: str, label: Label, value: Any) -> None:
        row = label.criterion if label.criterion is not None else label.number
        if row is None or not 0 <= row < self.names.num_criteria:
            return
        against = label.other if label.other is not None else label.number
        also = against if label.criterion is not None and against is not None and against != row else None
        place = self._place(key, r'"?(\d{1,9})') if key else None
        outcome, marked, wide = self._outcome(value)
        self.claims.scores.append(Claim(row, outcome, place, also, marked, wide))

    def _outcome(self, value: Any) -> tuple[float | str, bool, bool]:
        if value is None:
            return "na_value", False, False
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            return "unclear_score", False, False
        if isinstance(value, str):
            text, marked, wide = fold(value[:2000])
            found = read_value(text, 0, self.rubric)
            return (found.outcome if found else "unclear_score" if text else "na_value"), marked, wide
        return (float(value) if self.rubric.low <= value <= self.rubric.high else "out_of_range"), False, False

    def _domain(self, value: Any) -> str | None:
        if isinstance(value, list):
            found = {outcome for item in value if (outcome := self._domain(item)) is not None}
            return found.pop() if len(found) == 1 else "multiple_domains" if found else "no_domain"
        if isinstance(value, _Object):
            given = [
                v for k, v in value.pairs if fold(k[:200])[0] in ("letter", "code", "label", "name", "domain", "id", "value")
            ]
            return self._domain(given)
        if value is None or (isinstance(value, str) and not value.strip()):
            return "no_domain"
        return read_domain(fold(value[:2000])[0], 0, self.names, self.rubric) if isinstance(value, str) else "unknown_domain"

    def _place(self, key: str, value: str) -> tuple[int, int] | None:
        """Where the value of a key stands, if the key is there once and as it is."""
        quoted = json.dumps(key, ensure_ascii=False)
        at = self.text.find(quoted)
        if at < 0 or self.text.find(quoted, at + 1) >= 0:
            return None
        match = re.compile(rf"\s{{0,40}}:\s{{0,40}}{value}").match(self.text, at + len(quoted))
        return (self.start + match.start(1), self.start + match.end(1)) if match else None


def _inner(value: _Object, keys: tuple[str, ...]) -> Any:
    """The value of the first of `keys` that the object has; two different values of one key make it no value."""
    for key in keys:
        found = [inner for name, inner in value.pairs if fold(name[:200])[0] == key]
        if found:
            return found[0] if all(inner == found[0] for inner in found) else object()
    return None
