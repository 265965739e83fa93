"""audit spectra: planted exponents are found, noise is none, and the fit is that of a naive search."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from tests.store.weights.making import write_folder
from typecase.app.audit.spectra import audit_spectra, eigenvalues, fit_tail
from typecase.app.commands.audit import audit_command
from typecase.errors import BadQuery

pytest.importorskip("powerlaw")


def planted(alpha: float, rows: int, width: int, seed: int) -> np.ndarray:
    """A matrix whose WᵀW has eigenvalues drawn from λ^-alpha, λ >= 1."""
    rng = np.random.default_rng(seed)
    size = min(rows, width)
    values = (1 - rng.random(size)) ** (-1 / (alpha - 1))
    left = np.linalg.qr(rng.standard_normal((rows, size)))[0]
    right = np.linalg.qr(rng.standard_normal((width, size)))[0]
    return ((left * np.sqrt(values)) @ right.T).astype(np.float32)


def naive_fit(values: np.ndarray) -> tuple[float, float, float]:
    """Clauset, Shalizi & Newman: of every beginning of the tail the one of the smallest distance."""
    best = (math.nan, math.nan, math.inf)
    for start in values[:-1]:
        tail = values[values >= start]
        alpha = 1 + len(tail) / np.log(tail / start).sum()
        model = 1 - (tail / start) ** (1 - alpha)
        distance = np.abs(model - np.arange(len(tail)) / len(tail)).max()
        if distance < best[2]:
            best = (alpha, float(start), float(distance))
    return best


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    noise = np.random.default_rng(0).standard_normal((200, 300)).astype(np.float32)
    broken = noise.copy()
    broken[3, 7] = np.nan
    tensors = {
        "model.embed_tokens.weight": planted(3.0, 300, 200, 1),
        "model.layers.0.mlp.up_proj.weight": planted(3.5, 200, 260, 2),
        "model.layers.0.mlp.down_proj.weight": planted(1.6, 260, 200, 3),
        "model.layers.0.self_attn.q_proj.weight": noise,
        "model.layers.0.self_attn.k_proj.weight": broken,
        "model.layers.0.self_attn.v_proj.weight": noise[:20],
        "model.norm.weight": np.ones(200, np.float32),
    }
    return write_folder(tmp_path_factory.mktemp("model"), [tensors])


def test_planted_exponents_are_found_and_noise_is_weak(model: Path) -> None:
    found = audit_spectra(model)
    rows = {r["matrix"].removeprefix("model.layers.0."): r for r in found.table.to_pylist()}
    assert found.matrices == len(rows) == 5 and found.small == 1
    for name, alpha, verdict in (("mlp.up_proj.weight", 3.5, "well"), ("mlp.down_proj.weight", 1.6, "heavy")):
        assert abs(rows[name]["alpha"] - alpha) < 4 * rows[name]["error"] and rows[name]["verdict"] == verdict
    assert rows["self_attn.q_proj.weight"]["verdict"] == "weak" and rows["self_attn.q_proj.weight"]["alpha"] > 6
    assert rows["self_attn.k_proj.weight"]["verdict"] == "none" and math.isnan(rows["self_attn.k_proj.weight"]["alpha"])
    values = np.linalg.svd(planted(3.5, 200, 260, 2), compute_uv=False).astype(np.float64) ** 2
    assert rows["mlp.up_proj.weight"]["stable_rank"] == pytest.approx(values.sum() / values[0], rel=1e-4)
    assert found.verdicts == {"heavy": 1, "none": 1, "weak": 1, "well": 2} and found.mean_alpha is not None


@pytest.mark.parametrize("alpha", [1.7, 2.5, 4.0, 7.0])
def test_the_fit_is_that_of_a_naive_search(alpha: float) -> None:
    """Exponents above 3 are not cut off."""
    values = eigenvalues(planted(alpha, 150, 180, 5).astype(np.float64))
    found = fit_tail(values)
    expected = naive_fit(values)
    assert found[0] == pytest.approx(expected[0], rel=0.02) and found[3] == pytest.approx(expected[1], rel=1e-6)
    assert found[2] == (values >= found[3]).sum() and found[1] == pytest.approx((found[0] - 1) / found[2] ** 0.5)


def test_on_the_command_line(model: Path, tmp_path: Path) -> None:
    run = CliRunner()
    done = run.invoke(audit_command, ["spectra", str(model), "--quiet", "--where", "verdict = 'weak'"], catch_exceptions=False)
    assert done.exit_code == 0 and "5 matrices, 1 too small" in done.output
    assert "q_proj" in done.output and "up_proj" not in done.output
    done = run.invoke(audit_command, ["spectra", str(model), "--json", "--where", "true"], catch_exceptions=False)
    told = json.loads(done.output)
    assert len(told["rows"]) == 5 and told["verdicts"]["weak"] == 1
    with pytest.raises(BadQuery, match="no matrix with 1000 rows"):
        audit_spectra(model, least=1000)
    with pytest.raises(BadQuery, match="two eigenvalues"):
        audit_spectra(model, least=1)
