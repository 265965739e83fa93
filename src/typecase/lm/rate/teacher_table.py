"""A teacher out of a table: rater.toml with kind = "teacher".

    kind = "teacher"
    rubric = "dataman"                  built in, or a file beside this one
    template = "teacher"                built in (see prompts.py), or a file beside this one
    examples = "examples.jsonl"         {"text": …, "domain": …, "accuracy": 4, …} a line, shown before every document
    rounds = 3
    temperatures = [0.0, 0.3, 0.7]
    view = "head_tail"                  or "whole"; for windows add a table [windows]
    log = "attempts.jsonl"              every attempt, a line each, appended
    [model]
    url = "http://localhost:8000/v1"
    model = "qwen3-32b"
    cache = "answers.db"

Paths are relative to the table's file. A chat model gets the form's system turn, unless the table has a `system` of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import orjson

from typecase.core.rating import Rubric
from typecase.errors import BadQuery, BadRecipe, NotFound
from typecase.lm.models import kind_of, open_lm, table_of
from typecase.lm.rate.prompts import Example, PromptForm, Template, builtin_templates, load_template, prompt_form
from typecase.lm.rate.rubric import builtin_rubrics, load_rubric
from typecase.lm.rate.teacher import Teacher
from typecase.lm.rate.teacher_terms import Attempt, Settings
from typecase.lm.tables import check_types

_ASKED = {field.name for field in fields(Settings)} - {"system_apart"}
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("kind", "name", "version", "rubric", "language", "template", "examples", "log", "view", "rounding"), str),
    **dict.fromkeys(("rounds", "seed", "max_tokens", "top_logprobs", "head_tail_chars", "head_tail_tokens"), int),
    "temperatures": list,
    "least_mass": (int, float),
    "model": (str, Mapping, Path),
}


def teacher_of(table: Mapping[str, Any], where: Path) -> Teacher:
    """The teacher in `table`; `where` is its file or folder.

    Raises BadRecipe for a table that cannot be meant, NotFound for a rubric, template or file that is not there.
    """
    folder = where if where.is_dir() else where.parent
    _check(table, where)
    if "model" not in table:
        raise BadRecipe(f"{where}: a teacher needs a [model]: url and model of a server, or a path")
    rubric = _rubric(table, folder)
    template = _template(table.get("template", "teacher"), folder)
    examples = load_examples(folder / table["examples"], rubric) if "examples" in table else ()
    form = prompt_form(rubric, template, examples)
    model, apart = _with_system(table_of(table["model"]), form)
    asked = {name: table[name] for name in _ASKED & set(table)}
    if "temperatures" in asked:
        asked["temperatures"] = tuple(asked["temperatures"])
    try:
        settings = Settings(**asked, system_apart=apart)
    except BadQuery as error:
        raise BadRecipe(f"{where}: {error}") from None
    log = attempt_log(folder / table["log"]) if "log" in table else None
    lm = open_lm(model, where=folder)
    return Teacher(lm, form, settings, name=table.get("name"), version=table.get("version"), log=log)


def load_examples(path: Path, rubric: Rubric) -> tuple[Example, ...]:
    """The examples in a JSON-lines file: `text`, `domain` if the rubric has any, and a whole number for every criterion."""
    if not path.is_file():
        raise NotFound(f"no examples at {path}")
    examples = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise BadRecipe(f"{path}, line {number}: not JSON: {error}") from None
        if not isinstance(row, dict) or not isinstance(row.get("text"), str):
            raise BadRecipe(f"{path}, line {number}: an example is an object with 'text', got {line[:60]!r}")
        levels = {name: row[name] for name in rubric.columns if name in row}
        if wrong := [name for name, level in levels.items() if not isinstance(level, int) or isinstance(level, bool)]:
            raise BadRecipe(f"{path}, line {number}: '{wrong[0]}' must be a whole number, got {levels[wrong[0]]!r}")
        domain = rubric.domain(row["domain"]).id if isinstance(row.get("domain"), str) and rubric.domains else None
        examples.append(Example(row["text"], levels, domain))
    return tuple(examples)


def attempt_log(path: Path) -> Callable[[Attempt], None]:
    """A log that appends a JSON line for each attempt, whole lines also if several processes write."""
    path.parent.mkdir(parents=True, exist_ok=True)

    def write(attempt: Attempt) -> None:
        line = orjson.dumps(_sendable(asdict(attempt)), option=orjson.OPT_APPEND_NEWLINE)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(handle, line)
        finally:
            os.close(handle)

    return write


def _sendable(fields: dict[str, Any]) -> dict[str, Any]:
    """Without lone surrogates, which JSON cannot hold."""
    return {k: v.encode("utf-8", "replace").decode() if isinstance(v, str) else v for k, v in fields.items()}


def _with_system(model: dict[str, Any], form: PromptForm) -> tuple[dict[str, Any], bool]:
    """The model's table with the form's system turn, and whether the model takes it apart from the prompt."""
    kind = kind_of(model)
    chat = model.get("api", "chat") == "chat" if kind == "remote" else bool(model.get("chat"))
    if not chat:
        return model, False
    return {"system": form.system, **model}, True


def _rubric(table: Mapping[str, Any], folder: Path) -> Rubric:
    name = table.get("rubric", "dataman")
    beside = folder / name
    known = name if name in builtin_rubrics() or not beside.is_file() else beside
    return load_rubric(known, table["language"]) if "language" in table else load_rubric(known)


def _template(name: str, folder: Path) -> Template:
    beside = folder / name
    return load_template(name if name in builtin_templates() or not beside.is_file() else beside)


def _check(table: Mapping[str, Any], where: Path) -> None:
    check_types(table, _TYPES, where)
    if any(isinstance(t, bool) or not isinstance(t, int | float) for t in table.get("temperatures", [])):
        raise BadRecipe(f"{where}: 'temperatures' is a list of numbers, got {table['temperatures']!r}")
