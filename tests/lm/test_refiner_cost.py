"""What the stages of an LM refiner read and wrote is counted, the document stage among them, to the FLOPs of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import typecase.recipe.refine as refining
from tests.conftest import make_documents
from typecase.core.program.flops import StageTokens, stages_of
from typecase.lm.fake import FakeLM
from typecase.lm.protocol import Failure
from typecase.lm.refine.form import load_refine_form, parse_refine_form
from typecase.lm.refine.refiner_lm import LMRefiner, LMSettings
from typecase.recipe.refine import Refine
from typecase.recipe.run import run_stage

FORM = parse_refine_form('id = "t"\nversion = 1\ndocument = "{text}\\n?"\nchunk = "{lines}\\n>"', where="test")
Docs = Callable[..., Path]
FREE = LMSettings(constrained=False, max_tokens=20)


class Sized(FakeLM):
    """A fake of so many weights, that keeps what it was shown."""

    def __init__(self, parameters: int, reply: str = "keep_all()", failures: dict[str, Failure] | None = None) -> None:
        super().__init__(reply=lambda prompt: self.note(prompt, reply), failures=failures)
        self.parameters, self.seen = parameters, list[str]()

    def note(self, prompt: str, reply: str) -> str:
        self.seen.append(prompt)
        return reply


def test_by_odds_every_look_and_both_continuations_are_read() -> None:
    judge = Sized(10)
    (whole,) = LMRefiner(None, FORM, document=judge).propose(["one two three"])
    decisions = sum(judge.count_tokens(["keep_doc()", "drop_doc()"]))
    assert (whole.decided_in, whole.decided_out) == (judge.count_tokens(["one two three\n?"])[0] + decisions, 0)
    long = " ".join(["word"] * 900)
    (parts,) = LMRefiner(None, FORM, document=judge, settings=LMSettings(document_tokens=100)).propose([long])
    assert 3 * (90 + decisions) < parts.decided_in < 3 * (110 + decisions)


def test_as_published_the_head_is_read_and_the_answer_written() -> None:
    judge = Sized(10, "keep_doc()")
    settings = LMSettings(mode="prox", constrained=False)
    (found,) = LMRefiner(None, load_refine_form("prox"), document=judge, settings=settings).propose(["a page of text"])
    assert found.decided_in == judge.count_tokens(judge.seen)[0] and found.decided_out == judge.count_tokens(["keep_doc()"])[0]


def test_what_was_not_asked_or_not_answered_costs_nothing() -> None:
    judge = Sized(10, failures={"BOOM": Failure("timeout", "planted")})
    found = LMRefiner(None, FORM, document=judge).propose(["BOOM", "", " \n"])
    assert [(one.decided_in, one.decided_out) for one in found] == [(0, 0)] * 3


def test_flops_of_a_run_are_those_of_two_models(tmp_path: Path, docs_artifact: Docs, monkeypatch: pytest.MonkeyPatch) -> None:
    chunk, judge = Sized(1_000), Sized(7_000)
    refiner = LMRefiner(chunk, FORM, document=judge, settings=FREE)
    monkeypatch.setattr(refining, "open_refiner", lambda spec: refiner)
    texts = [f"page {n} of a book\nwith another line of words\n" * 4 for n in range(6)]
    refining.forget()
    made = run_stage(Refine(rules=(), refiner="two"), {"docs": docs_artifact(make_documents(texts))}, tmp_path / "out")
    refining.forget()
    told, counts = made.manifest.params["refiner"], made.manifest.counts
    assert (told["parameters"], told["document_parameters"]) == (1_000, 7_000)
    decisions = sum(judge.count_tokens(["keep_doc()", "drop_doc()"]))
    read = sum(judge.count_tokens([f"{text}\n?"])[0] + decisions for text in texts)
    assert abs(counts["decided_in"] - read) <= 3 * len(texts)  # a final line break is cleaned away
    first, second = stages_of(told, counts)
    assert first.parameters == 1_000 and first.read == sum(chunk.count_tokens(chunk.seen)) and first.written > 0
    assert second == StageTokens(7_000, counts["decided_in"], 0)
    assert first.flops + second.flops == 2 * (1_000 * (first.read + first.written) + 7_000 * second.read)


def test_runs_without_a_model_or_a_document_stage_are_told_as_they_were() -> None:
    assert stages_of({}, {"tokens_in": 5}) == ()
    assert stages_of({"parameters": 3}, {"tokens_in": 5, "tokens_out": 2}) == (StageTokens(3, 5, 2),)
    assert stages_of({"parameters": 3}, {"tokens_in": 5, "decided_in": 5}) == (StageTokens(3, 5, 0),)
