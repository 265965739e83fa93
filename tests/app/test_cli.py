"""The command line: answers for people and machines, one-line errors, exit codes by branch of the error tree."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import orjson
import pytest
from tokenizers import ByteLevelBPETokenizer

from tests.conftest import make_docs_artifact, make_documents
from typecase import errors
from typecase.app import cli
from typecase.store.tokens.writer import TokenSetWriter


class Answer:
    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: object) -> None:
        with pytest.raises(SystemExit) as ended:
            cli.main([str(a) for a in arguments])
        self.code = ended.value.code
        self.out, self.err = capsys.readouterr()


@pytest.fixture
def token_set(tmp_path: Path) -> Path:
    with TokenSetWriter(tmp_path / "set" / "corpus_text_document", np.uint16) as writer:
        writer.append(np.array([72, 101, 108, 108, 111, 0, 72, 105, 0]), np.array([6, 3]))
    return tmp_path / "set"


def test_every_command_is_there_with_the_help_of_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    answer = Answer(capsys, "--help")
    for name in cli.COMMANDS:
        assert f"  {name}" in answer.out
        one = Answer(capsys, name, "--help")
        assert one.code == 0 and "Usage: typecase " + name in one.out


def test_help_is_quick_because_nothing_heavy_is_imported() -> None:
    heavy = ("numpy", "pyarrow", "numba", "tokenizers")
    code = f"import sys; from typecase.app.cli import typecase; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "kind", [k for _, k in inspect.getmembers(errors, inspect.isclass) if issubclass(k, errors.TypecaseError)]
)
def test_every_error_becomes_one_line_and_its_exit_code(
    kind: type[errors.TypecaseError], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = kind("torch", "lm") if kind is errors.NeedsExtra else kind("what, where, what to do")

    def fails(**_: object) -> None:
        raise error

    monkeypatch.setattr(cli.typecase, "main", lambda *a, **k: fails())
    answer = Answer(capsys, "info", "x")
    assert answer.code == kind.exit_code and answer.err == f"error: {error}\n"
    branch = next((b for b in (errors.FixInput, errors.Conflict, errors.Damaged, errors.TryAgain) if issubclass(kind, b)), None)
    assert answer.code == (branch.exit_code if branch else 1)
    answer = Answer(capsys, "info", "x", "--json")
    assert orjson.loads(answer.err) == {"error": {"kind": kind.__name__, "message": str(error), "exit_code": answer.code}}


def test_usage_errors_are_json_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert Answer(capsys, "nonsense").code == 2
    answer = Answer(capsys, "show", "--json")
    assert answer.code == 2 and orjson.loads(answer.err)["error"]["kind"] == "Usage"


def test_interrupted(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.typecase, "main", interrupted)
    answer = Answer(capsys, "run", "x")
    assert answer.code == 130 and "run the same command again to resume" in answer.err


def test_info(token_set: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = Answer(capsys, "info", token_set)
    assert answer.code == 0 and "2 documents, 2 sequences, 9 tokens" in answer.out
    for name in ("set", "set/corpus_text_document", "set/corpus_text_document.bin", "set/corpus_text_document.idx"):
        found = orjson.loads(Answer(capsys, "info", token_set.parent / name, "--json").out)
        assert (found["documents"], found["tokens"], found["dtype"]) == (2, 9, "uint16")
    folder = make_docs_artifact(token_set.parent / "docs", make_documents(["a", "b"]))
    found = orjson.loads(Answer(capsys, "info", folder, "--json").out)
    assert (found["kind"], found["rows"], found["sources"]) == ("docs", 2, {"test": 2})


def test_show_without_a_tokenizer_gives_ids(token_set: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "72 105 0" in Answer(capsys, "show", token_set, "1").out
    [shown] = orjson.loads(Answer(capsys, "show", token_set, "-1:", "--json").out)
    assert shown["tokens"] == [72, 105, 0] and shown["text"] is None and shown["doc"] == 1
    answer = Answer(capsys, "show", token_set, "2")
    assert answer.code == 2 and "no document 2" in answer.err


def test_show_a_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = make_documents(["first text", "second"])
    folder = make_docs_artifact(tmp_path / "docs", documents)
    answer = Answer(capsys, "show", folder, documents[0].id[:10])
    assert "first text" in answer.out and documents[0].id in answer.out and "made.jsonl:0" in answer.out


def test_doctor_exits_with_4_and_repair_saves(token_set: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert Answer(capsys, "doctor", token_set).code == 0
    path = token_set / "corpus_text_document.bin"
    path.write_bytes(path.read_bytes()[:-1])
    answer = Answer(capsys, "doctor", token_set)
    assert answer.code == 4 and "document 1" in answer.out
    refused = Answer(capsys, "show", token_set, "0")
    assert refused.code == 4 and "doctor" in refused.err and refused.err.count("\n") == 1
    saved = token_set.parent / "saved"
    assert Answer(capsys, "doctor", token_set, "--repair", saved).code == 0
    assert "72 101 108 108 111 0" in Answer(capsys, "show", saved, "0").out
    assert Answer(capsys, "doctor", saved).code == 0
    assert "repair" in Answer(capsys, "why", saved).out


def test_doctor_guesses_the_tokenizer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "the quick brown fox jumps over the lazy dog, and the dog does not mind at all"
    names = []
    for size in (260, 300):
        trained = ByteLevelBPETokenizer()
        trained.train_from_iterator([text] * 20, vocab_size=size, show_progress=False)
        names.append(str(tmp_path / f"{size}.json"))
        trained.save(names[-1])
    ids = trained.encode(text).ids
    with TokenSetWriter(tmp_path / "set", np.uint16) as writer:
        writer.append(np.array(ids * 3), np.array([len(ids)] * 3))
    answer = Answer(capsys, "doctor", tmp_path / "set", "--guess", names[0], "--guess", names[1], "--json")
    shares = orjson.loads(answer.out)
    assert list(shares) == [names[1], names[0]] and shares[names[1]] == 1.0 and shares[names[0]] == 0.0


def test_doctor_knows_a_changed_artifact(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_docs_artifact(tmp_path / "docs", make_documents(["a"] * 50))
    assert Answer(capsys, "doctor", folder).code == 0
    part = folder / "part-00000.parquet"
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    answer = Answer(capsys, "doctor", folder)
    assert answer.code == 4 and "other bytes" in answer.out


def test_merge_and_why(token_set: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = token_set.parent / "both"
    assert Answer(capsys, "merge", token_set, token_set, "-o", out).code == 0
    assert orjson.loads(Answer(capsys, "info", out, "--json").out)["documents"] == 4
    node = orjson.loads(Answer(capsys, "why", out, "--json").out)
    assert node["stage"] == "merge" and [p["role"] for p in node["parents"]] == ["tokens 0", "tokens 1"]
    assert "made elsewhere" in Answer(capsys, "why", out).out
    assert Answer(capsys, "merge", token_set, "-o", out).code == 3


def test_nothing_at_a_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in (["info"], ["show", "0"], ["doctor"], ["why"]):
        answer = Answer(capsys, verb[0], tmp_path / "none", *verb[1:])
        assert answer.code == 2 and answer.err.count("\n") == 1 and "none" in answer.err
