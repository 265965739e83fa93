"""Kin: what belongs to a served thing, by lineage and by content: its ratings, its tokens, its documents, its programs.

    ratings_of(desk, docs)      made from these documents, else the nearest among what they were made from
    tokens_of(desk, docs)       a token set that descends from them
    documents_of(desk, tokens)  the documents that a token set was built from

Only what was served counts.
"""

from __future__ import annotations

from collections.abc import Iterator

from typecase.app.web.catalogue import Item
from typecase.app.web.desk import Desk, stamp_of
from typecase.errors import TypecaseError
from typecase.store.journal.opening import split_edited
from typecase.store.lineage import Ancestor, ancestors
from typecase.store.timeline.frameworks import plan_run
from typecase.store.timeline.settings import read_settings
from typecase.store.tokens.pair import find_pair


def ratings_of(desk: Desk, item: Item) -> Item | None:
    """The ratings of the documents of a set."""
    if item.kind == "docs":
        for made in desk.catalogue.children(item, "ratings"):
            return made
    behind = list(made_from(desk, item))
    near = next((i for i in behind if i.kind == "ratings"), None)
    if near is None and item.kind == "tokens":
        near = next((made for docs in behind if docs.kind == "docs" for made in desk.catalogue.children(docs, "ratings")), None)
    return near


def documents_of(desk: Desk, tokens: Item) -> Item | None:
    """The documents that a token set was built from."""
    return next((i for i in made_from(desk, tokens) if i.kind == "docs"), None)


def tokens_of(desk: Desk, docs: Item) -> Item | None:
    """A token set that was built from documents, or from what was made of them."""
    sets = [i for i in desk.catalogue.of_kind("tokens") if i.has_manifest]
    direct = [i for i in sets if (own := documents_of(desk, i)) is not None and own.content == docs.content]
    near = direct or [i for i in sets if any(a.content == docs.content for a in _ancestors(i))]
    return near[0] if near else None


def refined_of(desk: Desk, item: Item) -> Item | None:
    """The refining run that made, or was made of, the documents of a set."""
    for other in (item, *made_from(desk, item)):
        if other.kind == "docs" and other.stage == "refine":
            return other
    return next((i for i in desk.catalogue.children(item, "docs") if i.stage == "refine"), None)


def indexes_of(desk: Desk, tokens: Item) -> list[Item]:
    """The search indexes of a token set."""
    return [i for i in desk.catalogue.of_kind("index") if (own := desk.set_of(i)) is not None and own.name == tokens.name]


def made_from(desk: Desk, item: Item) -> Iterator[Item]:
    """The served things that a thing was made from, nearest first."""
    for one in _ancestors(item):
        if one.depth and one.manifest is not None:
            found = desk.catalogue.at(one.folder) or desk.catalogue.by_content(one.content)
            if found is not None:
                yield found


def _ancestors(item: Item) -> list[Ancestor]:
    if not item.has_manifest:
        return []
    try:
        return list(ancestors(item.path))
    except TypecaseError:
        return []


def runs_of(desk: Desk, tokens: Item) -> list[Item]:
    """The runs that read a token set."""
    return [run for run in desk.catalogue.of_kind("run") if tokens.name in {m.name for m in members_of(desk, run)}]


def members_of(desk: Desk, run: Item) -> list[Item]:
    """The served token sets that a run reads, in its order; none for a run whose settings cannot be read."""

    def look() -> list[Item]:
        try:
            paths = plan_run(read_settings(run.path), "train").members
        except TypecaseError:
            return []
        found = []
        for path in paths:
            plain, _ = split_edited(path)
            try:
                prefix = find_pair(plain).prefix.resolve()
            except TypecaseError:
                continue
            found += [i for i in desk.catalogue.of_kind("tokens") if i.pair.prefix.resolve() == prefix][:1]
        return found

    return desk.remember(("members", run.path), (stamp_of(run), desk.catalogue.looks), look)
