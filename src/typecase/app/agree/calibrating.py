"""calibrate: people say keep or drop for a drawn sample; a threshold follows from what they said.

    session = open_session(docs, ratings, labels_file)      draws the sample, or goes on where the file ends
    session.current                                          the document to show now, None when all are done
    label_file.append(session.answer("keep"))                one line more, synced
    propose_from(labels_file, precision=0.9)                 the threshold, the curve, the warnings

    pool = open_pool(ratings)                                what both are made of, for who keeps it between answers
    header, asked = draw(pool, docs)                         the sample without its texts
    calibration_of(label_file, pool, precision=0.9)

    labels.jsonl    line 1    what was drawn, from which ratings, and the size of each stratum
                    then      {"doc_id": …, "verdict": "keep", "score": 3.4, "stratum": "2|web", "inclusion": 0.04}
                              {"undo": …}

The file only grows, a whole line at a time; a line that a crash cut off is dropped on resuming. A session holds no file and
no terminal, so a page on the web can drive it as the command line does.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import xxhash

from typecase.app.agree.readings import F64, Readings, facts_of, open_readings, sources_of
from typecase.core.rating import Rubric
from typecase.core.threshold import Labels, Proposal, Shape, draw_sample, propose
from typecase.errors import AlreadyExists, BadQuery, Conflict, CorruptStore, FingerprintMismatch, NotFound
from typecase.lm.rate.rubric import load_rubric
from typecase.store import atomic

VERDICTS = ("keep", "drop", "skip")
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Asked:
    """One document of the sample, as it is to be judged; `text` is empty until it is read."""

    doc_id: str
    text: str
    source: str
    score: float
    stratum: str
    inclusion: float


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """One score of all rated documents: `scores` float64 (docs,), NaN where missing, in rising order of `ids`."""

    ratings: str
    rubric: str
    criterion: str
    ids: tuple[str, ...]
    scores: F64

    def score_of(self, doc_id: str) -> float | None:
        """The score of a document; None where it is not rated."""
        row = bisect_left(self.ids, doc_id)
        return float(self.scores[row]) if row < len(self.ids) and self.ids[row] == doc_id else None


@dataclass(slots=True)
class Session:
    """A sample in its order of asking and the verdicts so far. Methods return the line to append; nothing is written here."""

    header: Mapping[str, Any]
    asked: tuple[Asked, ...]
    verdicts: dict[str, str] = field(default_factory=dict)

    @property
    def current(self) -> Asked | None:
        """The first document without a verdict, None when all have one."""
        return next((one for one in self.asked if one.doc_id not in self.verdicts), None)

    @property
    def progress(self) -> dict[str, int]:
        """Documents by verdict, and how many are open."""
        said = list(self.verdicts.values())
        return {**{verdict: said.count(verdict) for verdict in VERDICTS}, "open": len(self.asked) - len(said)}

    def answer(self, verdict: str, doc_id: str | None = None) -> dict[str, Any]:
        """Judges the current document, or the open one `doc_id`.

        Raises BadQuery when there is none or the verdict is unknown, Conflict when `doc_id` was judged already.
        """
        one = self.current if doc_id is None else next((a for a in self.asked if a.doc_id == doc_id), None)
        if verdict not in VERDICTS or one is None:
            raise BadQuery(f"a verdict is one of {', '.join(VERDICTS)}, for an open document; got {verdict!r}")
        if one.doc_id in self.verdicts:
            raise Conflict(f"{one.doc_id} was judged meanwhile ({self.verdicts[one.doc_id]}): take that back, or go on")
        self.verdicts[one.doc_id] = verdict
        return {
            "doc_id": one.doc_id,
            "verdict": verdict,
            "score": one.score,
            "stratum": one.stratum,
            "inclusion": one.inclusion,
        }

    def undo(self) -> dict[str, Any] | None:
        """Takes the last verdict back, so that its document is asked again; None when there is none."""
        if not self.verdicts:
            return None
        doc_id = next(reversed(self.verdicts))
        del self.verdicts[doc_id]
        return {"undo": doc_id}


@dataclass(frozen=True, slots=True)
class LabelFile:
    """A file of labels that only grows."""

    path: Path

    def begin(self, header: Mapping[str, Any]) -> None:
        """Creates the file with its first line, all or nothing."""
        atomic.write_bytes(self.path, orjson.dumps(header) + b"\n")

    def append(self, entry: Mapping[str, Any]) -> None:
        """Adds one line in one write, and waits until it is on disk."""
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(handle, orjson.dumps(dict(entry)) + b"\n")
            os.fsync(handle)
        finally:
            os.close(handle)

    def read(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """(header, labels that stand after undoing). Raises NotFound, CorruptStore; a cut-off last line is passed over."""
        if not self.path.is_file():
            raise NotFound(f"no labels at {self.path}: `typecase calibrate DOCS --ratings R -o {self.path}` makes them")
        lines = self.path.read_bytes().split(b"\n")[:-1]
        try:
            rows = [orjson.loads(line) for line in lines]
            if not rows or rows[0]["typecase"] != "labels" or rows[0]["format"] != FORMAT:
                raise ValueError("its first line is no header of labels")
            standing: dict[str, dict[str, Any]] = {}
            for row in rows[1:]:
                if "undo" in row:
                    standing.pop(row["undo"], None)
                else:
                    standing[row["doc_id"]] = {"verdict": str(row["verdict"]), **row}
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise CorruptStore(f"{self.path} is no file of labels ({error}); keep it aside and begin a new one") from None
        return rows[0], list(standing.values())

    def mend(self) -> bool:
        """Drops a last line that has no end, as a crash leaves it; whether there was one."""
        data = self.path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole == len(data):
            return False
        atomic.write_bytes(self.path, data[:whole])
        return True


def open_session(
    docs: Path, ratings: str | Path, out: Path, *, criterion: str | None = None, rubric: str | Path = "dataman",
    size: int = 200, bins: int = 5, seed: int = 0,
) -> Session:  # fmt: skip
    """Draws a sample of `docs` by score bin and source and begins `out`, or goes on with it.

    Raises AlreadyExists when `out` holds labels of another sample: other ratings, criterion, size, bins or seed.
    """
    pool = open_pool(ratings, criterion=criterion, rubric=rubric)
    header, drawn = draw(pool, docs, size=size, bins=bins, seed=seed)
    header["ratings"] = os.path.relpath(ratings, out.parent) if Path(ratings).exists() else str(ratings)
    texts = facts_of(docs, wanted={one.doc_id for one in drawn}, texts=True)
    sample = tuple(replace(one, text=texts[one.doc_id].text) for one in drawn)
    file = LabelFile(out)
    if not out.exists():
        file.begin(header)
        return Session(header, sample)
    there, labels = file.read()
    check_sample(there, header, out)
    file.mend()
    return Session(there, sample, {row["doc_id"]: row["verdict"] for row in labels})


def open_pool(ratings: str | Path, *, criterion: str | None = None, rubric: str | Path = "dataman") -> Pool:
    """One score of a set of ratings, the rubric's summary by default. Raises NotFound, BadQuery without such a score."""
    asked = load_rubric(rubric)
    readings = open_readings(ratings, asked)
    column = _column(asked, readings, criterion)
    return Pool(str(ratings), str(rubric), column, readings.ids, readings.column(column))


