"""Verbs over an index that ask about many documents at once: clauses, n-grams, repeats, contamination, continuations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import orjson

from typecase.app.search.searching import Search
from typecase.errors import BadQuery
from typecase.store.timeline.documents import DocumentFacts

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RankedDocument:
    """A document by how many clauses it holds, and how many hits of them."""

    document: DocumentFacts
    clauses: int
    hits: int


@dataclass(frozen=True, slots=True)
class Together:
    """How many places hold all clauses; an estimate says from how many hits, and its standard error."""

    count: float
    standard_error: float
    exact: bool
    looked_at: int
    documents: tuple[DocumentFacts, ...]


@dataclass(frozen=True, slots=True)
class Ngram:
    """An n-gram, its count, and its text where a tokenizer is known."""

    ids: tuple[int, ...]
    count: int
    text: str


@dataclass(frozen=True, slots=True)
class Stretch:
    """Tokens [start, stop) of a document that stand elsewhere too, and how they begin."""

    doc: int
    start: int
    stop: int
    text: str


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Stretches that stand in the set more than once: their number, tokens, share of the set, and some of them."""

    stretches: int
    tokens: int
    share: float
    shown: tuple[Stretch, ...]


@dataclass(frozen=True, slots=True)
class Contaminated:
    """A text of an evaluation file and the share of its n-grams that stand in the set; None for one shorter than n."""

    row: int
    share: float | None
    text: str


def clauses_of(search: Search, texts: Sequence[str]) -> list[list[Ints]]:
    """`one|other` as a clause of two phrases; a bar is written `\\|`. Raises BadQuery for an empty phrase."""
    clauses = []
    for text in texts:
        phrases = [part.replace("\0", "|") for part in text.replace("\\|", "\0").split("|")]
        clauses.append([search.ids_of(phrase) for phrase in phrases])
    return clauses


def ranked(search: Search, texts: Sequence[str], *, limit: int = 10) -> list[RankedDocument]:
    """The documents that hold the most of `texts`."""
    found = search.index.ranked(clauses_of(search, texts), limit=limit)
    facts = search.library.facts(found.docs)
    rows = zip(found.docs.tolist(), found.clauses.tolist(), found.hits.tolist(), strict=True)
    return [RankedDocument(facts[doc], clauses, hits) for doc, clauses, hits in rows]


def together(
    search: Search,
    texts: Sequence[str],
    *,
    within: int | None = None,
    estimate: int | None = None,
    seed: int = 0,
    limit: int = 10,
) -> Together:
    """Places where all `texts` stand in one document, or begin `within` so many tokens; exact unless an estimate is asked."""
    found = search.index.matching(clauses_of(search, texts), within=within, estimate=estimate, seed=seed)
    docs = np.unique(found.docs)[:limit]
    facts = search.library.facts(docs)
    documents = tuple(facts[d] for d in docs.tolist())
    return Together(found.count, found.standard_error, found.exact, found.looked_at, documents)


def continuations(
    search: Search, text: str, *, num_tokens: int = 20, num_samples: int = 3, n: int = 4, smoothed: bool = False, seed: int = 0
) -> list[str]:
    """Texts that go on from `text` as the set does, by an n-gram model; `smoothed` is Kneser-Ney with fitted discounts."""
    ids = search.ids_of(text)
    if smoothed:
        model = search.index.kneser_ney(n)
        made = model.sample(ids, num_tokens=num_tokens, num_samples=num_samples, seed=seed)
    else:
        made = search.index.sample_unsmoothed(ids, n=n, num_tokens=num_tokens, num_samples=num_samples, seed=seed)
    return [search.text_of(one) for one in made]


def ngrams(search: Search, n: int, *, top: int | None = None, at_least: int | None = None) -> list[Ngram]:
    """The `top` most frequent n-grams, or all that occur `at_least` so often, most frequent first."""
    found = search.index.ngrams(n, at_least=at_least, top=top)
    order = np.argsort(-found.counts, kind="stable")
    return [Ngram(tuple(found.ids[k].tolist()), int(found.counts[k]), search.text_of(found.ids[k])) for k in order]


def duplicates(search: Search, min_tokens: int, *, limit: int | None = None, shown_tokens: int = 24) -> Duplicates:
    """Stretches covered by repeats of `min_tokens` or more; `limit` of the longest are told, all by default."""
    found = search.index.duplicates(min_tokens)
    sizes = found.stops - found.starts
    order = np.argsort(-sizes, kind="stable")[:limit]
    firsts = search.index.starts[found.docs]
    shown = []
    for k in order.tolist():
        start, stop, first = int(found.starts[k]), int(found.stops[k]), int(firsts[k])
        text = search.text_of(search.index.text[start : min(start + shown_tokens, stop)])
        shown.append(Stretch(int(found.docs[k]), start - first, stop - first, text.replace("\n", "⏎")))
    tokens = int(sizes.sum())
    return Duplicates(len(sizes), tokens, tokens / max(1, search.index.num_tokens), tuple(shown))


def contamination(search: Search, file: Path, n: int, *, key: str = "text") -> list[Contaminated]:
    """The share of every text's n-grams that stand in the set. `.jsonl` files have a text under `key`, others one a line.

    Raises BadQuery for a row that is no text, naming it.
    """
    texts = list(_texts(file, key))
    shares = search.index.contamination([search.ids_of(text) if text else np.zeros(0, np.int64) for text in texts], n)
    return [
        Contaminated(row, None if np.isnan(share) else float(share), text)
        for row, (share, text) in enumerate(zip(shares.tolist(), texts, strict=True))
    ]


def _texts(file: Path, key: str) -> Iterator[str]:
    lines = file.read_bytes().splitlines()
    for row, line in enumerate(lines):
        try:
            if file.suffix != ".jsonl":
                yield line.decode("utf-8")
                continue
            value = orjson.loads(line)
        except ValueError as error:
            raise BadQuery(f"{file}, row {row}: {error}") from error
        if not isinstance(value, dict) or not isinstance(value.get(key), str):
            raise BadQuery(f"{file}, row {row} has no text under {key!r}")
        yield value[key]
