"""Thresholds: samples follow from the seed, strata do not bend the figures, wishes are kept, and doubt is said."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from typecase.core.threshold import Labels, _shares, draw_sample, propose, separation_of
from typecase.errors import BadQuery


def pool(num: int = 6000, seed: int = 0) -> tuple[list[str], np.ndarray, list[str], np.ndarray]:
    """Documents of which people keep more, the higher the score; one in ten is of a rare source that scores high."""
    dice = np.random.default_rng(seed)
    scores = dice.normal(3, 0.8, num)
    rare = np.arange(num) % 10 == 0
    scores[rare] += 1
    keep = (dice.random(num) < 1 / (1 + np.exp(-3 * (scores - 3.2)))).astype(np.float64)
    return [str(k) for k in range(num)], scores, ["rare" if r else "web" for r in rare], keep


def labelled(size: int, seed: int = 0) -> tuple[Labels, np.ndarray, np.ndarray]:
    ids, scores, sources, keep = pool()
    drawn = draw_sample(ids, scores, sources, size=size, bins=5, seed=seed)
    return Labels(scores[drawn.rows], keep[drawn.rows], drawn.stratum, drawn.pool), scores, keep


def test_a_sample_depends_on_seed_and_ids_alone() -> None:
    ids, scores, sources, _ = pool(500)
    first = draw_sample(ids, scores, sources, size=60, bins=4, seed=1)
    turned = np.arange(500)[::-1]
    again = draw_sample([ids[k] for k in turned], scores[turned], [sources[k] for k in turned], size=60, bins=4, seed=1)
    assert [ids[k] for k in first.rows] == [ids[turned[k]] for k in again.rows]
    other = draw_sample(ids, scores, sources, size=60, bins=4, seed=2)
    assert set(first.rows.tolist()) != set(other.rows.tolist())
    assert len(set(first.rows.tolist())) == 60
    for row, chance, stratum in zip(first.rows, first.inclusion, first.stratum, strict=True):
        assert chance == pytest.approx(first.stratum.count(stratum) / first.pool[stratum])
        assert stratum.endswith(sources[row])
    assert sum(first.pool.values()) == 500


def test_a_document_without_a_score_takes_no_part() -> None:
    scores = np.array([1.0, np.nan, 3.0])
    drawn = draw_sample(["a", "b", "c"], scores, ["", "", ""], size=9, bins=2, seed=0)
    assert sorted(drawn.rows.tolist()) == [0, 2]
    with pytest.raises(BadQuery):
        draw_sample(["a"], np.array([np.nan]), [""], size=1, bins=1, seed=0)


@given(st.lists(st.integers(0, 60), min_size=1, max_size=12), st.integers(1, 150))
def test_shares_fit_their_room_and_add_up(room: list[int], size: int) -> None:
    share = _shares(room, size)
    assert sum(share) == min(size, sum(room))
    assert all(0 <= s <= r for s, r in zip(share, room, strict=True))
    for a in range(len(room)):
        for b in range(len(room)):
            if room[a] < room[b]:
                assert share[a] <= share[b] + 1


@pytest.mark.parametrize("shape", ["isotonic", "logistic"])
def test_a_wished_precision_is_met_within_its_interval(shape: str) -> None:
    labels, scores, keep = labelled(400)
    found = propose(labels, scores, precision=0.8, shape=shape)  # type: ignore[arg-type]
    assert found.cut is not None and found.sure is not None and found.sure.threshold > found.cut.threshold
    above = scores >= found.cut.threshold
    assert found.cut.precision >= 0.8 and found.cut.keep_rate == pytest.approx(above.mean())
    assert found.cut.precision_low - 0.02 <= keep[above].mean() <= found.cut.precision_high + 0.02
    assert found.cut.recall_low - 0.03 <= keep[above].sum() / keep.sum() <= found.cut.recall_high + 0.03
    assert found.base_rate == pytest.approx(keep.mean(), abs=0.06)
    assert found.warnings == ()


def test_a_wished_keep_rate_is_not_passed_and_no_lower_threshold_would_do() -> None:
    labels, scores, _ = labelled(200)
    found = propose(labels, scores, keep_rate=0.3)
    assert found.cut is not None and found.cut.keep_rate <= 0.3
    lower = [cut for cut in found.curve if cut.threshold < found.cut.threshold]
    assert lower[-1].keep_rate > 0.3
    assert found.sure is None


def test_precision_rises_and_recall_falls_along_the_curve() -> None:
    labels, scores, _ = labelled(150)
    curve = propose(labels, scores, precision=0.5).curve
    assert (np.diff([cut.precision for cut in curve]) >= -1e-12).all()
    assert (np.diff([cut.recall for cut in curve]) <= 1e-12).all()
    assert curve[0].keep_rate == 1 and curve[0].recall == 1


def test_weights_undo_the_design() -> None:
    """A stratum drawn ten times as often does not bend the separation: it equals that of the pool."""
    labels, scores, keep = labelled(1500, seed=3)
    whole = Labels(scores, keep, ("all",) * len(scores), {"all": len(scores)})
    assert separation_of(labels) == pytest.approx(separation_of(whole), abs=0.02)
    assert labels.weights().sum() == pytest.approx(len(scores))


def test_doubt_is_said() -> None:
    dice = np.random.default_rng(0)
    scores = dice.normal(0, 1, 40)
    blind = Labels(scores, (dice.random(40) < 0.5).astype(np.float64), ("a",) * 40, {"a": 100, "b": 50})
    said = " ".join(propose(blind, scores, precision=0.5).warnings)
    assert "too few labels" in said and "no label yet" in said and "hardly tells" in said
    lonely = propose(blind, scores, precision=0.95)
    assert lonely.sure is None  # one kept label at the top proves nothing
    assert lonely.curve[-1].precision_low < 0.8


def test_a_score_that_points_the_wrong_way_promises_nothing() -> None:
    scores = np.linspace(0, 1, 60)
    labels = Labels(scores, (scores < 0.5).astype(np.float64), ("a",) * 60, {"a": 60})
    for shape in ("isotonic", "logistic"):
        found = propose(labels, scores, precision=0.6, shape=shape)  # type: ignore[arg-type]
        assert found.cut is None and {round(cut.precision, 3) for cut in found.curve} == {0.5}


def test_what_cannot_be_meant_is_refused() -> None:
    labels, scores, _ = labelled(50)
    for wish in ({}, {"precision": 0.9, "keep_rate": 0.3}, {"precision": 0.0}, {"keep_rate": 1.5}):
        with pytest.raises(BadQuery, match="wish"):
            propose(labels, scores, **wish)
    with pytest.raises(BadQuery, match="all alike"):
        propose(Labels(scores[:3], np.ones(3), ("a",) * 3, {"a": 3}), scores, precision=0.9)
