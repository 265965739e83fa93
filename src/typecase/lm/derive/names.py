"""Naming: a kept candidate becomes a criterion, asked of the teacher; criteria become a rubric file that raters read.

    Candidate  ->  prompt, JSON schema  ->  {"id", "name", "question", "anchors"}  ->  Named  ->  [[criterion]] of a TOML file

A reply that cannot be used is replaced by plain words made from the candidate's middle phrase; `by` says so. Where the criteria
come from (documents, support, sources) stands in the TOML file as comments and beside it as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from typecase.errors import CorruptStore
from typecase.lm.derive.causes import json_in
from typecase.lm.derive.deriving import Candidate
from typecase.lm.protocol import LM, Answer, Failure, Form

MAX_TOKENS = 400
LEVELS = range(1, 6)
_SHOWN_PHRASES = 12
_SHOWN_DOCUMENTS = 4
_TAKEN = ("doc_id", "domain", "domain_confidence", "confidence", "status", "rated_bytes", "text", "source")

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "name": {"type": "string"},
        "question": {"type": "string"},
        "anchors": {
            "type": "object",
            "properties": {str(level): {"type": "string"} for level in LEVELS},
            "required": ["1", "3", "5"],
            "additionalProperties": False,
        },
    },
    "required": ["id", "name", "question", "anchors"],
    "additionalProperties": False,
}

_PROMPT = """Documents that a language model finds oddly hard or easy to predict were looked at, and these causes were named \
for the same oddity ({low} easy documents, {high} hard ones):
{phrases}

Make one criterion out of them on which any text can be rated from 1 to 5, where 5 is good for training a language model.
Reply with JSON alone, in this form:
{{"id": "short_name_in_lower_case", "name": "Short Name", "question": "One question about a text?", \
"anchors": {{"1": "what the worst text is like", "3": "the middle", "5": "the best"}}}}"""


@dataclass(frozen=True, slots=True)
class Named:
    """A criterion and the candidate behind it. `by` is `teacher`, or `rule:` and why the teacher's words were not taken."""

    cluster: str
    id: str
    name: str
    question: str
    anchors: Mapping[str, str]
    by: str


def ask_names(teacher: LM, found: Sequence[Candidate], *, seed: int) -> list[Named]:
    """A criterion for each candidate, in order; ids are different."""
    form = Form("json_schema", json.dumps(SCHEMA)) if "json_schema" in teacher.can.forms else None
    prompts = [prompt_for(one) for one in found]
    replies = list(teacher.generate(prompts, max_tokens=MAX_TOKENS, seed=seed, form=form)) if prompts else []
    taken = set(_TAKEN)
    return [_distinct(named_in(reply, one), taken) for one, reply in zip(found, replies)]


def prompt_for(one: Candidate) -> str:
    """The request for one candidate."""
    phrases = "\n".join(f"- {phrase}" for phrase in one.phrases[:_SHOWN_PHRASES])
    return _PROMPT.format(low=one.support.get("low", 0), high=one.support.get("high", 0), phrases=phrases)


def named_in(reply: Answer | Failure, one: Candidate) -> Named:
    """What a reply makes of a candidate, or plain words where it makes nothing."""
    if isinstance(reply, Failure):
        return by_rule(one, f"failed:{reply.kind}")
    value = json_in(reply.text)
    if value is None:
        return by_rule(one, "not_json")
    question, anchors = value.get("question"), value.get("anchors")
    if not (isinstance(question, str) and question.strip()):
        return by_rule(one, "no_question")
    told = anchors.items() if isinstance(anchors, dict) else ()
    levels = {str(k): _line(v) for k, v in told if str(k) in map(str, LEVELS) and isinstance(v, str) and v.strip()}
    if not {"1", "5"} <= set(levels):
        return by_rule(one, "no_anchors")
    name = value.get("name") if isinstance(value.get("name"), str) else ""
    own_id = value.get("id") if isinstance(value.get("id"), str) else ""
    chosen = slug(str(own_id)) or slug(str(name)) or slug(one.centre) or one.id
    return Named(one.id, chosen, _line(str(name)) or chosen, _line(question), dict(sorted(levels.items())), "teacher")


