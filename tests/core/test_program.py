"""The language: reading, showing, the canonical form, and every way to be refused."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from typecase.core.program import language as lang
from typecase.core.program.language import (
    CODES,
    MAX_STATEMENTS,
    Origin,
    Program,
    Refusal,
    Statement,
    canonical,
    drop_doc,
    keep_all,
    normalize,
    remove_lines,
    remove_str,
    replace_str,
    show,
)
from typecase.core.program.parse import SIGNATURES, parse
from typecase.errors import BadProgram

# Everything that the published parser stumbles over, and everything that a string may hold.
STRINGS = st.text(st.one_of(st.sampled_from(',=()"\\;#\n\r\t [x]'), st.characters(exclude_categories=["Cs"])), max_size=12)
DEBRIS = ["", ")", "(", '"', ",", "=", "\n", "\\", "#", "\ud800", "é", "7"]
LINES = st.integers(0, 40)
ORIGINS = st.sampled_from([Origin("rule", "a"), Origin("rule", "b"), Origin("model", "m", "1", 0.5)])


@st.composite
def statements(draw: st.DrawFn) -> Statement:
    first = draw(LINES)
    last = draw(st.one_of(st.none(), st.just(first), LINES))
    nth = draw(st.sampled_from([(0, 0), (0, 0), (1, 2)]))
    origin = draw(ORIGINS)
    kind = draw(st.sampled_from(["lines", "cut", "swap", "form", "form_here"]))
    if kind == "lines":
        return remove_lines(first, first if last is None else last, origin=origin)
    if kind == "cut":
        return remove_str(first, draw(STRINGS), line_end=last, nth=nth[0], of=nth[1], origin=origin)
    if kind == "swap":
        return replace_str(first, draw(STRINGS), draw(STRINGS), line_end=last, nth=nth[0], of=nth[1], origin=origin)
    if kind == "form":
        return normalize(draw(STRINGS), origin=origin)
    return normalize(draw(STRINGS), line=first, line_end=last, origin=origin)


PROGRAMS = st.lists(statements(), max_size=8).map(lambda s: Program(tuple(s)))


@given(PROGRAMS)
@settings(deadline=None)
def test_parse_undoes_show(program: Program) -> None:
    assert parse(show(program)) == program
    assert show(parse(show(program))) == show(program)  # type: ignore[arg-type]


@given(PROGRAMS)
@settings(deadline=None)
def test_canonical_form_is_stable_and_says_the_same_in_any_order(program: Program) -> None:
    once = canonical(program)
    assert canonical(once) == once
    assert show(canonical(Program(program.statements[::-1]))) == show(once)
    assert canonical(parse(show(once))) == canonical(Program(tuple(s._replace(origin=lang.UNKNOWN) for s in once.statements)))  # type: ignore[arg-type]


@given(st.text(max_size=80))
@settings(max_examples=300, deadline=None)
def test_any_text_is_read(source: str) -> None:
    read = parse(source)
    assert isinstance(read, Program) or (read.code in CODES and 0 <= read.offset <= len(source) and read.message)


@given(PROGRAMS, st.data())
@settings(max_examples=200, deadline=None)
def test_mutations_of_good_programs_are_read(program: Program, data: st.DataObject) -> None:
    source = show(program)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(source)))
        drop = data.draw(st.integers(0, 3))
        source = (
            source[:at]
            + data.draw(st.sampled_from(["", ")", "(", '"', ",", "=", "\n", "\\", "#", "\ud800", "é", "7"]))
            + source[at + drop :]
        )
    read = parse(source)
    assert isinstance(read, Program | Refusal)
    if isinstance(read, Program):
        assert parse(show(read)) == read


@given(PROGRAMS, st.data())
@settings(deadline=None)
def test_a_cut_program_is_refused_or_keeps_its_finished_statements(program: Program, data: st.DataObject) -> None:
    source = show(program)
    part = source[: data.draw(st.integers(0, len(source)))]
    strict, lenient = parse(part), parse(part, truncated=True)
    assert isinstance(lenient, Program)
    assert lenient.statements == program.statements[: len(lenient.statements)]
    assert [f.code for f in lenient.faults] == ["E_TRUNCATED"]
    if isinstance(strict, Refusal):
        assert strict.code == "E_TRUNCATED"
    else:
        assert strict.statements == lenient.statements


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("raindrop", "E_TRUNCATED"),  # once enough to drop a document
        ("I would not drop this", "E_SYNTAX"),
        ("keep_doc(); do not drop", "E_SYNTAX"),
        ("drop_doc() now", "E_SYNTAX"),
        ("a() b()", "E_SYNTAX"),
        ("remove_lines(1, 2)", "E_SYNTAX"),
        ("remove_lines(line_start==1, line_end=2)", "E_SYNTAX"),
        ("remove_lines(line_start=-3, line_end=-1)", "E_LEX"),
        ("remove_lines(line_start=[000], line_end=1)", "E_LEX"),
        ("remove_lines(line_start=1234567890, line_end=1)", "E_LEX"),
        ("remove_lines(line_start=١, line_end=1)", "E_LEX"),
        ("remove_lines(line_start=1, line_end=33", "E_TRUNCATED"),
        ("remove_lines(,)", "E_SYNTAX"),
        ("remove_lines", "E_TRUNCATED"),
        ("remove_str(line=1, text='a')", "E_LEX"),
        ('remove_str(line=1, text="a', "E_TRUNCATED"),
        ('remove_str(line=1, text="a\\', "E_TRUNCATED"),
        ('remove_str(line=1, text="\\x41")', "E_STRING_ESCAPE"),
        ('remove_str(line=1, text="\\ud83d")', "E_STRING_ESCAPE"),
        ('remove_str(line=1, text="\ud83d")', "E_LEX"),
        ('remove_str(line=1, text="' + "a" * 8193 + '")', "E_TOO_LONG"),
        ("#" + "a" * 65536, "E_TOO_LONG"),
        ("a()\n" * (MAX_STATEMENTS + 1), "E_TOO_MANY_OPS"),
    ],
)
def test_bad_programs_are_refused_whole(source: str, code: str) -> None:
    read = parse(source)
    assert isinstance(read, Refusal)
    assert read.code == code


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("untouch_doc()", "E_UNKNOWN_FN"),
        ("remove_lines_now(line_start=0, line_end=1)", "E_UNKNOWN_FN"),
        ("remove_lines(line_start=1)", "E_MISSING_ARG"),
        ('normalize(form="nfc", line_end=3)', "E_MISSING_ARG"),
        ("remove_lines(line_start=1, line_start=1, line_end=1)", "E_DUP_ARG"),
        ("remove_lines(line_start=1, line_end=1, all=1)", "E_UNKNOWN_ARG"),
        ('remove_lines(line_start="1", line_end=2)', "E_ARG_TYPE"),
        ("remove_str(line=1, text=2)", "E_ARG_TYPE"),
        ('remove_str(line=1, text="a", nth="1", of=2)', "E_ARG_TYPE"),
        ("keep_all(line=1)", "E_UNKNOWN_ARG"),
    ],
)
def test_a_bad_signature_leaves_out_its_statement_alone(source: str, code: str) -> None:
    read = parse(f"remove_lines(line_start=5, line_end=6)\n{source}\n")
    assert isinstance(read, Program)
    assert read.statements == (remove_lines(5, 6),)
    assert [(f.code, f.statement) for f in read.faults] == [(code, 1)]


@pytest.mark.parametrize(
    ("source", "want"),
    [
        ("", ()),
        (" # nothing\n;;\n", ()),
        ("drop_doc() # do not keep", (drop_doc(),)),
        ("keep_all ( ) ; ", (keep_all(),)),
        ("remove_lines(line_end=002,\n line_start=001,)", (remove_lines(1, 2),)),
        ('remove_str(line=0, text=":) a=b, #c;\nd\\"\\\\\\u00e9\\ud83d\\ude00")', (remove_str(0, ':) a=b, #c;\nd"\\é😀'),)),
        ('remove_str(text="a",line=3,line_end=3)', (remove_str(3, "a"),)),
        (
            "remove_lines(line_start=1,line_end=2)\r\nremove_lines(line_start=4,line_end=4)",
            (remove_lines(1, 2), remove_lines(4, 4)),
        ),
    ],
)
def test_good_programs_are_read(source: str, want: tuple[Statement, ...]) -> None:
    read = parse(source)
    assert isinstance(read, Program)
    assert read.statements == want
    assert not read.faults


def test_canonical_form_is_pinned() -> None:
    here, there = Origin("rule", "a"), Origin("rule", "b")
    program = Program(
        (
            remove_str(9, 'say "hi"\n', line_end=10),
            remove_lines(4, 6, origin=here),
            remove_lines(2, 3, origin=here),
            remove_lines(7, 8, origin=there),
            remove_lines(5, 5, origin=here),
            normalize("nfc"),
        )
    )
    # Ranges of one origin are united; who asked for line 7 stays visible.
    assert show(canonical(program)).split("\n") == [
        'normalize(form="nfc")',
        "remove_lines(line_start=2, line_end=6)",
        "remove_lines(line_start=7, line_end=8)",
        'remove_str(line=9, text="say \\"hi\\"\\n", line_end=10)',
    ]


def test_makers_check_what_they_are_given() -> None:
    for bad in (lambda: remove_lines(-1, 2), lambda: remove_str(0, "\ud800"), lambda: normalize("nfc", line_end=2)):
        with pytest.raises(BadProgram):
            bad()


def test_every_operation_has_a_signature_and_every_code_a_meaning() -> None:
    decisions = {"keep_doc", "drop_doc", "keep_all", "drop_all"}
    assert set(SIGNATURES) == decisions | {"remove_lines", "remove_str", "replace_str", "normalize"}
    assert all(code[:2] in ("E_", "G_") and meaning for code, meaning in CODES.items())
