"""Tables: TOML files of this room, those that come with the package and those of the user, read with one set of errors.

    FORMS = Shelf("rate/forms", "template")
    FORMS.read("teacher")           the built-in file of that name          FORMS.read("mine.toml")      the user's

What stands in a table is checked by its reader; here are the checks that all of them make. `fill` puts values into the
slots of a text, {name}, in one pass: a slot's name inside a value stays text, and any other brace is what it is.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from typecase.errors import BadRecipe, NotFound

_SLOT = re.compile(r"\{([a-z]+)\}")


class Source(NamedTuple):
    """A file's text, what to call it in errors, and the folder it lies in; None for one of the package."""

    text: str
    where: str
    folder: Path | None


@dataclass(frozen=True, slots=True)
class Shelf:
    """The TOML files in a folder of this room, `folder` seen from it; `noun` is what one of them is called."""

    folder: str
    noun: str

    def names(self) -> tuple[str, ...]:
        """Names of the files that come with the package."""
        entries = (files("typecase.lm") / self.folder).iterdir()
        return tuple(sorted(entry.name.removesuffix(".toml") for entry in entries if entry.name.endswith(".toml")))

    def read(self, name: str | Path) -> Source:
        """The built-in file called `name`, or the one at that path. Raises NotFound, BadRecipe where it is not UTF-8."""
        if isinstance(name, str) and name in self.names():
            text = (files("typecase.lm") / self.folder / f"{name}.toml").read_text("utf-8")
            return Source(text, f"{self.noun} '{name}'", None)
        path = Path(name)
        if not path.is_file():
            known = ", ".join(self.names())
            raise NotFound(f"no {self.noun} '{name}': built in are {known}; else give the path of a TOML file")
        return Source(read_utf8(path), str(path), path.parent)


def read_utf8(path: Path) -> str:
    """The text of a file. Raises BadRecipe where it is not UTF-8."""
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise BadRecipe(f"{path} is not UTF-8 at byte {error.start}; save it as UTF-8") from None


def parse_table(text: str, where: str) -> dict[str, Any]:
    """The table in `text`. Raises BadRecipe."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadRecipe(f"{where} is not TOML: {error}") from None


def read_table(path: Path) -> dict[str, Any]:
    """The table in a file that is there. Raises BadRecipe."""
    return parse_table(read_utf8(path), str(path))


def check_keys(table: Mapping[str, Any], known: Iterable[str], where: object) -> None:
    """Raises BadRecipe for a key that is none of the known."""
    names = sorted(known)
    if unknown := sorted(set(table) - set(names)):
        raise BadRecipe(f"{where}: unknown key '{unknown[0]}'; known are {', '.join(names)}")


def check_types(table: Mapping[str, Any], known: Mapping[str, type | tuple[type, ...]], where: object) -> None:
    """Raises BadRecipe for a key that is none of the known, or a value of another type than its key has. True is no number."""
    check_keys(table, known, where)
    for key, value in table.items():
        kinds = known[key]
        types = kinds if isinstance(kinds, tuple) else (kinds,)
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            names = " or ".join(kind.__name__ for kind in types)
            raise BadRecipe(f"{where}: '{key}' must be {names}, got {value!r}")


def check_texts(table: Mapping[str, Any], names: Iterable[str], where: object) -> None:
    """Raises BadRecipe for one of `names` that is no text, or blank."""
    for name in names:
        if not (isinstance(table.get(name), str) and table[name].strip()):
            raise BadRecipe(f"{where}: '{name}' must be text, got {table.get(name)!r}")


def check_version(table: Mapping[str, Any], where: object) -> int:
    """The version of a table. Raises BadRecipe where it is no whole number."""
    version = table.get("version")
    if not isinstance(version, int) or isinstance(version, bool):
        raise BadRecipe(f"{where}: 'version' must be a whole number, got {version!r}")
    return version


def fill(template: str, slots: Mapping[str, str]) -> str:
    """The template with its slots filled; unknown braces stay."""
    return _SLOT.sub(lambda match: slots.get(match[1], match[0]), template)
