"""The lenient reader: strict programs without a leniency, teachers' answers with every leniency named, doubt a fault."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from typecase.core.program.language import (
    Program,
    Refusal,
    Statement,
    drop_all,
    keep_all,
    normalize,
    remove_lines,
    remove_str,
    replace_str,
    show,
)
from typecase.core.program.lenient import RELAXATIONS, read_lenient

LINES = ["Home | News", "The mill ran until 1911. [edit]", "Read more", "Its wheel, a = b, is in the museum.", "[edit] twice"]
KEEP = keep_all()


def statements(answer: str, **more: object) -> tuple[Statement, ...]:
    found = read_lenient(answer, LINES, **more).program  # type: ignore[arg-type]
    assert isinstance(found, Program) and not found.faults, found
    return found.statements


@pytest.mark.parametrize(
    ("answer", "expected", "used"),
    [
        ("remove_lines(line_start=0, line_end=1)", [remove_lines(0, 1)], {}),
        ("# a menu\nremove_lines(line_start=0, line_end=0)\n", [remove_lines(0, 0)], {}),
        ("keep_all()", [KEEP], {}),
        ('remove_str(line=1, text=" [edit]", nth=1, of=1)', [remove_str(1, " [edit]", nth=1, of=1)], {}),
        ('normalize(form="mojibake")', [normalize("mojibake")], {}),
        ("```python\nremove_lines(line_start=0, line_end=0)\n```", [remove_lines(0, 0)], {"fence": 1}),
        ("Sure, here it is:\n```\nkeep_all()\n```\nDone.", [KEEP], {"fence": 1, "prose": 2}),
        ("Here:\nremove_lines(line_start=0, line_end=0)", [remove_lines(0, 0)], {"prose": 1}),
        ("untouch_doc()", [KEEP], {"alias": 1}),
        ("keep_chunk()", [KEEP], {"alias": 1}),
        ("skip_chunk()", [KEEP], {"alias": 1}),
        ("remove_lines(start=0, end=2)", [remove_lines(0, 2)], {"argument_alias": 2}),
        ("remove_lines(0, 2)", [remove_lines(0, 2)], {"positional": 2}),
        ("remove_lines(line_start=[000], line_end=[002])", [remove_lines(0, 2)], {"bracketed_number": 2}),
        ('remove_lines(line_start="0", line_end="002")', [remove_lines(0, 2)], {"quoted_number": 2}),
        ("remove_lines(line_start=3)", [remove_lines(3, 3)], {}),
        ("remove_lines(all=True)", [drop_all()], {}),
        ("- remove_lines(line_start=0, line_end=0)\n- keep_all()", [remove_lines(0, 0), KEEP], {"list": 2}),
        ("`keep_all()`", [KEEP], {"list": 1}),
        ("remove_str(line=1, text=' [edit]')", [remove_str(1, " [edit]")], {"single_quotes": 1}),
        ('remove_str(1, " [edit]")', [remove_str(1, " [edit]")], {"positional": 2}),
        ('normalize(source_str="Read more", target_str="")', [remove_str(2, "Read more")],
         {"alias": 2, "argument_alias": 2, "line_found": 1}),
        ('normalize(source_str="Read more")', [remove_str(2, "Read more")], {"alias": 1, "argument_alias": 1, "line_found": 1}),
        ('normalize(source_str="wheel, a = b", target_str="wheel")', [replace_str(3, "wheel, a = b", "wheel")],
         {"alias": 1, "argument_alias": 2, "line_found": 1}),
        ('remove_str(text="Read more")', [remove_str(2, "Read more")], {"line_found": 1}),
        ("<think>remove_lines(0, 9)</think>\nkeep_all()", [KEEP], {"thoughts": 1}),
        ("I would call remove_lines(0, 2) here.\nkeep_all()", [KEEP], {"prose": 1, "call_in_prose": 1}),
        ("remove_lines(line_start=0, line_end=0); keep_all()", [remove_lines(0, 0), KEEP], {}),
        ("remove_lines(\n  line_start=0,\n  line_end=1,\n)", [remove_lines(0, 1)], {}),
    ],
)  # fmt: skip
def test_what_teachers_write(answer: str, expected: list[Statement], used: dict[str, int]) -> None:
    found = read_lenient(answer, LINES)
    assert isinstance(found.program, Program) and list(found.program.statements) == expected and not found.program.faults
    assert dict(found.relaxations) == used and set(used) <= set(RELAXATIONS)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ('normalize(source_str="absent")', "E_NO_MATCH"),
        ('normalize(source_str="[edit]")', "E_AMBIGUOUS"),
        ("remove_lines(line_start=0, line_end=1, 5)", "E_UNKNOWN_ARG"),
        ("remove_lines(line_start=0, line_start=1)", "E_DUP_ARG"),
        ("remove_lines()", "E_MISSING_ARG"),
        ('remove_lines(line_start="zero", line_end=1)', "E_ARG_TYPE"),
        ("remove_lines(line_start=-3, line_end=1)", "E_SYNTAX"),
        ("remove_lines(line_start=[3, line_end=1)", "E_SYNTAX"),
        ("keep_all(now=1)", "E_UNKNOWN_ARG"),
        ('remove_str(line=1, text="\\ud83d")', "E_STRING_ESCAPE"),
    ],
)
def test_doubt_is_a_fault(answer: str, code: str) -> None:
    found = read_lenient(answer + "\nremove_lines(line_start=4, line_end=4)", LINES).program
    assert isinstance(found, Program)
    assert [f.code for f in found.faults] == [code]
    assert found.statements == (remove_lines(4, 4),)


def test_an_unfinished_call_is_not_run() -> None:
    found = read_lenient(
        'remove_lines(line_start=0, line_end=0)\nremove_str(line=1, text="The mi', LINES, truncated=True
    ).program
    assert isinstance(found, Program) and found.statements == (remove_lines(0, 0),)
    assert {f.code for f in found.faults} == {"E_TRUNCATED"}
    alone = read_lenient("remove_lines(line_start=0, line_e", LINES, truncated=True).program
    assert isinstance(alone, Refusal) and alone.code == "E_TRUNCATED"


def test_an_answer_without_a_call_is_refused() -> None:
    for answer in ("", "Nothing to do.", "I cannot call remove_lines(0, 2) here."):
        found = read_lenient(answer, LINES).program
        assert isinstance(found, Refusal) and found.code == "E_EMPTY"


def test_numbers_count_from_the_first_row_shown() -> None:
    assert statements('normalize(source_str="Read more")', first=40) == (remove_str(42, "Read more"),)


texts = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12)
ids = st.integers(0, 40)
made = st.one_of(
    st.builds(remove_lines, ids, ids),
    st.builds(remove_str, ids, texts),
    st.builds(replace_str, ids, texts, texts),
    st.builds(lambda form, line: normalize(form, line=line), texts, ids),
    st.just(KEEP),
)


@given(st.lists(made, min_size=1, max_size=5))
def test_a_strict_program_needs_no_leniency(program: list[Statement]) -> None:
    found = read_lenient(show(Program(tuple(program))), LINES)
    assert found.program == Program(tuple(program)) and not found.relaxations


@given(st.text("remove_lines(str=0, 1)'\"\\\n`[]:-#é“”normalize", max_size=80), st.booleans())
def test_any_answer_gives_a_program_or_a_refusal(answer: str, truncated: bool) -> None:
    found = read_lenient(answer, LINES, truncated=truncated)
    assert isinstance(found.program, Program | Refusal)
