"""Measures of lines: by hand on a small page, and the same whatever they are looked at with."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from typecase.core.lines import line_table
from typecase.core.tagger import context, shape
from typecase.core.tagger.look import NAMES, look_at, see

PAGE = """Home
  • About us

The title of this page
It is a rather long sentence that says something about the page, as a text always does.

About us
© 2020 Somebody
"""

texts = st.lists(st.text(st.sampled_from(list("abAB 01.,•|\n\n\té中©-(){}\r")), max_size=60), min_size=1, max_size=5)


def measures(pages: list[str]) -> np.ndarray:
    look = look_at(pages)
    return see(look, np.zeros(len(look.starts), np.float32))


def column(name: str) -> list[float]:
    return measures([PAGE])[:, NAMES.index(name)].tolist()


def test_written_lines_and_their_numbers():
    look = look_at([PAGE, "", "x"])
    assert look.number.tolist() == [0, 1, 3, 4, 6, 7, 0]
    assert look.pages.tolist() == [0, 6, 6, 7]
    assert look.num_lines.tolist() == [9, 1, 1]


@given(texts)
@settings(max_examples=60, deadline=None)
def test_lines_are_those_of_the_line_table(pages: list[str]):
    look = look_at(pages)
    lines = [[page[a:b] for a, b in zip(*line_table(page))] for page in pages]
    wished = [(i, line.strip(" \t\r")) for each in lines for i, line in enumerate(each) if line.strip(" \t\r")]
    found = [
        (n, look.values[a:b].tobytes().decode())
        for n, a, b in zip(look.number.tolist(), look.starts.tolist(), look.stops.tolist())
    ]
    assert found == wished
    assert look.num_lines.tolist() == list(map(len, lines))


@given(texts)
@settings(max_examples=60, deadline=None)
def test_a_page_is_measured_alike_in_any_company(pages: list[str]):
    together = measures(pages)
    alone = [measures([page]) for page in pages]
    assert together.tobytes() == np.concatenate(alone).tobytes()
    assert np.isfinite(together).all()


def test_shapes_by_hand():
    assert column("bullet") == [0, 1, 0, 0, 0, 0]
    assert column("indent") == [0, 2, 0, 0, 0, 0]
    assert column("ends_sentence") == [0, 0, 0, 1, 0, 0]
    assert column("copyright") == [0, 0, 0, 0, 0, 1]
    assert column("year") == [0, 0, 0, 0, 0, 1]
    assert column("gap_before") == [0, 0, 1, 0, 1, 0]
    assert column("gap_after") == [0, 1, 0, 1, 0, 1]


def test_places_by_hand():
    assert column("prose_before") == [0, 0, 0, 0, *[np.float32(np.log(2))] * 2]
    assert column("times") == [0, np.float32(np.log(2)), 0, 0, np.float32(np.log(2)), 0]
    assert column("to_next_twin")[1] == np.float32(np.log1p(3))
    assert column("run_from_top")[:3] == [0, 0, 0]


def test_a_heading_and_its_entry_in_a_table_of_contents_are_the_same():
    look = look_at(["  • 3.1 The parts\nThe parts ¶\n1.\n2."])
    assert look.hashes[0] == look.hashes[1] != 0
    assert look.hashes[2:].tolist() == [0, 0]


def test_names_are_as_many_as_columns():
    assert len(set(NAMES)) == len(NAMES) == measures(["a"]).shape[1] == len(shape.NAMES) + 1 + len(context.NAMES)
    assert len(shape.STOP_KEYS) == len(set(shape.STOP_KEYS.tolist()))
