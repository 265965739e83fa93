"""Plan of an ablation, as a TOML file.

    name = "does refining help"
    base = "noisy"                          the arm that others are compared with; the first by default
    seeds = [1, 2, 3]
    token_budget = "1M"                     what every run learns, whatever the size of its set
    tokenizer = "work/tokenizer"            of arms that are documents; or vocab = 2048, learnt from the base

    [model]    preset = "1m", context = 256     or layers, heads, width …
    [train]    batch = 16, learning_rate = 2e-3 …
    [arms.noisy]    docs = "work/docs/noisy"        documents, built into a token set
    [arms.refined]  recipe = "refined.py"           its last token set
    [arms.clean]    tokens = "work/tokens/clean"    a token set
    [arms.half]     mix = {clean = 0.5, noisy = 0.5}    a blend of arms, weights by tokens
    [held]     clean = "work/docs/held"             what all runs are measured on; the first is the one of curves and figures
    [tasks]    cloze = 200, copy = 200, items = "mine.jsonl"
    [curve]    looks = 10, samples = 64

Paths are relative to the file. Raises BadRecipe, naming the key and what it may be.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from typecase.errors import BadQuery, BadRecipe, NotFound
from typecase.train.config import PRESETS, ModelShape, TrainPlan, preset

KINDS = ("tokens", "docs", "recipe", "mix")
_TOP = {
    "name", "base", "seeds", "token_budget", "tokenizer", "vocab", "ratings", "threads", "model", "train", "arms", "held",
    "tasks", "curve",
}  # fmt: skip
_TRAIN = {one.name for one in fields(TrainPlan)} - {"steps", "seed", "eval_every", "eval_samples"}
_MODEL = ({one.name for one in fields(ModelShape)} | {"preset"}) - {"vocab"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._ +-]*")
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9}


@dataclass(frozen=True, slots=True)
class Arm:
    """What one arm learns: a token set, documents, a recipe file, or a mix of other arms."""

    name: str
    kind: str
    path: Path | None
    mix: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Ablation:
    """An ablation as its file says it."""

    name: str
    arms: tuple[Arm, ...]
    base: str
    seeds: tuple[int, ...]
    token_budget: int
    tokenizer: str | None
    vocab: int
    held: Mapping[str, Path]
    ratings: Path | None
    model: Mapping[str, Any]
    train: Mapping[str, Any]
    cloze: int
    copy: int
    items: Path | None
    looks: int
    look_samples: int
    threads: int

    @property
    def context(self) -> int:
        return int(self.model.get("context", 256))

    def shape(self, vocab: int) -> ModelShape:
        """The model of every run. Raises BadRecipe."""
        sizes = {name: value for name, value in self.model.items() if name not in ("preset", "context")}
        try:
            return preset(str(self.model.get("preset", "1m")), vocab=vocab, context=self.context, **sizes)
        except (BadQuery, TypeError) as error:
            raise BadRecipe(f"[model]: {error}") from error

    def plan(self, seed: int) -> TrainPlan:
        """The plan of a run: as many steps as the budget fills, looked at `looks` times. Raises BadRecipe."""
        batch = int(self.train.get("batch", 16))
        steps = max(1, round(self.token_budget / (batch * self.context)))
        every = max(1, steps // max(1, self.looks))
        given = {"warmup": min(200, steps // 10), "keep": 1, "save_every": max(1, steps // 4), **self.train, "batch": batch}
        if "learning_rate" in given:
            given.setdefault("min_learning_rate", given["learning_rate"] / 10)
        try:
            return TrainPlan(steps=steps, seed=seed, eval_every=every, eval_samples=self.look_samples, **given)
        except (BadQuery, TypeError) as error:
            raise BadRecipe(f"[train]: {error}") from error

    @property
    def mixed(self) -> tuple[str, ...]:
        """The arms that are mixed, in order; none where no arm is a mix."""
        return tuple(dict.fromkeys(name for arm in self.arms for name, _ in arm.mix))


def read_ablation(path: Path | str) -> Ablation:
    """The ablation in a TOML file. Raises NotFound, BadRecipe."""
    path = Path(path)
    if not path.is_file():
        raise NotFound(f"no ablation at {path}: give a TOML file with [arms] and [held]")
    try:
        raw = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadRecipe(f"{path} is not TOML: {error}") from None
    return _read(raw, path.parent, str(path))


def _read(raw: Mapping[str, Any], folder: Path, where: str) -> Ablation:
    _known(raw, _TOP, where)
    tasks, curve = _table(raw, "tasks", where), _table(raw, "curve", where)
    _known(tasks, {"cloze", "copy", "items"}, f"{where} [tasks]")
    _known(curve, {"looks", "samples"}, f"{where} [curve]")
    model, train = _table(raw, "model", where), _table(raw, "train", where)
    _known(model, _MODEL, f"{where} [model]")
    _known(train, _TRAIN, f"{where} [train]")
    if model.get("preset", "1m") not in PRESETS:
        raise BadRecipe(f"{where} [model]: there is no preset {model['preset']!r}: choose one of {', '.join(PRESETS)}")
    arms = tuple(_arm(name, body, folder, where) for name, body in _table(raw, "arms", where).items())
    names = [arm.name for arm in arms]
    if len(arms) < 2:
        raise BadRecipe(f"{where} has {len(arms)} arms: an ablation compares two or more, [arms.NAME]")
    for arm in arms:
        for part, _ in arm.mix:
            if part not in names or next(one for one in arms if one.name == part).kind == "mix":
                raise BadRecipe(f"{where} [arms.{arm.name}] mixes {part!r}: name arms that are no mixes, of {', '.join(names)}")
    base = raw.get("base", names[0])
    if base not in names:
        raise BadRecipe(f"{where}: base {base!r} is no arm: there are {', '.join(names)}")
    held = {name: folder / _word(value, f"{where} [held] {name}") for name, value in _table(raw, "held", where).items()}
    if not held:
        raise BadRecipe(f"{where} has no [held]: name a token set or documents that no arm has learnt")
    seeds = raw.get("seeds", [1, 2, 3])
    if not isinstance(seeds, list) or not seeds or not all(isinstance(s, int) and s >= 0 for s in seeds):
        raise BadRecipe(f"{where}: seeds are whole numbers from 0, got {seeds!r}")
    if len(set(seeds)) != len(seeds):
        raise BadRecipe(f"{where}: seeds {seeds} hold one twice, which would count one run twice")
    if raw.get("vocab") and raw.get("tokenizer"):
        raise BadRecipe(f"{where} names a tokenizer and a vocab for a new one: keep one of the two")
    items = tasks.get("items")
    ratings, tokenizer = raw.get("ratings"), raw.get("tokenizer")
    return Ablation(
        name=str(raw.get("name", Path(where).stem)),
        arms=arms,
        base=base,
        seeds=tuple(seeds),
        token_budget=_tokens(raw.get("token_budget"), where),
        tokenizer=None if tokenizer is None else _spec(_word(tokenizer, f"{where} tokenizer"), folder),
        vocab=_count(raw, "vocab", 0, where),
        held=held,
        ratings=None if ratings is None else folder / _word(ratings, f"{where} ratings"),
        model=model,
        train=train,
        cloze=_count(tasks, "cloze", 0, where),
        copy=_count(tasks, "copy", 0, where),
        items=None if items is None else folder / _word(items, f"{where} [tasks] items"),
        looks=_count(curve, "looks", 10, where),
        look_samples=max(1, _count(curve, "samples", 64, where)),
        threads=_count(raw, "threads", 1, where),
    )


def _arm(name: str, body: Any, folder: Path, where: str) -> Arm:
    if not _NAME.fullmatch(name):
        raise BadRecipe(f"{where}: an arm cannot be called {name!r}: use letters, digits, blanks and ._+-")
    given = [kind for kind in KINDS if isinstance(body, Mapping) and kind in body]
    if not isinstance(body, Mapping) or len(given) != 1 or len(body) != 1:
        raise BadRecipe(f"{where} [arms.{name}] says one of {', '.join(KINDS)}; got {body!r}")
    kind = given[0]
    if kind != "mix":
        return Arm(name, kind, folder / _word(body[kind], f"{where} [arms.{name}] {kind}"))
    mix = body["mix"]
    good = isinstance(mix, Mapping) and mix and all(isinstance(w, int | float) and w >= 0 for w in mix.values())
    total = float(sum(mix.values())) if good else 0.0
    if total <= 0:
        raise BadRecipe(f"{where} [arms.{name}]: a mix gives arms weights above 0, got {mix!r}")
    return Arm(name, kind, None, tuple((part, float(w) / total) for part, w in mix.items() if w))


def _table(raw: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any]:
    value = raw.get(name, {})
    if not isinstance(value, Mapping):
        raise BadRecipe(f"{where}: [{name}] is a table, got {value!r}")
    return value


def _known(table: Mapping[str, Any], known: set[str], where: str) -> None:
    unknown = sorted(set(table) - known)
    if unknown:
        raise BadRecipe(f"{where} has {unknown[0]!r}, which means nothing here: it may have {', '.join(sorted(known))}")


def _word(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise BadRecipe(f"{where} is a path, got {value!r}")
    return value


def _count(table: Mapping[str, Any], name: str, default: int, where: str) -> int:
    value = table.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BadRecipe(f"{where}: {name} is a whole number from 0, got {value!r}")
    return value


def _tokens(value: Any, where: str) -> int:
    match = re.fullmatch(r"([\d_]+(?:\.\d+)?)([kKmMgGbB]?)", str(value)) if value is not None else None
    if match is None or float(match[1]) <= 0:
        raise BadRecipe(f'{where}: token_budget says how much every run learns, such as "2M"; got {value!r}')
    return int(float(match[1]) * _UNITS[match[2].lower()])


def _spec(word: str, folder: Path) -> str:
    """A tokenizer in a package by its name, one on disk by its path."""
    return word if ":" in word else str(folder / word)
