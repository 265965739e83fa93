"""The automaton: whatever it lets through is a valid program of the chunk; the trie finds what a walk byte by byte finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from typecase.core.program.chunks import Chunk, cut_chunks, join, rows_of
from typecase.core.program.decoding import OPERATIONS, Automaton, State
from typecase.core.program.decoding_strings import cuts_of, open_row, row_table, without
from typecase.core.program.decoding_tokens import Vocabulary, allowed, take, vocabulary_of
from typecase.core.program.guards import FREE, GuardPolicy
from typecase.core.program.language import Program, show
from typecase.core.program.parse import parse
from typecase.core.program.run import run
from typecase.errors import BadQuery

POLICY = GuardPolicy(operation_percent=100, kept_percent=0, short="keep", min_chars=2, error_percent=0, protected=(), nth=True)
WORDS = ["remove", "_lines", "_str", "(line", "_start", "=", "=0", ", ", ", line_end=", ")\n", '")\nremove', '="', 'a"', " b",
         "keep_all()", "ab", " ab", "a b", "Home | ", "\\\"", "中", "e\u0301", "0,", "12", ")"]  # fmt: skip
END = 0


def make_vocabulary(words: list[str] | None = None) -> Vocabulary:
    pieces = [w.encode() for w in (WORDS if words is None else words)]
    return vocabulary_of([None, *(bytes([b]) for b in range(256)), *pieces, "中".encode()[:2] + b"\xad"], [END])


VOCABULARY = make_vocabulary()


def lengths(texts: list[str]) -> list[int]:
    return [len(text) for text in texts]


def chunks_of(text: str, longest: int | None, budget: int, overlap: int) -> tuple[tuple[object, ...], tuple[Chunk, ...]]:
    rows = rows_of(text, lengths, longest)  # type: ignore[arg-type]
    return rows, cut_chunks(text, rows, lengths, budget, overlap=overlap)  # type: ignore[arg-type]


def naive_allowed(automaton: Automaton, state: State, vocabulary: Vocabulary, left: int) -> list[int]:
    """Every token, byte by byte."""
    found = sorted(vocabulary.ends) if automaton.accepts(state) else []
    for k, token in enumerate(vocabulary.tokens):
        after = take(automaton, state, token) if token else None
        if after is not None and automaton.need(after) <= left - 2:
            found.append(k)
    return sorted(found)


def write(automaton: Automaton, seed: int, left: int, *, eager: bool = True, check: bool = False) -> tuple[bytes, int]:
    """A random program of at most `left` tokens, the end token included, and how many were left."""
    dice, state, said = np.random.default_rng(seed), automaton.start, b""
    while True:
        assert automaton.need(state) < left
        ids = allowed(automaton, state, VOCABULARY, left).tolist()
        if check:
            assert ids == naive_allowed(automaton, state, VOCABULARY, left)
        assert ids
        if eager and len(ids) > 1:  # an end that is drawn at once would leave long programs untried
            ids = [k for k in ids if k != END or dice.random() < 0.1] or ids
        token = int(dice.choice(ids))
        left -= 1
        if token == END:
            return said, left
        text = VOCABULARY.tokens[token]
        assert text is not None
        after = take(automaton, state, text)
        assert after is not None
        state, said = after, said + text


ALPHABET = "ab| '-.\"\\\t,)(=e\u0301\u00e9中文\u200d\U0001f468\U0001f1e9\U0001f1ea\u1100\u1161\uac00\u0e01\u0e33\u00ad\x85#"
lines = st.lists(st.text(ALPHABET, max_size=14), min_size=1, max_size=6)
endings = st.sampled_from(["\n", "\n", "\r\n", "\r"])


@st.composite
def texts(draw: st.DrawFn) -> str:
    return "".join(line + draw(endings) for line in draw(lines)) + draw(st.text(ALPHABET, max_size=6))


@settings(max_examples=250)
@given(texts(), st.integers(0, 2**32), st.sampled_from([None, 4, 9]), st.integers(8, 60), st.integers(0, 2), st.booleans())
@example("x\rab\n\ncd", 1, None, 60, 0, True)
@example("foo ,bar and 'a' a-b", 5, None, 60, 0, True)
def test_every_path_is_a_program_that_nothing_is_refused_of(
    text: str, seed: int, longest: int | None, budget: int, overlap: int, local: bool
) -> None:
    rows, chunks = chunks_of(text, longest, budget, overlap)
    programs = []
    for number, chunk in enumerate(chunks):
        automaton = Automaton(text, rows, chunk, chunk.first if local else 0, POLICY)  # type: ignore[arg-type]
        said, left = write(automaton, seed + number, 120)
        assert left >= 0
        program = parse(said.decode())
        assert isinstance(program, Program) and not program.faults and program.statements
        assert show(program) == said.decode()
        programs.append(program)
    joined = join(programs, chunks, rows, text, local=local, policy=POLICY)  # type: ignore[arg-type]
    assert joined.rejected == () and not any(joined.refusals) and joined.foreign == 0
    outcome = run(joined.program, text, POLICY)
    assert {v.code for v in outcome.verdicts} <= {"applied", "void"}


@settings(max_examples=40)
@given(texts(), st.integers(0, 2**32), st.sampled_from([None, 5]), st.integers(20, 70))
def test_the_trie_finds_what_a_walk_byte_by_byte_finds(text: str, seed: int, longest: int | None, left: int) -> None:
    rows, chunks = chunks_of(text, longest, 40, 0)
    write(Automaton(text, rows, chunks[-1], chunks[-1].first, POLICY), seed, left, check=True)  # type: ignore[arg-type]


@settings(max_examples=60)
@given(texts(), st.integers(0, 2**32), st.integers(11, 60))
def test_no_budget_is_too_small_to_end(text: str, seed: int, left: int) -> None:
    rows, chunks = chunks_of(text, None, 40, 0)
    said, rest = write(Automaton(text, rows, chunks[0], policy=POLICY), seed, left, eager=True)  # type: ignore[arg-type]
    assert rest >= 0 and isinstance(parse(said.decode()), Program)


def naive_may_cut(text: str, start: int, stop: int) -> bool:
    """Whether the language itself takes the cut."""
    program = parse(show(Program((_remove(text[start:stop]),))))
    outcome = run(program, text, POLICY)
    return [v.code for v in outcome.verdicts] == ["applied"]


def _remove(text: str):  # type: ignore[no-untyped-def]
    from typecase.core.program.language import remove_str

    return remove_str(0, text)


@settings(max_examples=150)
@given(st.text("ab 'é中-.|", min_size=1, max_size=12))
def test_in_plain_rows_the_cuts_are_those_of_the_language(text: str) -> None:
    table = row_table(text, POLICY.separators)
    assert table is not None
    cuts = cuts_of(table, open_row(table, whole=True), small=2, whole=True)
    for start in range(len(text)):
        for stop in range(start + 1, len(text) + 1):
            if stop - start < len(text):
                assert cuts.may_end(start, stop) == naive_may_cut(text, start, stop), (start, stop)


@settings(max_examples=100)
@given(st.text(ALPHABET, min_size=1, max_size=12))
def test_in_any_row_no_cut_is_allowed_that_the_language_refuses(text: str) -> None:
    table = row_table(text, POLICY.separators)
    if table is None or "\n" in text or "\r" in text:
        return
    cuts = cuts_of(table, open_row(table, whole=True), small=2, whole=True)
    for start in cuts.starts.tolist():
        for stop in range(start + 1, len(text) + 1):
            assert not cuts.may_end(start, stop) or naive_may_cut(text, start, stop), (start, stop)


def automaton_of(text: str, **more: object) -> Automaton:
    rows, chunks = chunks_of(text, None, 10_000, 0)
    return Automaton(text, rows, chunks[0], policy=POLICY, **more)  # type: ignore[arg-type]


def says(automaton: Automaton, program: str) -> bool:
    state = take(automaton, automaton.start, program.encode())
    return state is not None and automaton.accepts(state)


TEXT = "Home | News | About\nThe tray of sorts [edit] has two cases, and the tray has lids.\nShare this\n中文 page 中文\n"


@pytest.mark.parametrize(
    ("program", "fits"),
    [
        ("keep_all()", True),
        ("drop_all()", True),
        ("keep_all()\nremove_lines(line_start=0, line_end=0)", False),
        ("remove_lines(line_start=0, line_end=0)\nkeep_all()", False),
        ("remove_lines(line_start=0, line_end=2)", True),
        ("remove_lines(line_start=00, line_end=2)", False),
        ("remove_lines(line_start=2, line_end=0)", False),
        ("remove_lines(line_start=0, line_end=9)", False),
        ("remove_lines(line_start=0, line_end=0)\nremove_lines(line_start=2, line_end=2)", True),
        ("remove_lines(line_start=0, line_end=0)\nremove_lines(line_start=0, line_end=0)", False),
        ("remove_lines(line_start=1, line_end=1)\nremove_lines(line_start=0, line_end=2)", False),
        ('remove_str(line=1, text=" [edit]")', True),
        ('remove_str(line=1, text="[edit]")', True),
        ('remove_str(line=1, text="tray")', False),
        ('remove_str(line=1, text="dit]")', False),
        ('remove_str(line=1, text=" of ")', False),
        ('remove_str(line=1, text=" of")', True),
        ('remove_str(line=1, text="absent")', False),
        ('remove_str(line=2, text="Share this")', False),
        ('remove_str(line=1, text=" [edit]")\nremove_str(line=1, text=" lids")', True),
        ('remove_str(line=1, text=" [edit]")\nremove_str(line=1, text=" [edit]")', False),
        ('remove_str(line=1, text=" [edit]")\nremove_lines(line_start=1, line_end=1)', False),
        ('remove_str(line=3, text=" page ")', True),
        ("normalize(form=\"mojibake\")", False),
        ("drop_doc()", False),
        ("keep_all() ", False),
        ("keep_all()\n", False),
        ("", False),
    ],
)  # fmt: skip
def test_what_may_be_said_of_a_page(program: str, fits: bool) -> None:
    assert says(automaton_of(TEXT), program) is fits


def test_only_operations_that_are_on() -> None:
    lines_only = automaton_of(TEXT, operations=("keep_all", "remove_lines"))
    assert says(lines_only, "remove_lines(line_start=0, line_end=0)") and says(lines_only, "keep_all()")
    assert not says(lines_only, 'remove_str(line=1, text=" [edit]")') and not says(lines_only, "drop_all()")


def test_spared_rows_are_not_named() -> None:
    spared = automaton_of(TEXT, spared=(0,))
    assert not says(spared, "remove_lines(line_start=0, line_end=1)") and not says(spared, "drop_all()")
    assert not says(spared, 'remove_str(line=0, text="Home | ")')
    assert says(spared, "remove_lines(line_start=1, line_end=1)")


def test_rows_of_another_chunk_are_shown_and_not_named() -> None:
    text = "one\ntwo\nthree\nfour\nfive\nsix"
    rows, chunks = chunks_of(text, None, 30, 2)
    first, second = chunks[0], chunks[1]
    assert first.last > first.own_last or second.own_first > second.first
    for chunk in (first, second):
        automaton = Automaton(text, rows, chunk, 0, POLICY)  # type: ignore[arg-type]
        for n in range(chunk.first, chunk.last):
            owned = chunk.own_first <= n < chunk.own_last
            assert says(automaton, f"remove_lines(line_start={n}, line_end={n})") is owned


def test_operations_that_say_nothing_are_refused() -> None:
    with pytest.raises(BadQuery, match="keep_all or drop_all"):
        automaton_of(TEXT, operations=("remove_lines",))
    with pytest.raises(BadQuery, match="no_such"):
        automaton_of(TEXT, operations=(*OPERATIONS, "no_such"))


def test_a_vocabulary_without_a_byte_is_refused() -> None:
    with pytest.raises(BadQuery, match="0x28"):
        vocabulary_of([None, *(bytes([b]) for b in range(256) if b != ord("("))], [END])
    with pytest.raises(BadQuery, match="end token"):
        vocabulary_of([bytes([b]) for b in range(256)], [])


@settings(max_examples=60)
@given(texts(), st.integers(0, 2**32), st.integers(11, 60))
def test_bytes_that_are_no_token_are_kept_clear_of(text: str, seed: int, left: int) -> None:
    """ "é" is C3 A9 and its second byte no token; a token that holds it beside others may come up, and leads nowhere."""
    lacking = vocabulary_of([None, *(bytes([b]) if b != 0xA9 else "aé".encode() for b in range(256))], [END])
    assert lacking.missing == {0xA9}
    rows, chunks = chunks_of(text, None, 40, 0)
    automaton = Automaton(text, rows, chunks[0], 0, POLICY, missing=lacking.missing)  # type: ignore[arg-type]
    dice, state, said = np.random.default_rng(seed), automaton.start, b""
    while (token := int(dice.choice(allowed(automaton, state, lacking, left)))) != END:
        text_of = lacking.tokens[token] or b""
        after = take(automaton, state, text_of)
        assert after is not None
        state, said, left = after, said + text_of, left - 1
    assert isinstance(parse(said.decode()), Program) and "é" not in said.decode()


def test_a_quote_and_a_backslash_are_escaped() -> None:
    automaton = automaton_of('say "no \\ yes" twice\nx')
    assert says(automaton, 'remove_str(line=0, text="\\"no \\\\ yes\\" ")')
    assert not says(automaton, 'remove_str(line=0, text=""no")')


def test_two_cuts_of_a_row_do_not_touch() -> None:
    table = row_table("foo ,bar, baz qux", FREE.separators)
    assert table is not None
    left = without(table, open_row(table, whole=True), 3, 4)
    assert left == ((5, 17),)  # the comma at 4 stays, "foo" has nothing that would keep a cut apart


def test_long_and_broken_rows_have_no_strings() -> None:
    assert row_table("a " * 5000, "") is None
    assert row_table("a\ud800b", "") is None
    assert row_table("", "") is None
