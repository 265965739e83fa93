"""Calibrate: people say keep or drop for a stratified sample; the threshold for a wished precision or keep rate, live.

    labels.jsonl     the file of `typecase calibrate`: it begins with the sample that was drawn, then a line a verdict
    asking           the document to judge now, and the counts
    proposal         the curve of thresholds with intervals, the cut that fulfils the wish, the one that surely does

A session begun here goes on on the command line, and the other way round: both read and write that file, nothing else. The
sample is drawn again from the ratings when a server first shows the file, and kept; a million documents take some seconds.
"""

from __future__ import annotations

import re
import shlex
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from typecase.app.agree import calibrating
from typecase.app.agree.calibrating import Asked, LabelFile, Pool, Session
from typecase.app.agree.readings import criteria_of
from typecase.app.web.catalogue import Item
from typecase.app.web.desk import Desk, stamp_of
from typecase.app.web.kin import documents_of
from typecase.app.web.registry import Action
from typecase.app.web.state import ask
from typecase.core.threshold import Proposal, Shape
from typecase.errors import AlreadyExists, BadQuery, NotFound
from typecase.lm.rate.rubric import builtin_rubrics, load_rubric
from typecase.store import exports
from typecase.store.documents import open_documents

BEGINS, MOST_CHARS = 4_000, 200_000
USUAL = 0.9
"""The precision that is wished for where nothing else is."""

_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,80}\.jsonl")
_WRITING = threading.Lock()


