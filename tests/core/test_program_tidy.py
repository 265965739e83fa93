"""Tidying: no word changes, only blanks go, each by a statement with its own origin, and twice is once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from typecase.core.program.guards import FREE
from typecase.core.program.language import Origin, Program, Statement, remove_lines, remove_str, replace_str, show
from typecase.core.program.parse import parse
from typecase.core.program.run import restore, run
from typecase.core.program.tidy import TIDY, tidied

POLICY = replace(FREE, nth=True)
RULE = Origin("rule", "test", "1", 1.0)
PIECES = st.sampled_from(["one", "two", "[edit]", "[x]", " ", "  ", "\t", "\n", "\n\n", "\r\n", ".", "字"])


def tidy(text: str, *statements: Statement, blank_lines: int | None = None) -> tuple[str, list[Statement]]:
    program = Program(tuple(s._replace(origin=RULE) for s in statements))
    whole, found = tidied(program, run(program, text, POLICY), text, POLICY, blank_lines=blank_lines)
    return found.text, [s for s in whole.statements if s.origin == TIDY]


@pytest.mark.parametrize(
    ("text", "line", "gone", "left"),
    [
        ("Sorts [edit] and cases", 0, "[edit]", "Sorts and cases"),
        ("Sorts\t[edit]\tand", 0, "[edit]", "Sorts\tand"),
        ("Sorts [edit]", 0, "[edit]", "Sorts "),
        ("[edit] Sorts", 0, "[edit]", " Sorts"),
        ("top\n [edit] \nend", 1, "[edit]", "top\nend"),
        ("top\n [edit]", 1, "[edit]", "top"),
        ("Sorts, [edit]and", 0, "[edit]", "Sorts, and"),
    ],
)
def test_what_a_cut_leaves_behind(text: str, line: int, gone: str, left: str) -> None:
    assert tidy(text, remove_str(line, gone))[0] == left


def test_one_of_several_like_strings_is_named_by_its_number() -> None:
    text = "a [x] b [x] c"
    found, extra = tidy(text, remove_str(0, "[x]", nth=2, of=2))
    assert found == "a [x] b c" and [(s.text, s.nth, s.of) for s in extra] == [("[x] ", 2, 2)]
    assert tidy("a [x] [x] b", remove_str(0, "[x]", nth=1, of=2), remove_str(0, "[x]", nth=2, of=2))[0] == "a b"


def test_blank_lines_are_capped_where_lines_went_and_nowhere_else() -> None:
    text = "A\n\n\n\nB\n\nmenu\n\nC"
    menu = remove_lines(6, 6)
    assert tidy(text, menu)[0] == "A\n\n\n\nB\n\n\nC"
    assert tidy(text, menu, blank_lines=1)[0] == "A\n\n\n\nB\n\nC"
    assert tidy(text, menu, blank_lines=0)[0] == "A\n\n\n\nB\nC"
    assert tidy("top\n\n[edit]\n\nend", remove_str(2, "[edit]"), blank_lines=1)[0] == "top\n\nend"


def test_lines_of_a_replacement_are_left_alone() -> None:
    assert tidy("ﬁne [x] ", replace_str(0, "ﬁne", "fine"))[0] == "fine [x] "


@st.composite
def programs(draw: st.DrawFn) -> tuple[str, Program]:
    text = "".join(draw(st.lists(PIECES, min_size=1, max_size=25)))
    num = text.replace("\r\n", "\n").count("\n") + 1
    statements = [
        remove_lines(n, n, origin=RULE) if whole else remove_str(n, s, nth=nth, of=of, origin=RULE)
        for n, whole, s, nth, of in draw(
            st.lists(
                st.tuples(
                    st.integers(0, num - 1), st.booleans(), st.sampled_from(["[edit]", "[x]", "two", "."]),
                    st.integers(1, 2), st.integers(1, 2),
                ),
                min_size=1,
                max_size=5,
            )
        )
    ]  # fmt: skip
    return text, Program(tuple(statements))


@settings(max_examples=300, deadline=None)
@given(programs(), st.sampled_from([None, 0, 1]))
def test_laws(made: tuple[str, Program], blank_lines: int | None) -> None:
    text, program = made
    plain = run(program, text, POLICY)
    whole, found = tidied(program, plain, text, POLICY, blank_lines=blank_lines)
    assert found.text.split() == plain.text.split() and len(found.text) <= len(plain.text)
    assert restore(found) == text
    assert parse(show(whole)) == whole and run(whole, text, POLICY).text == found.text
    assert tidied(whole, found, text, POLICY, blank_lines=blank_lines)[1].text == found.text
    if plain.status != "edited":
        assert whole is program
