"""The teacher: bounded rounds, honest gaps, views as spans, expected levels from what a server tells, costs before the run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.lm.server import Server, serve, status
from tests.lm.test_pace import FakeClock
from typecase.core.rating import Criterion, Domain, Rubric
from typecase.errors import BadQuery, BadRecipe, NotFound
from typecase.lm.cache import AnswerCache, CachedLM
from typecase.lm.fake import FakeLM
from typecase.lm.pace import Backoff, Price
from typecase.lm.protocol import Answer, Can, Failure, Form
from typecase.lm.rate.chances import chances_at, tokens_of
from typecase.lm.rate.prompts import Example, mark_of, prompt_form
from typecase.lm.rate.rater import Ratings, pack_texts
from typecase.lm.rate.raters import open_rater
from typecase.lm.rate.rubric import load_rubric
from typecase.lm.rate.teacher import Teacher, open_teacher
from typecase.lm.rate.teacher_table import attempt_log, load_examples
from typecase.lm.rate.teacher_terms import Attempt, Settings, cut_head_tail
from typecase.lm.rate.windowed import WindowedRater
from typecase.lm.remote import RemoteLM
from typecase.lm.remote import Server as Address

DATAMAN = load_rubric("dataman")
SMALL = Rubric(
    "small", 1, 1, 5, (Criterion("clear", "Is it clear?", {1: "no", 5: "yes"}), Criterion("deep", "Is it deep?", {})),
    (Domain("Law", "A"), Domain("Music", "B")), "clear",
)  # fmt: skip
ROOMY = Can(generate=True, forms=frozenset(), top_logprobs=5)
TELLS_NOTHING = Can(generate=True)
GOOD = "Domain: B\n[1] clear: 4/5\n[2] deep: 2/5"


class Scripted(FakeLM):
    """A FakeLM whose answer depends on the prompt and on how often it was asked it; it keeps what it was asked."""

    def __init__(self, script: Callable[[str, int], str | Failure], can: Can = TELLS_NOTHING) -> None:
        super().__init__("scripted", can=can)
        self.script, self.asked = script, []
        self.seen: dict[str, int] = {}

    def generate(self, prompts: Any, **wanted: Any) -> Iterator[Answer | Failure]:
        for prompt in prompts:
            number = self.seen.get(prompt, 0)
            self.seen[prompt] = number + 1
            self.asked.append((prompt, wanted))
            said = self.script(prompt, number)
            if isinstance(said, Failure):
                yield said
                continue
            cut = said.endswith("…")
            yield Answer(said.rstrip("…"), "length" if cut else "stop", 10, 5)


def teacher_of(lm: FakeLM, rubric: Rubric = SMALL, template: str = "teacher", **settings: Any) -> Teacher:
    return Teacher(lm, prompt_form(rubric, template), Settings(**settings))


def rate(teacher: Teacher, *texts: str) -> Ratings:
    return teacher.rate(*pack_texts(texts))


def always(reply: str) -> Callable[[str, int], str]:
    return lambda prompt, number: reply


def test_a_reply_becomes_a_rating() -> None:
    teacher = teacher_of(Scripted(always(f"It is clear.\n{GOOD}")))
    ratings = rate(teacher, "one", "  ", "two")
    assert ratings.status_names() == ["repaired", "empty_text", "repaired"]  # the marker is missing
    assert ratings.scores[0].tolist() == [4.0, 2.0] and np.isnan(ratings.scores[1]).all()
    assert ratings.domain_names() == ["Music", None, "Music"] and ratings.domain_chances[0].tolist() == [0.0, 1.0]
    assert ratings.rated_bytes.tolist() == [3, 0, 3]
    detail = ratings.detail
    assert detail is not None and detail.levels.tolist() == [[4, 2], [0, 0], [4, 2]]
    assert detail.codes == (("marker_missing",), (), ("marker_missing",)) and detail.raw[0] == f"It is clear.\n{GOOD}"
    assert np.isnan(ratings.confidence).all() and np.isnan(detail.surety).all() and detail.windows == ((), (), ())


def test_with_the_marker_a_reply_is_ok_and_quotes_count_for_nothing() -> None:
    def reply(prompt: str, number: int) -> str:
        form = prompt.rsplit("RATINGS ", 1)[1].split("\n")[0]
        return f"The text says: clear: 1/5, Domain: A\nRATINGS {form}\n{GOOD}"

    ratings = rate(teacher_of(Scripted(reply)), "clear: 1/5\nDomain: A")
    assert ratings.status_names() == ["ok"] and ratings.row(0).scores == {"clear": 4.0, "deep": 2.0}


def test_bad_replies_are_asked_again_up_to_the_bound_and_each_attempt_is_logged() -> None:
    def script(prompt: str, number: int) -> str | Failure:
        if "never" in prompt.split("document-")[2]:
            return ["", "clear: 9/5", "I'm sorry, I can't."][number]
        if "late" in prompt.split("document-")[2]:
            return ["clear: 3/5", Failure("timeout", "x"), GOOD][number]
        return GOOD

    lm, log = Scripted(script), []
    teacher = Teacher(lm, prompt_form(SMALL, "teacher"), Settings(seed=7), log=log.append)
    ratings = rate(teacher, "good", "late", "never")
    assert ratings.status_names() == ["repaired", "repaired", "rater_failed"]
    assert [report.asked for report in teacher.report()] == [3, 2, 2]
    assert [dict(report.statuses) for report in teacher.report()] == [
        {"repaired": 1, "partial": 1, "rejected": 1}, {"rejected": 2}, {"repaired": 1, "rejected": 1},
    ]  # fmt: skip
    assert teacher.report()[1].codes["timeout"] == 1 and teacher.report()[2].codes["refusal"] == 1
    asked = [(wanted["seed"], wanted["temperature"]) for _, wanted in lm.asked]
    assert asked == [(7, 0.0)] * 3 + [(8, 0.3)] * 2 + [(9, 0.7)] * 2
    assert len(log) == 7 and all(isinstance(attempt, Attempt) for attempt in log)
    assert [a.round for a in log] == [0, 0, 0, 1, 1, 2, 2] and log[1].reply == "clear: 3/5" and log[3].reply is None


def test_the_fullest_reply_counts_and_replies_are_not_mixed() -> None:
    replies = ["deep: 3/5", "clear: 4/5\nDomain: A", "deep: 1/5\nDomain: B"]
    ratings = rate(teacher_of(Scripted(lambda prompt, number: replies[number])), "text")
    assert ratings.status_names() == ["partial"]
    assert ratings.row(0).scores == {"clear": 4.0, "deep": None} and ratings.row(0).domain == "Law"
    assert ratings.detail is not None and "too_few_scores" in ratings.detail.codes[0]


@pytest.mark.parametrize(
    ("kind", "code", "rounds"),
    [("too_long", "too_long", 1), ("budget", "budget", 1), ("timeout", "timeout", 3), ("refused", "refusal", 3),
     ("server_error", "api_error", 3), ("malformed", "api_error", 3)],
)  # fmt: skip
def test_a_failure_is_a_row_with_a_code(kind: Any, code: str, rounds: int) -> None:
    lm = Scripted(lambda prompt, number: Failure(kind, "planted"))
    ratings = rate(teacher_of(lm), "text")
    assert ratings.status_names() == ["rater_failed"] and len(lm.asked) == rounds
    assert ratings.detail is not None and ratings.detail.codes == ((code,),)


def test_a_fraction_stays_and_a_cut_answer_is_marked() -> None:
    ratings = rate(teacher_of(Scripted(always("Domain: B\nclear: 3.5/5\ndeep: 2/5\nand…")), rounds=1), "text")
    assert ratings.scores[0].tolist() == [3.5, 2.0] and ratings.detail is not None
    assert ratings.detail.levels[0].tolist() == [4, 2]
    assert {"fractional_score", "truncated_reply"} <= set(ratings.detail.codes[0])
    away = rate(teacher_of(Scripted(always("Domain: B\nclear: 2.5/5\ndeep: 2/5")), rounding="away_from_3"), "text")
    assert away.detail is not None and away.detail.levels[0].tolist() == [2, 2]


def told(*tokens: tuple[tuple[str, float], ...]) -> Answer:
    """An answer of which each token's alternatives with their chances are told; the first is the one that was taken."""
    top = tuple(tuple((text, float(np.log(p))) for text, p in token) for token in tokens)
    logprobs = np.array([token[0][1] for token in top], np.float32)
    return Answer("".join(token[0][0] for token in tokens), "stop", 1, len(tokens), logprobs, top)


