"""Rubric files: any rubric as a TOML file, read once and checked with clear errors.

    id = "dataman"
    version = 1
    scale = [1, 5]
    summary = "overall_score"
    language = "en"                       the language of questions and anchors; "en" when not given
    domains = "subjects.toml"             a file of [[domain]] tables beside this one; or [[domain]] tables here
    names = { en = "DataMan" }

    [[criterion]]
    id = "accuracy"
    aliases = ["text_accuracy"]
    question = "Free of spelling, grammar and encoding errors?"
    names = { en = "Accuracy", zh = "准确性" }
    anchors = { 1 = "most sentences are faulty", 3 = "…", 5 = "no fault seen" }
    [criterion.wording.zh]
    question = "…"
    anchors = { 1 = "…", 3 = "…", 5 = "…" }

    [[domain]]
    id = "Medicine"
    letter = "A"

A built-in rubric is a file beside this module and is called by its name; yours is called by its path. One file holds all
languages: ids, levels and aliases are the same in each, so ratings in one language stand in the same columns as in another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typecase.core.rating import Criterion, Domain, Rubric
from typecase.errors import BadRecipe, NotFound
from typecase.lm.tables import Shelf, check_keys, check_version, parse_table, read_table

_TOP = {"id", "version", "scale", "summary", "names", "language", "criterion", "domain", "domains"}
_CRITERION = {"id", "aliases", "question", "names", "anchors", "wording"}
_WORDING = {"question", "anchors"}
_DOMAIN = {"id", "letter", "aliases", "names"}
_SCHEME = {"id", "version", "names", "domain"}
RUBRICS = Shelf("rate/rubrics", "rubric")
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")


def builtin_rubrics() -> tuple[str, ...]:
    """Names of the rubrics that come with the package."""
    return RUBRICS.names()


def load_rubric(name: str | Path, language: str | None = None) -> Rubric:
    """The built-in rubric called `name`, or the rubric in the TOML file at that path, worded in `language`.

    Without a language it is worded in the file's own. Raises NotFound if there is neither, or it has no wording in that
    language; BadRecipe if the file does not hold a rubric: the message names the entry.
    """
    text, where, folder = RUBRICS.read(name)
    return parse_rubric(text, where=where, language=language, folder=folder)


def rubric_languages(name: str | Path) -> tuple[str, ...]:
    """The languages that every criterion of a rubric is worded in, the file's own first."""
    text, where, _ = RUBRICS.read(name)
    table = parse_table(text, where)
    return _languages(table, _entries(table, "criterion", where), where)


def parse_rubric(text: str, *, where: str, language: str | None = None, folder: Path | None = None) -> Rubric:
    """The rubric in `text`, a TOML document; errors name `where`, and a file of domains is sought in `folder`."""
    table = parse_table(text, where)
    check_keys(table, _TOP, where)
    low, high = _scale(table, where)
    entries = _entries(table, "criterion", where)
    spoken = _languages(table, entries, where)
    language = language or spoken[0]
    if language not in spoken:
        raise NotFound(f"{where} has no wording in '{language}': every criterion has {', '.join(spoken)}")
    criteria = tuple(_criterion(entry, range(low, high + 1), where, language, spoken[0]) for entry in entries)
    summary = table.get("summary")
    if summary is not None and not isinstance(summary, str):
        raise BadRecipe(f"{where}: 'summary' must be the id of a criterion, got {summary!r}")
    names = _texts(table, "names", where)
    identity = (_text(table, "id", where), check_version(table, where))
    try:
        return Rubric(*identity, low, high, criteria, _domains(table, where, folder), summary, names, language)
    except ValueError as error:
        raise BadRecipe(f"{where}: {error}") from None


def rubric_text(rubric: Rubric) -> str:
    """A rubric as a TOML document in its own language: `parse_rubric` reads it back equal."""
    lines = [f"id = {_quoted(rubric.id)}", f"version = {rubric.version}", f"scale = [{rubric.low}, {rubric.high}]"]
    lines += [f"summary = {_quoted(rubric.summary)}"] if rubric.summary is not None else []
    lines += [f"language = {_quoted(rubric.language)}", *_names_line(rubric.names)]
    for criterion in rubric.criteria:
        lines += ["", "[[criterion]]", f"id = {_quoted(criterion.id)}", *_aliases_line(criterion.aliases)]
        lines += [f"question = {_quoted(criterion.question)}", *_names_line(criterion.names)]
        if criterion.anchors:
            lines += ["[criterion.anchors]", *(f"{level} = {_quoted(said)}" for level, said in criterion.anchors.items())]
    for domain in rubric.domains:
        lines += ["", "[[domain]]", f"id = {_quoted(domain.id)}", f"letter = {_quoted(domain.letter)}"]
        lines += [*_aliases_line(domain.aliases), *_names_line(domain.names)]
    return "\n".join(lines) + "\n"


