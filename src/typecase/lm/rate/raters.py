"""Raters: any rater by its name, its weights, its model, or a rater.toml.

    open_rater("starter")                 the rater that ships with the package
    open_rater("my-rater")                a folder: rater.toml, or starter.npz, or a checkpoint
    open_rater("mine.npz")                starter weights that were fitted
    open_rater("lm:models/qwen3-4b")      a causal LM of this machine, asked with the rubric first
    open_rater("http://host/v1#name")     a teacher behind an OpenAI-compatible server

    kind = "lm"                           lm, teacher, head or pairwise: whose table this is
    rubric = "dataman"
    form = "rubric_first"                 student, score_only, domain_only, or "mine.toml": a checkpoint's own words
    view = "windows"                      whole, or head_tail with head_tail_tokens and ellipsis
    passes = 1                            left out: until exact
    least_mass = 0.5
    [windows]
    tokens = 1024
    most = 4                              at most so many are read of a document
    repetition = ["originality"]          corrected by what no window sees
    drift = ["topic_focus"]
    [model]
    path = "model"                        see models.py

Libraries are loaded by the kind that needs them. Paths in a file are relative to it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typecase.core.rating import Rubric
from typecase.errors import BadRecipe, NotFound
from typecase.lm.rate.cuts import Count
from typecase.lm.rate.rater import Rater
from typecase.lm.rate.rubric import builtin_rubrics, load_rubric
from typecase.lm.starter.starter import SHIPPED
from typecase.lm.starter.starter import open_rater as open_starter
from typecase.lm.tables import check_types, read_table

FILE = "rater.toml"
WINDOW_TOKENS = 1024
KINDS = ("lm", "teacher", "head", "pairwise")
_OPENERS = {
    "teacher": ("typecase.lm.rate.teacher", "open_teacher"),
    "pairwise": ("typecase.lm.rate.pairwise_rater", "open_pairwise"),
}
_VIEWS = ("whole", "head_tail", "windows")
_LM: Mapping[str, type | tuple[type, ...]] = {
    "kind": str,
    "name": str,
    "version": str,
    "rubric": str,
    "language": str,
    "form": str,
    "view": str,
    "head_tail_tokens": int,
    "ellipsis": str,
    "passes": int,
    "least_mass": (int, float),
    "batch_docs": int,
    "model": (str, dict),
    "windows": dict,
}
_WINDOWS: Mapping[str, type | tuple[type, ...]] = {"tokens": int, "most": int, "repetition": list, "drift": list}


def open_rater(spec: str | Path, *, rubric: str | None = None, cache: Path | None = None) -> Rater:
    """The rater that `spec` names. `rubric` replaces the one of its file; `cache` is the answer cache of its model.

    Raises NotFound if there is none, BadRecipe if its table cannot be meant, NeedsExtra if a library is missing.
    """
    if str(spec) == SHIPPED:
        return _own_rubric(open_starter(SHIPPED), rubric)
    if (table := _table_of_name(str(spec))) is not None:
        return open_table(table, Path.cwd(), rubric=rubric, cache=cache)
    path = Path(spec)
    file = path / FILE if path.is_dir() else path
    if file.suffix == ".toml" and file.is_file():
        return open_table(read_table(file), file, rubric=rubric, cache=cache)
    if path.is_dir() and not (path / "starter.npz").is_file():
        if (path / "config.json").is_file():
            return open_table({"kind": "lm", "model": str(path)}, Path.cwd(), rubric=rubric, cache=cache)
        raise NotFound(f"{path} holds no rater: neither {FILE}, nor starter.npz, nor a checkpoint's config.json")
    if not path.exists() and path.suffix != ".npz":
        raise NotFound(
            f"no rater '{spec}': give {SHIPPED}, a folder with {FILE} or starter.npz, a .npz or .toml file, lm:MODEL for a"
            " model of this machine, or http://host/v1#model for a server"
        )
    return _own_rubric(open_starter(path), rubric)


def close_rater(rater: Rater) -> None:
    """Closes the answer cache of a rater that has one; the rater is not used again."""
    from typecase.lm.cache import CachedLM

    lm = getattr(getattr(rater, "inner", rater), "lm", None)
    if isinstance(lm, CachedLM):
        lm.cache.close()


def open_table(table: Mapping[str, Any], where: Path, *, rubric: str | None = None, cache: Path | None = None) -> Rater:
    """The rater that a table describes; relative paths are taken from `where`, a folder or the file that holds the table."""
    kind = table.get("kind")
    if kind not in KINDS:
        raise BadRecipe(f"{where}: kind is one of {', '.join(KINDS)}, got {kind!r}")
    folder = where if where.is_dir() else where.parent
    own = dict(table)
    if rubric is not None:
        named = rubric in builtin_rubrics() or not Path(rubric).is_file()
        own["rubric"] = rubric if named else str(Path(rubric).absolute())
    if "model" in own:
        own["model"] = _located(own["model"], folder, cache)
    if kind == "lm":
        return _open_lm_rater(own, where, folder)
    windows = own.pop("windows", None)
    return _windowed(_opened(kind, own, where, rubric), windows, where)


def _opened(kind: str, table: Mapping[str, Any], where: Path, rubric: str | None) -> Rater:
    """A rater whose own module reads its table."""
    if kind == "head":
        head: Rater = importlib.import_module("typecase.lm.head.head").open_head(where if where.is_dir() else where.parent)
        return _own_rubric(head, rubric)
    module, function = _OPENERS[kind]
    rater: Rater = getattr(importlib.import_module(module), function)(table, where)
    return rater


def _table_of_name(spec: str) -> dict[str, Any] | None:
    if spec.startswith("lm:"):
        return {"kind": "lm", "model": spec.removeprefix("lm:")}
    if spec.startswith(("http://", "https://")):
        return {"kind": "teacher", "model": spec}
    return None


def _own_rubric(rater: Rater, rubric: str | None) -> Rater:
    if rubric is not None and load_rubric(rubric).fingerprint != rater.rubric.fingerprint:
        raise BadRecipe(
            f"{rater.name} rates on the rubric '{rater.rubric.id}' that it was fitted to, not on '{rubric}'; a language model"
            " can be asked about any rubric: see docs/lm.md"
        )
    return rater


def _located(model: Any, folder: Path, cache: Path | None) -> dict[str, Any]:
    """The [model] table with paths that hold from anywhere, and the answer cache that is asked for."""
    from typecase.lm.models import table_of

    if not isinstance(model, str | Mapping):
        raise BadRecipe(f"'model' is a path, an address or a table, got {model!r}")
    table = table_of(model)
    if isinstance(table.get("path"), str) and (folder / table["path"]).exists():
        table["path"] = str((folder / table["path"]).absolute())
    if cache is not None:
        table["cache"] = str(cache)
    if isinstance(table.get("cache"), str):
        table["cache"] = str((folder / table["cache"] if cache is None else cache).absolute())
    return table


def _open_lm_rater(table: Mapping[str, Any], where: Path, folder: Path) -> Rater:
    from typecase.lm.models import open_lm
    from typecase.lm.rate.lm_rater import lm_rater
    from typecase.lm.rate.sheets import sheet_of

    check_types(table, _LM, f"{where}")
    view = table.get("view", "windows")
    if view not in _VIEWS:
        raise BadRecipe(f"{where}: view is one of {', '.join(_VIEWS)}, got {view!r}")
    if "windows" in table and view != "windows":
        raise BadRecipe(f"{where}: [windows] goes with view = \"windows\", not with '{view}'")
    if "model" not in table:
        raise BadRecipe(f"{where}: a rater of kind lm needs a [model]: path, or url and model")
    rubric, form = _rubric(table, folder), str(table.get("form", "rubric_first"))
    chat = table["model"].get("chat", False) is True
    asking = sheet_of(rubric, folder / form if (folder / form).is_file() else form, chat=chat)
    model = {"system": asking.form.system, **table["model"]} if chat and asking.form.system else table["model"]
    settings = {k: table[k] for k in ("name", "version", "head_tail_tokens", "ellipsis", "passes", "least_mass") if k in table}
    settings |= {k: table[k] for k in ("batch_docs",) if k in table}
    rater = lm_rater(open_lm(model), rubric, asking, view=view if view == "head_tail" else "whole", **settings)
    return _windowed(rater, table.get("windows", {}), where) if view == "windows" else rater


def _rubric(table: Mapping[str, Any], folder: Path) -> Rubric:
    name = table.get("rubric", "dataman")
    beside = folder / name
    return load_rubric(name if name in builtin_rubrics() or not beside.is_file() else beside, table.get("language"))


@dataclass(frozen=True, slots=True)
class _ByteCount:
    """Tokens guessed from bytes, for a rater that counts none: four bytes a token."""

    def __call__(self, texts: Any) -> list[int]:
        return [-(-len(text.encode("utf-8", "surrogateescape")) // 4) for text in texts]


def _windowed(rater: Rater, windows: Mapping[str, Any] | None, where: Path) -> Rater:
    """`rater` window by window, if that is asked for."""
    if windows is None:
        return rater
    from typecase.lm.rate.windowed import Correction, WindowedRater

    if not isinstance(windows, Mapping):
        raise BadRecipe(f"{where}: [windows] is a table, got {windows!r}")
    check_types(windows, _WINDOWS, f"{where}, [windows]")
    counts: Count = getattr(rater, "count", None) or _ByteCount()
    room = rater.room() if hasattr(rater, "room") else None
    tokens = windows.get("tokens", WINDOW_TOKENS if room is None else max(1, min(WINDOW_TOKENS, room)))
    if room is not None and tokens > room:
        raise BadRecipe(
            f"{where}, [windows]: {tokens} tokens do not fit: beside prompt and form the model's context has room for"
            f" {max(0, room)}; take a shorter form or a model with a longer context"
        )
    correction = Correction(tuple(windows.get("repetition", ())), tuple(windows.get("drift", ())))
    counter = _counter_name(rater) if hasattr(rater, "count") else "bytes/4"
    return WindowedRater(rater, counts, counter, tokens, windows.get("most"), correction)


def _counter_name(rater: Any) -> str:
    return str(getattr(getattr(rater, "lm", None), "fingerprint", rater.fingerprint))
