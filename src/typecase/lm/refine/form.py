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

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from typecase.errors import BadRecipe
from typecase.lm.protocol import fingerprint_of
from typecase.lm.tables import Shelf, check_keys, check_texts, check_version, fill, parse_table

MOST_SHOTS: Final = 5
FORMS: Final = Shelf("refine/forms", "refine form")
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
        return fill(self.document, {"system": self.system, "text": text})

    def chunk_prompt(self, lines: str, noise: Noise | None = None) -> str:
        """The question about a chunk, of a teacher about one kind of noise in it."""
        slots = {"system": self.system, "lines": lines}
        if noise is not None:
            slots["task"] = noise.task.strip()
            slots["shots"] = "".join(fill(self.shot, {"lines": s.lines, "answer": s.answer}) for s in noise.shots)
        return fill(self.chunk, slots)


def builtin_refine_forms() -> tuple[str, ...]:
    """Names of the forms that come with the package."""
    return FORMS.names()


def load_refine_form(name: str | Path) -> RefineForm:
    """The built-in form `name`, or the one in the TOML file at that path. Raises NotFound or BadRecipe."""
    text, where, _ = FORMS.read(name)
    return parse_refine_form(text, where=where)


def parse_refine_form(text: str, *, where: str) -> RefineForm:
    """The form in `text`, a TOML document; `where` is named in errors."""
    table = parse_table(text, where)
    check_keys(table, _KEYS, where)
    check_texts(table, ("id", "document", "chunk"), where)
    check_version(table, where)
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
    check_keys(table, {"id", "task", "shots"}, f"{where}, [[noise]]")
    check_texts(table, ("id", "task"), f"{where}, [[noise]]")
    shots = []
    for shot in table.get("shots", ()):
        if not isinstance(shot, Mapping):
            raise BadRecipe(f"{where}: a shot is a table with lines and answer, got {shot!r}")
        check_keys(shot, {"lines", "answer"}, f"{where}, a shot of '{table['id']}'")
        check_texts(shot, ("lines", "answer"), f"{where}, a shot of '{table['id']}'")
        shots.append(Shot(shot["lines"], shot["answer"]))
    return Noise(table["id"], table["task"], tuple(shots))
