"""Tallies count lines and characters, and add up."""

from __future__ import annotations

import pytest

from typecase.core.twins.agreement import Tally, tally, total
from typecase.core.twins.marks import Twin


def page(text: str, *gone: int) -> Twin:
    return Twin(text, gone, "f", "g", "s", "p", "l")


def test_one_page_by_hand():
    done = tally(page("menu\n\nten letters\nfoot\nfive5", 0, 3), {0, 1, 4})
    assert done == Tally(hit=1, false=1, miss=1, clean_chars=15, lost_chars=5, pages=1, whole=0)
    assert (done.precision, done.recall, done.f1, done.over_deletion) == (0.5, 0.5, 0.5, 5 / 15)


def test_nothing_removed_is_whole_and_blank_lines_count_for_nothing():
    assert tally(page("a\n\nb"), {1}).untouched == 1.0


def test_a_corpus_without_boilerplate_is_perfect_when_left_alone():
    assert total([tally(page("a"), set()), tally(page("b"), set())]).f1 == 1.0


def test_figures_of_a_sum_are_micro():
    whole = total([tally(page("a\nb", 0), {0}), tally(page("a\nb\nc", 0, 1, 2), set())])
    assert whole.recall == pytest.approx(1 / 4)
    assert whole.figures()["pages"] == 2
