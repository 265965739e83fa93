"""Refiner fit: from pairs to a language model that writes refining programs.

    pairs ─► split by source ─► examples ─► tune ─► model/ + refiner.toml ─► opened and measured ─► card, figures, manifest

    out/ model/ (safetensors, tokenizer)   refiner.toml   REFINER_CARD.md   figures.json   manifest.json

`typecase refine DOCS --refiner out` asks it. The loss counts the program alone, never the prompt. The folder appears by one
rename; until then `.out.<fingerprint>.partial` beside it holds the checkpoints, and the same call takes it up where it stopped.

Price: see tune; the figures cost a refinement of the measured texts, twice.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from typecase.errors import AlreadyExists, BadRecipe
from typecase.lm.model_files import find_model
from typecase.lm.refine.form import RefineForm, load_refine_form
from typecase.lm.refine.refiners import open_table
from typecase.store import atomic
from typecase.store.manifest import NAME, FileEntry, Manifest, Parent, digest, library_versions, write_manifest
from typecase.train.encoding import Encoder, open_tokenizer
from typecase.train.fitting import device_of, load_base, locked, write_text
from typecase.train.lora import adapt, merge
from typecase.train.rater_recipe import Split
from typecase.train.refiner_card import CARD, card_text, figures_of
from typecase.train.refiner_data import Example, RefinerData, examples_of
from typecase.train.refiner_pairs import KINDS, Pair, PairSet
from typecase.train.refiner_recipe import RefinerRecipe, identity, split_of
from typecase.train.rows import Plan, Row
from typecase.train.scratch import SIZES, make_scratch
from typecase.train.tune import Tuned, Tuning, Watch, tune

MODEL, TABLE, FIGURES = "model", "refiner.toml", "figures.json"
VERSION = 1


@dataclass(frozen=True, slots=True)
class FittedLM:
    """What a fit made: its folder, the refiner's fingerprint, how the training went, the figures measured, the card."""

    folder: Path
    fingerprint: str
    tuned: Tuned
    figures: Mapping[str, Any]
    card: str


def fit_lm_refiner(
    taught: PairSet, out: Path, recipe: RefinerRecipe, *, parents: tuple[Parent, ...] = (), watch: Watch | None = None
) -> FittedLM:
    """Fits a language model to the pairs and writes it, its card and its manifest into the new folder `out`.

    Raises AlreadyExists where `out` exists, BadRecipe where there is too little to learn from, NotFound without a base
    model, Conflict while another process fits the same.
    """
    if out.exists():
        raise AlreadyExists(f"{out} exists: choose another folder, or remove it first")
    device_of(recipe.device)
    split = split_of(taught.pairs, recipe)
    name = digest(["refiner fit", VERSION, identity(recipe), taught.fingerprint])
    partial = out.parent / f".{out.name}.{name[:12]}.partial"
    with locked(partial):
        desk = _Desk(taught.pairs, split, recipe, partial)
        tuned = desk.train(name, watch)
        write_text(partial / TABLE, desk.table())
        refiner = _opened(partial, recipe)
        free = _opened(partial, recipe, constrained=False) if "chunk" in recipe.stages else None
        figures = figures_of(refiner, free, [taught.pairs[k] for k in split.test])
        card = card_text(figures, desk.told(tuned, refiner.fingerprint))
        atomic.write_json(partial / FIGURES, figures)
        write_text(partial / CARD, card)
        _finish(partial, taught, split, recipe, parents)
        partial.replace(out)
        atomic.sync_folder(out.parent)
    return FittedLM(out, refiner.fingerprint, tuned, figures, card)


