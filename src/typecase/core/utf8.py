"""One character of UTF-8, for kernels that read text as bytes.

    values  e4 b8 ad 21     code_at(values, 0, 4)  ->  0x4E2D, 3
                            code_at(values, 3, 4)  ->  0x21, 1

Valid UTF-8, lone surrogates included, is read as Python reads it. Bytes that are no UTF-8 are never an error and never lead out
of the text: a sequence that the text cuts off ends with it, a continuation byte without a lead stands for its own value, and a
code is 0x10FFFF at most. Whoever needs to know whether bytes are valid asks Python's decoder.

Price: below 1 ns a character. It becomes part of the kernel that uses it; callers that meet much ASCII test for that first.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit

LAST: Final = 0x10FFFF
"""The largest code of a character."""


@njit(cache=True, nogil=True, inline="always")
def code_at(values: Any, i: int, stop: int) -> tuple[Any, Any]:
    """(code, size) of the character at byte i of values[:stop], uint8 (bytes,).

    0 <= code <= 0x10FFFF, 1 <= size <= 4, i + size <= stop. Needs i < stop; both int64.
    """
    lead = np.int64(values[np.uint64(i)])
    if lead < 0xC0:
        return lead, np.int64(1)
    size = np.int64(2) if lead < 0xE0 else np.int64(3) if lead < 0xF0 else np.int64(4)
    code = lead & (np.int64(0xFF) >> (size + 1))
    end: Any = min(i + size, stop)
    for j in range(i + 1, end):
        code = (code << 6) | (np.int64(values[np.uint64(j)]) & 0x3F)
    return min(code, np.int64(LAST)), end - i
