"""calibrate: people say keep or drop for a drawn sample; a threshold follows from what they said.

    session = open_session(docs, ratings, labels_file)      draws the sample, or goes on where the file ends
    session.current                                          the document to show now, None when all are done
    label_file.append(session.answer("keep"))                one line more, synced
    propose_from(labels_file, precision=0.9)                 the threshold, the curve, the warnings

    labels.jsonl    line 1    what was drawn, from which ratings, and the size of each stratum
                    then      {"doc_id": …, "verdict": "keep", "score": 3.4, "stratum": "2|web", "inclusion": 0.04}
                              {"undo": …}

The file only grows, a whole line at a time; a line that a crash cut off is dropped on resuming. A session holds no file and
no terminal, so a page on the web can drive it as the command line does.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import xxhash

from typecase.app.agree.readings import Facts, Readings, facts_of, open_readings
from typecase.core.rating import Rubric
from typecase.core.threshold import Labels, Proposal, Shape, draw_sample, propose
from typecase.errors import AlreadyExists, BadQuery, CorruptStore, FingerprintMismatch, NotFound
from typecase.lm.rate.rubric import load_rubric
from typecase.store import atomic

VERDICTS = ("keep", "drop", "skip")
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Asked:
    """One document of the sample, as it is to be judged."""

    doc_id: str
    text: str
    source: str
    score: float
    stratum: str
    inclusion: float


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

    def answer(self, verdict: str) -> dict[str, Any]:
        """Judges the current document. Raises BadQuery when there is none or the verdict is unknown."""
        one = self.current
        if verdict not in VERDICTS or one is None:
            raise BadQuery(f"a verdict is one of {', '.join(VERDICTS)}, for an open document; got {verdict!r}")
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
    asked = load_rubric(rubric)
    readings = open_readings(ratings, asked)
    column = _column(asked, readings, criterion)
    facts = facts_of(docs, wanted=set(readings.ids))
    rows = np.array([row for row, doc in enumerate(readings.ids) if doc in facts], np.int64)
    if not len(rows):
        raise BadQuery(f"no document of {docs} is rated in {ratings}")
    ids = [readings.ids[row] for row in rows]
    scores = readings.column(column)[rows]
    drawn = draw_sample(ids, scores, [facts[doc].source for doc in ids], size=size, bins=bins, seed=seed)
    chosen = [ids[row] for row in drawn.rows]
    header = {
        "typecase": "labels",
        "format": FORMAT,
        "ratings": os.path.relpath(ratings, out.parent) if Path(ratings).exists() else str(ratings),
        "rubric": str(rubric),
        "criterion": column,
        "pool_hash": _pool_hash(ids, scores),
        "size": size,
        "bins": bins,
        "seed": seed,
        "pool": dict(drawn.pool),
    }
    texts = facts_of(docs, wanted=set(chosen), texts=True)
    sample = _sample(chosen, texts, scores[drawn.rows].tolist(), drawn.stratum, drawn.inclusion.tolist())
    file = LabelFile(out)
    if not out.exists():
        file.begin(header)
        return Session(header, sample)
    file.mend()
    there, labels = file.read()
    keys = ("criterion", "pool_hash", "size", "bins", "seed")
    if changed := [key for key in keys if there.get(key) != header[key]]:
        raise AlreadyExists(
            f"{out} has labels of another sample ({', '.join(changed)} differ); go on as it began, or name another file"
        )
    return Session(there, sample, {row["doc_id"]: row["verdict"] for row in labels})


def _column(rubric: Rubric, readings: Readings, criterion: str | None) -> str:
    column = rubric.criterion(criterion).id if criterion else rubric.summary or readings.columns[0]
    if column not in readings.columns:
        raise BadQuery(f"{readings.name} has no '{column}'; it has {', '.join(readings.columns)}: choose one with --criterion")
    return column


def _pool_hash(ids: Sequence[str], scores: np.ndarray) -> str:
    digest = xxhash.xxh3_128("\0".join(ids).encode("utf-8", "surrogatepass"))
    digest.update(np.ascontiguousarray(scores).tobytes())
    return digest.hexdigest()


def _sample(
    ids: Sequence[str], facts: Mapping[str, Facts], scores: Sequence[float], stratum: Sequence[str], inclusion: Sequence[float]
) -> tuple[Asked, ...]:
    return tuple(
        Asked(doc, facts[doc].text, facts[doc].source, score, where, chance)
        for doc, score, where, chance in zip(ids, scores, stratum, inclusion, strict=True)
    )


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
    header, rows = LabelFile(labels_file).read()
    where = ratings if ratings is not None else _found(labels_file.parent, header["ratings"])
    readings = open_readings(where, load_rubric(header["rubric"]))
    scores = readings.column(header["criterion"])
    place = {doc: row for row, doc in enumerate(readings.ids)}
    judged = [row for row in rows if row["verdict"] != "skip"]
    if any(row["doc_id"] not in place or scores[place[row["doc_id"]]] != row["score"] for row in judged):
        raise FingerprintMismatch(
            f"{where} is not what {labels_file} was drawn from: give the old ratings with --ratings, or label anew"
        )
    labels = Labels(
        np.array([row["score"] for row in judged], np.float64),
        np.array([row["verdict"] == "keep" for row in judged], np.float64),
        tuple(row["stratum"] for row in judged),
        header["pool"],
    )
    verdicts = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in VERDICTS}
    proposal = propose(labels, scores, precision=precision, keep_rate=keep_rate, shape=shape, seed=seed)
    rated, drawn_from = int((~np.isnan(scores)).sum()), sum(header["pool"].values())
    notes = (
        (f"the ratings have {rated:,} documents, the sample was drawn from {drawn_from:,}: keep rates are of the former",)
        if rated != drawn_from
        else ()
    )
    return Calibration(str(labels_file), str(where), header["criterion"], verdicts, proposal, notes)


def _found(folder: Path, name: str) -> Path | str:
    path = folder / name
    return path if path.exists() else name
