"""Budgets and policies: checked once, at birth, with a message that helps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from typecase.core.selection.named import DATAMAN, QURATING
from typecase.core.selection.quadmix import Curve, QuadMix
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
    assert NAMES[:4] == ("uniform", "top", "threshold", "sampled")
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
    with pytest.raises(
        FixInput, match="one of uniform, top, threshold:SCORE, sampled:TEMPERATURE, per-token, dataman:CRITERION"
    ):
        named_policy(name)
    with pytest.raises(FixInput, match="'hot' is not a number"):
        named_policy("sampled:hot")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"key": "best"}, "key is one of top_k, gumbel, proportional, per_token, middle, uniform; got 'best'"),
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
        ({"key": "per_token", "normalise": "rank"}, "per_token draws need scores >= 0"),
        ({"between": (0.5, 0.5)}, "0 <= low < high <= 1"),
        ({"key": "middle", "normalise": "rank"}, "rank inside strata"),
        ({"quadmix": QuadMix()}, "quadmix goes with key='uniform'"),
        ({"epochs": 0}, "whole number from 1 to 1000"),
        ({"epochs": 1.5}, "whole number from 1 to 1000"),
        ({"each": ("a", "a")}, "names different columns"),
        ({"each": ("a", "b"), "epochs": 2}, "with epochs=1"),
        ({"floors": {"web": 1.5}}, "floors are shares of the budget"),
        ({"at_least": 4.0, "at_most": 3.0}, "at least 4.0 and at most 3.0"),
    ],
)
def test_a_policy_that_cannot_work_is_not_born(changes: dict[str, object], message: str) -> None:
    with pytest.raises(FixInput, match=message):
        Policy(**changes)  # type: ignore[arg-type]


BOTH = ("source", "domain")


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("per-token", Policy(key="per_token")),
        ("dataman:accuracy", Policy(score="accuracy", strata=BOTH)),
        ("dataman:overall=5", Policy(key="uniform", at_least=5, at_most=5, strata=BOTH)),
        (
            "dataman:overall=4-5@law+medicine",
            Policy(key="uniform", at_least=4, at_most=5, only={"domain": ["law", "medicine"]}),
        ),
        ("dataman:sum", Policy(score=tuple((c, 1.0) for c in (*DATAMAN, "overall_score")))),
        ("dataman:proportional", Policy(key="proportional")),
        ("qurating:2", Policy(key="gumbel", temperature=2, normalise="corpus", strata=("source",))),
        (
            "qurating-mix:1",
            Policy(key="gumbel", temperature=1, normalise="corpus", strata=("source",), score="writing_style", each=QURATING),
        ),
        ("dsir", Policy(key="gumbel", score="log_weight", strata=("source",))),
        ("dsir:5", Policy(key="gumbel", score="log_weight", strata=("source",), temperature=5)),
        ("dsir:per-word:0.1", Policy(key="gumbel", score="log_weight_per_word", strata=("source",), temperature=0.1)),
        ("perplexity:low", Policy(score="perplexity", strata=("source",), inverted=True)),
        ("perplexity:high", Policy(score="perplexity", strata=("source",))),
        ("perplexity:middle", Policy(key="middle", score="perplexity", strata=("source",))),
        ("perplexity:middle:25-75", Policy(key="uniform", score="perplexity", strata=("source",), between=(0.25, 0.75))),
        (
            "quadmix:50,0.3,1,0.01",
            Policy(key="uniform", strata=("domain",), quota="pool", epochs=3, quadmix=QuadMix(Curve(50, 0.3, 1, 0.01))),
        ),
    ],
)
def test_published_policies(name: str, policy: Policy) -> None:
    assert named_policy(name) == policy
    assert named_policy(name, inverse=True) == replace(policy, inverted=not policy.inverted)
    assert len(DATAMAN) == 13


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("threshold", "dataman", "perplexity")])
def test_every_name_stands_alone_unless_it_needs_a_word(name: str) -> None:
    assert isinstance(named_policy(name), Policy)
    for wrong in ("threshold", "dataman", "perplexity", "perplexity:odd"):
        with pytest.raises(FixInput, match="a policy is one of"):
            named_policy(wrong)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dataman:beauty", "a criterion is one of accuracy"),
        ("dsir:warm", "'warm' is not a number"),
        ("quadmix:1,2", "takes lambda, omega, eta and epsilon"),
        ("quadmix:1,2,3,4", "omega 0 to 1"),
        ("perplexity:middle:75-25", "0 <= low < high <= 1"),
    ],
)
def test_names_that_say_something_wrong(name: str, message: str) -> None:
    with pytest.raises(FixInput, match=message):
        named_policy(name)
