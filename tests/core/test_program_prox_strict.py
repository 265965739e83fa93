"""Published programs said in our language: the sound ones exactly, the others refused with their flag."""

from __future__ import annotations

import pytest

from typecase.core.program.chunks import rows_of
from typecase.core.program.language import (
    Program,
    Refusal,
    Statement,
    drop_all,
    keep_all,
    remove_lines,
    remove_str,
    replace_str,
)
from typecase.core.program.prox_strict import strict_of_prox

TEXT = "Home | News\nThe mill ran until 1911.\nRead more\nThe find, and more.\nx=1 (a, b)\nRead more here, and ﬁnd"
ROWS = rows_of(TEXT, lambda texts: [len(t) for t in texts], None)


def read(answer: str, first: int = 0, last: int = 5) -> Program | Refusal:
    return strict_of_prox(answer, TEXT, ROWS, first, last)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("remove_lines(line_start=000,line_end=001)", [remove_lines(0, 1)]),
        ("remove_lines(start=0, end=1)  # menu", [remove_lines(0, 1)]),
        ('normalize(source_str="Read more", target_str="")', [remove_str(2, "Read more")]),
        ('normalize(source_str="Read more")', [remove_str(2, "Read more")]),
        ('normalize(source_str="mill ran", target_str="mill")', [replace_str(1, "mill ran", "mill")]),
        ("keep_chunk()", [keep_all()]),
        ("untouch_doc()", [keep_all()]),
        ("remove_lines(all=True)", [drop_all()]),
        ("remove_lines(line_start=0,line_end=0)\nremove_lines(line_start=0,line_end=0)", [remove_lines(0, 0)]),
        ("remove_lines(line_start=0,line_end=0)\nkeep_chunk()", [remove_lines(0, 0)]),
    ],
)
def test_what_can_be_said_exactly(answer: str, expected: list[Statement]) -> None:
    found = read(answer)
    assert isinstance(found, Program) and list(found.statements) == expected and not found.faults


@pytest.mark.parametrize(
    ("answer", "code", "flag"),
    [
        ('normalize(source_str="x=1")', "E_SYNTAX", "X1"),
        ('normalize(source_str="a, b", target_str="")', "E_SYNTAX", "X3"),
        ('normalize(source_str=":)")', "E_SYNTAX", "X2"),
        ("remove_lines(line_start=0,line_end=33", "E_TRUNCATED", "X4"),
        ("normalize(source_str='Read more')", "E_SYNTAX", "X8"),
        ('normalize(source_str=" ")', "E_SYNTAX", "X7"),
        ('normalize(source_str="absent", target_str="")', "E_NO_MATCH", "'absent'"),
        ("remove_lines(0, 3)", "E_SYNTAX", "arguments"),
    ],
)
def test_what_is_read_otherwise_than_it_is_written_is_a_fault(answer: str, code: str, flag: str) -> None:
    found = read(answer + "\nremove_lines(line_start=0,line_end=0)")
    assert isinstance(found, Program) and found.statements == (remove_lines(0, 0),)
    assert [f.code for f in found.faults] == [code] and flag in found.faults[0].message


def test_a_string_of_two_rows_is_ambiguous_only_where_both_are_shown() -> None:
    answer = 'normalize(source_str="Read more")'
    two = read(answer, 0, 6)
    assert isinstance(two, Program) and [f.code for f in two.faults] == ["E_AMBIGUOUS"]
    one = read(answer, 3, 6)
    assert isinstance(one, Program) and one.statements == (remove_str(5, "Read more"),)


@pytest.mark.parametrize("answer", ["", "  \n", "# nothing", "drop it"])
def test_an_answer_without_a_call_is_refused(answer: str) -> None:
    found = read(answer)
    assert isinstance(found, Refusal) and found.code == "E_EMPTY"


def test_prose_beside_calls_is_counted() -> None:
    found = read("Here you are\nkeep_chunk()\nremove_lines(line_start=0,line_end=0)")
    assert isinstance(found, Program) and [f.code for f in found.faults] == ["E_UNKNOWN_FN"]
