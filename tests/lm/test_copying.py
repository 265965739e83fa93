"""Copying: forms keep their gaps; verdicts do not depend on when a run was killed; chances are those of the model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from typecase.errors import CorruptStore, FixInput, ModelUnavailable
from typecase.lm.copying.copying import (
    CANDIDATE,
    Form,
    find_placeholder,
    forms_of,
    plain_words,
    protocol_fingerprint,
    sheets_of,
)
from typecase.lm.copying.remote import RemoteCopier, chance_in, says
from typecase.lm.copying.verifying import Journal, verify
from typecase.lm.fake import FakeLM
from typecase.lm.protocol import Answer, Can, Failure

WORD = "Placeholder"


def letters(texts: Sequence[str]) -> list[list[int]]:
    """A toy encoder: a start token 7, the placeholder is 5000, any other character its own id."""
    found = []
    for text in texts:
        ids, at = [7], 0
        while at < len(text):
            whole = text.startswith(WORD, at)
            ids.append(5000 if whole else ord(text[at]))
            at += len(WORD) if whole else 1
        found.append(ids)
    return found


def test_forms_have_the_published_copies() -> None:
    full = {form.name: form for form in forms_of("full", (5000, WORD), [1], letters)}
    copies = {name: form.ids.count(CANDIDATE) for name, form in full.items()}
    assert copies == {"echo": 41, "explain": 1, "repeat": 101}
    assert full["echo"].filled(9).count(9) == 41 and CANDIDATE not in full["echo"].filled(9)


def test_quick_forms_share_their_beginning() -> None:
    words = list(range(100_000, 100_020))
    quick = forms_of("quick", (5000, WORD), words, letters)
    assert [form.name for form in quick] == [sheet.name for sheet in sheets_of("quick")]
    echo = next(form for form in quick if form.name == "echo")
    fixed = [i for i in echo.ids if i in words]
    assert len(fixed) == 12 and fixed[::2] == fixed[1::2] and len(set(fixed)) == 6
    assert max(k for k, i in enumerate(echo.ids) if i in words) < echo.shared
    other = forms_of("quick", (5000, WORD), words, letters, seed=1)
    assert [f.ids for f in other] != [f.ids for f in quick] and [f.own for f in other] == [f.own for f in quick]
    keys = [protocol_fingerprint(forms, 0.01, early_exit=e) for forms, e in ((quick, True), (other, True), (quick, False))]
    assert len(set(keys)) == 3


@pytest.mark.parametrize("words", [[], [100_000], [100_000, 100_001]])
def test_few_words_are_used_again(words: list[int]) -> None:
    """A vocabulary may have fewer words than the examples have places; without any the placeholder stands there."""
    echo = next(form for form in forms_of("quick", (5000, WORD), words, letters) if form.name == "echo")
    fixed = [i for i in echo.ids if i in (words or [5000])]
    assert len(fixed) == 12 and fixed[::2] == fixed[1::2] and set(fixed) == set(words or [5000])


def test_a_placeholder_that_melts_is_refused() -> None:
    with pytest.raises(FixInput, match="melts"):
        forms_of("quick", (5000, "zz"), [1], letters)
    texts = ["a", "of", None, "abcdef", "abcdeg", " walks", "ab1"]
    assert find_placeholder(texts, [True] * 7, lambda pairs: [[pairs.index(p) + 3] * 2 for p in pairs]) == (3, "abcdef")
    with pytest.raises(FixInput, match="no token"):
        find_placeholder(texts, [True] * 7, lambda pairs: [[1, 2, 3] for _ in pairs])
    assert plain_words(["x", "abc", " def", "river"], [True] * 4) == [3, 1, 2]


class Toy:
    """Repeats every token but the dead ones; stops being there after so many batches. Chances depend on the batch's members."""

    def __init__(self, dead: set[int], *, batches: int = 10**9) -> None:
        self.dead, self.left, self.tokens, self.asked = dead, batches, 0, 0
        self.fingerprint = "toy"

    def able(self, ids: Sequence[int]) -> list[int]:
        return list(ids)

    def chances(self, form: Form, ids: Sequence[int], stop_at: float) -> list[tuple[float, ...] | None]:
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1
        self.asked += len(ids)
        rounding = 1e-9 * (sum(ids) % 1000)
        able = {"repeat": 0.9, "echo": 0.4, "explain": 0.2}[form.name]
        weak = form.name == "repeat"
        return [((0.001 if t in self.dead or (weak and t % 3 == 0) else able) + rounding,) for t in ids]


FORMS = forms_of("quick", (5000, WORD), list(range(100, 120)), letters)


