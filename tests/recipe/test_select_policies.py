"""The select stage with side tables, bounds, copies and published policies; and the importance stage that one goes by."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.conftest import make_docs_artifact, make_documents
from tests.recipe.rated import corpus, rated, ratings_of, write_ratings
from tests.recipe.test_select import rows_of
from typecase.core.selection.named import DATAMAN, QURATING
from typecase.core.selection.quadmix import Curve, QuadMix
from typecase.core.selection.selection import Budget, Policy
from typecase.engine.local import Local
from typecase.errors import BadRecipe, FingerprintMismatch, FixInput, SchemaMismatch
from typecase.recipe.copies import copies_of
from typecase.recipe.importance import SCHEMA, Importance
from typecase.recipe.perplexity import Perplexity, read_perplexity
from typecase.recipe.run import run_stage
from typecase.recipe.select import Select
from typecase.store.documents import open_documents
from typecase.store.shards import read_columns


def criteria_of(tmp_path: Path, num: int, *, num_parts: int = 3) -> dict[str, Path]:
    """Documents with the criteria of DataMan and of QuRating."""
    documents = corpus(num)
    docs = make_docs_artifact(tmp_path / f"docs-{num_parts}", documents, num_parts)
    rng = np.random.default_rng(8)
    names = [*DATAMAN, *QURATING]
    fields = [("doc_id", pa.string()), ("overall_score", pa.int8()), ("domain", pa.string())]
    schema = pa.schema([*fields, *((name, pa.float32()) for name in names)])
    rows: dict[str, dict[str, Any]] = {}
    for doc_id, row in ratings_of(documents).items():
        extra = {name: float(rng.integers(1, 6)) for name in DATAMAN} | {name: float(rng.normal()) for name in QURATING}
        rows[doc_id] = {"overall_score": max(1, int(row["overall_score"])), "domain": row["domain"], **extra}
    return {"docs": docs, "ratings": write_ratings(tmp_path / f"r-{num_parts}", docs, rows, schema=schema, num_parts=2)}


NAMED = [
    "dataman:creativity",
    "dataman:overall=4-5@law",
    "dataman:sum",
    "dataman:proportional",
    "qurating-mix:1",
    "per-token",
    "quadmix:100,0.4,1,0.05",
]


@pytest.mark.parametrize("policy", NAMED)
@pytest.mark.parametrize("inverse", [False, True])
def test_published_policies_run_and_parts_do_not_matter(tmp_path: Path, policy: str, inverse: bool) -> None:
    stage = Select(budget=Budget(documents=60), policy=policy, inverse=inverse, seed=3)
    seen = []
    for num_parts in (1, 4):
        made = run_stage(stage, criteria_of(tmp_path, 200, num_parts=num_parts), tmp_path / f"out-{num_parts}")
        rows = rows_of(made)
        seen.append((made.manifest.decision, rows))
        assert made.manifest.decision["met"] == sum(row["copies"] for row in rows)
        assert all((row["copies"] > 0) == row["kept"] for row in rows)
        assert [row["doc_id"] for row in rows if row["kept"]] == [d.id for d in open_documents(made.folder)]
    assert seen[0] == seen[1]
    budget = min(60, sum(row["pool_amount"] for row in seen[0][0]["strata"]))
    over = 3 if policy.startswith("quadmix") else 0  # a document with two copies may stand at the cut of each domain
    assert budget <= seen[0][0]["met"] <= budget + over


@pytest.mark.parametrize("policy", [*NAMED, "top", "sampled:0.5", "threshold:3", "qurating:0.5"])
def test_the_inverse_of_every_policy_is_its_other_end(tmp_path: Path, policy: str) -> None:
    """Lower scores on the whole, by copies; what a filter lets through and what its inverse keeps have nothing in common."""
    given = criteria_of(tmp_path, 200)
    ratings = {row["doc_id"]: row for part in given["ratings"].glob("part-*") for row in read_columns(part).to_pylist()}
    means, kept = [], []
    for inverse in (False, True):
        stage = Select(budget=Budget(documents=50), policy=policy, inverse=inverse, seed=3)
        rows = [row for row in rows_of(run_stage(stage, given, tmp_path / f"out-{inverse}")) if row["kept"]]
        kept.append({row["doc_id"] for row in rows})
        scores = [row["score"] for row in rows]
        if policy.startswith("qurating-mix"):
            scores = [sum(ratings[row["doc_id"]][name] for name in QURATING) for row in rows]
        means.append(np.average(scores, weights=[row["copies"] for row in rows]))
    assert kept[0] and kept[1] and means[0] > means[1] + 0.2
    if policy in ("threshold:3", "dataman:overall=4-5@law"):
        assert not kept[0] & kept[1]


def test_workers_and_start_methods_do_not_matter(tmp_path: Path) -> None:
    given = criteria_of(tmp_path, 60)
    stage = Select(budget=Budget(documents=20), policy="qurating-mix:1", seed=3)
    alone = run_stage(stage, given, tmp_path / "alone").manifest
    assert run_stage(stage, given, tmp_path / "two", engine=Local(2)).manifest.as_dict() == alone.as_dict()


@pytest.mark.parametrize("policy", ["perplexity:low", "perplexity:high", "perplexity:middle", "perplexity:middle:25-75"])
def test_perplexity_from_its_side_table(tmp_path: Path, policy: str) -> None:
    docs = make_docs_artifact(tmp_path / "docs", corpus(120), 2)
    side = run_stage(Perplexity(fit_bytes=1 << 20), {"docs": docs}, tmp_path / "ppl").folder
    table = {row["doc_id"]: row for row in read_perplexity(side).to_pylist()}
    stage = Select(budget=Budget(documents=30), policy=policy, strata=(), seed=1)
    made = run_stage(stage, {"docs": docs, "perplexity": side}, tmp_path / "out")
    rows = rows_of(made)
    for row in rows:
        one = table[row["doc_id"]]
        assert row["score"] == pytest.approx(one["nll"] / (one["tokens"] - one["unscored"]))
    kept = [row["score"] for row in rows if row["kept"]]
    every = sorted(row["score"] for row in rows)
    assert len(kept) == 30
    if policy == "perplexity:low":
        assert sorted(kept) == every[:30]
    elif policy == "perplexity:high":
        assert sorted(kept) == every[-30:]
    else:
        assert every[29] <= min(kept) and max(kept) <= every[90]
    with pytest.raises(BadRecipe, match="'perplexity', which `typecase perplexity` makes"):
        run_stage(stage, {"docs": docs}, tmp_path / "none")
    with pytest.raises(SchemaMismatch, match="holds docs, not perplexity"):
        run_stage(stage, {"docs": docs, "perplexity": docs}, tmp_path / "none")
    other = make_docs_artifact(tmp_path / "other", make_documents(["x", "y"]))
    with pytest.raises(FingerprintMismatch, match="share no ancestor"):
        run_stage(stage, {"docs": other, "perplexity": side}, tmp_path / "none")


# -- importance -------------------------------------------------------------------------------------------------------


def sources(tmp_path: Path, *, num_parts: int = 2) -> dict[str, Path]:
    """Documents of two vocabularies, and a target of the first."""
    rng = np.random.default_rng(6)

    def text(kind: int, length: int) -> str:
        return " ".join(f"{'ab'[kind]}{n}" for n in rng.integers(0, 8, length))

    mixed = [replace(d, source="all") for d in make_documents([text(i % 2, 120 + i) for i in range(60)] + ["too short"])]
    docs = make_docs_artifact(tmp_path / f"docs-{num_parts}", mixed, num_parts)
    return {"docs": docs, "target": make_docs_artifact(tmp_path / "target", make_documents([text(0, 300) for _ in range(20)]))}


@pytest.mark.parametrize("hashing", ["fast", "sha256"])
def test_importance_finds_what_is_like_the_target(tmp_path: Path, hashing: str) -> None:
    given = sources(tmp_path)
    made = run_stage(Importance(hashing=hashing), given, tmp_path / "importance")  # type: ignore[arg-type]
    parts = sorted(made.folder.glob("part-*"))
    assert all(read_columns(part).schema.equals(SCHEMA) for part in parts)
    table = pa.concat_tables([read_columns(part) for part in parts]).to_pylist()
    texts = {d.id: d.text for d in open_documents(given["docs"])}
    assert [row["doc_id"] for row in table] == sorted(texts)
    for row in table:
        assert row["words"] == len(texts[row["doc_id"]].split())
        if row["status"] == "too short":
            assert row["log_weight"] is None and texts[row["doc_id"]] == "too short"
        else:
            assert (row["log_weight"] > 0) == texts[row["doc_id"]].startswith("a")
    assert made.manifest.counts["status:too short"] == 1 and made.manifest.decision["kl_target_corpus"] > 0.5

    for policy, inverse in (("dsir", False), ("dsir:per-word:0.01", False), ("dsir", True)):
        stage = Select(budget=Budget(documents=20), policy=policy, inverse=inverse, seed=1)
        roles = {"docs": given["docs"], "importance": made.folder}
        chosen = run_stage(stage, roles, tmp_path / f"{policy}-{inverse}")
        assert {d.text[0] for d in open_documents(chosen.folder)} == {"b" if inverse else "a"}
        assert {row["reason"] for row in rows_of(chosen) if row["score"] is None} == {"missing rating"}


def test_importance_does_not_depend_on_parts_or_workers(tmp_path: Path) -> None:
    tables = []
    for num_parts in (1, 5):
        made = run_stage(Importance(), sources(tmp_path / str(num_parts), num_parts=num_parts), tmp_path / f"i-{num_parts}")
        tables.append(pa.concat_tables([read_columns(p) for p in sorted(made.folder.glob("part-*"))]).to_pylist())
    assert tables[0] == tables[1]


def test_an_empty_target_is_refused(tmp_path: Path) -> None:
    given = sources(tmp_path)
    empty = make_docs_artifact(tmp_path / "empty", [])
    with pytest.raises(FixInput, match="holds no document"):
        run_stage(Importance(), {**given, "target": empty}, tmp_path / "out")
    with pytest.raises(FixInput, match="hashing is fast or sha256"):
        run_stage(Importance(hashing="md5"), given, tmp_path / "out")  # type: ignore[arg-type]


# -- bounds and copies ------------------------------------------------------------------------------------------------


def test_floors_caps_and_copies(tmp_path: Path) -> None:
    given = rated(tmp_path, 120)
    stage = Select(budget=Budget(documents=100), strata=("source",), floors={"books": 0.8}, epochs=2)
    made = run_stage(stage, given, tmp_path / "out")
    met = {row["stratum"][0]: row["met"] for row in made.manifest.decision["strata"]}
    assert met == {"books": 80, "web": 20}
    rows = rows_of(made)
    assert sum(row["copies"] for row in rows) == 100 == made.manifest.counts["copies"] == made.manifest.decision["copies"]
    assert {row["copies"] for row in rows if row["stratum"] == "books"} == {1, 2}
    by_id = {row["doc_id"]: row["copies"] for row in rows}
    store = open_documents(made.folder)
    assert len(store) == sum(row["kept"] for row in rows) == 80, "each document once"
    copies = list(copies_of(made.folder))
    assert len(copies) == len(store.parts)
    assert np.concatenate(copies).tolist() == [by_id[d.id] for d in store]
    with pytest.raises(FixInput, match="floors and caps cannot hold together: the floor of books is 80"):
        run_stage(replace(stage, caps={"books": 0.5}), given, tmp_path / "conflict")


def test_documents_that_no_selection_made_count_once(tmp_path: Path) -> None:
    docs = make_docs_artifact(tmp_path / "docs", make_documents(["a", "b", "c"]), 2)
    assert [c.tolist() for c in copies_of(docs)] == [[1], [1, 1]]


def test_quadmix_merges_criteria_by_rank_with_weights_of_the_domain(tmp_path: Path) -> None:
    given = criteria_of(tmp_path, 300)
    mix = QuadMix(Curve(1000, 0.2, 1, 0.0), alphas={"law": (0.0, 1.0)})
    policy = Policy(
        key="uniform",
        score=(("creativity", 1.0), ("originality", 0.0)),
        strata=("domain",),
        quota="pool",
        epochs=2,
        quadmix=mix,
    )
    made = run_stage(Select(budget=Budget(documents=10_000), policy=policy, seed=1), given, tmp_path / "out")
    ratings = {r["doc_id"]: r for part in sorted(given["ratings"].glob("part-*")) for r in read_columns(part).to_pylist()}
    for row in rows_of(made):
        rating = ratings[row["doc_id"]]
        if row["kept"]:
            assert rating["originality" if rating["domain"] == "law" else "creativity"] >= 4
        else:
            assert row["reason"] == "not drawn" and row["copies"] == 0
    assert made.manifest.decision["copies"] == made.manifest.decision["met"] > len(open_documents(made.folder))


def test_settings_beside_a_policy_of_its_own_are_refused(tmp_path: Path) -> None:
    given = rated(tmp_path, 20)
    for extra in ({"epochs": 2}, {"caps": {"web": 0.5}}, {"inverse": True}):
        with pytest.raises(FixInput, match="belong to a named policy"):
            run_stage(Select(budget=Budget(documents=2), policy=Policy(), **extra), given, tmp_path / "out")  # type: ignore[arg-type]