def draw(pool: Pool, docs: Path, *, size: int = 200, bins: int = 5, seed: int = 0) -> tuple[dict[str, Any], tuple[Asked, ...]]:
    """A sample of `docs` by score bin and source, without texts, and the first line of a file of its labels.

    Raises BadQuery when no document is rated.
    """
    sources = sources_of(docs)
    rows = np.array([row for row, doc in enumerate(pool.ids) if doc in sources], np.int64)
    if not len(rows):
        raise BadQuery(f"no document of {docs} is rated in {pool.ratings}")
    ids = [pool.ids[row] for row in rows]
    scores = pool.scores[rows]
    drawn = draw_sample(ids, scores, [sources[doc] for doc in ids], size=size, bins=bins, seed=seed)
    header = {
        "typecase": "labels",
        "format": FORMAT,
        "ratings": pool.ratings,
        "rubric": pool.rubric,
        "criterion": pool.criterion,
        "pool_hash": _pool_hash(ids, scores),
        "size": size,
        "bins": bins,
        "seed": seed,
        "pool": dict(drawn.pool),
    }
    columns = (drawn.rows.tolist(), drawn.stratum, drawn.inclusion.tolist())
    sample = tuple(
        Asked(ids[row], "", sources[ids[row]], float(scores[row]), where, chance)
        for row, where, chance in zip(*columns, strict=True)
    )
    return header, sample


