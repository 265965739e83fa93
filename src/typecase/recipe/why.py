"""why: what an artifact was made from, and what became of a document on the way.

    build 0d8ce1ec  tokens   work/runs/0d8c…/build        613 documents
    `- docs: select 77a0f1  docs …
       |- docs: dedup …
       `- ratings: rate …

A document's fate is read from the side tables that the stages left: no stage is run again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typecase.errors import NotFound
from typecase.store.documents import row_of
from typecase.store.lineage import Ancestor, ancestors, artifact_at, parents_of
from typecase.store.provenance import open_provenance


@dataclass(frozen=True, slots=True)
class Node:
    """An artifact and what it was made from; `missing` says why nothing is known beyond it."""

    role: str
    stage: str
    kind: str
    folder: str
    fingerprint: str
    content: str
    params: dict[str, Any]
    balance: dict[str, Any] | None
    missing: str
    parents: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Fate:
    """What one stage did with a document: kept, removed, quarantined, rated, built; `detail` are the row's other columns."""

    stage: str
    outcome: str
    reason: str
    detail: dict[str, Any]


def tree(folder: Path) -> Node:
    """The artifact in `folder` with all its parents. Raises NotFound when it is none."""
    return _node(artifact_at(folder))


def _node(one: Ancestor) -> Node:
    made = one.manifest
    return Node(
        role=one.role,
        stage=made.stage if made else "?",
        kind=one.kind,
        folder=str(one.folder),
        fingerprint=made.fingerprint if made else "",
        content=one.content,
        params=dict(made.params) if made else {},
        balance=made.balance.as_dict() if made and made.balance else None,
        missing=one.missing,
        parents=tuple(_node(parent) for parent in parents_of(one)),
    )


def fate(folder: Path, doc_id: str) -> list[Fate]:
    """What became of `doc_id` (all 32 digits) in every artifact behind `folder`, in the order of the stages.

    Raises NotFound when no artifact knows it.
    """
    told = [f for one in ancestors(folder) for f in _told(one, doc_id)]
    if not told:
        raise NotFound(f"nothing behind {folder} knows a document {doc_id!r}; give all 32 digits of its id")
    return told[::-1]


def _told(one: Ancestor, doc_id: str) -> Iterator[Fate]:
    if one.manifest is None:
        return
    made = one.manifest
    names = [f.name for f in made.files]

    def row(table: str) -> dict[str, Any] | None:
        inside = [n for n in names if n.startswith(f"{table}/")] if table else [n for n in names if "/" not in n]
        return row_of([one.folder / n for n in inside if n.endswith(".parquet")], doc_id)

    if made.kind == "docs":
        yield from _told_by_docs(made.stage, row)
    elif made.kind == "ratings":
        if rated := row(""):
            yield Fate(made.stage, "rated", "", _without(rated, "doc_id"))
    elif (provenance := open_provenance(one.folder)) is not None:
        try:
            docs = provenance.find(doc_id).tolist()
        except NotFound:
            return
        copies = f", and its copies {', '.join(map(str, docs[1:]))}" if len(docs) > 1 else ""
        yield Fate(made.stage, "built", f"document {docs[0]}{copies}", {"doc": docs[0], "copies": docs[1:]})


def _told_by_docs(stage: str, row: Any) -> Iterator[Fate]:
    detail: dict[str, Any] = {}
    for table in ("programs", "selection"):
        if found := row(table):
            detail |= _without(found, "doc_id")
    if removed := row("removed"):
        yield Fate(stage, "removed", removed["reason"], {"detail": removed["detail"], **detail})
    elif quarantined := row("quarantine"):
        yield Fate(stage, "quarantined", quarantined["reason"], _without(quarantined, "doc_id", "raw", "reason"))
    elif kept := row(""):
        yield Fate(stage, "kept", detail.get("status") or "", detail or _without(kept, "doc_id", "text", "meta"))


def _without(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {k: v for k, v in row.items() if k not in names}


def tree_lines(node: Node, *, indent: str = "", last: bool = True, root: bool = True) -> list[str]:
    """The tree as text, one artifact a line."""
    joint = "" if root else ("`- " if last else "|- ")
    role = f"{node.role}: " if node.role else ""
    if node.missing:
        return [f"{indent}{joint}{role}{node.kind} {node.content[:12]}  ({node.missing})"]
    size = f"  {node.balance['kept']:,} of {node.balance['in']:,}" if node.balance else ""
    lines = [f"{indent}{joint}{role}{node.stage} {node.fingerprint[:12]}  {node.kind}{size}  {node.folder}"]
    below = indent + ("" if root else ("   " if last else "|  "))
    for number, parent in enumerate(node.parents):
        lines += tree_lines(parent, indent=below, last=number == len(node.parents) - 1, root=False)
    return lines
