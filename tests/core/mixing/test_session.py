"""Sessions: each line does what it says; a wrong line changes nothing; undo takes back."""

from __future__ import annotations

from fractions import Fraction

from typecase.core.mixing.session import Session
from typecase.core.mixing.shares import Group

GROUPS = (Group(("web", "a"), 600, 60), Group(("web", "b"), 200, 40), Group(("books",), 200, 2))


def shares(session: Session) -> list[Fraction]:
    plan = session.show().plan
    return [row.share for row in plan.rows]


def test_a_share_keeps_the_ratios_of_the_others() -> None:
    session = Session(GROUPS, budget=1000)
    assert shares(session) == [Fraction(3, 5), Fraction(1, 5), Fraction(1, 5)]
    assert session.say("books 50%").act == "changed"
    assert shares(session) == [Fraction(3, 8), Fraction(1, 8), Fraction(1, 2)]
    session.say("web 1/2")
    session.say("web/a x3")
    assert shares(session) == [Fraction(9, 14), Fraction(1, 14), Fraction(4, 14)]
    session.say("web 0")
    assert shares(session) == [0, 0, 1]
    session.say("web 0.5")
    assert shares(session) == [Fraction(3, 8), Fraction(1, 8), Fraction(1, 2)]  # what had nothing shares by its tokens


def test_units_of_numbers() -> None:
    session = Session(GROUPS, budget=1000, cap=None)
    session.say("unit epochs")
    session.say("books 2")
    assert session.show().plan.rows[2].epochs == 2
    session.say("unit documents")
    session.say("books 0.5")
    plan = session.show().plan
    documents = [row.share * row.group.documents / row.group.tokens for row in plan.rows]
    assert documents[2] == sum(documents[:2])
    assert session.say("books 7").act == "refused"


def test_caps_spill_and_undo_takes_back() -> None:
    session = Session(GROUPS, budget=1000)
    session.say("books 0.5")
    reply = session.say("cap books 1")
    assert reply.plan.rows[2].taken == 200 and reply.plan.taken == 1000 and reply.plan.moved == 300
    assert session.say("undo").plan.rows[2].taken == 500
    assert session.say("redo").plan.rows[2].taken == 200
    assert session.say("cap books off").plan.rows[2].taken == 500
    session.say("budget 2k")
    assert session.show().plan.budget == 2000
    session.say("reset")
    assert shares(session)[2] == Fraction(1, 5) and session.show().plan.budget == 1000
    assert session.say("undo").plan.budget == 2000


def test_a_wrong_line_changes_nothing() -> None:
    session = Session(GROUPS, budget=1000)
    before = session.state
    for line in (
        "undo",
        "nobody 0.5",
        "books",
        "books a",
        "unit miles",
        "budget 3 docs",
        "cap nobody 3",
        "a b c d",
        "web 2",
        "cap 0 x",
    ):
        reply = session.say(line)
        assert reply.act == "refused" and reply.text, line
    assert session.state is before and session.say("redo").act == "refused"


def test_saving_helping_leaving_and_predicting() -> None:
    session = Session(GROUPS, budget=1000, predict=lambda w: {"loss": 2 - w[2]})
    assert session.say("").act == "shown" and session.say("help").act == "help" and session.say("quit").act == "quit"
    saved = session.say("save a.json")
    assert (saved.act, saved.text) == ("save", "a.json") and saved.predicted == {"loss": 1.8}
