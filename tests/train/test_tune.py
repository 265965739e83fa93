"""The loop: its loss is the plain one, parts of a batch do not matter, and a killed run ends with the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.lm.tiny import one_thread
from typecase.errors import BadQuery, FingerprintMismatch

pytest.importorskip("torch")
pytest.importorskip("transformers")
import torch

from typecase.train.lora import RankUpdate, adapt, merge
from typecase.train.rows import SILENT, Row
from typecase.train.scratch import TINY, make_scratch
from typecase.train.tune import Scored, Speaker, Tuned, Tuning, tune

assert one_thread
TEXTS = ["one two three four", "a b c d e f g", "The text says so.\n5\n4"]
QUICK = Tuning(steps=12, rate=3e-3, every=4, batch_tokens=64, warmup=0.2)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_scratch(tmp_path_factory.mktemp("scratch") / "model", TEXTS, size=TINY, seed=3)


def opened(folder: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def rows(num: int, seed: int) -> list[Row]:
    """Prompts of several lengths; the reply repeats the prompt's first token and one of two others."""
    dice = np.random.default_rng(seed)
    made = []
    for _ in range(num):
        prompt = dice.integers(2, 60, dice.integers(3, 20)).tolist()
        reply = [prompt[0], 70 + prompt[0] % 2, 1]
        made.append(Row((*prompt, *reply[:-1]), tuple(reply)))
    return made


TAUGHT, HELD_OUT = rows(40, 1), rows(10, 2)


def plan(step: int) -> Sequence[Row]:
    return [TAUGHT[(6 * step + k) % len(TAUGHT)] for k in range(6)]


class Killed(Exception):
    """Stands for a power cut."""


class Cut:
    """Pulls the plug after some steps."""

    def __init__(self, after: int) -> None:
        self.after = after

    def stepped(self, step: int, steps: int, loss: float) -> None:
        if step == self.after:
            raise Killed

    def scored(self, scored: Scored, best: bool) -> None:
        pass


def run(model: Any, folder: Path, tuning: Tuning = QUICK, **given: Any) -> Tuned:
    return tune(model, plan, HELD_OUT, tuning, folder=folder, seed=5, name="run", **given)


def weights_of(model: Any) -> dict[str, bytes]:
    return {name: weight.detach().numpy().tobytes() for name, weight in model.named_parameters()}


def test_the_loss_is_the_mean_of_minus_log_chances_of_the_reply(checkpoint: Path) -> None:
    model = opened(checkpoint).eval()
    speaker = Speaker(model, QUICK)
    by_hand, said = 0.0, 0
    for row in HELD_OUT:
        chances = model(input_ids=torch.tensor([row.ids])).logits[0].log_softmax(-1)
        for place, target in enumerate(row.targets, start=len(row.ids) - len(row.targets)):
            by_hand -= chances[place, target].item()
            said += 1
    assert speaker.held_out(HELD_OUT) == pytest.approx(by_hand / said, rel=1e-5)


def test_what_is_silent_counts_nothing(checkpoint: Path) -> None:
    speaker = Speaker(opened(checkpoint), QUICK)
    row = HELD_OUT[0]
    quiet = replace(row, targets=(SILENT, *row.targets[1:]))
    longer = replace(row, targets=(SILENT, SILENT, *row.targets))
    assert speaker.loss([quiet]).item() < speaker.loss([row]).item()
    assert speaker.loss([longer]).item() == pytest.approx(speaker.loss([row]).item(), rel=1e-6)


@pytest.mark.parametrize("batch_tokens", [1, 50, 10_000])
def test_how_a_batch_is_divided_does_not_change_its_gradient(checkpoint: Path, batch_tokens: int) -> None:
    def gradients(tuning: Tuning) -> dict[str, torch.Tensor]:
        model = opened(checkpoint)
        speaker = Speaker(model, tuning)
        for part in speaker.parts(TAUGHT[:8]):
            speaker.loss(part).backward()
        return {name: weight.grad for name, weight in model.named_parameters()}

    whole, parts = gradients(QUICK), gradients(replace(QUICK, batch_tokens=batch_tokens))
    for name, gradient in whole.items():
        torch.testing.assert_close(parts[name], gradient, atol=1e-4, rtol=1e-3)


