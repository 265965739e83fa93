"""Deletions and their division among chunks: programs that give the clean text, or a reason why there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from typecase.core.program.chunks import cut_chunks, join, rows_of
from typecase.core.program.deletions import MOST_CELLS, NoDeletion, cuts_of, deletions
from typecase.core.program.divide import divide
from typecase.core.program.guards import FREE, STRICT
from typecase.core.program.language import Program, Refusal, drop_doc, keep_all, remove_lines, remove_str, show
from typecase.core.program.parse import parse
from typecase.core.program.run import run

POLICY = replace(STRICT, nth=True, protected=())
ANY = replace(FREE, nth=True)
LINES = st.lists(st.sampled_from(["one fish", "two fish", "red", "", "blue fish here", "x", "one fish", "  deep"]), max_size=14)


def content(text: str) -> list[str]:
    return [line.rstrip() for line in text.split("\n") if line.strip()]


def test_lines_and_strings_that_go() -> None:
    noisy = "Home | About\n\nA text [edit] here.\nMore of it.\n\nShare\nLike\n\nThe end of a longer line, so that little goes."
    clean = "A text here.\nMore of it.\n\nThe end of a longer line, so that little goes."
    program = deletions(noisy, clean)
    assert isinstance(program, Program)
    assert show(program).split("\n") == [
        "remove_lines(line_start=0, line_end=1)",
        'remove_str(line=2, text=" [edit]")',
        "remove_lines(line_start=5, line_end=7)",
    ]
    assert run(program, noisy, POLICY).text == clean


def test_nothing_to_delete_keeps_all() -> None:
    assert deletions("same\n\n", "same") == Program((keep_all(),))


@pytest.mark.parametrize(
    ("noisy", "clean", "reason"),
    [
        ("a line of text\nanother", "a line of text\nnew", "adds"),
        ("first line\nsecond line", "second line\nfirst line", "adds"),
        ("a line of text", "a line of tests", "adds"),
        ("ad ad ad ad ad ad ad ad ad ad ad ad\nshort text of few words", "short text of few words", "guarded"),
    ],
)
def test_what_is_no_deletion_is_refused_with_a_reason(noisy: str, clean: str, reason: str) -> None:
    found = deletions(noisy, clean)
    assert isinstance(found, NoDeletion) and found.reason == reason and found.detail


def test_like_strings_are_told_apart_by_their_number() -> None:
    noisy = "see [1] and [1] and then [1] what there is in the text"
    program = deletions(noisy, "see [1] and and then [1] what there is in the text")
    assert (
        isinstance(program, Program)
        and run(program, noisy, POLICY).text == "see [1] and and then [1] what there is in the text"
    )


@given(LINES, st.data())
@settings(max_examples=300, deadline=None)
def test_any_lines_taken_out_are_found_again(lines: list[str], data: st.DataObject) -> None:
    gone = data.draw(st.sets(st.integers(0, max(0, len(lines) - 1)), max_size=len(lines)))
    noisy = "\n".join(lines)
    clean = "\n".join(line for k, line in enumerate(lines) if k not in gone)
    program = deletions(noisy, clean, policy=ANY)
    if content(clean):
        assert isinstance(program, Program), program
        assert content(run(program, noisy, ANY).text) == content(clean)
        assert parse(show(program)) == program


@given(st.text("ab c", max_size=24), st.data())
@settings(max_examples=300, deadline=None)
def test_cuts_of_a_line_are_its_difference(line: str, data: st.DataObject) -> None:
    a = data.draw(st.integers(0, len(line)))
    b = data.draw(st.integers(a, len(line)))
    clean = line[:a] + line[b:]
    cuts = cuts_of(line, clean)
    if cuts is None:
        assert not clean or len(clean) < 0.25 * len(line)
    else:
        kept, at = [], 0
        for start, stop in cuts:
            kept.append(line[at:start])
            at = stop
        assert "".join([*kept, line[at:]]) == clean


def test_many_like_lines_cost_no_square() -> None:
    noisy = "\n".join(["same line"] * 3000 + ["noise"] * 100 + ["same line"] * 3000)
    clean = "\n".join(["same line"] * 6000)
    assert MOST_CELLS < 6000 * 6100
    program = deletions(noisy, clean)
    assert isinstance(program, Program) and content(run(program, noisy, POLICY).text) == content(clean)


@given(LINES, st.integers(12, 40), st.integers(7, 20), st.booleans(), st.data())
@settings(max_examples=300, deadline=None)
def test_chunks_together_do_what_the_document_does(
    lines: list[str], budget: int, longest: int, local: bool, data: st.DataObject
) -> None:
    text = "\n".join(lines)
    numbers = range(len(lines))
    statements = []
    for first in data.draw(st.lists(st.sampled_from(numbers), max_size=3)) if lines else []:
        statements.append(remove_lines(first, min(len(lines) - 1, first + data.draw(st.integers(0, 2)))))
    for line in data.draw(st.lists(st.sampled_from(numbers), max_size=2, unique=True)) if lines else []:
        if " " in lines[line].strip():
            words = lines[line].split(" ")
            part = data.draw(st.sampled_from([w for w in words if w]))
            if lines[line].count(part) == 1:
                statements.append(remove_str(line, part))
    program = Program(tuple(statements)) if statements else Program((keep_all(),))
    measure = lambda texts: [len(t) for t in texts]  # noqa: E731
    rows = rows_of(text, measure, longest)
    chunks = cut_chunks(text, rows, measure, budget)
    parts = divide(program, rows, chunks, text, local=local)
    assert len(parts) == len(chunks)
    if any(isinstance(part, Refusal) for part in parts):
        assert any(s.name == "remove_str" for s in statements)
        return
    if run(program, text, ANY).status == "guarded":
        return  # nothing may empty a document but drop_doc()
    joined = join(parts, chunks, rows, text, local=local, policy=ANY).program
    one, other = run(program, text, ANY), run(joined if joined.statements else Program((keep_all(),)), text, ANY)
    assert content(other.text) == content(one.text)


def test_what_is_not_a_removal_is_not_divided() -> None:
    rows = rows_of("a\nb", lambda texts: [len(t) for t in texts], None)
    chunks = cut_chunks("a\nb", rows, lambda texts: [len(t) for t in texts], 100)
    (part,) = divide(Program((drop_doc(),)), rows, chunks, "a\nb")
    assert isinstance(part, Refusal) and part.code == "E_UNKNOWN_FN"
