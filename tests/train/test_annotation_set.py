"""Where annotations lie: folders, JSON lines and artifacts, and what is said when something is missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest

from tests.conftest import make_documents
from tests.train.made import make_folder, rubric
from typecase.errors import NotFound, SchemaMismatch
from typecase.lm.rate.rubric import load_rubric
from typecase.recipe.rate import Rate
from typecase.recipe.run import run_stage
from typecase.train.annotation_set import origins_of, read_annotations

RUBRIC = rubric()


def test_a_folder_or_a_file_beside_its_documents_or_anywhere(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "made")
    whole, places = read_annotations(folder, RUBRIC)
    assert places == (folder / "ratings.jsonl", folder / "documents.jsonl")
    assert read_annotations(folder / "ratings.jsonl", RUBRIC)[0].fingerprint == whole.fingerprint
    moved = (folder / "documents.jsonl").rename(tmp_path / "texts.jsonl")
    assert read_annotations(folder / "ratings.jsonl", RUBRIC, docs=moved)[0].fingerprint == whole.fingerprint
    with pytest.raises(NotFound, match=r"no documents\.jsonl"):
        read_annotations(folder, RUBRIC)
    with pytest.raises(NotFound, match=r"no ratings\.jsonl"):
        read_annotations(tmp_path, RUBRIC)


def test_an_artifact_of_rate_finds_its_documents(docs_artifact: Callable[..., Path], tmp_path: Path) -> None:
    docs = docs_artifact(
        [
            replace(doc, source=f"s{k % 3}", meta={"project": f"p{k % 5}"})
            for k, doc in enumerate(make_documents([f"The {k}th note is about ships and law." for k in range(20)] + [" "]))
        ],
        num_parts=2,
    )
    ratings = run_stage(Rate(), {"docs": docs}, tmp_path / "ratings").folder
    dataman = load_rubric("dataman")
    made, places = read_annotations(ratings, dataman)
    assert made.balance.as_dict() == {"in": 21, "kept": 20, "removed": {"empty_text": 1}, "quarantined": {}}
    assert set(made.documents.sources) == {"s0", "s1", "s2"}
    assert (made.documents.scores % 1 != 0).any(), "expected scores are kept as they are"
    assert [parent.kind for parent in origins_of(places, child=tmp_path / "out")] == ["ratings", "docs"]
    finer, _ = read_annotations(ratings, dataman, source_key="project")
    assert len(set(finer.documents.sources)) == 5

    lines = [{"doc_id": i, "domain": "Law"} | dict.fromkeys(dataman.columns, 4) for i in made.documents.ids[:3]]
    (tmp_path / "own.jsonl").write_bytes(b"\n".join(orjson.dumps(line) for line in lines))
    own, _ = read_annotations(tmp_path / "own.jsonl", dataman, docs=docs)
    np.testing.assert_array_equal(own.documents.scores, np.full((3, 14), 4))

    with pytest.raises(SchemaMismatch, match="no column 'loud'"):
        read_annotations(ratings, RUBRIC)
    with pytest.raises(SchemaMismatch, match="holds docs, not ratings"):
        read_annotations(docs, dataman, docs=docs)
    docs.rename(tmp_path / "moved")
    with pytest.raises(NotFound, match="name them as docs"):
        read_annotations(ratings, dataman)
    assert read_annotations(ratings, dataman, docs=tmp_path / "moved")[0].fingerprint == made.fingerprint
    with pytest.raises(NotFound, match="no annotations at"):
        read_annotations(tmp_path / "nowhere", dataman)
