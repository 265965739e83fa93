r"""When may tiktoken stand in for the tokenizers library? Only when the same ids are proven, never by resemblance.

Both merge the adjacent pair of lowest rank, leftmost first, until none is left. They differ in what may merge: the
library asks whether the *pair* (x, y) is listed, tiktoken whether the *bytes* x+y are in its table.

Lemma. Let t be a string of bytes and *run(t)* the library's merging of t alone. If at some moment of merging any text two
adjacent symbols (u, v) cover exactly the bytes of t, then (u, v) is also a state of run(t): until then no merge crossed the
ends of t, and merges outside t do not change the order of those inside. A state of two symbols is unique in run(t), since
every merge removes one symbol.

So let the table hold the single bytes and every t with run(t) = [t], ranked by the merge that made it. Then tiktoken
merges (u, v) into t exactly where the library does: (u, v) is the state of run(t) before its end, hence listed. And a
listed pair whose result is left out of the table never comes up at all. The shortcut of tiktoken (a whole piece that is in
the table becomes that token) agrees since run(t) = [t].

A model with `ignore_merges` has that shortcut for *every* entry. Entries that merging cannot reach are then added at the
end of the table; they change nothing if run(t) ends in three symbols or more, for then two never cover t. If it ends in
two, tiktoken would merge them: no proof, and the library does the work.

The cut into pieces must be one whose spelling is known, with character classes on which both regular-expression engines
agree. Texts in which an added token occurs, or that NFC would change, are sent to the library one by one (the guard).

Price: run(t) for every entry, by the library itself: 0.15 s for 50,000 entries, 0.8 s for 150,000, once per opening.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import tokenizers

from typecase.store.tokenizer.alphabet import UTF8_BYTES
from typecase.store.tokenizer.known import GPT2, PATTERN_OF_SPELLING, Pattern, gpt2_with_space_runs
from typecase.store.tokenizer.unicode import disagreement


@dataclass(frozen=True, slots=True)
class Guard:
    """Which texts the proof covers: those in which none of `added` occurs and, with `nfc`, in that normal form."""

    added: tuple[re.Pattern[str], ...]
    nfc: bool

    def admits(self, text: str) -> bool:
        for pattern in self.added:
            if pattern.search(text) is not None:
                return False
        return not self.nfc or text.isascii() or _is_settled_nfc(text)


def guard_against(contents: Iterable[str], *, nfc: bool) -> Guard:
    """The guard for added tokens `contents`: a pattern for each first character, as those are searched ten times faster."""
    groups: dict[str, list[str]] = {}
    forms = {form for content in contents for form in (content, unicodedata.normalize("NFC", content)) if form}
    for form in sorted(forms):
        groups.setdefault(form[0], []).append(re.escape(form))
    return Guard(tuple(re.compile("|".join(group)) for group in groups.values()), nfc)


@dataclass(frozen=True, slots=True)
class FastPlan:
    """What tiktoken needs to give the library's ids: rank of each token, id of each rank, cut, guard."""

    table: Mapping[bytes, int]
    ids: npt.NDArray[np.int32]  # (ranks,)
    pattern: Pattern | str
    guard: Guard


def plan_fast(definition: Mapping[str, Any], library: tokenizers.Tokenizer, spelled: Mapping[str, bytes]) -> FastPlan | str:
    """The plan under which tiktoken equals `library`, opened from `definition`; or why there is none, in a phrase.

    `spelled` are the bytes of the entries of the vocabulary that lie in the byte alphabet.
    """
    model = definition["model"]
    if model.get("type") != "BPE":
        return f"the model is {model.get('type')}, not byte-level BPE"
    nfc = _normal_form(definition.get("normalizer"))
    if nfc is None:
        return f"the normalizer {definition['normalizer'].get('type')} is not covered by the proof"
    cut = _cut(definition.get("pre_tokenizer"))
    if cut is None:
        return "the pre-tokenizer is none whose cut is known to be the same in both engines"
    reason = _unfit_vocabulary(model, spelled) or disagreement(cut.classes)
    if reason:
        return reason
    contents = [token["content"] for token in definition.get("added_tokens") or ()]
    longest = _longest_space_run(definition, cut)
    runs = {" " * length: library.token_to_id(" " * length) for length in range(2, longest + 1)}
    table = _table(model, library, spelled, without_space_runs=bool(runs))
    if isinstance(table, str):
        return table
    tokens, ids = table
    tokens += [run.encode() for run in runs]
    ids += [index for index in runs.values() if index is not None]
    return FastPlan(
        {token: rank for rank, token in enumerate(tokens)},
        np.array(ids, np.int32),
        gpt2_with_space_runs(longest) if runs else cut,
        guard_against([content for content in contents if content not in runs], nfc=nfc),
    )


