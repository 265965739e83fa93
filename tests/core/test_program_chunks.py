"""Chunks: rows tile the text, chunks tile the rows, and joined programs do what the chunks' programs said, whatever the cut."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from typecase.core.program.chunks import Chunk, Row, cut_chunks, join, numbered, rows_of
from typecase.core.program.guards import FREE
from typecase.core.program.language import (
    Program,
    Refusal,
    drop_all,
    drop_doc,
    keep_all,
    normalize,
    remove_lines,
    remove_str,
    show,
)
from typecase.core.program.parse import parse
from typecase.core.program.pieces import cut_line
from typecase.core.program.run import run
from typecase.core.words import is_grapheme_boundary

POLICY = FREE.__class__(**{name: getattr(FREE, name) for name in FREE.__dataclass_fields__} | {"nth": True})


def chars(texts: Sequence[str]) -> list[int]:
    return [len(text) for text in texts]


def words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


PAGE = "Home | News\nA long line of two sentences. Here is the second one of it. And a third.\nlast\n"
texts = st.text(alphabet="ab 中。.é\u0301\n\r👍", max_size=200) | st.text(max_size=120)


@settings(max_examples=200, deadline=None)
@given(texts, st.integers(1, 30))
def test_rows_tile_the_lines(text: str, longest: int) -> None:
    rows = rows_of(text, chars, longest)
    whole = rows_of(text, chars, None)
    for number, line in enumerate(whole):
        own = [row for row in rows if row.line == number]
        assert own[0].start == line.start and own[-1].stop == line.stop
        assert all(a.stop == b.start for a, b in pairwise(own))
        assert own == [line] or not any(row.whole for row in own)
        for row in own:
            inner = range(row.start + 1, row.stop)
            cluster = not any(is_grapheme_boundary(text, at) for at in inner)
            assert row.stop - row.start <= longest or cluster
            assert row.start == line.start or is_grapheme_boundary(text, row.start)


def test_long_lines_are_cut_at_sentences_then_blanks() -> None:
    rows = rows_of(PAGE, chars, 40)
    assert [PAGE[r.start : r.stop] for r in rows if r.line == 1] == [
        "A long line of two sentences. ",
        "Here is the second one of it. ",
        "And a third.",
    ]
    assert [PAGE[a:b] for a, b in cut_line(PAGE, 12, 41, 12)] == ["A long line ", "of two ", "sentences."]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 20), min_size=1, max_size=40), st.integers(1, 60), st.integers(0, 5))
def test_chunks_tile_the_rows(lengths: list[int], budget: int, overlap: int) -> None:
    text = "\n".join("x" * n for n in lengths)
    rows = rows_of(text, chars)
    chunks = cut_chunks(text, rows, chars, budget, overlap=overlap)
    owned = [n for c in chunks for n in range(c.own_first, c.own_last)]
    assert owned == list(range(len(rows)))
    for c in chunks:
        assert c.first <= c.own_first <= c.own_last <= c.last
        assert c.size <= budget or c.last - c.first == 1
        assert c.size == sum(len(line) for line in numbered(text, rows, c.first, c.last).split("\n"))


def test_published_numbering_and_packing() -> None:
    text = "\n".join(f"line {n}" for n in range(1200))
    rows = rows_of(text, words, None)
    chunks = cut_chunks(text, rows, words, 1500)
    assert [(c.first, c.last) for c in chunks] == [(0, 750), (750, 1200)]
    shown = numbered(text, rows, chunks[1].first, chunks[1].last)
    assert shown.startswith("[750]line 750\n[751]line 751") and shown.endswith("[1199]line 1199")
    assert numbered(text, rows, 750, 752, offset=750, width=2) == "[00]line 750\n[01]line 751"
    long = "short\n" + "w " * 3000 + "\nshort"
    chunks = cut_chunks(long, rows_of(long, words, None), words, 1500)
    assert [(c.first, c.last) for c in chunks] == [(0, 1), (1, 2), (2, 3)] and chunks[1].size > 1500


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_what_is_removed_does_not_depend_on_the_cut(data: st.DataObject) -> None:
    text = data.draw(st.text(alphabet="ab .\n", min_size=1, max_size=150))
    rows = rows_of(text, chars, data.draw(st.integers(4, 40)))
    gone = data.draw(st.sets(st.integers(0, len(rows) - 1)))
    results = set()
    for budget, overlap, local in ((10**6, 0, False), (60, 0, True), (45, 2, True), (30, 1, False)):
        chunks = cut_chunks(text, rows, chars, budget, overlap=overlap)
        programs = []
        for c in chunks:
            offset = c.first if local else 0
            mine = [remove_lines(n - offset, n - offset) for n in sorted(gone) if c.first <= n < c.last]
            programs.append(Program(tuple(mine) or (keep_all(),)))
        joined = join(programs, chunks, rows, text, local=local, policy=POLICY)
        assert not joined.rejected and not any(joined.refusals)
        program = joined.program
        assert parse(show(program)) == program or not program.statements
        results.add(show(program))
    assert len(results) == 1
    outcome = run(program, text, POLICY)
    expected = [n for n in range(len(rows)) if n not in gone]
    if all(v.code == "applied" for v in outcome.verdicts) and outcome.status == "edited":
        kept_lines: dict[int, str] = {}
        for n in expected:
            kept_lines[rows[n].line] = kept_lines.get(rows[n].line, "") + text[rows[n].start : rows[n].stop]
        assert outcome.text == "\n".join(kept_lines.values())


def test_pieces_become_strings_named_by_their_place() -> None:
    text = "menu\nSame here. Same here. Other one.\nend"
    rows = rows_of(text, chars, 12)
    chunks = cut_chunks(text, rows, chars, 10**6)
    assert rows[1:4] == (Row(1, 5, 16, False), Row(1, 16, 27, False), Row(1, 27, 37, False))
    joined = join([Program((remove_lines(2, 2),))], chunks, rows, text, policy=POLICY)
    assert show(joined.program) == 'remove_str(line=1, text="Same here. ", nth=2, of=2)'
    assert run(joined.program, text, POLICY).text == "menu\nSame here. Other one.\nend"
    joined = join([Program((remove_lines(1, 3),))], chunks, rows, text, policy=POLICY)
    assert show(joined.program) == "remove_lines(line_start=1, line_end=1)"
    joined = join([Program((remove_str(3, "Other"),))], chunks, rows, text, policy=POLICY)
    assert show(joined.program) == 'remove_str(line=1, text="Other")'
    joined = join([Program((remove_str(2, "Same"),))], chunks, rows, text, policy=POLICY)
    assert show(joined.program) == 'remove_str(line=1, text="Same", nth=2, of=2)'


TWO = (Chunk(0, 3, 0, 2, 0), Chunk(1, 5, 2, 5, 0))
LINES = "a a\nb\nc\nd\ne"


def joined_of(*programs: Program | Refusal, local: bool = False):
    return join(programs, TWO, rows_of(LINES, chars), LINES, local=local)


def test_only_owners_edit() -> None:
    joined = joined_of(Program((remove_lines(1, 2),)), Program((remove_lines(1, 2),)))
    assert show(joined.program) == "remove_lines(line_start=1, line_end=2)" and joined.foreign == 2
    joined = joined_of(Program((remove_str(2, "c"),)), Program((keep_all(),)))
    assert not joined.program.statements and joined.foreign == 1
    local = joined_of(Program((keep_all(),)), Program((remove_lines(1, 2),)), local=True)
    assert show(local.program) == "remove_lines(line_start=2, line_end=3)"


def test_decisions_of_a_chunk() -> None:
    joined = joined_of(Program((drop_all(),)), Program((keep_all(),)))
    assert show(joined.program) == "remove_lines(line_start=0, line_end=1)"
    for program in (Program((drop_doc(),)), Program((drop_all(), keep_all())), Program((drop_all(), remove_lines(0, 0)))):
        joined = joined_of(program, Program((keep_all(),)))
        assert [r.code for r in joined.refusals[0]] == ["E_CONTRADICTION"] and not joined.program.statements
    whole = run(Program((drop_all(),)), LINES)
    assert (whole.status, whole.reason, whole.text) == ("guarded", "G_DOC_RATIO", LINES)


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        (remove_lines(0, 3), "E_LINE_RANGE"),
        (remove_lines(2, 1), "E_RANGE_ORDER"),
        (remove_str(0, "z"), "E_NO_MATCH"),
        (remove_str(0, "a"), "E_AMBIGUOUS"),
        (remove_str(0, "a", nth=3, of=3), "E_AMBIGUOUS"),
        (remove_str(0, ""), "E_EMPTY_STRING"),
    ],
)
def test_statements_at_fault_are_counted_and_many_reject_the_chunk(statement, code) -> None:
    joined = joined_of(Program((statement, remove_lines(1, 1))), Program((remove_lines(4, 4),)))
    assert [r.code for r in joined.refusals[0]] == [code] and joined.rejected == ()
    assert show(joined.program) == "remove_lines(line_start=1, line_end=1)\nremove_lines(line_start=4, line_end=4)"
    joined = joined_of(Program((statement, statement, remove_lines(1, 1))), Program((remove_lines(4, 4),)))
    assert joined.rejected == (0,) and show(joined.program) == "remove_lines(line_start=4, line_end=4)"


def test_a_refused_chunk_edits_nothing_and_the_others_do() -> None:
    truncated = Refusal("E_TRUNCATED", 0, 0, "the answer was cut off")
    joined = joined_of(truncated, Program((remove_lines(4, 4),)))
    assert joined.rejected == (0,) and joined.refusals[0] == (truncated,)
    assert show(joined.program) == "remove_lines(line_start=4, line_end=4)"
    with pytest.raises(ValueError, match="2 chunks need as many programs, got 1"):
        joined_of(truncated)


def test_forms_are_of_whole_lines() -> None:
    text = "ﬁrst ﬁeld. second ﬁeld.\nmore ﬁelds"
    rows = rows_of(text, chars, 14)
    chunks = cut_chunks(text, rows, chars, 10**6)
    joined = join([Program((normalize("ligatures", line=0),))], chunks, rows, text)
    assert [r.code for r in joined.refusals[0]] == ["E_LINE_RANGE"]
    joined = join([Program((normalize("ligatures"),))], chunks, rows, text)
    assert show(joined.program) == 'normalize(form="ligatures", line=0, line_end=1)'
    last = len(rows) - 1
    joined = join([Program((normalize("ligatures", line=last),))], chunks, rows, text)
    assert show(joined.program) == 'normalize(form="ligatures", line=1)'
