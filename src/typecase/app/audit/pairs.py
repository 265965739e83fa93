"""Asking for pairs: can a model repeat a text that its tokenizer cuts inside a character, and can it when it is cut elsewhere?

ask_pairs(found, model, out)      the rows of `audit_bigrams` with the chance of each pair, and that of the same text cut apart

The pair and its control are put into the same prompts, as ids. A pair is `broken` when the model cannot repeat it in any form;
where it repeats the control, the cut is to blame and not the characters (arXiv 2410.23684). Answers are kept in the folder
`out`: a killed run goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from typecase.app.audit.bigrams import BigramAudit
from typecase.app.audit.copies import ANSWERS, asker_of, frequent_ids
from typecase.app.audit.weights import vocabulary_of
from typecase.core.glitch.categories import OK
from typecase.core.glitch.copies import CAN_COPY, LIMIT, Share, share_of
from typecase.errors import BadQuery
from typecase.lm.copying.copying import Which
from typecase.lm.copying.verifying import Journal, verify
from typecase.lm.protocol import fingerprint_of
from typecase.store.audit.roundtrip import round_trip
from typecase.store.audit.vocabulary import Vocabulary

MOST = 200
_CLEAR = 2
"""A control counts as repeated at so many times the limit, as a single token does."""
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class PairsAudit:
    """`broken` of the pairs that were asked the model cannot repeat; `by_the_cut` of these it repeats when cut elsewhere, of
    `with_control`. `can_copy` is the median chance of frequent tokens: below 0.5 the run is `void`."""

    model: str
    answers: str
    asked: int
    broken: Share
    by_the_cut: Share
    can_copy: float
    void: bool
    tokens_read: int
    table: pa.Table = field(repr=False, compare=False)

    def header(self) -> dict[str, Any]:
        """Everything but the table."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "table"}


def ask_pairs(
    found: BigramAudit,
    model: str | Path,
    out: str | Path,
    *,
    tokenizer: str | Path | None = None,
    most: int = MOST,
    which: Which = "quick",
    limit: float = LIMIT,
    device: str = "auto",
    dtype: Literal["float32", "bfloat16", "float16"] = "float32",
    seed: int = 0,
    progress: Progress | None = None,
) -> PairsAudit:
    """Asks `model` for the first `most` pairs of `found`, each beside its control.

    The table has the columns of `found` and `p`, `control_ids`, `control_p` (None where the text can be cut in no other way),
    `broken`, `by_the_cut`. Raises BadQuery when the model has another vocabulary, NeedsExtra without torch.
    """
    from typecase.lm.copying.local import LocalCopier
    from typecase.lm.copying.rows import RowCopier

    vocabulary = vocabulary_of(model, tokenizer)
    if vocabulary is None:
        raise BadQuery(f"{model} has no tokenizer beside it: name one")
    pairs = found.table.slice(0, most)
    wanted = [(row["a"], row["b"], row["text"]) for row in pairs.select(["a", "b", "text"]).to_pylist()]
    if any(max(a, b) >= vocabulary.num_ids or _text_of(vocabulary, (a, b)) != text for a, b, text in wanted):
        raise BadQuery(f"{model} has another tokenizer than {found.tokenizer}: list the pairs of its own")
    trip = round_trip(vocabulary)
    ordinary = [category == OK for category in trip.categories]
    asker = asker_of(model, None, vocabulary, trip.decoded, ordinary, which, limit, device, dtype, seed)
    assert isinstance(asker.copier, LocalCopier)
    frequent = frequent_ids(trip.decoded, [t for t, o in enumerate(ordinary) if o], np.random.default_rng(seed))
    controls = [cut_apart(vocabulary, text, (a, b)) for a, b, text in wanted]
    rows: list[Sequence[int]] = [(t,) for t in frequent] + [(a, b) for a, b, _ in wanted] + list(controls)
    copier = RowCopier(asker.copier, rows)
    journal = Journal(Path(out) / ANSWERS, fingerprint_of(asker.run, "rows", rows))
    told = progress or (lambda done, total: None)
    tried = verify(copier, asker.forms, range(len(rows)), journal, limit=limit, progress=told)
    chances = [tried[k].max_prob if k in tried else None for k in range(len(rows))]
    first, second = len(frequent), len(frequent) + len(wanted)
    can_copy = median([p for p in chances[:first] if p is not None]) if first else float("nan")
    return _result(
        str(model), journal, pairs, chances[first:second], controls, chances[second:], can_copy, copier.tokens, limit
    )


def cut_apart(vocabulary: Vocabulary, text: str, pair: tuple[int, int]) -> tuple[int, ...]:
    """`text` in another cut than `pair`: character by character, else byte by byte; () where the vocabulary has neither."""
    ids = tuple(t for one in vocabulary.codec.encode(list(text)) for t in one)
    if ids != pair and _text_of(vocabulary, ids) == text:
        return ids
    single = {data: t for t, data in reversed(list(enumerate(vocabulary.data))) if data is not None and len(data) == 1}
    bytes_ = tuple(single.get(bytes((b,)), -1) for b in text.encode())
    return bytes_ if -1 not in bytes_ and bytes_ != pair else ()


def _text_of(vocabulary: Vocabulary, ids: Sequence[int]) -> str:
    return b"".join(vocabulary.data[t] or b"" for t in ids).decode("utf-8", "replace")


def _result(
    model: str,
    journal: Journal,
    pairs: pa.Table,
    chances: Sequence[float | None],
    controls: Sequence[tuple[int, ...]],
    control_chances: Sequence[float | None],
    can_copy: float,
    tokens_read: int,
    limit: float,
) -> PairsAudit:
    broken = [None if p is None else p < limit for p in chances]
    blamed = [None if not b or c is None else c >= _CLEAR * limit for b, c in zip(broken, control_chances)]
    table = pairs
    for name, kind, values in (
        ("p", pa.float64(), chances),
        ("control_ids", pa.list_(pa.int64()), [list(ids) for ids in controls]),
        ("control_p", pa.float64(), control_chances),
        ("broken", pa.bool_(), broken),
        ("by_the_cut", pa.bool_(), blamed),
    ):
        table = table.append_column(pa.field(name, kind), pa.array(values, kind))
    answered = [b for b in broken if b is not None]
    judged = [b for b in blamed if b is not None]
    return PairsAudit(
        model=model,
        answers=str(journal.path),
        asked=len(answered),
        broken=share_of(sum(answered), len(answered)),
        by_the_cut=share_of(sum(judged), len(judged)),
        can_copy=can_copy,
        void=not can_copy >= CAN_COPY,
        tokens_read=tokens_read,
        table=table,
    )