def _unfit_vocabulary(model: Mapping[str, Any], spelled: Mapping[str, bytes]) -> str:
    """Why the entries of `model` are no plain bytes, "" when they are."""
    for option in ("continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(option):
            return f"the model sets {option}"
    vocabulary = model["vocab"]
    if len(set(vocabulary.values())) != len(vocabulary):
        return "two entries of the vocabulary share an id"
    missing = UTF8_BYTES - {data[0] for data in spelled.values() if len(data) == 1}
    return f"the vocabulary has no token for {len(missing)} of the bytes of UTF-8" if missing else ""


def _normal_form(normalizer: Mapping[str, Any] | None) -> bool | None:
    """False for no normalizer, True for NFC, None for any other."""
    if normalizer is None:
        return False
    if normalizer.get("type") == "Sequence":
        forms = [_normal_form(part) for part in normalizer.get("normalizers", ())]
        return None if None in forms else any(forms)
    return True if normalizer.get("type") == "NFC" else None


def _cut(pre_tokenizer: Mapping[str, Any] | None) -> Pattern | None:
    """The known cut that `pre_tokenizer` makes, None when it is not known to be one."""
    if pre_tokenizer is None:
        return None
    if _is_byte_level(pre_tokenizer, use_regex=True):
        return GPT2
    parts = pre_tokenizer.get("pretokenizers", ())
    if pre_tokenizer.get("type") != "Sequence" or len(parts) != 2 or not _is_byte_level(parts[1], use_regex=False):
        return None
    split = parts[0]
    # The known patterns match every character, so keeping only the matches is the same as isolating them.
    manner = (split.get("behavior"), bool(split.get("invert")))
    if split.get("type") != "Split" or manner not in {("Isolated", False), ("Removed", True)}:
        return None
    pattern = split.get("pattern", {})
    return PATTERN_OF_SPELLING.get(pattern.get("Regex", "")) if isinstance(pattern, dict) else None


def _is_byte_level(part: Mapping[str, Any], *, use_regex: bool) -> bool:
    # The library adds the space and uses the pattern unless told otherwise.
    return (
        part.get("type") == "ByteLevel"
        and part.get("add_prefix_space", True) is False
        and part.get("use_regex", True) is use_regex
    )


def _longest_space_run(definition: Mapping[str, Any], cut: Pattern) -> int:
    """n when 2 … n spaces, every length, are plain added tokens matched in one pass of the library; else 0."""
    flags = ("special", "single_word", "lstrip", "rstrip")
    runs = [
        token
        for token in definition.get("added_tokens") or ()
        if len(token["content"]) > 1 and not token["content"].strip(" ") and not any(token.get(flag) for flag in flags)
    ]
    lengths = {len(token["content"]) for token in runs}
    longest = max(lengths, default=0)
    one_pass = len({bool(token.get("normalized")) for token in runs}) == 1
    return longest if cut is GPT2 and one_pass and lengths == set(range(2, longest + 1)) else 0


def _table(
    model: Mapping[str, Any],
    library: tokenizers.Tokenizer,
    spelled: Mapping[str, bytes],
    *,
    without_space_runs: bool,
) -> tuple[list[bytes], list[int]] | str:
    """Tokens in order of rank and their ids, or why tiktoken cannot have a table; see the lemma above."""
    shortcut = bool(model.get("ignore_merges"))
    spans = _merge_spans(model["merges"])
    asked = [token for token in spelled if len(token) > 1 and (shortcut or token in spans)]
    left = dict(zip(asked, _symbols_left(model, library, asked)))
    reached = sorted([token for token in asked if left[token] == 1], key=spans.__getitem__)
    for before, after in pairwise(reached):
        if spans[before][1] > spans[after][0]:
            return f"the merges into {before!r} and {after!r} alternate in rank"
    order = [token for token in spelled if len(token) == 1] + reached
    if shortcut:
        stuck = [token for token in asked if left[token] == 2]
        if stuck:
            return f"{stuck[0]!r} is no merge, yet its two parts are neighbours ({len(stuck)} such entries)"
        order += [token for token in asked if left[token] > 2]
    if without_space_runs:
        order = [token for token in order if b"  " not in spelled[token]]
    return [spelled[token] for token in order], [model["vocab"][token] for token in order]


def _merge_spans(merges: Iterable[str | Sequence[str]]) -> dict[str, tuple[int, int]]:
    """Result of a merge -> its first and last rank (one pair makes it, as a rule; then they are equal)."""
    spans: dict[str, tuple[int, int]] = {}
    for rank, merge in enumerate(merges):
        result = merge.replace(" ", "", 1) if isinstance(merge, str) else "".join(merge)
        first, _ = spans.get(result, (rank, rank))
        spans[result] = (first, rank)
    return spans


def _symbols_left(model: Mapping[str, Any], library: tokenizers.Tokenizer, tokens: list[str]) -> list[int]:
    """Length of run(t) for each of `tokens`, by the library: no cut, no added tokens, no shortcut."""
    bare = tokenizers.Tokenizer(library.model)
    if model.get("ignore_merges"):
        plain = {"version": "1.0", "added_tokens": [], "model": {**model, "ignore_merges": False}}
        bare = tokenizers.Tokenizer.from_str(orjson.dumps(plain).decode())
    return [len(encoding) for encoding in bare.encode_batch_fast(tokens, add_special_tokens=False)]


def _is_settled_nfc(text: str) -> bool:
    """Whether `text` is in NFC for every version of Unicode.

    Normal forms are stable for the characters that a version knows: text in NFC here, without a character that is
    unassigned here, stays as it is under any later version; and an earlier one, knowing fewer compositions, leaves it too.
    """
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    return unicodedata.is_normalized("NFC", text) and not _unassigned()[codes].any()


@cache
def _unassigned() -> npt.NDArray[np.bool_]:
    """Which code points this Python does not know (0x110000,); planes 4 to 13 hold none that anyone knows."""
    unknown = np.ones(sys.maxunicode + 1, np.bool_)
    for plane in (0, 1, 2, 3, 14):
        codes = range(plane << 16, (plane + 1) << 16)
        unknown[codes.start : codes.stop] = [unicodedata.category(chr(code)) == "Cn" for code in codes]
    unknown[0xF0000:] = False  # private use, assigned for good
    return unknown
