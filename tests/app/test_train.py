"""`typecase train`: what is not said is taken from tokens and order; stopping, going on, and mistakes in one line."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.store.timeline.runs import settings_of, write_run
from tests.train.small_runs import VOCAB, make_words, small_plan, small_shape
from typecase.app.commands.train import train_command
from typecase.app.train import training
from typecase.app.train.printing import Watched
from typecase.errors import BadQuery, FingerprintMismatch, NotFound, TypecaseError

torch: Any = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from tests.lm.tiny import one_thread  # noqa: E402
from typecase.train.checkpoint import load_model  # noqa: E402
from typecase.train.record import StepRow  # noqa: E402

assert one_thread
SIZES = ("--layers", 1, "--heads", 2, "--width", 16, "--vocab", VOCAB, "--device", "cpu")


@pytest.fixture
def words(tmp_path: Path) -> Path:
    return make_words(tmp_path / "words")


def run(*arguments: object) -> Any:
    done = CliRunner().invoke(train_command, [str(a) for a in arguments], catch_exceptions=True)
    if isinstance(done.exception, TypecaseError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done


def test_a_run_file_says_context_batch_and_steps(words: Path, tmp_path: Path) -> None:
    file = write_run(tmp_path / "run.json", settings_of("megatron-core", str(words), train_iters=6))
    done = run(file, "-o", tmp_path / "out", *SIZES, "--json", "--validation", "valid", "--eval-samples", 2)
    made = json.loads(done.stdout)
    assert made["shape"]["context"] == 16 and made["plan"]["batch"] == 8 and made["steps"] == 6
    assert made["tokens"] == 6 * 8 * 16 and made["parameters"] == load_model(tmp_path / "out").shape.parameters
    assert made["shape"]["kv_heads"] == 2 and made["shape"]["hidden"] == 48 and made["validation"] > 0
    assert done.stderr == ""


def test_a_token_set_is_read_in_our_own_order(words: Path, tmp_path: Path) -> None:
    done = run(words, "-o", tmp_path / "out", *SIZES, "--context", 8, "--steps", 4, "--batch", 3, "--log-every", 2)
    assert "4 steps, 96 tokens" in done.stdout and "perplexity" in done.stdout
    lines = done.stderr.splitlines()
    assert "weights" in lines[0] and [line.split()[1] for line in lines[1:]] == ["2/4", "4/4"]
    file = write_run(tmp_path / "run.json", settings_of("gpt-neox", "elsewhere", train_iters=3))
    run(words, "-o", tmp_path / "by-order", "--order", file, *SIZES, "--quiet")
    run(words, "-o", tmp_path / "by-set", *SIZES, "--quiet", "--set", "framework=typecase", "--set", "seq_length=8",
        "--set", "train_iters=2", "--set", "global_batch_size=2")  # fmt: skip
    assert load_model(tmp_path / "by-order").shape.context == 16 and load_model(tmp_path / "by-set").shape.context == 8


def test_it_exports_and_goes_on_from_what_it_exported(words: Path, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    common = (words, "--steps", 3, "--batch", 2, "--context", 8, "--quiet", "--device", "cpu", "--json")
    made = json.loads(run(*common, "-o", tmp_path / "one", *SIZES, "--untied", "--export", "hf").stdout)
    assert Path(made["export"]) == tmp_path / "one" / "hf" and made["shape"]["tied"] is False
    again = run(*common, "-o", tmp_path / "one", *SIZES, "--untied", "--export", "hf", "--resume")
    assert json.loads(again.stdout)["resumed_at"] == 3
    on = json.loads(run(*common, "-o", tmp_path / "two", "--from", tmp_path / "one" / "hf").stdout)
    assert on["shape"] == made["shape"] and on["fingerprints"]["start"]
    with pytest.raises(BadQuery, match="width"):
        run(*common, "-o", tmp_path / "three", "--from", tmp_path / "one", "--width", 64)


def test_ctrl_c_saves_and_says_how_to_go_on(words: Path, tmp_path: Path) -> None:
    """A real process that is interrupted in the middle, as from a keyboard."""
    out = tmp_path / "out"
    arguments = [str(a) for a in (words, "-o", out, *SIZES, "--steps", 4000, "--batch", 4, "--context", 16, "--log-every", 1)]
    code = "from typecase.app.commands.train import train_command; train_command()"
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith(b"step 3/"):
                process.send_signal(signal.SIGINT)
                break
        _, rest = process.communicate(timeout=60)
    finally:
        process.kill()
    last = rest.decode().splitlines()[-1]
    assert process.returncode == 130 and "--resume" in last and str(out) in last
    step = int(last.split("step ")[1].split(",")[0])
    assert load_model(out, step=step).shape.layers == 1
    with pytest.raises(FingerprintMismatch, match="steps 4000"):
        run(words, "-o", out, *SIZES, "--steps", step + 2, "--batch", 4, "--context", 16, "--quiet", "--resume")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ((), "how many steps"),
        (("--steps", 2, "--heads", 3), "heads"),
        (("--steps", 2, "--batch", 0), "batch"),
        (("--steps", 2, "--device", "abacus"), "device"),
        (("--steps", 2, "--set", "seq_length=8"), "framework"),
    ],
)
def test_mistakes_are_told_in_one_line(words: Path, tmp_path: Path, more: tuple[object, ...], message: str) -> None:
    with pytest.raises(BadQuery, match=message):
        run(words, "-o", tmp_path / "out", *SIZES, *more)
    assert not (tmp_path / "out").exists()


def test_what_is_not_there_is_said(words: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        run(tmp_path / "nothing", "-o", tmp_path / "out", *SIZES, "--steps", 2)
    with pytest.raises(BadQuery, match="vocabulary"):
        training.train(words, tmp_path / "out", plan={"steps": 2})
    with pytest.raises(NotFound, match="no model"):
        run(words, "-o", tmp_path / "out", "--steps", 2, "--from", tmp_path)
    with pytest.raises(BadQuery, match="export"):
        training.train(words, tmp_path / "out", plan={"steps": 2}, export="onnx")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    watched = Watched(stream)
    watched.begun(small_shape(), small_plan(3))
    for step in range(3):
        watched.stepped(StepRow(step, 2.5, 1e-3, 1.0, 96, validation=3.25 if step == 2 else None))
    watched.ended()
    assert "3/3" in stream.getvalue() and "loss 2.500, validation 3.250" in stream.getvalue()


def test_other_processes_are_silent(words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert os.environ.get("RANK") is None and training.speaks()
    monkeypatch.setenv("RANK", "1")
    assert not training.speaks()
