"""Published rule sets: each threshold from both sides, and the script-aware variants where the literal ones fail."""

from __future__ import annotations

import pytest

from typecase.core.program.guards import FREE, GuardPolicy
from typecase.core.program.language import show
from typecase.core.program.run import run
from typecase.core.rules.groups import Rules
from typecase.core.rules.page import Page
from typecase.core.rules.quality import duplicates, gopher_repetition, repeated_ngram_chars, top_ngram_chars

FILLER = [f"w{chr(97 + k // 26)}{chr(97 + k % 26)}xy" for k in range(300)]
"""Five-letter words, all different."""


def decide(name: str, text: str) -> str:
    program = Rules((name,)).propose(text).program
    return program.statements[0].origin.name if show(program) == "drop_doc()" else ""


def words(num: int, *, stops: int = 2) -> list[str]:
    return [*["the", "of"][:stops], *FILLER[: num - stops]]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (" ".join(words(50)), ""),
        (" ".join(words(49)), "gopher_quality.words"),
        (" ".join(words(50, stops=1)), "gopher_quality.stop_words"),
        (" ".join(["The", "Of", *FILLER[:60]]), "gopher_quality.stop_words"),  # the list is case-sensitive
        (" ".join(["the", "of", *["ab"] * 60]), "gopher_quality.word_length"),
        (" ".join(["the", "of", *["abcdefghijk"] * 90]), "gopher_quality.word_length"),
        (" ".join([*words(90), *["#"] * 10]), ""),
        (" ".join([*words(90), *["#"] * 11]), "gopher_quality.hashes"),
        (" ".join([*words(89), *["..."] * 10, "end"]), ""),
        (" ".join([*words(90), *["…"] * 11]), "gopher_quality.ellipses"),
        ("\n".join(["- " + w for w in words(60)]), "gopher_quality.bullets"),
        ("\n".join([" ".join([w] * 11) + "..." for w in words(60)]), "gopher_quality.ellipsis_lines"),
        (" ".join([*words(80), *["1234"] * 20]), ""),
        (" ".join([*words(79), *["1234"] * 21]), "gopher_quality.letters"),
    ],
)
def test_gopher_quality(text: str, rule: str) -> None:
    assert decide("gopher_quality", text) == rule


def test_scripts_are_not_dropped_for_their_script() -> None:
    chinese = "排版工人从字盘里挑出铅字，检查替换，排好，印出校样。印厂的一天就这样开始了，工人们忙着排字、校对和印刷。" * 2
    russian = "Наборщик берёт литеры из кассы и ставит их в строку и не торопится, а потом на странице что " * 5
    for text in (chinese, russian):
        assert decide("gopher_quality", text)
        assert decide("gopher_quality_scripts", text) == ""
    assert decide("gopher_quality_scripts", " ".join(words(49))) == "gopher_quality.words"
    assert decide("gopher_quality_scripts", " ".join(FILLER[:80])) == "gopher_quality.stop_words"


def test_duplicates_count_what_was_there_before() -> None:
    assert duplicates(["a", "bb", "a", "bb", "bb"]) == (3, 5)
    assert duplicates([]) == (0, 0)


