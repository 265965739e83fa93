"""refine on the command line: refining, showing, reporting, comparing and judging, for people and machines."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.app.test_cli import Answer
from tests.conftest import make_documents
from tests.recipe.test_refine import corpus, page
from tests.recipe.test_refine_refiner import BODY, TEXTS, Slow
from typecase.app.refine import refining
from typecase.app.refine.diff import difference
from typecase.app.refine.judge import open_judging, read_judgements
from typecase.app.refine.printing import document_lines, statistics_lines
from typecase.app.refine.progress import LiveReporter, progress_line
from typecase.app.refine.refining import Run, ids_of, open_run, show_edited
from typecase.app.refine.stats import statistics
from typecase.core.program.guards import GuardPolicy
from typecase.core.program.language import Origin, Program, bind, drop_doc, keep_doc, remove_lines, remove_str, replace_str
from typecase.core.program.proposal import Answer as Told
from typecase.core.program.proposal import Proposal
from typecase.errors import BadQuery, CorruptStore, FingerprintMismatch, NotFound, SchemaMismatch
from typecase.recipe import refine as refine_stage
from typecase.recipe.refine import Refine
from typecase.recipe.refine_batches import Pulse
from typecase.recipe.run import run_stage
from typecase.store.documents import open_documents

Docs = Callable[..., Path]


@pytest.fixture(autouse=True)
def no_refiner_is_kept() -> Iterator[None]:
    refine_stage.forget()
    yield
    refine_stage.forget()


@pytest.fixture
def runs(tmp_path: Path, docs_artifact: Docs) -> tuple[Path, Path]:
    """A corpus refined by the default rules, and by some of them."""
    given = {"docs": docs_artifact(make_documents(corpus()), 3)}
    first = run_stage(Refine(), given, tmp_path / "all").folder
    return first, run_stage(Refine(rules=("furniture",)), given, tmp_path / "some").folder


class Model:
    """A refiner with answers, scores and parameters: one program for each word that a text holds."""

    name, version, fingerprint, parameters = "model", "7", "0" * 32, 1_000_000
    origin = Origin("model", "model", "7", 0.95)

    def propose(self, texts: Any) -> list[Proposal]:
        return [self.one(text) for text in texts]

    def one(self, text: str) -> Proposal:
        answer = Told(9, "remove_lines(…)", tokens_in=100, tokens_out=10)
        scores = {"education": 2.0, "format": None}
        if "DROP" in text:
            return Proposal(decision=drop_doc(origin=self.origin), answers=(answer,), scores=scores)
        statements = []
        lines = text.split("\n")
        for number, line in enumerate(lines):
            if "menu" in line:
                statements.append(remove_lines(number, number, origin=self.origin))
            if " [edit]" in line:
                statements.append(remove_str(number, " [edit]", origin=self.origin))
            if "ﬁ" in line:
                statements.append(replace_str(number, "ﬁ", "fi", origin=self.origin))
            if "GONE" in line:
                statements.append(remove_str(number, "not there", origin=self.origin))
        answers = (answer, Told(3, "rem", truncated=True)) if "GONE" in text else (answer,)
        program = bind(Program(tuple(statements)), text)
        return Proposal(program, keep_doc(origin=self.origin), answers, len(answers) - 1, scores)


MODEL_TEXTS = [
    f"Home\nNext\nA heading\n\n{BODY} [edit]\nthe menu\n{BODY}\nthe oﬃce is ﬁne and so is the rest of the line\n{BODY}",
    f"{BODY}\nDROP\n{BODY}",
    f"{BODY}\nthe menu\nGONE is the string\n{BODY}\n{BODY}",
    f"{BODY}\nmenu of one thing and another thing\n",
    f"{BODY}\n{BODY}\x1b[31m\n",
]


@pytest.fixture
def by_model(tmp_path: Path, docs_artifact: Docs, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(refine_stage, "open_refiner", lambda spec: Model())
    stage = Refine(refiner="model", guards=GuardPolicy(kept_percent=80))
    return run_stage(stage, {"docs": docs_artifact(make_documents(MODEL_TEXTS), 1, "model-docs")}, tmp_path / "out").folder


def doc(number: int) -> str:
    return make_documents(MODEL_TEXTS)[number].id


def test_refine_still_takes_documents_first(tmp_path: Path, docs_artifact: Docs, capsys: pytest.CaptureFixture[str]) -> None:
    docs = docs_artifact(make_documents(corpus()), 3)
    answer = Answer(capsys, "refine", docs, "-o", tmp_path / "a")
    assert answer.code == 0 and "31 = kept 28 + removed 3" in answer.out and "25 edited" in answer.out
    assert "refine work: 31/31 documents" in answer.err and "kept 90.3% of documents" in answer.err
    for words in (("run", docs, "-o", tmp_path / "b", "--json"), ("-o", tmp_path / "c", "--quiet", docs, "--json")):
        told = orjson.loads(Answer(capsys, "refine", *words).out)
        assert told["manifest"]["content"] == open_documents(tmp_path / "a").manifest.content
    bad = Answer(capsys, "refine", docs, "-o", tmp_path / "d", "--rules", "gopher")
    assert bad.code == 2 and "no rules 'gopher'" in bad.err
    assert Answer(capsys, "refine", docs, "-o", tmp_path / "e", "--only", "document").code == 0
    assert "edited" not in open_documents(tmp_path / "e").manifest.counts
    helped = Answer(capsys, "refine", "--help")
    assert helped.code == 0 and all(f"  {name}" in helped.out for name in ("run", "show", "stats", "diff", "judge"))


def test_a_document_shows_its_edits_and_who_made_them(by_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = Answer(capsys, "refine", "show", by_model, doc(0))
    lines = answer.out.split("\n")
    assert lines[0].startswith(f"{doc(0)}  test  edited")
    assert lines[2:11] == [
        "- Home",
        "- Next",
        "  A heading",
        "  ",
        f"~ {BODY}[- [edit]-]",
        "- the menu",
        f"  {BODY}",
        "~ the oﬃce is [-ﬁne-]{+fine+} and so is the rest of the line",
        f"  {BODY}",
    ]
    assert "  remove_lines(line_start=0, line_end=1)   line.nav 1, 0.95, applied" in lines
    assert "  remove_lines(line_start=5, line_end=5)   model 7, 0.95, applied" in lines
    assert "  decision of the refiner: keep (education 2, format none)" in lines
    shown = orjson.loads(Answer(capsys, "refine", "show", by_model, doc(0)[:9], "--json").out)
    assert shown[0]["lines"][7]["pieces"][1] == {"kind": "replaced", "text": "ﬁne", "target": "fine"}
    colored = "\n".join(document_lines(show_edited(open_run(by_model), doc(0)), color=True))
    assert "\x1b[31m\x1b[9mthe menu\x1b[0m" in colored and "\x1b[32mfine\x1b[0m" in colored


def test_dropped_guarded_and_refused_say_so(by_model: Path) -> None:
    run = open_run(by_model)
    dropped = document_lines(show_edited(run, doc(1)))
    assert "dropped (model): education 2, format none" in dropped[0] and dropped[3] == "- DROP"
    faulty = "\n".join(document_lines(show_edited(run, doc(2))))
    assert "\n- the menu\n" in faulty and "E_NO_MATCH" in faulty and "refused, chunk 1: E_TRUNCATED" in faulty
    held = document_lines(show_edited(run, doc(3)))
    assert "guarded (G_DOC_RATIO)" in held[0] and "! menu of one thing and another thing" in held
    assert "\\x1b[31m" in "\n".join(document_lines(show_edited(run, doc(4)))), "a document cannot colour the terminal"


def test_the_pieces_of_a_document_are_the_document(runs: tuple[Path, Path], by_model: Path) -> None:
    for folder in (*runs, by_model):
        run = open_run(folder)
        refined = {d.id: d.text for d in run.store}
        for document in run.parent:
            shown = show_edited(run, document.id)
            whole = ["".join(p.text for p in line.pieces) for line in shown.lines]
            assert whole == document.text.replace("\r\n", "\n").split("\n")
            if shown.status == "edited" and "\r" not in document.text:
                left = [
                    "".join(p.target if p.kind == "replaced" else p.text if p.kind == "kept" else "" for p in line.pieces)
                    for line in shown.lines
                    if line.kind != "removed"
                ]
                assert "\n".join(left) == refined[document.id]


def test_browsing_takes_the_first_by_id(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    run = open_run(runs[0])
    edited = sorted(d.id for d in run.store if d.text != run.parent.get(d.id).text)
    assert ids_of(run, 3, ("edited",)) == edited[:3] and len(ids_of(run, 99)) == 31
    shown = orjson.loads(Answer(capsys, "refine", "show", runs[0], "--browse", "4", "--status", "dropped", "--json").out)
    assert [one["status"] for one in shown] == ["dropped"] * 3
    nothing = Answer(capsys, "refine", "show", runs[0])
    assert nothing.code == 2 and "--browse" in nothing.err
    assert Answer(capsys, "refine", "show", runs[0], "ffff" * 8).code == 2


def test_the_report_adds_up(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    found = statistics(runs[0])
    texts = corpus()
    refined = list(open_documents(runs[0]))
    assert found.total.documents_in == 31 and found.total.documents_out == 28 and found.total.edited == 25
    assert found.total.bytes_in == sum(len(t.encode()) for t in texts)
    assert found.total.bytes_out == sum(len(d.text.encode()) for d in refined)
    assert found.dropped == {"doc.blank": 2, "doc.numbers": 1}
    for rows in (found.sources, found.buckets):
        for name in ("documents_in", "documents_out", "bytes_in", "bytes_documents", "bytes_out", "units_out"):
            assert sum(getattr(row, name) for row in rows) == getattr(found.total, name)
    assert (found.before.documents, found.after.documents) == (31, 28) and found.before.units > found.after.units
    assert sum(found.programs.per_program.values()) == 31 and found.programs.operations["drop_doc"] == 3
    assert found.programs.rules["line.nav"] == 24 and found.flops is None
    top = dict(found.top_lines)
    assert top["Home"] == top["Acme Printing House of the North"] == 24 and found.looked == 31
    assert [d.removed_bytes for d in found.largest] == sorted((d.removed_bytes for d in found.largest), reverse=True)
    text = Answer(capsys, "refine", "stats", runs[0]).out
    assert "dropped by doc.blank" in text and "line.frequent 24" in text and "Opening hours on request" in text
    told = orjson.loads(Answer(capsys, "refine", "stats", runs[0], "--json", "--top", "2", "--look", "5").out)
    assert told["looked"] == 5 and len(told["top_lines"]) == len(told["largest"]) == 2


def test_the_report_of_a_model(by_model: Path) -> None:
    found = statistics(by_model)
    programs = found.programs
    assert (programs.asked, programs.chunks, programs.rejected, programs.truncated) == (5, 6, 1, 1)
    assert programs.refusals == {"E_TRUNCATED": 1} and programs.codes["E_NO_MATCH"] == 1
    assert programs.guarded == {"test": {"G_DOC_RATIO": 1}} and programs.chunk_failures == pytest.approx(1 / 6)
    assert found.flops is not None and found.flops.flops == 2 * 1_000_000 * (500 + 50)
    assert dict(found.top_strings) == {" [edit]": 1, "ﬁ": 1}
    text = "\n".join(statistics_lines(found))
    assert "test: G_DOC_RATIO 1" in text and "1.10e+09 FLOPs = 2 · 1,000,000 parameters · 550 tokens" in text


def test_the_report_of_nothing(tmp_path: Path, docs_artifact: Docs) -> None:
    found = statistics(run_stage(Refine(), {"docs": docs_artifact([])}, tmp_path / "out").folder)
    assert found.total.documents_in == 0 and found.after.mean == 0.0 and statistics_lines(found)


def test_two_runs_compared(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    found = difference(*runs, examples=2)
    assert found.compared == 31 and found.crossed == {
        "edited / edited": 24,
        "kept / kept": 3,
        "dropped / kept": 3,
        "edited / kept": 1,
    }
    # Both remove the two lines of the menu, the first alone the three of the foot.
    assert (found.lines.both, found.lines.only_first, found.lines.only_second) == (48, 72, 0)
    assert found.lines.precision == pytest.approx(0.4) and found.lines.recall == 1.0
    assert (found.drops.both, found.drops.only_first) == (0, 3) and found.same == 3
    edited = [e for e in found.examples if e.first[0] == "edited"]
    assert [e.doc_id for e in edited] == sorted(d.id for d in make_documents(corpus())[:24])[:2]
    assert edited[0].first_lines[0] == "Acme Printing House of the North" and edited[0].only_first == 3
    assert {e.first for e in found.examples if e.first[0] == "dropped"} <= {
        ("dropped", "doc.numbers"),
        ("dropped", "doc.blank"),
    }
    back = difference(runs[1], runs[0])
    assert (back.lines.precision, back.lines.recall) == (found.lines.recall, found.lines.precision)
    same = difference(runs[0], runs[0])
    assert same.same == 31 and same.lines.f1 == 1.0 and not same.examples
    text = Answer(capsys, "refine", "diff", *runs).out
    assert "31 documents compared" in text and "0.400" in text
    told = orjson.loads(Answer(capsys, "refine", "diff", *runs, "--json").out)
    assert told["lines"]["f1"] == pytest.approx(2 * 48 / (2 * 48 + 72))


def test_runs_of_other_documents(tmp_path: Path, docs_artifact: Docs, runs: tuple[Path, Path]) -> None:
    texts = corpus()
    texts[3] = texts[3] + "\nmore"
    changed = docs_artifact(make_documents([*texts, page(77)])[1:], 1, "changed")
    other = run_stage(Refine(), {"docs": changed}, tmp_path / "other").folder
    found = difference(runs[0], other)
    assert (found.only_first, found.only_second, found.other_text, found.compared) == (1, 1, 1, 29)
    foreign = [d for d in make_documents([*texts, "one"]) if d.text == "one"]
    away = run_stage(Refine(), {"docs": docs_artifact(foreign, 1, "away")}, tmp_path / "away-out").folder
    with pytest.raises(BadQuery, match="no text in common"):
        difference(runs[0], away)


def test_judging_is_kept_and_goes_on(
    runs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "verdicts.jsonl"

    def judge(keys: str, who: str = "ada") -> dict[str, int]:
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{key}\n" for key in keys)))
        answer = Answer(capsys, "refine", "judge", runs[0], "--to", path, "--who", who, "--documents", "5", "--json")
        assert answer.code == 0 and "a accept" in answer.err
        told: dict[str, int] = orjson.loads(answer.out)
        return told

    assert judge("arxus" + "q") == {"accept": 1, "reject": 0, "open": 3}
    assert judge("rr") == {"accept": 1, "reject": 2, "open": 2}
    assert judge("aaaaa", who="bob") == {"accept": 5, "reject": 0, "open": 0}
    rows = read_judgements(path)
    ids = ids_of(open_run(runs[0]), 5, ("edited", "dropped", "guarded"))
    assert [row["doc_id"] for row in rows if row["who"] == "ada"] == ids[:3]
    assert [row["verdict"] for row in rows if row["who"] == "ada"] == ["accept", "reject", "reject"]
    programs = {one.doc_id: one for one in (show_edited(open_run(runs[0]), i) for i in ids)}
    assert all(row["text_hash"] == programs[row["doc_id"]].text_hash for row in rows)
    assert all(row["program"] == programs[row["doc_id"]].program for row in rows)
    assert set(rows[0]) == {"doc_id", "text_hash", "program", "status", "by", "verdict", "who"}
    assert judge("uq") == {"accept": 1, "reject": 1, "open": 3} and len(read_judgements(path)) == 7


def test_a_file_of_verdicts_that_is_none(runs: tuple[Path, Path], tmp_path: Path) -> None:
    run = open_run(runs[0])
    (tmp_path / "bad.jsonl").write_text('{"verdict": "maybe"}\n')
    with pytest.raises(CorruptStore, match="no file of verdicts"):
        open_judging(run, tmp_path / "bad.jsonl", who="ada")
    session = open_judging(run, tmp_path / "new.jsonl", who="ada", documents=1)
    with pytest.raises(BadQuery):
        session.answer("maybe")
    assert not session.undo()
    session.answer("reject")
    with pytest.raises(BadQuery):
        session.answer("accept")


def test_what_is_no_run_is_refused(runs: tuple[Path, Path], tmp_path: Path, docs_artifact: Docs) -> None:
    docs = docs_artifact(make_documents(["a"]), 1, "plain")
    with pytest.raises(SchemaMismatch, match="not by refine"):
        open_run(docs)
    made = run_stage(Refine(), {"docs": docs}, tmp_path / "made").folder
    (docs / "manifest.json").rename(docs / "kept.json")
    docs.rename(tmp_path / "away")
    with pytest.raises(NotFound, match="original texts"):
        open_run(made)
    docs_artifact(make_documents(["another"]), 1, "plain")
    with pytest.raises(FingerprintMismatch, match="has changed"):
        open_run(made)


def test_the_progress_line() -> None:
    line = progress_line("refine work", Pulse(120, 90, 1000, 600), 20, 320, 10.0)
    assert line == "refine work: 120/320 documents  10.0 docs/s  kept 75.0% of documents, 60.0% of bytes  about 20 s left"
    assert progress_line("refine work", Pulse(), 0, 5, 1.0) == "refine work: 0/5 documents  0.0 docs/s"


def test_progress_is_told_while_a_part_is_under_way(
    tmp_path: Path, docs_artifact: Docs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refine_stage, "open_refiner", lambda spec: Slow(2, pause=0.05))
    docs, stream = docs_artifact(make_documents(TEXTS)), io.StringIO()
    monkeypatch.setattr(refining, "LiveReporter", lambda *given: LiveReporter(*given, every=0.02))
    made = refining.refine(Refine(refiner="fake"), docs, tmp_path / "out", stream=stream)
    lines = [line for line in stream.getvalue().splitlines() if line.startswith("refine work")]
    told = [int(line.split(": ")[1].split("/")[0]) for line in lines]
    assert told == sorted(told) and len(set(told)) > 3 and told[-1] == len(TEXTS) and "of bytes" in lines[-2]
    assert isinstance(open_run(made.folder), Run)