def by_rule(one: Candidate, why: str) -> Named:
    """A criterion in plain words: freedom from the cause."""
    cause = _line(one.centre)
    anchors = {"1": f"it rules the text: {cause}", "3": f"some of it: {cause}", "5": f"no trace of it: {cause}"}
    return Named(one.id, slug(cause) or one.id, cause, f"How free is the text of this: {cause}?", anchors, f"rule:{why}")


def slug(text: str) -> str:
    """A column name: lower-case ASCII words joined by _, at most 40 characters, "" where nothing is left."""
    words = re.findall(r"[a-z0-9]+", text.casefold())
    joined = "_".join(words)[:40].strip("_")
    return f"c_{joined}" if joined[:1].isdigit() else joined


def named_of(row: Mapping[str, Any], where: str) -> Named:
    """The criterion of a row; CorruptStore names the place."""
    try:
        return Named(**row)
    except TypeError as error:
        fields = ", ".join(Named.__dataclass_fields__)
        raise CorruptStore(f"{where} is no criterion ({error}); its fields are {fields}") from None


def as_row(named: Named) -> dict[str, Any]:
    """As JSON has it."""
    return asdict(named)


def rubric_toml(
    named: Sequence[Named], found: Mapping[str, Candidate], *, rubric_id: str, version: int, log: Mapping[str, object]
) -> str:
    """The rubric file; equal arguments give equal bytes. `log` is told in comments at its head."""
    lines = ["# Derived from documents of odd perplexity; provenance.json beside this file names them all."]
    lines += [f"# {key}: {_line(str(value))}" for key, value in log.items()]
    name = rubric_id.replace("_", " ").replace("-", " ").title()
    lines += ["", f"id = {_quoted(rubric_id)}", f"version = {version}", f"scale = [{LEVELS[0]}, {LEVELS[-1]}]"]
    lines += [f"names = {{ en = {_quoted(name)} }}"]
    taken = {_bare(one.id) for one in named}
    for one in named:
        lines += ["", "[[criterion]]", *_origin(found.get(one.cluster)), f"id = {_quoted(one.id)}"]
        lines += [f"question = {_quoted(one.question)}"]
        # A rubric takes no name that is empty or stands for another criterion; the id serves as the name then.
        if (bare := _bare(one.name)) and (bare == _bare(one.id) or bare not in taken):
            lines += [f"names = {{ en = {_quoted(one.name)} }}"]
            taken.add(bare)
        anchors = ", ".join(f"{level} = {_quoted(text)}" for level, text in sorted(one.anchors.items()))
        lines += [f"anchors = {{ {anchors} }}"]
    return "\n".join(lines) + "\n"


def _origin(one: Candidate | None) -> list[str]:
    if one is None:
        return ["# written by hand"]
    ends = ", ".join(f"{end} {number}" for end, number in one.support.items())
    sources = ", ".join(f"{_line(source)} {number}" for source, number in one.sources.items())
    some = " ".join(one.documents[:_SHOWN_DOCUMENTS])
    return [f"# {one.id}: {len(one.documents)} documents ({ends}); sources: {sources}", f"# such as {some}"]


def _distinct(named: Named, taken: set[str]) -> Named:
    chosen, number = named.id, 2
    while chosen in taken:
        chosen, number = f"{named.id}_{number}", number + 1
    taken.add(chosen)
    return Named(named.cluster, chosen, named.name, named.question, named.anchors, named.by)


def _quoted(text: str) -> str:
    """A basic string of TOML: JSON's escapes are a part of TOML's, which also wants U+007F escaped."""
    plain = text.encode("utf-8", "replace").decode()
    return json.dumps(plain, ensure_ascii=False).replace("\x7f", "\\u007f")


def _bare(name: str) -> str:
    return " ".join(name.replace("_", " ").replace("-", " ").casefold().split())


def _line(text: str) -> str:
    """On one line; TOML takes no control characters in a comment."""
    return " ".join("".join(" " if ord(c) < 32 or ord(c) == 127 else c for c in text).split())
