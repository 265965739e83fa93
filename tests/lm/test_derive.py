"""Deriving: replies of any shape are read, evidence is verbatim or has a code, candidates are pruned for the reason told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from typecase.errors import BadQuery, CorruptStore
from typecase.lm.derive.causes import SCHEMA, ask_causes, causes_in, find_passage, json_in, prompt_for, shown
from typecase.lm.derive.deriving import Candidate, Cause, Pruning, Suspect, as_row, candidates, cause_of, incidence, uncovered
from typecase.lm.derive.drop import PostedLM
from typecase.lm.derive.names import Named, ask_names, named_in, rubric_toml, slug
from typecase.lm.fake import FakeLM
from typecase.lm.protocol import Answer, Can, Failure, Form
from typecase.lm.rate.rubric import parse_rubric

TEXT = "Buy cheap\n  watches now! Buy cheap watches now!"
HIGH = Suspect("d1", "web", "high", 1, 2.0, 6.0, 1.5, 9, 40)


def answer(text: str) -> Answer:
    return Answer(text, "stop", 1, 1)


def said(cause: object, evidence: object, direction: object) -> str:
    return json.dumps({"causes": [{"cause": cause, "evidence": evidence, "direction": direction}]})


@pytest.mark.parametrize(
    ("reply", "code", "evidence"),
    [
        (said("spam", "Buy cheap watches now!", "high"), "ok", "Buy cheap watches now!"),
        (said("spam", "cheap watches now! Buy", "high"), "evidence_respaced", "cheap\n  watches now! Buy"),
        (said("spam", "Buy dear watches", "high"), "evidence_not_in_document", "Buy dear watches"),
        (said("spam", "", "high"), "evidence_not_in_document", None),
        (said("spam", "Buy", "low"), "direction_mismatch", "Buy"),
        (said("spam", "Buy", None), "direction_filled", "Buy"),
        ("Sure!\n```json\n" + said("spam", "Buy", "high") + "\n```", "ok", "Buy"),
        ('{"cause": "spam", "evidence": "Buy", "direction": "high"}', "ok", "Buy"),
        (said("...", "Buy", "high"), "no_cause", None),
        (said(7, "Buy", "high"), "no_cause", None),
        ('{"causes": []}', "no_cause", None),
        ('{"causes": ["spam"]}', "no_cause", None),
        ("  ", "empty_reply", None),
        ("I cannot say.", "not_json", None),
    ],
)  # fmt: skip
def test_a_reply_is_read(reply: str, code: str, evidence: str | None) -> None:
    (found,) = causes_in(answer(reply), HIGH, TEXT, 1)
    assert (found.code, found.evidence) == (code, evidence)
    assert found.used == (code in {"ok", "evidence_respaced", "direction_filled"})
    if found.start is not None:
        assert TEXT[found.start : found.stop] == evidence


def test_a_failure_has_its_kind() -> None:
    (found,) = causes_in(Failure("too_long", "…"), HIGH, TEXT, 2)
    assert found == Cause("d1", "web", "high", 2, None, None, None, None, "failed:too_long")


@given(st.text())
def test_any_reply_gives_a_row(reply: str) -> None:
    found = causes_in(answer(reply), HIGH, TEXT, 1)
    assert found and all(one.doc_id == "d1" and (one.cause is None or one.cause) for one in found)


def test_json_is_found_in_what_stands_around_it() -> None:
    assert json_in('x {"a" } {"b": {"c": 1}} {"d": 2}') == {"b": {"c": 1}}
    assert json_in("[1, 2]") is None and json_in("{" * 3000) is None


def test_passages_are_regular_text() -> None:
    assert find_passage("a.c", "abc a.c") == (4, 7, True)
    assert find_passage("(x) [y", "q (x)\n[y") == (2, 8, False)


def test_the_prompt_shows_both_ends_of_a_long_text_and_what_is_known() -> None:
    long = "head" + "x" * 9000 + "tail"
    assert shown(long).startswith("head") and shown(long).endswith("tail") and len(shown(long)) < 3100
    prompt = prompt_for(HIGH, "Some text.", ["cookie banner"])
    assert "hardest" in prompt and "- cookie banner" in prompt and "Some text." in prompt
    assert "easiest" in prompt_for(Suspect("d", "s", "low", 1, 0, 0, 0, 1, 1), "t")


def test_the_schema_goes_along_where_it_can() -> None:
    asked: list[Form | None] = []

    class Noting(FakeLM):
        def generate(self, prompts, *, form=None, **more):  # type: ignore[no-untyped-def]
            asked.append(form)
            return super().generate(prompts, form=form, **more)

    for forms in (frozenset(["json_schema"]), frozenset()):
        lm = Noting(can=Can(generate=True, forms=forms), replies={"": said("spam", "Buy", "high")})  # type: ignore[arg-type]
        assert [c.code for c in ask_causes(lm, [HIGH], {"d1": TEXT}, number=1, seed=0)] == ["ok"]
    assert asked == [Form("json_schema", json.dumps(SCHEMA)), None]


def causes(*rows: tuple[str, str, str]) -> list[Cause]:
    return [Cause(doc, "web", end, 1, phrase, "x", 0, 1, "ok") for doc, end, phrase in rows]


def test_candidates_are_pruned_for_the_reason_told() -> None:
    rows = causes(
        *((f"a{k}", "low", "cookie banner") for k in range(5)),
        *((f"a{k}", "low", "privacy settings") for k in range(5)),
        *((f"a{k}", "low", "website footer links") for k in range(2)),
        ("b1", "high", "spelling mistakes"), ("b2", "high", "many spelling mistakes"), ("b3", "high", "odd numbers"),
    )  # fmt: skip
    rows.append(Cause("b4", "web", "high", 1, "spelling mistakes", None, None, None, "evidence_not_in_document"))
    found = {one.centre: one for one in candidates(rows, Pruning())}
    assert {centre: one.reason for centre, one in found.items()} == {
        "cookie banner": "", "privacy settings": "redundant with c001", "website footer links": "no_new_document",
        "many spelling mistakes": "", "odd numbers": "support",
    }  # fmt: skip
    assert found["many spelling mistakes"].documents == ("b1", "b2") and found["cookie banner"].support == {"low": 5, "high": 0}
    (first, *others) = candidates(rows, Pruning(most=1))
    assert first.kept and "surplus" in {one.reason for one in others}
    suspects = [Suspect(doc, "web", "high", 1, 0, 0, 0, 1, 1) for doc in ("a0", "b1", "b3")]
    assert [one.doc_id for one in uncovered(suspects, found.values())] == ["b3"]
    assert incidence(suspects, [found["cookie banner"], found["many spelling mistakes"]]).tolist() == [[1, 0], [0, 1], [0, 0]]


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(BadQuery):
        Pruning(support=0)
    row = as_row(causes(("d", "low", "x"))[0])
    assert cause_of(row, "here") == causes(("d", "low", "x"))[0]
    with pytest.raises(CorruptStore, match="line 3"):
        cause_of({**row, "colour": 1}, "line 3")


CANDIDATE = Candidate(
    "c001", "spelling mistakes", ("spelling mistakes",), ("d1", "d2"), {"low": 0, "high": 2}, {"web": 2}, True
)


def test_names_are_the_teachers_or_plain_words() -> None:
    good = {
        "id": "Spelling!",
        "name": "Spelling",
        "question": "Is it spelled well?",
        "anchors": {"1": "no", "5": "yes", "9": "?"},
    }
    assert named_in(answer(json.dumps(good)), CANDIDATE) == Named(
        "c001", "spelling", "Spelling", "Is it spelled well?", {"1": "no", "5": "yes"}, "teacher"
    )
    for bad, why in [
        ("nothing", "not_json"),
        ({"anchors": {}}, "no_question"),
        ({**good, "anchors": {"1": "no"}}, "no_anchors"),
    ]:
        named = named_in(answer(bad if isinstance(bad, str) else json.dumps(bad)), CANDIDATE)
        assert named.by == f"rule:{why}" and "spelling mistakes" in named.question and set(named.anchors) == {"1", "3", "5"}
    assert named_in(Failure("timeout", ""), CANDIDATE).by == "rule:failed:timeout"
    twice = ask_names(
        FakeLM(can=Can(generate=True), replies={"": json.dumps({**good, "id": "domain"})}), [CANDIDATE] * 2, seed=0
    )
    assert [one.id for one in twice] == ["domain_2", "domain_3"]  # a column that ratings have already
    assert slug("Étude 12: foo") == "tude_12_foo" and slug("9 lives") == "c_9_lives" and slug("…") == ""


@given(st.text(min_size=1), st.text(min_size=1))
def test_the_rubric_file_reads_back(question: str, anchor: str) -> None:
    if not question.strip():
        question = "?"
    named = [
        Named("c001", "one", question, question, {"1": anchor, "5": "good"}, "teacher"),
        Named("x", "two", "b", "c?", {}, "hand"),
    ]
    text = rubric_toml(named, {"c001": CANDIDATE}, rubric_id="mine", version=3, log={"teacher": question + "\n# x"})
    rubric = parse_rubric(text, where="here")
    clean = question.encode("utf-8", "replace").decode()
    assert (rubric.id, rubric.version, rubric.columns) == ("mine", 3, ("one", "two"))
    assert rubric.criteria[0].question == clean and rubric.criteria[0].anchors[1] == anchor.encode("utf-8", "replace").decode()


def test_a_teacher_by_post(tmp_path: Path) -> None:
    lm = PostedLM(tmp_path / "post")
    first = list(lm.generate(["Why?", "How?"], max_tokens=5, seed=0, form=Form("json_schema", "{}")))
    assert [one.kind for one in first if isinstance(one, Failure)] == ["timeout", "timeout"] and lm.waiting == 2
    asked = [json.loads(line) for line in (tmp_path / "post/requests.jsonl").read_text().splitlines()]
    assert [(row["prompt"], row["form"]) for row in asked] == [("Why?", {}), ("How?", {})]
    lines = [{"id": asked[0]["id"], "reply": "Because."}, {"id": asked[1]["id"], "reply": {"so": 1}}]
    (tmp_path / "post/replies.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    again = PostedLM(tmp_path / "post")
    texts = [
        one.text
        for one in again.generate(["Why?", "How?"], max_tokens=5, seed=0, form=Form("json_schema", "{}"))
        if isinstance(one, Answer)
    ]
    assert texts == ["Because.", '{"so": 1}'] and again.waiting == 0 and not (tmp_path / "post/requests.jsonl").exists()
    (tmp_path / "post/replies.jsonl").write_text('{"id": 1}\n')
    with pytest.raises(BadQuery, match="line 1"):
        PostedLM(tmp_path / "post")
