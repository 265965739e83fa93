"""Forms with gaps: reading all gaps at once equals filling them one after the other."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lm.contract import LONG, TEXTS
from tests.lm.tiny import make_tiny, one_thread
from typecase.errors import BadQuery
from typecase.lm.fake import FakeLM
from typecase.lm.protocol import LM, Failure
from typecase.lm.slots import Filled, Slot, fill, fill_by_choices

assert one_thread
DIGITS = ("1", "2", "3", "4", "5")
SLOTS = [Slot("\n", DIGITS), Slot("\n", DIGITS), Slot("\nDomain: ", ("A", "B", "C")), Slot("", ("x", "y")), Slot("\n", DIGITS)]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> LM:
    pytest.importorskip("transformers")
    from typecase.lm.local import LocalLM

    return LocalLM(make_tiny(tmp_path_factory.mktemp("tiny") / "llama"), device="cpu", batch_tokens=300)


def test_all_at_once_equals_one_after_the_other(tiny: LM) -> None:
    prompts = ["Rate the text. Text: " + text for text in TEXTS]
    fast, slow = list(fill(tiny, prompts, SLOTS)), list(fill_by_choices(tiny, prompts, SLOTS))
    for one, other in zip(fast, slow, strict=True):
        assert isinstance(one, Filled) and isinstance(other, Filled)
        assert one.exact and one.best == other.best
        for a, b in zip(one.logprobs, other.logprobs, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-4)


def test_one_pass_may_be_inexact_and_says_so(tiny: LM) -> None:
    once, exact = list(fill(tiny, TEXTS, SLOTS, passes=1)), list(fill(tiny, TEXTS, SLOTS))
    assert not all(result.exact for result in once if isinstance(result, Filled))
    for one, other in zip(once, exact):
        assert isinstance(one, Filled) and isinstance(other, Filled)
        np.testing.assert_allclose(one.logprobs[0], other.logprobs[0], atol=1e-4)
        if one.exact:
            assert one.best == other.best


def test_one_slot_is_always_exact(tiny: LM) -> None:
    assert all(isinstance(result, Filled) and result.exact for result in fill(tiny, TEXTS, SLOTS[:1], passes=1))


def test_labels_of_many_tokens_and_other_models_go_gap_after_gap(tiny: LM) -> None:
    words = [Slot(" ", ("keep", "drop it")), Slot("\n", DIGITS)]
    for lm in (tiny, FakeLM()):
        results = list(fill(lm, [*TEXTS, LONG], words))
        assert all(isinstance(result, Filled) for result in results[:-1])
        assert isinstance(results[-1], Failure) and results[-1].kind == "too_long"


def test_the_label_mass_is_at_most_one(tiny: LM) -> None:
    for result in fill(tiny, TEXTS, SLOTS):
        assert isinstance(result, Filled)
        assert all(0 < float(np.exp(values).sum()) <= 1 + 1e-5 for values in result.logprobs)


def test_what_cannot_be_meant_is_refused() -> None:
    with pytest.raises(BadQuery, match="two labels"):
        Slot("", ("a",))
    with pytest.raises(BadQuery, match="one slot"):
        fill(FakeLM(), ["a"], [])
