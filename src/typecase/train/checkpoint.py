"""Checkpoint: a model at a step and all that is needed to go on from there, complete or absent.

    RUN/checkpoints/step-0000500/
      model.safetensors        the weights, float32, by the names of `train.model`
      optimiser.safetensors    two numbers a weight: mean.NAME, square.NAME
      checkpoint.json          step, shape, plan, fingerprints of store, order, packing, shape and plan

A folder is written under another name, synced and renamed. Nothing in it is pickled, and no clock or host is recorded: the same
run gives the same bytes. Raises NotFound, CorruptStore. Price: 12 bytes a weight.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import torch
from torch import Tensor

from typecase.errors import CorruptStore, NeedsExtra, NotFound
from typecase.store.atomic import sync_file, sync_folder, write_json
from typecase.train.config import ModelShape, shape_from
from typecase.train.model import GPT

FOLDER, CARD, MODEL, OPTIMISER = "checkpoints", "checkpoint.json", "model.safetensors", "optimiser.safetensors"
FORMAT = 1
_NAME = re.compile(r"step-(\d{7,})")


@dataclass(frozen=True, slots=True)
class Card:
    """What a checkpoint says of itself.

    `step` steps are done and `tokens` targets were learnt; `updates` counts the steps that moved the weights. `threads` and
    `world` are those of the run, on which the last bits depend.
    """

    step: int
    updates: int
    tokens: int
    shape: ModelShape
    plan: Mapping[str, Any]
    fingerprints: Mapping[str, str]
    threads: int
    world: int


def save(run: Path, card: Card, model: GPT, optimiser: torch.optim.Optimizer) -> Path:
    """Writes the checkpoint of `card.step` into the folder of a run; returns its folder."""
    files = _safetensors()
    folder = checkpoint_path(run, card.step)
    temporary = _temporary(folder)
    temporary.mkdir(parents=True, exist_ok=True)
    try:
        files.save_file(weights_of(model), temporary / MODEL)
        files.save_file(_moments(model, optimiser), temporary / OPTIMISER)
        for name in (MODEL, OPTIMISER):
            (temporary / name).chmod(0o644)
            sync_file(temporary / name)
        write_json(temporary / CARD, {"format": FORMAT, **_plain(card)})
        shutil.rmtree(folder, ignore_errors=True)
        temporary.replace(folder)
        sync_folder(folder.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def checkpoint_path(run: Path, step: int) -> Path:
    return run / FOLDER / f"step-{step:07d}"


def steps(run: Path) -> list[int]:
    """The steps at which a run was saved, rising."""
    found = (_NAME.fullmatch(path.name) for path in (run / FOLDER).glob("step-*") if (path / CARD).is_file())
    return sorted(int(match[1]) for match in found if match)


def latest(run: Path | str) -> Path | None:
    """The newest checkpoint of a run, None where there is none."""
    done = steps(Path(run))
    return checkpoint_path(Path(run), done[-1]) if done else None


def forget(run: Path, keep: int) -> None:
    """Removes all checkpoints but the newest `keep`, 0 keeps all; and what a killed process left half written or removed."""
    for step in steps(run)[:-keep] if keep else []:
        folder = checkpoint_path(run, step)
        shutil.rmtree(_temporary(folder), ignore_errors=True)
        folder.replace(_temporary(folder))  # at once: a folder that is half removed would look like a checkpoint to people
    for left in (run / FOLDER).glob(".step-*.tmp"):
        shutil.rmtree(left, ignore_errors=True)


def _temporary(folder: Path) -> Path:
    """A name that no reader takes for a checkpoint. A run has one writer, so whatever else bears such a name is left over."""
    return folder.with_name(f".{folder.name}.{os.getpid()}.tmp")


def read_card(folder: Path) -> Card:
    """The card of the checkpoint in `folder`."""
    path = folder / CARD
    try:
        raw = orjson.loads(path.read_bytes())
        if raw.pop("format") != FORMAT:
            raise CorruptStore(f"{path} is of another format than {FORMAT}: read it with the typecase that wrote it")
        return Card(**{**raw, "shape": shape_from(raw["shape"])})
    except FileNotFoundError:
        raise NotFound(f"{folder} holds no checkpoint: give a folder that `typecase train` made") from None
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise CorruptStore(f"{path} cannot be read ({error!r}): go on from the checkpoint before it") from None


def load_model(path: Path | str, *, step: int | None = None, device: str = "cpu") -> GPT:
    """The model at `path`: a run (its newest checkpoint, or that of `step`), a checkpoint, or a Hugging Face folder."""
    folder = find_checkpoint(Path(path), step)
    if folder is None:
        from typecase.train.importing import import_hf

        return import_hf(Path(path)).to(device)
    model = GPT(read_card(folder).shape, seed=None)
    _fill(folder, MODEL, dict(model.named_parameters()))
    return model.to(device).eval()


def find_checkpoint(path: Path, step: int | None = None) -> Path | None:
    """The checkpoint that `path` names; None where it holds a Hugging Face model. Raises NotFound."""
    if (path / CARD).is_file():
        return path
    done = steps(path)
    if step is not None:
        if step not in done:
            raise NotFound(f"{path} has no checkpoint of step {step}: it has {', '.join(map(str, done)) or 'none'}")
        return checkpoint_path(path, step)
    if done:
        return checkpoint_path(path, done[-1])
    if (path / "config.json").is_file():
        return None
    raise NotFound(f"{path} holds no model: give a run or checkpoint of `typecase train`, or a Hugging Face folder")


def restore(folder: Path, model: GPT, optimiser: torch.optim.Optimizer) -> Card:
    """Gives `model` and `optimiser` what the checkpoint in `folder` holds."""
    card = read_card(folder)
    weights = dict(model.named_parameters())
    _fill(folder, MODEL, weights)
    if card.updates:
        moments = {f"{kind}.{name}": torch.empty_like(w) for name, w in weights.items() for kind in ("mean", "square")}
        _fill(folder, OPTIMISER, moments)
        for name, weight in weights.items():
            done = torch.tensor(float(card.updates), device=weight.device if _is_fused(optimiser) else "cpu")
            optimiser.state[weight] = {
                "step": done,
                "exp_avg": moments[f"mean.{name}"],
                "exp_avg_sq": moments[f"square.{name}"],
            }
    return card


def weights_of(model: GPT) -> dict[str, Tensor]:
    """The weights by name, on the CPU; a tied output layer once."""
    return {name: weight.detach().cpu().contiguous() for name, weight in model.named_parameters()}


def _moments(model: GPT, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for name, weight in model.named_parameters():
        state = optimiser.state.get(weight)
        if state:
            found[f"mean.{name}"] = state["exp_avg"].cpu().contiguous()
            found[f"square.{name}"] = state["exp_avg_sq"].cpu().contiguous()
    return found


def _is_fused(optimiser: torch.optim.Optimizer) -> bool:
    return any(group.get("fused") for group in optimiser.param_groups)


@torch.no_grad()
def _fill(folder: Path, name: str, tensors: Mapping[str, Tensor]) -> None:
    """Copies the tensors of a file into `tensors`, which must have the same names and sizes."""
    try:
        with _safe_open(folder / name) as file:
            if set(file.keys()) != set(tensors):
                odd = sorted(set(file.keys()) ^ set(tensors))[:3]
                raise CorruptStore(f"{folder / name} has other tensors than its card says ({', '.join(odd)})")
            for key, tensor in tensors.items():
                tensor.copy_(file.get_tensor(key))
    except FileNotFoundError:
        raise NotFound(f"{folder / name} does not exist: the checkpoint is not whole, take another") from None
    except (OSError, RuntimeError) as error:
        raise CorruptStore(f"{folder / name} cannot be read ({error}): go on from the checkpoint before it") from None


def _safe_open(path: Path) -> Any:
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise NeedsExtra("a checkpoint", "lm") from None
    try:
        return safe_open(str(path), framework="pt")
    except SafetensorError as error:
        raise CorruptStore(f"{path} cannot be read ({error}): go on from the checkpoint before it") from None


def _safetensors() -> Any:
    try:
        import safetensors.torch
    except ImportError:
        raise NeedsExtra("a checkpoint", "lm") from None
    return safetensors.torch


def _plain(card: Card) -> dict[str, Any]:
    return {
        "step": card.step,
        "updates": card.updates,
        "tokens": card.tokens,
        "shape": card.shape.as_dict(),
        "plan": dict(card.plan),
        "fingerprints": dict(card.fingerprints),
        "threads": card.threads,
        "world": card.world,
    }
