"""The LM rater: chances of labels become scores; every document has an answer; one reading equals gap after gap."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lm.tiny import make_tiny, one_thread
from typecase.core.rating import STATUSES, Criterion, Domain, Rubric
from typecase.errors import BadRecipe, FixInput
from typecase.lm.cache import AnswerCache, CachedLM
from typecase.lm.fake import ALL, FakeLM
from typecase.lm.protocol import LM, Can, Failure
from typecase.lm.rate.lm_rater import LMRater, agreement, lm_rater
from typecase.lm.rate.rater import OK, PARTIAL, RATER_FAILED, pack_texts
from typecase.lm.rate.rubric import load_rubric
from typecase.lm.rate.sheets import SHEETS, sheet_of
from typecase.lm.slots import Filled, fill

assert one_thread
RUBRIC = load_rubric("dataman")
SMALL = Rubric(
    "small",
    1,
    0,
    3,
    (Criterion("clear", "Clear?", {}, names={"en": "Clear"}), Criterion("deep", "Deep?", {}, names={"en": "Deep"})),
    (Domain("Type", "A"), Domain("Ink", "B")),
    "deep",
)
TEXTS = ["The forme is locked.", "", "Ink and paper.", "  \n", "{braces} {text} and %s"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> LM:
    pytest.importorskip("transformers")
    from typecase.lm.local import LocalLM

    return LocalLM(roomy(make_tiny(tmp_path_factory.mktemp("tiny") / "llama")), device="cpu", chat=True)


def roomy(folder: Path) -> Path:
    """The tiny model spells most words letter by letter: a rubric needs more than its 400 positions."""
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 6000}))
    return folder


def rater_on(lm: LM, rubric: Rubric = SMALL, form: str = "student", **settings: object) -> LMRater:
    return lm_rater(lm, rubric, sheet_of(rubric, form), **settings)


@pytest.mark.parametrize("form", ["student", "rubric_first"])
def test_scores_are_expected_values_over_the_labels(tiny: LM, form: str) -> None:
    rater = rater_on(tiny, form=form)
    ratings = rater.rate(*pack_texts(TEXTS))
    assert [STATUSES[s] for s in ratings.status] == ["ok", "empty_text", "ok", "empty_text", "ok"]
    prompts = [rater.asking.prompt(text) for text in TEXTS if text.strip()]
    detail = ratings.detail
    assert detail is not None
    for doc, found in zip((0, 2, 4), fill(tiny, prompts, rater.asking.slots), strict=True):
        assert isinstance(found, Filled)
        raw = [np.exp(values.astype(np.float64)) for values in found.logprobs]
        chances = [values / values.sum() for values in raw]
        np.testing.assert_allclose(ratings.domain_chances[doc], chances[0], atol=1e-5)
        for k, own in enumerate(chances[1:]):
            assert ratings.scores[doc, k] == pytest.approx(sum(level * p for level, p in enumerate(own)), abs=1e-4)
            assert detail.levels[doc, k] == own.argmax() and detail.surety[doc, k] == pytest.approx(own.max(), abs=1e-5)
        assert detail.label_mass[doc] == pytest.approx(min(values.sum() for values in raw), abs=1e-5)
        assert ratings.confidence[doc] == pytest.approx(detail.surety[doc, 1])
        assert ratings.rated_bytes[doc] == len(TEXTS[doc].encode())


def test_a_model_without_slots_says_the_same_as_gap_after_gap(tiny: LM) -> None:
    class Plain:
        def __init__(self, lm: LM) -> None:
            self.name, self.fingerprint, self.can = lm.name, lm.fingerprint, lm.can
            self.count_tokens, self.generate, self.score, self.embed = lm.count_tokens, lm.generate, lm.score, lm.embed
            self.score_continuations = lm.score_continuations

    fast, slow = (rater_on(lm, form="rubric_first").rate(*pack_texts(TEXTS)) for lm in (tiny, Plain(tiny)))
    np.testing.assert_allclose(fast.scores, slow.scores, atol=1e-4)
    np.testing.assert_array_equal(fast.domain, slow.domain)


@pytest.mark.parametrize("form", ["student", "rubric_first"])
def test_all_gaps_at_once_until_nothing_changes_equals_one_after_the_other(tiny: LM, form: str) -> None:
    sheet = sheet_of(RUBRIC, form)
    prompts = [sheet.prompt(f"text number {k} " * (k % 3 + 1)) for k in range(6)]
    at_once = list(fill(tiny, prompts, sheet.slots, passes=len(sheet.slots)))
    in_turn = list(fill(tiny, prompts, sheet.slots))
    for one, other in zip(at_once, in_turn, strict=True):
        assert isinstance(one, Filled) and isinstance(other, Filled)
        assert one.exact and other.exact and one.best == other.best
        assert 1 <= one.passes <= len(sheet.slots) and 1 <= other.passes <= len(sheet.slots)
        for a, b in zip(one.logprobs, other.logprobs, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-4)


@settings(max_examples=60)
@given(st.lists(st.text(max_size=30), max_size=5), st.sampled_from(SHEETS), st.sampled_from(("whole", "head_tail")))
def test_no_answer_can_fail_to_be_read(texts: list[str], form: str, view: str) -> None:
    """Whatever model and text: a document has a rating, is blank, or failed with a code; never a level off the scale."""
    ratings = rater_on(FakeLM(), form=form, view=view, head_tail_tokens=4).rate(*pack_texts(texts))
    assert len(ratings) == len(texts) and ratings.detail is not None
    data = [text.encode("utf-8", "replace") for text in texts]
    for doc, text in enumerate(data):
        if not text.decode().strip():
            assert STATUSES[ratings.status[doc]] == "empty_text"
            continue
        assert ratings.status[doc] == (PARTIAL if form == "domain_only" else OK)
        if form != "domain_only":
            assert ((ratings.scores[doc] >= 0) & (ratings.scores[doc] <= 3)).all()
            assert ((ratings.detail.levels[doc] >= 0) & (ratings.detail.levels[doc] <= 3)).all()
        if form != "score_only":
            assert ratings.domain_chances[doc].sum() == pytest.approx(1, abs=1e-5) and ratings.domain[doc] in (0, 1)


def test_forms_ask_for_what_they_name() -> None:
    lm = FakeLM(can=replace(ALL, context_tokens=None))
    student = rater_on(lm, RUBRIC, "student")
    assert len(student.asking.slots) == 15 and student.asking.asks == ("domain", *RUBRIC.columns)
    reply = "".join(slot.before + slot.labels[0] for slot in student.asking.slots)
    assert reply == "A" + "\n1" * 14
    assert student.rubric is RUBRIC and "_/5" in student.asking.prompt("text")
    score = rater_on(lm, RUBRIC, "score_only")
    assert score.rubric.columns == ("overall_score",) and not score.rubric.domains
    assert rater_on(lm, RUBRIC, "domain_only").rubric.labels == RUBRIC.labels
    first = rater_on(lm, RUBRIC, "rubric_first").asking
    assert first.prompt("THE TEXT").index("No fault seen.") < first.prompt("THE TEXT").index("THE TEXT")
    assert first.slots[0].before == "Domain: [" and first.prompt("x").endswith("Ratings:\n")
    with pytest.raises(BadRecipe, match="no form 'all'; there are student"):
        sheet_of(RUBRIC, "all")
    with pytest.raises(BadRecipe, match="does not fit the rubric 'bare'"):
        sheet_of(replace(RUBRIC, id="bare", domains=()), "domain_only")


def test_a_template_of_ones_own(tmp_path: Path) -> None:
    own = 'id = "own"\nversion = 1\nlanguage = "en"\nreply = "bare"\nsystem = "Be strict."\nuser = "Before {text} after"\n'
    (tmp_path / "own.toml").write_text(own)
    assert sheet_of(SMALL, tmp_path / "own.toml").prompt("{text}") == "Before {text} after"
    assert sheet_of(SMALL, tmp_path / "own.toml", chat=False).prompt("x") == "Be strict.\n\nBefore x after"


def test_low_label_mass_and_failures_are_codes(tiny: LM) -> None:
    ratings = rater_on(tiny, least_mass=0.999).rate(*pack_texts(["a text"]))
    assert ratings.detail is not None and ratings.detail.codes[0] == ("low_label_mass",) and ratings.status[0] == OK
    never = rater_on(tiny, least_mass=0.0).rate(*pack_texts(["a text"]))
    assert never.detail is not None and never.detail.codes[0] == ()
    planted = {"BOOM": Failure("timeout", "planted"), "BAM": Failure("server_error", "planted too")}
    ratings = rater_on(FakeLM(failures=planted), least_mass=0.0).rate(*pack_texts(["fine", "BOOM", "BAM", "word " * 600]))
    detail = ratings.detail
    assert detail is not None and detail.codes == ((), ("timeout",), ("api_error",), ("too_long",))
    assert [status == RATER_FAILED for status in ratings.status] == [False, True, True, True]
    assert detail.raw[0] is None and detail.raw[1] == "timeout: planted" and detail.raw[3] is not None


def test_head_and_tail_are_spans_of_the_document() -> None:
    text = "é one two three four five six seven eight nine ten"
    seen: list[str] = []

    class Listening(FakeLM):
        def score_continuations(self, prompts, continuations):  # type: ignore[no-untyped-def]
            prompts = list(prompts)
            seen.extend(prompts)
            return super().score_continuations(prompts, continuations)

    rater = rater_on(Listening(), view="head_tail", head_tail_tokens=6, ellipsis="[…]")
    ratings = rater.rate(*pack_texts([text, "short"]))
    assert ratings.detail is not None
    head, tail = ratings.detail.windows[0]
    data = text.encode()
    shown = data[head.start : head.stop].decode() + "[…]" + data[tail.start : tail.stop].decode()
    assert shown == "é one two[…] eight nine ten" and shown in seen[0]
    assert ratings.rated_bytes.tolist() == [head.stop - head.start + tail.stop - tail.start, 5]
    assert ratings.detail.codes == (("shortened",), ()) or "shortened" in ratings.detail.codes[0]
    assert ratings.detail.windows[1] == ()


def test_ratings_do_not_depend_on_the_batch(tiny: LM) -> None:
    texts = ["one two", "a longer text about type and ink " * 3, "x"]
    rater = rater_on(tiny)
    together = rater.rate(*pack_texts(texts))
    for doc, text in enumerate(texts):
        alone = rater.rate(*pack_texts([text]))
        np.testing.assert_allclose(together.scores[doc], alone.scores[0], atol=1e-4)
    again = rater.rate(*pack_texts(texts))
    np.testing.assert_array_equal(together.scores, again.scores)


def test_one_pass_is_an_approximation_and_agreement_says_of_what(tiny: LM) -> None:
    texts = [f"text number {k} " * (k % 5 + 1) for k in range(12)]
    found = agreement(rater_on(tiny), texts)
    assert found.documents == 12 and 0 < found.labels <= 1 and found.whole <= found.labels
    assert 1 <= found.passes <= found.most_passes <= 3 + 1
    one = rater_on(tiny, passes=1).rate(*pack_texts(texts))
    assert one.detail is not None
    exact = sum("inexact" not in codes for codes in one.detail.codes)
    assert exact / 12 <= found.whole + 1e-9, "what says it is exact agrees"
    sure = rater_on(tiny).rate(*pack_texts(texts))
    assert found.moved == pytest.approx(float(np.abs(one.scores - sure.scores).mean()), abs=1e-4)
    single = agreement(rater_on(tiny, form="score_only"), texts)
    assert (single.labels, single.whole, single.moved, single.passes) == (1.0, 1.0, 0.0, 1.0)


def test_a_cache_replays_whole_forms(tiny: LM, tmp_path: Path) -> None:
    with AnswerCache(tmp_path / "answers.db") as cache:
        cached = CachedLM(tiny, cache)
        plain, first, second = (rater_on(lm).rate(*pack_texts(TEXTS)) for lm in (tiny, cached, cached))
        np.testing.assert_array_equal(plain.scores, first.scores)
        np.testing.assert_array_equal(first.scores, second.scores)
        np.testing.assert_array_equal(first.domain_chances, second.domain_chances)
        assert (cache.stats().misses, cache.stats().hits) == (3, 3)
        list(fill(cached, ["a"], rater_on(cached).asking.slots, passes=1))
        assert cache.stats().misses == 4, "another number of passes is another question"


def test_what_the_ratings_depend_on_is_in_the_fingerprint(tiny: LM) -> None:
    plain = rater_on(tiny)
    others = [
        rater_on(FakeLM()),
        rater_on(tiny, RUBRIC),
        rater_on(tiny, form="rubric_first"),
        rater_on(tiny, passes=1),
        rater_on(tiny, least_mass=0.1),
        rater_on(tiny, view="head_tail"),
        rater_on(tiny, view="head_tail", head_tail_tokens=9),
        replace(plain, asking=sheet_of(SMALL, "student_zh")),
    ]
    prints = [plain.fingerprint, *(other.fingerprint for other in others)]
    assert len(set(prints)) == len(prints) and plain.fingerprint == rater_on(tiny).fingerprint


def test_what_cannot_work_is_refused_at_birth() -> None:
    mute = FakeLM(can=Can(generate=True))
    with pytest.raises(FixInput, match="cannot do 'continuations'"):
        rater_on(mute)
    with pytest.raises(BadRecipe, match="least_mass"):
        rater_on(FakeLM(), least_mass=2.0)
    with pytest.raises(BadRecipe, match="passes"):
        rater_on(FakeLM(), passes=0)
    with pytest.raises(BadRecipe, match="asks for"):
        LMRater(FakeLM(), SMALL, sheet_of(RUBRIC, "score_only"))


@pytest.mark.slow
def test_a_real_model_wants_to_answer(tmp_path_factory: pytest.TempPathFactory) -> None:
    pytest.importorskip("transformers")
    from typecase.errors import NotFound
    from typecase.lm.gguf import demo_gguf, dense_copy
    from typecase.lm.local import LocalLM

    try:
        folder = dense_copy(demo_gguf(), tmp_path_factory.mktemp("models") / "smollm2", dtype="float32")
    except NotFound:
        pytest.skip("the demo model is not installed")
    lm = LocalLM(folder, device="cpu", chat=True)
    texts = ["Water boils at one hundred degrees Celsius at sea level.", "buy buy cheap click here win win win"]
    for form in ("student", "rubric_first"):
        rater = rater_on(lm, RUBRIC, form)
        assert lm.can_fill(rater.asking.slots), "every label is one token"
        ratings = rater.rate(*pack_texts(texts))
        assert (ratings.status == OK).all() and ratings.detail is not None
        slow = list(rater.asking.slots)[:3]
        prompt = rater.asking.prompt(texts[0])
        for slot in slow:
            (found,) = lm.score_continuations([prompt + slot.before], [slot.labels])
            assert not isinstance(found, Failure)
            best = int(found.logprobs.argmax())
            prompt += slot.before + slot.labels[best]
        assert list(itertools.islice(ratings.detail.levels[0], 2)) == [int(d) for d in prompt.split() if d in "12345"][-2:]