LEVEL = (" 4", 0.6), (" 5", 0.2), (" 3", 0.1), (" four", 0.05)


def test_an_absent_label_is_bounded_and_not_impossible() -> None:
    answer = told((("clear:", 0.9), ("Clear:", 0.1)), LEVEL)
    tokens = tokens_of(answer)
    assert tokens == [(0, 6, 0), (6, 8, 1)]
    found = chances_at(answer, tokens, (7, 8), ["1", "2", "3", "4", "5"])
    assert found is not None and found.mass == pytest.approx(0.9)
    bound = 0.05  # the least that was told, and just what is left
    weights = np.array([bound / 2, bound / 2, 0.1, 0.6, 0.2])
    assert found.middle == pytest.approx(weights / weights.sum())
    assert found.surety[3] == pytest.approx(0.6 / (0.9 + 2 * bound))
    full = told(*[((str(k), 0.2), *((str(j), 0.2) for j in range(1, 6) if j != k)) for k in (3,)])
    sure = chances_at(full, tokens_of(full) or [], (0, 1), ["1", "2", "3", "4", "5"])
    assert sure is not None and sure.middle == pytest.approx(np.full(5, 0.2)) and sure.surety == pytest.approx(np.full(5, 0.2))


def test_what_does_not_spell_the_answer_tells_nothing() -> None:
    answer = told((("clear: 4/5", 1.0),), ((" x", 1.0),))
    assert tokens_of(Answer("something else", "stop", 1, 2, answer.logprobs, answer.top)) is None
    assert chances_at(answer, tokens_of(answer) or [], (7, 8), ["1", "10"]) is None  # "1" may go on
    two = told((("1", 1.0),), (("0", 1.0),))
    assert chances_at(two, tokens_of(two) or [], (0, 2), ["5", "10"]) is None  # two tokens


