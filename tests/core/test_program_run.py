"""Running programs: the invariants as properties, then the cases that published executors get wrong."""

from __future__ import annotations

import random
from itertools import pairwise

import hypothesis.strategies as st
import pytest
from hypothesis import assume, given, settings

from typecase.core.lines import line_table
from typecase.core.program.forms import FORMS, applied
from typecase.core.program.guards import FREE, STRICT, GuardPolicy
from typecase.core.program.language import (
    Origin,
    Program,
    Refusal,
    Statement,
    bind,
    canonical,
    drop_doc,
    keep_all,
    keep_doc,
    normalize,
    remove_lines,
    remove_str,
    replace_str,
    show,
)
from typecase.core.program.parse import parse
from typecase.core.program.run import Outcome, restore, run
from typecase.core.words import is_grapheme_boundary, words_of
from typecase.errors import BadProgram

PIECES = [
    "alpha", "beta", "cat", "concatenate", "don't", "well-known", " ", " ", "  ", "\n", "\n", "\r\n", "\r", "\t", "-", "'",
    "=", ")", ",", "x", "12", "中文", "字", "ไทย", "é", "e\u0301", "\u0301", "\u200b", "\u00ad", "\u200d", "👍🏽", "🇩🇪",
    "한국", "ﬁn", "â€™", "Ã©", "&amp;", "&eacute;", "\xa0", "\x00", "N\x08N", "| a | b |", "> quoted", "# Title", "```",
    "\ufeff", "—",
]  # fmt: skip
TEXTS = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=30).map("".join),
    st.text(max_size=40),
)
OPEN = GuardPolicy(operation_percent=100, kept_percent=0, short="keep", min_chars=1, error_percent=100, protected=(), nth=True)


