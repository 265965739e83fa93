"""Paragraphs of columns: the kernel against a readable version, and the rule that goes by them."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from tests.core.test_lines import COLUMNS, column
from typecase.core.lines import line_spans
from typecase.core.paragraphs import paragraph_spans
from typecase.core.program.run import run
from typecase.core.rules.frequent import LINE, PARAGRAPH
from typecase.core.rules.groups import Rules

BODY = "The compositor takes the sorts from the case and sets them letter by letter until the line of the page is full."


def slow_paragraphs(lines: list[bytes], longer_than: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    held: list[int] = []
    for number, line in enumerate([*lines, b""]):
        if line.strip(b" \t\n\r\v\f"):
            held.append(number)
            continue
        if len(held) > 1 or (held and len(lines[held[0]]) > longer_than):
            found.append((held[0], held[-1]))
        held = []
    return found


@given(COLUMNS, st.integers(0, 12))
def test_the_kernel_finds_what_a_loop_finds(texts: list[str], longer_than: int) -> None:
    values, offsets = column(texts)
    first, starts, stops = line_spans(values, offsets)
    counted, first_line, last_line = paragraph_spans(values, first, starts, stops, longer_than=longer_than)
    for i in range(len(texts)):
        lines = [bytes(values[a:b]) for a, b in zip(starts[first[i] : first[i + 1]], stops[first[i] : first[i + 1]])]
        base, (low, high) = int(first[i]), counted[i : i + 2]
        found = [(int(a) - base, int(b) - base) for a, b in zip(first_line[low:high], last_line[low:high])]
        assert found == slow_paragraphs(lines, longer_than)
    assert counted[-1] == len(first_line) == len(last_line)


def refined(text: str, frequent: list[int]) -> tuple[str, set[str]]:
    program = Rules(("frequent",)).propose(text, frequent=frequent).program  # type: ignore[arg-type]
    return run(program, text).text, {s.origin.name for s in program.statements if s.origin.name}


def test_a_frequent_paragraph_at_the_foot_needs_no_company() -> None:
    text = f"A heading\n\n{BODY}\n{BODY}\n\nAcme of the North\nAll rights kept"
    by_line, by_paragraph = [0, 0, 0, 0, 0, LINE, LINE], [0, 0, 0, 0, 0, LINE | PARAGRAPH, LINE | PARAGRAPH]
    assert refined(text, by_line) == (text, set()), "two short lines may be headings"
    assert refined(text, by_paragraph) == (f"A heading\n\n{BODY}\n{BODY}", {"line.frequent_paragraph"})


def test_a_long_line_that_is_a_frequent_paragraph_goes() -> None:
    notice = "The views in these pages are those of their writers and of nobody else at all. " * 6
    text = f"{BODY}\n{BODY}\n{BODY}\n{BODY}\n{BODY}\n{BODY}\n\n{notice.strip()}"
    assert refined(text, [0] * 7 + [PARAGRAPH])[1] == {"line.frequent_paragraph"}


def test_what_a_paragraph_does_not_take() -> None:
    code = f"{BODY}\n{BODY}\n\nint main(void) {{\nreturn 0;\n}}"
    assert refined(code, [0, 0, 0, 3, 3, 3]) == (code, set()), "code keeps its paragraph"
    middle = f"{BODY}\n\nAcme of the North\nAll rights kept\n\n{BODY}\n{BODY}"
    assert refined(middle, [0, 0, 3, 3, 0, 0, 0]) == (middle, set()), "the middle of the body is left alone"
    heading = f"Acme\nAbout type\n{BODY}\n{BODY}"
    assert refined(heading, [3, 3, 0, 0])[0].startswith("About type\n"), "the short line above the body is its heading"
    copy = f"{BODY}\n\n" + "\n".join(["A notice of the printing house of the North"] * 9)
    assert refined(copy, [0, 0] + [3] * 9) == (copy, set()), "a page that is mostly frequent is a copy"


def test_numbers_of_documents_not_of_paragraphs_count() -> None:
    values, offsets = column(["a b\nc d\n\na b\nc d", "a b\nc d"])
    first, starts, stops = line_spans(values, offsets)
    counted, first_line, _ = paragraph_spans(values, first, starts, stops, longer_than=100)
    assert counted.tolist() == [0, 2, 3] and first_line.tolist() == [0, 3, 5]
    assert np.diff(counted).tolist() == [2, 1]
