"""Auditing weights: which rows of a model's matrices look as if they were never trained. Needs files, and no model that runs.

audit_weights(model)          a row for each token: what its rows are, indicators, rank, whether it is a candidate
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from typecase.core.glitch.categories import OK, OK_SPECIAL
from typecase.core.glitch.indicators import ranks
from typecase.core.glitch.outliers import SHARE, Plateau, plateau_of, threshold_of
from typecase.core.glitch.references import Agreement, References
from typecase.core.glitch.rows import ORDINARY
from typecase.errors import BadQuery, FixInput, NotFound
from typecase.store.audit.roundtrip import RoundTrip, round_trip
from typecase.store.audit.vocabulary import Vocabulary, open_vocabulary
from typecase.store.weights.checkpoint import Checkpoint, locate, open_checkpoint
from typecase.store.weights.indicate import Indicators, indicate

F64 = npt.NDArray[np.float64]
_NEVER_IN_UTF8 = frozenset((0xC0, 0xC1, *range(0xF5, 0x100)))


@dataclass(frozen=True, slots=True)
class Spread:
    """An indicator over the ordinary tokens: its mean and deviation, and values at some percentiles (0, 2, 50, 100)."""

    mean: float
    deviation: float
    lowest: float
    second: float
    median: float
    highest: float


@dataclass(frozen=True, slots=True)
class WeightsAudit:
    """What the weights say. `tested_as_published` are the candidates that the published rule would take.

    `rows` counts what rows of U are, `in_rows` those of E. Padding rows (beyond the tokenizer) are in neither, and in no
    percentile. `structural` ids that ought to be untrained stand together, and rank tokens as `agreement` says. `plateau` is
    the cluster at the low end of the main indicator, where a gap sets one apart.
    """

    model: str
    tokenizer: str | None
    num_ids: int
    num_rows: int
    width: int
    input_matrix: str
    output_matrix: str
    input_storage: str
    output_storage: str
    tied: bool
    evidence: str
    has_bias: bool
    notes: tuple[str, ...]
    rows: Mapping[str, int]
    in_rows: Mapping[str, int]
    identical: int
    padding: Mapping[str, int]
    main_indicator: str
    spreads: Mapping[str, Spread]
    references: References
    structural: int
    agreement: Agreement | None
    share: float
    threshold: float
    candidates: int
    tested_as_published: int
    plateau: Plateau | None
    warnings: tuple[str, ...]
    table: pa.Table = field(repr=False, compare=False)

    def header(self) -> dict[str, Any]:
        """Everything but the table."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "table"}


def audit_weights(
    model: str | Path,
    *,
    tokenizer: str | Path | None = None,
    references: Sequence[int] | None = None,
    main: str = "e_out_cosine",
    share: float = SHARE,
    old_views: bool = False,
    input_name: str | None = None,
    output_name: str | None = None,
    seed: int = 0,
    threads: int = 2,
) -> WeightsAudit:
    """Audits the matrices of `model`: a folder, a file, or `package:NAME/FILE`; its tokenizer is the one beside or inside it.

    Without a tokenizer every row counts as a token. `main` names the indicator that ranks; it falls to NaN nowhere but at
    rows of zeros, which rank first. Raises BadQuery, NotFound, CorruptStore.
    """
    if not 0 < share <= 1:
        raise FixInput(f"the share of candidates is above 0 and at most 1, got {share:g}")
    vocabulary = vocabulary_of(model, tokenizer)
    checkpoint = open_checkpoint(
        model, input_name=input_name, output_name=output_name, num_ids=vocabulary.num_ids if vocabulary else None
    )
    trip = round_trip(vocabulary) if vocabulary else None
    proposals = _proposals(vocabulary, checkpoint.num_rows)
    found = indicate(checkpoint, given=references, proposals=proposals, old_views=old_views, seed=seed, threads=threads)
    values = _values(found)
    if main not in values:
        raise BadQuery(f"{main} is no indicator of this model; it has {', '.join(values)}")
    if main == "e_in_norm" and checkpoint.tied:
        raise BadQuery("in a tied model the norm is inverted (rows never trained have the largest): rank by e_out_cosine")
    return _audit(checkpoint, vocabulary, trip, found, values, main, share)


def vocabulary_of(model: str | Path, tokenizer: str | Path | None) -> Vocabulary | None:
    """The tokenizer that is named, or lies beside or inside the model; None where there is none."""
    if tokenizer is not None:
        return open_vocabulary(tokenizer)
    place = locate(model)
    folder = place if place.is_dir() else place.parent
    beside = [folder, *sorted(folder.glob("*.model")), *sorted(folder.glob("tekken*.json")), *sorted(folder.glob("*.gguf"))[:1]]
    for spot in [place] if place.suffix == ".gguf" else beside:
        try:
            return open_vocabulary(spot)
        except NotFound:
            continue
    return None


def _proposals(vocabulary: Vocabulary | None, num_rows: int) -> set[int]:
    """Ids that ought to be untrained: bytes that no text holds, slots that are not used, rows beyond the tokenizer."""
    if vocabulary is None:
        return set()
    unused = {t for t, kind in enumerate(vocabulary.kinds) if kind in ("unused", "gap")}
    names = vocabulary.spellings
    unused |= {t for t, kind in enumerate(vocabulary.kinds) if kind in ("special", "added") and _is_reserved(names[t] or "")}
    bytes_ = {
        t
        for t, (kind, data) in enumerate(zip(vocabulary.kinds, vocabulary.data))
        if kind == "byte" and data is not None and len(data) == 1 and data[0] in _NEVER_IN_UTF8
    }
    return unused | bytes_ | set(range(vocabulary.num_ids, num_rows))