def test_it_learns_and_keeps_the_best(checkpoint: Path, tmp_path: Path) -> None:
    model = opened(checkpoint)
    tuned = run(model, tmp_path, replace(QUICK, steps=80, every=20, rate=1e-2))
    first, best = tuned.history[0], min(tuned.history, key=lambda scored: scored.held_out)
    assert best.held_out < 0.5 * first.held_out
    assert tuned.best_step == best.step
    assert Speaker(model, QUICK).held_out(HELD_OUT) == pytest.approx(best.held_out, abs=1e-6)
    assert len(list(tmp_path.glob("best-*.pt"))) == 1


def test_the_same_seed_gives_the_same_bytes(checkpoint: Path, tmp_path: Path) -> None:
    one, other = opened(checkpoint), opened(checkpoint)
    assert run(one, tmp_path / "one").history == run(other, tmp_path / "other").history
    assert weights_of(one) == weights_of(other) != weights_of(opened(checkpoint))


@pytest.mark.parametrize("after", [1, 4, 7, 11])
@pytest.mark.parametrize("rank", [0, 2])
def test_a_run_that_was_killed_ends_with_the_same_bytes(checkpoint: Path, tmp_path: Path, after: int, rank: int) -> None:
    def fresh() -> Any:
        model = opened(checkpoint)
        if rank:
            adapt(model, rank=rank, alpha=4, seed=9)
        return model

    straight, broken = fresh(), fresh()
    whole = run(straight, tmp_path / "straight")
    with pytest.raises(Killed):
        run(broken, tmp_path / "broken", watch=Cut(after))
    again = fresh()
    resumed = run(again, tmp_path / "broken")
    assert resumed.resumed_at == (after - 1) // 4 * 4
    assert resumed.history == whole.history and resumed.best_step == whole.best_step
    assert weights_of(again) == weights_of(straight)


def test_a_run_without_progress_stops_early(checkpoint: Path, tmp_path: Path) -> None:
    hopeless = replace(QUICK, steps=40, every=2, rate=3.0, warmup=0.0, patience=3)
    tuned = run(opened(checkpoint), tmp_path, hopeless)
    assert tuned.best_step == 0 and tuned.steps == 6


def test_another_runs_checkpoint_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    run(opened(checkpoint), tmp_path, replace(QUICK, steps=1))
    with pytest.raises(FingerprintMismatch, match="another run"):
        tune(opened(checkpoint), plan, HELD_OUT, QUICK, folder=tmp_path, seed=5, name="other")


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"rate": 0.0}, {"clip": 0.0}, {"warmup": 2.0}, {"patience": -1}])
def test_what_cannot_be_meant_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadQuery):
        replace(QUICK, **wrong)


def test_an_update_changes_nothing_at_first_and_only_itself_is_trained(checkpoint: Path, tmp_path: Path) -> None:
    plain, adapted = opened(checkpoint).eval(), opened(checkpoint)
    num = adapt(adapted, rank=3, alpha=6, seed=1)
    assert num == 2 * 7  # four linear layers of attention and three behind it, in two blocks
    ids = torch.tensor([TAUGHT[0].ids])
    assert torch.equal(plain(input_ids=ids).logits, adapted.eval()(input_ids=ids).logits)
    before = {name: weight.clone() for name, weight in adapted.named_parameters()}
    run(adapted, tmp_path)
    changed = {name for name, weight in adapted.named_parameters() if not torch.equal(weight, before[name])}
    assert changed == {name for name in before if name.endswith((".a", ".b"))}


def test_merging_an_update_leaves_the_model_as_it_speaks_and_as_it_was_built(checkpoint: Path, tmp_path: Path) -> None:
    model, built = opened(checkpoint), opened(checkpoint)
    adapt(model, rank=2, alpha=4, seed=1, layers=("q_proj", "down_proj"))
    run(model, tmp_path)
    ids = torch.tensor([TAUGHT[0].ids])
    said = model(input_ids=ids).logits
    merge(model)
    assert not any(isinstance(module, RankUpdate) for module in model.modules())
    assert [name for name, _ in model.named_parameters()] == [name for name, _ in built.named_parameters()]
    torch.testing.assert_close(model(input_ids=ids).logits, said, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(built(input_ids=ids).logits, said, atol=1e-5)


def test_a_layer_that_is_not_there_is_named_with_those_that_are(checkpoint: Path) -> None:
    with pytest.raises(BadQuery, match=r"q_projection; it has .*q_proj"):
        adapt(opened(checkpoint), rank=2, alpha=4, seed=1, layers=("q_projection",))
