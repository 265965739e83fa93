"""The verb train: a model over the tokens and order of a run, with what is not said taken from them.

run file or token set  ->  context, batch, steps, vocabulary, tokenizer   ->  shape and plan  ->  train  ->  export
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typecase.errors import BadQuery, NeedsExtra
from typecase.recipe.build import TOKENIZER
from typecase.store.journal.opening import split_edited
from typecase.store.timeline.timeline import Timeline, open_timeline
from typecase.store.tokenizer.tokenizer import open_tokenizer
from typecase.store.tokens.pair import find_pair
from typecase.train.config import ModelShape, TrainPlan, preset

if TYPE_CHECKING:
    from typecase.train.record import StepRow

Changes = Mapping[str, Any] | Sequence[str]
_PRESET, _CONTEXT, _BATCH = "1m", 256, 16
_MOST_WARMUP = 200
EXPORTS = ("hf",)


@dataclass(frozen=True, slots=True)
class Trained:
    """What a run made: see `train.loop.TrainedRun`. `first` and `last` are the mean losses, in nats a token, of the first and
    the last twentieth of the steps; `export` is the folder of the exported model, with a note where something lacks."""

    path: Path
    shape: ModelShape
    plan: TrainPlan
    parameters: int
    steps: int
    tokens: int
    flops: int
    first: float | None
    last: float | None
    validation: float | None
    resumed_at: int
    fingerprints: Mapping[str, str]
    export: Path | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Known:
    """What tokens and order say of a run: None where they do not."""

    context: int | None
    batch: int | None
    steps: int | None
    vocab: int | None
    tokenizer: Path | None


def train(
    run: Path | str,
    out: Path | str,
    *,
    changes: Changes = (),
    size: str = "",
    sizes: Mapping[str, Any] | None = None,
    plan: Mapping[str, Any] | None = None,
    start: Path | str | None = None,
    validation: Path | str | None = None,
    resume: bool = False,
    export: str | None = None,
    device: str = "auto",
    threads: int = 0,
    progress: Callable[[StepRow], None] | None = None,
    begun: Callable[[ModelShape, TrainPlan], None] | None = None,
) -> Trained:
    """Trains a model over `run`, a run file or a token set, into the folder `out`; see `train.loop.train`.

    `size` names a preset and `sizes` are fields of ModelShape over it; `plan` are fields of TrainPlan. What is left out is
    taken from the order (context, batch, steps), from the tokenizer of the token set (vocabulary), or from the model `start`.
    `export` is "hf" for a Hugging Face model in `out`/hf. `begun` hears the shape and plan before the first step.
    """
    if export is not None and export not in EXPORTS:
        raise BadQuery(f"there is no export {export!r}: choose {', '.join(EXPORTS)}")
    known = _known(run, changes)
    shape, chosen = _shape(known, size, dict(sizes or {}), start), _plan(known, dict(plan or {}))
    try:
        import torch

        from typecase.train.loop import train as train_model
    except ImportError:
        raise NeedsExtra("training a model", "lm") from None
    if threads:
        torch.set_num_threads(threads)
    if begun is not None:
        begun(shape, chosen)
    done = train_model(
        run, out, shape, chosen, order=changes, resume=resume, validation=validation, start=start, device=device,
        progress=progress,
    )  # fmt: skip
    losses = [loss for loss in done.losses if loss is not None]
    part = max(1, len(losses) // 20)
    made = Trained(
        path=done.path,
        shape=shape,
        plan=chosen,
        parameters=shape.parameters,
        steps=done.steps,
        tokens=done.tokens,
        flops=done.flops,
        first=_mean(losses[:part]),
        last=_mean(losses[-part:]),
        validation=done.validation,
        resumed_at=done.resumed_at,
        fingerprints=done.fingerprints,
    )
    return _exported(made, known.tokenizer) if export is not None else made


def _known(run: Path | str, changes: Changes) -> _Known:
    """What can be known before anything is chosen."""
    path = Path(run)
    names = changes if isinstance(changes, Mapping) else [one.partition("=")[0].strip() for one in changes]
    if path.suffix in (".toml", ".json") or "framework" in names:
        with open_timeline(path, changes=changes) as timeline:
            return _of_order(timeline)
    folder = find_pair(split_edited(path)[0]).bin.parent
    tokenizer = folder / TOKENIZER if (folder / TOKENIZER).is_dir() else None
    return _Known(None, None, None, _vocabulary(tokenizer), tokenizer)


def _of_order(timeline: Timeline) -> _Known:
    steps = timeline.num_steps
    schedule = timeline.plan.schedule
    folder = timeline.stores[0].pair.bin.parent / TOKENIZER
    tokenizer = folder if folder.is_dir() else None
    batch = schedule.batch_size(steps - 1) if steps else schedule.batch_size(0)
    return _Known(timeline.laid.sample_tokens - 1, batch, steps, _vocabulary(tokenizer), tokenizer)


def _vocabulary(tokenizer: Path | None) -> int | None:
    return open_tokenizer(str(tokenizer)).num_ids if tokenizer is not None else None


def _shape(known: _Known, size: str, sizes: dict[str, Any], start: Path | str | None) -> ModelShape:
    sizes = {name: value for name, value in sizes.items() if value is not None}
    context = sizes.pop("context", None) or known.context or _CONTEXT
    if start is not None:
        begun = _shape_of(Path(start))
        wrong = [name for name, value in sizes.items() if getattr(begun, name) != value]
        if size or wrong:
            raise BadQuery(f"the model {start} has its sizes already: leave out {', '.join(wrong) or 'the preset'}")
        return replace(begun, context=context)
    vocab = sizes.pop("vocab", None) or known.vocab
    if vocab is None:
        raise BadQuery("the token set does not say how many ids its tokenizer has: give the vocabulary")
    if "heads" in sizes and "kv_heads" not in sizes:
        sizes["kv_heads"] = sizes["heads"]
    if "width" in sizes and "hidden" not in sizes:
        sizes["hidden"] = -(-sizes["width"] * 8 // 3 // 8) * 8  # two thirds of four widths, as Shazeer 2020 has it
    return preset(size or _PRESET, vocab=vocab, context=context, **sizes)


def _shape_of(start: Path) -> ModelShape:
    try:
        from typecase.train.checkpoint import find_checkpoint, read_card
        from typecase.train.importing import shape_of_hf
    except ImportError:
        raise NeedsExtra("training a model", "lm") from None
    folder = find_checkpoint(start)
    return read_card(folder).shape if folder is not None else shape_of_hf(start)


def _plan(known: _Known, given: dict[str, Any]) -> TrainPlan:
    given = {name: value for name, value in given.items() if value is not None}
    unknown = set(given) - {field.name for field in fields(TrainPlan)}
    if unknown:
        raise BadQuery(f"a plan has no {', '.join(sorted(unknown))}")
    given.setdefault("batch", known.batch or _BATCH)
    if given.setdefault("steps", known.steps) is None:
        raise BadQuery("the order has no end of its own: say how many steps")
    given.setdefault("warmup", min(given["steps"] // 10, _MOST_WARMUP))
    if "learning_rate" in given:
        given.setdefault("min_learning_rate", given["learning_rate"] / 10)
    return TrainPlan(**given)


def _exported(made: Trained, tokenizer: Path | None) -> Trained:
    from typecase.train.exporting import export_hf

    folder = made.path / "hf"
    if not speaks() or (folder / "config.json").is_file():  # a finished run that is asked again
        return replace(made, export=folder)
    written = export_hf(made.path, folder, tokenizer=tokenizer)
    return replace(made, export=written.path, note=written.note)


def speaks() -> bool:
    """Whether this process answers: of those that torchrun starts, the first."""
    return os.environ.get("RANK", "0") == "0"


def _mean(losses: Sequence[float]) -> float | None:
    return sum(losses) / len(losses) if losses else None
