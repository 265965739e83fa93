"""Exporting: a trained model as Hugging Face has one, tokenizer and all.

    RUN -> config.json  model.safetensors  generation_config.json  tokenizer.json  tokenizer_config.json  manifest.json

`AutoModelForCausalLM.from_pretrained(folder)` then gives the same logits: the matrices that are one here are cut into theirs,
a tied output layer is not written. The tokenizer is that of the token set, and is written only when it gives the same ids as
the one that made the tokens. The folder is complete or absent, and nothing in it is pickled.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from typecase.errors import AlreadyExists, NeedsExtra, TypecaseError
from typecase.store.atomic import sync_file, sync_folder, write_json
from typecase.store.manifest import NAME as MANIFEST
from typecase.store.manifest import FileEntry, Manifest, Parent, library_versions, read_manifest, relative, write_manifest
from typecase.store.tokenizer.files import copy_tokenizer, find_tokenizer
from typecase.store.tokenizer.known import PROBE_TEXTS
from typecase.store.tokenizer.tokenizer import Tokenizer, open_tokenizer
from typecase.train.checkpoint import find_checkpoint, load_model
from typecase.train.config import ModelShape
from typecase.train.importing import CONFIG, WEIGHTS, names_of
from typecase.train.model import GPT

STAGE, VERSION = "export-model", 1
_TOKENIZER, _SETTINGS, _GENERATION = "tokenizer.json", "tokenizer_config.json", "generation_config.json"
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True, slots=True)
class ExportedModel:
    """Where it lies, its files, and why it has no tokenizer, where it has none."""

    path: Path
    files: tuple[str, ...]
    note: str = ""


def export_hf(
    model: GPT | Path | str, out: Path | str, *, tokenizer: Path | str | None = None, dtype: str = "float32"
) -> ExportedModel:
    """Writes a model, or the newest checkpoint of a run, into the new folder `out`, in float32 or bfloat16.

    `tokenizer` is a folder or file of one, or `package:NAME`; by default none is written. Raises AlreadyExists, NotFound.
    """
    folder, given = Path(out), model if isinstance(model, GPT) else load_model(model)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise AlreadyExists(f"{folder} is there already: choose another folder, or remove it first")
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        opened, note = (
            _write_tokenizer(str(tokenizer), temporary) if tokenizer is not None else (None, "no tokenizer was named")
        )
        write_json(temporary / CONFIG, _config(given.shape, opened, dtype))
        write_json(temporary / _GENERATION, {key: value for key, value in _ends(opened).items() if value is not None})
        _write_weights(given, temporary / WEIGHTS, _DTYPES[dtype])
        names = tuple(sorted(path.name for path in temporary.iterdir()))
        write_manifest(temporary, _manifest(model, given.shape, temporary, folder, names, dtype))
        if folder.is_dir():
            folder.rmdir()
        temporary.replace(folder)
        sync_folder(folder.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return ExportedModel(folder, names, note)


def weights_of_hf(model: GPT) -> dict[str, Tensor]:
    """The weights by the names of Hugging Face, float32, on the CPU."""
    shape = model.shape
    found: dict[str, Tensor] = {}
    heads = [shape.heads * shape.head_width, *[shape.kv_heads * shape.head_width] * 2]
    rows = {3: heads, 2: [shape.hidden] * 2}
    weights = dict(model.named_parameters())
    for ours, theirs in names_of(shape).items():
        weight = weights[ours].detach().cpu()
        parts = torch.split(weight, rows[len(theirs)]) if len(theirs) > 1 else (weight,)
        found |= {name: part.contiguous() for name, part in zip(theirs, parts, strict=True)}
    return found


def _write_weights(model: GPT, path: Path, dtype: torch.dtype) -> None:
    try:
        from safetensors.torch import save_file
    except ImportError:
        raise NeedsExtra("a Hugging Face model", "lm") from None
    tensors = {name: weight.to(dtype).clone() for name, weight in weights_of_hf(model).items()}
    save_file(tensors, path, metadata={"format": "pt"})
    path.chmod(0o644)
    sync_file(path)


def _config(shape: ModelShape, tokenizer: Tokenizer | None, dtype: str) -> dict[str, Any]:
    """LlamaConfig. The base of the angles stands where releases before and since the fifth look for it."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": shape.vocab,
        "hidden_size": shape.width,
        "intermediate_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_width,
        "max_position_embeddings": shape.context,
        "hidden_act": "silu",
        "rms_norm_eps": shape.norm_eps,
        "rope_theta": shape.rope_base,
        "rope_parameters": {"rope_type": "default", "rope_theta": shape.rope_base},
        "attention_bias": False,
        "attention_dropout": 0.0,
        "mlp_bias": False,
        "initializer_range": 0.02,
        "tie_word_embeddings": shape.tied,
        "use_cache": True,
        "torch_dtype": dtype,
        **_ends(tokenizer),
    }