def check_sample(there: Mapping[str, Any], header: Mapping[str, Any], path: Path) -> None:
    """Raises AlreadyExists when the file at `path` begins with another sample than `header` says."""
    keys = ("criterion", "pool_hash", "size", "bins", "seed")
    if changed := [key for key in keys if there.get(key) != header[key]]:
        raise AlreadyExists(
            f"{path} has labels of another sample ({', '.join(changed)} differ); go on as it began, or name another file"
        )


def _column(rubric: Rubric, readings: Readings, criterion: str | None) -> str:
    column = rubric.criterion(criterion).id if criterion else rubric.summary or readings.columns[0]
    if column not in readings.columns:
        raise BadQuery(f"{readings.name} has no '{column}'; it has {', '.join(readings.columns)}: choose one with --criterion")
    return column


def _pool_hash(ids: Sequence[str], scores: np.ndarray) -> str:
    digest = xxhash.xxh3_128("\0".join(ids).encode("utf-8", "surrogatepass"))
    digest.update(np.ascontiguousarray(scores).tobytes())
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Calibration:
    """A proposal with what it rests on; `notes` are doubts that its own warnings cannot know."""

    labels_file: str
    ratings: str
    criterion: str
    verdicts: Mapping[str, int]
    proposal: Proposal
    notes: tuple[str, ...] = ()


def propose_from(
    labels_file: Path, *, precision: float | None = None, keep_rate: float | None = None, ratings: str | Path | None = None,
    shape: Shape = "isotonic", seed: int = 0,
) -> Calibration:  # fmt: skip
    """The threshold for a wished precision or keep rate, out of a file of labels and the ratings that it was drawn from.

    Raises FingerprintMismatch when the ratings have changed since.
    """
    header, _ = LabelFile(labels_file).read()
    where = ratings if ratings is not None else ratings_of(labels_file, header)
    pool = open_pool(where, criterion=header["criterion"], rubric=header["rubric"])
    return calibration_of(LabelFile(labels_file), pool, precision=precision, keep_rate=keep_rate, shape=shape, seed=seed)


def calibration_of(
    file: LabelFile, pool: Pool, *, precision: float | None = None, keep_rate: float | None = None,
    shape: Shape = "isotonic", seed: int = 0,
) -> Calibration:  # fmt: skip
    """As `propose_from`, of scores that were read already."""
    header, rows = file.read()
    judged = [row for row in rows if row["verdict"] != "skip"]
    if any(pool.score_of(row["doc_id"]) != row["score"] for row in judged):
        raise FingerprintMismatch(
            f"{pool.ratings} is not what {file.path} was drawn from: give the old ratings with --ratings, or label anew"
        )
    labels = Labels(
        np.array([row["score"] for row in judged], np.float64),
        np.array([row["verdict"] == "keep" for row in judged], np.float64),
        tuple(row["stratum"] for row in judged),
        header["pool"],
    )
    verdicts = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in VERDICTS}
    proposal = propose(labels, pool.scores, precision=precision, keep_rate=keep_rate, shape=shape, seed=seed)
    rated, drawn_from = int((~np.isnan(pool.scores)).sum()), sum(header["pool"].values())
    notes = (
        (f"the ratings have {rated:,} documents, the sample was drawn from {drawn_from:,}: keep rates are of the former",)
        if rated != drawn_from
        else ()
    )
    return Calibration(str(file.path), pool.ratings, header["criterion"], verdicts, proposal, notes)


def ratings_of(labels_file: Path, header: Mapping[str, Any]) -> Path | str:
    """The ratings that a file of labels was drawn from: a path beside it where there is one, else the name as it stands."""
    path = labels_file.parent / str(header["ratings"])
    return path if path.exists() else str(header["ratings"])
