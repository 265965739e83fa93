"""Refining with a refiner: rules and refiner in one plan, nothing lost, the same bytes however often it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from tests.conftest import make_documents
from tests.recipe.test_refine import page, rows_of
from tests.recipe.test_run import tree
from typecase.app.refine.refining import open_run, rerun
from typecase.core.program.guards import STRICT
from typecase.core.program.language import Origin, Program, Refusal, bind, drop_doc, remove_lines, remove_str
from typecase.core.program.proposal import Answer, Proposal
from typecase.engine.local import Local
from typecase.errors import BadProgram, BadRecipe
from typecase.lm.refine.refiner import FakeRefiner, Refiner
from typecase.recipe import refine as refining
from typecase.recipe.refine import Refine
from typecase.recipe.refine_batches import Batches, Pulse, pulse_of, read, written
from typecase.recipe.refine_propose import settled
from typecase.recipe.run import run_stage
from typecase.store.documents import open_documents

Docs = Callable[..., Path]
MODEL = Origin("model", "fake", "1", 1.0)
BODY = "The compositor takes the sorts from the case and sets them letter by letter, line by line."
TEXTS = [
    *[f"Home\nNext\nOn the case\n\n{BODY} Number {n} of the series.\nthe menu of the day\n{BODY}\n{BODY}" for n in range(17)],
    f"{BODY}\nDROP this one\n{BODY}",
    "",
    f"{BODY}\nno such line here\n{BODY}",
]


@pytest.fixture(autouse=True)
def no_refiner_is_kept() -> Iterator[None]:
    refining.forget()
    yield
    refining.forget()


def take(monkeypatch: pytest.MonkeyPatch, refiner: Refiner) -> None:
    monkeypatch.setattr(refining, "open_refiner", lambda spec: refiner)


class Slow:
    """A refiner of batches that may be told to die, and counts what it was asked."""

    def __init__(self, batch_docs: int | None = 3, dies_after: int = 10**9, pause: float = 0.0) -> None:
        self.inner, self.left, self.pause = FakeRefiner(), dies_after, pause
        self.name, self.version, self.fingerprint = self.inner.name, self.inner.version, self.inner.fingerprint
        self.batch_docs = batch_docs
        self.asked: list[str] = []

    def propose(self, texts: Sequence[str]) -> list[Proposal]:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        time.sleep(self.pause)
        self.asked += texts
        return self.inner.propose(texts)


def test_rules_and_refiner_edit_in_one_plan(tmp_path: Path, docs_artifact: Docs, monkeypatch: pytest.MonkeyPatch) -> None:
    take(monkeypatch, Slow())
    made = run_stage(Refine(refiner="fake"), {"docs": docs_artifact(make_documents(TEXTS), 3)}, tmp_path / "out")
    rows = {str(r["doc_id"]): r for r in rows_of(made.folder, "programs")}
    kept = {d.id: d for d in open_documents(made.folder)}
    removed = {str(r["doc_id"]): r for r in rows_of(made.folder, "removed")}
    documents = make_documents(TEXTS)
    assert rows.keys() == {d.id for d in documents}
    assert kept.keys() | removed.keys() == rows.keys() and not kept.keys() & removed.keys()
    first = documents[0].id
    assert kept[first].text == f"On the case\n\n{BODY} Number 0 of the series.\n{BODY}\n{BODY}"
    names = {(e[0], e[1], e[3], e[6]) for e in orjson.loads(str(rows[first]["provenance"]))}
    assert names == {("rule", "line.nav", "applied", 0.95), ("model", "fake", "applied", 1.0)}
    assert rows[first]["decision"] == "keep" and rows[first]["calls"] == 0
    assert removed[documents[17].id]["reason"] == "fake" and rows[documents[17].id]["decision"] == "drop"
    blank = rows[documents[18].id]
    assert removed[documents[18].id]["reason"] == "doc.blank" and blank["decision"] is None, "a rule decided; nobody was asked"
    counts = made.manifest.counts
    assert counts["asked"] == len(TEXTS) - 1 and counts["rule:fake"] == 18 and counts["op:drop_doc"] == 2
    assert counts["bytes_after"] == sum(len(d.text.encode()) for d in kept.values())
    assert made.manifest.params["refiner"] == {"name": "fake", "version": "1", "fingerprint": FakeRefiner().fingerprint}


def test_tidying_takes_what_edits_leave_behind_and_says_so(
    tmp_path: Path, docs_artifact: Docs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The words of every document are those without it, and a run is shown again from its programs."""
    take(monkeypatch, FakeRefiner())
    docs = docs_artifact(make_documents([f"{BODY}\n\nthe menu of day {n}\n\n{BODY}\n{BODY}" for n in range(9)]), 3)
    stage = Refine(rules=(), refiner="fake")
    plain = run_stage(stage, {"docs": docs}, tmp_path / "plain")
    tidy = run_stage(replace(stage, tidy=True, blank_lines=1), {"docs": docs}, tmp_path / "tidy")
    before = {str(row["doc_id"]): str(row["text"]) for row in rows_of(plain.folder)}
    after = {str(row["doc_id"]): str(row["text"]) for row in rows_of(tidy.folder)}
    assert set(before.values()) == {f"{BODY}\n\n\n{BODY}\n{BODY}"} and set(after.values()) == {f"{BODY}\n\n{BODY}\n{BODY}"}
    run = open_run(tidy.folder)
    for row in rows_of(tidy.folder, "programs"):
        assert [entry[0] for entry in orjson.loads(str(row["provenance"]))] == ["model", "tidy"]
        text = run.parent.get(str(row["doc_id"])).text
        assert rerun(run, text, row)[1].text == after[str(row["doc_id"])]
    with pytest.raises(BadRecipe, match="goes with tidy"):
        Refine(blank_lines=1)