def _scale(table: Mapping[str, Any], where: str) -> tuple[int, int]:
    scale = table.get("scale")
    if not (isinstance(scale, list) and len(scale) == 2 and all(isinstance(level, int) for level in scale)):
        raise BadRecipe(f"{where}: 'scale' must be two whole numbers such as [1, 5], got {scale!r}")
    if scale[0] >= scale[1]:
        raise BadRecipe(f"{where}: 'scale' must rise, got {scale[0]}..{scale[1]}")
    return scale[0], scale[1]


def _languages(table: Mapping[str, Any], entries: list[Mapping[str, Any]], where: str) -> tuple[str, ...]:
    """The file's own language, then those in which every criterion is worded too."""
    own = table.get("language", "en")
    if not (isinstance(own, str) and _LANGUAGE.fullmatch(own)):
        raise BadRecipe(f"{where}: 'language' must be a code such as \"en\", got {own!r}")
    worded = [set(_wordings(entry, own, f"{where}, criterion {entry.get('id')!r}")) for entry in entries]
    return own, *sorted(set.intersection(*worded) if worded else set())


def _wordings(entry: Mapping[str, Any], own: str, where: str) -> Mapping[str, Any]:
    wordings = entry.get("wording", {})
    if not (isinstance(wordings, dict) and all(isinstance(wording, dict) for wording in wordings.values())):
        raise BadRecipe(f"{where}: write wording in another language as a table: [criterion.wording.zh]")
    if wrong := [name for name in wordings if not _LANGUAGE.fullmatch(name)]:
        raise BadRecipe(f"{where}: wording is by the code of a language such as zh, got '{wrong[0]}'")
    if own in wordings:
        raise BadRecipe(f"{where}: '{own}' is the language of the file: its question and anchors stand in the criterion itself")
    return wordings


def _criterion(entry: Mapping[str, Any], levels: range, where: str, language: str, own: str) -> Criterion:
    where = f"{where}, criterion {entry.get('id')!r}"
    check_keys(entry, _CRITERION, where)
    criterion_id = _text(entry, "id", where)
    if not criterion_id.isidentifier():
        raise BadRecipe(f"{where}: a criterion's id is a column name: letters, digits and _ only")
    said = {own: (_text(entry, "question", where), _anchors(entry, levels, where))}
    for name, wording in _wordings(entry, own, where).items():
        place = f"{where}, wording '{name}'"
        check_keys(wording, _WORDING, place)
        said[name] = (_text(wording, "question", place), _anchors(wording, levels, place))
        if set(said[name][1]) != set(said[own][1]):
            raise BadRecipe(f"{place}: anchors must be for the same levels as in '{own}'")
    question, anchors = said[language]
    return Criterion(criterion_id, question, anchors, _strings(entry, "aliases", where), _texts(entry, "names", where))


def _anchors(entry: Mapping[str, Any], levels: range, where: str) -> dict[int, str]:
    anchors = _texts(entry, "anchors", where)
    known = {str(level): level for level in levels}
    if any(level not in known for level in anchors):
        raise BadRecipe(f"{where}: anchors are for levels {levels.start}..{levels.stop - 1}, got {', '.join(anchors)}")
    return {known[level]: text for level, text in anchors.items()}


def _domains(table: Mapping[str, Any], where: str, folder: Path | None) -> tuple[Domain, ...]:
    """The domains written in the rubric itself, or those of the file that it names."""
    named = table.get("domains")
    if named is None:
        return tuple(_domain(entry, where) for entry in _entries(table, "domain", where))
    if not isinstance(named, str):
        raise BadRecipe(f"{where}: 'domains' must be the name of a file of [[domain]] tables, got {named!r}")
    if "domain" in table:
        raise BadRecipe(f"{where}: give either domains = {_quoted(named)} or [[domain]] tables, not both")
    path = (folder or Path()) / named
    if folder is None or not path.is_file():
        raise NotFound(f"{where}: no file of domains at {path}; its place is given from the folder of the rubric's file")
    scheme = read_table(path)
    check_keys(scheme, _SCHEME, str(path))
    return tuple(_domain(entry, str(path)) for entry in _entries(scheme, "domain", str(path)))


def _domain(entry: Mapping[str, Any], where: str) -> Domain:
    where = f"{where}, domain {entry.get('id')!r}"
    check_keys(entry, _DOMAIN, where)
    return Domain(
        _text(entry, "id", where),
        _text(entry, "letter", where),
        _strings(entry, "aliases", where),
        _texts(entry, "names", where),
    )


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


_ESCAPES = {ord('"'): '\\"', ord("\\"): "\\\\", **{code: f"\\u{code:04x}" for code in (*range(32), 127)}}


def _quoted(text: str) -> str:
    return '"' + text.translate(_ESCAPES) + '"'


def _names_line(names: Mapping[str, str]) -> list[str]:
    pairs = ", ".join(f"{_quoted(language)} = {_quoted(name)}" for language, name in names.items())
    return [f"names = {{ {pairs} }}"] if names else []


def _aliases_line(aliases: tuple[str, ...]) -> list[str]:
    return [f"aliases = [{', '.join(map(_quoted, aliases))}]"] if aliases else []