def test_ngram_shares() -> None:
    assert top_ngram_chars(["a", "b", "c", "a", "b"], 2) == 2 * len("a b")
    assert top_ngram_chars(["a"], 2) == 0
    assert top_ngram_chars(["a", "b", "xx", "yy"], 2) == len("xx yy")  # the longest of the most frequent
    # The scan jumps over a repeated n-gram: "c d" and "a b" come again, "b c" between them is no gram of the scan.
    assert repeated_ngram_chars(["a", "b", "c", "d", "a", "b", "c", "d"], 2) == len("abcd")
    assert repeated_ngram_chars(["a", "a", "a", "a"], 2) == len("aa")


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (" ".join(FILLER), ""),
        ("", ""),
        (
            "\n\n".join(["same here", "same here", "a b c d e f g h i j k l m n o p q r s t u v w"]),
            "gopher_repetition.paragraphs",
        ),
        ("\n".join(["s", "s", "s", "s", *FILLER[:5]]), "gopher_repetition.lines"),
        ("\n".join([" ".join(FILLER[:40]), " ".join(FILLER[:40]), *FILLER[:5]]), "gopher_repetition.line_chars"),
        (" ".join(["one two"] * 20 + FILLER[:40]), "gopher_repetition.top_2"),
        (" ".join(FILLER[:30] + FILLER[:30] + FILLER[100:130]), "gopher_repetition.duplicate_5"),
    ],
)
def test_gopher_repetition(text: str, rule: str) -> None:
    found = gopher_repetition(Page(text))
    assert (found[0] if found else "") == rule


LONG = "A sentence of the page that is long enough for it"
SENTENCE = "The compositor sets the type {}."
FIVE = [SENTENCE.format(k) for k in "abcde"]


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("This line ends well.", True),
        ("This line ends in an ellipsis...", False),
        ("This line does not end", False),
        ('He said "so it is"', True),
        ("Two words.", False),
        ("You need javascript for this page.", False),
        ("This site uses cookies for everything.", False),
        ("A very long word " + "x" * 1001 + ".", False),
        ("It was shown[12] before.", True),
    ],
)
def test_c4_lines(line: str, kept: bool) -> None:
    text = "\n".join([*FIVE, line])
    outcome = run(Rules(("c4",)).propose(text).program, text, GuardPolicy(nth=True))
    last = outcome.text.split("\n")[-1]
    assert last == (line.replace("[12]", "") if kept else FIVE[-1])


def test_c4_takes_every_citation_mark() -> None:
    text = "\n".join([*FIVE, "It was[1] shown[2] and[1] proved [citation needed] there[3]."])
    outcome = run(Rules(("c4",)).propose(text).program, text, GuardPolicy(nth=True))
    assert outcome.text.split("\n")[-1] == "It was shown and proved  there."
    assert all(v.code == "applied" for v in outcome.verdicts)


@pytest.mark.parametrize(
    ("lines", "rule"),
    [
        (FIVE, ""),
        (FIVE[:4], "c4.sentences"),
        ([*FIVE, "Lorem ipsum dolor sit amet."], "c4.lorem_ipsum"),
        ([*FIVE, "A brace { in a sentence."], "c4.curly_bracket"),
        ([*FIVE, "A brace { in a line that dies"], ""),
    ],
)
def test_c4_documents(lines: list[str], rule: str) -> None:
    assert decide("c4", "\n".join(lines)) == rule


def test_c4_knows_other_scripts_in_its_variant() -> None:
    text = "\n".join(["排版工人从字盘里挑出铅字。检查。替换。排好。印出校样。"] * 2)
    assert decide("c4", text) == "c4.sentences"
    assert decide("c4_scripts", text) == ""
    assert run(Rules(("c4_scripts",)).propose(text).program, text, FREE).text == text


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (" \n ", "fineweb.empty"),
        ("\n".join([*(f"{LONG} {w}" for w in FILLER[:88]), *(f"{LONG} {w}." for w in FILLER[:12])]), ""),
        ("\n".join([*(f"{LONG} {w}" for w in FILLER[:89]), *(f"{LONG} {w}." for w in FILLER[:11])]), "fineweb.terminal"),
        ("\n".join(f"Short line here {w}." for w in FILLER[:10]), "fineweb.short_lines"),
        ("\n".join([f"{LONG}."] * 2 + [f"Another. {LONG}."]), "fineweb.duplicates"),
        ("\n".join(f"antidisestablishmentarianism_is_long {w}." for w in FILLER[:10]), "fineweb.lists"),
    ],
)
def test_fineweb(text: str, rule: str) -> None:
    assert decide("fineweb", text) == rule
