"""Perplexity: our n-gram model against KenLM on the same model, and statistics against what they must be (spec Bench-14).

    python benchmarks/bench_perplexity.py [--quick] [--json]

KenLM (`pip install ufal-kenlm`, or kenlm) reads our model as an ARPA file, so both score the same n-grams; `disagreement` is
the largest relative difference of a document's nats. KenLM is given words cut beforehand, ours cuts the text itself. Fitting
has no peer in that package: it is set against Python's Counter on the same symbols, which only counts. Without KenLM a
naive Python scorer over dictionaries takes its place. Speeds are of one core.

`entropy` is nats a byte on fresh text of a known Markov source, ours beside the source's true entropy rate: the smaller the
text fitted on, the higher above it. `aggregates` is the largest relative difference to the plain formulas in Python.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from corpus import texts as corpus_texts
from measure import Record, best_of, options, rate, report

from typecase.core.ngram_lm.counts import Counts, count, keys_of
from typecase.core.ngram_lm.model import NgramModel, find_slot, fit
from typecase.core.ngram_lm.symbols import START, Symbols, cut, spell
from typecase.core.perplexity import summarise
from typecase.lm.rate.rater import pack_texts

try:
    import kenlm
except ImportError:
    kenlm = None

ORDER = 3
F32 = np.float32


def fitted(texts: list[str]) -> tuple[NgramModel, Counts, Symbols]:
    values, offsets = pack_texts(texts)
    symbols = cut(values, offsets, "words")
    counts = count(symbols, ORDER)
    return fit(counts, spell(values, symbols), "words"), counts, symbols


def words_of(texts: list[str]) -> list[list[str]]:
    """Symbols as words without white space: blanks, line ends and the rest written out."""
    values, offsets = pack_texts(texts)
    symbols = cut(values, offsets, "words")
    shown = [
        values[a:b].tobytes().decode().replace(" ", "▁").replace("\n", "⏎").replace("\t", "⇥").replace("\r", "␍")
        for a, b in pairwise(symbols.starts)
    ]
    shown = ["".join(c if not c.isspace() else f"<{ord(c)}>" for c in word) for word in shown]
    edges = [0, *symbols.ends.tolist()]
    return [shown[a:b] for a, b in pairwise(edges)]


def log_of(table: Any, key: np.uint64) -> float | None:
    found = int(find_slot(table, key))
    return float(np.array([found & 0xFFFFFFFF], np.uint32).view(F32)[0]) if found else None


def arpa(path: Path, model: NgramModel, counts: Counts, symbols: Symbols, words: list[list[str]]) -> None:
    """The model as KenLM reads it. Our two start symbols are its one: (S, S, w) is its `<s> w`."""
    name = {int(key): word for key, word in zip(symbols.keys, (w for text in words for w in text))}
    name[int(START)] = "<s>"
    marks = {(mark,): (-99.0, 0.0) for mark in ("<s>", "</s>", "<unk>")}
    levels: list[dict[tuple[str, ...], tuple[float, float]]] = [marks, {}, {}]
    one = np.array([[START]], np.uint64)
    two = np.array([[START, START]], np.uint64)
    start = sum(log_of(model.contexts, keys_of(g)[0]) or 0.0 for g in (one, two))
    levels[0]["<s>",] = (-99.0, start)
    for gram in counts.grams:
        for size in (1, 2, 3):
            own = gram[None, ORDER - size :]
            text = tuple(name[int(symbol)] for symbol in own[0])
            if size == 2 and text[0] == "<s>":
                continue  # told by the 3-gram with two starts
            if size == 3 and text[1] == "<s>":
                text = text[1:]
            chance = log_of(model.grams, keys_of(own)[0])
            left = log_of(model.contexts, keys_of(own)[0]) or 0.0
            if text[0] == "<s>" and len(text) == 2:
                left = log_of(model.contexts, keys_of(own[:, -2:])[0]) or 0.0
            assert chance is not None
            levels[len(text) - 1][text] = (chance, left)
    scale = 1 / math.log(10)
    with path.open("w") as file:
        file.write("\\data\\\n" + "".join(f"ngram {k}={len(level)}\n" for k, level in enumerate(levels, 1)))
        for k, level in enumerate(levels, 1):
            file.write(f"\n\\{k}-grams:\n")
            for text, (chance, left) in level.items():
                tail = f"\t{left * scale:.7f}" if k < ORDER else ""
                file.write(f"{chance * scale if chance > -99 else -99:.7f}\t{' '.join(text)}{tail}\n")
        file.write("\n\\end\\\n")


class Naive:
    """The ARPA file in dictionaries, scored word by word in Python."""

    def __init__(self, path: Path) -> None:
        self.levels: list[dict[str, tuple[float, float]]] = [{} for _ in range(ORDER)]
        size = 0
        for line in path.read_text().splitlines():
            if line.startswith("\\"):
                size = int(line[1]) if line[1].isdigit() else 0
            elif size and line:
                chance, gram, *left = line.split("\t")
                self.levels[size - 1][gram] = (float(chance), float(left[0]) if left else 0.0)

    def score(self, sentence: str, eos: bool = False) -> float:
        words, total = ["<s>", *sentence.split(" ")], 0.0
        for at in range(1, len(words)):
            for size in range(min(ORDER, at + 1), 0, -1):
                found = self.levels[size - 1].get(" ".join(words[at - size + 1 : at + 1]))
                if found is not None:
                    total += found[0]
                    break
                total += self.levels[size - 2].get(" ".join(words[at - size + 1 : at]), (0.0, 0.0))[1]
        return total


def against_kenlm(texts: list[str], rounds: int) -> tuple[list[Record], list[str]]:
    model, counts, symbols = fitted(texts)
    words = words_of(texts)
    sentences = [" ".join(text) for text in words]
    values, offsets = pack_texts(texts)
    megabytes = len(values) / 1e6
    with tempfile.TemporaryDirectory() as folder:
        arpa(Path(folder) / "model.arpa", model, counts, symbols, words)
        peer = kenlm.Model(f"{folder}/model.arpa") if kenlm else Naive(Path(folder) / "model.arpa")
    ours = model.score(values, offsets)[0]
    theirs = np.array([-peer.score(sentence, eos=False) * math.log(10) for sentence in sentences])
    apart = float(np.max(np.abs(ours - theirs) / np.maximum(theirs, 1)))
    flat = symbols.keys.tolist()
    times = best_of(
        [
            lambda: model.score(values, offsets),
            lambda: [peer.score(sentence, eos=False) for sentence in sentences],
        ],
        rounds,
    )
    fits = best_of([lambda: fitted(texts), lambda: Counter(zip(flat, flat[1:], flat[2:]))], max(1, rounds // 2))
    notes = [f"disagreement with {'KenLM' if kenlm else 'the naive scorer'}: {apart:.1e} of a document's nats, at most"]
    notes.append(f"{len(counts.keys):,} 3-grams; tables {(model.grams.nbytes + model.contexts.nbytes) / 1e6:.0f} MB")
    return [
        rate("scoring" if kenlm else "scoring (peer naive)", megabytes, *times, "MB/s"),
        rate("cutting, counting, fitting (peer counts only)", megabytes, *fits, "MB/s"),
    ], notes


def entropy(sizes: tuple[int, ...]) -> list[Record]:
    """Ours beside the true entropy rate of a first-order source of 8 letters."""
    rng = np.random.default_rng(11)
    moves = rng.dirichlet(np.full(8, 0.4), 8)
    still = np.linalg.matrix_power(moves, 200)[0]
    true = float(-(still[:, None] * moves * np.log(np.maximum(moves, 1e-300))).sum())

    def drawn(num: int) -> str:
        limits, state, out = np.cumsum(moves, axis=1), 0, []
        for lot in rng.random(num):
            state = min(7, int(np.searchsorted(limits[state], lot)))
            out.append("abcdefgh"[state])
        return "".join(out)

    fresh, records = pack_texts([drawn(200_000)]), []
    for size in sizes:
        values, offsets = pack_texts([drawn(size)])
        symbols = cut(values, offsets, "bytes")
        nats, num = fit(count(symbols, 3), spell(values, symbols), "bytes").score(*fresh)
        found = float(nats[0] / num[0])
        records.append(Record(f"entropy after {size:,} bytes", found, true, "nats", true / found))
    return records


def aggregates() -> float:
    """The largest relative difference of the five aggregates to the plain formulas, over random sets."""
    rng, worst = np.random.default_rng(3), 0.0
    for _ in range(200):
        num = int(rng.integers(1, 40))
        tokens = rng.integers(2, 500, num)
        nats, size = tokens * rng.gamma(4.0, 1.0, num), tokens * rng.integers(2, 6, num)
        unscored = rng.integers(0, 2, num)
        found = summarise(nats, tokens, unscored, size, ["ok"] * num)
        means = [n / (t - u) for n, t, u in zip(nats, tokens, unscored)]
        plain = (
            math.exp(sum(nats) / sum(tokens - unscored)), math.exp(sum(means) / num), math.exp(np.median(means)),
            sum(math.exp(m) for m in means) / num, sum(nats) / math.log(2) / sum(size),
        )  # fmt: skip
        ours = (found.token_weighted, found.geometric, found.median, found.published, found.bits_per_byte)
        worst = max(worst, *(abs(a - b) / b for a, b in zip(ours, plain) if a is not None))
    return worst


def main() -> None:
    args = options(__doc__)
    size, rounds = (1_000_000, 2) if args.quick else (6_000_000, 3)
    records, notes = against_kenlm(corpus_texts(size), rounds)
    records += entropy((1_000, 10_000, 100_000) if args.quick else (1_000, 10_000, 100_000, 1_000_000))
    notes.append(f"aggregates: {aggregates():.1e} from the plain formulas, at most")
    report(records, as_json=args.json, notes=notes)


if __name__ == "__main__":
    main()
