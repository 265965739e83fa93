"""rate: a row for every document, nulls with a reason, the text untouched, the same bytes for any workers and parts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import make_documents
from tests.recipe.test_run import tree
from typecase.engine.local import Local
from typecase.errors import BadRecipe, CorruptStore, NotFound
from typecase.lm.fake import ALL, FakeLM
from typecase.lm.protocol import Failure
from typecase.lm.rate.lm_rater import lm_rater
from typecase.lm.rate.rater import I64, U8, FakeRater, Rater, Ratings
from typecase.lm.rate.rubric import load_rubric
from typecase.lm.rate.sheets import sheet_of
from typecase.lm.rate.windowed import WindowedRater
from typecase.recipe import rate as rating
from typecase.recipe.forecast import forecast
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


@pytest.fixture(autouse=True)
def no_rater_is_kept() -> Iterator[None]:
    rating.forget()
    yield
    rating.forget()


def take(monkeypatch: pytest.MonkeyPatch, rater: Rater) -> None:
    monkeypatch.setattr(rating, "open_rater", lambda name, **_: rater)


def fake_lm_rater(batch_docs: int = 4) -> WindowedRater:
    """An LM rater on windows of ten words, some of which fail."""
    rubric = load_rubric("dataman")
    lm = FakeLM(can=ALL, failures={"number 7 holds": Failure("timeout", "planted")})
    return WindowedRater(lm_rater(lm, rubric, sheet_of(rubric, "student"), batch_docs=batch_docs), lm.count_tokens, "words", 10)


class Dies:
    """A rater that is stopped at its `last` batch."""

    def __init__(self, rater: Rater, last: int) -> None:
        self.rater, self.left, self.documents = rater, last, 0
        self.name, self.version, self.fingerprint, self.rubric = rater.name, rater.version, rater.fingerprint, rater.rubric
        self.batch_docs = getattr(rater, "batch_docs", None)

    def rate(self, values: U8, offsets: I64) -> Ratings:
        if len(offsets) > 1:
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
            self.documents += len(offsets) - 1
        return self.rater.rate(values, offsets)


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
    take(monkeypatch, fake)
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


def test_what_a_rater_says_more_are_columns_that_sql_reads(
    tmp_path: Path, docs_artifact: Docs, monkeypatch: pytest.MonkeyPatch
) -> None:
    rater = fake_lm_rater()
    take(monkeypatch, rater)
    made = run_stage(Rate(rater="lm"), {"docs": docs_artifact(make_documents(TEXTS), 2)}, tmp_path / "out")
    rows = rows_of(made.folder)
    schema = pq.read_schema(made.folder / "part-00000.parquet")
    assert schema.equals(ratings_schema(rater.rubric, detailed=True))
    assert schema.field("accuracy_level").type == pa.int8() and schema.field("accuracy_surety").type == pa.float32()
    by_text = {d.id: d.text for d in make_documents(TEXTS)}
    for row in rows:
        text = by_text[str(row["doc_id"])]
        level, windows = row["accuracy_level"], row["windows"]
        assert isinstance(windows, list)
        if not text.strip():
            assert level is None and windows == [] and row["codes"] == []
        elif row["accuracy"] is not None:
            assert isinstance(level, int) and abs(level - float(str(row["accuracy"]))) <= 0.5 + 1e-6
            if len(windows) > 1:
                total = sum(w["tokens"] for w in windows if w["accuracy"] is not None)
                mean = sum(w["tokens"] * w["accuracy"] for w in windows if w["accuracy"] is not None) / total
                assert mean == pytest.approx(float(str(row["accuracy"])), abs=1e-4)
    failed = [row for row in rows if "timeout" in (row["codes"] or [])]  # type: ignore[operator]
    assert len(failed) == 1 and failed[0]["status"] == "repaired"
    counts = made.manifest.counts
    assert counts["code:window_failed"] == counts["code:timeout"] == 1 and counts["status:repaired"] == 1
    assert counts["status:empty_text"] == 1 and counts["rated_bytes"] < counts["text_bytes"]
    parts = str(made.folder / "part-*.parquet")
    query = f"select count(*) from (select unnest(windows, recursive := true) from read_parquet('{parts}')) where tokens > 0"
    found = duckdb.sql(query).fetchall()[0][0]
    assert found == sum(len(row["windows"]) for row in rows)  # type: ignore[arg-type, misc]


@pytest.mark.parametrize("last", [0, 1, 2, 4, 5])
def test_stopped_at_any_batch_and_run_again(
    tmp_path: Path, docs_artifact: Docs, monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    given = {"docs": docs_artifact(make_documents(TEXTS), 2)}
    take(monkeypatch, fake_lm_rater())
    whole = run_stage(Rate(rater="lm"), given, tmp_path / "whole" / "ratings")
    stopped = Dies(fake_lm_rater(), last)
    take(monkeypatch, stopped)
    out = tmp_path / "stopped" / "ratings"
    out.parent.mkdir()
    with pytest.raises(KeyboardInterrupt):
        run_stage(Rate(rater="lm"), given, out)
    rating.forget()
    resumed = Dies(fake_lm_rater(), 99)
    take(monkeypatch, resumed)
    assert tree(run_stage(Rate(rater="lm"), given, out).folder) == tree(whole.folder)
    assert stopped.documents + resumed.documents == len(TEXTS), "no batch is rated twice"


def test_a_batch_file_that_is_torn_is_rated_again(tmp_path: Path, docs_artifact: Docs, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"docs": docs_artifact(make_documents(TEXTS), 1)}
    take(monkeypatch, Dies(fake_lm_rater(), 3))
    out = tmp_path / "ratings"
    with pytest.raises(KeyboardInterrupt):
        run_stage(Rate(rater="lm"), given, out)
    (first, second, _) = sorted(tmp_path.glob(".*.partial/.scratch/rated-*.parquet"))
    first.write_bytes(first.read_bytes()[:100])
    second.write_bytes(b"")
    rating.forget()
    take(monkeypatch, fake_lm_rater())
    made = run_stage(Rate(rater="lm"), given, out)
    assert tree(made.folder) == tree(run_stage(Rate(rater="lm"), given, tmp_path / "whole").folder)


SCRIPT = """
import sys, time
from pathlib import Path
from tests.recipe.test_rate import fake_lm_rater
from typecase.recipe import rate
from typecase.recipe.run import run_stage

