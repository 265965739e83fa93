"""Scratch: a small language model made on the spot, tokenizer and all, for work without a checkpoint and for tests.

    make_scratch(folder, texts, size=SMALL, seed=1)     byte-level BPE from the texts; a Llama of random weights

It knows nothing until it is trained. Digits and letters stay single tokens behind a line break, as a reply form needs.
Price: SMALL has about 1.6 million weights and is made in seconds.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typecase.errors import NeedsExtra

START, END = "<|start|>", "<|end|>"


@dataclass(frozen=True, slots=True)
class Size:
    """Of a model: most entries of the vocabulary, width, layers, heads, tokens of context."""

    vocabulary: int
    width: int
    layers: int
    heads: int
    context: int


SMALL = Size(4096, 128, 4, 4, 2048)
TINY = Size(512, 48, 2, 4, 1024)
SIZES = {"tiny": TINY, "small": SMALL}


def make_scratch(folder: Path, texts: Iterable[str], *, size: Size, seed: int) -> Path:
    """Writes a checkpoint of random weights whose tokenizer is fitted to `texts`. Equal inputs give equal bytes."""
    try:
        import torch

        transformers: Any = importlib.import_module("transformers")
    except ImportError:
        raise NeedsExtra("a language model", "lm") from None
    transformers.utils.logging.disable_progress_bar()
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=_tokenizer(texts, size.vocabulary), bos_token=START, eos_token=END, pad_token=END
    )
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=len(fast),
        hidden_size=size.width,
        intermediate_size=size.width * 8 // 3 // 8 * 8,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.heads,
        max_position_embeddings=size.context,
        tie_word_embeddings=True,
        bos_token_id=fast.bos_token_id,
        eos_token_id=fast.eos_token_id,
        pad_token_id=fast.pad_token_id,
    )
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


def _tokenizer(texts: Iterable[str], most: int) -> Any:
    """Byte-level BPE: every text can be written, and pieces that stand apart (words, numbers, blanks) are never joined."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=most,
        special_tokens=[START, END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer
