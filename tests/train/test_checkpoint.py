"""Checkpoints: whole or absent, read back bit for bit, and damage is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.train.small_runs import small_plan, small_shape
from typecase.errors import CorruptStore, NotFound

torch: Any = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from tests.lm.tiny import one_thread  # noqa: E402
from typecase.train import checkpoint  # noqa: E402
from typecase.train.checkpoint import Card  # noqa: E402
from typecase.train.learner import adamw  # noqa: E402
from typecase.train.model import GPT  # noqa: E402

assert one_thread


def card_of(step: int, **changes: Any) -> Card:
    values = {"step": step, "updates": step, "tokens": 9, "shape": small_shape(), "plan": small_plan().as_dict()}
    return Card(**(values | {"fingerprints": {"store": "a"}, "threads": 1, "world": 1} | changes))


def trained(seed: int) -> tuple[GPT, Any]:
    model = GPT(small_shape(), seed=seed)
    optimiser = adamw(model, small_plan())
    for k in range(2):
        model(torch.full((1, 4), k)).square().sum().backward()
        optimiser.step()
        optimiser.zero_grad()
    return model, optimiser


def test_a_checkpoint_gives_back_every_bit(tmp_path: Path) -> None:
    model, optimiser = trained(1)
    folder = checkpoint.save(tmp_path, card_of(2), model, optimiser)
    assert folder == checkpoint.latest(tmp_path) and {path.suffix for path in folder.iterdir()} == {".safetensors", ".json"}
    other = GPT(small_shape(), seed=2)
    fresh = adamw(other, small_plan())
    assert checkpoint.restore(folder, other, fresh) == card_of(2)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))
    for one, own in zip(model.parameters(), other.parameters(), strict=True):
        for key in ("step", "exp_avg", "exp_avg_sq"):
            assert torch.equal(optimiser.state[one][key], fresh.state[own][key])
    for each in (tmp_path, folder):
        assert torch.equal(checkpoint.load_model(each).embedding.weight, model.embedding.weight)


def test_the_newest_are_kept_and_any_can_be_named(tmp_path: Path) -> None:
    model, optimiser = trained(1)
    for step in (5, 10, 12_345_678):
        checkpoint.save(tmp_path, card_of(step), model, optimiser)
    (tmp_path / "checkpoints" / "step-99999999").mkdir()  # without a card it is none
    assert checkpoint.steps(tmp_path) == [5, 10, 12_345_678]
    checkpoint.forget(tmp_path, 0)
    assert checkpoint.find_checkpoint(tmp_path, 5) == checkpoint.checkpoint_path(tmp_path, 5)
    checkpoint.forget(tmp_path, 2)
    assert checkpoint.steps(tmp_path) == [10, 12_345_678]
    with pytest.raises(NotFound, match="10, 12345678"):
        checkpoint.load_model(tmp_path, step=5)


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, optimiser = trained(1)
    checkpoint.save(tmp_path, card_of(1), model, optimiser)
    monkeypatch.setattr(checkpoint, "write_json", lambda *given: (_ for _ in ()).throw(OSError("disk full")))
    for step in (1, 2):
        with pytest.raises(OSError, match="disk full"):
            checkpoint.save(tmp_path, card_of(step), model, optimiser)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-0000001"]
    assert checkpoint.read_card(checkpoint.checkpoint_path(tmp_path, 1)) == card_of(1)


@pytest.mark.parametrize("name", [checkpoint.MODEL, checkpoint.CARD])
def test_damage_is_said(tmp_path: Path, name: str) -> None:
    model, optimiser = trained(1)
    file = checkpoint.save(tmp_path, card_of(1), model, optimiser) / name
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(CorruptStore, match=name.replace(".", r"\.")):
        checkpoint.load_model(tmp_path)


def test_weights_of_another_shape_are_refused(tmp_path: Path) -> None:
    model, optimiser = trained(1)
    checkpoint.save(tmp_path, card_of(1, shape=small_shape(layers=3)), model, optimiser)
    with pytest.raises(CorruptStore, match="other tensors"):
        checkpoint.load_model(tmp_path)
    with pytest.raises(NotFound):
        checkpoint.read_card(tmp_path)
