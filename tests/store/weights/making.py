"""Weights files made on the spot, by the letter of their formats."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

NAMES = {np.dtype("<f4"): "F32", np.dtype("<f2"): "F16", np.dtype("<f8"): "F64", np.dtype("<u2"): "BF16"}


def bf16(values: np.ndarray) -> np.ndarray:
    """The upper halves of float32 numbers, uint16 (cut, not rounded)."""
    return (np.ascontiguousarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def write_safetensors(path: Path, tensors: Mapping[str, np.ndarray]) -> Path:
    """uint16 arrays count as BF16."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, values in tensors.items():
        raw = np.ascontiguousarray(values).tobytes()
        header[name] = {
            "dtype": NAMES[values.dtype],
            "shape": list(values.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def write_folder(folder: Path, parts: list[Mapping[str, np.ndarray]], config: Mapping[str, Any] | None = None) -> Path:
    """A checkpoint in as many files as there are parts, with an index when there are several."""
    if len(parts) == 1:
        write_safetensors(folder / "model.safetensors", parts[0])
    else:
        names = {}
        for k, part in enumerate(parts, 1):
            file = write_safetensors(folder / f"model-{k:05d}-of-{len(parts):05d}.safetensors", part)
            names |= dict.fromkeys(part, file.name)
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    (folder / "config.json").write_text(json.dumps(config or {}))
    return folder
