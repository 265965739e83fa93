"""Matrices are found in every kind of file, tied is told by evidence, and what is damaged or doubtful is refused."""

from __future__ import annotations

import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.store.weights.making import bf16, write_folder, write_safetensors
from typecase.errors import BadQuery, CorruptStore, NotFound
from typecase.store.weights.checkpoint import open_checkpoint
from typecase.store.weights.pickled import read_entries

RNG = np.random.default_rng(0)
E, U = (RNG.normal(size=(40, 16)).astype(np.float32) for _ in range(2))
LAYER = {"model.layers.0.mlp.up_proj.weight": RNG.normal(size=(40, 16)).astype(np.float32)}
CONFIG = {"vocab_size": 40, "hidden_size": 16}


def test_sharded_bf16_and_untied(tmp_path: Path) -> None:
    parts: list[dict[str, np.ndarray]] = [
        {"model.embed_tokens.weight": bf16(E), **LAYER},
        {"lm_head.weight": U.astype(np.float16)},
    ]
    found = open_checkpoint(write_folder(tmp_path / "m", parts, {**CONFIG, "tie_word_embeddings": False}))
    assert not found.tied and found.notes == () and found.input.storage == "BF16" and found.output.storage == "F16"
    assert np.array_equal(found.output.rows(3, 9), U.astype(np.float16).astype(np.float32)[3:9])
    assert np.array_equal(found.input.gather([7, 0]), (bf16(E).astype(np.uint32) << 16).view(np.float32)[[7, 0]])


def test_tied_by_evidence(tmp_path: Path) -> None:
    alone = open_checkpoint(
        write_folder(tmp_path / "a", [{"transformer.wte.weight": E}], {**CONFIG, "tie_word_embeddings": False})
    )
    assert alone.tied and alone.output is alone.input and "the config says untied" in alone.notes[0]
    same = open_checkpoint(write_folder(tmp_path / "b", [{"gpt_neox.embed_in.weight": E, "embed_out.weight": E}], CONFIG))
    assert same.tied and "has the bytes" in same.evidence and same.notes == ()
    other = open_checkpoint(write_folder(tmp_path / "c", [{"gpt_neox.embed_in.weight": E, "embed_out.weight": U}], CONFIG))
    assert not other.tied


def test_bias_counts_when_it_is_something(tmp_path: Path) -> None:
    bias = np.linspace(0, 1, 40, dtype=np.float32)
    parts = {"wte.weight": E, "lm_head.weight": U}
    with_bias = open_checkpoint(write_folder(tmp_path / "a", [{**parts, "lm_head.bias": bias}], CONFIG))
    assert with_bias.bias is not None and np.array_equal(with_bias.bias, bias)
    assert open_checkpoint(write_folder(tmp_path / "b", [{**parts, "lm_head.bias": bias * 1e-6}], CONFIG)).bias is None


def test_doubtful_matrices_are_refused_with_a_list(tmp_path: Path) -> None:
    two = write_folder(tmp_path / "a", [{"encoder.embed_tokens.weight": E, "decoder.embed_tokens.weight": U}], CONFIG)
    with pytest.raises(BadQuery, match=r"several tensors could be the input embedding.*--input-matrix"):
        open_checkpoint(two)
    assert open_checkpoint(two, input_name="decoder.embed_tokens.weight").input.name == "decoder.embed_tokens.weight"
    per_layer = {"per_layer_token_embd.weight": np.zeros((40, 64), np.float32), "token_embd.weight": E}
    assert open_checkpoint(write_folder(tmp_path / "b", [per_layer], CONFIG)).input.width == 16
    by_shape = open_checkpoint(write_folder(tmp_path / "c", [{"strange": E, **LAYER}], CONFIG))
    assert by_shape.input.name == "strange"
    with pytest.raises(BadQuery, match="another tokenizer"):
        open_checkpoint(write_folder(tmp_path / "d", [{"wte.weight": E}], CONFIG), num_ids=41)
    with pytest.raises(NotFound, match="looks like an input embedding"):
        open_checkpoint(write_safetensors(tmp_path / "e" / "m.safetensors", {"b": E[0]}))
    with pytest.raises(NotFound, match="no tensor 'nothing'"):
        open_checkpoint(two, input_name="nothing")


