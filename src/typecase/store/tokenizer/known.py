r"""What is known beforehand: splitting patterns, published rank files, names of special tokens, probe texts.

A rank file holds no pattern and no special tokens; they are looked up by the hash of the ranks, never by file name.

Patterns are written for the regular-expression engine of tiktoken. Where the published spelling ends in
`\s+(?!\S)|\s+`, ours reads `\s++$|\s+(?!\S)|\s`: a run of white space that reaches the end is taken whole either way,
but the possessive form needs no memory for it (the published one fails on a million spaces). After the first two
alternatives have failed only a run of one character can be left, so `\s` suffices.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

_WHITE = "\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_LONG_RUN = rf"(?<![{_WHITE}])[{_WHITE}]{{100000,}}(?<=[LAST])(?=[^{_WHITE}])"

_TAIL = r"|\s++$|\s+(?!\S)|\s"
_LETTERS_ANY_CASE = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
)
_GPT4 = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|DIGITS| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s*[\r\n]+" + _TAIL


@dataclass(frozen=True, slots=True)
class Pattern:
    r"""A way to cut text into pieces before merging.

    `fast` is for tiktoken. `published` is how a `tokenizer.json` spells the same cut. `classes` are the character
    classes on which two engines must agree for the cut to be the same. `with_breaks`: line breaks are white space like
    any other.
    """

    name: str
    fast: str
    published: str
    classes: tuple[str, ...]
    with_breaks: bool = False

    def parts(self, text: str) -> list[str]:
        r"""`text` in parts that cut alike, for when tiktoken's engine runs out of memory.

        It does in `\s+(?!\S)` on about a million characters of white space before a word: there that matches all of
        the run but its last character, and the text is parted before that. Where line breaks have an alternative of
        their own, a run that ends in one never gets so far.
        """
        last = _WHITE if self.with_breaks else _WHITE.replace("\t-\r", "\t\v\f")
        runs = re.finditer(_LONG_RUN.replace("LAST", last), text)
        places = [0, *(run.end() - 1 for run in runs), len(text)]
        return [text[start:stop] for start, stop in pairwise(places)]


_CLASSES = (r"\p{L}", r"\p{N}", r"\s")
_CONTRACTION = r"(?i:[stremvld])"

GPT2 = Pattern(
    "gpt2",
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++" + _TAIL,
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    _CLASSES,
    with_breaks=True,
)
_PUBLISHED_GPT4 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|DIGITS| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CL100K = Pattern(
    "cl100k",
    _GPT4.replace("DIGITS", r"\p{N}{1,3}+"),
    _PUBLISHED_GPT4.replace("DIGITS", r"\p{N}{1,3}"),
    (*_CLASSES, _CONTRACTION),
)
"""As first published and as every `tokenizer.json` spells it. tiktoken now takes white space at the end of a text as one
piece even when a line break is in it; as no entry of cl100k goes on from a line break to end in something else, the ids
are the same."""
QWEN2 = Pattern(
    "qwen2",
    _GPT4.replace("DIGITS", r"\p{N}"),
    _PUBLISHED_GPT4.replace("DIGITS", r"\p{N}"),
    (*_CLASSES, _CONTRACTION),
)
O200K = Pattern(
    "o200k",
    _LETTERS_ANY_CASE + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+" + _TAIL,
    _LETTERS_ANY_CASE + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    (*_CLASSES, _CONTRACTION, r"\p{Lu}", r"\p{Lt}", r"\p{Lm}", r"\p{Lo}", r"\p{Ll}", r"\p{M}"),
)

PATTERNS: Mapping[str, Pattern] = MappingProxyType({pattern.name: pattern for pattern in (GPT2, CL100K, QWEN2, O200K)})
PATTERN_OF_SPELLING: Mapping[str, Pattern] = MappingProxyType({p.published: p for p in PATTERNS.values()})


def gpt2_with_space_runs(longest: int) -> str:
    r"""The GPT-2 cut for vocabularies in which 2 … `longest` spaces are tokens of their own (the NeoX-20B family).

    The framework takes those tokens out of the text before it cuts, so nothing else may reach into two adjacent
    spaces: white space ends before them (`[^\S ]` is white space other than a space), and a cut that ends there
    passes `(?!\S)` as it would at the end of a segment.
    """
    return (r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++| {2,LONGEST}|(?:[^\S ]| (?! ))+(?!\S)|\s").replace(
        "LONGEST", str(longest)
    )


@dataclass(frozen=True, slots=True)
class PublishedRanks:
    """A published rank file: its name, its cut, its special tokens."""

    name: str
    pattern: Pattern
    special_tokens: Mapping[str, int]


_CL100K_SPECIALS = {
    "<|endoftext|>": 100257,
    "<|fim_prefix|>": 100258,
    "<|fim_middle|>": 100259,
    "<|fim_suffix|>": 100260,
    "<|endofprompt|>": 100276,
}

PUBLISHED_RANKS: Mapping[str, PublishedRanks] = MappingProxyType(
    {
        "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930": PublishedRanks(
            "gpt2 (r50k)", GPT2, {"<|endoftext|>": 50256}
        ),
        "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069": PublishedRanks(
            "p50k", GPT2, {"<|endoftext|>": 50256}
        ),
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7": PublishedRanks("cl100k", CL100K, _CL100K_SPECIALS),
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d": PublishedRanks(
            "o200k", O200K, {"<|endoftext|>": 199999, "<|endofprompt|>": 200018}
        ),
    }
)
"""By the SHA-256 of the ranks written one a line, `base64(token) rank`, in order of rank."""

BOS_NAMES = ("<s>", "<bos>", "<|begin_of_text|>", "<|startoftext|>", "<｜begin▁of▁sentence｜>")
EOD_NAMES = ("<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>")
EOS_NAMES = (*EOD_NAMES, "</s>", "<eos>")
PAD_NAMES = ("<pad>", "<|padding|>", "<|pad|>", "[PAD]")
"""Names taken when no configuration says which token plays the part; the first one present wins.

The end of a *document* is `EOD_NAMES` before the configured end of sequence: chat models set that to the end of a turn.
"""

PROBE_TEXTS = (
    "Hello world",
    " the of and in to a",
    "The quick brown fox jumps over 13 lazy dogs.",
    "I'm sure they'll say it's what we've SAID, won't they?",
    "DON'T You'Re",
    "1234567890 3.14159 0x7fff 1,000,000",
    "a  b   c    d        e                        f                         g",
    "\tif x:\n\t\treturn y\n\n\n    # comment\r\n  \n",
    "   leading and trailing   ",
    "def f(x: int) -> str:\n    return f\"{x!r}\" + '\\n'\n",
    "<html><body class='a'>&amp; &lt;</body></html>",
    "https://example.org/a/b?c=d&e=f#g user@example.org",
    "e = mc^2; \\frac{a}{b} \\sum_{i=0}^{n} x_i",
    "naïve café façade Ünïcödé",
    "e\u0301 A\u030a \ufb01 \u2126 \u00bd \u00b2",
    "Привет, мир! Ελληνικά עברית العربية",
    "हिन्दी ไทย தமிழ் ქართული",
    "中文分词测试，日本語のテキスト、한국어",
    "😀👩‍👩‍👧‍👦🇫🇷 ✓ →",
    "\u00a0\u2003\u3000\u200b\ufeff",
    " SolidGoldMagikarp Arthropoda rawdownloadcloneembedreportprint",
    "<|endoftext|><s></s>[CLS]<pad>",
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA--------------------------------",
    "internationalization antidisestablishmentarianism",
)
"""Texts whose ids are part of a fingerprint: together they touch every part of a cut and many merges."""
