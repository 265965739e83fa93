r"""Do the regular-expression engines of tiktoken and tokenizers agree on what is a letter, a number, white space?

Each carries its own tables, of the version of Unicode that it was built with. The pair of versions below was compared
over all 1,112,064 code points; any other pair is compared on the code points that any version of Unicode may still
assign (planes 0 to 3 and 14, a quarter of all): 0.3 s a class, once a process.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import tiktoken
import tokenizers

COMPARED = frozenset({("0.14.0", "0.23.3")})
"""(tiktoken, tokenizers): versions found equal in every class of every known pattern, over all code points."""

_ASSIGNABLE = (range(0xD800), range(0xE000, 0x40000), range(0xE0000, 0xE1000))
EVERY_CODE_POINT = (range(0xD800), range(0xE000, 0x110000))


def disagreement(classes: Sequence[str]) -> str:
    """In which of `classes` (patterns of one character) the two engines differ, in a phrase; "" when in none."""
    versions = (tiktoken.__version__, tokenizers.__version__)
    if versions in COMPARED:
        return ""
    for name in classes:
        count = len(differing(name, _ASSIGNABLE))
        if count:
            return f"tiktoken {versions[0]} and tokenizers {versions[1]} differ on {count} characters in {name}"
    return ""


@cache
def differing(char_class: str, codes: tuple[range, ...]) -> frozenset[str]:
    """The characters among `codes` that one engine puts into `char_class` and the other does not."""
    text = "".join([chr(code) for span in codes for code in span])
    return frozenset(_by_tiktoken(char_class, text) ^ _by_tokenizers(char_class, text))


def _by_tiktoken(char_class: str, text: str) -> set[str]:
    # Text between matches is dropped, and with single bytes for tokens the ids are the bytes of the matches.
    single = {bytes([byte]): byte for byte in range(256)}
    encoding = tiktoken.Encoding("bytes", pat_str=char_class, mergeable_ranks=single, special_tokens={"\0": 256})
    return set(encoding.encode_to_numpy(text, disallowed_special=()).astype(np.uint8).tobytes().decode())


def _by_tokenizers(char_class: str, text: str) -> set[str]:
    return set(text) - set(tokenizers.normalizers.Replace(tokenizers.Regex(char_class), "").normalize_str(text))
