"""Importing: a Llama-like checkpoint of Hugging Face as a model of ours, to go on training it.

    config.json            the shape: LlamaConfig, without biases and with plain rotary angles
    model.safetensors      one file, or several by their index; float32, bfloat16 or float16, read as float32

q, k and v become one matrix, gate and up another; nothing else changes, and the logits are the same. What the model cannot do
(biases, scaled angles, other activations, another family) is refused by name. Nothing is unpickled.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import torch
from torch import Tensor

from typecase.errors import BadQuery, CorruptStore, NeedsExtra, NotFound
from typecase.train.config import ModelShape
from typecase.train.model import GPT

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
_ROPE_BASE, _NORM_EPS = 10000.0, 1e-6  # of LlamaConfig, where a config does not say
_PARTS = {
    "attention.qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "attention.out": ("self_attn.o_proj",),
    "feed_forward.gate_up": ("mlp.gate_proj", "mlp.up_proj"),
    "feed_forward.down": ("mlp.down_proj",),
    "attention_norm": ("input_layernorm",),
    "feed_norm": ("post_attention_layernorm",),
}
"""Which matrices of theirs, one under another, are one of ours."""


def names_of(shape: ModelShape) -> dict[str, tuple[str, ...]]:
    """For every weight of ours those of Hugging Face that it is made of, one under another."""
    names: dict[str, tuple[str, ...]] = {
        "embedding.weight": ("model.embed_tokens.weight",),
        "norm.weight": ("model.norm.weight",),
    }
    if not shape.tied:
        names["head.weight"] = ("lm_head.weight",)
    for layer in range(shape.layers):
        for ours, theirs in _PARTS.items():
            names[f"blocks.{layer}.{ours}.weight"] = tuple(f"model.layers.{layer}.{one}.weight" for one in theirs)
    return names


def import_hf(folder: Path | str, *, context: int | None = None) -> GPT:
    """The model in `folder`; `context` cuts its context, which costs nothing of what it knows. Raises NotFound, BadQuery."""
    folder = Path(folder)
    shape = shape_of_hf(folder, context=context)
    tensors = _tensors(folder)
    model = GPT(shape, seed=None)
    weights = dict(model.named_parameters())
    with torch.no_grad():
        for ours, theirs in names_of(shape).items():
            missing = [name for name in theirs if name not in tensors]
            if missing:
                raise CorruptStore(f"{folder} has no tensor {missing[0]}: its files are not whole, or of another family")
            given = torch.cat([tensors[name].float() for name in theirs])
            if given.shape != weights[ours].shape:
                sizes = f"{tuple(given.shape)}, not {tuple(weights[ours].shape)}"
                raise CorruptStore(f"{folder}: {', '.join(theirs)} have the sizes {sizes}, against {CONFIG}")
            weights[ours].copy_(given)
    return model.eval()


def shape_of_hf(folder: Path, *, context: int | None = None) -> ModelShape:
    """The shape that config.json in `folder` describes. Raises NotFound, BadQuery for what the model cannot do."""
    path = folder / CONFIG
    try:
        config: Mapping[str, Any] = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        raise NotFound(f"{folder} holds no {CONFIG}: give the folder of a Hugging Face model") from None
    except orjson.JSONDecodeError as error:
        raise CorruptStore(f"{path} is not JSON ({error}): fetch it again") from None
    _check(path, config)
    try:
        heads, width = int(config["num_attention_heads"]), int(config["hidden_size"])
        longest = int(config.get("max_position_embeddings", 2048))
        return ModelShape(
            layers=int(config["num_hidden_layers"]),
            heads=heads,
            kv_heads=int(config.get("num_key_value_heads") or heads),
            width=width,
            hidden=int(config["intermediate_size"]),
            vocab=int(config["vocab_size"]),
            context=min(context or longest, longest),
            tied=bool(config.get("tie_word_embeddings", False)),
            rope_base=_rope_base(path, config),
            norm_eps=float(config.get("rms_norm_eps", _NORM_EPS)),
        )
    except KeyError as error:
        raise BadQuery(f"{path} does not say {error.args[0]}") from None


def _check(path: Path, config: Mapping[str, Any]) -> None:
    family = config.get("model_type")
    if family != "llama":
        raise BadQuery(f"{path} is of a model_type {family!r}, and only llama can be trained on")
    for name, plain in (("attention_bias", False), ("mlp_bias", False), ("hidden_act", "silu")):
        if config.get(name, plain) != plain:
            raise BadQuery(f"{path} has {name} {config[name]!r}, and only {plain!r} can be trained on")
    own, heads = config.get("head_dim"), config.get("num_attention_heads")
    if own is not None and heads and own * heads != config.get("hidden_size"):
        raise BadQuery(f"{path} has heads of {own}, and only hidden_size / num_attention_heads can be trained on")


def _rope_base(path: Path, config: Mapping[str, Any]) -> float:
    """The base of the angles, where older and newer files say it."""
    told = config.get("rope_parameters") or {}
    scaled = told.get("rope_type", "default") != "default" or config.get("rope_scaling")
    if scaled:
        raise BadQuery(f"{path} scales its rotary angles, and only plain ones can be trained on")
    return float(told.get("rope_theta", config.get("rope_theta", _ROPE_BASE)))


def _tensors(folder: Path) -> dict[str, Tensor]:
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ImportError:
        raise NeedsExtra("a Hugging Face model", "lm") from None
    if (folder / INDEX).is_file():
        files = sorted(set(orjson.loads((folder / INDEX).read_bytes())["weight_map"].values()))
    else:
        files = [WEIGHTS]
    found: dict[str, Tensor] = {}
    for name in files:
        if not (folder / name).is_file():
            raise NotFound(f"{folder} holds no {name}: fetch the model as safetensors")
        try:
            found |= load_file(folder / name)
        except SafetensorError as error:
            raise CorruptStore(f"{folder / name} cannot be read ({error}): fetch it again") from None
    return found
