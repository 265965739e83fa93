"""Reach: can any text make this token? Three conditions, a witness where one is found, a reason where none can be.

    merge        the merges, replayed on the token's own symbols, end in the token        necessary in every context
    normalizer   the normalizer leaves the token's text as it is
    context      in some text the cut isolates it: the real encoder, given that text, gives the id

A witness settles it: an encoder that gave the id has reached it. Without one, a failed merge is final (a token within a longer
piece is built as it is alone), so only what merges is tried in context: bare, then among spaces, line breaks, letters, digits
and punctuation. Parts of characters are completed with real bytes; those for which no completion tried gives the id are
`unproven`, never unreachable.

Price: two encodings of the vocabulary and a replay in Python: 10 s for 256,000 entries.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from typecase.core.glitch.merging import best_segmentation, replay, replay_ranked
from typecase.core.glitch.utf8 import Utf8, classify, completions
from typecase.store.audit.vocabulary import Vocabulary

CONTEXTS: tuple[tuple[str, str], ...] = (
    ("", ""), (" ", ""), ("\n", ""), ("a", ""), ("1", ""), (".", ""), ("", " "), ("", "a"), ("", "1"), ("", "."), ("", "\n"),
    (" ", " "), ("a", "a"), (" ", "a"), ("a", " "), (".", "."), ("(", ")"), ("\n", "\n"), ("1", "1"), ("a", "."), (".", "a"),
    ("\t", ""), ("", "\t"), ("Z", ""), ("", "Z"), ("é", ""), ("", "é"), ("'", ""), ("中", "中"), (" .", ""), ("a ", ""),
    ("=", "="),
)  # fmt: skip
"""What may stand before and after a token, the likeliest first."""

_NEIGHBOURS = [chr(code) for code in range(0x21, 0x7F)]
"""Tried one by one, before and after, for the few that are left: `'v` comes up in `'ve` alone."""

_FEW, _MANY = 48, 1024
_CHUNK = 1 << 15


@dataclass(frozen=True, slots=True)
class Reach:
    """`verdict` is reachable, unreachable, unproven, or control for what text is not meant to make.

    `failing` are the conditions that fail; `pieces` what its own text encodes to instead; `witness` a text that makes it.
    """

    verdict: str
    failing: tuple[str, ...] = ()
    reason: str = ""
    witness: str | None = None
    pieces: tuple[str, ...] = ()


@dataclass(slots=True)
class _Search:
    """Witnesses found so far, and by id whether the merges make the token, and of which two."""

    vocabulary: Vocabulary
    utf8: list[Utf8 | None]
    witness: dict[int, str] = field(default_factory=dict)

    def try_texts(self, tries: Iterable[tuple[int, str]]) -> None:
        """Encodes each text; the id it was meant for, when it comes up, has a witness."""
        batch: list[tuple[int, str]] = []
        for one in tries:
            if one[0] not in self.witness:
                batch.append(one)
            if len(batch) >= _CHUNK:
                self._flush(batch)
        self._flush(batch)

    def _flush(self, batch: list[tuple[int, str]]) -> None:
        for (token, text), ids in zip(batch, self.vocabulary.codec.encode([text for _, text in batch])):
            if token in ids:
                self.witness.setdefault(token, text)
        batch.clear()


@dataclass(frozen=True, slots=True, eq=False)
class Reached:
    """By id: what was found, the UTF-8 class, and the two ids that it was merged of at last ((-1, -1) for none)."""

    reaches: tuple[Reach, ...]
    utf8: tuple[Utf8 | None, ...]
    children: tuple[tuple[int, int], ...]


def find_reach(vocabulary: Vocabulary) -> Reached:
    """Judges every id."""
    v = vocabulary
    utf8 = [None if data is None else classify(data) for data in v.data]
    search = _Search(v, utf8)
    parts, children = _merged(v)
    texts = [v.text_of(token) for token in range(v.num_ids)]
    asked = [t for t in range(v.num_ids) if v.kinds[t] not in ("gap", "special")]
    search.try_texts((t, text) for t in asked if (text := texts[t]) is not None)
    search.try_texts(v.names)
    fails = {t for t in asked if parts[t] and not v.whole_first}
    left = [t for t in asked if t not in search.witness and t not in fails]
    for before, after in CONTEXTS[1:]:
        search.try_texts((t, before + text + after) for t in left if (text := texts[t]) is not None)
    for char in _NEIGHBOURS:
        left = [t for t in left if t not in search.witness]
        search.try_texts((t, text + char) for t in left if (text := texts[t]) is not None)
        search.try_texts((t, char + text) for t in left if (text := texts[t]) is not None)
    for most in (_FEW, _MANY):
        search.try_texts((t, text) for t in left if t not in search.witness for text in _completed(v, t, most))
    shadows = _Shadows(v)
    reaches = [_judge(v, t, search, parts[t], texts[t], shadows) for t in range(v.num_ids)]
    return Reached(tuple(reaches), tuple(utf8), tuple(children))


def _completed(v: Vocabulary, token: int, most: int) -> Iterable[str]:
    """Texts of whole characters around a part of one."""
    data, utf8 = v.data[token], None if v.data[token] is None else classify(v.data[token] or b"")
    if data is None or utf8 is None or utf8.kind in ("whole", "never"):
        return
    for text in completions(data, most):
        try:
            yield text.decode()
        except UnicodeDecodeError:  # two parts that do not meet at a character
            continue
        if most > _FEW and v.byte_level:
            yield " " + text.decode()


# merging


def _merged(v: Vocabulary) -> tuple[list[tuple[str, ...]], list[tuple[int, int]]]:
    """By id: what the merges leave when it is not the token itself (else empty), and the two ids it was made of."""
    parts: list[tuple[str, ...]] = [()] * v.num_ids
    children = [(-1, -1)] * v.num_ids
    ids = {text: token for token, text in reversed(list(enumerate(v.spellings))) if text is not None}
    for token, (text, kind) in enumerate(zip(v.spellings, v.kinds)):
        if text is None or kind in ("special", "added", "gap", "unused", "byte"):
            continue
        if v.model == "BPE" and v.merges is not None:
            left, last = replay(list(text), v.merges)
            if left != [text]:
                parts[token] = tuple(left)
            elif last is not None:
                children[token] = (ids[last[0]], ids[last[1]])
        elif v.ranks is not None:
            data = v.data[token] or b""
            rest, pair = replay_ranked(data, v.ranks)
            if rest != [data]:
                parts[token] = tuple(piece.decode("utf-8", "backslashreplace") for piece in rest)
            elif pair is not None:
                shift = token - v.ranks[data]
                children[token] = (v.ranks[pair[0]] + shift, v.ranks[pair[1]] + shift)
        elif v.scores is not None:
            found = best_segmentation(text, v.scores, unknown=min(v.scores.values()) - 10)
            parts[token] = () if found == [text] else tuple(found)
    return parts, children


# reasons


class _Shadows:
    """Tokens of the same bytes, and added tokens, which are taken out of a text before it is cut."""

    def __init__(self, v: Vocabulary) -> None:
        self.first: dict[bytes, list[int]] = {}
        for token, data in enumerate(v.data):
            if data:
                self.first.setdefault(data, []).append(token)
        self.added = [(v.spellings[t] or "", t) for t, kind in enumerate(v.kinds) if kind in ("special", "added")]
        self.starts = {text[:1] for text, _ in self.added}

    def added_in(self, text: str, token: int) -> int | None:
        if not self.starts & set(text):
            return None
        return next((other for content, other in self.added if other != token and content and content in text), None)


def _judge(v: Vocabulary, token: int, search: _Search, parts: tuple[str, ...], text: str | None, shadows: _Shadows) -> Reach:
    kind, utf8, data = v.kinds[token], search.utf8[token], v.data[token] or b""
    if kind in ("gap", "special", "unused"):
        reasons = {"gap": "no token has this id", "special": "a control token", "unused": "marked as unused"}
        return Reach("control" if kind == "special" else "reserved", (), reasons[kind])
    if token in search.witness:
        return Reach("reachable", witness=search.witness[token])
    assert utf8 is not None
    if utf8.kind == "never":
        return Reach("unreachable", ("context",), "bytes that no UTF-8 text holds")
    failing = []
    if parts:
        failing.append("merge")
    normal = v.codec.normalize(text) if text is not None and v.has_normalizer else text
    changed = text is not None and _plain(text) not in _plain(normal or "")
    if changed:
        failing.append("normalizer")
    if not failing or v.whole_first:
        failing.append("context")
    fragment = utf8.kind != "whole"
    reason = _reason(v, token, parts, text, normal if changed else None, shadows, fragment)
    pieces = parts
    if text is not None:
        (ids,) = v.codec.encode([text])
        pieces = tuple(v.spellings[i] or "" for i in ids)
    # The characters that begin with one of these bytes were all tried.
    exhausted = len(data) == 1 and 0xC2 <= data[0] <= 0xDF
    open_ = fragment and failing == ["context"] and not exhausted
    return Reach("unproven" if open_ else "unreachable", tuple(failing), reason, None, pieces)


def _reason(
    v: Vocabulary, token: int, parts: tuple[str, ...], text: str | None, normal: str | None, shadows: _Shadows, fragment: bool
) -> str:
    data = v.data[token] or b""
    others = [other for other in shadows.first.get(data, ()) if other != token]
    if others and v.kinds[token] == "byte":
        return f"its character has a piece of its own: {others[0]}"
    if normal is not None:
        return f"normalised away to {normal!r}"
    if text is not None and (added := shadows.added_in(text, token)) is not None:
        return f"shadowed by the added token {added}, which is taken out of a text before it is cut"
    if others:
        return f"shadowed by {others[0]}, which has the same bytes"
    if parts and not v.whole_first:
        if v.merges is not None and not any((data_l, data_r) in v.merges for data_l, data_r in _splits(v.spellings[token])):
            return "no merge makes it"
        return f"pre-empted by an earlier merge: {' '.join(parts)}"
    if len(data) == 1 and 0xC2 <= data[0] <= 0xDF:
        return "its characters all have tokens of their own"
    if fragment:
        return "no completion that was tried gives it"
    return "the cut never isolates it" if v.byte_level else "no context that was tried gives it"


def _splits(text: str | None) -> Iterable[tuple[str, str]]:
    return [] if text is None else [(text[:k], text[k:]) for k in range(1, len(text))]


def _plain(text: str) -> str:
    return text.replace("▁", " ")
