"""The protocol's laws on the fake, and its small helpers."""

from __future__ import annotations

import pytest

from tests.lm.contract import LMContract
from typecase.errors import BadQuery
from typecase.lm.fake import FakeLM
from typecase.lm.protocol import LM, Answer, Can, Failure, Form, Tally, tallied, windows


class TestFake(LMContract):
    @pytest.fixture
    def lm(self) -> LM:
        return FakeLM()


class TestFakeThatOnlyWrites(LMContract):
    @pytest.fixture
    def lm(self) -> LM:
        return FakeLM(can=Can(generate=True, context_tokens=512))


def test_planted_replies_and_failures() -> None:
    lm = FakeLM(replies={"How": "Fine."}, failures={"BOOM": Failure("timeout", "planted")})
    tally = Tally()
    asked = lm.generate(["How are you?", "BOOM", "else"], max_tokens=4, seed=0)
    first, second, third = tallied(asked, tally)
    assert isinstance(first, Answer) and (first.text, first.finish) == ("Fine.", "stop")
    assert second == Failure("timeout", "planted")
    assert isinstance(third, Answer)
    assert (tally.answers, dict(tally.failures), lm.rows_asked) == (2, {"timeout": 1}, 3)


def test_a_reply_may_be_computed() -> None:
    (answer,) = FakeLM(reply=str.upper).generate(["abc"], max_tokens=4, seed=0)
    assert isinstance(answer, Answer) and answer.text == "ABC"


def test_fakes_of_other_replies_have_other_fingerprints() -> None:
    lms = [FakeLM(), FakeLM("other"), FakeLM(replies={"a": "b"}), FakeLM(reply=str.upper)]
    assert len({lm.fingerprint for lm in lms}) == 4


def test_a_form_must_be_json_where_its_kind_says_so() -> None:
    with pytest.raises(BadQuery, match="JSON"):
        Form("json_schema", "{")
    with pytest.raises(BadQuery, match="choice"):
        Form("choice", "{}")


def test_windows_cover_the_rows_in_order() -> None:
    assert list(windows(range(7), 3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(windows([], 3)) == []
