"""Overview: what was served."""

from __future__ import annotations

from dataclasses import dataclass

from typecase.app.web.desk import Desk
from typecase.app.web.state import ask


@dataclass(frozen=True, slots=True)
class Query:
    kind: str = ask("", "only things of this kind: docs, tokens, ratings …")
    look: bool = ask(False, "look again at what lies under the served paths")


@dataclass(frozen=True, slots=True)
class Served:
    """One thing: its balance in = kept + removed + quarantined where it has one, counts and sizes."""

    name: str
    kind: str
    stage: str
    version: str
    rows: int
    size_bytes: int
    entered: int | None
    kept: int | None
    removed: int | None
    quarantined: int | None
    note: str


@dataclass(frozen=True, slots=True)
class Answer:
    items: tuple[Served, ...]
    editable: bool


def answer(desk: Desk, query: Query) -> Answer:
    """The served things of a kind, or all."""
    if query.look:
        desk.catalogue.look()
    kept = [i for i in desk.catalogue.items if query.kind in ("", i.kind)]
    return Answer(tuple(_served(i) for i in kept), desk.allow_edit)


def _served(item: object) -> Served:
    from typecase.app.web.catalogue import Item

    assert isinstance(item, Item)
    if not item.has_manifest or item.note:
        size = item.pair.bin.stat().st_size if item.kind == "tokens" else 0
        return Served(item.name, item.kind, item.stage, "", 0, size, None, None, None, None, item.note)
    made = item.manifest()
    b = made.balance
    rows = sum(f.rows for f in made.files if "/" not in f.name)
    size = sum(f.size_bytes for f in made.files)
    numbers = (b.entered, b.kept, b.num_removed, b.num_quarantined) if b is not None else (None, None, None, None)
    entered, kept, removed, quarantined = numbers
    return Served(item.name, item.kind, item.stage, made.fingerprint[:8], rows, size, entered, kept, removed, quarantined, "")


def python(desk: Desk, query: Query) -> str:
    names = [str(i.path) for i in desk.catalogue.items[:1]]
    return f"import typecase as tc\n\ntc.info({names[0] if names else 'work'!r})"


def command(desk: Desk, query: Query) -> str:
    return "\n".join(f"typecase info {i.path}" for i in desk.catalogue.items if query.kind in ("", i.kind))
