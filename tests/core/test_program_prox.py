"""The compatibility mode: the published executor's behaviour (spec/refine.md, A.1 to A.6), and its flags."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from typecase.core.program.prox import FLAGS, ProxPolicy, prox_keeps, read_prox, run_prox

WORDS = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
TEXT = "\n".join(f"line{n} {WORDS}" for n in range(5))
LINES = TEXT.split("\n")
GOOD = "remove_lines(line_start=0, line_end=0)"
BAD = "remove_lines(oops)"


def lines(*numbers: int) -> str:
    return "\n".join(LINES[n] for n in numbers)


@pytest.mark.parametrize(
    ("program", "errors", "result"),
    [
        ("", 0, TEXT),
        ("what is this\n\nmore prose", 0, TEXT),
        ("keep_chunk()", 0, TEXT),
        (f"{BAD}\n{GOOD}", 1, lines(1, 2, 3, 4)),
        (f"{BAD}\n{BAD}\n{GOOD}", 2, TEXT),
        (f"{BAD}\n{BAD}\nremove_lines(line_start=0, line_end=4)", 2, ""),
        ("remove_lines(all=True)", 0, ""),
        (f"{BAD}\n{BAD}\nremove_lines(all=True)", 2, ""),
        ("remove_lines(line_start=1,line_end=2) # all=True", 0, ""),
        ("remove_lines(all=False)", 1, TEXT),
        ("remove_lines(line_start=3, line_end=9)", 1, lines(0, 1, 2)),
        ("remove_lines(line_start=7, line_end=9)", 1, TEXT),
        ("remove_lines(line_start=7, line_end=8)\nremove_lines(line_start=20, line_end=21)\n" + GOOD, 2, TEXT),
        ("remove_lines(line_start=3, line_end=4)\nremove_lines(line_start=5, line_end=9)", 1, lines(0, 1, 2)),
        ("remove_lines(line_start=-3, line_end=-1)", 0, TEXT),
        ("remove_lines(line_start=-2, line_end=1)", 0, lines(2, 3, 4)),
        ("remove_lines(line_start=3, line_end=1)", 0, TEXT),
        ("remove_lines(line_start=9, line_end=1)", 1, TEXT),
        ("remove_lines(line_end=0,line_start=3)", 0, lines(4)),
        ("remove_lines(1, 2)", 1, TEXT),
        ('remove_lines(line_start="1", line_end="2")', 1, TEXT),
        ("remove_lines(line_start=[000], line_end=[001])", 1, TEXT),
        ("remove_lines(line_start=1)", 1, TEXT),
        ("remove_lines(line_start==1, line_end==2)", 1, TEXT),
        ("remove_lines()", 1, TEXT),
        ("remove_lines", 1, TEXT),
        ("remove_lines(line_start=1, line_end=2, why=menu)", 0, lines(0, 3, 4)),
        ("remove_lines_now(line_start=000,line_end=001)", 0, lines(2, 3, 4)),
        (f"{GOOD}\n {GOOD.replace('0', '1')}\n\t{GOOD.replace('0', '2')}", 0, lines(1, 2, 3, 4)),
        ("remove_lines(line_start=0,line_end=0); remove_lines(line_start=1,line_end=1)", 0, lines(1, 2, 3, 4)),
        ('normalize(source_str="absent")', 0, TEXT),
        (GOOD + "\r", 0, lines(1, 2, 3, 4)),
        ("remove_lines(line_start=+0_0, line_end= 1 )", 0, lines(2, 3, 4)),
        ("remove_lines(line_start=٠, line_end=١)", 0, lines(2, 3, 4)),
        ('normalizeX(z="line3 ")', 0, TEXT.replace("line3 ", "")),
        ('normalize(source_str="", target_str="x")', 0, TEXT),
        ('normalize(source_str=" ", target_str="x")', 0, TEXT),
        ("normalize()", 1, TEXT),
        ('normalize(source_str="one", target_str="1", flag="g")', 0, TEXT),
    ],
)
def test_conformance(program: str, errors: int, result: str) -> None:
    outcome = run_prox(program, TEXT)
    assert (outcome.errors, outcome.text) == (errors, result)


def test_a_short_result_goes_even_under_a_clean_keep_program() -> None:
    assert run_prox("keep_chunk()", "w " * 10).text == ""
    assert run_prox("keep_chunk()", "w " * 11).verdict == "refined"
    kept = "a " * 11 + "\n" + "b " * 209
    outcome = run_prox("remove_lines(line_start=1, line_end=1)", kept)
    assert (outcome.words_after, outcome.words_before, outcome.text) == (11, 220, "")


@pytest.mark.parametrize(
    ("program", "text", "result", "flag"),
    [
        ('normalize(source_str="a=b")', f"banana {TEXT}", f"bnn {TEXT}".replace("a", ""), "X1"),
        ('normalize(source_str="http://x.com?p=2")', f"{TEXT} http://x.com?p=2", f"{TEXT} =2", "X1"),
        ('normalize(source_str=":)")', f"{TEXT} a: b:)", f"{TEXT} a b)", "X2"),
        ('normalize(source_str="(link)")', f"{TEXT} (link)", f"{TEXT} )", "X2"),
        ('normalize(source_str="x, y", target_str="z")', f"{TEXT} x, y", f"{TEXT} x, y", "X3"),
        ('normalize(source_str="now, a=b")', f"{TEXT} now", f"{TEXT} b", "X3"),
        ('normalize(source_str="alpha\nbeta")', f"{TEXT} alpha", f"{TEXT} a", "X4"),
        ("remove_lines(line_start=1, line_end=33", TEXT, lines(0, 4), "X4"),
        ('normalize(source_str="cat")', f"{TEXT} concatenate", f"{TEXT} conenate", "X6"),
        ("normalize(source_str='line1 ')", TEXT, TEXT, "X8"),
        ('normalize(source_str= "one")', TEXT, TEXT, "X8"),
    ],
)
def test_corrupting_readings_are_reproduced_and_flagged(program: str, text: str, result: str, flag: str) -> None:
    outcome = run_prox(program, text)
    assert outcome.text == result and flag in outcome.flags and flag in FLAGS
    if flag != "X6":
        neutral = run_prox(program, text, ProxPolicy(neutralise=True))
        assert neutral.text == text and flag in neutral.flags


def test_every_space_deleted() -> None:
    outcome = run_prox('normalize(source_str=" ")', TEXT)
    assert outcome.text == "" and "X7" in outcome.flags
    assert run_prox('normalize(source_str=" ")', TEXT, ProxPolicy(neutralise=True)).text == TEXT


def test_words_between_blanks() -> None:
    outcome = run_prox("keep_chunk()", "今天天气很好我们一起去公园散步然后回家吃饭看书睡觉明天再去学校上课")
    assert outcome.text == "" and "X12" in outcome.flags


@pytest.mark.parametrize("text", ["", " \n\t "])
def test_a_text_without_words_stays(text: str) -> None:
    outcome = run_prox(GOOD, text)
    assert (outcome.text, outcome.verdict) == (text, "original") and "X11" in outcome.flags


def test_a_huge_range_costs_nothing() -> None:
    outcome = run_prox("remove_lines(line_start=1, line_end=50000000000)", TEXT)
    assert (outcome.text, outcome.errors) == (lines(0), 1) and "X10" in outcome.flags


@pytest.mark.parametrize(
    ("answer", "keeps"),
    [
        ("drop_doc()", False),
        ("I would not drop this", False),
        ("raindrop", False),
        ("DROP", True),
        ("", True),
        ("keep_doc()", True),
    ],
)
def test_document_decisions(answer: str, keeps: bool) -> None:
    assert prox_keeps(answer) is keeps


def slow(program: str, text: str) -> str:
    """Lines removed one index at a time from a set, as the published executor collects them."""
    gone: set[int] = set()
    for call in read_prox(program).calls:
        if call.kind == "remove":
            gone |= set(range(call.first, call.last + 1))
        elif call.kind == "remove_all":
            gone = set(range(text.count("\n") + 1))
    return "\n".join(line for n, line in enumerate(text.split("\n")) if n not in gone)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(-4, 12), st.integers(-4, 12)), max_size=6), st.integers(1, 9))
def test_ranges_are_sets_of_lines(ranges: list[tuple[int, int]], num_lines: int) -> None:
    text = "\n".join(f"{n} {WORDS}" for n in range(num_lines))
    program = "\n".join(f"remove_lines(line_start={a}, line_end={b})" for a, b in ranges)
    outcome = run_prox(program, text, ProxPolicy(errors=99, drop_ratio=2, words=-1))
    assert outcome.text == slow(program, text)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet='remov_linsaz(),="\\ \n#0129', max_size=120), st.text(max_size=200))
def test_any_program_on_any_text_gives_an_outcome(program: str, text: str) -> None:
    for prefix in ("", "remove_lines", "normalize("):
        outcome = run_prox(prefix + program, text)
        assert outcome.text in ("", text) or outcome.verdict == "refined"
        assert set(outcome.flags) <= set(FLAGS)