def test_damaged_files_are_told(tmp_path: Path) -> None:
    file = write_safetensors(tmp_path / "m.safetensors", {"wte.weight": E})
    whole = file.read_bytes()
    for cut in (3, 20, len(whole) - 1):
        file.write_bytes(whole[:cut])
        with pytest.raises(CorruptStore, match="cut short"):
            open_checkpoint(file)
    file.write_bytes(whole.replace(b'"shape": [40, 16]', b'"shape": [41, 16]'))
    with pytest.raises(CorruptStore, match="takes 2560 bytes"):
        open_checkpoint(file)
    header = json.dumps(
        {n: {"dtype": "F32", "shape": [2], "data_offsets": o} for n, o in (("a", [0, 8]), ("b", [4, 12]))}
    ).encode()
    file.write_bytes(len(header).to_bytes(8, "little") + header + bytes(12))
    with pytest.raises(CorruptStore, match="b overlaps a"):
        open_checkpoint(file)
    folder = write_folder(tmp_path / "f", [{"wte.weight": E}, LAYER], CONFIG)
    next(folder.glob("*-00002-*")).unlink()
    with pytest.raises(NotFound, match="not there"):
        open_checkpoint(folder)
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFound, match="has no weights"):
        open_checkpoint(tmp_path / "empty")
    with pytest.raises(NotFound, match="there is no model"):
        open_checkpoint(tmp_path / "nowhere")


def test_pytorch_files_are_read_without_running_them(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    big = torch.randn(80, 16)
    state = {
        "model.embed_tokens.weight": torch.nn.Parameter(torch.from_numpy(E).bfloat16()),
        "lm_head.weight": big[20:60],  # a view into a larger storage
        "steps": 7,
    }
    torch.save(state, tmp_path / "pytorch_model.bin")
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    found = open_checkpoint(tmp_path)
    assert np.array_equal(found.input.rows(0, 40), torch.from_numpy(E).bfloat16().float().numpy())
    assert np.array_equal(found.output.gather([5, 39]), big[20:60][[5, 39]].numpy())
    torch.save({"x": big.t()}, tmp_path / "other.pt")
    with pytest.raises(CorruptStore, match="not contiguous"):
        read_entries(tmp_path / "other.pt")


class _Bomb:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return eval, ("1/0",)


def test_a_pickle_that_calls_something_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "evil.bin"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"a": _Bomb()}))
    with pytest.raises(CorruptStore, match=r"wants builtins\.eval"):
        read_entries(path)
    path.write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(CorruptStore, match="save the model as safetensors"):
        read_entries(path)


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q8_0", "Q4_1"])
def test_gguf(tmp_path: Path, kind: str) -> None:
    gguf = pytest.importorskip("gguf")
    values = RNG.normal(size=(40, 32)).astype(np.float32)
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    writer.add_embedding_length(32)
    quantised = gguf.GGMLQuantizationType[kind]
    writer.add_tensor("blk.0.ffn_up.weight", values)
    writer.add_tensor("token_embd.weight", gguf.quants.quantize(values, quantised), raw_dtype=quantised)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found = open_checkpoint(tmp_path / "m.gguf")
    assert found.tied and found.output.storage == kind and (found.num_rows, found.output.width) == (40, 32)
    expected = gguf.quants.dequantize(gguf.quants.quantize(values, quantised), quantised)
    np.testing.assert_allclose(found.output.rows(0, 40), expected, rtol=1e-6)
    whole = (tmp_path / "m.gguf").read_bytes()
    (tmp_path / "m.gguf").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CorruptStore, match="cut short"):
        open_checkpoint(tmp_path / "m.gguf")
