"""The commands dedup and decontaminate: what they print, refuse and fail on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import orjson
import pytest
from click.testing import CliRunner

from tests.conftest import make_docs_artifact, make_documents
from tests.recipe.test_build import tokenizer  # noqa: F401
from typecase.app.commands.dedup import decontaminate_command, dedup_command
from typecase.errors import BadQuery, FixInput
from typecase.recipe.build import Build
from typecase.recipe.index import Index
from typecase.recipe.run import run_stage


def passages(num: int) -> list[str]:
    rng = np.random.default_rng(4)
    return [" ".join(f"w{n:x}" for n in rng.integers(0, 1 << 30, 60)) for _ in range(num)]


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """Four texts, the first of them three times: as it is, again, and with another last word."""
    texts = passages(4)
    return make_docs_artifact(tmp_path / "docs", make_documents([*texts, texts[0], f"{texts[0]} end"]))


def test_near_duplicates_and_sources_are_told(docs: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(dedup_command, [str(docs), "-o", str(tmp_path / "out"), "--near", "0.8", "--alarm", "0.1"])
    assert done.exit_code == 0, done.output
    assert "in 6 = kept 4 + removed 2" in done.output
    assert (
        "near 0.8: 1 contents joined another; 2 candidates, 1 comparisons, 99.2% of pairs at the threshold meet" in done.output
    )
    assert "test: 2 of 6 (33.3%)" in done.output
    assert "warning: source 'test' loses 33.3% of its documents, more than 10%" in done.output


def test_a_source_that_keeps_too_little_fails_and_the_result_stays(docs: Path, tmp_path: Path) -> None:
    arguments = [str(docs), "-o", str(tmp_path / "out"), "--near", "0.8", "--fail-below"]
    done = CliRunner().invoke(dedup_command, [*arguments, "0.7"])
    assert isinstance(done.exception, FixInput) and "test (66.7%)" in str(done.exception)
    assert (tmp_path / "out" / "manifest.json").is_file()
    assert CliRunner().invoke(dedup_command, [*arguments, "0.6"]).exit_code == 0


def test_spans(docs: Path, tmp_path: Path, tokenizer: str) -> None:  # noqa: F811
    run_stage(Build(tokenizer=tokenizer, eod=7), {"docs": docs}, tmp_path / "tokens")
    run_stage(Index(), {"tokens": tmp_path / "tokens"}, tmp_path / "index")
    arguments = [str(docs), "-o", str(tmp_path / "out"), "--spans", "30", "--index", str(tmp_path / "index"), "--drop", "0.9"]
    done = CliRunner().invoke(dedup_command, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    told = orjson.loads(done.output)["manifest"]
    assert told["balance"]["removed"] == {"repeated spans": 2}
    assert told["decision"]["documents_with_repeats"] == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--spans", "30"], "needs the token set's search index"),
        (["--spans", "30", "--near", "0.8"], "takes no --near"),
        (["--drop", "0.5"], "belong to --spans"),
    ],
)
def test_options_that_do_not_belong_together(docs: Path, tmp_path: Path, options: list[str], message: str) -> None:
    done = CliRunner().invoke(dedup_command, [str(docs), "-o", str(tmp_path / "out"), *options])
    assert isinstance(done.exception, BadQuery) and message in str(done.exception)


def test_decontaminate(docs: Path, tmp_path: Path) -> None:
    file = tmp_path / "eval.txt"
    file.write_text(f"{passages(1)[0]}\nshort\n")
    arguments = [str(docs), "--against", str(file)]
    done = CliRunner().invoke(decontaminate_command, [*arguments, "-o", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert "in 6 = kept 3 + removed 3" in done.output
    assert "eval.txt: 1 of 2 items found, 1 touched, in 3 documents, 1 too short to look for" in done.output
    told = CliRunner().invoke(decontaminate_command, [*arguments, "-o", str(tmp_path / "told"), "--report-only"])
    assert "in 6 = kept 6 + removed 0" in told.output and "3 of 6 documents share too many words" in told.output
    wrong = CliRunner().invoke(decontaminate_command, [*arguments, "-o", str(tmp_path / "x"), "--by", "tokens"])
    assert isinstance(wrong.exception, BadQuery)