class Telling(Scripted):
    """Answers with tokens that are told; without them if they are not asked for."""

    def __init__(self, answer: Answer, can: Can = ROOMY, fails: bool = False) -> None:
        super().__init__(always(""), can)
        self.answer, self.fails = answer, fails

    def generate(self, prompts: Any, **wanted: Any) -> Iterator[Answer | Failure]:
        for prompt in prompts:
            self.asked.append((prompt, wanted))
            if wanted["top_logprobs"] and self.fails:
                yield Failure("no_logprobs", "none told")
            else:
                a = self.answer
                yield a if wanted["top_logprobs"] else Answer(a.text, a.finish, 1, 1)


FORM = told(
    (("Domain:", 1.0),), ((" B", 0.7), (" A", 0.2), (" C", 0.1)), (("\nclear:", 1.0),), LEVEL, (("/5\ndeep:", 1.0),),
    ((" 2", 1.0),),
)  # fmt: skip


def test_scores_are_expected_levels_where_chances_are_told() -> None:
    teacher = teacher_of(Telling(FORM))
    ratings = rate(teacher, "text")
    detail = ratings.detail
    assert detail is not None and detail.levels[0].tolist() == [4, 2]
    expected = (0.1 * 3 + 0.6 * 4 + 0.2 * 5 + 0.025 * (1 + 2)) / 0.95
    assert ratings.scores[0].tolist() == pytest.approx([expected, 2.0], abs=1e-5)
    assert detail.surety[0].tolist() == pytest.approx([0.6, 1.0], abs=1e-5) and detail.label_mass[0] == pytest.approx(0.9)
    assert ratings.confidence[0] == pytest.approx(0.6, abs=1e-5)
    assert ratings.domain_chances[0] == pytest.approx([0.2 / 0.9, 0.7 / 0.9]) and ratings.domain_names() == ["Music"]
    assert "low_label_mass" not in detail.codes[0]
    strict = Teacher(Telling(FORM), prompt_form(SMALL, "teacher"), Settings(least_mass=0.95))
    low = rate(strict, "text").detail
    assert low is not None and "low_label_mass" in low.codes[0]


def test_a_server_that_tells_nothing_is_asked_without() -> None:
    lm = Telling(FORM, fails=True)
    ratings = rate(teacher_of(lm), "one", "two")
    assert ratings.status_names() == ["repaired"] * 2 and ratings.scores[0].tolist() == [4.0, 2.0]
    assert [wanted["top_logprobs"] for _, wanted in lm.asked] == [5, 5, 0, 0]
    plain = Telling(FORM)
    assert rate(teacher_of(plain, top_logprobs=0), "one").scores[0].tolist() == [4.0, 2.0]


