"""The golden vectors: outputs of the real frameworks, from the folder that TYPECASE_GOLDEN names, where others may stand in."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

Case = dict[str, Any]


def golden_folder() -> Path:
    """The folder that holds `megatron-core` and `gpt-neox`."""
    return Path(os.environ.get("TYPECASE_GOLDEN") or Path(__file__).parents[2] / "golden")


@cache
def manifest(framework: str) -> dict[str, Any]:
    """All of `cases.json` of `framework`, a name of a subfolder."""
    found: dict[str, Any] = json.loads((golden_folder() / framework / "cases.json").read_text())
    return found


def cases(framework: str) -> list[Case]:
    """Every case of `framework`; empty where the folder lacks it."""
    if not (golden_folder() / framework / "cases.json").exists():
        return []
    found: list[Case] = manifest(framework)["cases"]
    return found


def arrays(framework: str, name: str) -> dict[str, np.ndarray]:
    """All arrays of the case `name`."""
    with np.load(golden_folder() / framework / f"{name}.npz") as file:
        return dict(file)
