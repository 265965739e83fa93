"""Rater fit: from an annotation set to a language model that rates.

    annotations ─► split by source ─► rows ─► tune ─► model/ + rater.toml ─► opened and measured ─► card, figures, manifest

    out/ model/ (safetensors, tokenizer)   rubric.toml   rater.toml   RATER_CARD.md   figures.json   manifest.json

The folder appears by one rename when all is done; until then `.out.<fingerprint>.partial` beside it holds the checkpoints,
and the same call takes it up where it stopped. Figures are of documents and sources that nothing was learnt from, and the
saved files are measured as they are served.

Price: see tune; the figures cost a rating of a tenth of the documents.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from typecase.core.rating import Rubric
from typecase.errors import AlreadyExists, BadRecipe
from typecase.lm.model_files import find_model
from typecase.lm.rate.annotations import Annotations
from typecase.lm.rate.rater import Ratings, pack_texts
from typecase.lm.rate.raters import open_rater
from typecase.lm.rate.rubric import rubric_text
from typecase.lm.rate.seeds import I64, Seeds
from typecase.lm.rate.sheets import sheet_of
from typecase.store import atomic
from typecase.store.manifest import NAME, FileEntry, Manifest, Parent, digest, library_versions, write_manifest
from typecase.train.encoding import Encoder, open_tokenizer
from typecase.train.fitting import device_of, load_base, locked, write_text
from typecase.train.lora import adapt, merge
from typecase.train.rater_card import CARD, card_text, figures_of
from typecase.train.rater_data import ELLIPSIS, RaterData, Showing
from typecase.train.rater_recipe import RaterRecipe, Split, identity, split_of
from typecase.train.rows import Plan, Row
from typecase.train.sampling import epoch_rows
from typecase.train.scratch import SIZES, make_scratch
from typecase.train.tune import Tuned, Tuning, Watch, tune

MODEL, RUBRIC, TABLE, FIGURES = "model", "rubric.toml", "rater.toml", "figures.json"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Fitted:
    """What a fit made: its folder, the rater's fingerprint, how the training went, the figures measured, the card."""

    folder: Path
    fingerprint: str
    tuned: Tuned
    figures: Mapping[str, Any]
    card: str


def fit_rater(
    annotations: Annotations,
    out: Path,
    recipe: RaterRecipe,
    *,
    parents: tuple[Parent, ...] = (),
    watch: Watch | None = None,
) -> Fitted:
    """Fits a language model to `annotations` and writes it, its card and its manifest into the new folder `out`.

    Raises AlreadyExists where `out` exists, BadRecipe where there is too little to learn from, NotFound without a base
    model, Conflict while another process fits the same.
    """
    if out.exists():
        raise AlreadyExists(f"{out} exists: choose another folder, or remove it first")
    device_of(recipe.device)
    split = split_of(annotations.documents, recipe)
    name = digest(["rater fit", VERSION, identity(recipe), annotations.fingerprint])
    partial = out.parent / f".{out.name}.{name[:12]}.partial"
    with locked(partial):
        base = _base(recipe, annotations.documents.pick(split.train), partial)
        made = _trained(annotations.documents, split, base, partial, recipe, name, watch)
        write_text(partial / RUBRIC, rubric_text(annotations.documents.rubric))
        write_text(partial / TABLE, made.table)
        fingerprint, ratings = _rated(partial, annotations.documents.pick(split.test))
        figures = figures_of(annotations.documents.pick(split.test), annotations.documents.pick(split.train), ratings)
        card = card_text(figures, _told(annotations, split, recipe, made, fingerprint))
        atomic.write_json(partial / FIGURES, figures)
        write_text(partial / CARD, card)
        _finish(partial, annotations, split, recipe, parents)
        partial.replace(out)
        atomic.sync_folder(out.parent)
    return Fitted(out, fingerprint, made.tuned, figures, card)


@dataclass(frozen=True, slots=True)
class _Made:
    """A trained model on disk, and what is told of it."""

    table: str
    tuned: Tuned
    base: str
    parameters: int
    trained: int


