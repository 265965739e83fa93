"""Forecast: what a rating will use and cost, before anything is asked.

    documents that will be rated ─► the first `probe` of each store by id (ids are hashes: a sample) ─► their prompts, counted
                                                                                  └─► scaled to all by bytes of text

Prompts are counted exactly where the model's own tokenizer is here; a server's are counted from above, a token for two bytes.
Nothing is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from typecase.lm.rate.cuts import text_of
from typecase.recipe.rate import Rate
from typecase.store import shards
from typecase.store.documents import open_documents

PROBE = 200


@dataclass(frozen=True, slots=True)
class Forecast:
    """What rating so many documents comes to in one round; None where the rater asks no language model.

    probed               documents whose prompts were counted
    requests             prompts sent or read, all documents
    prompt_tokens        of all requests
    most_answer_tokens   if every answer is as long as it may be
    least_cost           of the prompts alone, in `currency`; `most_cost` with the longest answers. 0 without a price
    """

    rater: str
    documents: int
    text_bytes: int
    probed: int
    requests: int | None = None
    prompt_tokens: int | None = None
    most_answer_tokens: int | None = None
    least_cost: float | None = None
    most_cost: float | None = None
    currency: str | None = None


def forecast(stage: Rate, docs: Path, *, probe: int = PROBE) -> Forecast:
    """What `stage` would use on the documents in `docs`. Raises as the stage does when it cannot run."""
    rater, groups = stage.opened(), list[pa.ChunkedArray]()
    documents = text_bytes = held = 0
    for task in range(len(open_documents(docs).parts)):
        for table in stage.chosen(docs, task):
            documents += table.num_rows
            text_bytes += int(shards.lengths_of(table.column("text")).sum())
            if held < probe:
                groups.append(table.column("text").slice(0, probe - held))
                held += len(groups[-1])
    known = Forecast(rater.name, documents, text_bytes, held)
    asker: Any = getattr(rater, "inner", rater)
    if not held or not hasattr(asker, "estimate_cost"):
        return known
    found = asker.estimate_cost(_texts_asked(rater, asker, groups)).one_round
    scale = text_bytes / max(1, sum(int(shards.lengths_of(group).sum()) for group in groups))
    return replace(
        known,
        requests=round(found.rows * scale),
        prompt_tokens=round(found.prompt_tokens * scale),
        most_answer_tokens=round(found.most_completion_tokens * scale),
        least_cost=found.least_cost * scale,
        most_cost=found.most_cost * scale,
        currency=found.currency,
    )


def _texts_asked(rater: Any, asker: Any, groups: Sequence[pa.ChunkedArray]) -> list[str]:
    """The documents, or the windows of them that are read."""
    texts: list[str] = []
    for chunk in (chunk for group in groups for chunk in group.chunks):
        values, offsets = shards.buffers_of(chunk)
        if asker is not rater:
            values, offsets = rater.windows_of(values, offsets)
        texts += [text_of(values[a:b].tobytes()) for a, b in pairwise(offsets)]
    return texts
