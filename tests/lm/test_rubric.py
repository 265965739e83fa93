"""Rubric files: the built-in ones are whole in every language, any size works, each mistake is named with its place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from typecase.core.rating import Criterion, Domain, Rubric
from typecase.errors import BadQuery, BadRecipe, NotFound
from typecase.lm.rate.rubric import builtin_rubrics, load_rubric, parse_rubric, rubric_languages, rubric_text

TINY = """
id = "tiny"
version = 2
scale = [0, 2]
[[criterion]]
id = "clarity"
question = "Is it clear?"
anchors = { 0 = "no", 2 = "yes" }
"""
GERMAN = TINY + '[criterion.wording.de]\nquestion = "Ist es klar?"\nanchors = { 0 = "nein", 2 = "ja" }\n'
HAN = re.compile(r"[\u4e00-\u9fff]")
SCHEME = '[[domain]]\nid = "Sea"\nletter = "S"\naliases = ["Ocean"]\n[[domain]]\nid = "Land"\nletter = "L"\n'


def test_the_built_in_rubric_is_whole() -> None:
    assert "dataman" in builtin_rubrics()
    rubric = load_rubric("dataman")
    assert rubric.columns[0] == "accuracy" and rubric.summary == "overall_score" and (rubric.low, rubric.high) == (1, 5)
    assert len(rubric.columns) == 14 and len(rubric.labels) == 15
    assert "".join(domain.letter for domain in rubric.domains) == "ABCDEFGHIJKLMNO"
    for criterion in rubric.criteria:
        assert sorted(criterion.anchors) == [1, 2, 3, 4, 5] and criterion.question and set(criterion.names) == {"en", "zh"}
    assert all(set(domain.names) == {"en", "zh"} for domain in rubric.domains)


def test_the_meaning_of_the_built_in_rubric_stays() -> None:
    """The starter's weights and every rating made so far are bound to this wording."""
    assert load_rubric("dataman").fingerprint == "46cb991b36e48ece911a8cf38bfce5cb"


@pytest.mark.parametrize("name", builtin_rubrics())
def test_every_built_in_rubric_speaks_chinese(name: str) -> None:
    english, chinese = load_rubric(name), load_rubric(name, "zh")
    assert rubric_languages(name) == ("en", "zh") and (english.language, chinese.language) == ("en", "zh")
    assert (chinese.columns, chinese.labels, chinese.summary) == (english.columns, english.labels, english.summary)
    assert chinese.fingerprint != english.fingerprint
    for here, there in zip(english.criteria, chinese.criteria, strict=True):
        texts = [there.question, *there.anchors.values()]
        assert all(HAN.search(text) for text in texts) and not HAN.search(here.question + "".join(here.anchors.values()))
        assert list(there.anchors) == list(here.anchors) == list(range(english.low, english.high + 1))
        assert len(set(there.anchors.values())) == len(there.anchors), f"{there.id}: two levels say the same"


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", builtin_rubrics())
def test_every_name_leads_to_its_own(name: str, language: str) -> None:
    rubric = load_rubric(name, language)
    for criterion in rubric.criteria:
        for known in (criterion.id, *criterion.aliases, *criterion.names.values(), criterion.id.upper()):
            assert rubric.criterion(known) is criterion
    for domain in rubric.domains:
        for known in (domain.id, domain.letter, domain.letter.lower(), *domain.aliases, *domain.names.values()):
            assert rubric.domain(known) is domain


@pytest.mark.parametrize("name", builtin_rubrics())
def test_a_rubric_is_written_and_read_back(name: str) -> None:
    for language in rubric_languages(name):
        rubric = load_rubric(name, language)
        again = parse_rubric(rubric_text(rubric), where="here")
        assert again == rubric and again.fingerprint == rubric.fingerprint


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(str.strip)


@given(
    num=st.sampled_from([1, 2, 14, 40]),
    question=_TEXT,
    anchor=st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    name=_TEXT,
    low=st.integers(-2, 3),
)
def test_any_rubric_is_written_and_read_back(num: int, question: str, anchor: str, name: str, low: int) -> None:
    criteria = tuple(
        Criterion(f"c{i}", question, {low: anchor, low + 1: "more"}, (f"alias {i}",), {"fr": f"{name} {i}"}) for i in range(num)
    )
    domains = tuple(Domain(f"d{i}", f"<{i}>", (), {"fr": f"{name} {i}"}) for i in range(num))
    rubric = Rubric("made", 3, low, low + 3, criteria, domains, "c0", {"fr": name}, "fr")
    assert parse_rubric(rubric_text(rubric), where="here") == rubric


@pytest.mark.parametrize(
    ("alias", "column"),
    [
        ("text_accuracy", "accuracy"),
        ("Non-repetitiveness of Content", "originality"),
        ("non_repetition", "originality"),
        ("sensitive_content_handling", "sensitivity"),
        ("Ratio of Valid Semantic Content", "semantic_density"),
        ("敏感内容得当性", "sensitivity"),
        ("总体评分", "overall_score"),
    ],
)
def test_aliases_lead_to_the_released_columns(alias: str, column: str) -> None:
    assert load_rubric("dataman").criterion(alias).id == column


