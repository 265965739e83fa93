"""Rubric files: any rubric as a TOML file, read once and checked with clear errors.

    id = "dataman"
    version = 1
    scale = [1, 5]
    summary = "overall_score"
    names = { en = "DataMan" }

    [[criterion]]
    id = "accuracy"
    aliases = ["text_accuracy"]
    question = "Free of spelling, grammar and encoding errors?"
    names = { en = "Accuracy", zh = "准确性" }
    anchors = { 1 = "most sentences are faulty", 3 = "…", 5 = "no fault seen" }

    [[domain]]
    id = "Medicine"
    letter = "A"

A built-in rubric is a file beside this module and is called by its name; yours is called by its path.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from typecase.core.rating import Criterion, Domain, Rubric
from typecase.errors import BadRecipe, NotFound

_TOP = {"id", "version", "scale", "summary", "names", "criterion", "domain"}
_CRITERION = {"id", "aliases", "question", "names", "anchors"}
_DOMAIN = {"id", "letter", "aliases", "names"}


def builtin_rubrics() -> tuple[str, ...]:
    """Names of the rubrics that come with the package."""
    folder = files("typecase.lm") / "rubrics"
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")))


def load_rubric(name: str | Path) -> Rubric:
    """The built-in rubric called `name`, or the rubric in the TOML file at that path.

    Raises NotFound if there is neither, BadRecipe if the file does not hold a rubric: the message names the entry.
    """
    if isinstance(name, str) and name in builtin_rubrics():
        return parse_rubric((files("typecase.lm") / "rubrics" / f"{name}.toml").read_text("utf-8"), where=f"rubric '{name}'")
    path = Path(name)
    if not path.is_file():
        raise NotFound(f"no rubric '{name}': built in are {', '.join(builtin_rubrics())}; else give the path of a TOML file")
    return parse_rubric(path.read_text("utf-8"), where=str(path))


def parse_rubric(text: str, *, where: str) -> Rubric:
    """The rubric in `text`, a TOML document; `where` is named in the errors."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadRecipe(f"{where} is not TOML: {error}") from None
    _check_keys(table, _TOP, where)
    scale = table.get("scale")
    if not (isinstance(scale, list) and len(scale) == 2 and all(isinstance(level, int) for level in scale)):
        raise BadRecipe(f"{where}: 'scale' must be two whole numbers such as [1, 5], got {scale!r}")
    if scale[0] >= scale[1]:
        raise BadRecipe(f"{where}: 'scale' must rise, got {scale[0]}..{scale[1]}")
    levels = range(scale[0], scale[1] + 1)
    criteria = tuple(_criterion(entry, levels, where) for entry in _entries(table, "criterion", where))
    domains = tuple(_domain(entry, where) for entry in _entries(table, "domain", where))
    summary = table.get("summary")
    if summary is not None and not isinstance(summary, str):
        raise BadRecipe(f"{where}: 'summary' must be the id of a criterion, got {summary!r}")
    version = table.get("version")
    if not isinstance(version, int):
        raise BadRecipe(f"{where}: 'version' must be a whole number, got {version!r}")
    try:
        return Rubric(
            _text(table, "id", where), version, scale[0], scale[1], criteria, domains, summary, _texts(table, "names", where)
        )
    except ValueError as error:
        raise BadRecipe(f"{where}: {error}") from None


def _criterion(entry: Mapping[str, Any], levels: range, where: str) -> Criterion:
    where = f"{where}, criterion {entry.get('id')!r}"
    _check_keys(entry, _CRITERION, where)
    criterion_id = _text(entry, "id", where)
    if not criterion_id.isidentifier():
        raise BadRecipe(f"{where}: a criterion's id is a column name: letters, digits and _ only")
    anchors = _texts(entry, "anchors", where)
    if any(not level.isdigit() or int(level) not in levels for level in anchors):
        raise BadRecipe(f"{where}: anchors are for levels {levels.start}..{levels.stop - 1}, got {', '.join(anchors)}")
    return Criterion(
        criterion_id,
        _text(entry, "question", where),
        {int(level): text for level, text in anchors.items()},
        _strings(entry, "aliases", where),
        _texts(entry, "names", where),
    )


def _domain(entry: Mapping[str, Any], where: str) -> Domain:
    where = f"{where}, domain {entry.get('id')!r}"
    _check_keys(entry, _DOMAIN, where)
    return Domain(
        _text(entry, "id", where),
        _text(entry, "letter", where),
        _strings(entry, "aliases", where),
        _texts(entry, "names", where),
    )


def _check_keys(table: Mapping[str, Any], known: set[str], where: str) -> None:
    if unknown := sorted(set(table) - known):
        raise BadRecipe(f"{where}: unknown key '{unknown[0]}'; known are {', '.join(sorted(known))}")


def _entries(table: Mapping[str, Any], key: str, where: str) -> list[Mapping[str, Any]]:
    entries = table.get(key, [])
    if not (isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries)):
        raise BadRecipe(f"{where}: write each {key} as a table of its own: [[{key}]]")
    return entries


def _text(table: Mapping[str, Any], key: str, where: str) -> str:
    value = table.get(key)
    if not (isinstance(value, str) and value.strip()):
        raise BadRecipe(f"{where}: '{key}' must be text, got {value!r}")
    return value


def _texts(table: Mapping[str, Any], key: str, where: str) -> dict[str, str]:
    value = table.get(key, {})
    if not (isinstance(value, dict) and all(isinstance(text, str) for text in value.values())):
        raise BadRecipe(f"{where}: '{key}' must be a table of texts, got {value!r}")
    return value


def _strings(table: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if not (isinstance(value, list) and all(isinstance(text, str) for text in value)):
        raise BadRecipe(f"{where}: '{key}' must be a list of texts, got {value!r}")
    return tuple(value)
