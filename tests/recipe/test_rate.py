"""rate: a row for every document, nulls with a reason, the text untouched, the same bytes for any workers and parts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import make_documents
from tests.recipe.test_run import tree
from typecase.engine.local import Local
from typecase.errors import CorruptStore, NotFound
from typecase.lm.rater import FakeRater
from typecase.lm.rubric import load_rubric
from typecase.recipe import rate as rating
from typecase.recipe.rate import Rate, ratings_schema
from typecase.recipe.run import run_stage
from typecase.store.documents import open_documents

Docs = Callable[..., Path]
TEXTS = [
    *[f"The composing stick number {i} holds a line of type; the compositor sets it letter by letter. " * 3 for i in range(20)],
    "   \n ",
    "汉字排版使用字架。" * 20,
]


def rows_of(folder: Path) -> list[dict[str, object]]:
    return pa.concat_tables([pq.read_table(p) for p in sorted(folder.glob("part-*.parquet"))]).to_pylist()


def test_every_document_has_a_row_and_the_text_is_untouched(tmp_path: Path, docs_artifact: Docs) -> None:
    folder = docs_artifact(make_documents(TEXTS), 3)
    before = tree(folder)
    made = run_stage(Rate(), {"docs": folder}, tmp_path / "ratings")
    assert tree(folder) == before
    rows = rows_of(made.folder)
    assert [r["doc_id"] for r in rows] == [d.id for d in open_documents(folder)]
    blank = make_documents(TEXTS)[20].id
    for row in rows:
        score = row["overall_score"]
        if row["doc_id"] == blank:
            assert score is None and row["domain"] is None and row["status"] != "ok"
        else:
            assert isinstance(score, float) and 1 <= score <= 5 and row["domain"]
    assert made.manifest.balance is not None and made.manifest.balance.kept == len(TEXTS)
    assert made.manifest.kind == "ratings" and made.manifest.params["rater"]


def test_parts_and_workers_do_not_matter(tmp_path: Path, docs_artifact: Docs) -> None:
    documents = make_documents(TEXTS)
    one = run_stage(Rate(), {"docs": docs_artifact(documents, 1, "one")}, tmp_path / "a")
    many = {"docs": docs_artifact(documents, 5, "many")}
    three = run_stage(Rate(), many, tmp_path / "b", engine=Local(2))
    assert rows_of(one.folder) == rows_of(three.folder)
    assert tree(three.folder) == tree(run_stage(Rate(), many, tmp_path / "c").folder)


def test_any_rater_of_the_protocol_will_do(tmp_path: Path, docs_artifact: Docs, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeRater(load_rubric("dataman"))
    monkeypatch.setattr(rating, "open_rater", lambda name: fake)
    made = run_stage(Rate(rater="fake"), {"docs": docs_artifact(make_documents(TEXTS), 2)}, tmp_path / "out")
    assert pq.read_schema(made.folder / "part-00000.parquet").equals(ratings_schema(fake.rubric))
    assert made.manifest.params["rater_fingerprint"] == fake.fingerprint


def test_a_rater_that_is_none(tmp_path: Path, docs_artifact: Docs) -> None:
    given = {"docs": docs_artifact(make_documents(["a"]))}
    with pytest.raises(NotFound):
        run_stage(Rate(rater=str(tmp_path / "none.npz")), given, tmp_path / "out")
    (tmp_path / "junk.npz").write_bytes(b"junk")
    with pytest.raises(CorruptStore):
        run_stage(Rate(rater=str(tmp_path / "junk.npz")), given, tmp_path / "out")
    assert not (tmp_path / "out").exists()
