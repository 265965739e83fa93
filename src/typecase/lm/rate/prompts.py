'''Prompts: what a rater is asked, made from a rubric and a template. Both are data; neither knows of the other.

    form = prompt_form(load_rubric("dataman"), "teacher")
    form.prompt(text)       the user's turn        form.system      the turn before it
    form.schema             a JSON schema, where the template is answered in JSON
    slots_of(rubric, form)  the gaps of the answer, for a model whose labels are read instead of its words

A template is a TOML file:

    id = "mine"                         version = 1             language = "en"      names of criteria are shown in it
    reply = "form"                      form | json | bare | score | domain: how the answer is laid out and read
    system = "You rate texts."          the turn before, may be empty
    user = """…{criteria}…{text}…{layout}"""
    example = """…{text}…{answer}…"""   how an example is shown, if examples are given
    opening = "RATINGS {mark}"          the answer's first line, so that nothing before it is taken for it
    domain_line = "Domain: {answer}"    one line of the answer; shown_domain_line, if it is shown otherwise
    score_line = "[{number}] {name}: {answer}/{high}"     one line of the answer for each criterion

Slots of `user`: {text} (needed), {mark}, {criteria} with questions and levels, {names} without, {domains}, {layout},
{examples}, {low}, {high}, {summary}, {question} of the summary. They are filled in one pass: a slot's name inside the text
stays text, and any other brace is what it is. What stands between {if domains} and {end} is left out for a rubric that has no
domains. {mark} is twelve digits of a hash of the text, which the text can hardly hold: a fence of it cannot be closed from
within, and an answer that opens with it does not come from the text.

Price: a few µs and a copy of the text.
'''

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Literal, get_args

import orjson

from typecase.core.rating import Criterion, Rubric
from typecase.core.replies import Expects
from typecase.core.replies.reader import asked_for
from typecase.errors import BadQuery, BadRecipe
from typecase.lm.protocol import Form, fingerprint_of
from typecase.lm.slots import Slot
from typecase.lm.tables import Shelf, check_keys, check_texts, check_version, fill, parse_table

