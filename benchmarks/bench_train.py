"""Training against the trainers that people use: tokens a second on the same model, tokens, batch, precision and threads.

    python benchmarks/bench_train.py [--quick] [--json] [--preset 3m] [--dtype float32] [--litgpt VENV/bin/python]

The peer is transformers' Trainer with LlamaForCausalLM of the same shape (fused AdamW, the same schedule and clipping, no
padding, no evaluation, no checkpoints), and litgpt's GPT in the loop of its `pretrain` where a Python with litgpt is named. All
start from the same token file, and what is timed goes from the end of the second step to the end of the last: reading,
forward, backward, clipping, optimiser and what a trainer does around them. Ours also writes the losses of every document.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from measure import Record, options, rate, report

THREADS = 2
WARM_STEPS = 2


def make_tokens(folder: Path, vocab: int, num_tokens: int) -> Path:
    """A token set of documents of a few hundred tokens, with ids as rare as words are."""
    from typecase.store.tokens.writer import TokenSetWriter

    dice = np.random.default_rng(1)
    lengths = np.maximum(8, dice.lognormal(5.5, 0.8, num_tokens // 200).astype(np.int64))
    ids = (dice.zipf(1.2, int(lengths.sum())) % vocab).astype(np.uint16)
    prefix = folder / "text_document"
    with TokenSetWriter(prefix, np.dtype(np.uint16)) as writer:
        writer.append(ids, lengths, per_document=np.ones(len(lengths), np.int64))
    return prefix


def typecase_seconds(prefix: Path, shape: Any, plan: Any) -> float:
    """Seconds of the steps behind the warm ones."""
    from typecase.train.loop import train

    ends: list[float] = []
    with tempfile.TemporaryDirectory() as out:
        train(prefix, Path(out) / "run", shape, plan, progress=lambda row: ends.append(time.perf_counter()))
    return ends[-2] - ends[WARM_STEPS - 1]  # the last step also writes the checkpoint


def trainer_seconds(prefix: Path, shape: Any, plan: Any) -> float:
    """The same of transformers' Trainer."""
    import torch
    import transformers
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments

    transformers.utils.logging.set_verbosity_error()
    tokens = np.memmap(prefix.with_name(prefix.name + ".bin"), np.uint16, "r")

    class Windows(torch.utils.data.Dataset[dict[str, Any]]):
        def __len__(self) -> int:
            return len(tokens) // shape.context

        def __getitem__(self, k: int) -> dict[str, Any]:
            ids = torch.from_numpy(tokens[k * shape.context : (k + 1) * shape.context].astype(np.int64))
            return {"input_ids": ids, "labels": ids}

    ends: list[float] = []

    class Clock(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *given: Any, **named: Any) -> None:
            ends.append(time.perf_counter())

    config = LlamaConfig(
        vocab_size=shape.vocab,
        hidden_size=shape.width,
        intermediate_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        max_position_embeddings=shape.context,
        tie_word_embeddings=shape.tied,
        use_cache=False,
    )
    with tempfile.TemporaryDirectory() as out:
        arguments = TrainingArguments(
            out,
            max_steps=plan.steps,
            per_device_train_batch_size=plan.micro_batch or plan.batch,
            gradient_accumulation_steps=plan.batch // (plan.micro_batch or plan.batch),
            learning_rate=plan.learning_rate,
            lr_scheduler_type="cosine",
            warmup_steps=plan.warmup,
            weight_decay=plan.weight_decay,
            max_grad_norm=plan.clip,
            optim="adamw_torch_fused",
            bf16=plan.dtype == "bfloat16",
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            logging_steps=plan.log_every,
            disable_tqdm=True,
            seed=1,
        )
        quiet = Trainer(LlamaForCausalLM(config), arguments, train_dataset=Windows(), callbacks=[Clock()])
        quiet.remove_callback(transformers.trainer_callback.PrinterCallback)
        quiet.train()
    return ends[-2] - ends[WARM_STEPS - 1]


