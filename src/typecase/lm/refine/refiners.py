"""Refiners: any refiner by its name, its weights, or a refiner.toml.

    open_refiner("rules")                 the rules of the base install
    open_refiner("tagger")                the line tagger that ships with the package
    open_refiner("my-refiner")            a folder: refiner.toml, or the tagger's weights
    open_refiner("mine.toml")

    kind = "lm"                           lm, teacher, tagger or rules: whose table this is
    form = "student"                      student, prox, teacher, or a TOML file beside this one
    stages = ["document", "chunk"]        lm: which are done, default chunk alone; a prox refiner does those that have a model
    mode = "strict"                       lm: or prox, for the published checkpoints
    constrained = true                    lm
    budget = 1500                         and the other names of LMSettings or TeacherSettings
    [model]                               see models.py; the model of chunks, or of all
    path = "model"
    [document_model]                      lm: another model for the document stage

    kind = "tagger"                       kind = "rules"
    path = "weights"                      rules = ["encoding", "furniture"]

Libraries are loaded by the kind that needs them. Paths in a file are relative to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Final

from typecase.core.program.language import Program, Statement, bind
from typecase.core.program.proposal import Proposal
from typecase.core.rules.groups import DEFAULT, GROUPS, Rules
from typecase.core.words import UNICODE
from typecase.errors import BadProgram, BadRecipe, NotFound
from typecase.lm.protocol import LM, fingerprint_of
from typecase.lm.refine.form import RefineForm, builtin_refine_forms, load_refine_form
from typecase.lm.refine.refiner import Refiner
from typecase.lm.tables import check_types, read_table

FILE: Final = "refiner.toml"
KINDS: Final = ("lm", "teacher", "tagger", "rules")
STAGES: Final = ("document", "chunk")
_TAGGER_WEIGHTS: Final = "tagger.npz"
_COMMON: Final[Mapping[str, type]] = {"kind": str, "name": str, "version": str}
_LM: Final[Mapping[str, type]] = {**_COMMON, "form": str, "stages": list, "model": dict, "document_model": dict}
_TEACHER: Final[Mapping[str, type]] = {**_COMMON, "form": str, "score_form": str, "model": dict}
_SET_APART: Final = ("policy",)


@dataclass(frozen=True, slots=True)
class RulesRefiner:
    """The rules of the base install as a refiner. Lines that are frequent in a corpus are the refine stage's to count."""

    rules: Rules = field(default_factory=Rules)
    name: str = "rules"
    version: str = "1"
    batch_docs: ClassVar[None] = None
    """Quick: nothing need be kept of a part that was broken off."""

    @property
    def fingerprint(self) -> str:
        """Of the groups and the versions of their rules."""
        versions = {rule.id: rule.version for group in self.rules.names for rule in GROUPS[group]}
        return fingerprint_of("rules-refiner", 1, list(self.rules.names), versions, UNICODE)

    def propose(self, texts: Sequence[str]) -> list[Proposal]:
        """By the rules, text by text."""
        found = []
        for text in texts:
            program = self.rules.propose(text).program
            decision: Statement | None = next((s for s in program.statements if s.name in ("keep_doc", "drop_doc")), None)
            edits = Program(tuple(s for s in program.statements if s is not decision))
            found.append(Proposal(bind(edits, text), decision))
        return found


def open_refiner(spec: str | Path) -> Refiner:
    """The refiner that `spec` names.

    Raises NotFound if there is none, BadRecipe if its table cannot be meant, NeedsExtra if a library is missing.
    """
    if str(spec) == "rules":
        return RulesRefiner()
    if str(spec) == "tagger":
        return _tagger(None)
    path = Path(spec)
    file = path / FILE if path.is_dir() else path
    if file.suffix == ".toml" and file.is_file():
        return open_table(read_table(file), file)
    if (path / _TAGGER_WEIGHTS).is_file() or (path.is_file() and path.suffix == ".npz"):
        return _tagger(path)
    raise NotFound(f"no refiner '{spec}': give rules, tagger, a folder with {FILE} or {_TAGGER_WEIGHTS}, or a .toml file")


