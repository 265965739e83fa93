"""Writes the small tokenizers beside this file: `python tests/data/tokenizers/make.py`.

bytes/      tokenizer.json, tokenizer_config.json   byte-level BPE, GPT-2's cut, specials below the vocabulary, BOS template
pair/       vocab.json, merges.txt                  the same vocabulary as GPT-2's pair
runs.json   NFC, runs of 2 … 8 spaces as added tokens, an id gap at the end (the NeoX-20B way)
gpt4.json   the cl100k cut, ignore_merges with an entry that no merge reaches (the Llama 3 way)
pieces.json WordPiece, lower-cased, with [CLS] and [SEP] put around
unigram.json  Unigram over metaspace, with an unknown token
tiny.tiktoken a rank file
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from typecase.store.tokenizer.alphabet import spelled_bytes
from typecase.store.tokenizer.known import CL100K

HERE = Path(__file__).parent
CORPUS = [
    "The type case holds the sorts, and the sorts make the words that the reader sees.",
    "A compositor sets the words letter by letter; the letters lie in the case, the capitals in the upper one.",
    "It's the printer's work to see that they're set well, and we've seen that they don't always do it.",
    "def setting(sorts, width=40):\n    line = []\n    for sort in sorts:\n        line.append(sort)\n    return line\n",
    "    if width > 40:\n        raise ValueError('the line is too wide')\n\n\n    # the rest of the setting\n",
    "In 1455 there were 42 lines on a page, in 1460 there were 36; 1234567890.",
    "Der Setzer setzt die Wörter, die Lettern liegen im Setzkasten; größere für Überschriften.",
    "Le compositeur prépare la forme, la presse imprime les feuilles déjà pliées.",
    "Наборщик набирает слова, буквы лежат в наборной кассе.",
    "活字は活字ケースに入っている。植字工は活字を拾う。",
] * 4


def trained(kind: str) -> Tokenizer:
    """A byte-level BPE of 512 entries; `kind` is the cut."""
    tokenizer = Tokenizer(models.BPE())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind == "gpt2")
    split = pre_tokenizers.Split(Regex(CL100K.published), "isolated")
    tokenizer.pre_tokenizer = byte_level if kind == "gpt2" else pre_tokenizers.Sequence([split, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=512,
        special_tokens=["<|endoftext|>", "<|padding|>"] if kind == "gpt2" else [],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def save(path: Path, definition: dict[str, object]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(definition, ensure_ascii=False, separators=(",", ":")) + "\n", "utf-8")


def plain(tokenizer: Tokenizer) -> dict[str, object]:
    return json.loads(tokenizer.to_str())


def write_bytes_and_pair() -> None:
    tokenizer = trained("gpt2")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", tokenizer.token_to_id("<|endoftext|>"))]
    )
    save(HERE / "bytes" / "tokenizer.json", plain(tokenizer))
    roles = {"bos_token": None, "eos_token": {"content": "<|endoftext|>"}, "pad_token": "<|padding|>"}
    save(HERE / "bytes" / "tokenizer_config.json", roles)
    model = plain(tokenizer)["model"]
    save(HERE / "pair" / "vocab.json", model["vocab"])
    merges = "".join(f"{left} {right}\n" for left, right in model["merges"])
    (HERE / "pair" / "merges.txt").write_text("#version: 0.2\n" + merges, "utf-8")


def write_runs() -> None:
    tokenizer = trained("gpt2")
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_tokens([AddedToken(" " * length, normalized=True) for length in range(8, 1, -1)])
    tokenizer.add_tokens([AddedToken("|||EMAIL|||", normalized=True)])
    definition = plain(tokenizer)
    definition["model"]["vocab"]["\N{GREEK SMALL LETTER OMEGA}unused"] = 700  # an id far beyond the others, never produced
    save(HERE / "runs.json", definition)


def write_gpt4() -> None:
    definition = plain(trained("gpt4"))
    vocabulary = definition["model"]["vocab"]
    vocabulary["Ġcompositors"] = len(vocabulary)  # as a piece it is looked up whole; merging alone stops before
    definition["model"]["ignore_merges"] = True
    save(HERE / "gpt4.json", definition)


def write_pieces() -> None:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    tokenizer.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=300, special_tokens=names, show_progress=False))
    ends = [(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    tokenizer.enable_truncation(16)
    tokenizer.enable_padding(pad_token="[PAD]", length=16)
    save(HERE / "pieces.json", plain(tokenizer))


def write_unigram() -> None:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=200, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    save(HERE / "unigram.json", plain(tokenizer))


def write_ranks() -> None:
    model = plain(trained("gpt4"))["model"]
    tokens = sorted(spelled_bytes(token) for token in model["vocab"] if len(token) == 1)
    tokens += [spelled_bytes(left + right) for left, right in model["merges"]]
    lines = [f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(tokens)]
    (HERE / "tiny.tiktoken").write_text("".join(lines))


if __name__ == "__main__":
    for write in (write_bytes_and_pair, write_runs, write_gpt4, write_pieces, write_unigram, write_ranks):
        write()