LITGPT = """
import json, sys, time, math, torch
from litgpt import GPT, Config
from litgpt.utils import chunked_cross_entropy, instantiate_torch_optimizer
import lightning as L
import numpy as np
given = json.loads(sys.argv[1]); shape, plan = given["shape"], given["plan"]
torch.set_num_threads(given["threads"])
config = Config(name="bench", block_size=shape["context"], vocab_size=shape["vocab"], padded_vocab_size=shape["vocab"],
    n_layer=shape["layers"], n_head=shape["heads"], n_query_groups=shape["kv_heads"], n_embd=shape["width"],
    intermediate_size=shape["hidden"], rotary_percentage=1.0, parallel_residual=False, bias=False,
    norm_class_name="RMSNorm", mlp_class_name="LLaMAMLP", norm_eps=shape["norm_eps"])
fabric = L.Fabric(accelerator="cpu", devices=1, precision="bf16-mixed" if plan["dtype"] == "bfloat16" else "32-true")
fabric.launch()
with fabric.init_module(empty_init=False):
    model = GPT(config)
if shape["tied"]:
    model.transformer.wte.weight = model.lm_head.weight
model = fabric.setup(model)
optimizer = fabric.setup_optimizers(torch.optim.AdamW(model.parameters(), lr=plan["learning_rate"], fused=True,
    weight_decay=plan["weight_decay"], betas=(plan["beta1"], plan["beta2"])))
tokens = np.memmap(given["bin"], np.uint16, "r")
t, batch, micro = shape["context"], plan["batch"], plan["micro_batch"] or plan["batch"]
class Windows(torch.utils.data.Dataset):
    def __len__(self): return (len(tokens) - 1) // t
    def __getitem__(self, k): return torch.from_numpy(tokens[k * t : (k + 1) * t + 1].astype(np.int64))
loader = iter(fabric.setup_dataloaders(torch.utils.data.DataLoader(Windows(), batch_size=micro, shuffle=True)))
ends, parts = [], batch // micro
for step in range(plan["steps"]):
    rate = plan["learning_rate"] * 0.5 * (1 + math.cos(math.pi * step / plan["steps"]))
    for group in optimizer.param_groups: group["lr"] = rate
    for part in range(parts):
        data = next(loader)
        ids, targets = data[:, :t].contiguous().long(), data[:, 1:].contiguous().long()
        with fabric.no_backward_sync(model, enabled=part + 1 < parts):
            loss = chunked_cross_entropy(model(ids), targets)
            fabric.backward(loss / parts)
    fabric.clip_gradients(model, optimizer, max_norm=plan["clip"])
    optimizer.step(); optimizer.zero_grad()
    ends.append(time.perf_counter())
print("SECONDS", ends[-2] - ends[given["warm"] - 1])
"""
"""The loop of `litgpt pretrain` over its own model and loss, without its logger and checkpoints."""


def litgpt_seconds(python: str) -> Callable[[Path, Any, Any], float]:
    def run(prefix: Path, shape: Any, plan: Any) -> float:
        given = {"shape": shape.as_dict(), "plan": plan.as_dict(), "threads": THREADS, "warm": WARM_STEPS}
        given["bin"] = str(prefix.with_name(prefix.name + ".bin"))
        environment = {**os.environ, "OMP_NUM_THREADS": str(THREADS)}
        done = subprocess.run([python, "-c", LITGPT, json.dumps(given)], capture_output=True, text=True, env=environment)
        if done.returncode:
            raise SystemExit(f"litgpt failed:\n{done.stderr[-2000:]}")
        return float(done.stdout.rpartition("SECONDS")[2])

    return run


def main() -> None:
    asked = options(__doc__, preset="3m", dtype="float32", litgpt="", rounds="")
    import torch

    from typecase.train.config import TrainPlan, preset

    torch.set_num_threads(THREADS)
    vocab = {"1m": 2048, "3m": 4096, "10m": 8192, "30m": 16384}[asked.preset]
    shape = preset(asked.preset, vocab=vocab, context=256)
    steps, rounds = (8, 2) if asked.quick else (16, 4)
    plan = TrainPlan(steps=steps, batch=16, micro_batch=16, dtype=asked.dtype, save_every=1000)
    tokens = (steps - 1 - WARM_STEPS) * plan.batch * shape.context
    peers = {"transformers' Trainer": trainer_seconds}
    if asked.litgpt:
        peers["litgpt"] = litgpt_seconds(asked.litgpt)
    best: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        prefix = make_tokens(Path(folder), vocab, (steps + 2) * plan.batch * shape.context * 2)
        for _ in range(int(asked.rounds or rounds)):
            for name, run in {"ours": typecase_seconds, **peers}.items():
                best[name] = min(best.get(name, float("inf")), run(prefix, shape, plan))
    records: list[Record] = [
        rate(f"{asked.preset} {asked.dtype}, against {name}", tokens, best["ours"], best[name], "tokens/s") for name in peers
    ]
    share = shape.flops_per_token * tokens / best["ours"] / 1e9
    notes = [f"{shape.parameters:,} weights, context {shape.context}, batch {plan.batch}, {THREADS} threads"]
    report(records, as_json=asked.json, notes=[*notes, f"ours: {share:,.0f} GFLOP/s of model arithmetic"])


if __name__ == "__main__":
    main()
