"""Rubric files: the built-in one is whole, any other size works, and each mistake is named with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from typecase.errors import BadRecipe, NotFound
from typecase.lm.rubric import builtin_rubrics, load_rubric, parse_rubric

TINY = """
id = "tiny"
version = 2
scale = [0, 2]
[[criterion]]
id = "clarity"
question = "Is it clear?"
anchors = { 0 = "no", 2 = "yes" }
"""


def test_the_built_in_rubric_is_whole() -> None:
    assert "dataman" in builtin_rubrics()
    rubric = load_rubric("dataman")
    assert rubric.columns[0] == "accuracy" and rubric.summary == "overall_score" and (rubric.low, rubric.high) == (1, 5)
    assert len(rubric.columns) == 14 and len(rubric.labels) == 15
    assert "".join(domain.letter for domain in rubric.domains) == "ABCDEFGHIJKLMNO"
    for criterion in rubric.criteria:
        assert sorted(criterion.anchors) == [1, 2, 3, 4, 5] and criterion.question and set(criterion.names) == {"en", "zh"}
    assert all(set(domain.names) == {"en", "zh"} for domain in rubric.domains)


@pytest.mark.parametrize(
    ("alias", "column"),
    [
        ("text_accuracy", "accuracy"),
        ("Non-repetitiveness of Content", "originality"),
        ("sensitive_content_handling", "sensitivity"),
        ("Ratio of Valid Semantic Content", "semantic_density"),
    ],
)
def test_aliases_lead_to_the_released_columns(alias: str, column: str) -> None:
    assert load_rubric("dataman").criterion(alias).id == column


def test_a_rubric_is_read_from_any_path(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TINY)
    rubric = load_rubric(tmp_path / "tiny.toml")
    assert rubric == load_rubric(str(tmp_path / "tiny.toml"))
    assert (rubric.columns, rubric.labels, rubric.summary, rubric.version) == (("clarity",), (), None, 2)


def test_a_rubric_that_is_not_there() -> None:
    with pytest.raises(NotFound, match="built in are dataman"):
        load_rubric("datawoman")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("version = 2", "version = [", "here is not TOML"),
        ("version = 2", 'version = "2"', "'version' must be a whole number"),
        ("version = 2", "version = 2\nscael = 1", "unknown key 'scael'"),
        ("scale = [0, 2]", "scale = [0]", "'scale' must be two whole numbers"),
        ("scale = [0, 2]", "scale = [2, 0]", r"'scale' must rise, got 2\.\.0"),
        ("scale = [0, 2]", 'scale = [0, 2]\nsummary = "all"', "summary 'all'"),
        ('id = "clarity"', 'id = "is it clear"', "a criterion's id is a column name"),
        ('question = "Is it clear?"', "", "criterion 'clarity': 'question' must be text"),
        ("2 = ", "3 = ", "anchors are for levels 0..2"),
        ("[[criterion]]", "[criterion]", r"as a table of its own: \[\[criterion\]\]"),
        ("[[criterion]]", '[[domain]]\nid = "Sea"\n[[criterion]]', "domain 'Sea': 'letter' must be text"),
        ('id = "clarity"', 'id = "clarity"\naliases = "c"', "'aliases' must be a list"),
    ],
)
def test_a_mistake_is_named_with_its_place(old: str, new: str, message: str) -> None:
    assert old in TINY
    with pytest.raises(BadRecipe, match=message):
        parse_rubric(TINY.replace(old, new, 1), where="here")
