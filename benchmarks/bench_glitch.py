"""Glitch tokens with known sightings: small language models are trained here, and the audit must find what they never saw.

    python benchmarks/bench_glitch.py            tied and untied, with and without weight decay
    python benchmarks/bench_glitch.py --quick    tied, without decay, 60 steps: that it runs, no figure

A BPE of 4,096 tokens is trained on the seed documents, then a Llama of two layers on their tokens. Four rows in ten repeat
spans of the same text, so that it learns to copy and rare tokens stay rare. 100 tokens are kept out of the stream: wherever
they came up, the two tokens that they are merged of stand; 50 tokens each are let through 1, 3, 10, 30 and 100 times. The
ledger of sightings is counted from the rows that were trained on.

AUC          of never-seen tokens against those seen 100 times or more        (target 0.999)
R-precision  never-seen among as many lowest as there are                     (target 0.95; 0.90 with 1-2 sightings around)
Spearman     of the indicator with log(1 + sightings): of all tokens, and of those seen 100 times at most (target 0.90)
references   share of the automatic references that were never seen           (target 0.9)
verified     recall of never-seen tokens by prompts; share of tokens seen 100 times or more that come out verified, too
             (targets 0.95 and at most 0.02), and the median chance of ordinary tokens (at least 0.5, else void)
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

IDS, KEPT_OUT, GROUP = 4096, 100, 50
QUOTAS = (1, 3, 10, 30, 100)
ROW, BATCH = 128, 32
REPEATED, HIGHEST_RATE = 0.4, 4e-3
QUICK_STEPS = 60


@dataclass(frozen=True)
class Setting:
    """One model: tied or not, with which decay, how many steps, of which seed."""

    tied: bool = True
    decay: float = 0.0
    steps: int = 1400
    seed: int = 0
    width: int = 128


def make_tokenizer(texts: list[str], folder: Path) -> Any:
    """A byte-level BPE of `texts`, saved as a transformers tokenizer in `folder`."""
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=IDS, initial_alphabet=sorted(alphabet), special_tokens=["<|end|>"], show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>").save_pretrained(folder)
    return tokenizer


def make_stream(tokenizer: Any, texts: list[str], seed: int) -> tuple[np.ndarray, dict[int, int]]:
    """The tokens of all texts with quotas kept, and the quota of each token that has one."""
    rng = np.random.default_rng(seed)
    definition = json.loads(tokenizer.to_str())["model"]
    vocab = definition["vocab"]
    pairs = [tuple(m) if isinstance(m, list) else tuple(m.split(" ", 1)) for m in definition["merges"]]
    children = {vocab[a + b]: (vocab[a], vocab[b]) for a, b in pairs}
    tokens = [np.array(e.ids, np.int64) for e in tokenizer.encode_batch(texts)]
    order = rng.permutation(len(tokens))
    stream = np.concatenate([np.append(tokens[k], 0) for k in order])
    counts = np.bincount(stream, minlength=IDS)
    able = [t for t in children if counts[t] >= 110]
    drawn = rng.choice(able, KEPT_OUT + GROUP * len(QUOTAS), replace=False).tolist()
    quotas = dict.fromkeys(drawn[:KEPT_OUT], 0)
    for k, quota in enumerate(QUOTAS):
        quotas |= dict.fromkeys(drawn[KEPT_OUT + k * GROUP : KEPT_OUT + (k + 1) * GROUP], quota)
    return _split(stream, children, quotas, rng), quotas


def _split(stream: np.ndarray, children: dict[int, tuple[int, int]], quotas: dict[int, int], rng: Any) -> np.ndarray:
    """Sightings beyond the quota become the two tokens that a token is merged of, and so on for those."""
    while True:
        where = {t: np.flatnonzero(stream == t) for t in quotas}
        over = [rng.permutation(at)[quotas[t] :] for t, at in where.items() if len(at) > quotas[t]]
        if not over:
            return stream
        cut = np.zeros(len(stream), np.bool_)
        cut[np.concatenate(over)] = True
        pieces = [children[int(t)] if c else (int(t),) for t, c in zip(stream.tolist(), cut.tolist())]
        stream = np.array([t for piece in pieces for t in piece], np.int64)


def make_rows(stream: np.ndarray, quotas: dict[int, int], steps: int, seed: int) -> np.ndarray:
    """Rows to train on, int64 (steps * BATCH, ROW): the stream in order, cut in other places each time it is read again, and
    rows of repetitions: a span of the stream again and again.

    Tokens with a quota are read in the first pass alone, and are left out of repetitions.
    """
    rng = np.random.default_rng(seed)
    plain = ~np.isin(stream, list(quotas))
    num_rows = steps * BATCH
    repeated = round(num_rows * REPEATED)
    rows, count = [], 0
    while count < num_rows - repeated:
        first = len(rows) * 37 % ROW
        cut = len(stream[first:]) // ROW * ROW
        own = stream[first : first + cut].reshape(-1, ROW)
        own = own[plain[first : first + cut].reshape(-1, ROW).all(axis=1)] if rows else own
        rows.append(own[: num_rows - repeated - count])
        count += len(rows[-1])
    return rng.permutation(np.concatenate([*rows, *(_repetition(stream, plain, rng) for _ in range(repeated))]))


def _repetition(stream: np.ndarray, plain: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A row (1, ROW) of spans, each repeated."""
    row: list[int] = []
    while len(row) < ROW:
        size = 1 if rng.random() < 0.4 else int(rng.integers(2, 40))
        at = int(rng.integers(0, len(stream) - size))
        if plain[at : at + size].all():
            row += stream[at : at + size].tolist() * int(rng.integers(2, 24 if size == 1 else 5))
    return np.array([row[:ROW]], np.int64)


