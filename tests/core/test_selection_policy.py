"""Budgets and policies: checked once, at birth, with a message that helps."""

from __future__ import annotations

import pytest

from typecase.core.selection.selection import NAMES, Budget, Policy, named_policy
from typecase.errors import BadQuery, FixInput


def test_a_budget_is_one_amount() -> None:
    assert (Budget(tokens=5).unit, Budget(tokens=5).amount) == ("tokens", 5)
    assert (Budget(documents=0).unit, Budget(bytes=7).unit) == ("documents", "bytes")
    with pytest.raises(FixInput, match="got none of them"):
        Budget()
    with pytest.raises(FixInput, match="'tokens': 1, 'bytes': 2"):
        Budget(tokens=1, bytes=2)
    for wrong in (-1, 1 << 62, True, 1.5):
        with pytest.raises(FixInput, match="a whole number of tokens"):
            Budget(tokens=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("10M tokens", Budget(tokens=10_000_000)),
        ("1.5B", Budget(tokens=1_500_000_000)),
        ("250k docs", Budget(documents=250_000)),
        ("2Gbytes", Budget(bytes=2_000_000_000)),
        (" 1_000 documents ", Budget(documents=1000)),
    ],
)
def test_budgets_are_read_as_people_write_them(text: str, budget: Budget) -> None:
    assert Budget.parse(text) == budget


@pytest.mark.parametrize("text", ["", "ten", "-5 tokens", "5 words", "5%", "1.2.3M"])
def test_other_budgets_are_refused(text: str) -> None:
    with pytest.raises(BadQuery, match="reads like"):
        Budget.parse(text)


def test_all_spellings_become_one_policy() -> None:
    assert Policy(score="a") == Policy(score=(("a", 1.0),))
    one = Policy(quota="table", table={"web/law": 1, "books": 2}, only={"domain": ["law", "art"]})
    two = Policy(quota="table", table=((("books",), 2.0), (("web", "law"), 1.0)), only=(("domain", ("art", "law")),))
    assert one == two and hash(one) == hash(two)
    assert Policy(strata="source") == Policy(strata=("source",)), "a name is not its letters"  # type: ignore[arg-type]
    assert Policy(only={"domain": "law"}).wanted == {"domain": ("law",)}
    assert one.quota_table == {("books",): 2.0, ("web", "law"): 1.0}


def test_policies_by_name() -> None:
    assert NAMES == ("uniform", "top", "threshold", "sampled")
    assert named_policy("top", score="accuracy", strata=("source",)) == Policy(score="accuracy", strata=("source",))
    assert named_policy("threshold:3.5").at_least == 3.5
    assert named_policy("sampled").temperature == 2.0 and named_policy("sampled:0.5").temperature == 0.5
    assert not named_policy("uniform").needs_score and named_policy("threshold:4").needs_score
    assert [named_policy(n).needs_seed for n in ("uniform", "top", "threshold:1", "sampled", "sampled:0")] == [
        True,
        False,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("name", ["best", "top:3", "threshold", "uniform:1", ""])
def test_unknown_names_list_the_known(name: str) -> None:
    with pytest.raises(FixInput, match="one of uniform, top, threshold:SCORE, sampled:TEMPERATURE"):
        named_policy(name)
    with pytest.raises(FixInput, match="'hot' is not a number"):
        named_policy("sampled:hot")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"key": "best"}, "key is one of top_k, gumbel, proportional, uniform; got 'best'"),
        ({"missing": "zero"}, "missing is one of"),
        ({"temperature": -1.0}, "temperature is 0 or more"),
        ({"key": "proportional", "normalise": "corpus"}, "scores >= 0 as they are"),
        ({"quota": "table"}, "go together"),
        ({"table": {"web": 1.0}}, "go together"),
        ({"quota": "table", "table": {"web": 0.0}}, "at least one weight above 0"),
        ({"quota": "table", "table": {"web": -1.0}}, "weights of a quota table are 0 or more"),
        ({"only": {"lang": ["en"]}}, "'lang', which is not among the strata"),
        ({"alpha": -0.5}, "alpha is from 0"),
        ({"score": ()}, "a score is a column"),
        ({"at_least": 4.0, "at_most": 3.0}, "at least 4.0 and at most 3.0"),
    ],
)
def test_a_policy_that_cannot_work_is_not_born(changes: dict[str, object], message: str) -> None:
    with pytest.raises(FixInput, match=message):
        Policy(**changes)  # type: ignore[arg-type]
