"""Search the slow, obvious way: the yardstick for the index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

from tests.store.naive_tokens import write_set
from typecase.recipe.index import Index as IndexStage
from typecase.recipe.run import run_stage
from typecase.store.index.index import Index, open_index

Docs = list[list[int]]


@dataclass(frozen=True)
class Naive:
    """A corpus as lists."""

    docs: Docs

    @property
    def text(self) -> list[int]:
        return [t for doc in self.docs for t in doc]

    @property
    def starts(self) -> list[int]:
        out = [0]
        for doc in self.docs:
            out.append(out[-1] + len(doc))
        return out

    def positions(self, query: Sequence[int]) -> list[int]:
        query = list(query)
        return [
            start + i
            for start, doc in zip(self.starts, self.docs)
            for i in range(len(doc) - len(query) + 1)
            if doc[i : i + len(query)] == query and (query or i < len(doc))
        ]

    def unfenced(self, query: Sequence[int]) -> list[int]:
        text, query = self.text, list(query)
        return [i for i in range(len(text) - len(query) + 1) if text[i : i + len(query)] == query and (query or i < len(text))]

    def doc_of(self, position: int) -> int:
        return max(d for d, start in enumerate(self.starts[:-1]) if start <= position and self.docs[d])

    def next(self, query: Sequence[int]) -> tuple[dict[int, int], int]:
        counts, ends = Counter[int](), 0
        for pos in self.positions(query):
            if pos + len(query) < self.starts[self.doc_of(pos) + 1]:
                counts[self.text[pos + len(query)]] += 1
            else:
                ends += 1
        return dict(sorted(counts.items())), ends

    def ngrams(self, n: int) -> Counter[tuple[int, ...]]:
        return Counter(tuple(doc[i : i + n]) for doc in self.docs for i in range(len(doc) - n + 1))


def build(folder: Path, docs: Docs, dtype: str = "uint16", *, shard_tokens: int | None = None) -> Index:
    """Indexes `docs`, each a document of one sequence, in shards of about `shard_tokens`."""
    prefix = write_set(folder / "set", [[doc] for doc in docs], dtype)
    size = {"uint16": 2, "int32": 4, "int64": 8, "uint8": 1}[dtype]
    stage = IndexStage(threads=1) if shard_tokens is None else IndexStage(threads=1, memory_bytes=shard_tokens * (12 + size))
    return open_index(run_stage(stage, {"tokens": prefix}, folder / "index").folder)


def corpora(max_id: int, max_docs: int = 6, max_len: int = 12) -> st.SearchStrategy[Docs]:
    """Documents over a few ids up to `max_id`, with empty ones, one-token ones, runs and repeats."""
    alphabet = st.sampled_from(sorted({0, 1, 2, min(7, max_id), max_id // 2, max_id}))
    one = st.lists(alphabet, max_size=max_len)
    run = st.builds(lambda token, n: [token] * n, alphabet, st.integers(1, max_len))
    docs = st.lists(one | run, min_size=1, max_size=max_docs)
    return docs | st.builds(lambda some, n: some * n, docs, st.integers(1, 3))


def queries(docs: Docs, max_id: int) -> st.SearchStrategy[list[int]]:
    """Pieces of the corpus, pieces with a change, and others."""
    text = [t for doc in docs for t in doc] or [0]
    piece = st.builds(lambda a, n: text[a : a + n], st.integers(0, len(text) - 1), st.integers(0, 6))
    other = st.lists(st.sampled_from([0, 1, 2, max_id]), max_size=5)
    return piece | other | st.builds(lambda a, b: a + b, piece, other)