def _ends(tokenizer: Tokenizer | None) -> dict[str, int | None]:
    """What begins and ends a document: in a token set that is the end-of-document token."""
    if tokenizer is None:
        return {"bos_token_id": None, "eos_token_id": None}
    return {"bos_token_id": tokenizer.bos_id, "eos_token_id": tokenizer.eod_id}


def _write_tokenizer(spec: str, folder: Path) -> tuple[Tokenizer | None, str]:
    """Writes the tokenizer `spec` where transformers looks for it; says why it could not."""
    opened, files = open_tokenizer(spec), find_tokenizer(spec)
    if files.is_rank_file:
        return opened, "a rank file of tiktoken has no form that transformers reads: no tokenizer was written"
    if files.merges is not None:
        (folder / _TOKENIZER).write_text(_byte_level(files.main, files.merges, opened.special_tokens), "utf-8")
    else:
        copy_tokenizer(spec, folder)
    written = open_tokenizer(str(folder))
    if any(written.encode(text).tolist() != opened.encode(text).tolist() for text in PROBE_TEXTS):
        raise TypecaseError(f"{spec} written as {_TOKENIZER} gives other ids: export without a tokenizer, and report this")
    if not (folder / _SETTINGS).is_file():
        names = {number: name for name, number in {**opened.added_tokens, **opened.special_tokens}.items()}
        ends = {"bos_token": names.get(_or_none(opened.bos_id)), "eos_token": names.get(_or_none(opened.eod_id))}
        told = {key: value for key, value in ends.items() if value is not None}
        write_json(folder / _SETTINGS, {"tokenizer_class": "PreTrainedTokenizerFast", **told})
    return opened, ""


def _or_none(number: int | None) -> int:
    return -1 if number is None else number


def _byte_level(vocabulary: Path, merges: Path, specials: Mapping[str, int]) -> str:
    """GPT-2's pair as a tokenizer.json."""
    import tokenizers
    from tokenizers import AddedToken, decoders, models, pre_tokenizers

    made = tokenizers.Tokenizer(models.BPE.from_file(str(vocabulary), str(merges)))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(name, special=True) for name, _ in sorted(specials.items(), key=lambda one: one[1])])
    return str(made.to_str())


def _manifest(
    model: GPT | Path | str, shape: ModelShape, folder: Path, home: Path, names: tuple[str, ...], dtype: str
) -> Manifest:
    parents: tuple[Parent, ...] = ()
    params: dict[str, Any] = {"shape": shape.as_dict(), "dtype": dtype}
    if not isinstance(model, GPT):
        run = Path(model)
        found = find_checkpoint(run)
        params["checkpoint"] = found.name if found is not None else ""
        if (run / MANIFEST).is_file():
            parents = (Parent("model", "model", relative(run, home), read_manifest(run).content),)
    files = tuple(FileEntry.of(folder, name) for name in names)
    return Manifest("model", STAGE, VERSION, params, parents, files, libraries=library_versions("torch", "safetensors"))
