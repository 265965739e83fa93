"""Refine forms: how a refiner is asked, as data. A TOML file holds the words; here they are read, checked and filled.

    id, version, system        the turn before the user's
    document = "… {text} …"    the question about a whole document
    chunk = "… {lines} …"      the question about a chunk; {lines} are its rows, `[007]` before each
    shot = "… {lines} {answer} …"
    [[noise]]                  of a teacher: id, task, shots = [{ lines, answer }, …], at most five

`{system}` may stand in both questions, `{task}` and `{shots}` in `chunk`. Braces that name nothing stay. Text of a document
is filled in last and once: whatever it spells out stays text.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from typecase.errors import BadRecipe, NotFound
from typecase.lm.protocol import fingerprint_of

MOST_SHOTS: Final = 5
_SLOT: Final = re.compile(r"\{([a-z]+)\}")
_KEYS: Final = {"id", "version", "system", "document", "chunk", "shot", "noise"}


@dataclass(frozen=True, slots=True)
class Shot:
    """A chunk and the program that it deserves."""

    lines: str
    answer: str


@dataclass(frozen=True, slots=True)
class Noise:
    """One kind of noise that a teacher is asked for by itself."""

    id: str
    task: str
    shots: tuple[Shot, ...] = ()


@dataclass(frozen=True, slots=True)
class RefineForm:
    """A form, checked; see the module."""

    id: str
    version: int
    document: str
    chunk: str
    system: str = ""
    shot: str = ""
    noise: tuple[Noise, ...] = ()

    def __post_init__(self) -> None:
        for name, slot in (("document", "{text}"), ("chunk", "{lines}")):
            if slot not in getattr(self, name):
                raise BadRecipe(f"form '{self.id}': '{name}' has no {slot}, so nothing would be shown")
        for noise in self.noise:
            if len(noise.shots) > MOST_SHOTS:
                raise BadRecipe(f"form '{self.id}': noise '{noise.id}' has {len(noise.shots)} shots, {MOST_SHOTS} are the most")
            if noise.shots and ("{lines}" not in self.shot or "{answer}" not in self.shot):
                raise BadRecipe(f"form '{self.id}' has shots, so 'shot' needs {{lines}} and {{answer}}")

    @property
    def fingerprint(self) -> str:
        """32 hexadecimal digits over all its words."""
        return fingerprint_of("refine-form", 1, asdict(self))

    def document_prompt(self, text: str) -> str:
        """The question about a document."""
        return _fill(self.document, {"system": self.system, "text": text})

    def chunk_prompt(self, lines: str, noise: Noise | None = None) -> str:
        """The question about a chunk, of a teacher about one kind of noise in it."""
        slots = {"system": self.system, "lines": lines}
        if noise is not None:
            slots["task"] = noise.task.strip()
            slots["shots"] = "".join(_fill(self.shot, {"lines": s.lines, "answer": s.answer}) for s in noise.shots)
        return _fill(self.chunk, slots)


def builtin_refine_forms() -> tuple[str, ...]:
    """Names of the forms that come with the package."""
    folder = files("typecase.lm") / "refine_forms"
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")))


def load_refine_form(name: str | Path) -> RefineForm:
    """The built-in form `name`, or the one in the TOML file at that path. Raises NotFound or BadRecipe."""
    if isinstance(name, str) and name in builtin_refine_forms():
        text = (files("typecase.lm") / "refine_forms" / f"{name}.toml").read_text("utf-8")
        return parse_refine_form(text, where=f"form '{name}'")
    path = Path(name)
    if not path.is_file():
        raise NotFound(
            f"no refine form '{name}': built in are {', '.join(builtin_refine_forms())}; else give the path of a TOML file"
        )
    return parse_refine_form(path.read_text("utf-8"), where=str(path))


def parse_refine_form(text: str, *, where: str) -> RefineForm:
    """The form in `text`, a TOML document; `where` is named in errors."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadRecipe(f"{where} is not TOML: {error}") from None
    _known(table, _KEYS, where)
    _texts(table, ("id", "document", "chunk"), where)
    if not isinstance(table.get("version"), int) or isinstance(table["version"], bool):
        raise BadRecipe(f"{where}: 'version' must be a whole number, got {table.get('version')!r}")
    for name in ("system", "shot"):
        if not isinstance(table.get(name, ""), str):
            raise BadRecipe(f"{where}: '{name}' must be text, got {table[name]!r}")
    noise = tuple(_noise(own, where) for own in table.get("noise", ()))
    words = {key: table[key].removeprefix("\n") for key in ("document", "chunk", "shot") if key in table}
    system = str(table.get("system", "")).strip()
    return RefineForm(table["id"], table["version"], words["document"], words["chunk"], system, words.get("shot", ""), noise)


def _noise(table: Any, where: str) -> Noise:
    if not isinstance(table, Mapping):
        raise BadRecipe(f"{where}: [[noise]] is a table, got {table!r}")
    _known(table, {"id", "task", "shots"}, f"{where}, [[noise]]")
    _texts(table, ("id", "task"), f"{where}, [[noise]]")
    shots = []
    for shot in table.get("shots", ()):
        if not isinstance(shot, Mapping):
            raise BadRecipe(f"{where}: a shot is a table with lines and answer, got {shot!r}")
        _known(shot, {"lines", "answer"}, f"{where}, a shot of '{table['id']}'")
        _texts(shot, ("lines", "answer"), f"{where}, a shot of '{table['id']}'")
        shots.append(Shot(shot["lines"], shot["answer"]))
    return Noise(table["id"], table["task"], tuple(shots))


def _known(table: Mapping[str, Any], keys: set[str], where: str) -> None:
    if unknown := sorted(set(table) - keys):
        raise BadRecipe(f"{where}: unknown key '{unknown[0]}'; known are {', '.join(sorted(keys))}")


def _texts(table: Mapping[str, Any], names: tuple[str, ...], where: str) -> None:
    for name in names:
        if not (isinstance(table.get(name), str) and table[name].strip()):
            raise BadRecipe(f"{where}: '{name}' must be text, got {table.get(name)!r}")


def _fill(template: str, slots: Mapping[str, str]) -> str:
    """The template with its slots filled in one pass."""
    return _SLOT.sub(lambda match: slots.get(match[1], match[0]), template)
