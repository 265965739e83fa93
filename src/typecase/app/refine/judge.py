"""judge: people accept or reject programs of a run; what they say is preference data, a JSON line each.

    session = open_judging(run, file, who="ada")     what is still to be judged, in order of id (ids are hashes: a sample)
    session.current                                  the id to show now, None when all are done
    session.answer("accept")                         a line more; the file is whole at every moment

    {"doc_id": …, "text_hash": …, "program": "remove_lines(…)", "status": "edited", "by": ["line.nav"],
     "verdict": "accept", "who": "ada"}

One file may hold several runs and people. What a person has judged (the same text, the same program) is not asked again, so a
session goes on where it ended. `undo` takes back the last line that this person wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from typecase.app.refine.refining import EditedDocument, Run, ids_of, show_edited
from typecase.errors import BadQuery, CorruptStore
from typecase.store import atomic
from typecase.store.documents import row_of

VERDICTS = ("accept", "reject")
JUDGED = ("edited", "dropped", "guarded")


@dataclass(slots=True)
class Judging:
    """A session: documents in order of asking, and the file of all verdicts."""

    run: Run
    path: Path
    who: str
    waiting: list[str]
    rows: list[dict[str, Any]]
    shown: EditedDocument | None = None

    @property
    def current(self) -> EditedDocument | None:
        """The document to judge now; None when all are done."""
        if not self.waiting:
            return None
        if self.shown is None or self.shown.doc_id != self.waiting[0]:
            self.shown = show_edited(self.run, self.waiting[0])
        return self.shown

    def answer(self, verdict: str) -> None:
        """Writes the verdict on the current document. Raises BadQuery when there is none or the verdict is unknown."""
        one = self.current
        if verdict not in VERDICTS or one is None:
            raise BadQuery(f"a verdict is one of {', '.join(VERDICTS)}, for an open document; got {verdict!r}")
        by = sorted({said.by for said in one.statements if said.by})
        self.rows.append(
            {
                "doc_id": one.doc_id,
                "text_hash": one.text_hash,
                "program": one.program,
                "status": one.status,
                "by": by,
                "verdict": verdict,
                "who": self.who,
            }
        )
        write_judgements(self.path, self.rows)
        self.waiting.pop(0)

    def skip(self) -> None:
        """Leaves the current document for another session."""
        if self.waiting:
            self.waiting.pop(0)

    def undo(self) -> bool:
        """Takes back the last verdict of this person and asks again, if the document is of this run; False: there is none."""
        at = next((k for k in range(len(self.rows) - 1, -1, -1) if self.rows[k]["who"] == self.who), None)
        if at is None:
            return False
        row = self.rows.pop(at)
        write_judgements(self.path, self.rows)
        if row_of(self.run.programs, row["doc_id"]) is not None:
            self.waiting.insert(0, row["doc_id"])
        return True

    @property
    def progress(self) -> dict[str, int]:
        """Verdicts of this person in the file, and documents still waiting."""
        said = [row["verdict"] for row in self.rows if row["who"] == self.who]
        return {**{verdict: said.count(verdict) for verdict in VERDICTS}, "open": len(self.waiting)}


def open_judging(run: Run, path: Path, *, who: str, documents: int = 50) -> Judging:
    """A session over the first `documents` documents that `run` edited, dropped or guarded."""
    rows = read_judgements(path) if path.exists() else []
    judged = {(row["text_hash"], row["program"]) for row in rows if row["who"] == who}
    found = ((doc_id, row_of(run.programs, doc_id) or {}) for doc_id in ids_of(run, documents, JUDGED))
    waiting = [doc_id for doc_id, row in found if (row.get("text_hash"), row.get("program")) not in judged]
    return Judging(run, path, who, waiting, rows)


def read_judgements(path: Path) -> list[dict[str, Any]]:
    """The lines of a file of verdicts. Raises CorruptStore when it is none."""
    try:
        rows = [orjson.loads(line) for line in path.read_bytes().splitlines() if line.strip()]
        for row in rows:
            if row["verdict"] not in VERDICTS or not all(
                isinstance(row[k], str) for k in ("text_hash", "program", "who", "doc_id")
            ):
                raise ValueError(f"a verdict {row['verdict']!r}")
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise CorruptStore(f"{path} is no file of verdicts ({error}); name another file, or mend this one") from None
    return rows


def write_judgements(path: Path, rows: list[dict[str, Any]]) -> None:
    """Writes all lines, all or nothing."""
    atomic.write_bytes(path, b"".join(orjson.dumps(row) + b"\n" for row in rows))