@st.composite
def programs(draw: st.DrawFn, text: str, *, deletions_only: bool = False) -> Program:
    """Programs that mostly fit `text`: their strings are cut out of it."""
    num_lines = len(line_table(text)[0])
    made: list[Statement] = []
    for _ in range(draw(st.integers(1, 6))):
        first = draw(st.integers(0, num_lines))
        last = min(first + draw(st.integers(0, 2)), num_lines + 1)
        a = draw(st.integers(0, len(text)))
        some = text[a : a + draw(st.integers(0, 6))].encode("utf-8", "ignore").decode()
        kinds = (
            ["lines", "cut", "nth"] if deletions_only else ["lines", "cut", "nth", "swap", "part", "form", "mend", "mend_here"]
        )
        kind = draw(st.sampled_from(kinds))
        if kind == "lines":
            made.append(remove_lines(first, last))
        elif kind == "cut":
            made.append(remove_str(first, some, line_end=last))
        elif kind == "nth":
            made.append(remove_str(first, some, line_end=last, nth=1, of=draw(st.integers(1, 2))))
        elif kind == "swap":
            made.append(replace_str(first, some, draw(st.sampled_from(["", "x", "alpha", "’", "é", " "])), line_end=last))
        elif kind == "part":
            made.append(replace_str(first, some, some[: len(some) // 2], line_end=last))
        elif kind == "form":
            form = draw(st.sampled_from(sorted(FORMS)))
            made.append(replace_str(first, some, applied(form, some), line_end=last))
        elif kind == "mend":
            made.append(normalize(draw(st.sampled_from(sorted(FORMS)))))
        else:
            made.append(normalize(draw(st.sampled_from(sorted(FORMS))), line=first, line_end=last))
    return Program(tuple(made))


@st.composite
def cases(draw: st.DrawFn, *, deletions_only: bool = False) -> tuple[Program, str]:
    text = draw(TEXTS)
    return draw(programs(text, deletions_only=deletions_only)), text


def is_subsequence(part: str, whole: str) -> bool:
    rest = iter(whole)
    return all(char in rest for char in part)


# I1
@given(cases(deletions_only=True), st.sampled_from([OPEN, FREE, STRICT]))
@settings(max_examples=200, deadline=None)
def test_deletions_leave_a_subsequence(case: tuple[Program, str], policy: GuardPolicy) -> None:
    program, text = case
    assert is_subsequence(run(program, text, policy).text, text)


# I2
@given(cases())
@settings(max_examples=200, deadline=None)
def test_no_word_is_invented(case: tuple[Program, str]) -> None:
    program, text = case
    outcome = run(program, text, OPEN)
    asked = [s.text for s in program.statements if s.name == "normalize"]
    known = set(words_of(text))
    composed = text
    for form in FORMS:
        known |= set(words_of(applied(form, text)))
        if form in asked:
            composed = applied(form, composed)
            known |= set(words_of(composed))
    folded = {word.casefold() for word in known}
    assert {word.casefold() for word in words_of(outcome.text)} <= folded


# I3
@given(cases(), st.sampled_from([OPEN, STRICT]))
@settings(max_examples=200, deadline=None)
def test_kept_and_removed_tile_the_text_and_restore_it(case: tuple[Program, str], policy: GuardPolicy) -> None:
    program, text = case
    outcome = run(program, text, policy)
    spans = sorted([*outcome.kept, *outcome.removed])
    assert "".join(text[s.start : s.stop] for s in spans) == text
    assert all(a.stop == b.start for a, b in pairwise(spans))
    assert restore(outcome) == text
    assert "".join(_rebuilt(outcome, text)) == outcome.text


def _rebuilt(outcome: Outcome, text: str) -> list[str]:
    parts, at = [], 0
    for change in outcome.changes:
        assert text[change.start : change.stop] == change.removed
        parts += [text[at : change.start], change.target]
        at = change.stop
    return [*parts, text[at:]]


# I4
@given(cases(), st.integers(0, 999), st.sampled_from([OPEN, STRICT]))
@settings(max_examples=200, deadline=None)
def test_the_order_of_statements_means_nothing(case: tuple[Program, str], seed: int, policy: GuardPolicy) -> None:
    program, text = case
    shuffled = list(program.statements)
    random.Random(seed).shuffle(shuffled)
    here, there = run(program, text, policy), run(Program(tuple(shuffled)), text, policy)
    assert (here.text, here.status) == (there.text, there.status)
    assert sorted(v.code for v in here.verdicts) == sorted(v.code for v in there.verdicts)


# I5
@given(st.text())
@settings(deadline=None)
def test_keeping_and_refusing_return_the_very_text(text: str) -> None:
    for program in (Program((keep_all(),)), Program((keep_doc(),)), Program(), parse("garbage("), parse("remove_str(")):
        assert run(program, text).text is text


# I6
@given(st.text(max_size=60), TEXTS, st.booleans())
@settings(max_examples=200, deadline=None)
def test_any_source_on_any_text_gives_an_outcome(source: str, text: str, truncated: bool) -> None:
    assert run(parse(source, truncated=truncated), text).status in ("kept", "edited", "dropped", "guarded", "refused")


@given(cases())
@settings(deadline=None)
def test_lone_surrogates_do_no_harm(case: tuple[Program, str]) -> None:
    program, text = case
    broken = text[: len(text) // 2] + "\ud800" + text[len(text) // 2 :]
    assert restore(run(program, broken, OPEN)) == broken


# I8
@given(cases())
@settings(deadline=None)
def test_a_program_is_bound_to_its_text(case: tuple[Program, str]) -> None:
    program, text = case
    bound = bind(program, text)
    assert run(bound, text, OPEN) == run(program, text, OPEN)
    outcome = run(bound, text + "!", OPEN)
    assert (outcome.status, outcome.reason, outcome.text) == ("refused", "E_DOC_MISMATCH", text + "!")


# I9
@given(cases(), st.sampled_from([OPEN, FREE, STRICT]))
@settings(max_examples=200, deadline=None)
def test_no_document_is_emptied_by_its_lines(case: tuple[Program, str], policy: GuardPolicy) -> None:
    program, text = case
    assume(text.strip())
    assert run(program, text, policy).text.strip()


# edges
@given(cases(deletions_only=True))
@settings(max_examples=200, deadline=None)
def test_no_cluster_is_cut(case: tuple[Program, str]) -> None:
    program, text = case
    outcome = run(program, text, OPEN)
    line_edges = {e for spans in line_table(text) for e in spans}
    for change in outcome.changes:
        for edge in (change.start, change.stop):
            assert edge in line_edges or is_grapheme_boundary(text, edge)


@given(TEXTS, st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=5))
@settings(deadline=None)
def test_removing_lines_is_joining_the_others(text: str, ranges: list[tuple[int, int]]) -> None:
    text = text.replace("\r", "").replace("\u0301", "")
    lines = text.split("\n")
    ranges = [(min(a, b), max(a, b)) for a, b in ranges if max(a, b) < len(lines)]
    assume(ranges)
    gone = {i for a, b in ranges for i in range(a, b + 1)}
    want = "\n".join(line for i, line in enumerate(lines) if i not in gone)
    got = run(Program(tuple(remove_lines(a, b) for a, b in ranges)), text, OPEN)
    assert got.text == (want if want.strip() or not text.strip() else text)


@given(cases())
@settings(deadline=None)
def test_the_canonical_program_does_the_same(case: tuple[Program, str]) -> None:
    program, text = case
    num_lines = len(line_table(text)[0])
    good = tuple(s for s in program.statements if s.line_start <= s.line_end < num_lines)
    assume(good)
    here, there = run(Program(good), text, OPEN), run(canonical(Program(good)), text, OPEN)
    assert here.text == there.text
    stored = parse(show(canonical(Program(good))))
    assert run(stored, text, OPEN).text == here.text


PAGE = """Home | About
Read the (link) at http://x.com?p=2, now
a=b and a:) here
concatenate the cat
the end of it all"""
P = PAGE.split("\n")


@pytest.mark.parametrize(
    ("statement", "line", "want"),
    [
        # Strings that a parser of commas, equals signs and brackets mangles.
        (remove_str(1, " (link)"), 1, "Read the at http://x.com?p=2, now"),
        (remove_str(1, " http://x.com?p=2, now"), 1, "Read the (link) at"),
        (remove_str(2, "a=b and "), 2, "a:) here"),
        (remove_str(2, ":)"), 2, "a=b and a here"),
        (remove_str(3, " cat"), 3, None),  # once in "concatenate"? no: " cat" is unique, and a whole word
        (remove_str(1, " at http"), 1, "Read the (link)://x.com?p=2, now"),
    ],
)
def test_strings_hold_anything(statement: Statement, line: int, want: str | None) -> None:
    outcome = run(parse(show(Program((statement,)))), PAGE, GuardPolicy(protected=()))
    assert outcome.status == "edited"
    expected = list(P)
    expected[line] = want if want is not None else "concatenate the"
    assert outcome.text.split("\n") == expected


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        (remove_str(3, "cat"), "E_AMBIGUOUS"),  # "cat" is in "concatenate" too
        (remove_str(3, "concat"), "E_INTRAWORD"),
        (remove_str(3, " "), "E_AMBIGUOUS"),
        (remove_str(3, "dog"), "E_NO_MATCH"),
        (remove_str(3, ""), "E_EMPTY_STRING"),
        (remove_str(0, " | "), "E_INTRAWORD"),  # would glue Home and About
        (remove_str(9, "x"), "E_LINE_RANGE"),
        (remove_lines(3, 1), "E_RANGE_ORDER"),
        (remove_lines(3, 5), "E_LINE_RANGE"),  # never clipped
        (remove_lines(0, 50_000_000), "E_LINE_RANGE"),
        (remove_str(2, ":"), "G_OP_TOO_SMALL"),
        (remove_lines(0, 3), "G_OP_TOO_LARGE"),
        (replace_str(3, "cat", "dog", nth=2, of=2), "E_UNKNOWN_ARG"),
        (replace_str(4, "the end", "THE END"), "E_INVENTED"),
        (replace_str(4, "the end", "th end"), "E_INVENTED"),
        (normalize("upper"), "E_UNKNOWN_FORM"),
        (normalize("nfc", line=7), "E_LINE_RANGE"),
    ],
)
def test_bad_statements_are_named_and_change_nothing(statement: Statement, code: str) -> None:
    outcome = run(Program((statement,)), PAGE)
    assert [v.code for v in outcome.verdicts] == [code]
    assert outcome.text is PAGE


def test_too_many_errors_refuse_the_program() -> None:
    good, bad = remove_lines(0, 0), remove_str(3, "dog")
    policy = GuardPolicy(protected=())
    assert run(Program((good, bad)), PAGE, policy).status == "edited"
    outcome = run(Program((good, bad, remove_lines(9, 9))), PAGE, policy)
    assert (outcome.status, outcome.reason, outcome.num_errors) == ("refused", "E_ERRORS", 2)
    assert [v.code for v in outcome.verdicts] == ["applied", "E_NO_MATCH", "E_LINE_RANGE"]


def test_decisions_stand_alone() -> None:
    assert run(Program((drop_doc(origin=Origin("rule", "doc.toc")),)), PAGE).reason == "doc.toc"
    outcome = run(Program((drop_doc(),)), PAGE)
    assert (outcome.status, outcome.text, restore(outcome)) == ("dropped", "", PAGE)
    for other in (keep_all(), remove_lines(0, 0)):
        outcome = run(Program((drop_doc(), other)), PAGE)
        assert (outcome.status, outcome.reason, outcome.text) == ("refused", "E_CONTRADICTION", PAGE)
    assert run(parse("drop_doc()\nfoo(x=1)"), PAGE).reason == "E_CONTRADICTION"


def test_an_empty_program_is_not_keep_all() -> None:
    assert (run(Program(), PAGE).status, run(Program(), PAGE).reason) == ("refused", "E_EMPTY")
    assert run(Program((keep_all(),)), PAGE).status == "kept"
    assert isinstance(parse("("), Refusal)


@pytest.mark.parametrize("text", ["", " ", "\n\n", "\u200b"])
def test_blank_documents_are_no_special_case(text: str) -> None:
    assert run(Program((keep_all(),)), text).text == text
    assert run(Program((remove_lines(0, 0),)), text).status in ("kept", "edited", "guarded")


def test_unspaced_scripts_are_not_short() -> None:
    text = "导航\n" + "排版工人从字盘里挑出铅字检查替换排好印出校样。" * 3
    assert run(Program((remove_lines(0, 0),)), text).text == text[3:]
    assert run(Program((keep_all(),)), "排版工人从字盘里挑出铅字").status == "kept"


def test_deletions_that_glue_only_together_are_both_refused() -> None:
    text = "foo ,bar and more words follow here"
    one, other = remove_str(0, " ", nth=1, of=6), remove_str(0, ",")
    policy = GuardPolicy(min_chars=1, nth=True, protected=())
    assert run(Program((one,)), text, policy).text == "foo,bar and more words follow here"
    assert run(Program((other,)), text, policy).text == "foo bar and more words follow here"
    assert [v.code for v in run(Program((one, other)), text, policy).verdicts] == ["E_INTRAWORD"] * 2


def test_a_string_that_is_a_whole_line_takes_the_terminator() -> None:
    assert run(Program((remove_str(1, P[1]),)), PAGE, GuardPolicy(protected=())).text == "\n".join(P[:1] + P[2:])


def test_the_last_lines_take_the_terminator_before_them() -> None:
    text = "a few words stand here\r\nand here\r\nshare\r\nfooter"
    for program in (Program((remove_lines(2, 3),)), Program((remove_lines(3, 3), remove_lines(2, 2)))):
        assert run(program, text, OPEN).text == "a few words stand here\r\nand here"


def test_other_separators_are_no_line_terminators() -> None:
    text = "one two three four\u2028five six\x0bseven\x85eight nine ten eleven twelve\nfooter"
    assert run(Program((remove_lines(1, 1),)), text, OPEN).text == text[: -len("\nfooter")]


def test_a_replacement_gives_way_to_nobody_and_nobody_to_it() -> None:
    text = "It is a  very good day for all of us here"
    swap, cut = replace_str(0, "a  very", "a very"), remove_str(0, " very good")
    outcome = run(Program((swap, cut)), text, OPEN)
    assert [v.code for v in outcome.verdicts] == ["E_CONFLICT", "applied"]
    twice = run(Program((swap, swap)), text, OPEN)
    assert [v.code for v in twice.verdicts] == ["applied", "applied"]
    assert twice.text == "It is a very good day for all of us here"
    assert twice.changes[0].statements == (0, 1)


def test_normalisation_gives_way_to_deletion() -> None:
    text = "donâ€™t stop\nCopyright â€œusâ€\x9d\nfinÃ© words remain here for you to read"
    outcome = run(Program((normalize("mojibake"), remove_lines(1, 1))), text, OPEN)
    assert outcome.text == "don’t stop\nfiné words remain here for you to read"
    assert [v.code for v in outcome.verdicts] == ["applied", "applied"]
    assert run(Program((normalize("mojibake", line=1),)), "plain\nlines", OPEN).verdicts[0].code == "void"


def test_guards() -> None:
    text = "\n".join(
        ["# A title that stands alone", "", "keep these words and a few more of them", "", "    code()", "", "menu", "bye bye"]
    )
    low, high = Origin("model"), Origin("rule", "r", "1", 1.0)
    for line in (0, 4):
        assert run(Program((remove_lines(line, line, origin=low),)), text).verdicts[0].code == "E_PROTECTED"
        assert run(Program((remove_lines(line, line, origin=high),)), text).status == "edited"
    some = Program((remove_lines(2, 2), remove_lines(6, 7)))
    assert run(some, text, GuardPolicy(kept_percent=60, short="keep", operation_percent=90)).reason == "G_DOC_RATIO"
    outcome = run(Program((remove_lines(6, 7),)), text, GuardPolicy(short_units=16))
    assert (outcome.status, outcome.reason, outcome.text) == ("guarded", "G_SHORT_RESULT", text)
    outcome = run(Program((remove_lines(6, 7),)), text, GuardPolicy(short_units=16, short="drop"))
    assert (outcome.status, outcome.reason) == ("dropped", "short")
    assert (
        run(Program((replace_str(2, "a few", "few"),)), text, GuardPolicy(replacements=False)).verdicts[0].code
        == "E_UNKNOWN_FN"
    )


def test_a_policy_is_checked_at_birth() -> None:
    with pytest.raises(BadProgram):
        GuardPolicy(kept_percent=101)
    with pytest.raises(BadProgram):
        GuardPolicy(short="maybe")  # type: ignore[arg-type]
    with pytest.raises(BadProgram):
        GuardPolicy(protected=("x",))


def test_huge_programs_on_long_texts_end() -> None:
    text = "\n".join(f"line {i} with some words" for i in range(20_000))
    ranges = Program(tuple(remove_lines(i, 19_000 + i % 900) for i in range(2000)))
    assert run(ranges, text, OPEN).status == "edited"
    glue = Program(tuple(remove_str(i, f" {i} ") for i in range(2000)))
    outcome = run(glue, text, OPEN)
    assert {v.code for v in outcome.verdicts} == {"E_INTRAWORD"}