def train(setting: Setting, texts: list[str], folder: Path) -> tuple[np.ndarray, dict[int, int], float]:
    """Trains a model into `folder`; the ledger of sightings (V,), the quotas, the loss at the end."""
    import torch
    import transformers

    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer(texts, folder)
    stream, quotas = make_stream(tokenizer, texts, setting.seed)
    rows = make_rows(stream, quotas, setting.steps, setting.seed)
    torch.manual_seed(setting.seed)
    config = transformers.LlamaConfig(
        vocab_size=IDS, hidden_size=setting.width, intermediate_size=2 * setting.width, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=1024, tie_word_embeddings=setting.tied,
        bos_token_id=None, eos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config)
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=HIGHEST_RATE, fused=True, weight_decay=setting.decay, betas=(0.9, 0.95)
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, HIGHEST_RATE, setting.steps)
    loss = float("nan")
    for step in range(setting.steps):
        batch = torch.from_numpy(rows[step * BATCH : (step + 1) * BATCH])
        out = model(input_ids=batch, labels=batch)
        optimiser.zero_grad()
        out.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        loss = out.loss.item()
    model.eval().save_pretrained(folder)
    return np.bincount(rows.reshape(-1), minlength=IDS), quotas, loss


@dataclass(frozen=True)
class Measured:
    """What the audit made of a model; see the module docstring."""

    setting: Setting
    seconds: float
    loss: float
    never: int
    auc: float
    r_precision: float
    r_precision_clear: float
    spearman: float
    spearman_rare: float
    purity: float
    recall: float
    false_alarms: float
    can_copy: float


def auc(low: np.ndarray, high: np.ndarray) -> float:
    """The chance that a value of `low` is below one of `high`, ties half."""
    order = np.sort(high)
    below = len(high) - np.searchsorted(order, low, "right")
    ties = np.searchsorted(order, low, "right") - np.searchsorted(order, low, "left")
    return float((below + ties / 2).mean() / len(high))


def measure(setting: Setting, texts: list[str], folder: Path) -> Measured:
    """Trains one model and audits it."""
    from typecase.app.audit.copies import audit_copies
    from typecase.app.audit.weights import audit_weights
    from typecase.core.glitch.references import spearman

    started = time.perf_counter()
    ledger, quotas, loss = train(setting, texts, folder)
    took = time.perf_counter() - started
    found = audit_weights(folder)
    values = np.array([np.nan if v is None else v for v in found.table.column("main_indicator").to_pylist()])
    rank = np.array(found.table.column("rank").to_pylist())
    never, often = np.flatnonzero(ledger == 0), np.flatnonzero(ledger >= 100)
    clear = np.flatnonzero((ledger == 0) | (ledger > 2))
    lowest = rank.argsort()
    hits = np.isin(lowest[: len(never)], never).mean()
    cleared = np.isin(lowest[np.isin(lowest, clear)][: len(never)], never).mean()
    asked = sorted({*(t for t, q in quotas.items() if q == 0), *np.random.default_rng(1).choice(often, 100, False).tolist()})
    copies = audit_copies(folder, folder / "answers", ids=asked, device="cpu", weights=found)
    verified = np.array([bool(v) for v in copies.table.column("verified").to_pylist()])
    held_out = [t for t in asked if quotas.get(t) == 0]
    common = [t for t in asked if ledger[t] >= 100]
    return Measured(
        setting, took, loss, len(never), auc(values[never], values[often]), float(hits), float(cleared),
        spearman(values, np.log1p(ledger)), spearman(values[ledger <= 100], np.log1p(ledger[ledger <= 100])),
        float(np.isin(found.references.ids, never).mean()),
        float(verified[held_out].mean()), float(verified[common].mean()), copies.controls.can_copy,
    )  # fmt: skip


def seed_texts() -> list[str]:
    """The seed documents, damaged variants left out."""
    import pyarrow as pa

    path = Path(__file__).parents[1] / "seeds" / "documents.jsonl.zst"
    with pa.input_stream(path, compression="zstd") as file:
        rows = [json.loads(line) for line in file.read().splitlines()]
    return [row["text"] for row in rows if not row.get("variant_of")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--steps", type=int, default=1400)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    steps = min(args.steps, QUICK_STEPS) if args.quick else args.steps
    settings = [Setting(tied, decay, steps) for tied in (True, False) for decay in (0.0, 0.1)]
    texts = seed_texts()
    for setting in settings[:1] if args.quick else settings:
        with tempfile.TemporaryDirectory() as folder:
            found = measure(setting, texts, Path(folder))
        row = {k: round(v, 4) if isinstance(v, float) else v for k, v in asdict(found).items()}
        print(json.dumps(row) if args.json else "  ".join(f"{k} {v}" for k, v in row.items()), flush=True)


if __name__ == "__main__":
    main()
