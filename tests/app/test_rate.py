"""The rate command: what it makes, what it foresees, and mistakes in one line."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from tests.app.test_cli import Answer
from tests.conftest import make_docs_artifact, make_documents

TEXTS = [f"The composing stick number {k} holds a line of type. " * 3 for k in range(8)]


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    return make_docs_artifact(tmp_path / "docs", make_documents(TEXTS))


def test_some_documents_for_people_and_for_machines(tmp_path: Path, docs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = Answer(capsys, "rate", docs, "-o", tmp_path / "out", "--limit", 3, "--quiet")
    assert answer.code == 0 and "kept 3 + removed 5" in answer.out and "not_sampled" in answer.out
    answer = Answer(capsys, "rate", docs, "-o", tmp_path / "half", "--sample", "50%", "--json")
    assert orjson.loads(answer.out)["manifest"]["balance"]["in"] == 8


def test_a_dry_run_writes_nothing(tmp_path: Path, docs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rater.toml").write_text(
        'kind = "teacher"\n[model]\nurl = "http://localhost:1/v1"\nmodel = "big"\nprice = { prompt_per_million = 2.0 }\n'
    )
    before = sorted(tmp_path.rglob("*"))
    answer = Answer(capsys, "rate", docs, "-o", tmp_path / "out", "--rater", tmp_path / "rater.toml", "--dry-run")
    assert answer.code == 0 and "8 prompts" in answer.out and "USD" in answer.out
    told = orjson.loads(Answer(capsys, "rate", docs, "-o", tmp_path / "out", "--dry-run", "--json").out)
    assert told["documents"] == 8 and told["prompt_tokens"] is None
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--rater", "nothing"), "no rater 'nothing': give starter"),
        (("--rubric", "qurating"), "fitted to"),
        (("--sample", "many"), "--sample is a share such as 1% or 0.01, got 'many'"),
        (("--sample", "200%"), "a sample is a share above 0 and up to 1"),
        (("--limit", "-1"), "limit is a number of documents"),
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path, docs: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], says: str
) -> None:
    answer = Answer(capsys, "rate", docs, "-o", tmp_path / "out", *options)
    assert answer.code == 2 and says in answer.err and answer.err.count("\n") == 1