def _is_reserved(name: str) -> bool:
    return any(word in name.lower() for word in ("unused", "reserved", "extra_id", "dummy", "placeholder"))


def _values(found: Indicators) -> dict[str, F64]:
    """The indicators that there are, by name."""
    given = {
        "e_out_cosine": found.e_out_cosine,
        "e_out_l2": found.e_out_l2,
        "e_out_norm": found.e_out_norm,
        "e_in_norm": found.e_in_norm,
        "density": found.density,
        "bias": found.bias,
        "centred_cosine": found.centred_cosine,
        "pc_cosine": found.pc_cosine,
    }
    return {name: values for name, values in given.items() if values is not None}


def _audit(
    checkpoint: Checkpoint,
    vocabulary: Vocabulary | None,
    trip: RoundTrip | None,
    found: Indicators,
    values: Mapping[str, F64],
    main: str,
    share: float,
) -> WeightsAudit:
    num_ids = vocabulary.num_ids if vocabulary else checkpoint.num_rows
    categories = np.array(trip.categories if trip else [OK] * num_ids)
    ordinary, dead = categories == OK, found.dead[:num_ids]
    own = {name: column[:num_ids] for name, column in values.items()}
    threshold = threshold_of(own[main], ordinary & ~dead, share)
    with np.errstate(invalid="ignore"):
        candidate = (dead | (own[main] <= threshold)) & (categories != "")
        published = ((own[main] <= threshold) | dead) & np.isin(categories, (OK, OK_SPECIAL))
    table = _table(vocabulary, trip, found, own, main, candidate, num_ids)
    return WeightsAudit(
        model=checkpoint.where,
        tokenizer=vocabulary.where if vocabulary else None,
        num_ids=num_ids,
        num_rows=checkpoint.num_rows,
        width=checkpoint.output.width,
        input_matrix=checkpoint.input.name,
        output_matrix=checkpoint.output.name,
        input_storage=checkpoint.input.storage,
        output_storage=checkpoint.output.storage,
        tied=checkpoint.tied,
        evidence=checkpoint.evidence,
        has_bias=checkpoint.bias is not None,
        notes=checkpoint.notes,
        rows=_counted(found.kinds[:num_ids]),
        in_rows=_counted(found.in_kinds[:num_ids]),
        identical=int(np.count_nonzero(found.same_as[:num_ids] != np.arange(num_ids))),
        padding=_counted(found.kinds[num_ids:]),
        main_indicator=main,
        spreads={name: _spread(column[ordinary & ~dead]) for name, column in own.items()},
        references=found.references,
        structural=len(found.structural),
        agreement=found.agreement,
        share=share,
        threshold=threshold,
        candidates=int(candidate.sum()),
        tested_as_published=int(published.sum()),
        plateau=plateau_of(own[main][~dead]),
        warnings=found.warnings,
        table=table,
    )


def _table(
    vocabulary: Vocabulary | None,
    trip: RoundTrip | None,
    found: Indicators,
    own: Mapping[str, F64],
    main: str,
    candidate: npt.NDArray[np.bool_],
    num_ids: int,
) -> pa.Table:
    dead, same = found.dead[:num_ids], found.same_as[:num_ids]
    references = np.isin(np.arange(num_ids), found.references.ids)
    columns: dict[str, Any] = {"i": pa.array(range(num_ids), pa.int64())}
    if vocabulary is not None and trip is not None:
        columns |= {
            "raw_vocab": _strings(vocabulary.spellings),
            "category": _strings([c or None for c in trip.categories]),
            "decoded": _strings([None if k == "gap" else d for k, d in zip(vocabulary.kinds, trip.decoded)]),
            "hex": _strings([None if data is None else data.hex() for data in vocabulary.data]),
            "kind": _strings(vocabulary.kinds),
        }
    columns |= {
        "row": pa.array(found.kinds[:num_ids].tolist()),
        "in_row": pa.array(found.in_kinds[:num_ids].tolist()),
        "same_row_as": pa.array([None if a == b else a for a, b in zip(same.tolist(), range(num_ids))], pa.int64()),
        **{name: pa.array(column, from_pandas=True) for name, column in own.items()},
        "main_indicator": pa.array(own[main], from_pandas=True),
        "rank": pa.array(ranks(own[main], dead)),
        "percentile": pa.array(_percentiles(own[main], dead, trip.categories if trip else None)),
        "reference": pa.array(references),
        "candidate": pa.array(candidate),
    }
    return pa.table(columns)


def _percentiles(values: F64, dead: npt.NDArray[np.bool_], categories: Sequence[str] | None) -> F64:
    """How many percent of its own category rank up to a token."""
    found = np.empty(len(values))
    names = np.array(categories if categories is not None else [OK] * len(values))
    for name in set(names.tolist()):
        mine = np.flatnonzero(names == name)
        found[mine] = 100 * ranks(values[mine], dead[mine]) / len(mine)
    return found


def _spread(values: F64) -> Spread:
    some = values[np.isfinite(values)]
    if not len(some):
        return Spread(*[float("nan")] * 6)
    return Spread(float(some.mean()), float(some.std()), *(float(p) for p in np.percentile(some, (0, 2, 50, 100))))


def _counted(values: npt.NDArray[np.str_]) -> dict[str, int]:
    found = Counter(values.tolist())
    return {name: found[name] for name in sorted(found, key=lambda name: (name != ORDINARY, name))}


def _strings(values: Sequence[str | None]) -> pa.Array:
    return pa.array([None if s is None else s.encode("utf-8", "replace").decode() for s in values], pa.string())
