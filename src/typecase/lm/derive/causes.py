"""Asking why: a request for each document of a tail, and what its reply comes to.

    Suspect + text  ->  prompt, JSON schema  ->  reply  ->  Causes, each with the passage that shows it, or a code

A passage must stand in the document letter by letter; one that differs in white space alone is taken as it stands there
(`evidence_respaced`). Any reply is read without an error: what cannot be used has a code and stays in the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from typecase.lm.derive.deriving import Cause, Suspect
from typecase.lm.protocol import LM, Answer, Failure, Form

MAX_TOKENS = 400
_SHOWN_CHARS = 3000
_MOST_CAUSES = 3
_LONGEST_CAUSE = 120
_GAP = "\n[…]\n"

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "causes": {
            "type": "array",
            "minItems": 1,
            "maxItems": _MOST_CAUSES,
            "items": {
                "type": "object",
                "properties": {
                    "cause": {"type": "string"},
                    "evidence": {"type": "string"},
                    "direction": {"enum": ["high", "low"]},
                },
                "required": ["cause", "evidence", "direction"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["causes"],
    "additionalProperties": False,
}

_PROMPT = """A language model has read many documents of one source. The document below is among those that it finds \
{ease} to predict (perplexity: {end}).
Find out why. Name up to {most} causes: properties of this text that other texts may share, each in at most eight words.
For each cause quote a short passage of the document, letter by letter, that shows it.
"direction" is "high" where the cause makes a text harder to predict, "low" where it makes it easier.
{known}Reply with JSON alone, in this form:
{{"causes": [{{"cause": "…", "evidence": "…", "direction": "{end}"}}]}}

Document:
<<<
{text}
>>>"""
_KNOWN = "Causes that were named for other documents; use the same words where one of them fits:\n{lines}\n"


def prompt_for(suspect: Suspect, text: str, known: Sequence[str] = ()) -> str:
    """The request for one document; `known` are causes named in earlier rounds."""
    return _PROMPT.format(
        ease="hardest" if suspect.end == "high" else "easiest",
        end=suspect.end,
        most=_MOST_CAUSES,
        known=_KNOWN.format(lines="\n".join(f"- {cause}" for cause in known)) if known else "",
        text=shown(text),
    )


def shown(text: str) -> str:
    """What the teacher sees of a document: all of it, or its head and tail."""
    if len(text) <= _SHOWN_CHARS:
        return text
    half = _SHOWN_CHARS // 2
    return text[:half] + _GAP + text[-half:]


def ask_causes(
    teacher: LM, suspects: Sequence[Suspect], texts: Mapping[str, str], *, known: Sequence[str] = (), number: int, seed: int
) -> Iterator[Cause]:
    """The causes that `teacher` names in round `number`, in the order of `suspects`; one or more for each."""
    form = Form("json_schema", json.dumps(SCHEMA)) if "json_schema" in teacher.can.forms else None
    prompts = [prompt_for(suspect, texts[suspect.doc_id], known) for suspect in suspects]
    replies = list(teacher.generate(prompts, max_tokens=MAX_TOKENS, seed=seed, form=form))
    for suspect, reply in zip(suspects, replies):
        yield from causes_in(reply, suspect, texts[suspect.doc_id], number)


def causes_in(reply: Answer | Failure, suspect: Suspect, text: str, number: int) -> list[Cause]:
    """What a reply says; at least one row."""
    if isinstance(reply, Failure):
        return [_nothing(suspect, number, f"failed:{reply.kind}")]
    if not reply.text.strip():
        return [_nothing(suspect, number, "empty_reply")]
    value = json_in(reply.text)
    if value is None:
        return [_nothing(suspect, number, "not_json")]
    told = value.get("causes")
    entries = told if isinstance(told, list) else [value]
    found = [_cause(entry, suspect, text, number) for entry in entries[:_MOST_CAUSES]]
    return found or [_nothing(suspect, number, "no_cause")]


def json_in(reply: str) -> dict[str, Any] | None:
    """The first JSON object in a reply, whatever stands around it; None where there is none."""
    decoder = json.JSONDecoder(strict=False)
    for match in re.finditer(r"\{", reply):
        try:
            value, _ = decoder.raw_decode(reply, match.start())
        except (json.JSONDecodeError, RecursionError):
            continue
        if isinstance(value, dict):
            return value
    return None


def find_passage(evidence: str, text: str) -> tuple[int, int, bool] | None:
    """Where `evidence` stands: (start, stop, whether letter by letter); None where it does not."""
    at = text.find(evidence)
    if at >= 0:
        return at, at + len(evidence), True
    words = evidence.split()
    match = re.search(r"\s+".join(map(re.escape, words)), text) if words else None
    return (match.start(), match.end(), False) if match else None


def _cause(entry: object, suspect: Suspect, text: str, number: int) -> Cause:
    said = entry if isinstance(entry, dict) else {}
    cause, evidence, direction = (said.get(name) for name in ("cause", "evidence", "direction"))
    if not (isinstance(cause, str) and re.search(r"\w", cause)):
        return _nothing(suspect, number, "no_cause")
    phrase = " ".join(cause.split())[:_LONGEST_CAUSE]
    quoted = evidence.strip() if isinstance(evidence, str) else ""
    place = find_passage(quoted, text) if quoted else None
    if place is None:
        code = "evidence_not_in_document"
    elif direction in ("low", "high") and direction != suspect.end:
        code = "direction_mismatch"
    elif not place[2]:
        code = "evidence_respaced"
    else:
        code = "ok" if direction == suspect.end else "direction_filled"
    start, stop = place[:2] if place else (None, None)
    passage = text[start:stop] if place else quoted or None
    return Cause(suspect.doc_id, suspect.source, suspect.end, number, phrase, passage, start, stop, code)


def _nothing(suspect: Suspect, number: int, code: str) -> Cause:
    return Cause(suspect.doc_id, suspect.source, suspect.end, number, None, None, None, None, code)
