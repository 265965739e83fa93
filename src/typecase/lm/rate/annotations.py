"""Annotations: documents with what raters said of them, ready to teach another rater.

    ratings    {"id": "p1", "domain": "Law", "accuracy": 4, …}     a row a reading; whole numbers or expected scores
    documents  {"id": "p1", "text": "…", "source": "…"}            `variant_of` keeps a damaged copy beside its original
          └── joined by id ──► Annotations: a row a document, means over its readings, sorted by id

Nothing is lost in silence: each reading is kept, or counted with the reason why it teaches nothing. A variant takes the
source of its original, so that a split by source never tears them apart.

Raises BadRecipe where nothing is left to learn from; the message counts the reasons.
Price: one Python object a reading; the texts of the rated documents alone are held.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from typecase.core.balance import Balance
from typecase.core.rating import RATED, Criterion, Rubric
from typecase.errors import BadQuery, BadRecipe, CorruptStore, NotFound
from typecase.lm.rate.seeds import F64, I64, Seeds

BAD_LINE, NO_DOCUMENT, EMPTY_DOCUMENT = "bad_line", "no_document", "empty_document"
MISSING_SCORE, OUT_OF_SCALE, UNKNOWN_DOMAIN = "missing_score", "out_of_scale", "unknown_domain"

_PACKED = {".zst": "zstd", ".gz": "gzip"}


@dataclass(frozen=True, slots=True)
class AnnotatedText:
    """A document that may have been rated; `variant_of` is the id of the document that this is a damaged copy of."""

    text: str
    source: str
    variant_of: str | None = None
    damage: str = ""


@dataclass(frozen=True, slots=True)
class Annotations:
    """Rated documents, and the balance of the readings: in = kept + removed by reason."""

    documents: Seeds
    balance: Balance

    @property
    def fingerprint(self) -> str:
        """32 hexadecimal digits over all that a rater could learn from: ids, texts, sources, scores, domains."""
        seeds = self.documents
        digest = blake2b(seeds.rubric.fingerprint.encode(), digest_size=16)
        for columns in zip(seeds.ids, seeds.texts, seeds.sources, seeds.damage, strict=True):
            for value in columns:
                data = value.encode("utf-8", "surrogatepass")
                digest.update(len(data).to_bytes(8, "little") + data)
        for array in (seeds.original, seeds.scores, seeds.votes):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


TextsOf = Callable[[Collection[str]], Mapping[str, AnnotatedText]]
"""The documents among the ids that there are; of others, such as the originals of variants, it may tell all but the text."""


@dataclass(slots=True)
class _Said:
    """The readings of one document, summed."""

    scores: F64
    votes: F64
    readings: int = 0


def annotations_of(
    ratings: Iterable[Mapping[str, Any] | None], texts_of: TextsOf, rubric: Rubric, *, where: str
) -> Annotations:
    """Joins readings with the documents they are of. A reading that is None is a line that could not be read.

    A reading names its document by `doc_id` or `id`, has a number on the rubric's scale for each criterion (by id or
    alias) and a domain (id, alias or letter) where the rubric has any; one with a `status` must be ok or repaired.
    """
    removed: Counter[str] = Counter()
    said: dict[str, _Said] = {}
    entered = 0
    for entered, reading in enumerate(ratings, start=1):  # noqa: B007
        if reading is None:
            removed[BAD_LINE] += 1
            continue
        found = _read(reading, rubric)
        if isinstance(found, str):
            removed[found] += 1
            continue
        doc_id, scores, vote = found
        own = said.setdefault(doc_id, _Said(np.zeros(len(rubric.criteria)), np.zeros(len(rubric.domains))))
        own.scores += scores
        own.readings += 1
        if vote is not None:
            own.votes[vote] += 1
    texts = texts_of(said.keys())
    for doc_id in list(said):
        if doc_id not in texts or not texts[doc_id].text.strip():
            reason = EMPTY_DOCUMENT if doc_id in texts else NO_DOCUMENT
            removed[reason] += said.pop(doc_id).readings
    balance = Balance(entered, entered - removed.total(), dict(sorted(removed.items())))
    if not said:
        reasons = ", ".join(f"{number} {reason}" for reason, number in sorted(removed.items())) or "it holds no reading"
        raise BadRecipe(f"{where} teaches nothing: {reasons}. Check the ids, the columns and the rubric '{rubric.id}'")
    return Annotations(_joined(said, texts, rubric), balance)


def _read(reading: Mapping[str, Any], rubric: Rubric) -> tuple[str, F64, int | None] | str:
    """(id, scores, row of the domain) of a reading, or why it teaches nothing."""
    status = reading.get("status")
    if status is not None and status not in RATED:
        return str(status)
    doc_id = reading.get("doc_id", reading.get("id"))
    if doc_id is None:
        return NO_DOCUMENT
    scores = np.zeros(len(rubric.criteria))
    for column, criterion in enumerate(rubric.criteria):
        value = _value(reading, criterion)
        if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
            return MISSING_SCORE
        if not rubric.low <= value <= rubric.high:
            return OUT_OF_SCALE
        scores[column] = value
    if not rubric.domains:
        return str(doc_id), scores, None
    try:
        return str(doc_id), scores, rubric.labels.index(rubric.domain(str(reading.get("domain"))).id)
    except BadQuery:
        return UNKNOWN_DOMAIN


def _value(reading: Mapping[str, Any], criterion: Criterion) -> object:
    return next((reading[name] for name in (criterion.id, *criterion.aliases) if name in reading), None)


def _joined(said: Mapping[str, _Said], texts: Mapping[str, AnnotatedText], rubric: Rubric) -> Seeds:
    ids = sorted(said)
    row_of = {doc_id: row for row, doc_id in enumerate(ids)}
    readings: I64 = np.array([said[doc_id].readings for doc_id in ids], np.int64)
    return Seeds(
        rubric,
        tuple(ids),
        tuple(texts[doc_id].text for doc_id in ids),
        tuple(_source(doc_id, texts) for doc_id in ids),
        tuple(texts[doc_id].damage for doc_id in ids),
        np.array([row_of.get(texts[doc_id].variant_of or "", -1) for doc_id in ids], np.int64),
        np.stack([said[doc_id].scores for doc_id in ids]) / readings[:, None],
        np.stack([said[doc_id].votes for doc_id in ids]) / readings[:, None],
        readings,
    )


def _source(doc_id: str, texts: Mapping[str, AnnotatedText]) -> str:
    """The source of a document, for a variant that of its original, however long the chain."""
    seen = {doc_id}
    while (original := texts[doc_id].variant_of) is not None and original in texts and original not in seen:
        doc_id = original
        seen.add(doc_id)
    return texts[doc_id].source


def read_json_lines(path: Path) -> Iterator[dict[str, Any] | None]:
    """The objects of a JSON-lines file, plain, .zst or .gz; None for a line that is none. Blank lines are skipped.

    Raises NotFound without the file, CorruptStore where it cannot be unpacked.
    """
    if not path.is_file():
        raise NotFound(f"no file {path}: give JSON lines, plain, .zst or .gz")
    try:
        with pa.input_stream(str(path), compression=_PACKED.get(path.suffix)) as stream:
            data: bytes = stream.read()
    except (OSError, pa.ArrowInvalid) as error:
        raise CorruptStore(f"{path} cannot be unpacked ({error}); fetch or write it again") from None
    for line in data.splitlines():
        if not line.strip():
            continue
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError:
            value = None
        yield value if isinstance(value, dict) else None


def texts_of_lines(path: Path) -> TextsOf:
    """The documents of a JSON-lines file with `id` or `doc_id`, `text`, and perhaps `source`, `variant_of`, `damage`."""

    def texts(wanted: Collection[str]) -> dict[str, AnnotatedText]:
        found = {}
        for document in read_json_lines(path):
            if document is None or not isinstance(document.get("text"), str):
                continue
            doc_id, original = str(document.get("doc_id", document.get("id"))), document.get("variant_of")
            found[doc_id] = AnnotatedText(
                document["text"] if doc_id in wanted else "",
                str(document.get("source") or ""),
                str(original) if original is not None else None,
                str(document.get("damage") or ""),
            )
        return found

    return texts


def write_seeds(annotations: Annotations, folder: Path) -> None:
    """Writes `documents.jsonl` and `ratings.jsonl`, a reading of whole levels a document (nearest, halves upwards).

    The folder is scratch for trainers that read seeds.
    """
    seeds = annotations.documents
    folder.mkdir(parents=True, exist_ok=True)
    levels = np.floor(seeds.scores + 0.5).astype(int).tolist()
    columns, labels = seeds.rubric.columns, seeds.rubric.labels
    with (folder / "documents.jsonl").open("wb") as documents, (folder / "ratings.jsonl").open("wb") as ratings:
        for row, doc_id in enumerate(seeds.ids):
            original = int(seeds.original[row])
            document = {
                "id": doc_id,
                "text": seeds.texts[row],
                "source": seeds.sources[row],
                "variant_of": seeds.ids[original] if original >= 0 else None,
                "damage": seeds.damage[row] or None,
            }
            reading: dict[str, Any] = {"id": doc_id, **dict(zip(columns, levels[row], strict=True))}
            if labels:
                reading["domain"] = labels[int(seeds.votes[row].argmax())]
            documents.write(orjson.dumps(document) + b"\n")
            ratings.write(orjson.dumps(reading) + b"\n")
