"""Marks tell content from boilerplate by place, not by what a line says."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from typecase.core.twins.marks import CUT, DONE, KEEP, KEPT, Twin, gone_lines, ranges_of


def test_a_repeated_line_is_told_by_its_place():
    plain = "Intro\nMenu\n\nIntro\nA text.\nIntro"
    marked = f"Intro\nMenu\n{KEEP}\nIntro\nA text.\n{KEPT}Intro"
    assert gone_lines(plain, marked) == (0, 1, 5)


def test_what_is_cut_inside_the_content_goes():
    assert gone_lines("a\nb\nc", f"{KEEP}a\n{CUT}b{DONE}\nc{KEPT}") == (1,)


def test_a_line_with_some_content_stays():
    assert gone_lines("Title¶\nx", f"{KEEP}Title{CUT}¶{DONE}\nx{KEPT}") == ()


def test_marks_that_change_the_text_give_nothing():
    assert gone_lines("a b", f"{KEEP}a\nb{KEPT}") is None


def test_an_empty_bullet_goes_with_the_line_below():
    assert gone_lines("•\nmenu\ntext\n•\nmore", f"•\nmenu\n{KEEP}text\n•\nmore{KEPT}") == (0, 1)


@given(st.lists(st.tuples(st.sampled_from(["a", "b b", "  c", "", "a"]), st.booleans()), max_size=20))
def test_every_labelling_comes_back(lines: list[tuple[str, bool]]):
    plain = "\n".join(line for line, _ in lines)
    marked = "\n".join(f"{KEEP}{line}{KEPT}" if kept else line for line, kept in lines)
    wished = tuple(i for i, (line, kept) in enumerate(lines) if line.strip() and not kept)
    assert gone_lines(plain, marked) == wished


@given(st.sets(st.integers(0, 40)))
def test_ranges_hold_the_same_lines(lines: set[int]):
    ranges = ranges_of(sorted(lines))
    assert {i for first, last in ranges for i in range(first, last + 1)} == lines
    assert all(b[0] > a[1] + 1 for a, b in pairwise(ranges))


def test_clean_is_the_text_without_its_boilerplate():
    assert Twin("menu\n\ntext\nfoot", (0, 3), "f", "g", "s", "p", "l").clean == "text"
