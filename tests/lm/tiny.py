"""A tiny causal LM with a tokenizer of its own, made on the spot: random weights, real plumbing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

TEMPLATE = (
    "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """On tiny matrices a second thread only waits, and on a busy machine it waits long."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make_tiny(folder: Path, *, kind: str = "llama", start: bool = True, merges: tuple[tuple[str, str], ...] = ()) -> Path:
    """A checkpoint of some 60 k parameters; `kind` is llama, gpt2 (learned positions) or gemma2 (capped logits, windows).

    `merges` come before those that it has, spelled in the alphabet of bytes.
    """
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    specials = ["<|start|>", "<|end|>"]
    merges = (*merges, ("Ġ", "s"), ("a", "n"), ("Ġs", "t"))
    vocabulary = {token: k for k, token in enumerate([*specials, *alphabet, *("".join(pair) for pair in merges)])}
    tokenizer = Tokenizer(models.BPE(vocabulary, list(merges)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    names = {"bos_token": "<|start|>"} if start else {}
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|end|>", additional_special_tokens=specials, **names
    )
    fast.chat_template = TEMPLATE
    sizes = {"vocab_size": len(vocabulary), "bos_token_id": 0 if start else None, "eos_token_id": 1}
    torch.manual_seed(7)
    width = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    if kind == "gpt2":
        config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=400, **sizes)
    elif kind == "gemma2":
        config = transformers.Gemma2Config(
            num_key_value_heads=2,
            head_dim=8,
            max_position_embeddings=400,
            sliding_window=8,
            final_logit_softcapping=1.0,
            **width,
            **sizes,
        )
    else:
        config = transformers.LlamaConfig(
            num_key_value_heads=2, max_position_embeddings=400, initializer_range=0.3, **width, **sizes
        )
    model = transformers.AutoModelForCausalLM.from_config(config)
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder
