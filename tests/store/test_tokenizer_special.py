"""The policy for special tokens: resolved once, checked, described, put in."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from typecase.errors import BadQuery
from typecase.store.tokenizer.special import SpecialPolicy, special_policy
from typecase.store.tokenizer.tokenizer import open_tokenizer

from .tokenizer_samples import BYTES, GPT4, UNIGRAM

TOKENIZER = open_tokenizer(BYTES)


def test_true_names_and_ids() -> None:
    assert special_policy(TOKENIZER) == SpecialPolicy(None, None, 0, "<|endoftext|>")
    assert special_policy(TOKENIZER, eod="<|endoftext|>") == special_policy(TOKENIZER, eod=0) == special_policy(TOKENIZER)
    assert special_policy(TOKENIZER, bos="<|padding|>", eod=False) == SpecialPolicy(1, "<|padding|>", None, None)
    assert special_policy(TOKENIZER, bos=None, eod=None).num_added == 0
    assert special_policy(open_tokenizer(UNIGRAM), bos=True).describe() == {
        "bos_id": 1,
        "bos_token": "<s>",
        "eod_id": 2,
        "eod_token": "</s>",
    }


def test_what_the_tokenizer_does_not_have() -> None:
    with pytest.raises(BadQuery, match=r"has no bos token; its special tokens: '<\|endoftext\|>' = 0, '<\|padding\|>' = 1"):
        special_policy(TOKENIZER, bos=True)
    with pytest.raises(BadQuery, match=r"eod='</s>': .* has no token '</s>'; its special tokens: '<\|endoftext\|>' = 0"):
        special_policy(TOKENIZER, eod="</s>")
    with pytest.raises(BadQuery, match=r"eod=512: .* ids lie in \[0, 512\)"):
        special_policy(TOKENIZER, eod=512)
    with pytest.raises(BadQuery, match="its special tokens: none at all"):
        special_policy(open_tokenizer(GPT4))


@given(
    documents=st.lists(st.lists(st.integers(2, 500), max_size=5), max_size=6),
    bos=st.sampled_from([None, 0, 7]),
    eod=st.sampled_from([None, 1, 9]),
)
def test_surround_puts_them_around_every_document(documents: list[list[int]], bos: int | None, eod: int | None) -> None:
    policy = SpecialPolicy(bos, None, eod, None)
    around = [[i for i in (bos,) if i is not None] + doc + [i for i in (eod,) if i is not None] for doc in documents]
    ids = np.array([i for doc in documents for i in doc], np.int32)
    lengths = np.array([len(doc) for doc in documents], np.int64)
    longer, longer_lengths = policy.surround(ids, lengths)
    assert longer.tolist() == [i for doc in around for i in doc]
    assert longer_lengths.tolist() == [len(doc) for doc in around]
    assert (longer.dtype, longer_lengths.dtype) == (np.int32, np.int64)
