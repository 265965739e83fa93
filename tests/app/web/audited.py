"""A verdict to serve: the counts are those of a token set, what a model would say of each token is drawn by a seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from typecase.app.audit.page import IDS, TABLE
from typecase.app.audit.verdict import Verdicts, audit_report
from typecase.store.atomic import write_json
from typecase.store.audit.files import write_table
from typecase.store.audit.vocabulary import Vocabulary, open_vocabulary
from typecase.store.tokens.store import TokenStore, open_tokens


def make_verdict(folder: Path, tokens: Path, *, seed: int = 0) -> Verdicts:
    """Writes the table and the lists of a report over all ids of the tokenizer of `tokens`, about two seconds."""
    vocabulary = open_vocabulary(str(tokens / "tokenizer"))
    with open_tokens(tokens) as store:
        corpus = _corpus(store, vocabulary.num_ids)
    table = pa.table(_tokenizer(vocabulary) | corpus | _model(corpus["count"], seed))
    found = audit_report([(table, {"num_ids": vocabulary.num_ids, "plateau": {"high": 0.001}})], wanted=[464])
    folder.mkdir(parents=True)
    write_table(folder / TABLE, found.table, found.header())
    write_json(folder / IDS, found.lists())
    return found


def _tokenizer(vocabulary: Vocabulary) -> dict[str, Any]:
    data = [d or b"" for d in vocabulary.data]
    ids = {d: i for i, d in enumerate(data)}
    splits = ([(d[:k], d[k:]) for k in range(1, len(d)) if d[:k] in ids and d[k:] in ids] for d in data)
    merged = [[ids[one] for one in ways[0]] if ways else [] for ways in splits]
    whole = [vocabulary.text_of(i) is not None for i in range(len(data))]
    return {
        "i": pa.array(range(len(data)), pa.int64()),
        "hex": [d.hex() for d in data],
        "decoded": [d.decode("utf-8", "replace") for d in data],
        "category": np.where(whole, "OK", "UNDECODEABLE").tolist(),
        "kind": list(vocabulary.kinds),
        "reach": ["unreachable" if d and d[0] >= 0xF5 and len(d) == 1 else "reachable" for d in data],
        "bytes": pa.array([len(d) for d in data], pa.int32()),
        "merged_of": pa.array(merged, pa.list_(pa.int32())),
        "origin": np.where([k == "byte" for k in vocabulary.kinds], "byte", "ordinary").tolist(),
    }


def _corpus(store: TokenStore, number: int) -> dict[str, Any]:
    """Counts, documents and the first three of them, by looking at every token."""
    counts, documents = np.zeros(number, np.int64), np.zeros(number, np.int64)
    first: list[list[int]] = [[] for _ in range(number)]
    for doc in range(store.num_documents):
        ids, times = np.unique(store.read(doc), return_counts=True)
        counts[ids] += times
        documents[ids] += 1
        for i in ids.tolist():
            first[i] += [doc] if len(first[i]) < 3 else []
    prediction = np.select([counts == 0, counts < 5], ["never", "at_risk"], "expected")
    return {
        "count": counts,
        "documents": documents,
        "first_documents": pa.array(first, pa.list_(pa.int64())),
        "prediction": prediction.tolist(),
    }


def _model(counts: Any, seed: int) -> dict[str, Any]:
    """Indicators, ranks and chances: the lowest 40 are a cluster, the lowest 400 candidates, half of which were asked."""
    rng, number = np.random.default_rng(seed), len(counts)
    indicator = 0.5 + rng.normal(0, 0.06, number) + 0.05 * np.log1p(counts)
    indicator[rng.permutation(np.flatnonzero(counts < 3))[:40]] = np.arange(40) * 1e-5
    rank = np.empty(number, np.int64)
    rank[np.argsort(indicator, kind="stable")] = np.arange(1, number + 1)
    chance = np.where(rank <= 60, 1e-4, 0.6)
    return {
        "row": ["ordinary"] * number,
        "main_indicator": indicator,
        "e_out_l2": indicator * 2 + rng.normal(0, 0.01, number),
        "rank": rank,
        "percentile": 100.0 * rank / number,
        "candidate": rank <= 400,
        "max_prob": pa.array(chance, mask=rank > 200),
        "verified": pa.array(chance < 0.01, mask=rank > 200),
    }