def test_a_long_document_is_seen_at_both_ends_and_stays_what_it_is() -> None:
    text = "ä" * 60 + "MIDDLE" + "ö" * 60
    lm = Scripted(always(GOOD))
    teacher = teacher_of(lm, head_tail_chars=40)
    values, offsets = pack_texts([text, "short"])
    before = values.tobytes()
    ratings = teacher.rate(values, offsets)
    prompt = lm.asked[0][0]
    assert "ä" * 20 + "\n[… 86 characters left out …]\n" + "ö" * 20 in prompt and "MIDDLE" not in prompt
    assert values.tobytes() == before
    detail = ratings.detail
    assert detail is not None and [(w.start, w.stop) for w in detail.windows[0]] == [
        (0, 40),
        (len(text.encode()) - 40, len(text.encode())),
    ]
    assert detail.windows[0][0].scores == {"clear": 4.0, "deep": 2.0} and detail.windows[1] == ()
    assert ratings.rated_bytes.tolist() == [80, 5]
    whole = Scripted(always(GOOD))
    rate(teacher_of(whole, view="whole"), text)
    assert text in whole.asked[0][0]


def test_head_and_tail_by_characters_then_tokens() -> None:
    def count(texts: Any) -> list[int]:
        return [len(text) // 2 for text in texts]

    assert [(c.start, c.stop) for c in cut_head_tail("x" * 100, 100, None, count)] == [(0, 100)]
    assert [(c.start, c.stop) for c in cut_head_tail("x" * 101, 100, None, count)] == [(0, 50), (51, 101)]
    cuts = cut_head_tail("x" * 1000, 100, 20, count)
    assert [(c.start, c.stop) for c in cuts] == [(0, 21), (979, 1000)] and [c.tokens for c in cuts] == [10, 10]
    assert [(c.start, c.stop) for c in cut_head_tail("x" * 60, 100, 20, count)] == [(0, 21), (39, 60)]


def test_windows_are_joined_by_tokens() -> None:
    def script(prompt: str, number: int) -> str:
        return GOOD if "first" in prompt.split("document-")[2] else GOOD.replace("4/5", "1/5")

    text = "first words here\n\n" + "other words there now\n\n"
    teacher = teacher_of(Scripted(script))
    ratings = WindowedRater(teacher, teacher.count, "words", 5).rate(*pack_texts([text]))
    assert ratings.detail is not None and len(ratings.detail.windows[0]) == 2
    tokens = [w.tokens for w in ratings.detail.windows[0]]
    assert ratings.scores[0, 0] == pytest.approx((4 * tokens[0] + 1 * tokens[1]) / sum(tokens))


def test_a_rating_does_not_depend_on_its_neighbours() -> None:
    def script(prompt: str, number: int) -> str:
        return f"Domain: A\nclear: {1 + len(prompt) % 5}/5\ndeep: {1 + len(prompt) % 3}/5"

    texts = ["x" * n for n in range(1, 9)]
    together = rate(teacher_of(Scripted(script)), *texts)
    alone = [rate(teacher_of(Scripted(script)), text) for text in texts]
    assert together.scores.tolist() == [own.scores[0].tolist() for own in alone]


def test_the_cost_is_known_before_anything_is_sent() -> None:
    lm = Scripted(always(GOOD))
    teacher = teacher_of(lm, max_tokens=100)
    cost = teacher.estimate_cost(["one", " ", "two"])
    assert not lm.asked and cost.one_round.rows == 2 and cost.one_round.most_completion_tokens == 200
    assert cost.all_rounds.most_completion_tokens == 600 and cost.all_rounds.prompt_tokens == 3 * cost.one_round.prompt_tokens
    rate(teacher, "one", "two")
    assert sum(lm.count_tokens([prompt])[0] for prompt, _ in lm.asked) == cost.one_round.prompt_tokens
    with pytest.raises(BadQuery, match="1 round or more"):
        Settings(rounds=0)
    wide = Rubric("wide", 1, 0, 1000, SMALL.criteria, SMALL.domains)
    with pytest.raises(BadQuery, match="within -128 and 127"):
        teacher_of(lm, rubric=wide)


def test_a_fingerprint_names_all_that_ratings_depend_on() -> None:
    lm = Scripted(always(GOOD))
    prints = {
        teacher_of(lm).fingerprint,
        teacher_of(lm, template="teacher_zh").fingerprint,
        teacher_of(lm, rubric=DATAMAN).fingerprint,
        teacher_of(lm, seed=1).fingerprint,
        teacher_of(lm, rounds=2).fingerprint,
        teacher_of(lm, view="whole").fingerprint,
        teacher_of(lm, head_tail_tokens=100).fingerprint,
        teacher_of(lm, rounding="away_from_3").fingerprint,
        Teacher(FakeLM("other"), prompt_form(SMALL, "teacher")).fingerprint,
        Teacher(lm, prompt_form(SMALL, "teacher", [Example("x", {"clear": 1, "deep": 2}, "Law")])).fingerprint,
    }
    assert len(prints) == 10 and teacher_of(lm).fingerprint == teacher_of(Scripted(always("x"))).fingerprint


@pytest.mark.parametrize("template", ["score", "domain", "student"])
def test_short_forms(template: str) -> None:
    reply = {"score": "4", "domain": "B", "student": "B\n4\n2"}[template]
    ratings = rate(teacher_of(Scripted(always(reply)), template=template), "text")
    assert ratings.rubric.columns == (("clear", "deep") if template == "student" else ("clear",))
    if template == "domain":
        assert ratings.domain_names() == ["Music"] and ratings.status_names() == ["partial"]
    else:
        assert ratings.status_names() == ["ok"] and ratings.scores[0, 0] == 4.0


# Over HTTP


def planted(prompt: str) -> str:
    """A complete form with the marker that the prompt asks for."""
    return f"RATINGS {prompt.rsplit('RATINGS ', 1)[1].split()[0]}\n{GOOD}"


@pytest.fixture
def server() -> Iterator[Server]:
    pytest.importorskip("httpx")
    with serve(FakeLM(can=Can(generate=True, top_logprobs=5), reply=planted)) as running:
        yield running


def remote(server: Server, **settings: Any) -> RemoteLM:
    address = Address(server.url, "fake", top_logprobs=settings.pop("top_logprobs", 0))
    return RemoteLM(address, backoff=Backoff(2), clock=FakeClock(), **settings)


def test_over_http_with_a_cache_a_second_run_asks_nothing(server: Server, tmp_path: Path) -> None:
    with AnswerCache(tmp_path / "answers.db") as cache:
        teacher = teacher_of(CachedLM(remote(server), cache))  # type: ignore[arg-type]
        first = rate(teacher, "one", "two", "one")
        assert first.status_names() == ["ok"] * 3 and len(server.requests) == 2
        again = rate(teacher_of(CachedLM(remote(server), cache)), "two", "one")  # type: ignore[arg-type]
        assert len(server.requests) == 2 and again.scores.tolist() == first.scores[:2].tolist()


def test_over_http_faults_end_as_codes(server: Server) -> None:
    server.rule = lambda body: status(500) if "doomed" in body["messages"][-1]["content"] else None
    ratings = rate(teacher_of(remote(server)), "fine", "doomed")  # type: ignore[arg-type]
    assert ratings.status_names() == ["ok", "rater_failed"]
    assert ratings.detail is not None and ratings.detail.codes[1] == ("api_error",)


def test_over_http_a_server_that_refuses_logprobs_is_asked_without(server: Server) -> None:
    server.rule = lambda body: status(400, "logprobs are not supported") if "logprobs" in body else None
    ratings = rate(teacher_of(remote(server, top_logprobs=5)), "fine", "too")  # type: ignore[arg-type]
    assert ratings.status_names() == ["ok", "ok"] and "logprobs" not in server.requests[-1]


def test_over_http_the_price_is_the_models(server: Server) -> None:
    lm = remote(server, price=Price(1000.0, 2000.0))
    cost = teacher_of(lm, max_tokens=10).estimate_cost(["one"])  # type: ignore[arg-type]
    assert cost.one_round.least_cost == pytest.approx(cost.one_round.prompt_tokens / 1000)
    assert cost.all_rounds.most_cost == pytest.approx(3 * cost.one_round.most_cost) and not server.requests


def test_a_schema_is_sent_to_a_server_that_can_force_it(server: Server) -> None:
    server.lm._reply = lambda prompt: '{"domain": "B", "clear": 4, "deep": 2}'
    ratings = rate(teacher_of(remote(server), template="teacher_json"), "text")  # type: ignore[arg-type]
    assert ratings.status_names() == ["ok"]
    sent = server.requests[0]["response_format"]["json_schema"]["schema"]
    assert sent == json.loads(prompt_form(SMALL, "teacher_json").schema.body)  # type: ignore[union-attr]
    assert isinstance(prompt_form(SMALL, "teacher_json").schema, Form)


RUBRIC = """
id = "small"
version = 1
scale = [1, 5]
summary = "clear"
criterion = [{ id = "clear", question = "Is it clear?" }, { id = "deep", question = "Is it deep?" }]
domain = [{ id = "Law", letter = "A" }, { id = "Music", letter = "B" }]
"""


def test_a_table_opens_a_teacher(server: Server, tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(RUBRIC)
    (tmp_path / "examples.jsonl").write_text('{"text": "An example.", "clear": 3, "deep": 1, "domain": "law"}\n')
    table = {
        "kind": "teacher", "rubric": "small.toml", "examples": "examples.jsonl", "rounds": 2, "temperatures": [0, 0.5],
        "log": "log/attempts.jsonl", "model": {"url": server.url, "model": "fake", "cache": "answers.db", "top_logprobs": 5},
    }  # fmt: skip
    teacher = open_teacher(table, tmp_path / "rater.toml")
    ratings = teacher.rate(*pack_texts(["one", "two\ud800"]))
    assert ratings.status_names() == ["ok", "ok"] and teacher.name == "fake"
    asked = server.requests[0]["messages"]
    assert asked[0] == {"role": "system", "content": teacher.form.system} and "An example." in asked[1]["content"]
    assert teacher.form.system not in asked[1]["content"]
    lines = [json.loads(line) for line in (tmp_path / "log/attempts.jsonl").read_text().splitlines()]
    assert len(lines) == 2 and lines[0]["status"] == "ok" and lines[0]["reply"].startswith(f"RATINGS {mark_of('one')}")
    assert (tmp_path / "answers.db").is_file()
    (tmp_path / "rater.toml").write_text(
        f'kind = "teacher"\nrubric = "small.toml"\n[windows]\ntokens = 40\n[model]\nurl = "{server.url}"\nmodel = "fake"\n'
        "top_logprobs = 5\n"
    )
    windowed = open_rater(tmp_path / "rater.toml").rate(*pack_texts(["A sentence of the text. " * 20]))
    assert windowed.detail is not None and len(windowed.detail.windows[0]) > 1 and windowed.status_names() == ["ok"]
    completions = {**table, "model": {"url": server.url, "model": "fake", "api": "completions"}}
    assert not open_teacher(completions, tmp_path / "rater.toml").settings.system_apart


@pytest.mark.parametrize(
    ("change", "message"),
    [({"rouns": 3}, "unknown key 'rouns'"), ({"rounds": "3"}, "'rounds' must be int"),
     ({"rounds": 0}, "1 round or more"),
     ({"temperatures": ["hot"]}, "'temperatures' is a list of numbers"), ({"view": "middle"}, "view is whole or head_tail"),
     ({"model": None}, "'model' must be str")],
)  # fmt: skip
def test_a_table_that_cannot_be_meant_is_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    table = {"kind": "teacher", "model": "http://localhost:1/v1#m", **change}
    with pytest.raises(BadRecipe, match=message):
        open_teacher(table, tmp_path)
    with pytest.raises(BadRecipe, match=r"needs a \[model\]"):
        open_teacher({"kind": "teacher"}, tmp_path)


def test_examples_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "examples.jsonl"
    with pytest.raises(NotFound):
        load_examples(path, SMALL)
    for line, message in (("{", "line 1: not JSON"), ('{"clear": 1}', "an object with 'text'"),
                          ('{"text": "x", "clear": "4"}', "'clear' must be a whole number")):  # fmt: skip
        path.write_text(line)
        with pytest.raises(BadRecipe, match=message):
            load_examples(path, SMALL)
    attempt_log(tmp_path / "log.jsonl")(Attempt("d", 0, 0, 0.0, "ok", (), "\ud800", 1, 1))
    assert json.loads((tmp_path / "log.jsonl").read_text())["reply"] == "?"


@pytest.mark.slow
def test_a_real_small_model_is_read_without_a_guess() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("httpx")
    from typecase.lm.gguf import demo_gguf
    from typecase.lm.local import LocalLM

    teacher = Teacher(LocalLM(demo_gguf(), chat=True), prompt_form(SMALL, "student"), Settings(rounds=1, max_tokens=24))  # type: ignore[arg-type]
    ratings = teacher.rate(*pack_texts(["The court held that the contract was void.", "A minor seventh resolves downwards."]))
    assert ratings.detail is not None and all(ratings.detail.raw)
    assert all(codes or name == "ok" for codes, name in zip(ratings.detail.codes, ratings.status_names()))
    assert sum(teacher.report()[0].statuses.values()) == 2
