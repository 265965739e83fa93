"""Small runs over small token sets, in every framework's words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from typecase.store.tokens.writer import TokenSetWriter

FRAMEWORKS = ("gpt-neox", "megatron-core", "nemo", "typecase")


def make_set(folder: Path, lengths: Sequence[int], *, first_id: int = 1, dtype: Any = np.uint16) -> Path:
    """A token set whose every token is another id, so that a wrong token is seen; returns its prefix."""
    folder.mkdir(parents=True, exist_ok=True)
    with TokenSetWriter(folder / "text_document", dtype) as writer:
        total = int(np.sum(lengths))
        writer.append(np.arange(first_id, first_id + total).astype(dtype), np.array(lengths, np.int64))
    return folder / "text_document"


def settings_of(framework: str, data: Any, **changes: Any) -> dict[str, Any]:
    """A run of 20 steps of 8 samples (2 ranks, micro-batches of 2) of 16 tokens."""
    common: dict[str, Any] = {"framework": framework, "data_path": data, "seq_length": 16, "seed": 5, "train_iters": 20}
    if framework == "gpt-neox":
        common |= {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2, "data_parallel_size": 2}
        common |= {"split": "90,5,5", "eval_interval": 10, "eval_iters": 1}
    else:
        common |= {"global_batch_size": 8, "micro_batch_size": 2, "data_parallel_size": 2}
        if framework != "typecase":
            common |= {"split": "90,5,5", "eval_interval": 10, "eval_iters": 1}
    return common | changes


def write_run(path: Path, settings: dict[str, Any]) -> Path:
    path.write_bytes(orjson.dumps(settings))
    return path
