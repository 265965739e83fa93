"""Near duplicates on Ray: the bytes of a run on this machine, and of its processes."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("ray")

from tests.conftest import make_docs_artifact
from tests.engine.nodes import cluster_of
from tests.recipe.test_dedup_near import family
from tests.recipe.test_run import tree
from typecase.engine.local import Local
from typecase.engine.ray import Ray
from typecase.recipe.dedup import Dedup
from typecase.recipe.run import run_stage

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1,340 documents in 8 files, copies edited a little and a lot among them, of every file in others."""
    documents = family(7, num=440)
    return make_docs_artifact(tmp_path_factory.mktemp("sources") / "docs", documents[::2] + documents[1::2], 8)


@pytest.mark.parametrize("threshold", [0.5, 0.8])
def test_near_duplicates(docs: Path, tmp_path: Path, threshold: float) -> None:
    stage, given = Dedup(near=threshold), {"docs": docs}
    alone = run_stage(stage, given, tmp_path / "alone", engine=Local(0))
    assert alone.manifest.balance is not None and 440 <= alone.manifest.balance.num_removed < 1_000
    here = run_stage(stage, given, tmp_path / "here", engine=Local(2))
    with cluster_of(2) as cluster:
        there = run_stage(stage, given, tmp_path / "there", engine=Ray(cluster.address))
    assert tree(here.folder) == tree(alone.folder)
    assert tree(there.folder) == tree(alone.folder)
