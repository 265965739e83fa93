"""Pairs: both orders are asked, the place cancels, what is invalid is missing with a reason; anchors place new documents."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from typecase.errors import BadRecipe, FixInput, NotFound
from typecase.lm.fake import FakeLM
from typecase.lm.protocol import Answer, Can, Choices, Failure
from typecase.lm.rate.pairwise import _read_top, excerpts_of, judge_pairs, prompt_of, way_of
from typecase.lm.rate.pairwise_rater import Anchors, PairwiseRater, most_likely, open_pairwise, read_anchors, rubric_of
from typecase.lm.rate.rater import OK, PARTIAL, RATER_FAILED, pack_texts
from typecase.lm.rate.rubric import load_rubric

RUBRIC = rubric_of(load_rubric("qurating"), ("educational_value",))
CRITERION = RUBRIC.criteria[0]


def quality(text: str) -> float:
    """The planted truth: how often a text says "good"."""
    return float(text.count("good"))


def shown(prompt: str) -> tuple[str, str]:
    parts = prompt.split("<<<\n")
    return parts[1].split("\n>>>")[0], parts[2].split("\n>>>")[0]


class Judge(FakeLM):
    """Prefers the better text, and whatever is shown second by `bias`; fails where FakeLM is told to."""

    def __init__(self, bias: float = 0.0, mass: float = 0.8, **options: object) -> None:
        super().__init__("judge", **options)  # type: ignore[arg-type]
        self.bias, self.mass = bias, mass

    def score_continuations(
        self, prompts: Iterable[str], continuations: Iterable[Sequence[str]]
    ) -> Iterator[Choices | Failure]:
        for prompt, asked in zip(prompts, continuations):
            refused = self._refuse(prompt, 1)
            first, second = shown(prompt)
            odds = quality(second) - quality(first) + self.bias
            chance = {" A": self.mass / (1 + np.exp(odds)), " B": self.mass / (1 + np.exp(-odds))}
            logprobs = [np.log(chance.get(text[-2:], 1.0)) for text in asked]
            yield refused or Choices(np.array(logprobs, np.float32), np.ones(len(asked), np.int32), 3)


ROOMY = Can(True, True, True, True, frozenset(), top_logprobs=5, context_tokens=None)


def test_the_place_cancels_and_the_mass_is_told() -> None:
    (plain,) = judge_pairs(Judge(can=ROOMY), [("good", "good good")], CRITERION)
    (tilted,) = judge_pairs(Judge(bias=0.7, can=ROOMY), [("good", "good")], CRITERION)
    assert plain.chance == pytest.approx(1 / (1 + np.exp(-1)), abs=1e-5) and plain.reason == ""
    assert tilted.forward == pytest.approx(1 / (1 + np.exp(-0.7)), abs=1e-5)
    assert tilted.chance == pytest.approx(0.5, abs=1e-6)
    assert plain.label_mass == pytest.approx(0.8, abs=1e-5)


def test_a_failure_is_a_missing_pair_and_the_run_goes_on() -> None:
    lm = Judge(can=ROOMY, failures={"BOOM": Failure("timeout", "planted")})
    said = list(judge_pairs(lm, [("good", "bad"), ("BOOM", "bad"), ("bad", "good")] * 50, CRITERION))
    assert len(said) == 150
    assert [one.reason for one in said[:3]] == ["", "timeout", ""]
    assert np.isnan(said[1].chance) and said[0].chance < 0.5 < said[2].chance


@pytest.mark.parametrize("answer", ["{}", " {}.", "Text {}", "answer: **{}**"])
def test_votes_are_read_from_words(answer: str) -> None:
    def reply(prompt: str) -> str:
        first, second = shown(prompt)
        return answer.format("B" if quality(second) > quality(first) else "A")

    lm = FakeLM(can=Can(generate=True), reply=reply)
    assert way_of(lm) == "votes"
    (one,) = judge_pairs(lm, [("good good", "good")], CRITERION, votes=4)
    assert (one.forward, one.backward, one.chance) == (0.0, 1.0, 0.0)


def test_too_few_votes_are_no_answer() -> None:
    lm = FakeLM(can=Can(generate=True), reply=lambda prompt: "Both are fine; a tie.")
    (one,) = judge_pairs(lm, [("x", "y")], CRITERION, votes=4)
    assert np.isnan(one.chance) and one.reason == "no_label"


def test_likeliest_tokens_bound_the_label_that_is_not_among_them() -> None:
    lm = FakeLM(can=Can(generate=True, top_logprobs=5), reply=lambda prompt: " B")
    assert way_of(lm) == "top"
    (one,) = judge_pairs(lm, [("x", "y")], CRITERION)
    assert 0.5 < one.forward <= 1 and one.forward == one.backward and one.chance == pytest.approx(0.5)
    other = FakeLM(can=Can(generate=True, top_logprobs=5), reply=lambda prompt: "Hm")
    assert next(judge_pairs(other, [("x", "y")], CRITERION)).reason == "no_label"


def test_the_bound_is_half_of_what_the_missing_label_can_have() -> None:
    top = (((" B", float(np.log(0.6))), ("B", float(np.log(0.1))), (" The", float(np.log(0.2)))),)
    chance, mass, reason = _read_top(Answer(" B", "stop", 3, 1, None, top))
    assert chance == pytest.approx(0.7 / 0.75) and mass == pytest.approx(0.7) and reason == ""


def test_a_model_that_can_do_nothing_is_refused() -> None:
    with pytest.raises(FixInput, match="cannot compare"):
        way_of(FakeLM(can=Can(embed=True)))


def test_a_text_cannot_end_its_place_in_the_prompt() -> None:
    prompt = prompt_of(CRITERION, "x\n>>>\n\nText B:\n<<<\nmine", "y")
    assert prompt.count(">>>") == 2 and prompt.count("<<<") == 2


def test_excerpts_have_one_length_and_follow_from_their_key() -> None:
    long, short = " ".join(map(str, range(900))), " ".join(map(str, range(100)))
    cut = excerpts_of(long, short, words=300, key=(0, "a", "b"))
    assert cut == excerpts_of(long, short, words=300, key=(0, "a", "b"))
    assert len(long[slice(*cut.first)].split()) == len(short[slice(*cut.second)].split()) == 100
    lengths, starts = set(), set()
    for k in range(60):
        cut = excerpts_of(long, long + " x", words=300, key=(k,))
        lengths.add(len(long[slice(*cut.first)].split()))
        starts.add(cut.first[0])
    assert max(lengths) == 300 and min(lengths) >= 150 and len(lengths) > 10 and len(starts) > 40
    tiny = excerpts_of("one two", long, words=300, key=(1,))
    assert tiny.first == (0, 7) and len(long[slice(*tiny.second)].split()) == 64


def rater(**options: object) -> PairwiseRater:
    texts = tuple("good " * k + "end" for k in range(9))
    anchors = Anchors(tuple(f"a{k}" for k in range(9)), texts, np.array([[k - 4.0] for k in range(9)]))
    return PairwiseRater(Judge(can=ROOMY), RUBRIC, anchors, **options)  # type: ignore[arg-type]


def test_new_documents_are_placed_among_the_anchors() -> None:
    docs = ["end", "good " * 4 + "x", "good " * 8 + "x", "  ", "good " * 2 + "x"]
    found = rater(first=4, then=3).rate(*pack_texts(docs))
    assert found.status.tolist() == [OK, OK, OK, 1, OK]
    worst, middle, best, low = found.scores[[0, 1, 2, 4], 0]
    assert 1 <= worst < low < middle < best <= 5 and middle == pytest.approx(3, abs=0.3)
    assert np.isnan(found.scores[3, 0]) and np.isnan(found.confidence).all() and (found.domain == -1).all()
    alone = rater(first=4, then=3).rate(*pack_texts(docs[1:2]))
    assert alone.scores[0, 0] == found.scores[1, 0]


def test_a_rater_whose_model_fails_says_so() -> None:
    lm = Judge(can=ROOMY, failures={"BOOM": Failure("timeout", "planted")})
    one = rater()
    found = PairwiseRater(lm, RUBRIC, one.anchors).rate(*pack_texts(["BOOM x", "good x"]))
    assert found.status.tolist() == [RATER_FAILED, OK]
    both = rubric_of(load_rubric("qurating"), ("educational_value", "writing_style"))
    two = Anchors(one.anchors.ids, one.anchors.texts, np.hstack([one.anchors.log_odds] * 2))
    half = Judge(can=ROOMY, failures={both.criteria[0].question: Failure("timeout", "planted")})
    assert PairwiseRater(half, both, two).rate(*pack_texts(["good x"])).status.tolist() == [PARTIAL]


def test_the_place_of_an_item_is_the_best_guess_under_the_prior() -> None:
    known = np.array([-1.0, 0.0, 1.0])
    assert most_likely(known, np.array([0.9, 0.5, 0.1])) == pytest.approx(0, abs=1e-9)
    assert most_likely(known, np.ones(3)) > 1.5 and np.isfinite(most_likely(known, np.ones(3)))
    assert np.isnan(most_likely(known, np.full(3, np.nan)))


def test_anchors_are_read_or_refused(tmp_path: Path) -> None:
    good = [
        {"id": "a", "text": "x", "log_odds": {"educational_value": 0.5}},
        {"id": "b", "text": "y", "log_odds": {"educational_value": -1}},
    ]
    path = tmp_path / "anchors.jsonl"
    path.write_text("\n".join(map(json.dumps, good)) + "\n")
    found = read_anchors(path, RUBRIC)
    assert found.ids == ("a", "b") and found.log_odds.tolist() == [[0.5], [-1.0]]
    path.write_text(json.dumps(good[0]) + "\n")
    with pytest.raises(BadRecipe, match="two are the least"):
        read_anchors(path, RUBRIC)
    path.write_text('{"id": "a"}\n')
    with pytest.raises(BadRecipe, match="line 1"):
        read_anchors(path, RUBRIC)
    with pytest.raises(NotFound, match="anchors"):
        read_anchors(tmp_path / "none", RUBRIC)


def test_a_table_that_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRecipe, match="no 'modle'"):
        open_pairwise({"kind": "pairwise", "modle": "x"}, tmp_path)
    with pytest.raises(BadRecipe, match="needs 'anchors'"):
        open_pairwise({"kind": "pairwise", "model": "x"}, tmp_path)


@pytest.mark.slow
def test_a_real_model_reads_both_labels_and_gives_the_same_twice(tmp_path_factory: pytest.TempPathFactory) -> None:
    pytest.importorskip("transformers")
    from typecase.lm.gguf import demo_gguf, dense_copy
    from typecase.lm.local import LocalLM

    try:
        folder = dense_copy(demo_gguf(), tmp_path_factory.mktemp("models") / "smollm2", dtype="float32")
    except NotFound:
        pytest.skip("the demo model is not installed")
    lm = LocalLM(folder, device="cpu", chat=True)
    pairs = [("Photosynthesis turns light into sugar, because chlorophyll absorbs it.", "click here click here buy now")]
    (one,), (again,) = (list(judge_pairs(lm, pairs, CRITERION)) for _ in range(2))
    assert one == again and one.reason == ""
    assert 0 < one.chance < 1 and one.label_mass > 0.2
