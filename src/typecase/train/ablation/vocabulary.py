"""Vocabulary: a byte-level BPE tokenizer for models of a few million parameters, learnt from the documents themselves.

    fit_tokenizer(texts, 2048, folder)  ->  folder/tokenizer.json      the same texts, the same bytes

A published vocabulary of 50,000 tokens would be most of the weights of such a model. Every text can be written; `<|endoftext|>`
ends a document. Price: about 10 MB of text a second.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import orjson

from typecase.errors import BadRecipe
from typecase.store.atomic import write_bytes

END = "<|endoftext|>"
_BYTES = 256


def fit_tokenizer(texts: Iterable[str], size: int, folder: Path) -> Path:
    """A tokenizer of at most `size` tokens into `folder`, or the one that lies there; returns the folder. Raises BadRecipe."""
    if size <= _BYTES:
        raise BadRecipe(
            f"a vocabulary holds all {_BYTES} bytes, the end of a document, and what is learnt: {size} is too small"
        )
    if (folder / "tokenizer.json").is_file():
        return folder
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=[END], initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    folder.mkdir(parents=True, exist_ok=True)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": END, "eos_token": END, "model_max_length": 1 << 20}
    write_bytes(folder / "tokenizer_config.json", orjson.dumps(config, option=orjson.OPT_INDENT_2))
    write_bytes(folder / "tokenizer.json", tokenizer.to_str().encode())
    return folder
