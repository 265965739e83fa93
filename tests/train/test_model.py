"""The model against one written out in plain numbers, and its losses against plain cross-entropy."""

from __future__ import annotations

from typing import Any

import pytest

from tests.train.small_runs import small_shape
from typecase.errors import BadQuery

torch: Any = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402

from tests.lm.tiny import one_thread  # noqa: E402
from typecase.train import losses as losses_module  # noqa: E402
from typecase.train.losses import losses_of, summed_losses  # noqa: E402
from typecase.train.model import GPT, token_losses  # noqa: E402

assert one_thread


def ids_of(*shape: int, seed: int = 0, most: int = 61) -> Any:
    return torch.randint(0, most, shape, generator=torch.Generator().manual_seed(seed))


def naive_logits(model: GPT, ids: Any) -> Any:
    """One sample (t,), position by position, head by head, in float64."""
    shape, d = model.shape, model.shape.head_width
    weights = {name: weight.detach().double() for name, weight in model.named_parameters()}

    def norm(x: Any, weight: Any) -> Any:
        return x / (x.square().mean(-1, keepdim=True) + shape.norm_eps).sqrt() * weight

    def turned(x: Any, place: int) -> Any:
        out = x.clone()
        for i in range(d // 2):
            angle = torch.tensor(place * shape.rope_base ** (-2 * i / d), dtype=torch.float64)
            out[i] = x[i] * angle.cos() - x[i + d // 2] * angle.sin()
            out[i + d // 2] = x[i + d // 2] * angle.cos() + x[i] * angle.sin()
        return out

    x = weights["embedding.weight"][ids]
    for layer in range(shape.layers):
        own = {name.split(".", 2)[2]: w for name, w in weights.items() if name.startswith(f"blocks.{layer}.")}
        qkv = norm(x, own["attention_norm.weight"]) @ own["attention.qkv.weight"].T
        seen = torch.zeros_like(x)
        for head in range(shape.heads):
            key = shape.heads + head // (shape.heads // shape.kv_heads)
            for t in range(len(ids)):
                q = turned(qkv[t, head * d : (head + 1) * d], t)
                scores = torch.stack([q @ turned(qkv[s, key * d : (key + 1) * d], s) / d**0.5 for s in range(t + 1)])
                value = (key + shape.kv_heads) * d
                seen[t, head * d : (head + 1) * d] = scores.softmax(0) @ qkv[: t + 1, value : value + d]
        x = x + seen @ own["attention.out.weight"].T
        gate, up = (norm(x, own["feed_norm.weight"]) @ own["feed_forward.gate_up.weight"].T).chunk(2, -1)
        x = x + (gate / (1 + (-gate).exp()) * up) @ own["feed_forward.down.weight"].T
    head_weight = weights.get("head.weight", weights["embedding.weight"])
    return norm(x, weights["norm.weight"]) @ head_weight.T


@pytest.mark.parametrize("tied", [True, False])
def test_the_model_is_what_its_papers_say(tied: bool) -> None:
    model = GPT(small_shape(tied=tied), seed=3)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(4.0)  # so that attention is not all but even
    ids = ids_of(9)
    torch.testing.assert_close(model(ids[None])[0].double(), naive_logits(model, ids), rtol=1e-3, atol=1e-3)


def test_what_comes_later_is_never_seen() -> None:
    model, ids = GPT(small_shape()), ids_of(2, 12)
    other = ids.clone()
    other[:, 7:] = (other[:, 7:] + 1) % 61
    torch.testing.assert_close(model(ids)[:, :7], model(other)[:, :7], rtol=0, atol=0)
    assert not torch.equal(model(ids)[:, 7:], model(other)[:, 7:])


@pytest.mark.parametrize("anew", [True, False])
def test_documents_kept_apart_do_not_see_each_other(anew: bool) -> None:
    model, ids = GPT(small_shape()), ids_of(1, 12)
    firsts = torch.tensor([[0] * 5 + [5] * 7])
    states = model.states(ids, firsts, anew=anew)
    torch.testing.assert_close(states[:, :5], model.states(ids[:, :5]), rtol=1e-5, atol=1e-6)
    alone = model.states(ids[:, 5:])
    # Attention knows distances alone, so places counted from the sample's start give the same but for rounding.
    torch.testing.assert_close(states[:, 5:], alone, rtol=1e-4, atol=1e-5)


def test_first_weights_are_a_function_of_the_seed() -> None:
    one, same, other = (GPT(small_shape(), seed=seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["embedding.weight"], other["embedding.weight"])


def test_a_sample_beyond_the_context_is_refused() -> None:
    with pytest.raises(BadQuery, match="context of 16"):
        GPT(small_shape())(ids_of(1, 17))


@pytest.mark.parametrize("tied", [True, False])
def test_losses_and_gradients_are_those_of_plain_cross_entropy(tied: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses_module, "_rows", lambda states, weight: 7)  # many pieces, the last one shorter
    model, ids, targets = GPT(small_shape(tied=tied)), ids_of(3, 16), ids_of(3, 16, seed=1)
    mask = torch.rand(3, 16, generator=torch.Generator().manual_seed(2)) > 0.3
    plain = F.cross_entropy(model(ids).flatten(0, 1), targets.flatten(), reduction="none") * mask.flatten()
    (plain.sum() / 5).backward()
    wanted = {name: weight.grad.clone() for name, weight in model.named_parameters()}
    model.zero_grad()
    total, each = summed_losses(model.states(ids).flatten(0, 1), model.head.weight, targets.flatten(), mask.float().flatten())
    (total / 5).backward()
    torch.testing.assert_close(each, plain.detach())
    torch.testing.assert_close(total, plain.sum())
    for name, weight in model.named_parameters():
        torch.testing.assert_close(weight.grad, wanted[name], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(token_losses(model, ids, targets, mask).flatten(), plain)


def test_bfloat16_is_near_float32() -> None:
    states, weight, targets = torch.randn(40, 32), torch.randn(61, 32), ids_of(40)
    exact = losses_of(states, weight, targets)
    with torch.autocast("cpu", torch.bfloat16):
        total, each = summed_losses(states.requires_grad_(), weight.requires_grad_(), targets, torch.ones(40))
    total.backward()
    assert each.dtype == weight.grad.dtype == states.grad.dtype == torch.float32
    torch.testing.assert_close(each, exact, rtol=0.05, atol=0.1)