Layout = Literal["form", "json", "bare", "score", "domain"]
_IF_DOMAINS = re.compile(r"\{if domains\}(.*?)\{end\}", re.DOTALL)
FORMS = Shelf("rate/forms", "template")
_BLANK = "_"
_NAMES = {
    "id", "version", "language", "reply", "system", "user", "example", "opening", "domain_line", "score_line",
    "shown_domain_line", "shown_score_line",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Template:
    """A template, checked; see the module for what its fields mean."""

    id: str
    version: int
    language: str
    reply: Layout
    user: str
    system: str = ""
    example: str = ""
    opening: str = ""
    domain_line: str = "{answer}"
    score_line: str = "{answer}"
    shown_domain_line: str = ""
    shown_score_line: str = ""

    def __post_init__(self) -> None:
        if self.reply not in get_args(Layout):
            raise BadRecipe(f"template '{self.id}': 'reply' is one of {', '.join(get_args(Layout))}, got {self.reply!r}")
        if "{text}" not in self.user:
            raise BadRecipe(f"template '{self.id}': 'user' has no {{text}}, so no document would be asked about")
        for name in ("domain_line", "score_line"):
            if getattr(self, name).count("{answer}") != 1 or "\n" in getattr(self, name):
                raise BadRecipe(f"template '{self.id}': '{name}' is one line with one {{answer}}, got {getattr(self, name)!r}")


@dataclass(frozen=True, slots=True)
class Example:
    """A document with its rating, shown to a rater before it rates: a level for every criterion and, if there are, a domain."""

    text: str
    levels: Mapping[str, int]
    domain: str | None = None


@dataclass(frozen=True, slots=True)
class PromptForm:
    """A template filled with a rubric. Two forms of one fingerprint ask the same of the same text."""

    rubric: Rubric
    template: Template
    examples: tuple[Example, ...] = ()
    _fixed: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        asked_for(self.rubric, self.expects)
        for example in self.examples:
            self._check(example)
        if self.examples and not self.template.example:
            raise BadRecipe(f"template '{self.template.id}' has no 'example', so it cannot show {len(self.examples)} examples")
        object.__setattr__(self, "_fixed", self._blocks())

    @property
    def id(self) -> str:
        """The template's name and version."""
        return f"{self.template.id}/{self.template.version}"

    @property
    def fingerprint(self) -> str:
        """32 hexadecimal digits over all that a prompt is made of, the document aside."""
        return fingerprint_of("form", 1, asdict(self.template), self.rubric.fingerprint, dict(self._fixed))

    @property
    def system(self) -> str:
        """The turn before the user's; empty if there is none."""
        return fill(self.template.system, self._fixed).strip()

    @property
    def expects(self) -> Expects:
        """What `read_reply` is to expect."""
        return "form" if self.template.reply == "json" else self.template.reply

    @property
    def schema(self) -> Form | None:
        """The JSON schema of the answer; None where it is not JSON."""
        if self.template.reply != "json":
            return None
        levels = list(range(self.rubric.low, self.rubric.high + 1))
        fields: dict[str, object] = {"domain": {"type": "string", "enum": self._letters()}} if self.rubric.domains else {}
        fields |= {column: {"type": "integer", "enum": levels} for column in self.rubric.columns}
        schema = {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
        return Form("json_schema", orjson.dumps(schema).decode())

    def marker(self, text: str) -> str | None:
        """The line that an answer about `text` opens with; None where the template has none."""
        return fill(self.template.opening, {"mark": mark_of(text)}) or None

    def prompt(self, text: str, *, marked: bool = True) -> str:
        """The user's turn about `text`. Without `marked` the answer is shown without its opening line, as slots have none."""
        layout = self.layout(self.marker(text) if marked else None)
        user = _IF_DOMAINS.sub(r"\1" if self.rubric.domains else "", self.template.user)
        return fill(user, {**self._fixed, "text": text, "mark": mark_of(text), "layout": layout}).strip("\n")

    def layout(self, opening: str | None = None) -> str:
        """The answer with its blanks, as it is shown."""
        if self.template.reply == "json":
            quoted = [f'  "{name}": {_BLANK}' for name in asked_for(self.rubric, "form") if name != "domain"]
            domain = [f'  "domain": "{_BLANK}"'] if self.rubric.domains else []
            return "{\n" + ",\n".join([*domain, *quoted]) + "\n}"
        shown = self.template.shown_domain_line, self.template.shown_score_line
        lines = [fill(line, {"answer": _BLANK}) for line in self._lines(*shown)]
        return "\n".join([*([opening] if opening else []), *lines])

    def answer(self, levels: Mapping[str, int], domain: str | None, *, text: str | None = None) -> str:
        """An answer as a rater would write it; with `text` it begins with the opening line for it."""
        letter = next((d.letter for d in self.rubric.domains if d.id == domain), "")
        if self.template.reply == "json":
            fields = {"domain": letter} if self.rubric.domains else {}
            return orjson.dumps({**fields, **{c: levels[c] for c in self.rubric.columns}}).decode()
        values = [letter if name == "domain" else str(levels[name]) for name in self._order()]
        lines = [fill(line, {"answer": value}) for line, value in zip(self._lines(), values, strict=True)]
        opening = self.marker(text) if text is not None else None
        return "\n".join([*([opening] if opening else []), *lines])

    def _order(self) -> tuple[str, ...]:
        """What the answer's lines are about, the domain first."""
        asked = asked_for(self.rubric, self.expects)
        return (*(name for name in asked if name == "domain"), *(name for name in asked if name != "domain"))

    def _lines(self, domain_line: str = "", score_line: str = "") -> list[str]:
        """The answer's lines with {answer} still open."""
        lines, low, high = [], str(self.rubric.low), str(self.rubric.high)
        for name in self._order():
            if name == "domain":
                lines.append(domain_line or self.template.domain_line)
                continue
            row = self.rubric.columns.index(name)
            own = {"number": str(row + 1), "name": self._name(self.rubric.criteria[row]), "id": name, "low": low, "high": high}
            lines.append(fill(score_line or self.template.score_line, own))
        return lines

    def _letters(self) -> list[str]:
        return [domain.letter for domain in self.rubric.domains]

    def _name(self, criterion: Criterion) -> str:
        """The name that is shown: the language's own, else the id in words."""
        return criterion.names.get(self.template.language) or criterion.names.get("en") or criterion.id.replace("_", " ")

    def _blocks(self) -> dict[str, str]:
        rubric, language = self.rubric, self.template.language
        summary = rubric.criterion(rubric.summary) if rubric.summary else rubric.criteria[0]
        blocks = {
            "criteria": "\n\n".join(self._described(row) for row in range(len(rubric.criteria))),
            "names": "\n".join(f"[{row + 1}] {self._name(c)}" for row, c in enumerate(rubric.criteria)),
            "domains": "\n".join(f"[{d.letter}] {d.name(language)}" for d in rubric.domains),
            "low": str(rubric.low),
            "high": str(rubric.high),
            "summary": self._name(summary),
            "question": summary.question,
        }
        return {**blocks, "examples": "".join(self._shown(example) for example in self.examples)}

    def _described(self, row: int) -> str:
        criterion = self.rubric.criteria[row]
        name = f"{criterion.id}: " if self.template.reply == "json" else f"[{row + 1}] {self._name(criterion)}: "
        levels = "".join(f"\n    {level} = {meaning}" for level, meaning in sorted(criterion.anchors.items()))
        return name + criterion.question + levels

    def _shown(self, example: Example) -> str:
        slots = {"text": example.text, "mark": mark_of(example.text)}
        return fill(self.template.example, {**slots, "answer": self.answer(example.levels, example.domain, text=example.text)})

    def _check(self, example: Example) -> None:
        start = f"the example {example.text[:40]!r}"
        for column in self.rubric.columns:
            level = example.levels.get(column)
            if level is None or not self.rubric.low <= level <= self.rubric.high:
                raise BadRecipe(f"{start}: '{column}' must be {self.rubric.low} to {self.rubric.high}, got {level!r}")
        if self.rubric.domains and example.domain not in self.rubric.labels:
            raise BadRecipe(f"{start}: its domain {example.domain!r} is none of {', '.join(self.rubric.labels)}")


def mark_of(text: str) -> str:
    """Twelve hexadecimal digits of a hash of `text`: a mark that the text itself can hardly hold."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def builtin_templates() -> tuple[str, ...]:
    """Names of the templates that come with the package."""
    return FORMS.names()


def load_template(name: str | Path) -> Template:
    """The built-in template called `name`, or the one in the TOML file at that path.

    Raises NotFound if there is neither, BadRecipe if the file holds no template.
    """
    text, where, _ = FORMS.read(name)
    return parse_template(text, where=where)


def parse_template(text: str, *, where: str) -> Template:
    """The template in `text`, a TOML document; `where` is named in the errors."""
    table = parse_table(text, where)
    check_keys(table, _NAMES, where)
    check_texts(table, ("id", "language", "reply", "user"), where)
    check_version(table, where)
    if wrong := next((name for name in table if name != "version" and not isinstance(table[name], str)), None):
        raise BadRecipe(f"{where}: '{wrong}' must be text, got {table[wrong]!r}")
    return Template(**table)


def prompt_form(rubric: Rubric, template: str | Path | Template = "teacher", examples: Sequence[Example] = ()) -> PromptForm:
    """The form that asks for `rubric` by a template, its name or the path of its file."""
    return PromptForm(rubric, template if isinstance(template, Template) else load_template(template), tuple(examples))


def slots_of(rubric: Rubric, form: PromptForm) -> list[Slot]:
    """The gaps of the form's answer in order (domain first, then every criterion as far as asked), for `lm.slots.fill`.

    Their labels are letters and levels; where one begins another ("1" and "10"), each is read with the character that ends
    it. Put `form.prompt(text, marked=False)` before them. Raises BadQuery if there are fewer than two labels to choose from.
    """
    if form.rubric.fingerprint != rubric.fingerprint:
        raise BadQuery(f"the form is made for rubric '{form.rubric.id}', asked for the slots of '{rubric.id}'")
    levels = tuple(str(level) for level in range(rubric.low, rubric.high + 1))
    befores, ends = _gaps(form)
    slots, carried = [], ""
    for name, before, end in zip(form._order(), befores, ends, strict=True):
        labels = tuple(form._letters()) if name == "domain" else levels
        if len(labels) < 2:
            raise BadQuery(f"the rubric has the one domain {rubric.labels[0]}: there is nothing to choose, leave it out")
        assert before.startswith(carried)
        before, carried = before[len(carried) :], ""
        if any(one != other and other.startswith(one) for one in labels for other in labels):
            labels, carried = tuple(label + end for label in labels), end
        slots.append(Slot(before, labels))
    return slots


def _gaps(form: PromptForm) -> tuple[list[str], list[str]]:
    """The text before each gap of an answer, and the one character behind it."""
    order = form._order()
    if form.template.reply == "json":
        keys = [f'"{name}": ' + '"' * (name == "domain") for name in order]
        tails = ['"' if name == "domain" else "" for name in order]
        befores = ["{" + keys[0], *(tail + ", " + key for tail, key in zip(tails, keys[1:]))]
        return befores, [(tail or ("," if row + 1 < len(order) else "}")) for row, tail in enumerate(tails)]
    halves = [line.split("{answer}") for line in form._lines()]
    befores = [halves[0][0], *(last[1] + "\n" + mine[0] for last, mine in pairwise(halves))]
    return befores, [(half[1] + "\n")[0] for half in halves]
