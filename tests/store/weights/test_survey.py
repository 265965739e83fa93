"""A pass over a matrix gives what numpy gives on all of it, whatever the blocks and threads; what was planted is found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.store.weights.making import write_folder
from typecase.core.glitch.rows import NEAR_ZERO, NON_FINITE, ORDINARY, ZERO
from typecase.errors import BadQuery
from typecase.store.weights import matrix as matrix_module
from typecase.store.weights.checkpoint import open_checkpoint
from typecase.store.weights.indicate import indicate
from typecase.store.weights.survey import project, survey


def planted(width: int, *, rows: int = 1200, seed: int = 0) -> tuple[np.ndarray, list[int]]:
    """A matrix whose rows have a common direction, and 30 rows that are almost one vector."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(rows, width)) + 0.8 * rng.normal(size=width)
    dead = sorted(rng.choice(rows, 30, replace=False).tolist())
    values[dead] = rng.normal(size=width) * 0.9 + 0.02 * rng.normal(size=(30, width))
    return values.astype(np.float32), dead


def test_one_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values, _ = planted(24)
    values[5], values[6, 3], values[7] = 0, np.nan, 1e-18
    values[9] = values[8]
    found = open_checkpoint(write_folder(tmp_path / "m", [{"wte.weight": values}])).output
    whole = survey(found, sketch=True)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(whole.facts.norms, np.linalg.norm(values.astype(np.float64), axis=1), rtol=1e-12)
    kinds = whole.facts.kinds()
    assert [kinds[k] for k in (5, 6, 7)] == [ZERO, NON_FINITE, NEAR_ZERO] and (kinds == ORDINARY).sum() == len(values) - 3
    same = whole.facts.same_as()
    assert same[9] == 8 and (same == np.arange(len(values))).sum() == len(values) - 1
    finite = np.isfinite(values).all(axis=1)
    np.testing.assert_allclose(whole.mean, values[finite].astype(np.float64).mean(axis=0), rtol=1e-9)
    directions = np.random.default_rng(1).normal(size=(3, 24))
    np.testing.assert_allclose(project(found, directions)[finite], values[finite].astype(np.float64) @ directions.T, rtol=1e-9)
    monkeypatch.setattr(matrix_module, "_BLOCK_BYTES", 24 * 4 * 7)
    small = survey(found, sketch=True, threads=3)
    assert np.array_equal(small.facts.norms, whole.facts.norms, equal_nan=True)
    assert np.array_equal(small.facts.digests, whole.facts.digests)
    assert np.array_equal(project(found, directions, threads=1), project(found, directions, threads=2), equal_nan=True)


@pytest.mark.parametrize("width", [48, 300])
def test_planted_rows_come_first(tmp_path: Path, width: int) -> None:
    values, dead = planted(width)
    values[3] = 0
    dead = [t for t in dead if t != 3]
    found = indicate(
        open_checkpoint(write_folder(tmp_path / "m", [{"wte.weight": values}])), proposals=dead[:8], old_views=True
    )
    assert set(found.references.ids) <= set(dead) and found.references.method == "neighbours" and found.references.settled
    lowest = np.argsort(np.where(np.isnan(found.e_out_cosine), np.inf, found.e_out_cosine))[: len(dead)]
    assert set(lowest.tolist()) == set(dead)
    assert np.isnan(found.e_out_cosine[3]) and found.dead[3] and found.kinds[3] == ZERO
    assert set(found.structural) == set(dead[:8]) and found.agreement is not None and found.agreement.spearman > 0.9
    assert found.warnings == ()
    m = values[list(found.references.ids)].astype(np.float64).mean(axis=0)
    exact = 1 - values[dead[0]].astype(np.float64) @ m / np.linalg.norm(m) / np.linalg.norm(values[dead[0]].astype(np.float64))
    assert found.e_out_cosine[dead[0]] == pytest.approx(exact, abs=1e-12)
    assert found.e_out_l2[dead[0]] == pytest.approx(np.linalg.norm(values[dead[0]] - m), rel=1e-6)


def test_untied_looks_at_both_matrices(tmp_path: Path) -> None:
    values, dead = planted(32)
    inner = np.random.default_rng(3).normal(size=values.shape).astype(np.float32)
    inner[11] = 0
    checkpoint = open_checkpoint(write_folder(tmp_path / "m", [{"wte.weight": inner, "lm_head.weight": values}]))
    found = indicate(checkpoint)
    assert not checkpoint.tied and found.in_kinds[11] == ZERO and found.dead.sum() == 1
    assert found.e_in_norm[12] == pytest.approx(np.linalg.norm(inner[12])) and set(found.references.ids) <= set(dead)


def test_references_may_be_given(tmp_path: Path) -> None:
    values, dead = planted(32)
    values[0] = 0
    checkpoint = open_checkpoint(write_folder(tmp_path / "m", [{"wte.weight": values}]))
    given = indicate(checkpoint, given=dead[:5])
    assert given.references.ids == tuple(dead[:5]) and given.references.method == "given"
    odd = indicate(checkpoint, given=[t for t in range(1, 40) if t not in dead])
    assert any("loose" in w for w in odd.warnings)
    for wrong in ([0], [5000], []):
        with pytest.raises(BadQuery, match="references are ids"):
            indicate(checkpoint, given=wrong)