def _base(recipe: RaterRecipe, taught: Seeds, partial: Path) -> Path:
    """The checkpoint to begin with."""
    if not recipe.scratch:
        return find_model(recipe.base)
    folder = partial / "base"
    if not (folder / "tokenizer.json").is_file():
        blank = sheet_of(taught.rubric, recipe.form).prompt("")
        texts = [*taught.texts, *[blank] * max(1, len(taught) // 10)]  # so that the form's own words are few tokens
        make_scratch(folder, texts, size=SIZES[recipe.base], seed=recipe.seed)
    return folder


def _trained(
    documents: Seeds, split: Split, base: Path, partial: Path, recipe: RaterRecipe, name: str, watch: Watch | None
) -> _Made:
    """Trains the model and saves it as a plain checkpoint."""
    tokenizer = open_tokenizer(base)
    chat = recipe.chat if recipe.chat is not None else bool(getattr(tokenizer, "chat_template", None))
    sheet = sheet_of(documents.rubric, recipe.form)
    encoder = Encoder(tokenizer, base, chat=chat, system=recipe.system)
    showing = Showing(recipe.window, recipe.long, blank=recipe.blank, random=recipe.random, drawn=recipe.drawn)
    data = RaterData(documents, sheet, encoder, showing, seed=recipe.seed)
    held_out = data.rows(split.held_out, epoch=None)
    plan, steps = _plan(data, split.train, recipe)
    model = load_base(base, recipe.device)
    _check_room(model, data, recipe.window, base)
    parameters = sum(weight.numel() for weight in model.parameters())
    if recipe.rank:
        adapt(model, rank=recipe.rank, alpha=recipe.alpha or 2 * recipe.rank, seed=recipe.seed, layers=recipe.layers)
    trained = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    tuning = Tuning(
        steps=steps,
        rate=recipe.highest_rate,
        decay=recipe.decay,
        every=recipe.every,
        patience=recipe.patience,
        batch_tokens=recipe.batch_tokens,
        precision=recipe.precision,
        recompute=recipe.recompute,
    )
    folder = partial / "checkpoints"
    tuned = tune(model, plan, held_out, tuning, folder=folder, seed=recipe.seed, name=name, watch=watch)
    merge(model)
    model.save_pretrained(partial / MODEL)
    tokenizer.save_pretrained(partial / MODEL)
    what = f"a {recipe.base} model of random weights" if recipe.scratch else f"`{base.name}`"
    return _Made(_table(recipe, documents.rubric, chat), tuned, what, parameters, trained)


def _plan(data: RaterData, train: I64, recipe: RaterRecipe) -> tuple[Plan, int]:
    """The rows of each step, and the number of steps."""
    taught = data.seeds.pick(train)
    kept: dict[int, I64] = {}

    def order(epoch: int) -> I64:
        if epoch not in kept:
            kept.clear()
            kept[epoch] = epoch_rows(
                taught,
                recipe.rule,
                epoch=epoch,
                seed=recipe.seed,
                cap=recipe.cap,
                quotient=recipe.quotient,
                factor=recipe.factor,
            )
        return kept[epoch]

    each = len(order(0))

    def plan(step: int) -> list[Row]:
        rows = []
        for place in range(step * recipe.batch, (step + 1) * recipe.batch):
            epoch, at = divmod(place, each)
            rows.append(data.row(int(train[order(epoch)[at]]), epoch=epoch))
        return rows

    return plan, max(1, round(recipe.epochs * each / recipe.batch))


def _check_room(model: Any, data: RaterData, window: int, base: Path) -> None:
    """Refuses a window that the model's context does not hold beside prompt and form, before any training."""
    room = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    around = data.around()
    if room is not None and around + window > room:
        raise BadRecipe(
            f"the context of {base.name} holds {room} tokens, the form takes {around}: a window has at most {room - around}, "
            f"not {window}"
        )


def _table(recipe: RaterRecipe, rubric: Rubric, chat: bool) -> str:
    """The rater.toml: the model is asked as it was trained."""
    lines = ['kind = "lm"', f"name = {_toml(f'{rubric.id}-lm')}", f"rubric = {_toml(RUBRIC)}", f"form = {_toml(recipe.form)}"]
    if recipe.long == "ends":
        lines += ['view = "head_tail"', f"head_tail_tokens = {recipe.window}", f"ellipsis = {_toml(ELLIPSIS)}"]
    else:
        lines += ['view = "windows"']
    if recipe.blank == 1:
        lines += ["passes = 1"]
    if recipe.long == "window":
        lines += ["", "[windows]", f"tokens = {recipe.window}"]
    lines += ["", "[model]", f"path = {_toml(MODEL)}", f"chat = {_toml(chat)}"]
    if recipe.system:
        lines += [f"system = {_toml(recipe.system)}"]
    return "\n".join(lines) + "\n"


def _toml(value: str | bool) -> str:
    return orjson.dumps(value).decode()


def _rated(folder: Path, test: Seeds) -> tuple[str, Ratings]:
    """Opens the rater that was written and asks it about documents that it was not taught."""
    rater = open_rater(folder)
    return rater.fingerprint, rater.rate(*pack_texts(test.texts))


def _told(annotations: Annotations, split: Split, recipe: RaterRecipe, made: _Made, fingerprint: str) -> dict[str, Any]:
    """What the card says beside the figures."""
    rubric = annotations.documents.rubric
    how = f" (updates of rank {recipe.rank}, merged)" if recipe.rank else ""
    long = "shown by head and tail" if recipe.long == "ends" else "shown by one window an epoch, with the whole's rating"
    shown = {
        "even": f"rare levels of every criterion and rare domains more often, at most {recipe.cap:g} times the least",
        "plain": "each document once an epoch",
        "dataman": f"minority documents of each source added (Q = {recipe.quotient}, k = {recipe.factor})",
    }[recipe.rule]
    return {
        "name": f"{rubric.id}-lm",
        "form": recipe.form,
        "rubric": rubric.id,
        "rubric_version": rubric.version,
        "criteria": len(rubric.criteria),
        "domains": len(rubric.domains),
        "base": made.base,
        "parameters": made.parameters,
        "trained_parameters": made.trained,
        "how": how,
        "fingerprint": fingerprint,
        "seed": recipe.seed,
        "balance": annotations.balance.as_dict(),
        "documents": len(annotations.documents),
        "annotations": annotations.fingerprint,
        "split_by": recipe.split_by,
        "held_out_documents": len(split.held_out),
        "shown": shown,
        "history": [asdict(scored) for scored in made.tuned.history],
        "best_step": made.tuned.best_step,
        "steps": made.tuned.steps,
        "settings": _settings(recipe),
        "window": recipe.window,
        "long": long,
    }


def _settings(recipe: RaterRecipe) -> str:
    told = [f"{recipe.batch} documents a step", f"highest rate {recipe.highest_rate:g}, as a cosine after a warm-up"]
    told += [f"weight decay {recipe.decay:g}"]
    told += [f"earlier gaps blanked in {recipe.blank:.0%} of the rows"] if recipe.blank else []
    told += [f"filled at random in {recipe.random:.0%}"] if recipe.random else []
    told += ["levels between two drawn anew each epoch"] if recipe.drawn else []
    return "AdamW, " + ", ".join(told) + "."


def _finish(partial: Path, annotations: Annotations, split: Split, recipe: RaterRecipe, parents: tuple[Parent, ...]) -> None:
    """Writes the manifest, then removes the scaffolding."""
    scaffolds = (partial / "checkpoints", partial / "base")
    files = [path for path in partial.rglob("*") if path.is_file() and not any(path.is_relative_to(own) for own in scaffolds)]
    names = sorted(str(path.relative_to(partial)) for path in files if path.name not in (".lock", NAME))
    counts = {
        "documents": len(annotations.documents),
        "train": len(split.train),
        "held_out": len(split.held_out),
        "test": len(split.test),
    }
    write_manifest(
        partial,
        Manifest(
            kind="rater",
            stage="rater fit",
            version=VERSION,
            params=identity(recipe) | {"annotations": annotations.fingerprint},
            parents=parents,
            files=tuple(FileEntry.of(partial, name) for name in names),
            balance=annotations.balance,
            counts=counts | {"unused": counts["documents"] - sum(counts[part] for part in ("train", "held_out", "test"))},
            libraries=library_versions("torch", "transformers"),
        ),
    )
    for scaffold in scaffolds:
        shutil.rmtree(scaffold, ignore_errors=True)
    (partial / ".lock").unlink(missing_ok=True)
