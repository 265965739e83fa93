"""Tune: the loop that teaches a causal language model what to say behind a prompt.

    Row     ids      p p p p p │ r r r        what is read: the prompt, and the reply but its last token
            targets            │ t t t t      what must be said at the last positions; SILENT counts nothing
                          └────┘ the first is said behind the prompt's last token

Next-token cross-entropy on the reply alone, AdamW (Loshchilov & Hutter 2019) with a cosine rate after a linear warm-up,
gradients clipped, a batch divided into parts that fit the memory: how it is divided changes rounding, not the loss. Every
`every` steps the held-out rows are scored and a checkpoint is written, all or nothing; the weights that did best are kept,
and `patience` scorings without a better one end the run. What step k learns from is a function of k, so a run that was
killed and started again ends with the bytes that it would have had; on a CPU, with one number of threads.

Price: 6 · parameters floating-point operations a token (4 with updates of low rank); memory for weights, gradients, two
numbers of the optimiser for each trained weight, and the activations of `batch_tokens`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from typecase.core.selection.keys import derive_seed
from typecase.errors import BadQuery, BadRecipe, FingerprintMismatch
from typecase.lm.forward import chunks
from typecase.store.atomic import atomic_path
from typecase.train.rows import SILENT, Plan, Row

_STATE = "state.pt"
Precision = Literal["auto", "float32", "bfloat16"]


@dataclass(frozen=True, slots=True)
class Tuning:
    """How a model is tuned.

    steps         batches at most
    rate          the highest learning rate; it rises over `warmup` (a share of the steps) and falls as a cosine to 0
    decay         weight decay, on matrices alone
    clip          the longest gradient
    every         steps between two scorings of the held-out rows; a checkpoint is written then
    patience      scorings without a better one that end the run; 0 never does
    batch_tokens  padded tokens of one part of a batch
    precision     of the arithmetic; auto is bfloat16 on a GPU that has it, float32 on a CPU. Weights are float32
    recompute     activations are computed twice instead of kept: less memory, a third more time
    """

    steps: int
    rate: float = 1e-4
    warmup: float = 0.05
    decay: float = 0.1
    betas: tuple[float, float] = (0.9, 0.95)
    clip: float = 1.0
    every: int = 100
    patience: int = 0
    batch_tokens: int = 8192
    precision: Precision = "auto"
    recompute: bool = False

    def __post_init__(self) -> None:
        if self.steps < 1 or self.every < 1 or self.batch_tokens < 1 or self.patience < 0:
            raise BadQuery(f"steps, every and batch_tokens are 1 or more and patience is not negative, got {self}")
        if self.rate <= 0 or not 0 <= self.warmup <= 1 or self.clip <= 0 or self.decay < 0:
            raise BadQuery(f"rate and clip are above 0, warmup within 0 and 1, decay not negative, got {self}")


@dataclass(frozen=True, slots=True)
class Scored:
    """The losses at one scoring, in nats a token of the reply: of the batches since the last one, if any, and held out."""

    step: int
    trained: float | None
    held_out: float


class Watch(Protocol):
    """Who is told how far a run is."""

    def stepped(self, step: int, steps: int, loss: float) -> None:
        """`step` of `steps` batches are learnt; the last had this loss."""

    def scored(self, scored: Scored, best: bool) -> None:
        """The held-out rows were scored; `best` where never better."""


class Unwatched:
    """Tells nobody."""

    def stepped(self, step: int, steps: int, loss: float) -> None:
        pass

    def scored(self, scored: Scored, best: bool) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Tuned:
    """What a run did; the model then has the weights of `best_step`. `resumed_at` is the step that it was taken up at."""

    history: tuple[Scored, ...]
    best_step: int
    steps: int
    resumed_at: int


@dataclass(slots=True)
class _Run:
    """Where a run stands."""

    step: int = 0
    losses: list[float] = field(default_factory=list)  # of the batches since the last scoring
    history: list[Scored] = field(default_factory=list)

    @property
    def best(self) -> Scored:
        return min(self.history, key=lambda scored: (scored.held_out, scored.step))

    def tired(self, patience: int) -> bool:
        """Whether the last `patience` scorings brought nothing better."""
        since = [scored for scored in self.history if scored.step > self.best.step] if self.history else []
        return 0 < patience <= len(since)


def tune(
    model: Any,
    plan: Plan,
    held_out: Sequence[Row],
    tuning: Tuning,
    *,
    folder: Path,
    seed: int,
    name: str,
    watch: Watch | None = None,
) -> Tuned:
    """Trains what of `model` needs gradients and leaves it with the weights that did best on `held_out`.

    Checkpoints lie in `folder`; a run called `name` is taken up where it stopped. Raises FingerprintMismatch where the
    folder holds another run, BadRecipe when the loss is no number any more.
    """
    if not held_out:
        raise BadRecipe("there is no held-out row to score the training by: give more documents or sources")
    watch = watch or Unwatched()
    trained = {key: weight for key, weight in model.named_parameters() if weight.requires_grad}
    optimiser = _optimiser(trained, tuning)
    folder.mkdir(parents=True, exist_ok=True)
    run = _resume(folder, name, trained, optimiser)
    resumed_at = run.step
    speaker = Speaker(model, tuning)
    if tuning.recompute:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if not run.history:
        _score(run, speaker, held_out, trained, optimiser, folder, name, watch)
    while run.step < tuning.steps and not run.tired(tuning.patience):
        torch.manual_seed(derive_seed(seed, f"step {run.step}") >> 1)  # dropout, where a model has any
        loss = _step(speaker, plan(run.step), trained, optimiser, _rate_at(run.step, tuning), tuning)
        run.step += 1
        run.losses.append(loss)
        watch.stepped(run.step, tuning.steps, loss)
        if run.step % tuning.every == 0 or run.step == tuning.steps:
            _score(run, speaker, held_out, trained, optimiser, folder, name, watch)
    _load(trained, torch.load(_best_path(folder, run.best.step), map_location="cpu", weights_only=True))
    model.eval()
    return Tuned(tuple(run.history), run.best.step, run.step, resumed_at)


def _optimiser(trained: Mapping[str, Tensor], tuning: Tuning) -> torch.optim.AdamW:
    """AdamW; vectors (norms, biases) do not decay."""
    groups = [
        {"params": [weight for weight in trained.values() if weight.dim() > 1], "weight_decay": tuning.decay},
        {"params": [weight for weight in trained.values() if weight.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW([group for group in groups if group["params"]], lr=tuning.rate, betas=tuning.betas)


def _rate_at(step: int, tuning: Tuning) -> float:
    """The learning rate of a step, counted from 0."""
    warmup = math.ceil(tuning.warmup * tuning.steps)
    if step < warmup:
        return tuning.rate * (step + 1) / warmup
    return tuning.rate * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, tuning.steps - warmup)))


def _step(
    speaker: Speaker,
    rows: Sequence[Row],
    trained: Mapping[str, Tensor],
    optimiser: torch.optim.Optimizer,
    rate: float,
    tuning: Tuning,
) -> float:
    """One batch: gradients of all its parts, then one step of the optimiser. Returns its loss in nats a token."""
    speaker.model.train()
    optimiser.zero_grad(set_to_none=True)
    said = sum(target != SILENT for row in rows for target in row.targets)
    total = 0.0
    for part in speaker.parts(rows):
        loss = speaker.loss(part)
        (loss / said).backward()  # type: ignore[no-untyped-call]
        total += float(loss.detach())
    if not math.isfinite(total):
        raise BadRecipe("the loss is no number any more: take a lower learning rate, or float32")
    nn.utils.clip_grad_norm_(list(trained.values()), tuning.clip)
    for group in optimiser.param_groups:
        group["lr"] = rate
    optimiser.step()
    return total / said


class Speaker:
    """A model that says replies: its losses, a padded part of a batch at a time."""

    def __init__(self, model: Any, tuning: Tuning) -> None:
        self.model, self._tuning = model, tuning
        self._device = next(model.parameters()).device
        names = inspect.signature(model.forward).parameters
        self._keeps, self._places = "logits_to_keep" in names, "position_ids" in names
        self._half = tuning.precision == "bfloat16" or (
            tuning.precision == "auto" and self._device.type == "cuda" and torch.cuda.is_bf16_supported()
        )

    def parts(self, rows: Sequence[Row]) -> Iterator[list[Row]]:
        """The rows, shortest first, in parts of at most `batch_tokens` padded tokens."""
        lengths = [len(row.ids) for row in rows]
        order = sorted(range(len(rows)), key=lambda k: (lengths[k], k))
        for chunk in chunks(order, lengths, self._tuning.batch_tokens):
            yield [rows[k] for k in chunk]

    def loss(self, rows: Sequence[Row]) -> Tensor:
        """Sum of the losses of all targets of the rows, nats, float32."""
        longest, said = max(len(row.ids) for row in rows), max(len(row.targets) for row in rows)
        ids = torch.tensor([[0] * (longest - len(row.ids)) + list(row.ids) for row in rows], device=self._device)
        mask = torch.tensor([[0] * (longest - len(row.ids)) + [1] * len(row.ids) for row in rows], device=self._device)
        silent = [[SILENT] * (said - len(row.targets)) + list(row.targets) for row in rows]
        targets = torch.tensor(silent, device=self._device)
        given: dict[str, Any] = {"input_ids": ids, "attention_mask": mask, "use_cache": False}
        if self._places:
            given["position_ids"] = (mask.cumsum(1) - 1).clamp(min=0)
        if self._keeps:
            given["logits_to_keep"] = said
        with self._arithmetic():
            logits = self.model(**given).logits[:, -said:]
        return nn.functional.cross_entropy(
            logits.float().flatten(0, 1), targets.flatten(), ignore_index=SILENT, reduction="sum"
        )

    @torch.no_grad()
    def held_out(self, rows: Sequence[Row]) -> float:
        """Mean loss of the targets, nats a token."""
        self.model.eval()
        said = sum(target != SILENT for row in rows for target in row.targets)
        return math.fsum(float(self.loss(part)) for part in self.parts(rows)) / said

    def _arithmetic(self) -> AbstractContextManager[Any]:
        return torch.autocast(self._device.type, torch.bfloat16) if self._half else nullcontext()


def _score(
    run: _Run,
    speaker: Speaker,
    held_out: Sequence[Row],
    trained: Mapping[str, Tensor],
    optimiser: torch.optim.Optimizer,
    folder: Path,
    name: str,
    watch: Watch,
) -> None:
    """Scores the held-out rows and writes the checkpoint: first the best weights, then the state that names them."""
    learnt = math.fsum(run.losses) / len(run.losses) if run.losses else None
    run.history.append(Scored(run.step, learnt, speaker.held_out(held_out)))
    run.losses.clear()
    best = run.best.step
    if best == run.step:
        _save(_best_path(folder, best), _weights(trained))
    state = {"name": name, "step": run.step, "history": [asdict(scored) for scored in run.history]}
    _save(folder / _STATE, state | {"weights": _weights(trained), "optimiser": optimiser.state_dict()})
    for old in folder.glob("best-*.pt"):
        if old != _best_path(folder, best):
            old.unlink()
    watch.scored(run.history[-1], best == run.step)


def _resume(folder: Path, name: str, trained: Mapping[str, Tensor], optimiser: torch.optim.Optimizer) -> _Run:
    path = folder / _STATE
    if not path.is_file():
        return _Run()
    state = torch.load(path, map_location="cpu", weights_only=True)
    if state["name"] != name:
        raise FingerprintMismatch(f"{folder} holds the checkpoint of another run: choose another folder, or remove it first")
    _load(trained, state["weights"])
    optimiser.load_state_dict(state["optimiser"])
    return _Run(state["step"], [], [Scored(**scored) for scored in state["history"]])


def _weights(trained: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {key: weight.detach().cpu() for key, weight in trained.items()}


@torch.no_grad()
def _load(trained: Mapping[str, Tensor], kept: Mapping[str, Tensor]) -> None:
    for key, weight in trained.items():
        weight.copy_(kept[key])


def _best_path(folder: Path, step: int) -> Path:
    return folder / f"best-{step:07d}.pt"


def _save(path: Path, value: Any) -> None:
    with atomic_path(path) as temporary:
        torch.save(value, temporary)
