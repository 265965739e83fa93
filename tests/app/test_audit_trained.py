"""Ground truth: a small language model is trained with tokens kept out of its stream; the audit finds them, by weights and
by prompts, and does not find those that were seen. One to two minutes."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

BENCH = Path(__file__).parents[2] / "benchmarks" / "bench_glitch.py"


@pytest.fixture(scope="module")
def bench() -> Any:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    spec = importlib.util.spec_from_file_location("bench_glitch", BENCH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["bench_glitch"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.timeout(2400)
def test_kept_out_tokens_are_found(bench: Any, tmp_path: Path) -> None:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(min(2, threads))
    try:
        found = bench.measure(bench.Setting(tied=True), bench.seed_texts(), tmp_path / "m")
    finally:
        torch.set_num_threads(threads)
    assert found.never >= 100
    assert found.auc >= 0.999
    assert found.r_precision >= 0.9 and found.r_precision_clear >= 0.95
    assert found.spearman_rare >= 0.9 and found.spearman >= 0.9
    assert found.can_copy >= 0.5 and found.recall >= 0.95 and found.false_alarms <= 0.02
