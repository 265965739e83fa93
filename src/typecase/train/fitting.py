"""Fitting: what every fit of a language model needs around its loop: a device, the base model, a folder of its own.

with locked(partial): model = load_base(find_model("models/smollm2"), "auto"); …; write_text(partial / "card.md", card)
"""

from __future__ import annotations

import fcntl
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from typecase.errors import BadQuery, Conflict, NeedsExtra, NotFound
from typecase.store import atomic


def load_base(base: Path, device: str) -> Any:
    """The model with float32 weights on its device."""
    try:
        transformers: Any = importlib.import_module("transformers")
    except ImportError:
        raise NeedsExtra("training a language model", "lm") from None
    transformers.utils.logging.disable_progress_bar()
    try:
        model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32, local_files_only=True)
    except (OSError, ValueError) as error:
        raise NotFound(f"{base} holds no causal LM that transformers can load ({str(error)[:200]})") from None
    return model.to(device_of(device))


def device_of(name: str) -> torch.device:
    """The device that is meant. Raises BadQuery where this machine has none of that name."""
    try:
        device = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise BadQuery(f"this machine has no device '{name}' that torch can use ({reason}): give auto or cpu") from None
    return device


@contextmanager
def locked(partial: Path) -> Iterator[None]:
    partial.mkdir(parents=True, exist_ok=True)
    with (partial / ".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Conflict(f"another process is working on {partial}: wait for it, or stop it and run this again") from None
        yield


def write_text(path: Path, text: str) -> None:
    atomic.write_bytes(path, text.encode())
