"""Subject: a model that is evaluated, with its tokenizer: a run or checkpoint of ours, or a Hugging Face folder.

    subject = open_subject("work/models/small")
    subject.score([ids, …])       -> nats of every token but the first, and whether it was the likeliest

Rows of about one length go through the model together, padded behind, where causal attention does not look; a row's numbers
depend on its batch by rounding alone, and the same rows give the same numbers. A text begins behind the token that stands
before a document in training: the end token of the document before it. Price: one pass forward; 64 MB of logits at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import torch
import torch.nn.functional as F
from torch import Tensor

from typecase.errors import BadQuery, NotFound
from typecase.lm.protocol import fingerprint_of
from typecase.store.atomic import content_hash
from typecase.store.tokenizer.tokenizer import Tokenizer, open_tokenizer
from typecase.train.checkpoint import MODEL, find_checkpoint, load_model

Ints = npt.NDArray[np.int64]
F32 = npt.NDArray[np.float32]
_LOGITS = 64 << 20
_MOST_ROWS = 64


@dataclass(frozen=True, slots=True, eq=False)
class RowScores:
    """Of a row of n tokens: nats float32 (n - 1,) of all but the first, and whether each was the likeliest, bool (n - 1,)."""

    nats: F32
    likeliest: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """A model with its tokenizer.

    context      tokens that it can be fed at once        vocab   of its output layer
    start        the token that stands before a text, None where there is none: then a first token has no chance
    fingerprint  of its weights: two subjects with one give the same numbers up to rounding
    """

    name: str
    tokenizer: Tokenizer
    context: int
    vocab: int
    start: int | None
    fingerprint: str
    device: str
    logits: Callable[[Tensor], Tensor]
    """ids (b, t) int64 -> logits (b, t, vocab)"""

    def encode(self, texts: Sequence[str]) -> list[Ints]:
        """The ids of each text, without a start token. Raises BadQuery where the model has no such ids."""
        rows = [np.asarray(self.tokenizer.encode(text), np.int64) for text in texts]
        self.check(rows)
        return rows

    def check(self, rows: Sequence[Ints]) -> None:
        """Raises BadQuery for an id beyond the vocabulary."""
        most = max((int(row.max()) for row in rows if len(row)), default=-1)
        if most >= self.vocab:
            raise BadQuery(f"{self.name} has {self.vocab} tokens and the text has id {most}: the tokenizer is not its own")

    @torch.no_grad()
    def score(self, rows: Sequence[Ints]) -> list[RowScores]:
        """Scores of each row, in order. Raises BadQuery for one that is longer than the context and a token."""
        longest = max(map(len, rows), default=0)
        if longest > self.context + 1:
            raise BadQuery(f"a row of {longest} tokens does not fit the context of {self.context}: cut it into windows")
        found: list[RowScores | None] = [None] * len(rows)
        order = sorted(range(len(rows)), key=lambda k: (-len(rows[k]), k))
        at = 0
        while at < len(order):
            width = max(1, len(rows[order[at]]) - 1)
            take = max(1, min(_MOST_ROWS, _LOGITS // (4 * width * self.vocab)))
            own = order[at : at + take]
            at += take
            for k, scores in zip(own, self._batch([rows[k] for k in own], width), strict=True):
                found[k] = scores
        return [one for one in found if one is not None]

    def _batch(self, rows: Sequence[Ints], width: int) -> list[RowScores]:
        ids = np.zeros((len(rows), width + 1), np.int64)
        for line, row in zip(ids, rows, strict=True):
            line[: len(row)] = row
        table = torch.from_numpy(ids).to(self.device)
        logits = self.logits(table[:, :-1]).float()
        nats = F.cross_entropy(logits.flatten(0, 1), table[:, 1:].flatten(), reduction="none").view(len(rows), -1).cpu().numpy()
        best = (logits.argmax(-1) == table[:, 1:]).cpu().numpy()
        sizes = [max(0, len(row) - 1) for row in rows]
        return [RowScores(n[:size].copy(), b[:size].copy()) for n, b, size in zip(nats, best, sizes, strict=True)]

    @torch.no_grad()
    def next_logits(self, rows: Sequence[Ints]) -> npt.NDArray[np.float32]:
        """Logits (rows, vocab) of what follows each row; of a longer row the last `context` tokens are read."""
        cut = [row[-self.context :] for row in rows]
        width = max(map(len, cut))
        ids = np.zeros((len(cut), width), np.int64)
        for line, row in zip(ids, cut, strict=True):
            line[: len(row)] = row
        logits = self.logits(torch.from_numpy(ids).to(self.device))
        lasts = torch.tensor([len(row) - 1 for row in cut], device=logits.device)
        found: npt.NDArray[np.float32] = logits[torch.arange(len(cut), device=logits.device), lasts].float().cpu().numpy()
        return found


def open_subject(
    path: Path | str, *, tokenizer: str | Path | None = None, step: int | None = None, device: str = "cpu"
) -> Subject:
    """The model at `path`: a run of ours (its newest checkpoint, or that of `step`), a checkpoint, or a Hugging Face folder.

    `tokenizer` is found where the run, or the folder, has it; name one where it lies elsewhere. Raises NotFound, CorruptStore.
    """
    path = Path(path)
    folder = find_checkpoint(path, step)
    if folder is None:
        return _hugging_face(path, tokenizer, device)
    model = load_model(folder, device=device)
    found = open_tokenizer(str(tokenizer)) if tokenizer is not None else _tokenizer_of_run(folder.parent.parent)
    start = found.eod_id if found.eod_id is not None else found.bos_id
    print_of = fingerprint_of("run", content_hash(folder / MODEL), model.shape.as_dict())
    name = folder.parent.parent.name if path != folder else f"{folder.parent.parent.name}/{folder.name}"
    return Subject(name, found, model.shape.context, model.shape.vocab, start, print_of, device, model)


def _tokenizer_of_run(run: Path) -> Tokenizer:
    """The tokenizer of the token set that the run learnt."""
    card = run / "run.json"
    prefixes: list[str] = []
    if card.is_file():
        prefixes = orjson.loads(card.read_bytes()).get("tokens", [])
    for prefix in prefixes:
        folder = (run / prefix).parent / "tokenizer"
        if folder.is_dir():
            return open_tokenizer(str(folder))
    where = f" beside {run / prefixes[0]}" if prefixes else ""
    raise NotFound(f"{run} does not say what its tokens mean: no tokenizer lies{where}; name it with --tokenizer")


def _hugging_face(path: Path, tokenizer: str | Path | None, device: str) -> Subject:
    """A folder of Hugging Face: through our own model where it is Llama-like, else through transformers."""
    found = open_tokenizer(str(tokenizer if tokenizer is not None else path))
    start = found.bos_id if found.bos_id is not None else found.eod_id
    files = sorted(one for one in path.iterdir() if one.suffix == ".safetensors")
    print_of = fingerprint_of("hf", [content_hash(one) for one in files], content_hash(path / "config.json"))
    logits: Callable[[Tensor], Tensor]
    try:
        model = load_model(path, device=device)
        context, vocab, logits = model.shape.context, model.shape.vocab, model
    except BadQuery:
        context, vocab, logits = _by_transformers(path, device)
    return Subject(path.name, found, context, vocab, start, print_of, device, logits)


def _by_transformers(path: Path, device: str) -> tuple[int, int, Callable[[Tensor], Tensor]]:
    from typecase.errors import NeedsExtra

    try:
        import transformers
    except ImportError:
        raise NeedsExtra("a model of this family", "lm") from None
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(path, local_files_only=True, dtype=torch.float32)
    model = model.to(device).eval()
    context = int(getattr(model.config, "max_position_embeddings", 0) or getattr(model.config, "n_positions", 2048))
    return context, int(model.config.vocab_size), lambda ids: model(input_ids=ids, use_cache=False).logits