def test_what_is_no_name_is_no_guess() -> None:
    rubric = load_rubric("dataman")
    for unknown in ("accurac", "", "准确"):
        with pytest.raises(BadQuery, match="has no criterion"):
            rubric.criterion(unknown)
    for unknown in ("P", "Sports", "医"):
        with pytest.raises(BadQuery, match="has no domain"):
            rubric.domain(unknown)


def test_a_name_of_two_is_refused() -> None:
    twice = TINY + '[[criterion]]\nid = "order"\nquestion = "In order?"\naliases = ["Clarity"]\n'
    with pytest.raises(BadRecipe, match="'clarity' stands for both 'clarity' and 'order'"):
        parse_rubric(twice, where="here")
    with pytest.raises(BadRecipe, match="'ocean' stands for both 'Sea' and 'Land'"):
        parse_rubric(TINY + SCHEME + 'aliases = ["OCEAN"]\n', where="here")
    with pytest.raises(BadRecipe, match="'mer' stands for both 'Sea' and 'Land'"):
        parse_rubric(TINY + SCHEME.replace('["Ocean"]', '["Mer"]') + 'names = { fr = "mer" }\n', where="here")


def test_a_rubric_is_read_from_any_path(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TINY)
    rubric = load_rubric(tmp_path / "tiny.toml")
    assert rubric == load_rubric(str(tmp_path / "tiny.toml"))
    assert (rubric.columns, rubric.labels, rubric.summary, rubric.version) == (("clarity",), (), None, 2)


def test_a_rubric_in_a_language_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "tiny.toml"
    path.write_text(GERMAN)
    assert rubric_languages(path) == ("en", "de")
    assert load_rubric(path, "de").criteria[0].question == "Ist es klar?"
    with pytest.raises(NotFound, match="no wording in 'zh': every criterion has en, de"):
        load_rubric(path, "zh")
    path.write_text(GERMAN.replace("version = 2", 'version = 2\nlanguage = "fr"'))
    assert load_rubric(path).language == "fr" and rubric_languages(path) == ("fr", "de")
    half = GERMAN + '[[criterion]]\nid = "order"\nquestion = "In order?"\n'
    path.write_text(half)
    assert rubric_languages(path) == ("en",)


def test_domains_may_stand_in_a_file_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TINY.replace("version = 2", 'version = 2\ndomains = "places.toml"'))
    with pytest.raises(NotFound, match="no file of domains at"):
        load_rubric(tmp_path / "tiny.toml")
    (tmp_path / "places.toml").write_text('id = "places"\nversion = 1\n' + SCHEME)
    rubric = load_rubric(tmp_path / "tiny.toml")
    assert rubric.labels == ("Sea", "Land") and rubric.domain("ocean").letter == "S"
    assert rubric == parse_rubric(TINY + SCHEME, where="here")
    (tmp_path / "places.toml").write_text('colour = "blue"\n' + SCHEME)
    with pytest.raises(BadRecipe, match=r"places\.toml: unknown key 'colour'"):
        load_rubric(tmp_path / "tiny.toml")


def test_a_rubric_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="built in are dataman"):
        load_rubric("datawoman")
    (tmp_path / "latin.toml").write_bytes(TINY.replace("clear", "cl\xe9ar").encode("latin-1"))
    with pytest.raises(BadRecipe, match="is not UTF-8 at byte"):
        load_rubric(tmp_path / "latin.toml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("version = 2", "version = [", "here is not TOML"),
        ("version = 2", 'version = "2"', "'version' must be a whole number"),
        ("version = 2", "version = 2\nscael = 1", "unknown key 'scael'"),
        ("version = 2", "version = 2\nlanguage = 7", "'language' must be a code"),
        ("version = 2", "version = 2\ndomains = 7", "'domains' must be the name of a file"),
        ("scale = [0, 2]", "scale = [0]", "'scale' must be two whole numbers"),
        ("scale = [0, 2]", "scale = [2, 0]", r"'scale' must rise, got 2\.\.0"),
        ("scale = [0, 2]", 'scale = [0, 2]\nsummary = "all"', "summary 'all'"),
        ('id = "clarity"', 'id = "is it clear"', "a criterion's id is a column name"),
        ('question = "Is it clear?"', "", "criterion 'clarity': 'question' must be text"),
        ("2 = ", "3 = ", "anchors are for levels 0..2"),
        ("[[criterion]]", "[criterion]", r"as a table of its own: \[\[criterion\]\]"),
        ("[[criterion]]", '[[domain]]\nid = "Sea"\n[[criterion]]', "domain 'Sea': 'letter' must be text"),
        ('id = "clarity"', 'id = "clarity"\naliases = "c"', "'aliases' must be a list"),
        ("wording.de", "wording.German", "by the code of a language such as zh, got 'German'"),
        ("wording.de", "wording.en", "'en' is the language of the file"),
        ('question = "Ist es klar?"', "", "wording 'de': 'question' must be text"),
        ('0 = "nein"', '1 = "nein"', "wording 'de': anchors must be for the same levels as in 'en'"),
        ('question = "Ist es klar?"', 'question = "?"\nhint = "?"', "wording 'de': unknown key 'hint'"),
    ],
)
def test_a_mistake_is_named_with_its_place(old: str, new: str, message: str) -> None:
    assert old in GERMAN
    with pytest.raises(BadRecipe, match=message):
        parse_rubric(GERMAN.replace(old, new, 1), where="here")
