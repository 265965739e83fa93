"""The two regular-expression engines agree on the character classes of the known cuts."""

from __future__ import annotations

import pytest
import tiktoken
import tokenizers

from typecase.store.tokenizer import unicode as tokenizer_unicode
from typecase.store.tokenizer.known import PATTERNS
from typecase.store.tokenizer.unicode import COMPARED, EVERY_CODE_POINT, differing, disagreement

CLASSES = sorted({name for pattern in PATTERNS.values() for name in pattern.classes})


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSES)
def test_the_versions_written_down_agree_everywhere(name: str) -> None:
    if (tiktoken.__version__, tokenizers.__version__) not in COMPARED:
        pytest.skip("other versions are compared when a tokenizer is opened")
    assert differing(name, EVERY_CODE_POINT) == frozenset()


def test_a_difference_is_found_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = (range(0x20, 0x180),)
    assert differing(r"\p{L}", codes) == frozenset()
    monkeypatch.setattr(tokenizer_unicode, "COMPARED", frozenset())
    monkeypatch.setattr(tokenizer_unicode, "_ASSIGNABLE", codes)
    assert disagreement((r"\p{L}", r"\s")) == ""
    monkeypatch.setattr(tokenizer_unicode, "_by_tokenizers", lambda name, text: set("abc"))
    assert disagreement((r"[abcd]",)).endswith("differ on 1 characters in [abcd]")


def test_other_versions_are_compared_over_what_may_be_assigned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer_unicode, "COMPARED", frozenset())
    assert disagreement((r"\s",)) == ""
