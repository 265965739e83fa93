"""Registered forms: what they change, what they must leave alone, and that they compose in one order."""

from __future__ import annotations

import unicodedata

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from typecase.core.program.forms import FORMS, applied, pieces_of
from typecase.core.program.guards import FREE
from typecase.core.program.language import Program, normalize
from typecase.core.program.run import run

DAMAGE = ["word", " ", "\n", "\r\n", "é", "â€™", "Ã©", "&amp;", "\xa0", "\u200b", "\x08", "\x1b[1m", "ﬁ", "“", "  ", "\x00"]
TEXTS = st.one_of(st.text(max_size=40), st.lists(st.sampled_from(DAMAGE), max_size=15).map("".join))


def misread(text: str) -> str:
    """UTF-8 read as CP1252, bytes that it lacks read as Latin-1: the usual accident."""
    return "".join(bytes([b]).decode("cp1252", "replace").replace("\ufffd", chr(b)) for b in text.encode())


@given(TEXTS)
@settings(deadline=None, max_examples=200)
def test_no_form_touches_a_line_terminator(text: str) -> None:
    for name in FORMS:
        new = applied(name, text)
        assert [c for c in new if c in "\r\n"] == [c for c in text if c in "\r\n"]


@given(TEXTS, st.lists(st.sampled_from(sorted(FORMS)), min_size=1, max_size=4))
@settings(deadline=None, max_examples=200)
def test_pieces_are_disjoint_changes_in_order(text: str, names: list[str]) -> None:
    at = 0
    for piece in pieces_of(names, text, 0, len(text)):
        assert at <= piece.start <= piece.stop <= len(text)
        assert text[piece.start : piece.stop] != piece.target
        at = piece.stop
    assert pieces_of(names, text, 0, len(text)) == pieces_of(names[::-1], text, 0, len(text))


@given(TEXTS, st.sampled_from(sorted(FORMS)), st.sampled_from(sorted(FORMS)))
@settings(deadline=None, max_examples=200)
def test_asking_for_forms_is_applying_them(text: str, one: str, other: str) -> None:
    """Within one unit of text the composed pieces are the forms one after the other, in the registry's order."""
    text = text.replace("\n", "").replace("\r", "").strip()
    first, second = sorted((one, other), key=list(FORMS).index)
    outcome = run(Program((normalize(other), normalize(one))), text, FREE)
    if outcome.status == "edited" and FORMS[first].unit == FORMS[second].unit == "line":
        assert outcome.text == applied(second, applied(first, text))


@given(st.text(st.characters(min_codepoint=32, exclude_categories=["Cs", "Cc", "Cn", "Co"]), max_size=12))
@settings(deadline=None, max_examples=300)
def test_repaired_mojibake_was_mojibake(text: str) -> None:
    """Whatever the repair gives reads back to what it was given."""
    for token in (text, misread(text)):
        mended = applied("mojibake", token)
        again = mended
        for _ in range(3):
            if again == token:
                break
            again = misread(again)
        assert again == token or " " in token


@pytest.mark.parametrize("text", ["don’t", "café", "naïve “quoted”", "– 中文", "Ελληνικά", "русский"])
def test_mojibake_is_mended(text: str) -> None:
    assert applied("mojibake", misread(text)) == text
    assert applied("mojibake", misread(misread(text))) == text
    assert applied("mojibake", text.encode().decode("latin-1")) == text


@pytest.mark.parametrize(
    "text",
    [
        "café",
        "“quoted” – dash…",
        "ALGARABÍA",
        "«MARÍ»",  # a capital before a closing sign is no lead byte
        "CAFÉ”",
        "Ã is a letter",
        "5 °C ± 2",
        "Â£ and real ünïcode Â£x é",  # tokens with another character beyond ASCII are no proof
        "中文 русский",
    ],
)
def test_text_that_is_right_stays(text: str) -> None:
    good = text if "Â£ and" not in text else "ünïcodeÂ£é"
    assert applied("mojibake", good) == good


@pytest.mark.parametrize(
    ("form", "text", "want"),
    [
        ("entities", "a &lt;b&gt; &amp; &eacute;t&eacute; &#x41; &foo; &#10;", "a <b> & été A &foo; &#10;"),
        ("controls", "N\x08NA\x08AME _\x08x \x1b[31mred\x1b[0m a\x00b\tc", "NAME x red ab\tc"),
        ("controls", "page\x0cbreak \x0cstart", "page break start"),
        ("zero_width", "exam\u00adple \ufeffhere\u200b", "example here"),
        ("zero_width", "می\u200cخواهم 👩\u200d🔧", "می\u200cخواهم 👩\u200d🔧"),
        ("ligatures", "ﬁnd oﬀice", "find office"),
        ("nfc", "cafe\u0301 A\u030a", "caf\u00e9 \u00c5"),
        ("quotes", "“it’s” – so—so", '"it\'s" - so-so'),
        ("whitespace", "a\xa0b  \n  c\u2003d \r\n", "a b\n  c d\r\n"),
        ("blank_runs", "    a   b\t\tc\n  d", "    a b c\n  d"),
    ],
)
def test_forms(form: str, text: str, want: str) -> None:
    assert applied(form, text) == want
    assert applied(form, want) == want


def test_nfc_is_unicode_s() -> None:
    for text in ("e\u0301\u0323", "\u1100\u1161\u11a8", "\u212b \u2126", "a<\u0338b"):
        assert applied("nfc", text) == unicodedata.normalize("NFC", text)


def test_forms_compose_in_the_order_of_the_registry() -> None:
    text = "Â\xa0donâ€™t"
    for names in (["mojibake", "whitespace", "quotes"], ["quotes", "whitespace", "mojibake"]):
        outcome = run(Program(tuple(normalize(name) for name in names)), text, FREE)
        assert outcome.text == " don't"


def test_lines_alone_are_normalised_where_asked() -> None:
    text = "donâ€™t\ndonâ€™t\ndonâ€™t"
    outcome = run(Program((normalize("mojibake", line=1), normalize("quotes", line=1, line_end=2))), text, FREE)
    assert outcome.text == "donâ€™t\ndon't\ndonâ€™t"


def test_long_runs_of_blanks_take_linear_time() -> None:
    text = (" " * 200_000 + "x\n") * 2
    assert applied("whitespace", text) == text
    assert applied("blank_runs", text) == text
