"""Every kind of storage gives the numbers that another reader of the format gives."""

from __future__ import annotations

import numpy as np
import pytest

from tests.store.weights.making import bf16
from typecase.store.weights.storage import STORAGES

PACKED = [name for name, s in STORAGES.items() if s.block_values > 1]


@pytest.mark.parametrize("name", PACKED)
def test_packed_types_are_read_as_the_gguf_package_reads_them(name: str) -> None:
    gguf = pytest.importorskip("gguf")
    storage = STORAGES[name]
    kind = gguf.GGMLQuantizationType[name]
    assert gguf.GGML_QUANT_SIZES[kind] == (storage.block_values, storage.block_bytes)
    data = np.random.default_rng(1).integers(0, 256, (50, storage.block_bytes), np.uint8)
    # Halves may be NaN or infinite in random bytes: what is compared must be numbers.
    spots = {"Q6_K": [208], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q4_1": [0, 2], "Q5_1": [0, 2]}.get(name, [0])
    for at in spots:
        data[:, at : at + 2] = np.random.default_rng(at).normal(0, 0.1, 50).astype("<f2").view(np.uint8).reshape(50, 2)
    expected = gguf.quants.dequantize(data, kind)
    found = storage.rows(data.reshape(-1), storage.block_values)
    assert found.dtype == np.float32 and found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


def test_q4_0_by_hand() -> None:
    block = np.zeros(18, np.uint8)
    block[:2] = np.array([0.5], "<f2").view(np.uint8)
    block[2], block[3] = 0x0F, 0xF8  # value 0 is 15, 16 is 0; value 1 is 8, 17 is 15
    found = STORAGES["Q4_0"].rows(block, 32)[0]
    assert found[0] == 3.5 and found[16] == -4 and found[1] == 0 and found[17] == 3.5


@pytest.mark.parametrize("name", ["F64", "F32", "F16", "BF16"])
def test_plain_types(name: str) -> None:
    values = np.array([[0.0, -1.5, 3e-5, np.inf], [1.0, 2.0, -0.25, 1e4]], np.float32)
    dtype = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}.get(name)
    raw = bf16(values) if dtype is None else values.astype(dtype)
    found = STORAGES[name].rows(raw.reshape(-1).view(np.uint8), 4)
    exact = values if name in ("F64", "F32") else found
    assert np.array_equal(found, exact) and np.allclose(found[np.isfinite(found)], values[np.isfinite(values)], rtol=8e-3)
    assert np.isinf(found[0, 3])


def test_a_row_is_whole_blocks() -> None:
    with pytest.raises(ValueError, match="no multiple of the 256"):
        STORAGES["Q6_K"].row_bytes(576)
    assert STORAGES["Q8_0"].row_bytes(576) == 18 * 34