def test_what_is_repeated_is_asked_no_more(tmp_path: Path) -> None:
    toy = Toy({4, 50})
    found = verify(toy, FORMS, range(1, 100), Journal(tmp_path / "a.jsonl", "r"), limit=0.01)
    assert {t for t, tried in found.items() if tried.max_prob < 0.01} == {4, 50}
    assert [name for name, _ in found[1].chances] == ["repeat"] and len(found[3].chances) == 2 and len(found[4].chances) == 3
    assert toy.asked == 99 + 35 + 2
    whole = verify(Toy({4}), FORMS, range(1, 20), Journal(tmp_path / "b.jsonl", "r"), limit=0.01, early_exit=False)
    assert all(len(tried.chances) == 3 for tried in whole.values()) and whole[1].first_step == whole[1].max_prob


@pytest.mark.parametrize("batches", range(8))
def test_a_killed_run_ends_like_one_that_was_not(tmp_path: Path, batches: int) -> None:
    ids, dead = list(range(1, 150)), {9, 33, 77}
    whole = verify(Toy(dead), FORMS, ids, Journal(tmp_path / "whole.jsonl", "r"), limit=0.01, batch=32)
    path = tmp_path / "cut.jsonl"
    with pytest.raises(KeyboardInterrupt):
        verify(Toy(dead, batches=batches), FORMS, ids, Journal(path, "r"), limit=0.01, batch=32)
    if path.exists():
        cut = np.random.default_rng(batches).integers(0, 30)
        path.write_bytes(path.read_bytes()[: -int(cut)] if cut else path.read_bytes())
    again = verify(Toy(dead), FORMS, ids, Journal(path, "r"), limit=0.01, batch=32)
    assert again == whole and path.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_answers_under_another_fingerprint_are_not_used(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    verify(Toy(set()), FORMS, [1, 2], Journal(path, "one"), limit=0.01)
    assert Journal(path, "two").known == {} and len(Journal(path, "one").known) == 2
    path.write_bytes(b"{}\n" + path.read_bytes())
    with pytest.raises(CorruptStore, match="line 1"):
        Journal(path, "one")


# Through an endpoint


def test_a_completions_server_scores_the_text() -> None:
    lm = FakeLM(can=Can(generate=True, score=True, continuations=True))
    copier = RemoteCopier(lm, ["alpha", None, "beta"], words=["river", "winter"])
    found = copier.chances(copier.forms()[0], [0, 1, 2], 0.01)
    assert found[1] is None and all(0 < p[0] <= 1 for p in (found[0], found[2]) if p)
    assert [form.name for form in copier.forms()] == [sheet.name for sheet in sheets_of("quick")]


def test_a_chat_server_is_asked_to_repeat() -> None:
    lm = FakeLM(replies={"alpha": "alpha", "beta": "no idea"}, can=Can(generate=True, top_logprobs=5))
    copier = RemoteCopier(lm, ["alpha", "beta"], words=[])
    found = copier.chances(copier.forms()[0], [0, 1], 0.01)
    assert found[0] is not None and found[0][0] > 0 and found[1] == (0.0,)
    closed = FakeLM(replies={"alpha": "«alpha»", "beta": "no idea"}, can=Can(generate=True))
    drawn = RemoteCopier(closed, ["alpha", "beta"], words=[], draws=3).chances(copier.forms()[0], [0, 1], 0.01)
    assert drawn == [(1.0,), (0.0,)]


def test_an_endpoint_that_never_answers_stops_the_run(tmp_path: Path) -> None:
    deaf = FakeLM(can=Can(generate=True), failures={"alpha": Failure("timeout", "late"), "beta": Failure("timeout", "late")})
    copier = RemoteCopier(deaf, ["alpha", "beta", None], words=[])
    assert verify(copier, copier.forms(), [2], Journal(tmp_path / "b", "r"), limit=0.01) == {}
    with pytest.raises(ModelUnavailable, match="none of 2"):
        verify(copier, copier.forms(), [0, 1], Journal(tmp_path / "a", "r"), limit=0.01)


def test_the_chance_of_an_answer() -> None:
    top = tuple(((piece, lp),) for piece, lp in (("al", -0.1), ("pha", -0.2), (".", -3.0)))
    answer = Answer("alpha.", "stop", 3, 3, np.array([-0.1, -0.2, -3.0], np.float32), top)
    assert chance_in(answer, "alpha") == pytest.approx(np.exp(-0.3), rel=1e-5) and chance_in(answer, "beta") == 0
    assert says("«alpha» it is", "alpha") and says(" alpha", " alpha") and not says("an alpha", "alpha")
