"""Documents with planted oddities for bench_derive: clean texts, twelve causes, and a stub that names what it sees.

Seven causes should make a text harder to predict, five easier. Texts are the seeds that readers found sound prose, cut into
excerpts of 60 characters and more, evenly over ln(length). The stub knows no labels: it looks at the text with rules. Its
rules were written by the same hand as the causes, so what it proves is the plumbing and the statistics around it, not that a
language model would see as much.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Callable

import numpy as np

from typecase.lm.rate.seeds import Seeds

Dice = np.random.Generator
Make = Callable[[str, Dice], str]

_KEYS = "qwertyuiopasdfghjklzxcvbnm"
_LEET = str.maketrans("aeiost", "431057")
_BANNER = (
    "We use cookies to improve your experience on our website. By continuing to browse you agree to our use of cookies. "
    "You can change your settings at any time. Accept all cookies. Reject all. Manage preferences. Privacy policy. "
)
_LICENCE = (
    "Permission is hereby granted, free of charge, to any person obtaining a copy of this software, to deal in the software "
    "without restriction, including the rights to use, copy, modify, merge, publish and sell copies of the software. "
)
_MENU = "Home About Products Services Blog Contact Login Register Search Help Sitemap Terms Careers Press Support Partners "
_LOREM = (
    "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore et dolore magna "
    "aliqua. Ut enim ad minim veniam, quis nostrud exercitation ullamco laboris nisi ut aliquip ex ea commodo consequat. "
)
_EXPIRED = "This page is no longer available. The domain may be for sale. Please check the address and try again later. "


def _each_word(text: str, dice: Dice, share: float, change: Callable[[str, Dice], str]) -> str:
    return re.sub(r"[A-Za-z]{3,}", lambda m: change(m[0], dice) if dice.random() < share else m[0], text)


def _typo(word: str, dice: Dice) -> str:
    at = int(dice.integers(1, len(word)))
    return word[:at] + _KEYS[int(dice.integers(26))] + word[at + int(dice.integers(2)) :]


def _shuffled(text: str, dice: Dice) -> str:
    words = text.split()
    return " ".join(words[k] for k in dice.permutation(len(words)))


def _mashed(text: str, dice: Dice) -> str:
    letters = lambda: "".join(_KEYS[k] for k in dice.integers(0, 26, int(dice.integers(3, 11))))  # noqa: E731
    return " ".join(letters() for _ in range(max(8, len(text) // 8)))


def _repeated(passage: str) -> Make:
    def make(text: str, dice: Dice) -> str:
        size, turn = max(200, len(text)), int(dice.integers(len(passage)))
        return ((passage[turn:] + passage * (size // len(passage) + 1))[:size]).strip()

    return make


CAUSES: dict[str, tuple[str, Make]] = {
    "typos": ("high", lambda t, d: _each_word(t, d, 0.6, _typo)),
    "word salad": ("high", _shuffled),
    "key mashing": ("high", _mashed),
    "base64": ("high", lambda t, d: base64.b64encode(t.encode()).decode()),
    "mojibake": ("high", lambda t, d: re.sub(r"[aeiou]", lambda m: m[0] + ("â€™" if d.random() < 0.4 else "Ã©"), t)),
    "leetspeak": ("high", lambda t, d: t.translate(_LEET)),
    "letter spacing": ("high", lambda t, d: " ".join(t.replace(" ", "_"))),
    "cookie banner": ("low", _repeated(_BANNER)),
    "licence text": ("low", _repeated(_LICENCE)),
    "navigation menu": ("low", _repeated(_MENU)),
    "filler latin": ("low", _repeated(_LOREM)),
    "parked page": ("low", _repeated(_EXPIRED)),
}

_WORDS: dict[str, tuple[str, ...]] = {
    "typos": ("many spelling mistakes", "spelling mistakes in most words", "misspelled words, spelling mistakes"),
    "word salad": ("words in random order", "random word order", "word order is random"),
    "key mashing": ("random keyboard letters", "keyboard mashing, random letters", "letters mashed on a keyboard"),
    "base64": ("encoded binary data", "base64 encoded data", "binary data encoded as text"),
    "mojibake": ("broken character encoding", "character encoding errors", "wrong character encoding, mojibake"),
    "leetspeak": ("digits in place of vowels", "vowels replaced by digits", "digits replace vowels"),
    "letter spacing": ("blanks between single characters", "single characters apart by blanks", "characters spaced by blanks"),
    "cookie banner": ("cookie consent banner", "repeated cookie banner", "cookie notice and consent"),
    "licence text": ("software licence boilerplate", "licence boilerplate", "boilerplate of a software licence"),
    "navigation menu": ("website navigation menu", "navigation menu entries", "menu of a website"),
    "filler latin": ("lorem ipsum filler", "filler latin, lorem ipsum", "placeholder lorem ipsum"),
    "parked page": ("parked domain notice", "notice of a parked domain", "page gone, domain parked"),
}


def clean_prose(seeds: Seeds, dice: Dice) -> list[str]:
    """Undamaged English prose of the seeds, cut into excerpts of random lengths."""
    column = {name: k for k, name in enumerate(seeds.rubric.columns)}
    sound = np.ones(len(seeds), np.bool_)
    for name, least in (("accuracy", 3.5), ("coherence", 3.5), ("language_consistency", 4.0)):
        sound &= seeds.scores[:, column[name]] >= least
    texts = [t for t, damage, good in zip(seeds.texts, seeds.damage, sound) if good and not damage and len(t) >= 60]
    plain = [t for t in texts if sum(c.isascii() and (c.isalpha() or c in " \n.,") for c in t) >= 0.9 * len(t)]
    excerpts = []
    for text in plain:
        while len(text) >= 60:
            size = int(60 * (len(text) / 60) ** dice.random())
            excerpts.append(text[:size])
            text = text[size:]
    return excerpts


def plant(texts: list[str], *, share: float, seed: int) -> tuple[list[str], list[str]]:
    """The texts, of which `share` at each end got a cause of that end, and the cause of each text ("" for none)."""
    dice = np.random.default_rng(seed)
    out, labels = list(texts), [""] * len(texts)
    rows = dice.permutation(len(texts)).tolist()
    for end in ("high", "low"):
        names = [name for name, (own, _) in CAUSES.items() if own == end]
        for number in range(max(len(names), int(share * len(texts)))):
            row, name = rows.pop(), names[number % len(names)]
            out[row], labels[row] = CAUSES[name][1](texts[row], dice), name
    return out, labels


def seen(text: str) -> tuple[str, str] | None:
    """What the rules see: (cause, passage that shows it); None where they see nothing."""
    marks = [
        ("cookie banner", "cookies"), ("licence text", "the software"), ("navigation menu", "Sitemap"),
        ("filler latin", "dolor"), ("parked page", "may be for sale"),
    ]  # fmt: skip
    for name, mark in marks:
        if text.count(mark) >= 2:
            return name, mark
    if found := re.search(r"[A-Za-z0-9+/]{60,}", text):
        return "base64", found[0][:30]
    if text.count("Ã©") + text.count("â€™") > len(text) / 40:
        return "mojibake", "Ã©"
    if found := re.search(r"(?:\S ){12,}", text):
        return "letter spacing", found[0].strip()
    words = re.findall(r"[A-Za-z0-9]+", text)
    if sum(bool(re.search(r"[a-z][0134570][a-z]", word)) for word in words) > len(words) / 6:
        return "leetspeak", next(w for w in words if re.search(r"[a-z][0134570][a-z]", w))
    if sum(bool(re.search(r"[bcdfghjklmnpqrstvwxz]{4}", word.lower())) for word in words) > len(words) / 4:
        return "key mashing", words[0]
    pairs = Counter(zip([w.lower() for w in words], [w.lower() for w in words[1:]]))
    usual = sum(pairs[p] for p in (("of", "the"), ("in", "the"), ("to", "the"), ("is", "a"), ("for", "the"), ("on", "the")))
    odd = sum(not re.search(r"[aeiouy]", w.lower()) or bool(re.search(r"[bcdfghjklmnpqrstvwxz]{5}", w.lower())) for w in words)
    if odd > len(words) / 14:
        return "typos", words[-1]
    if len(words) > 80 and usual * 150 < len(words):
        return "word salad", " ".join(words[:1])
    return None


def stub_reply(prompt: str) -> str:
    """A reply by rules to either kind of request of a derivation."""
    body = re.search(r"<<<\n(.*)\n>>>", prompt, re.DOTALL)
    if body is None:
        phrases = re.findall(r"^- (.+)$", prompt, re.MULTILINE)
        name = next((n for n, said in _WORDS.items() if phrases[0] in said), phrases[0])
        anchors = {"1": f"ruled by {name}", "3": f"some {name}", "5": f"no {name}"}
        return json.dumps({"id": name, "name": name.title(), "question": f"Free of {name}?", "anchors": anchors})
    found = seen(body[1])
    end = "high" if "perplexity: high" in prompt else "low"
    if found is None:
        first = (body[1].split() or [""])[0]
        said = {"cause": "an unusual subject" if end == "high" else "a common subject", "evidence": first, "direction": end}
        return json.dumps({"causes": [said]})
    words = _WORDS[found[0]]
    phrase = words[len(body[1]) % len(words)]
    return "Here it is:\n" + json.dumps({"causes": [{"cause": phrase, "evidence": found[1], "direction": end}]})