class _Desk:
    """A fit under way: base, tokenizer, examples, and the model that was trained."""

    def __init__(self, pairs: Sequence[Pair], split: Split, recipe: RefinerRecipe, partial: Path) -> None:
        self.pairs, self.split, self.recipe, self.partial = pairs, split, recipe, partial
        self.form: RefineForm = load_refine_form(recipe.form)
        self.base = self._base()
        self.tokenizer = open_tokenizer(self.base)
        chat = bool(getattr(self.tokenizer, "chat_template", None))
        self.chat = recipe.chat if recipe.chat is not None else chat
        system = self.form.system if self.chat else ""
        self.encoder = Encoder(self.tokenizer, self.base, chat=self.chat, system=system)
        self.taught, self.lost = self._examples(split.train)
        self.held, _ = self._examples(split.held_out)
        if not self.taught or not self.held:
            raise BadRecipe("the pairs give no example to learn from, or none to choose the weights by: give more sources")
        self.parameters = self.trained = 0

    def _base(self) -> Path:
        """The checkpoint to begin with."""
        if not self.recipe.scratch:
            return find_model(self.recipe.base)
        folder = self.partial / "base"
        if not (folder / "tokenizer.json").is_file():
            own = [self.pairs[k] for k in self.split.train]
            said = [pair.program for pair in own if pair.program is not None]
            forms = [self.form.chunk_prompt(""), self.form.document_prompt("")] * max(1, len(own) // 10)
            numbers = ["\n".join(f"[{n:03d}]" for n in range(200))] * max(1, len(own) // 20)
            texts = [*(pair.text for pair in own), *said, *forms, *numbers]  # so that the form's own words are few tokens
            make_scratch(folder, texts, size=SIZES[self.recipe.base], seed=self.recipe.seed)
        return folder

    def _examples(self, rows: Any) -> tuple[list[Example], dict[str, int]]:
        recipe = self.recipe
        found, lost = examples_of(
            [self.pairs[k] for k in rows], self.form, self.encoder, budget=recipe.budget, max_tokens=recipe.max_tokens,
            stages=recipe.stages,
        )  # fmt: skip
        return found, dict(sorted(lost.items()))

    def train(self, name: str, watch: Watch | None) -> Tuned:
        """Trains the model and saves it as a plain checkpoint."""
        recipe = self.recipe
        data = RefinerData(self.taught, self.encoder, keeps=recipe.keeps, seed=recipe.seed)
        held = RefinerData(self.held, self.encoder, keeps=recipe.keeps, seed=recipe.seed)
        order = held.epoch(0)[: recipe.held_out]
        plan, steps = _plan(data, recipe)
        model = load_base(self.base, recipe.device)
        _check_room(model, data, recipe, self.base)
        self.parameters = sum(weight.numel() for weight in model.parameters())
        if recipe.rank:
            adapt(model, rank=recipe.rank, alpha=recipe.alpha or 2 * recipe.rank, seed=recipe.seed, layers=())
        self.trained = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
        tuning = Tuning(
            steps=steps, rate=recipe.highest_rate, decay=recipe.decay, every=recipe.every, patience=recipe.patience,
            batch_tokens=recipe.batch_tokens, precision=recipe.precision, recompute=recipe.recompute,
        )  # fmt: skip
        rows = [held.row(int(k)) for k in order]
        folder = self.partial / "checkpoints"
        tuned = tune(model, plan, rows, tuning, folder=folder, seed=recipe.seed, name=name, watch=watch)
        merge(model)
        model.save_pretrained(self.partial / MODEL)
        self.tokenizer.save_pretrained(self.partial / MODEL)
        return tuned

    def table(self) -> str:
        """The refiner.toml: the model is asked as it was trained."""
        recipe = self.recipe
        lines = ['kind = "lm"', f"name = {_toml(self.name)}", f"form = {_toml(recipe.form)}"]
        lines += [f"stages = {_toml(list(recipe.stages))}", f"budget = {recipe.budget}", f"max_tokens = {recipe.max_tokens}"]
        lines += [f"document_tokens = {recipe.budget}"] if "document" in recipe.stages else []
        return "\n".join([*lines, "", "[model]", f"path = {_toml(MODEL)}", f"chat = {_toml(self.chat)}"]) + "\n"

    @property
    def name(self) -> str:
        return f"{self.recipe.domain}-refiner-lm"

    def told(self, tuned: Tuned, fingerprint: str) -> dict[str, Any]:
        """What the card says beside the figures."""
        recipe, own = self.recipe, [self.pairs[k] for k in self.split.train]
        best = next(scored for scored in tuned.history if scored.step == tuned.best_step)
        return {
            "name": self.name,
            "domain": recipe.domain,
            "base": f"a {recipe.base} model of random weights" if recipe.scratch else f"`{self.base.name}`",
            "parameters": self.parameters,
            "trained": self.trained,
            "how": f" (updates of rank {recipe.rank}, merged)" if recipe.rank else "",
            "fingerprint": fingerprint,
            "seed": recipe.seed,
            "pairs": len(own),
            "taught_sources": len({pair.source for pair in own}),
            "kinds": {kind: sum(pair.kind == kind for pair in own) for kind in KINDS},
            "examples": len(self.taught),
            "idle": sum(one.idle for one in self.taught),
            "form": recipe.form,
            "stages": recipe.stages,
            "lost": self.lost,
            "best_step": tuned.best_step,
            "steps": tuned.steps,
            "held_out_loss": best.held_out,
        }


def _plan(data: RefinerData, recipe: RefinerRecipe) -> tuple[Plan, int]:
    """The rows of each step, and the number of steps."""
    kept: dict[int, Any] = {}
    each = len(data.epoch(0))

    def order(epoch: int) -> Any:
        if epoch not in kept:
            kept.clear()
            kept[epoch] = data.epoch(epoch)
        return kept[epoch]

    def plan(step: int) -> list[Row]:
        places = (divmod(place, each) for place in range(step * recipe.batch, (step + 1) * recipe.batch))
        return [data.row(int(order(epoch)[at])) for epoch, at in places]

    return plan, max(1, math.ceil(recipe.epochs * each / recipe.batch))


def _check_room(model: Any, data: RefinerData, recipe: RefinerRecipe, base: Path) -> None:
    """Refuses chunks that the model's context does not hold beside prompt and answer, before any training."""
    room = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if room is not None and data.longest() > room:
        raise BadRecipe(
            f"the context of {base.name} holds {room} tokens and an example takes {data.longest()}: a budget of"
            f" {max(1, recipe.budget - data.longest() + room)} fits"
        )


def _opened(folder: Path, recipe: RefinerRecipe, **changes: Any) -> Any:
    from typecase.lm.tables import read_table

    return open_table({**read_table(folder / TABLE), **changes}, folder / TABLE)


def _toml(value: Any) -> str:
    return orjson.dumps(value).decode()


def _finish(partial: Path, taught: PairSet, split: Split, recipe: RefinerRecipe, parents: tuple[Parent, ...]) -> None:
    """Writes the manifest, then removes the scaffolding."""
    scaffolds = (partial / "checkpoints", partial / "base")
    files = [path for path in partial.rglob("*") if path.is_file() and not any(path.is_relative_to(own) for own in scaffolds)]
    names = sorted(str(path.relative_to(partial)) for path in files if path.name not in (".lock", NAME))
    counts = {"pairs": len(taught.pairs), "train": len(split.train), "held_out": len(split.held_out), "test": len(split.test)}
    write_manifest(
        partial,
        Manifest(
            kind="refiner",
            stage="refiner fit",
            version=VERSION,
            params=identity(recipe) | {"pairs": taught.fingerprint},
            parents=parents,
            files=tuple(FileEntry.of(partial, name) for name in names),
            balance=taught.balance,
            counts=counts | {"unused": counts["pairs"] - sum(counts[part] for part in ("train", "held_out", "test"))},
            libraries=library_versions("torch", "transformers"),
        ),
    )
    for scaffold in scaffolds:
        shutil.rmtree(scaffold, ignore_errors=True)
    (partial / ".lock").unlink(missing_ok=True)