@dataclass(frozen=True, slots=True)
class Query:
    labels: str = ask("", "the file of labels; the first of them by default")
    begin: bool = ask(False, "begin another sample")
    ratings: str = ask("", "the ratings that a new sample is drawn by; the first of them by default")
    set: str = ask("", "the documents that were rated; those that the ratings were made from by default")
    rubric: str = ask("", "what a new sample's ratings are of, a rubric of the package; the first that fits by default")
    criterion: str = ask("", "the score of a new sample; the summary of the rubric by default")
    precision: float | None = ask(None, "wish: at least this share of the kept is worth keeping; 0.9 by default", low=0, high=1)
    keep_rate: float | None = ask(None, "wish, instead: keep this share of all documents", low=0, high=1)
    shape: str = ask("isotonic", "the curve: one that never falls, or logistic", choices=("isotonic", "logistic"))
    scores: bool = ask(False, "show the score while asking; it sways people")
    whole: bool = ask(False, "show the whole text of the document that is asked about")


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict that stands."""

    doc_id: str
    verdict: str
    score: float


@dataclass(frozen=True, slots=True)
class Shown:
    """The document to judge: the first characters of its text of `chars`; its score only where that was asked for."""

    doc_id: str
    source: str
    text: str
    chars: int
    score: float | None


@dataclass(frozen=True, slots=True)
class Asking:
    """How far a file is: verdicts by kind, documents without one, the one to judge now, and the last that was judged."""

    labels: str
    sample: int
    verdicts: Mapping[str, int]
    open: int
    document: Shown | None
    last: Judged | None


@dataclass(frozen=True, slots=True)
class Answer:
    """A file of labels, or what a new one can be drawn from: `asking` is None then.

    `proposal` is None while there is none, and `why` says what is missing; `judged` are the verdicts behind it; `notes` are
    doubts. `files` and `criteria` are the labels and scores that there are. `editable` says whether verdicts are taken.
    """

    labels: str
    files: tuple[str, ...]
    ratings: str
    set: str
    rubric: str
    criterion: str
    criteria: tuple[str, ...]
    editable: bool
    asking: Asking | None
    judged: tuple[Judged, ...]
    proposal: Proposal | None
    why: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Begin:
    """Draws a sample of `size` documents and begins the file `name` of labels beside the ratings."""

    name: str = "labels.jsonl"
    ratings: str = ""
    set: str = ""
    rubric: str = ""
    criterion: str = ""
    size: int = 200
    bins: int = 5
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Begun:
    labels: str
    sample: int


@dataclass(frozen=True, slots=True)
class Judge:
    """Says `verdict` (keep, drop, skip) of the document `doc_id` of the sample of `labels`."""

    labels: str
    doc_id: str
    verdict: str
    scores: bool = False


@dataclass(frozen=True, slots=True)
class Undo:
    """Takes the last verdict of `labels` back."""

    labels: str
    scores: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    """A file of labels with its first line, its ratings and documents."""

    item: Item
    header: Mapping[str, Any]
    ratings: Item
    docs: Item

    @property
    def file(self) -> LabelFile:
        return LabelFile(self.item.path)


def answer(desk: Desk, query: Query) -> Answer:
    """The state of a file of labels. Raises NotFound, BadQuery, AlreadyExists when its ratings have changed, CorruptStore."""
    files = _files(desk)
    if query.begin or (not query.labels and not files):
        return _beginning(desk, query, files)
    work = _work(desk, query.labels or files[0], query.set)
    pool, session = _pool(desk, work), _session(desk, work)
    asking = _asking(work, session, scores=query.scores, whole=query.whole)
    proposal, why, notes = _proposed(desk, work, pool, query)
    return Answer(
        work.item.name,
        files,
        work.ratings.name,
        work.docs.name,
        pool.rubric,
        pool.criterion,
        (),
        desk.allow_edit,
        asking,
        tuple(_judged(session)),
        proposal,
        why,
        notes,
    )


def _files(desk: Desk) -> tuple[str, ...]:
    return tuple(i.name for i in desk.catalogue.of_kind("labels"))


def _beginning(desk: Desk, query: Query, files: tuple[str, ...]) -> Answer:
    ratings = desk.catalogue.get(query.ratings, "ratings")
    docs = _documents(desk, ratings, query.set)
    rubric, criteria = _criteria(ratings, query.rubric)
    usual = load_rubric(rubric).summary
    criterion = query.criterion or (usual if usual in criteria else criteria[0])
    why = "no sample was drawn yet"
    return Answer(
        "", files, ratings.name, docs.name, rubric, criterion, criteria, desk.allow_edit, None, (), None, why, ()
    )  # fmt: skip


def _documents(desk: Desk, ratings: Item, name: str) -> Item:
    if name:
        return desk.catalogue.get(name, "docs")
    found = documents_of(desk, ratings)
    if found is None:
        raise NotFound(f"the documents that {ratings.name} is of were not served: serve them too, or name a set")
    return found


def _criteria(ratings: Item, rubric: str) -> tuple[str, tuple[str, ...]]:
    """The rubric of some ratings, the first of the package whose criteria they have, and those criteria."""
    if rubric:
        _check_rubric(rubric)
        return rubric, criteria_of(ratings.path, load_rubric(rubric))
    for name in sorted(builtin_rubrics(), key=lambda name: name != "dataman"):
        try:
            return name, criteria_of(ratings.path, load_rubric(name))
        except BadQuery:
            continue
    raise BadQuery(f"{ratings.name} has no score of a rubric of the package: use `typecase calibrate --rubric FILE`")


def _check_rubric(name: str) -> None:
    if name not in builtin_rubrics():
        raise BadQuery(f"{name!r} is no rubric of the package: there are {', '.join(builtin_rubrics())}")


def _work(desk: Desk, name: str, docs: str = "") -> _Work:
    item = desk.catalogue.get(name, "labels")
    header, _ = LabelFile(item.path).read()
    _check_rubric(str(header["rubric"]))
    place = item.path.parent / str(header["ratings"])
    ratings = desk.catalogue.at(place)
    if ratings is None or ratings.kind != "ratings":
        raise NotFound(f"{name} was drawn from {header['ratings']}, which was not served: serve the folder that holds both")
    return _Work(item, header, ratings, _documents(desk, ratings, docs))


def _pool(desk: Desk, work: _Work) -> Pool:
    """The scores that the sample was drawn by; those of one criterion are kept for each set of ratings."""
    return _pool_of(desk, work.ratings, str(work.header["rubric"]), str(work.header["criterion"]))


def _pool_of(desk: Desk, ratings: Item, rubric: str, criterion: str) -> Pool:
    return desk.remember(
        ("pool", ratings.path),
        (stamp_of(ratings), rubric, criterion),
        lambda: calibrating.open_pool(ratings.path, criterion=criterion, rubric=rubric),
    )


def _session(desk: Desk, work: _Work) -> Session:
    """The sample as it was drawn, without its texts, and the verdicts that stand now."""

    def draw() -> tuple[Asked, ...]:
        how = {name: work.header[name] for name in ("size", "bins", "seed")}
        header, asked = calibrating.draw(_pool(desk, work), work.docs.path, **how)
        calibrating.check_sample(work.header, header, work.item.path)
        return asked

    _, rows = work.file.read()
    return Session(work.header, _kept(desk, work, draw), {row["doc_id"]: row["verdict"] for row in rows})


def _kept(desk: Desk, work: _Work, draw: Callable[[], tuple[Asked, ...]]) -> tuple[Asked, ...]:
    """The sample of a file, drawn once while its first line, ratings and documents are as they were."""
    stamp = (stamp_of(work.docs), stamp_of(work.ratings), repr(work.header))
    return desk.remember(("sample", work.item.path), stamp, draw)


def _asking(work: _Work, session: Session, *, scores: bool, whole: bool = False) -> Asking:
    progress = dict(session.progress)
    still = progress.pop("open")
    last = next(reversed(list(_judged(session))), None)
    return Asking(work.item.name, len(session.asked), progress, still, _shown(work, session.current, scores, whole), last)


def _shown(work: _Work, one: Asked | None, scores: bool, whole: bool) -> Shown | None:
    if one is None:
        return None
    text = open_documents(work.docs.path).get(one.doc_id).text
    return Shown(
        one.doc_id, one.source, text[: MOST_CHARS if whole else BEGINS], len(text), one.score if scores else None
    )  # fmt: skip


def _judged(session: Session) -> list[Judged]:
    by_id = {one.doc_id: one for one in session.asked}
    return [Judged(doc, verdict, by_id[doc].score) for doc, verdict in session.verdicts.items() if doc in by_id]


def _proposed(desk: Desk, work: _Work, pool: Pool, query: Query) -> tuple[Proposal | None, str, tuple[str, ...]]:
    """The proposal, why there is none, and notes."""
    precision = query.precision if query.keep_rate is not None or query.precision is not None else USUAL
    shape: Shape = "logistic" if query.shape == "logistic" else "isotonic"

    def propose() -> tuple[Proposal | None, str, tuple[str, ...]]:
        try:
            found = calibrating.calibration_of(work.file, pool, precision=precision, keep_rate=query.keep_rate, shape=shape)
        except BadQuery as error:
            return None, str(error), ()
        return found.proposal, "", found.notes

    stamp = (stamp_of(work.item), stamp_of(work.ratings), precision, query.keep_rate, shape)
    return desk.remember(("calibration", work.item.path), stamp, propose)


def _begin(desk: Desk, asked: Begin) -> Begun:
    """Begins a file of labels. Raises AlreadyExists where there is one, BadQuery, NotFound."""
    ratings = desk.catalogue.get(asked.ratings, "ratings")
    docs = _documents(desk, ratings, asked.set)
    rubric, _ = _criteria(ratings, asked.rubric)
    if not _NAME.fullmatch(asked.name):
        raise BadQuery(f"{asked.name!r} is no name for labels: letters, digits, . _ -, and .jsonl at its end")
    if not 1 <= asked.size <= 5_000 or not 1 <= asked.bins <= 50:
        raise BadQuery(f"a sample has 1 to 5,000 documents and 1 to 50 bins, got {asked.size} and {asked.bins}")
    out = ratings.path.parent / asked.name
    if not any(out.resolve().is_relative_to(root) for root in desk.catalogue.roots):
        raise BadQuery(f"{ratings.name} was served alone: serve the folder that holds it, so that labels can lie beside it")
    if out.exists():
        raise AlreadyExists(f"{asked.name} is there already: go on with it, or name another file")
    chosen = calibrating.open_pool(ratings.path, criterion=asked.criterion or None, rubric=rubric).criterion
    pool = _pool_of(desk, ratings, rubric, chosen)
    header, drawn = calibrating.draw(pool, docs.path, size=asked.size, bins=asked.bins, seed=asked.seed)
    with _WRITING:
        if out.exists():
            raise AlreadyExists(f"{asked.name} was begun meanwhile: go on with it, or name another file")
        LabelFile(out).begin({**header, "ratings": ratings.path.name})
    desk.catalogue.look()
    made = desk.catalogue.at(out)
    assert made is not None
    _kept(desk, _work(desk, made.name, asked.set), lambda: drawn)
    return Begun(made.name, len(drawn))


def _judge(desk: Desk, asked: Judge) -> Asking:
    with _WRITING:
        work = _work(desk, asked.labels)
        session = _session(desk, work)
        line = session.answer(asked.verdict, asked.doc_id)
        work.file.mend()
        work.file.append(line)
    return _asking(work, session, scores=asked.scores)


def _undo(desk: Desk, asked: Undo) -> Asking:
    with _WRITING:
        work = _work(desk, asked.labels)
        session = _session(desk, work)
        line = session.undo()
        if line is None:
            raise BadQuery(f"{asked.labels} has no verdict to take back")
        work.file.mend()
        work.file.append(line)
    return _asking(work, session, scores=asked.scores)


ACTIONS = (
    Action("begin", Begin, Begun, _begin, "Draw a sample and begin a file of labels", edits=True),
    Action("judge", Judge, Asking, _judge, "Keep, drop or skip a document of the sample", edits=True),
    Action("undo", Undo, Asking, _undo, "Take the last verdict back", edits=True),
)


def _path(desk: Desk, query: Query) -> Path:
    """The file of labels that is meant. Raises NotFound where there is none yet."""
    return desk.catalogue.get(query.labels, "labels").path


def _wish(query: Query) -> tuple[str, float]:
    return ("keep_rate", query.keep_rate) if query.keep_rate is not None else ("precision", query.precision or USUAL)


def python(desk: Desk, query: Query) -> str:
    path = _path(desk, query) if query.labels or _files(desk) else Path("labels.jsonl")
    wish, value = _wish(query)
    return (
        "from pathlib import Path\n\nfrom typecase.app.agree.calibrating import propose_from\n\n"
        f"found = propose_from(Path({str(path)!r}), {wish}={value:g}, shape={query.shape!r})\nprint(found.proposal.cut)"
    )


def command(desk: Desk, query: Query) -> str:
    if query.begin or not (query.labels or _files(desk)):
        ratings = desk.catalogue.get(query.ratings, "ratings")
        docs = _documents(desk, ratings, query.set)
        out = ratings.path.parent / "labels.jsonl"
        return f"typecase calibrate {_quoted(docs.path)} --ratings {_quoted(ratings.path)} -o {_quoted(out)}"
    wish, value = _wish(query)
    path = _path(desk, query)
    shape = f" --shape {query.shape}" if query.shape != "isotonic" else ""
    return f"typecase calibrate --labels {_quoted(path)} --{wish.replace('_', '-')} {value:g}{shape}"


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


FORMATS = ("jsonl", "csv", "parquet")


def export(desk: Desk, query: Query, out: Path) -> None:
    """The verdicts that stand, with score, stratum and chance of being drawn."""
    path = _path(desk, query)
    _, rows = LabelFile(path).read()
    if not rows:
        raise BadQuery(f"{path.name} has no verdict yet: there is nothing to download")
    exports.export_rows([pa.Table.from_pylist(rows)], out)
