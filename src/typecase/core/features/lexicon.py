"""Lexicon: which classes a word belongs to, and how common it is, in one probe of a small hash table.

A class is a word list with a name (the words of Medicine, of navigation bars, of English grammar); a word may be in
several. Beside the classes stands a level: how many sources of the training documents hold the word, on a log scale.

    slot = key mod 2^k, next slot while taken        key 0 = free

Price: 16 bytes a word at load 1/2; about 3 ns a probe while the table fits the second-level cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from typecase.core.features.scan import IDEOGRAPH, WORD, new_lines, new_tokens, scan

U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]

MAX_CLASSES = 64
"""Classes a lexicon can hold: the bits of its mask."""


class Words(NamedTuple):
    """The arrays of a lexicon, as kernels take them.

    An open-addressed table from word keys (see core/features/scan) to class bits and level; a filter of correctly
    spelled words; the surprise of letters.
    """

    keys: U64  # (slots,), a power of two; 0 where free
    mask: U64  # (slots,): bit c is set if the word is of class c
    level: U8  # (slots,): 16 log2 of the sources that hold the word, 0 for fewer than two
    spelled: U64  # (blocks,), a power of two; see `word_filter`
    letters: U8  # (27 ** 3,): surprise of a letter after two others, in sixteenths of a bit; see core/features/flow


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Named classes and the words that belong to them."""

    classes: tuple[str, ...]
    words: Words


def word_keys(words: list[str]) -> U64:
    """The scan keys of single words, uint64 (words,); ValueError names a string that does not scan as one word."""
    out = np.zeros(len(words), np.uint64)
    longest = max((len(word.encode()) for word in words), default=0)
    tokens, lines = new_tokens(longest), new_lines(longest)
    for row, word in enumerate(words):
        num_tokens, _ = scan(np.frombuffer(word.encode(), np.uint8), tokens, lines)
        if num_tokens != 1 or tokens.kind[0] not in (WORD, IDEOGRAPH):
            raise ValueError(f"'{word}' is not one word: a lexicon holds words of letters and single ideographs")
        out[row] = tokens.key[0]
    return out


def pack_words(keys: U64, mask: U64, level: U8, spelled: U64, letters: U8) -> Words:
    """Packs entries (distinct keys, none 0; arrays of one length) into a table at most half full."""
    size = 1 << max(4, int(2 * len(keys)).bit_length())
    words = Words(np.zeros(size, np.uint64), np.zeros(size, np.uint64), np.zeros(size, np.uint8), spelled, letters)
    _fill(keys, mask, level, words)
    return words


@njit(cache=True, nogil=True, inline="always")
def find(key: np.uint64, keys: U64) -> int:
    """The slot of `key`, or of the free slot that ends its search."""
    last = np.uint64(len(keys) - 1)
    slot = (key ^ (key >> np.uint64(32))) & last
    while keys[slot] != 0 and keys[slot] != key:
        slot = (slot + np.uint64(1)) & last
    return int(slot)


@njit(cache=True, nogil=True)
def _fill(keys: U64, mask: U64, level: U8, words: Words) -> None:
    for row in range(len(keys)):
        slot = find(keys[row], words.keys)
        words.keys[slot], words.mask[slot], words.level[slot] = keys[row], mask[row], level[row]


def word_filter(keys: U64, *, bits: int) -> U64:
    """A blocked Bloom filter of 2^bits 64-bit blocks over `keys`: four bits of one block a key."""
    blocks = np.zeros(1 << bits, np.uint64)
    _add_words(keys, blocks)
    return blocks


@njit(cache=True, nogil=True, inline="always")
def _block(key: np.uint64, blocks: U64) -> tuple[np.uint64, np.uint64]:
    """The block of `key` and the bits that it sets there."""
    key = (key ^ (key >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    bits = np.uint64(0)
    for shift in (10, 16, 22, 28):
        bits |= np.uint64(1) << ((key >> np.uint64(shift)) & np.uint64(63))
    return (key >> np.uint64(40)) & np.uint64(len(blocks) - 1), bits


@njit(cache=True, nogil=True)
def _add_words(keys: U64, blocks: U64) -> None:
    for key in keys:
        block, bits = _block(key, blocks)
        blocks[block] |= bits


@njit(cache=True, nogil=True, inline="always")
def in_words(key: np.uint64, blocks: U64) -> bool:
    """Whether the filter holds `key`; about one foreign key in eighty is held by chance."""
    block, bits = _block(key, blocks)
    return bool((blocks[block] & bits) == bits)