class Slow:
    def __init__(self):
        self.rater = fake_lm_rater(2)
        for name in ("name", "version", "fingerprint", "rubric", "batch_docs"):
            setattr(self, name, getattr(self.rater, name))
    def rate(self, values, offsets):
        time.sleep(0.05 * (len(offsets) > 1))
        return self.rater.rate(values, offsets)

if __name__ == "__main__":
    slow = Slow()
    rate.open_rater = lambda name, **_: slow
    run_stage(rate.Rate(rater="lm"), {"docs": Path(sys.argv[1])}, Path(sys.argv[2]))
"""


def test_killed_and_run_again_is_never_killed(tmp_path: Path, docs_artifact: Docs, monkeypatch: pytest.MonkeyPatch) -> None:
    docs = docs_artifact(make_documents(TEXTS), 1)
    script, out = tmp_path / "script.py", tmp_path / "killed" / "ratings"
    script.write_text(SCRIPT)
    out.parent.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    job = subprocess.Popen([sys.executable, str(script), str(docs), str(out)], start_new_session=True, env=environment)
    done: list[Path] = []
    try:
        while job.poll() is None and len(done) < 3:
            done = list(out.parent.glob(".*.partial/.scratch/rated-*.parquet"))
            time.sleep(0.002)
    finally:
        assert job.poll() is None, "the job was over before it could be killed"
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
    resumed = Dies(fake_lm_rater(2), 99)
    take(monkeypatch, resumed)
    again = run_stage(Rate(rater="lm"), {"docs": docs}, out)
    assert resumed.documents <= len(TEXTS) - 2 * 3
    whole = run_stage(Rate(rater="lm"), {"docs": docs}, tmp_path / "whole" / "ratings")
    assert tree(again.folder) == tree(whole.folder)


@pytest.mark.slow
def test_a_real_model_stopped_or_in_workers_gives_the_same_bytes(tmp_path: Path, docs_artifact: Docs) -> None:
    pytest.importorskip("transformers")
    from tests.lm.tiny import make_tiny

    make_tiny(tmp_path / "rater" / "model")
    (tmp_path / "rater" / "rater.toml").write_text(
        'kind = "lm"\nform = "score_only"\nbatch_docs = 5\n[windows]\ntokens = 60\n[model]\npath = "model"\ndevice = "cpu"\n'
    )
    stage, given = Rate(rater=str(tmp_path / "rater")), {"docs": docs_artifact(make_documents(TEXTS), 2)}
    whole = run_stage(stage, given, tmp_path / "whole")
    assert set(pq.read_schema(whole.folder / "part-00000.parquet").names) >= {"overall_score", "overall_score_level"}
    rating.forget()
    inner = stage.opened()
    key = next(iter(rating._loaded))
    rating._loaded[key] = Dies(inner, 2)
    with pytest.raises(KeyboardInterrupt):
        run_stage(stage, given, tmp_path / "stopped")
    rating.forget()
    assert tree(run_stage(stage, given, tmp_path / "stopped").folder) == tree(whole.folder)
    assert tree(run_stage(stage, given, tmp_path / "workers", engine=Local(1)).folder) == tree(whole.folder)
    stage = Rate(rater=stage.rater, cache=str(tmp_path / "answers.db"))
    first, second = (run_stage(stage, given, tmp_path / name) for name in ("cached", "replayed"))
    assert first.manifest.fingerprint == whole.manifest.fingerprint, "where answers come from is no part of what is made"
    assert tree(first.folder) == tree(second.folder)
    for ours, theirs in zip(rows_of(first.folder), rows_of(whole.folder), strict=True):
        assert ours["overall_score"] == pytest.approx(theirs["overall_score"], abs=1e-4)


def test_the_model_is_loaded_once_a_process(tmp_path: Path, docs_artifact: Docs, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def counting(name: str, **_: object) -> Rater:
        opened.append(name)
        return fake_lm_rater()

    monkeypatch.setattr(rating, "open_rater", counting)
    given = {"docs": docs_artifact(make_documents(TEXTS), 4)}
    run_stage(Rate(rater="lm"), given, tmp_path / "a")
    forecast(Rate(rater="lm"), given["docs"])
    assert opened == ["lm"]
    Rate(rater="lm").identity(Local(2))
    assert not rating._loaded, "a process whose workers rate holds no model"


def test_a_limit_or_a_sample_rates_some_and_counts_the_others(
    tmp_path: Path, docs_artifact: Docs, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(monkeypatch, fake_lm_rater())
    docs = docs_artifact(make_documents(TEXTS), 3)
    everything = {str(r["doc_id"]): r for r in rows_of(run_stage(Rate(), {"docs": docs}, tmp_path / "all").folder)}
    ids = sorted(everything)
    for limit in (0, 9, 100):
        made = run_stage(Rate(limit=limit), {"docs": docs}, tmp_path / f"limit{limit}")
        assert [r["doc_id"] for r in rows_of(made.folder)] == ids[:limit]
        balance = made.manifest.balance
        assert balance is not None and balance.entered == len(ids) and balance.kept == min(limit, len(ids))
    half = rows_of(run_stage(Rate(sample=0.5), {"docs": docs}, tmp_path / "half").folder)
    assert [r["doc_id"] for r in half] == [i for i in ids if i < "8"]
    assert Rate(limit=3).identity(Local(0)) != Rate().identity(Local(0))
    for settings in ({"limit": -1}, {"sample": 0.0}, {"sample": 1.5}):
        with pytest.raises(BadRecipe, match="rate: "):
            Rate(**settings)  # type: ignore[arg-type]


def test_a_forecast_counts_prompts_and_asks_nothing(docs_artifact: Docs, monkeypatch: pytest.MonkeyPatch) -> None:
    docs = docs_artifact(make_documents(TEXTS), 2)
    assert forecast(Rate(), docs).prompt_tokens is None
    rater = fake_lm_rater()
    take(monkeypatch, rater)
    lm = rater.inner.lm  # type: ignore[attr-defined]
    found = forecast(Rate(rater="lm"), docs)
    assert lm.rows_asked == 0 and found.documents == found.probed == len(TEXTS)
    assert found.text_bytes == sum(len(text.encode()) for text in TEXTS)
    some = forecast(Rate(rater="lm"), docs, probe=8)
    assert some.probed == 8 and some.requests is not None and found.requests is not None
    assert some.requests == pytest.approx(found.requests, rel=0.5) and found.requests > len(TEXTS)
    assert forecast(Rate(rater="lm", limit=3), docs).documents == 3


def test_a_forecast_has_the_cost_of_a_server_and_sends_nothing(tmp_path: Path, docs_artifact: Docs) -> None:
    docs = docs_artifact(make_documents(TEXTS), 2)
    (tmp_path / "rater.toml").write_text(
        'kind = "teacher"\n[model]\nurl = "http://localhost:1/v1"\nmodel = "big"\nprice = { prompt_per_million = 2.0 }\n'
    )
    found = forecast(Rate(rater=str(tmp_path / "rater.toml")), docs)
    assert found.requests == len(TEXTS) - 1 and found.prompt_tokens is not None and found.prompt_tokens > 1000
    assert found.least_cost == pytest.approx(found.prompt_tokens * 2e-6, rel=0.01) and found.currency == "USD"