def open_table(table: Mapping[str, Any], where: Path) -> Refiner:
    """The refiner that a table describes; relative paths are taken from `where`, a folder or the file that holds the table."""
    kind = table.get("kind")
    folder = where if where.is_dir() else where.parent
    if kind == "lm":
        return _lm(table, where, folder)
    if kind == "teacher":
        return _teacher(table, where, folder)
    if kind == "tagger":
        check_types(table, {"kind": str, "path": str}, where)
        return _tagger(folder / table["path"] if "path" in table else None)
    if kind == "rules":
        check_types(table, {"kind": str, "name": str, "rules": list}, where)
        try:
            return RulesRefiner(Rules(tuple(table.get("rules", DEFAULT))), table.get("name", "rules"))
        except BadProgram as error:
            raise BadRecipe(f"{where}: {error}") from None
    raise BadRecipe(f"{where}: kind is one of {', '.join(KINDS)}, got {kind!r}")


def _tagger(path: Path | None) -> Refiner:
    from typecase.lm.tagger.tagger import load_tagger

    return load_tagger(path)


def _lm(table: Mapping[str, Any], where: Path, folder: Path) -> Refiner:
    from typecase.lm.refine.refiner_lm import LMRefiner, LMSettings

    options = _options(LMSettings)
    check_types(table, {**_LM, **options}, where)
    prox = table.get("mode") == "prox"
    form = _form(table.get("form", "prox" if prox else "student"), folder)
    settings = LMSettings(**_given(table, options))
    named = {key: table[key] for key in ("name", "version") if key in table}
    if prox:
        if "model" not in table and "document_model" not in table:
            raise BadRecipe(f"{where}: a prox refiner needs a [model] for chunks, a [document_model], or both")
        chunk = _model({"chat": True, **table["model"]}, form, folder) if "model" in table else None
        document = _model(table["document_model"], form, folder) if "document_model" in table else None
        return LMRefiner(chunk, form, document=document, settings=settings, **named)
    if "model" not in table:
        raise BadRecipe(f"{where}: a refiner of kind lm needs a [model]: path")
    stages = table.get("stages", ["chunk"] if "document_model" not in table else list(STAGES))
    if not stages or set(stages) - set(STAGES):
        raise BadRecipe(f"{where}: stages are some of {', '.join(STAGES)}, got {stages!r}")
    own = _model(table["model"], form, folder)
    other = _model(table["document_model"], form, folder) if "document_model" in table else own
    return LMRefiner(
        own if "chunk" in stages else None, form, document=other if "document" in stages else None, settings=settings, **named
    )


def _teacher(table: Mapping[str, Any], where: Path, folder: Path) -> Refiner:
    from typecase.lm.models import open_lm
    from typecase.lm.refine.refiner_teacher import TeacherRefiner, TeacherSettings

    options = _options(TeacherSettings)
    check_types(table, {**_TEACHER, **options}, where)
    if "model" not in table:
        raise BadRecipe(f"{where}: a teacher needs a [model]: url and model, or path")
    named = {key: table[key] for key in ("name", "version", "score_form") if key in table}
    form = _form(table.get("form", "teacher"), folder)
    lm = open_lm(_placed(table["model"], folder))
    return TeacherRefiner(lm, form, settings=TeacherSettings(**_given(table, options)), **named)


def _model(table: Mapping[str, Any], form: RefineForm, folder: Path) -> LM:
    from typecase.lm.models import open_lm

    own = _placed(table, folder)
    if own.get("chat") is True and form.system and "system" not in own:
        own["system"] = form.system
    return open_lm(own)


def _placed(table: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The table with paths that hold from anywhere."""
    own = dict(table)
    if isinstance(own.get("path"), str) and (folder / own["path"]).exists():
        own["path"] = str((folder / own["path"]).absolute())
    if isinstance(own.get("cache"), str):
        own["cache"] = str((folder / own["cache"]).absolute())
    return own


def _form(name: str, folder: Path) -> RefineForm:
    beside = folder / name
    return load_refine_form(name if name in builtin_refine_forms() or not beside.is_file() else beside)


def _options(kind: Any) -> dict[str, type | tuple[type, ...]]:
    """The settings of a kind that a table may have, and their types."""
    types: dict[str, type | tuple[type, ...]] = {}
    for own in fields(kind):
        if own.name in _SET_APART:
            continue
        text = str(own.type)
        types[own.name] = (
            bool if text == "bool" else list if text.startswith("tuple") else (int, float) if text == "float"
            else int if text.startswith("int") else str
        )  # fmt: skip
    return types


def _given(table: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(table[key]) if isinstance(table[key], list) else table[key] for key in options if key in table}
