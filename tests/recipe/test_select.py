"""The select stage: what is kept, why the rest is not, and that neither parts nor workers matter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.conftest import make_docs_artifact, make_documents
from tests.recipe.rated import byte_tokenizer, corpus, rated, ratings_of, write_ratings
from typecase.core.selection.quota import apportion
from typecase.core.selection.selection import Budget, Policy
from typecase.engine.local import Local
from typecase.errors import BadRecipe, FingerprintMismatch, FixInput, SchemaMismatch
from typecase.recipe.run import Artifact, run_stage
from typecase.recipe.select import SELECTION_SCHEMA, Select
from typecase.store.documents import open_documents
from typecase.store.shards import read_columns

BYTES = Budget(bytes=6000)


def rows_of(artifact: Artifact, name: str = "selection") -> list[dict[str, Any]]:
    return [row for part in open_documents(artifact.folder).side_parts(name) for row in read_columns(part).to_pylist()]


def test_every_row_is_kept_or_has_a_reason(tmp_path: Path) -> None:
    given = rated(tmp_path, 200, unrated=9)
    made = run_stage(Select(budget=BYTES), given, tmp_path / "out")
    before, after = open_documents(given["docs"]), open_documents(made.folder)
    rows = rows_of(made)
    assert [row["doc_id"] for row in rows] == [d.id for d in before]
    kept = [row["doc_id"] for row in rows if row["kept"]]
    assert [d.id for d in after] == kept
    assert list(after) == [before.get(doc_id) for doc_id in kept], "documents are kept as they were"
    removed = rows_of(made, "removed")
    assert [r["doc_id"] for r in removed] == [row["doc_id"] for row in rows if not row["kept"]]
    reasons = [row["reason"] for row in rows]
    balance = made.manifest.balance
    assert balance is not None and balance.entered == 200 and balance.kept == len(kept)
    assert (
        balance.removed == {r: reasons.count(r) for r in ("below cut", "missing rating")}
        and balance.removed["missing rating"] == 9
    )
    assert {row["score"] for row in rows if row["reason"] == "missing rating"} == {None}
    below = next(r for r in removed if r["reason"] == "below cut")
    assert below["detail"].split(":")[0].split("/")[0] in ("books", "web") and "cut at" in below["detail"]
    for part in after.side_parts("selection"):
        assert read_columns(part).schema.equals(SELECTION_SCHEMA)


def test_the_decision_answers_what_was_asked_met_and_cut(tmp_path: Path) -> None:
    given = rated(tmp_path, 300)
    made = run_stage(Select(budget=BYTES), given, tmp_path / "out")
    decision = made.manifest.decision
    strata = decision["strata"]
    assert [tuple(row["stratum"]) for row in strata] == sorted(
        (s, d) for s in ("books", "web") for d in ("code", "law", "math")
    )
    assert [row["asked"] for row in strata] == apportion([row["amount"] for row in strata], 6000)
    assert sum(row["asked"] for row in strata) == 6000 == decision["budget"]
    texts = {d.id: len(d.text.encode()) for d in open_documents(given["docs"])}
    rows = rows_of(made)
    for row in strata:
        label = "/".join(row["stratum"])
        mine = [r for r in rows if r["stratum"] == label]
        met = sum(texts[r["doc_id"]] for r in mine if r["kept"])
        assert met == row["met"] and row["quota"] <= met < row["quota"] + max(texts[r["doc_id"]] for r in mine)
        assert min(r["score"] for r in mine if r["kept"]) >= max(r["score"] for r in mine if not r["kept"])
        assert row["cut"]["key"] == min(r["key"] for r in mine if r["kept"])
    assert decision["met"] == made.manifest.counts["text_bytes"] and decision["short"] == 0


def test_a_score_that_sorts_by_domain_is_seen(tmp_path: Path) -> None:
    decision = run_stage(Select(budget=BYTES), rated(tmp_path, 600), tmp_path / "out").manifest.decision
    code = decision["shares"]["domain"]["code"]
    assert abs(code["share_after"] - code["share_before"]) < 0.03, "quotas keep the domains"
    assert code["share_by_one_threshold"] < code["share_before"] / 3, "one threshold would not"
    assert decision["association"]["domain"] > 0.1 > 0.02 > decision["association"]["source"]
    for column in ("source", "domain"):
        table = decision["shares"][column].values()
        for share in ("share_before", "share_after", "share_by_one_threshold"):
            assert sum(row[share] for row in table) == pytest.approx(1, abs=1e-5)
        assert sum(row["documents"] for row in table) == 600


@pytest.mark.parametrize("policy", ["uniform", "top", "threshold:4", "sampled:1"])
def test_parts_do_not_matter(tmp_path: Path, policy: str) -> None:
    stage = Select(budget=BYTES, policy=policy, seed=7)
    seen = []
    for num_parts, rating_parts in ((1, 1), (3, 2), (7, 5)):
        given = rated(tmp_path, 150, num_parts=num_parts, rating_parts=rating_parts, unrated=5)
        made = run_stage(stage, given, tmp_path / f"out-{num_parts}")
        seen.append((made.manifest.decision, rows_of(made)))
    assert seen[0] == seen[1] == seen[2]


@pytest.mark.slow
def test_workers_do_not_matter(tmp_path: Path) -> None:
    given = rated(tmp_path, 120, num_parts=5)
    stage = Select(budget=BYTES, policy="sampled", seed=7)
    names = set()
    for workers in (0, 1, 2, 4):
        made = run_stage(stage, given, tmp_path / f"out-{workers}", engine=Local(workers))
        names.add((made.manifest.content, made.manifest.decision["digest"]))
    assert len(names) == 1


def test_two_spawned_workers_make_the_same_bytes(tmp_path: Path) -> None:
    given = rated(tmp_path, 60, num_parts=2)
    stage = Select(budget=Budget(documents=20), policy="uniform", seed=7)
    alone = run_stage(stage, given, tmp_path / "alone").manifest
    assert run_stage(stage, given, tmp_path / "spawned", engine=Local(2)).manifest.as_dict() == alone.as_dict()


def test_tokens_are_counted_and_met(tmp_path: Path) -> None:
    given = rated(tmp_path, 100)
    stage = Select(budget=Budget(tokens=900), policy="uniform", strata=(), tokenizer=byte_tokenizer(tmp_path), seed=1)
    made = run_stage(stage, given, tmp_path / "out")
    rows = rows_of(made)
    assert made.manifest.counts["tokens"] == sum(row["tokens"] for row in rows if row["kept"])
    assert 900 <= made.manifest.counts["tokens"] < 900 + max(row["tokens"] for row in rows)
    for row in rows:
        assert row["tokens"] == len(open_documents(given["docs"]).get(row["doc_id"]).text.encode())
    assert str(tmp_path) not in str(made.manifest.params), "the tokenizer is named by its contents"


def test_scores_and_strata_may_come_from_the_source_rows(tmp_path: Path) -> None:
    docs = make_docs_artifact(tmp_path / "docs", corpus(80), 2)
    stage = Select(budget=Budget(documents=20), score="meta.quality", strata=("source", "meta.lang.code"))
    made = run_stage(stage, {"docs": docs}, tmp_path / "out")
    assert [row["stratum"] for row in made.manifest.decision["strata"]] == [["books", "en"], ["web", "de"]]
    assert {row["score"] for row in rows_of(made) if row["kept"]} <= {4.0, 5.0, 6.0}
    absent = run_stage(Select(budget=Budget(documents=20), score="meta.nothing.here"), {"docs": docs}, tmp_path / "none")
    assert absent.manifest.balance is not None and absent.manifest.balance.removed == {"missing rating": 80}


def test_combined_scores_and_mixes(tmp_path: Path) -> None:
    given = rated(tmp_path, 200)
    policy = Policy(
        score=(("overall_score", 1.0), ("accuracy", 0.5)), quota="table", table={"books": 3.0, "web/law": 1.0}, cut="nearest"
    )
    made = run_stage(Select(budget=Budget(documents=40), policy=policy), given, tmp_path / "out")
    met = {tuple(row["stratum"]): row["met"] for row in made.manifest.decision["strata"]}
    assert met["web", "law"] == 10 and met["web", "code"] == met["web", "math"] == 0
    assert sum(met.values()) == 40
    ratings = {r["doc_id"]: r for part in sorted(given["ratings"].glob("part-*")) for r in read_columns(part).to_pylist()}
    for row in rows_of(made):
        rating = ratings[row["doc_id"]]
        assert row["score"] == rating["overall_score"] + 0.5 * rating["accuracy"]
    assert any(r["detail"] == "web/math: quota 0" for r in rows_of(made, "removed"))


def test_a_filter_is_not_a_quota(tmp_path: Path) -> None:
    given = rated(tmp_path, 200)
    policy = Policy(key="uniform", at_least=4, only={"domain": ["law", "math"]}, spill="none")
    made = run_stage(Select(budget=Budget(documents=200), policy=policy, seed=1), given, tmp_path / "out")
    rows = rows_of(made)
    for row in rows:
        good = row["score"] is not None and row["score"] >= 4 and not row["stratum"].endswith("code")
        assert row["kept"] == good
    assert made.manifest.decision["short"] == 200 - sum(row["kept"] for row in rows)
    code = made.manifest.decision["shares"]["domain"]["code"]
    assert code["share_after"] == code["share_by_one_threshold"] == 0, "one threshold is held to the same filters"


def test_everything_or_nothing(tmp_path: Path) -> None:
    given = rated(tmp_path, 30, num_parts=2)
    everything = run_stage(Select(budget=Budget(documents=99)), given, tmp_path / "all")
    assert len(open_documents(everything.folder)) == 30 and everything.manifest.decision["short"] == 69
    nothing = run_stage(Select(budget=Budget(documents=0)), given, tmp_path / "none")
    assert len(open_documents(nothing.folder)) == 0 and len(rows_of(nothing, "removed")) == 30
    again = run_stage(Select(budget=Budget(documents=5)), {**given, "docs": nothing.folder}, tmp_path / "again")
    assert len(open_documents(again.folder)) == 0 and again.manifest.decision["short"] == 5


def test_the_same_id_twice_is_a_duplicate(tmp_path: Path) -> None:
    documents = make_documents(["a", "b", "c"])
    twice = [*documents, documents[1]]
    for num_parts in (1, 2, 4):
        docs = make_docs_artifact(tmp_path / f"docs-{num_parts}", twice, num_parts)
        made = run_stage(
            Select(budget=Budget(documents=9), policy="uniform", seed=1), {"docs": docs}, tmp_path / f"o{num_parts}"
        )
        assert sorted(d.id for d in open_documents(made.folder)) == sorted(d.id for d in documents)
        assert made.manifest.balance is not None and made.manifest.balance.removed == {"duplicate": 1}


# -- refusals ---------------------------------------------------------------------------------------------------------


def test_foreign_ratings_are_refused(tmp_path: Path) -> None:
    given = rated(tmp_path, 20)
    other = make_docs_artifact(tmp_path / "other", make_documents(["x", "y"]))
    with pytest.raises(FingerprintMismatch, match=r"made for other documents.*share no ancestor"):
        run_stage(Select(budget=BYTES), {**given, "docs": other}, tmp_path / "out")
    with pytest.raises(SchemaMismatch, match="holds docs, not ratings"):
        run_stage(Select(budget=BYTES), {**given, "ratings": given["docs"]}, tmp_path / "out")


def test_ratings_of_an_ancestor_serve(tmp_path: Path) -> None:
    given = rated(tmp_path, 60)
    first = run_stage(Select(budget=Budget(documents=40)), given, tmp_path / "first")
    second = run_stage(Select(budget=Budget(documents=10)), {**given, "docs": first.folder}, tmp_path / "second")
    assert len(open_documents(second.folder)) >= 10


@pytest.mark.parametrize(
    ("stage", "error", "message"),
    [
        (Select(budget=BYTES, score="quality"), FixInput, "no score column 'quality'.*there are overall_score, accuracy"),
        (Select(budget=BYTES, score="domain"), FixInput, "no score column 'domain'"),
        (Select(budget=BYTES, strata=("topic",)), FixInput, "no strata column 'topic'.*source, file, domain"),
        (Select(budget=BYTES, strata=("accuracy",)), FixInput, "no strata column 'accuracy'"),
        (Select(budget=Budget(tokens=5)), FixInput, r"needs tokenizer=…; or give Budget\(documents"),
        (Select(budget=BYTES, policy="uniform"), FixInput, "draws documents: give a seed"),
        (Select(budget=BYTES, policy="best"), FixInput, "a policy is one of"),
        (Select(budget=BYTES, policy=Policy(), score="accuracy"), FixInput, "belong to a named policy"),
    ],
)
def test_a_request_that_cannot_work_is_refused_before_anything_is_written(
    tmp_path: Path, stage: Select, error: type[Exception], message: str
) -> None:
    given = rated(tmp_path, 20)
    with pytest.raises(error, match=message):
        run_stage(stage, given, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_without_ratings_there_is_no_top(tmp_path: Path) -> None:
    docs = make_docs_artifact(tmp_path / "docs", make_documents(["x", "y"]))
    with pytest.raises(BadRecipe, match=r"'overall_score', but there are no ratings.*policy='uniform'"):
        run_stage(Select(budget=BYTES), {"docs": docs}, tmp_path / "out")
    with pytest.raises(FixInput, match="no strata column 'domain' without ratings"):
        run_stage(Select(budget=BYTES, policy="uniform", strata=("domain",), seed=1), {"docs": docs}, tmp_path / "out")


def test_an_unused_seed_does_not_name_another_selection(tmp_path: Path) -> None:
    given = rated(tmp_path, 20)
    first = run_stage(Select(budget=BYTES, seed=1), given, tmp_path / "out")
    assert run_stage(Select(budget=BYTES, seed=2), given, tmp_path / "out").reused and not first.reused


def test_integer_and_dictionary_columns_serve(tmp_path: Path) -> None:
    documents = corpus(40)
    docs = make_docs_artifact(tmp_path / "docs", documents)
    schema = pa.schema([("doc_id", pa.string()), ("level", pa.int8()), ("domain", pa.dictionary(pa.int8(), pa.string()))])
    rows = {i: {"level": int(r["overall_score"]), "domain": r["domain"]} for i, r in ratings_of(documents).items()}
    ratings = write_ratings(tmp_path / "ratings", docs, rows, schema=schema)
    stage = Select(budget=Budget(documents=10), score="level", strata=("level", "domain"))
    made = run_stage(stage, {"docs": docs, "ratings": ratings}, tmp_path / "out")
    assert all(row["stratum"][0] in "12345" for row in made.manifest.decision["strata"])