def test_division_workers_and_batches_do_not_matter(
    tmp_path: Path, docs_artifact: Docs, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    for num, (parts, batch) in enumerate(((1, 3), (4, 5), (3, None), (2, 100))):
        refining.forget()
        take(monkeypatch, Slow(batch))
        docs = docs_artifact(make_documents(TEXTS), parts, f"docs{num}")
        made = run_stage(Refine(refiner="fake"), {"docs": docs}, tmp_path / f"out{num}")
        sides = [rows_of(made.folder, side) for side in ("", "programs", "removed", "lines")]
        seen.append((sides, dict(made.manifest.counts), made.manifest.balance))
    assert all(other == seen[0] for other in seen)


@pytest.mark.parametrize("dies_after", [0, 1, 3, 6])
def test_stopped_at_any_batch_and_run_again(
    tmp_path: Path, docs_artifact: Docs, monkeypatch: pytest.MonkeyPatch, dies_after: int
) -> None:
    given = {"docs": docs_artifact(make_documents(TEXTS), 2)}
    take(monkeypatch, Slow())
    whole = run_stage(Refine(refiner="fake"), given, tmp_path / "whole" / "refined")
    refining.forget()
    stopped, resumed = Slow(dies_after=dies_after), Slow()
    take(monkeypatch, stopped)
    out = tmp_path / "stopped" / "refined"
    out.parent.mkdir()
    with pytest.raises(KeyboardInterrupt):
        run_stage(Refine(refiner="fake"), given, out)
    torn = sorted(out.parent.glob(".*.partial/.scratch/proposed-*.json"))
    again = 0
    if dies_after == 3:
        again = len(orjson.loads(torn[0].read_bytes())["texts"])
        torn[0].write_bytes(torn[0].read_bytes()[:50])
    refining.forget()
    take(monkeypatch, resumed)
    assert tree(run_stage(Refine(refiner="fake"), given, out).folder) == tree(whole.folder)
    assert len(stopped.asked) + len(resumed.asked) == len(TEXTS) - 1 + again, "only the torn batch is asked twice"


SCRIPT = """
import sys
from pathlib import Path
from tests.recipe.test_refine_refiner import Slow
from typecase.recipe import refine
from typecase.recipe.run import run_stage

if __name__ == "__main__":
    slow = Slow(2, pause=0.1)
    refine.open_refiner = lambda spec: slow
    stage = refine.Refine(refiner="fake", rules=("encoding", "furniture", "document"))
    run_stage(stage, {"docs": Path(sys.argv[1])}, Path(sys.argv[2]))
"""


def killed(docs: Path, out: Path, script: Path, new_batches: int) -> bool:
    """Runs the script and kills it after so many new batches; False when it was done before."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    pattern = ".*.partial/.scratch/proposed-*.json"
    before = set(out.parent.glob(pattern))
    job = subprocess.Popen([sys.executable, str(script), str(docs), str(out)], start_new_session=True, env=environment)
    try:
        while job.poll() is None and len(set(out.parent.glob(pattern)) - before) < new_batches:
            time.sleep(0.002)
        return job.poll() is None
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
        job.wait()


def survive(kills: int, texts: Sequence[str], tmp_path: Path, docs_artifact: Docs, monkeypatch: pytest.MonkeyPatch) -> None:
    docs = docs_artifact(make_documents(texts), 3)
    script, out = tmp_path / "script.py", tmp_path / "killed" / "refined"
    script.write_text(SCRIPT)
    out.parent.mkdir()
    stage = Refine(refiner="fake", rules=("encoding", "furniture", "document"))
    for number in range(kills):
        assert killed(docs, out, script, 1 + number % 3), "the job was over before it could be killed"
    resumed = Slow(2)
    take(monkeypatch, resumed)
    again = run_stage(stage, {"docs": docs}, out)
    assert len(resumed.asked) <= len(texts) - kills, "each run that was killed had settled a batch or more"
    whole = run_stage(stage, {"docs": docs}, tmp_path / "whole" / "refined")
    assert tree(again.folder) == tree(whole.folder)
    ids = [str(r["doc_id"]) for r in rows_of(again.folder, "programs")]
    assert ids == sorted({d.id for d in make_documents(texts)}), "no document is lost or doubled"
    balance = again.manifest.balance
    assert balance is not None and balance.entered == len(texts) == balance.kept + sum(balance.removed.values())


def test_killed_twice_is_never_killed(tmp_path: Path, docs_artifact: Docs, monkeypatch: pytest.MonkeyPatch) -> None:
    survive(2, TEXTS, tmp_path, docs_artifact, monkeypatch)


@pytest.mark.slow
def test_killed_twenty_times_is_never_killed(tmp_path: Path, docs_artifact: Docs, monkeypatch: pytest.MonkeyPatch) -> None:
    survive(20, [*TEXTS, *[page(n) for n in range(150)]], tmp_path, docs_artifact, monkeypatch)


@pytest.mark.parametrize("only", ["document", "chunk"])
def test_either_stage_alone(tmp_path: Path, docs_artifact: Docs, monkeypatch: pytest.MonkeyPatch, only: str) -> None:
    take(monkeypatch, Slow(None))
    given = {"docs": docs_artifact(make_documents(TEXTS))}
    made = run_stage(Refine(refiner="fake", only=only), given, tmp_path / "out")  # type: ignore[arg-type]
    counts = made.manifest.counts
    assert ("edited" in counts, "dropped" in counts) == ((False, True) if only == "document" else (True, False))
    with pytest.raises(BadRecipe, match="c4"):
        run_stage(Refine(rules=("c4",), only="chunk"), given, tmp_path / "bad")
    with pytest.raises(BadRecipe, match="only is"):
        Refine(only="both")  # type: ignore[arg-type]


TEXT = f"Home\nmenu of the day\n{BODY}\n{BODY}\nlast menu line"


def proposal(program: Program, **more: object) -> Proposal:
    return Proposal(bind(program, TEXT), **more)  # type: ignore[arg-type]


def test_an_answer_that_was_cut_off_is_a_refusal() -> None:
    program = Program((remove_lines(1, 1, origin=MODEL),))
    cut_off, whole = Answer(5, "remove_lines(line_sta", truncated=True), Answer(5, "remove_lines(line_start=1, line_end=1)")
    done = settled(TEXT, None, proposal(program, answers=(cut_off,)), STRICT)
    assert done.outcome.text == TEXT and [r[:2] for r in done.refusals] == [[0, "E_TRUNCATED"]]
    done = settled(TEXT, None, proposal(program, answers=(whole, cut_off), rejected=1), STRICT)
    assert done.outcome.status == "edited" and [r[:2] for r in done.refusals] == [[1, "E_TRUNCATED"]]


def test_a_refiner_at_fault_does_not_take_the_rules_with_it() -> None:
    from typecase.core.rules.groups import Rules

    bad = Program(tuple(remove_str(3, f"not there {n}", origin=MODEL) for n in range(9)))
    text = f"Home\nNext\nOn the case\n\n{BODY}\n{BODY}"
    done = settled(text, Rules().propose(text), Proposal(bind(bad, text)), STRICT)
    assert done.outcome.status == "edited" and done.outcome.text == f"On the case\n\n{BODY}\n{BODY}"
    assert len(done.refusals) == 9 and {r[1] for r in done.refusals} == {"E_ERRORS"}
    foreign = Proposal(bind(Program((remove_lines(5, 5, origin=MODEL),)), "another text"))
    done = settled(text, Rules().propose(text), foreign, STRICT)
    assert done.outcome.status == "edited" and [r[1] for r in done.refusals] == ["E_DOC_MISMATCH"]
    long = Program(tuple(remove_lines(n, n, origin=Origin("model", str(n))) for n in range(2001)))
    assert settled(text, None, Proposal(bind(long, text)), STRICT).outcome.status == "kept"


def test_who_could_not_decide_keeps_the_document() -> None:
    done = settled(TEXT, None, proposal(Program(), decision=Refusal("E_LEX", 0, 0, "no score line")), STRICT)
    assert done.outcome.status == "kept" and done.refusals == [[-1, "E_LEX", "no score line"]]
    done = settled(
        TEXT, None, proposal(Program(), decision=drop_doc(origin=MODEL), scores={"education": 1.0, "format": None}), STRICT
    )
    assert done.outcome.status == "dropped" and done.detail == "education 1, format none"


def test_what_was_proposed_is_kept_to_the_bit(tmp_path: Path) -> None:
    refusal = Refusal("E_NO_MATCH", 2, 7, "half a pair \ud83d is mended")
    answer = Answer(3, 'remove_str(line=0, text="é")\n', (refusal,), True, 17, 4)
    statement = remove_str(0, "é", nth=1, of=2, origin=Origin("model", "m", "v", 0.1 + 0.2))
    full = Proposal(Program((statement,), (refusal,), "ab"), drop_doc(origin=MODEL), (answer,), 1, {"a": 1 / 3, "b": None})
    undecided = Proposal(decision=refusal)
    texts = ["one", "two", "three"]
    data = written([full, undecided, Proposal()], texts)
    found = read(data)
    assert written(found, texts) == data
    assert found[0].program == full.program and found[0].program.statements[0].origin == statement.origin
    assert found[0].program.text_hash == "ab" and found[0].scores == full.scores and found[0].drops
    assert found[0].answers[0].raw == answer.raw and found[0].answers[0].truncated and found[0].answers[0].tokens_in == 17
    assert isinstance(found[1].decision, Refusal) and found[1].decision.message == "half a pair ? is mended"
    assert found[2] == Proposal()


def test_batches_about_other_texts_are_asked_again(tmp_path: Path) -> None:
    slow = Slow(2)
    Batches(tmp_path, 0, 2).proposed(slow, ["a", "b"])
    Batches(tmp_path, 0, 2).proposed(slow, ["a", "b"])
    Batches(tmp_path, 0, 2).proposed(slow, ["a", "c"])
    assert slow.asked == ["a", "b", "a", "c"]


def test_a_refiner_that_loses_documents_is_refused() -> None:
    class Loses(Slow):
        def propose(self, texts: Sequence[str]) -> list[Proposal]:
            return super().propose(texts)[1:]

    with pytest.raises(BadProgram, match="1 proposals for 2"):
        Batches(Path(), 0, None).proposed(Loses(), ["a", "b"])


def test_the_pulse_says_how_far_it_is(tmp_path: Path, docs_artifact: Docs, monkeypatch: pytest.MonkeyPatch) -> None:
    take(monkeypatch, Slow(2, dies_after=4))
    with pytest.raises(KeyboardInterrupt):
        run_stage(Refine(refiner="fake"), {"docs": docs_artifact(make_documents(TEXTS))}, tmp_path / "out")
    (scratch,) = tmp_path.glob(".*.partial/.scratch")
    pulse = pulse_of(scratch)
    assert pulse.documents == 8 and 0 < pulse.bytes_after < pulse.bytes_before and pulse.stay <= 8
    (scratch / "pulse-00009.json").write_text("[1, 2")
    assert pulse_of(scratch) == pulse != Pulse()


def test_the_refiner_is_loaded_once_a_process_and_not_where_workers_load_it(
    tmp_path: Path, docs_artifact: Docs, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def counting(spec: str) -> Refiner:
        opened.append(spec)
        return Slow()

    monkeypatch.setattr(refining, "open_refiner", counting)
    run_stage(Refine(refiner="fake"), {"docs": docs_artifact(make_documents(TEXTS), 4)}, tmp_path / "a")
    assert opened == ["fake"]
    Refine(refiner="fake").identity(Local(2))
    assert not refining._loaded


@pytest.mark.slow
def test_a_real_model_refines_and_resumes(tmp_path: Path, docs_artifact: Docs, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    from tests.lm.tiny import make_tiny
    from typecase.lm.refine.refiner_lm import LMRefiner

    make_tiny(tmp_path / "refiner" / "model")
    (tmp_path / "refiner" / "refiner.toml").write_text(
        'kind = "lm"\nstages = ["document", "chunk"]\nbudget = 60\nmax_tokens = 24\n[model]\npath = "model"\ndevice = "cpu"\n'
    )
    monkeypatch.setattr(LMRefiner, "batch_docs", 2)
    stage, given = Refine(refiner=str(tmp_path / "refiner")), {"docs": docs_artifact(make_documents(TEXTS[-8:]), 2)}
    whole = run_stage(stage, given, tmp_path / "whole")
    counts = whole.manifest.counts
    assert counts["asked"] == 7 and counts["calls"] > 0 and counts["tokens_in"] > counts["tokens_out"] > 0
    assert whole.manifest.params["refiner"]["parameters"] > 0
    refining.forget()
    inner = stage.opened(str(tmp_path / "refiner"))

    class Dies:
        left = 2

        def __getattr__(self, name: str) -> object:
            return getattr(inner, name)

        def propose(self, texts: Sequence[str]) -> list[Proposal]:
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
            return inner.propose(texts)

    refining._loaded[next(iter(refining._loaded))] = Dies()  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        run_stage(stage, given, tmp_path / "stopped")
    refining.forget()
    assert tree(run_stage(stage, given, tmp_path / "stopped").folder) == tree(whole.folder)
