"""Encoders: real networks, small ones made on the spot and the sentence encoder where it is installed."""

from __future__ import annotations

import pickle
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from typecase.errors import NeedsExtra, NotFound
from typecase.lm.embedding import PARTS, WINDOW_TOKENS, VectorStore, cut_evenly, open_encoder


@given(st.integers(0, 3000), st.integers(1, 300))
def test_spans_tile_evenly(size: int, most: int) -> None:
    spans = cut_evenly(size, most)
    assert [token for a, b in spans for token in range(a, b)] == list(range(size))
    sizes = [b - a for a, b in spans]
    assert len(spans) == -(-size // most) and (not sizes or (max(sizes) - min(sizes) <= 1 and 0 < max(sizes) <= most))


def test_a_small_causal_lm_is_an_encoder(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from tests.lm.tiny import make_tiny

    encoder = open_encoder(make_tiny(tmp_path / "tiny"))
    assert encoder.name == "tiny" and len(encoder.fingerprint) == 32
    texts = ["a stone", "an ant stands still " * 40, "", "a"]
    vectors = encoder.embed(texts)
    assert vectors.shape == (4, PARTS * encoder.width) and vectors.dtype == np.float16 and encoder.width == 32
    assert not vectors[2].any() and vectors[3].any()
    for row, text in enumerate(texts):
        np.testing.assert_array_equal(encoder.embed([text])[0], vectors[row])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(encoder)).embed(texts[:1]), vectors[:1])

    import transformers

    network = transformers.AutoModel.from_pretrained(encoder.path, dtype=torch.float32).eval()
    ids = transformers.AutoTokenizer.from_pretrained(encoder.path)("a stone", add_special_tokens=False)["input_ids"]
    with torch.inference_mode():
        layers = network(torch.tensor([ids]), output_hidden_states=True).hidden_states
    plain = torch.cat([layers[k][0, 1:].mean(dim=0) for k in (1, 1, 2)]).numpy()  # a causal LM's first token is left out
    np.testing.assert_allclose(vectors[0], plain, rtol=2e-3, atol=2e-3)


def test_a_store_asks_once_for_each_text(tmp_path: Path) -> None:
    asked: list[str] = []

    class Counting:
        fingerprint = "a" * 32

        def embed(self, texts: list[str]) -> np.ndarray:
            asked.extend(texts)
            return np.array([[len(text)] for text in texts], np.float16).reshape(len(texts), 1)

    store = VectorStore(Counting())  # type: ignore[arg-type]
    assert store.embed(["a", "bb", "a"]).ravel().tolist() == [1, 2, 1] and asked == ["a", "bb"]
    store.save(tmp_path / "vectors.npz")
    again = VectorStore(Counting())  # type: ignore[arg-type]
    again.load(tmp_path / "vectors.npz")
    again.load(tmp_path / "none.npz")
    assert again.embed(["bb", "\ud800"]).ravel().tolist() == [2, 1] and asked == ["a", "bb", "\ud800"]
    other = VectorStore(Counting())  # type: ignore[arg-type]
    other.encoder.fingerprint = "b" * 32  # type: ignore[misc]
    other.load(tmp_path / "vectors.npz")
    assert not other.vectors


def test_a_folder_without_a_checkpoint(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with pytest.raises(NotFound, match=r"a checkpoint folder holds config\.json"):
        open_encoder(tmp_path)


@pytest.mark.slow
def test_the_sentence_encoder_tells_subjects_apart() -> None:
    try:
        encoder = open_encoder("minilm")
    except NeedsExtra as error:
        pytest.skip(str(error))
    texts = ["The cow eats grass in the field.", "Cattle graze on the meadow.", "Interest on the loan is due in June."]
    vectors = encoder.embed([*texts, "word " * (3 * WINDOW_TOKENS)]).astype(np.float32)
    assert vectors.shape == (4, PARTS * 384)
    late = vectors[:, -384:] / np.linalg.norm(vectors[:, -384:], axis=1, keepdims=True)
    assert late[0] @ late[1] > 0.4 > late[0] @ late[2]
