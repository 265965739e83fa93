"""ablate: two arms, two seeds, tiny models; found done when asked again; files that can be read on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import orjson
import pytest

pytest.importorskip("torch")

from tests.app.test_cli import Answer
from tests.app.test_evaluate import text_of
from tests.conftest import make_docs_artifact, make_documents
from typecase.app.mix.runs import Table, read_runs

PLAN = """
name = "small"
seeds = [1, 2]
token_budget = "2k"
vocab = 400
[model]
layers = 1
heads = 2
kv_heads = 1
width = 16
hidden = 32
context = 32
[train]
batch = 4
[arms.first]
docs = "first"
[arms.second]
docs = "second"
[held]
all = "held"
[tasks]
cloze = 4
[curve]
looks = 2
samples = 4
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    for name, span in (("first", range(40)), ("second", range(20, 60)), ("held", range(60, 75))):
        make_docs_artifact(tmp_path / name, make_documents([text_of(n) * 2 for n in span], source=name))
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    return path


def test_arms_are_compared_and_a_second_call_finds_them_done(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = plan.parent / "out"
    first = Answer(capsys, "ablate", plan, "-o", out, "--json")
    assert first.code == 0, first.err
    found = orjson.loads(first.out)
    assert [arm["arm"] for arm in found["arms"]] == ["first", "second"] and found["seeds"] == [1, 2]
    for arm in found["arms"]:
        assert arm["tokens"] == found["arms"][0]["tokens"] and arm["flops"] == found["arms"][0]["flops"]
        assert len(arm["curve"]) >= 2 and arm["epochs"] > 0
    before = {path: path.read_bytes() for path in sorted(out.rglob("*.csv"))}
    models = {path: path.stat().st_mtime_ns for path in out.rglob("*.safetensors")}
    assert len(models) >= 4
    again = Answer(capsys, "ablate", plan, "-o", out, "--quiet")
    assert again.code == 0 and "2 arms x 2 seeds" in again.out and "bits/byte" in again.out
    assert {path: path.read_bytes() for path in before} == before
    assert {path: path.stat().st_mtime_ns for path in models} == models
    read_runs(Table(out / "proxies.csv"))  # what a mixing law is fitted to
    page = (out / "report.html").read_text()
    assert "<svg" in page and "second" in page


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('[arms.second]\ndocs = "second"', ""), "arm"),
        (('docs = "second"', 'docs = "nowhere"'), "nowhere"),
        (("seeds = [1, 2]", "seeds = []"), "seeds"),
        (('token_budget = "2k"', 'token_budget = "lots"'), "token_budget"),
        (("context = 32", "contxt = 32"), "contxt"),
    ],
)
def test_a_plan_that_cannot_be_meant_is_refused(
    plan: Path, change: tuple[str, str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plan.write_text(PLAN.replace(*change))
    answer = Answer(capsys, "ablate", plan, "-o", plan.parent / "out")
    assert answer.code == 2 and words in answer.err


def files_of(out: Path) -> dict[str, bytes]:
    """What an ablation says, and the models that it made."""
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.suffix in (".csv", ".safetensors") or path.name == "findings.json"
    }


@pytest.mark.slow
def test_an_ablation_that_is_killed_again_and_again_ends_with_the_same_bytes(
    plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A real process and its workers, killed without a word after each run that they finish."""
    whole = Answer(capsys, "ablate", plan, "-o", plan.parent / "whole", "--quiet", "--workers", "2")
    assert whole.code == 0, whole.err
    out = plan.parent / "killed"
    code = "from typecase.app.cli import main; import sys; main(['ablate', *sys.argv[1:]])"
    command = [sys.executable, "-c", code, str(plan), "-o", str(out), "--quiet", "--workers", "2"]
    deaths = 0
    for _ in range(8):
        before = len(list(out.rglob("*.safetensors")))
        process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and len(list(out.rglob("*.safetensors"))) == before:
            time.sleep(0.02)
        if process.poll() is not None:
            break
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        deaths += 1
    assert deaths >= 3
    done = Answer(capsys, "ablate", plan, "-o", out, "--quiet", "--workers", "2")
    assert done.code == 0, done.err
    assert files_of(out) == files_of(plan.parent / "whole")
