"""perplexity: a row for every document, the same bytes for any parts and workers, and no document scores itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import make_documents
from tests.recipe.test_run import tree
from typecase.core.document import Document
from typecase.engine.local import Local
from typecase.errors import FixInput, SchemaMismatch
from typecase.lm.fake import FakeLM
from typecase.lm.protocol import Can
from typecase.recipe import perplexity as stage
from typecase.recipe.perplexity import SCHEMA, Perplexity, read_perplexity, summaries_by_source, summary_of
from typecase.recipe.run import run_stage

Docs = Callable[..., Path]
LINE = "the compositor sets a line of type letter by letter and locks the forme with quoins before the press"
WORDS = LINE.split()


def texts(num: int, *, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, int(rng.integers(5, 60)))) + f" no {k}." for k in range(num)]


def rows_of(folder: Path) -> dict[str, dict[str, object]]:
    tables = [pq.read_table(p) for p in sorted(folder.glob("part-*.parquet"))]
    return {row["doc_id"]: row for row in pa.concat_tables(tables).to_pylist()}


@pytest.mark.parametrize("unit", ["words", "bytes"])
def test_parts_and_workers_do_not_matter(tmp_path: Path, docs_artifact: Docs, unit: str) -> None:
    documents = make_documents([*texts(40), "", " \n ", "word"])
    plan = Perplexity(unit=unit, order=3)  # type: ignore[arg-type]
    one = run_stage(plan, {"docs": docs_artifact(documents, 1, "one")}, tmp_path / "a")
    many = {"docs": docs_artifact(documents, 4, "many")}
    three = run_stage(plan, many, tmp_path / "b", engine=Local(2))
    assert rows_of(one.folder) == rows_of(three.folder)
    assert tree(three.folder) == tree(run_stage(plan, many, tmp_path / "c").folder)
    assert one.manifest.decision["models"] == three.manifest.decision["models"]
    assert summary_of(read_perplexity(one.folder)) == summary_of(read_perplexity(three.folder))


def test_every_document_has_a_row_and_a_status(tmp_path: Path, docs_artifact: Docs) -> None:
    documents = make_documents([*texts(20), "", " \n ", "word"])
    folder = docs_artifact(documents, 3)
    before = tree(folder)
    made = run_stage(Perplexity(), {"docs": folder}, tmp_path / "out")
    assert tree(folder) == before and pq.read_schema(made.folder / "part-00000.parquet").equals(SCHEMA)
    rows = rows_of(made.folder)
    text_of = {d.id: d.text for d in documents}
    assert set(rows) == set(text_of)
    for doc_id, row in rows.items():
        text = text_of[doc_id]
        assert row["bytes"] == len(text.encode()) and row["unscored"] == 0
        wanted = "empty_text" if not text.strip() else "one_token" if text == "word" else "ok"
        assert row["status"] == wanted and (row["nll"] is None) == (wanted == "empty_text")
    assert made.manifest.kind == "perplexity" and made.manifest.balance is not None and made.manifest.balance.kept == 23


def test_no_document_scores_itself(tmp_path: Path, docs_artifact: Docs) -> None:
    """Another text for one document leaves its own fold as it was, and moves the other fold alone."""
    documents = make_documents(texts(30))
    changed = [
        Document(d.id, d.text + " fresh words never seen before", d.source, d.place, d.meta) if k == 7 else d
        for k, d in enumerate(documents)
    ]
    before = rows_of(run_stage(Perplexity(), {"docs": docs_artifact(documents, 2, "x")}, tmp_path / "a").folder)
    after = rows_of(run_stage(Perplexity(), {"docs": docs_artifact(changed, 2, "y")}, tmp_path / "b").folder)
    fold = dict(zip(before, stage._folds(list(before), 2, 1.0, 0).tolist()))
    mine = fold[documents[7].id]
    for doc_id in before:
        if doc_id != documents[7].id:
            assert (before[doc_id] == after[doc_id]) == (fold[doc_id] == mine), doc_id
    alone = make_documents(["quixotic zephyrs vex jackdaws mightily", *texts(30)])
    found = rows_of(run_stage(Perplexity(), {"docs": docs_artifact(alone, 2, "z")}, tmp_path / "c").folder)
    strange = found[alone[0].id]
    assert isinstance(strange["nll"], float) and strange["nll"] / 6 > 8  # a model that had read it would find it easy


def test_a_reference_is_fitted_instead(tmp_path: Path, docs_artifact: Docs) -> None:
    mine = docs_artifact(make_documents(texts(10)), 2, "mine")
    like, unlike = (
        docs_artifact(make_documents(t), 2, n) for t, n in ((texts(50, seed=1), "like"), (["ein fremder Text"], "un"))
    )
    near, far = (
        summary_of(read_perplexity(run_stage(Perplexity(), {"docs": mine, "reference": ref}, tmp_path / name).folder))
        for ref, name in ((like, "a"), (unlike, "b"))
    )
    assert near.bits_per_byte and far.bits_per_byte and near.bits_per_byte < far.bits_per_byte / 2


def test_a_share_is_drawn_by_id(tmp_path: Path, docs_artifact: Docs) -> None:
    documents = make_documents(texts(200))
    size = sum(len(d.text.encode()) for d in documents)
    made = [
        run_stage(
            Perplexity(fit_bytes=size // 4), {"docs": docs_artifact(documents, parts, f"p{parts}")}, tmp_path / f"o{parts}"
        )
        for parts in (1, 5)
    ]
    assert made[0].manifest.decision["models"] == made[1].manifest.decision["models"]
    symbols = sum(model["symbols"] for model in made[0].manifest.decision["models"])
    whole = run_stage(Perplexity(), {"docs": docs_artifact(documents, 1, "whole")}, tmp_path / "w").manifest.decision["models"]
    assert 0.1 < symbols / sum(model["symbols"] for model in whole) < 0.4


def test_a_language_model_scores(tmp_path: Path, docs_artifact: Docs, monkeypatch: pytest.MonkeyPatch) -> None:
    lm = FakeLM(can=Can(score=True, context_tokens=64))
    monkeypatch.setattr(stage, "_open", lambda spec: lm)
    documents = make_documents([*texts(12), ""])
    made = run_stage(Perplexity(model="fake"), {"docs": docs_artifact(documents, 2)}, tmp_path / "out")
    assert made.manifest.params["model_fingerprint"] == lm.fingerprint and made.manifest.params["window"] == 64
    found = summary_of(read_perplexity(made.folder))
    assert found.documents == 12 and found.statuses == {"ok": 12, "empty_text": 1}
    assert found.token_weighted and math.log(found.token_weighted) == pytest.approx(4, abs=0.5)  # the fake's mean


def test_sources_are_summed_apart(tmp_path: Path, docs_artifact: Docs) -> None:
    documents = [replace(d, source="ab"[k >= 10]) for k, d in enumerate(make_documents(texts(16)))]
    folder = docs_artifact(documents, 2)
    made = run_stage(Perplexity(), {"docs": folder}, tmp_path / "out")
    parts = summaries_by_source(made.folder, folder)
    assert {name: one.documents for name, one in parts.items()} == {"a": 10, "b": 6}
    assert sum(one.tokens for one in parts.values()) == summary_of(read_perplexity(made.folder)).tokens


def test_what_cannot_be_is_refused(tmp_path: Path, docs_artifact: Docs) -> None:
    given = {"docs": docs_artifact(make_documents(["a b"]))}
    for plan in (Perplexity(order=9), Perplexity(order=1), Perplexity(fit_bytes=0), Perplexity(unit="letters")):  # type: ignore[arg-type]
        with pytest.raises(FixInput):
            run_stage(plan, given, tmp_path / "out")
    with pytest.raises(SchemaMismatch):
        read_perplexity(given["docs"])


def test_no_documents_at_all(tmp_path: Path, docs_artifact: Docs) -> None:
    made = run_stage(Perplexity(), {"docs": docs_artifact([], 1)}, tmp_path / "out")
    found = summary_of(read_perplexity(made.folder))
    assert found.documents == 0 and found.token_weighted is None
