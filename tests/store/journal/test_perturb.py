"""A perturbation experiment: all texts stand whole in their samples, or nothing is recorded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.store.timeline.runs import FRAMEWORKS, make_set, settings_of, write_run
from typecase.core.edit.spread import spread
from typecase.errors import BadQuery, Conflict
from typecase.store.journal.opening import open_journal
from typecase.store.journal.perturb import perturb, sample_of
from typecase.store.timeline.timeline import open_timeline

TEXTS = [[9000, 9001, 9002], [9100, 9101]]


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("kind", ["seq_start", "seq_shuffle", "end"])
def test_every_text_stands_in_its_sample(tmp_path: Path, framework: str, kind: str) -> None:
    make_set(tmp_path / "a", np.random.default_rng(0).integers(1, 90, 100).tolist())
    settings = settings_of(framework, "a")
    with (
        open_timeline(write_run(tmp_path / "run.json", settings)) as timeline,
        open_journal(tmp_path / "a", write=True) as journal,
    ):
        placements = spread(2, 3, over=range(60), seed=4, batches=np.arange(60) // 8)
        done = perturb(journal, timeline, TEXTS, placements, kind=kind)
        assert [(d.text, d.copy, d.index) for d in done] == [(p.text, p.copy, p.sample) for p in placements]
        view = journal.view()
        for d in done:
            sample = sample_of(view, timeline, d.index)
            assert sample.tokens[d.at : d.at + d.length].tolist() == TEXTS[d.text]
        assert len(journal.log()) == 6
        journal.apply()
        journal.undo(1, 6)
        journal.apply()


def test_texts_that_overwrite_one_another_are_all_refused(tmp_path: Path) -> None:
    make_set(tmp_path / "a", [40])  # a few tokens, many epochs
    run = write_run(tmp_path / "run.json", settings_of("gpt-neox", "a", split="100,0,0"))
    with open_timeline(run) as timeline, open_journal(tmp_path / "a", write=True) as journal:
        placements = spread(2, 10, over=range(100), seed=1)
        with pytest.raises(Conflict, match="injections were overwritten by later ones"):
            perturb(journal, timeline, TEXTS, placements, kind="seq_start")
        assert journal.log() == [] and journal.verify() == 0
        with pytest.raises(BadQuery, match="do not fit the sample"):
            perturb(journal, timeline, [list(range(99))], spread(1, 1, over=[3], seed=1))
        with pytest.raises(BadQuery, match="no injection type"):
            perturb(journal, timeline, TEXTS, placements, kind="middle")
        assert journal.view().read(0).tolist() == list(range(1, 41))
