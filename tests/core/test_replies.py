"""The parser of replies: every layout read exactly, every mutation recovered or refused with its code, nothing ever guessed."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from typecase.core.rating import Criterion, Domain, Rubric
from typecase.core.replies import CODES, EXPECTS, Reply, level_of, read_reply
from typecase.errors import BadQuery
from typecase.lm.rate.rubric import load_rubric

DATAMAN = load_rubric("dataman")


def rubric_of(num: int, low: int, high: int, *, domains: bool = True, summary: bool = False) -> Rubric:
    """A rubric of `num` criteria whose names hold what is awkward in names."""
    words = ("clear", "deep_thought", "C4 likeness", "e-mail style", "A", "清晰度", "top-level order")
    criteria = tuple(Criterion(f"{words[k % len(words)]}_{'abcdefgh'[k // len(words)]}x", "?", {}) for k in range(num))
    kinds = (Domain("Law", "A"), Domain("Lawn Care", "B", ("gardens",)), Domain("E-commerce", "E"), Domain("Other", "O"))
    return Rubric("odd", 1, low, high, criteria, kinds if domains else (), criteria[0].id if summary else None)


RUBRICS = (DATAMAN, rubric_of(1, 0, 5), rubric_of(40, 1, 10), rubric_of(3, 0, 100, domains=False), rubric_of(5, -2, 2))
Levels = dict[str, int]
Layout = Callable[[Rubric, Levels, str | None], str]


def name_of(rubric: Rubric, row: int, language: str = "en") -> str:
    """The name that is shown."""
    return rubric.criteria[row].name(language)


def letter_of(rubric: Rubric, domain: str | None) -> str:
    """The letter of a domain."""
    return next((d.letter for d in rubric.domains if d.id == domain), "")


def lined(template: str, domain: str = "Domain: [{letter}] {domain}", language: str = "en") -> Layout:
    """A line a criterion, and one for the domain at the end."""

    def lay(rubric: Rubric, levels: Levels, chosen: str | None) -> str:
        lines = [
            template.format(n=row + 1, name=name_of(rubric, row, language), id=c, v=levels[c], top=rubric.high)
            for row, c in enumerate(rubric.columns)
        ]
        tail = [domain.format(letter=letter_of(rubric, chosen), domain=chosen)] if rubric.domains else []
        return "\n".join([*lines, *tail])

    return lay


def as_json(shape: Callable[[Rubric, Levels], object]) -> Layout:
    """JSON of some shape, with the domain as a letter."""

    def lay(rubric: Rubric, levels: Levels, chosen: str | None) -> str:
        value = shape(rubric, levels)
        whole = {"domain": letter_of(rubric, chosen), **(value if isinstance(value, dict) else {"ratings": value})}
        return json.dumps(whole, indent=1, ensure_ascii=False)

    return lay


def inline(rubric: Rubric, levels: Levels, chosen: str | None) -> str:
    """All on one line."""
    scores = "; ".join(f"{name_of(rubric, row)}: {levels[c]}/{rubric.high}" for row, c in enumerate(rubric.columns))
    return scores + (f"; Domain: {letter_of(rubric, chosen)}" if rubric.domains else "")


def wide(rubric: Rubric, levels: Levels, chosen: str | None) -> str:
    """Full-width digits and punctuation, names in Chinese."""
    text = lined("[{n}]{name}：{v}/{top}", "领域：{letter}", "zh")(rubric, levels, chosen)
    head, sep, tail = text.partition("领域")
    return head.translate(str.maketrans("0123456789/", "０１２３４５６７８９／")) + sep + tail


TABLE = "| # | Criterion | Score | Remark |\n|---|:---|---|---|\n"
LAYOUTS: dict[str, Layout] = {
    "numbered": lined("{n}. {name}: {v}/{top}"),
    "brackets": lined("[{n}]{name}: {v}/{top}", "Application Domain: {letter}"),
    "parenthesis": lined("{n}) {name} - {v}"),
    "names": lined("{name}: {v}", "Domain: {domain}"),
    "ids": lined("{id} = {v}", "domain = {letter}"),
    "numbers": lined("[{n}] {v}/{top}"),
    "numbers and dots": lined("{n}. {v}"),
    "out of": lined("- {name}: {v} out of {top}", "- **Domain**: ({letter}) {domain}"),
    "markdown": lined("**{n}. {name}**: **{v}**/{top}", "**Domain:** {letter}. {domain}"),
    "code": lined("`{id}`: `{v}`", "`domain`: `{letter}`"),
    "comments": lined("{n}. {name}: {v}/{top} - as the levels say", "Domain: {letter}, by its words"),
    "reasons": lined("{name}: {v} (because it is so)"),
    "brackets after": lined("{name} ({v}/{top})"),
    "score word": lined("{n}. {name} score: {v}"),
    "arrow": lined("{name} -> {v}"),
    "points": lined("{name}：{v}分（满分{top}分）", "所属领域：{letter}", "zh"),
    "sections": lined("### {n}. {name}\nThe reasons for it.\nScore: {v}/{top}\n", "### Domain: {letter}"),
    "headings": lined("**{name}**\n{v}/{top}\n"),
    "table": lambda r, lv, d: TABLE + lined("| {n} | {name} | {v} | as said |", "| | Domain | {letter} | |")(r, lv, d),
    "bare table": lined("| **{name}** | {v}/{top} |", "| domain | {domain} |"),
    "fence": lambda r, lv, d: "Here:\n```\n" + lined("{n}. {name}: {v}/{top}")(r, lv, d) + "\n```\nDone.",
    "inline": inline,
    "wide": wide,
    "json": as_json(lambda r, lv: dict(lv)),
    "json scores": as_json(lambda r, lv: {"scores": {name_of(r, k): f"{lv[c]}/{r.high}" for k, c in enumerate(r.columns)}}),
    "json numbers": as_json(lambda r, lv: {"ratings": {str(k + 1): lv[c] for k, c in enumerate(r.columns)}}),
    "json reasons": as_json(lambda r, lv: {c: {"reason": "3/5 or so", "score": lv[c]} for c in r.columns}),
    "json list": as_json(lambda r, lv: [{"criterion": c, "score": lv[c], "reason": "1"} for c in r.columns]),
    "broken json": lambda r, lv, d: as_json(lambda r, lv: dict(lv))(r, lv, d).rstrip("}") + ",",
    "thoughts": lambda r, lv, d: "<think>\n1. Accuracy: 1/5\n</think>" + lined("{n}. {name}: {v}/{top}")(r, lv, d),
    "eaten tag": lambda r, lv, d: "Accuracy: 1/5, I think.\n</think>\n" + lined("{n}. {name}: {v}/{top}")(r, lv, d),
    "quoted": lambda r, lv, d: (
        f'It says:\n> 1. {name_of(r, 0)}: {r.low}/{r.high}\n> Domain: A\n"{name_of(r, 0)}: {r.low}"\n'
        + lined("{n}. {name}: {v}/{top}")(r, lv, d)
    ),
    "windows lines": lambda r, lv, d: lined("{n}. {name}: {v}/{top}")(r, lv, d).replace("\n", "\r\n"),
}


@st.composite
def ratings(draw: st.DrawFn) -> tuple[Rubric, Levels, str | None]:
    """A rubric, a level for every criterion, and a domain."""
    rubric = draw(st.sampled_from(RUBRICS))
    levels = {c: draw(st.integers(rubric.low, rubric.high)) for c in rubric.columns}
    return rubric, levels, draw(st.sampled_from(rubric.labels)) if rubric.domains else None


def check(reply: Reply, rubric: Rubric, expects: str = "form") -> None:
    """The laws of every reply."""
    asked = {*rubric.columns, *(("domain",) if rubric.domains else ())}
    if expects in ("score", "domain"):
        asked = {"domain"} if expects == "domain" else {rubric.summary or rubric.columns[0]}
    given_ = {*reply.scores, *(("domain",) if reply.domain is not None else ())}
    assert given_ | set(reply.missing) == asked and not given_ & set(reply.missing)
    assert set(reply.missing.values()) <= set(reply.codes) <= set(CODES)
    assert len(set(reply.codes)) == len(reply.codes)
    assert all(rubric.low <= score <= rubric.high for score in reply.scores.values())
    assert {c: level_of(s, rubric) for c, s in reply.scores.items()} == dict(reply.levels)
    whole = {"ok", "repaired"} if not reply.missing else {"partial"} if given_ else {"rejected"}
    assert reply.status in whole
    assert set(reply.places) <= given_


@pytest.mark.parametrize("layout", LAYOUTS)
@given(ratings())
@settings(max_examples=25, deadline=None)
def test_every_layout_is_read_exactly(layout: str, case: tuple[Rubric, Levels, str | None]) -> None:
    rubric, levels, domain = case
    text = LAYOUTS[layout](rubric, levels, domain)
    reply = read_reply(text, rubric)
    check(reply, rubric)
    assert (dict(reply.levels), reply.domain) == (levels, domain), (text, reply)
    assert reply.status in ("ok", "repaired")
    for name, (start, stop) in reply.places.items():
        said = text[start:stop]
        assert said == letter_of(rubric, domain) if name == "domain" else int(said) == abs(levels[name])


def mutate(text: str, at: int, change: Callable[[str], str]) -> str:
    """The text with its line `at` changed."""
    lines = text.split("\n")
    lines[at] = change(lines[at])
    return "\n".join(lines)


def other(level: int, rubric: Rubric) -> int:
    """Another level of the scale."""
    return level + 1 if level < rubric.high else level - 1


NUMBERED = LAYOUTS["numbered"]
PLANTED: dict[str, tuple[Callable[[str, int, Rubric], str], str]] = {
    "n/a": (lambda line, v, r: line.replace(f": {v}/", ": N/A /").replace(f" /{r.high}", ""), "na_value"),
    "below": (lambda line, v, r: line.replace(f": {v}/", f": {r.low - 1}/"), "out_of_range"),
    "above": (lambda line, v, r: line.replace(f": {v}/", f": {r.high + 1}/"), "out_of_range"),
    "far above": (lambda line, v, r: line.replace(f": {v}/", f": {10**12 + v}/"), "unclear_score"),
    "denominator": (lambda line, v, r: line.replace(f"/{r.high}", f"/{r.high + 5}"), "wrong_denominator"),
    "missing": (lambda line, v, r: "That is hard to say.", "too_few_scores"),
    "two": (lambda line, v, r: f"{line} or {other(v, r)}/{r.high}", "unclear_score"),
    "choice": (lambda line, v, r: line.replace(f": {v}/{r.high}", f": {r.low}-{r.high}"), "unclear_score"),
    "words": (lambda line, v, r: line.replace(f": {v}/{r.high}", f": {r.high} faults in the text"), "unclear_score"),
    "wrong number": (lambda line, v, r: line.replace(line.split(".")[0] + ".", "99.", 1), "criterion_mismatch"),
    "another": (lambda line, v, r: f"{line}\n{line.replace(f': {v}/', f': {other(v, r)}/')}", "conflicting_scores"),
    "objection": (
        lambda line, v, r: f"{line}\nOn reflection {line.split('. ')[1].split(':')[0]} deserves {other(v, r)}/{r.high}.",
        "conflicting_scores",
    ),
}  # fmt: skip


@pytest.mark.parametrize("planted", PLANTED)
@given(ratings(), st.data())
@settings(max_examples=25, deadline=None)
def test_a_spoilt_score_is_missing_with_its_code_and_the_others_hold(
    planted: str, case: tuple[Rubric, Levels, str | None], data: st.DataObject
) -> None:
    rubric, levels, domain = case
    row = data.draw(st.integers(0, len(levels) - 1))
    column = rubric.columns[row]
    change, code = PLANTED[planted]
    text = mutate(NUMBERED(rubric, levels, domain), row, lambda line: change(line, levels[column], rubric))
    reply = read_reply(text, rubric)
    check(reply, rubric)
    expected = {c: v for c, v in levels.items() if c != column}
    if planted == "missing" and not expected:
        code = "no_scores"
    assert dict(reply.levels) == expected and reply.domain == domain, (text, reply)
    assert reply.missing == {column: code}, (text, reply)


@given(ratings(), st.integers(0, 10**6), st.sampled_from([0.5, 0.25]))
def test_a_fraction_is_kept_and_its_level_is_the_nearest(
    case: tuple[Rubric, Levels, str | None], pick: int, part: float
) -> None:
    rubric, levels, domain = case
    column = rubric.columns[pick % len(levels)]
    base = min(levels[column], rubric.high - 1)
    if base < 0:
        base = 0
    text = mutate(
        NUMBERED(rubric, levels, domain),
        pick % len(levels),
        lambda line: line.replace(f": {levels[column]}/", f": {base + part}/"),
    )
    reply = read_reply(text, rubric)
    check(reply, rubric)
    assert reply.scores[column] == base + part and reply.levels[column] == (base + 1 if part == 0.5 else base)
    assert "fractional_score" in reply.codes and reply.status == "repaired"


def test_the_tie_rules() -> None:
    assert [level_of(score, DATAMAN) for score in (1.5, 2.4, 2.5, 3.5, 4.5)] == [2, 2, 3, 4, 5]
    away = [level_of(score, DATAMAN, "away_from_3") for score in (1.5, 2.5, 2.9, 3.0, 3.1, 4.5)]
    assert away == [1, 2, 2, 3, 4, 5]
    reply = read_reply("Accuracy: 2.5/5", DATAMAN, rounding="away_from_3")
    assert reply.scores["accuracy"] == 2.5 and reply.levels["accuracy"] == 2


@given(ratings())
@settings(deadline=None)
def test_two_alike_halves_are_one(case: tuple[Rubric, Levels, str | None]) -> None:
    rubric, levels, domain = case
    text = NUMBERED(rubric, levels, domain)
    reply = read_reply(text + "\n\n" + text, rubric)
    check(reply, rubric)
    assert dict(reply.levels) == levels and reply.domain == domain and reply.status == "repaired"
    assert "duplicate_half" in reply.codes


@given(ratings(), st.data())
@settings(deadline=None)
def test_a_cut_or_shuffled_or_thinned_reply_is_never_read_wrong(
    case: tuple[Rubric, Levels, str | None], data: st.DataObject
) -> None:
    rubric, levels, domain = case
    layout = data.draw(st.sampled_from([name for name in LAYOUTS if name not in ("headings", "sections")]))
    text = LAYOUTS[layout](rubric, levels, domain)
    cut = text[: data.draw(st.integers(0, len(text)))]
    reply = read_reply(cut, rubric, cut=True)
    check(reply, rubric)
    assert reply.levels.items() <= levels.items() and reply.domain in (None, domain), (cut, reply)
    assert "truncated_reply" in reply.codes
    lines = data.draw(st.permutations(NUMBERED(rubric, levels, domain).split("\n")))
    kept = lines[: data.draw(st.integers(0, len(lines)))]
    noise = data.draw(st.lists(st.sampled_from(["So be it.", "", "---", "It has 12 parts.", "> Accuracy: 1/5", "1) Read it"])))
    reply = read_reply("\n".join([*noise, *kept, *noise]), rubric)
    check(reply, rubric)
    assert reply.levels.items() <= levels.items() and len(reply.levels) == sum(line[0].isdigit() for line in kept)


def test_swapped_numbers_take_both_out() -> None:
    text = "1. Accuracy: 4/5\n2. Language Consistency: 3/5\n3. Coherence: 2/5\n4. Semantic Density: 4/5"
    reply = read_reply(text, DATAMAN)
    assert set(reply.scores) == {"accuracy", "semantic_density"}
    assert reply.missing["coherence"] == reply.missing["language_consistency"] == "criterion_mismatch"
    strange = read_reply("1. Accuracy: 4/5\n2. Readability: 3/5", DATAMAN)
    assert strange.missing["coherence"] == "criterion_mismatch" and set(strange.scores) == {"accuracy"}


NEVER_READ_WRONG = {
    "Accuracy: 4/5 → after all 3/5": "unclear_score",
    "Accuracy: ~~3~~ 4/5": "no_scores",
    "Accuracy: <del>3</del> 4": "unclear_score",
    "Accuracy: 4.5 out of 5 (rounded 5)": "unclear_score",
    "Accuracy [1-5]: 4": "unclear_score",
    "Accuracy: 3 - 4": "unclear_score",
    "Accuracy: 4,5/5": "unclear_score",
    "Accuracy: 4½": "unclear_score",
    "Accuracy: 1e3": "unclear_score",
    "Accuracy: 4+": "unclear_score",
    "Accuracy: 80%": "unclear_score",
    "Accuracy: 4 5": "unclear_score",
    "Accuracy: 4*5": "unclear_score",
    "Accuracy: -1": "out_of_range",
    "Accuracy: -4/5": "out_of_range",
    "Accuracy: 0.8": "out_of_range",
    "Accuracy: 4/5, Confidence: 3/5": "unclear_score",
    "| Accuracy | 5 | 4 |": "unclear_score",
    "| Accuracy | Coherence |\n|---|---|\n| 4 | 3 |": "no_scores",
    "Accuracy of facts: 2/5": "no_scores",
    "The accuracy is 4/5": "no_scores",
    "Accuracy is not 4/5": "no_scores",
    "4 - 5": "no_scores",
    "### Accuracy\nGood.\n### Readability\nScore: 2/5": "no_scores",
    "Accuracy\nGood.\nReadability\nScore: 2/5": "no_scores",
    "Accuracy\nReadability: so so.\nScore: 2/5": "no_scores",
    "Accuracy: 4/5\nAccuracy should have been 3.": "conflicting_scores",
    "Accuracy: 4/5\nI lower Accuracy to 3 instead.": "conflicting_scores",
    "Accuracy: 4/5\nI'd say 2/5 for accuracy": "conflicting_scores",
    '{"accuracy": {"score": 4, "max": 10}}': "wrong_denominator",
    '{"max_scores": {"accuracy": 5}}': "no_scores",
    '[{"criterion": "accuracy", "score": 8, "max_score": 10}]': "wrong_denominator",
    '{"accuracy": [4, 3]}': "unclear_score",
    '{"example": {"accuracy": 5}}': "no_scores",
    '{"accuracy": true}': "unclear_score",
    '{"accuracy": 4, "accuracy": 2}': "conflicting_scores",
    '{"accuracy": null}': "na_value",
    '{"accuracy": NaN}': "out_of_range",
    '[{"accuracy": 4}, {"accuracy": 2}]': "conflicting_scores",
    '[{"number": 2, "criterion": "accuracy", "score": 4}]': "criterion_mismatch",
    "Accuracy (Coherence): 4": "criterion_mismatch",
    "Accuracy: four": "no_scores",
    "Accuracy: ____/5": "no_scores",
    "Accuracy: ★★★★☆": "no_scores",
    "Accuracy: 4th": "unclear_score",
}


@pytest.mark.parametrize("text", NEVER_READ_WRONG)
def test_what_may_mean_something_else_is_not_read(text: str) -> None:
    reply = read_reply(text, DATAMAN)
    check(reply, DATAMAN)
    assert reply.missing.get("accuracy") == NEVER_READ_WRONG[text], reply


READ = {
    "Accuracy (1–5): 4": 4,
    "Accuracy (previously 3): 4/5": 4,
    "Accuracy: 4 / 5 stars": 4,
    "Accuracy: 4 (confidence 0.9)": 4,
    "Overall: 2\nAccuracy is 4": 4,
    "Accuracy: 4/5 - 12 typos": 4,
    "#### 1) **Accuracy** – _4/5_": 4,
    "• Accuracy\t4": 4,
    "**Accuracy**\nReason: it reads well\nScore: 4/5": 4,
    "Accuracy:\n\n4/5": 4,
    "Textual Accuracy: 4": 4,
    "accuracy score is 4.": 4,
    '{"accuracy": {"score": 4, "max": 5}}': 4,
    '{"result": {"scores": [{"name": "Accuracy", "rating": "4/5"}]}}': 4,
    "1. Accuracy: 4/5 (because it has no faults)": 4,
    "准确性：４分": 4,
    "<b>Accuracy</b>: 4/5<br>": 4,
    "Accuracy: 4/5, Coherence: 3/5": 4,
    "Accuracy: ___/5\nAccuracy: 4/5": 4,
    "Accuracy: 4\nThe coherence is 3/5.": 4,
    "1 | Accuracy | 4": 4,
    "Accuracy,4": 4,
}


@pytest.mark.parametrize("text", READ)
def test_what_can_mean_one_thing_only_is_read(text: str) -> None:
    reply = read_reply(text, DATAMAN)
    check(reply, DATAMAN)
    assert reply.levels.get("accuracy") == READ[text], reply


DOMAINS = {
    "Domain: E": "Technology", "domain - [E]": "Technology", "**Domain**: Technology (E)": "Technology",
    "领域：E": "Technology",
    "15. Domain: e. technology": "Technology", "Domain: L. Retail E-commerce": "Retail E-commerce",
    "[E] Technology": "Technology",
    "Domain: E, a text about machines": "Technology", "Category: Technology - software": "Technology",
    "Domain: E and H": "multiple_domains", "Domain: E, H": "multiple_domains", "Domain: [E] Coding": "multiple_domains",
    "Domain: Technology or Coding": "multiple_domains", "Domain: E\nDomain: H": "multiple_domains",
    "Domain: E/H": "multiple_domains",
    "Domain: Q": "unknown_domain", "Domain: Sports": "unknown_domain", "Domain: it is hard to say": "unknown_domain",
    "Domain: N/A": "no_domain", "Domain: ___": "no_domain", "The domain is clear.": "no_domain",
    "[E] Technology\n[H] Coding": "multiple_domains", "E": "no_domain", "Domain: technologyish": "unknown_domain",
}  # fmt: skip


@pytest.mark.parametrize("text", DOMAINS)
def test_a_domain_is_checked_like_a_score(text: str) -> None:
    reply = read_reply(
        LAYOUTS["ids"](DATAMAN, dict.fromkeys(DATAMAN.columns, 4), "Law").rsplit("\n", 1)[0] + "\n" + text, DATAMAN
    )
    check(reply, DATAMAN)
    assert (reply.domain or reply.missing["domain"]) == DOMAINS[text]
    assert len(reply.scores) == 14


BARE = ["E", *(str(1 + k % 5) for k in range(14))]
BARE_LEVELS = [1 + k % 5 for k in range(14)]
BARE_CASES: dict[str, tuple[str, list[int | None], str | None, str | None]] = {
    "plain": ("\n".join(BARE), BARE_LEVELS, "Technology", None),
    "spaced": (" \n\n".join(BARE) + "\n", BARE_LEVELS, "Technology", None),
    "wide": ("\n".join(BARE).translate(str.maketrans("12345", "１２３４５")), BARE_LEVELS, "Technology", "non_ascii_digits"),
    "twice": ("\n".join(BARE + BARE), BARE_LEVELS, "Technology", "duplicate_half"),
    "28 scores": ("\n".join(BARE + BARE[1:]), BARE_LEVELS, "Technology", "duplicate_half"),
    "zero": ("\n".join(["E", "0", *BARE[2:]]), [None, *BARE_LEVELS[1:]], "Technology", "out_of_range"),
    "n/a": ("\n".join(["E", "N/A", *BARE[2:]]), [None, *BARE_LEVELS[1:]], "Technology", "na_value"),
    "one less": ("\n".join(BARE[:-1]), [None] * 14, "Technology", "too_few_scores"),
    "one more": ("\n".join([*BARE, "4"]), [None] * 14, "Technology", "too_many_scores"),
    "no domain": ("\n".join(BARE[1:]), BARE_LEVELS, None, "no_domain"),
    "odd letter": ("\n".join(["Q", *BARE[1:]]), BARE_LEVELS, None, "unknown_domain"),
    "two letters": ("\n".join(["E, H", *BARE[1:]]), BARE_LEVELS, None, "multiple_domains"),
    "a word amid": ("\n".join([*BARE[:5], "good", *BARE[6:]]), [None] * 14, "Technology", "misaligned"),
    "a greeting": ("\n".join(["Here it is:", *BARE[:-1]]), [None] * 14, None, "too_many_scores"),
    "named": ("Domain: E\n" + "\n".join(f"[{k + 1}]{DATAMAN.criteria[k].name()}: {v}/5" for k, v in enumerate(BARE_LEVELS)),
              BARE_LEVELS, "Technology", None),
    "decimal": ("\n".join(["E", "1.5", *BARE[2:]]), [2, *BARE_LEVELS[1:]], "Technology", "fractional_score"),
}  # fmt: skip


@pytest.mark.parametrize("case", BARE_CASES)
def test_the_bare_form_is_read_by_position_only_if_it_fits(case: str) -> None:
    text, levels, domain, code = BARE_CASES[case]
    reply = read_reply(text, DATAMAN, expects="bare")
    check(reply, DATAMAN)
    assert [reply.levels.get(c) for c in DATAMAN.columns] == levels and reply.domain == domain, reply
    assert code in reply.codes if code else reply.codes == ()


def test_a_cut_bare_form_is_read_if_it_is_whole() -> None:
    whole = read_reply("\n".join(BARE), DATAMAN, expects="bare", cut=True)
    assert whole.status == "ok" and len(whole.scores) == 14
    short = read_reply("\n".join(BARE[:-1]), DATAMAN, expects="bare", cut=True)
    assert not short.scores and short.domain == "Technology" and "truncated_reply" in short.codes
    ten = rubric_of(3, 1, 10)
    reply = read_reply("A\n4\n10\n1", ten, expects="bare", cut=True)  # the last may be 10
    assert list(reply.levels.values()) == [4, 10] and "truncated_reply" in reply.codes


@pytest.mark.parametrize(
    ("text", "outcome"),
    [("4", 4), (" 4/5 ", 4), ("**4**", 4), ("Overall Score: 4", 4), ("Overall: 4/5", 4), ("6", "out_of_range"),
     ("", "empty_reply"), ("4 or 5", "unclear_score"), ("good", "no_scores"), ("n/a", "na_value"),
     ("Accuracy: 4", "no_scores")],
)  # fmt: skip
def test_a_score_alone(text: str, outcome: int | str) -> None:
    reply = read_reply(text, DATAMAN, expects="score")
    check(reply, DATAMAN, "score")
    assert (reply.levels.get("overall_score") or reply.missing["overall_score"]) == outcome


@pytest.mark.parametrize(
    ("text", "outcome"),
    [("E", "Technology"), ("[E] Technology", "Technology"), ("technology.", "Technology"), ("Domain: E", "Technology"),
     ("E H", "multiple_domains"), ("E or H", "multiple_domains"), ("Sports", "unknown_domain"),
     ("I cannot say that about it", "refusal")],
)  # fmt: skip
def test_a_domain_alone(text: str, outcome: str) -> None:
    reply = read_reply(text, DATAMAN, expects="domain")
    check(reply, DATAMAN, "domain")
    assert (reply.domain or reply.missing["domain"]) == outcome


def test_a_marker_hides_all_before_it() -> None:
    quoted = NUMBERED(DATAMAN, dict.fromkeys(DATAMAN.columns, 1), "Law")
    form = NUMBERED(DATAMAN, dict.fromkeys(DATAMAN.columns, 4), "Coding")
    reply = read_reply(f"The text says {quoted}\nRATINGS ab12\n{form}", DATAMAN, marker="RATINGS ab12")
    assert reply.status == "ok" and set(reply.levels.values()) == {4} and reply.domain == "Coding"
    without = read_reply(form, DATAMAN, marker="RATINGS ab12")
    assert without.status == "repaired" and "marker_missing" in without.codes
    mixed = read_reply(f"{quoted}\n{form}", DATAMAN, marker="RATINGS ab12")
    assert mixed.status == "rejected" and set(mixed.missing.values()) == {"conflicting_scores", "multiple_domains"}


def test_lines_of_the_document_are_not_the_answer_where_no_marker_is() -> None:
    document = "A review.\n  1. Accuracy: 1/5\nDomain: A\nThe end."
    echo = "The text says\n**1. Accuracy: 1/5**\nDomain: A\n"
    alone = read_reply(echo, DATAMAN, document=document)
    assert alone.status == "rejected" and "quoted_document" in alone.codes and alone.missing["accuracy"] == "no_scores"
    form = NUMBERED(DATAMAN, dict.fromkeys(DATAMAN.columns, 4), "Coding")
    both = read_reply(echo + form, DATAMAN, document=document, marker="RATINGS x")
    assert both.status == "repaired" and both.levels["accuracy"] == 4 and both.domain == "Coding"
    with_marker = read_reply("RATINGS x\n" + form, DATAMAN, document=form, marker="RATINGS x")
    assert with_marker.status == "ok" and len(with_marker.scores) == 14


@pytest.mark.parametrize(
    ("text", "code"),
    [("", "empty_reply"), (" \n\t", "empty_reply"), ("I'm sorry, but I can't rate this.", "refusal"),
     ("抱歉，我无法评分。", "refusal"), ("It is a fine text.", "no_scores"), ("<think>Accuracy: 4/5", "no_scores")],
)  # fmt: skip
def test_a_reply_without_anything_says_why(text: str, code: str) -> None:
    reply = read_reply(text, DATAMAN)
    check(reply, DATAMAN)
    assert reply.status == "rejected" and reply.missing["accuracy"] == code


def test_a_question_that_cannot_be_asked_is_refused() -> None:
    with pytest.raises(BadQuery, match="no summary"):
        read_reply("4", rubric_of(3, 1, 5), expects="score")
    with pytest.raises(BadQuery, match="no domains"):
        read_reply("A", rubric_of(3, 1, 5, domains=False), expects="domain")


PIECES = [
    "accuracy", "Coherence", "1.", "[2]", "3)", ":", "：", "4", "5/5", "４", "/", "N/A", "\n", "\n\n", "|", "{", "}", '"',
    "[", "]",
    "Domain", "E", "Technology", "<think>", "</think>", "<text>", "```", "**", ",", ";", "-", "->", "out of 5", "满分5分",
    "\\", "_",
    "score", "3.5", "-1", "٤", "²", "\x00", "\ud800", "\u2028", "é", "整体", "overall", " ", "{\"accuracy\": 4", "NaN",
    "1e9", "true",
]  # fmt: skip


@given(
    st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=40),
    st.sampled_from(RUBRICS),
    st.sampled_from(EXPECTS),
    st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_no_text_raises_and_every_gap_has_a_code(pieces: list[str], rubric: Rubric, expects: str, cut: bool) -> None:
    if (expects == "score" and rubric.summary is None and len(rubric.criteria) > 1) or (
        expects == "domain" and not rubric.domains
    ):
        return
    check(read_reply("".join(pieces), rubric, expects=expects, cut=cut), rubric, expects)  # type: ignore[arg-type]


HOSTILE = [
    "1.", "{", "<think>", "<text-", "accuracy: 4, ", "accuracy ", " ", "1. accuracy: 4/5 ", "|", "*", "4/5 ", "{\"a\":", "９",
    "((",
    "accuracy:(4\n", "Domain: E,", "[[\"a\"", "domain: technology ", "accuracy: 4 a 3 a", '"', "x 3/5 is 4, accuracy\n", "- ",
    "分",
    "# ", "1e9", "\u200b", "[1] [1] ", "</think>", "E\n4\n", "### accuracy\n", "4\n", "{\"1\": 4}\n",
]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_text_is_read_to_its_end(piece: str) -> None:
    for expects in EXPECTS:
        check(read_reply(piece * (20_000 // len(piece)), DATAMAN, expects=expects), DATAMAN, expects)


@pytest.mark.slow
@pytest.mark.parametrize("piece", HOSTILE)
def test_a_megabyte_of_it_takes_no_more_than_its_length(piece: str) -> None:
    """A second or so; anything that grows with the square of the length would run into the time limit of the test run."""
    for expects in ("form", "bare"):
        check(read_reply(piece * (1_000_000 // len(piece)), DATAMAN, expects=expects), DATAMAN, expects)  # type: ignore[arg-type]
