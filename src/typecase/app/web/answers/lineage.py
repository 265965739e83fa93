"""Lineage: everything that was served with its parents and children, by content: what made it, from what, with which seed.

    docs/raw --docs--> docs/unique --docs--> tokens/web --tokens--> index/web
        '----docs----> ratings                    '------tokens---> run.toml

Parents that were not served, and those that are gone, are named as well. Manifests alone are read.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from typecase.app.web.catalogue import Item
from typecase.app.web.desk import Desk, stamp_of
from typecase.app.web.kin import members_of
from typecase.app.web.state import ask
from typecase.errors import NotFound, TypecaseError
from typecase.store import exports
from typecase.store.lineage import Relative, family
from typecase.store.timeline.settings import read_settings

MOST = 1000


@dataclass(frozen=True, slots=True)
class Query:
    of: str = ask("", "one thing, by its name or the beginning of its content: it and what is behind and before it")
    kind: str = ask("", "only things of this kind: docs, tokens, ratings …", longest=40)


@dataclass(frozen=True, slots=True)
class Tie:
    """A parent: what it was to its child, and its id and name."""

    role: str
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Made:
    """A thing of the tree. `id` is its content, or its name where it has no manifest; `served` says whether pages can show it.

    `missing` is why nothing more is known of it. `generation` is 0 for what has no parents here, else one more than theirs.
    `seeds` are those among its parameters, `versions` those of the libraries that made it; `copies` other names of it.
    """

    id: str
    name: str
    kind: str
    stage: str
    version: int | None
    generation: int
    served: bool
    place: str
    missing: str
    fingerprint: str
    params: Mapping[str, Any]
    seeds: Mapping[str, Any]
    entered: int | None
    kept: int | None
    removed: Mapping[str, int]
    quarantined: Mapping[str, int]
    counts: Mapping[str, Any]
    versions: Mapping[str, str]
    parents: tuple[Tie, ...] = ()
    children: tuple[Tie, ...] = ()
    copies: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Answer:
    """The things of a tree, parents first: at most MOST of `total`. `focus` is the id of the one that was asked for."""

    total: int
    made: tuple[Made, ...]
    focus: str


def answer(desk: Desk, query: Query) -> Answer:
    """The tree of a state. Raises NotFound for a thing that is not in it."""
    every = whole(desk)
    chosen = _chosen(every, query)
    return Answer(len(chosen), tuple(chosen[:MOST]), _focus(every, query.of).id if query.of else "")


def whole(desk: Desk) -> tuple[Made, ...]:
    """Everything served with all behind it, parents first; kept until something served changes."""
    items = desk.catalogue.items
    stamp = (desk.catalogue.looks, tuple(stamp_of(i) for i in items))
    return desk.remember(("lineage",), stamp, lambda: _whole(desk))


def _whole(desk: Desk) -> tuple[Made, ...]:
    items = [i for i in desk.catalogue.items if not i.note and i.kind != "losses"]
    names = {i.path.resolve(): i.name for i in items}
    relatives = family(i.path for i in items if i.has_manifest)
    made = {content: _of_manifest(one, names) for content, one in relatives.items()}
    ids = {name: content for content, one in made.items() for name in (one.name, *one.copies)}
    ties = {content: [(role, p) for role, p in one.parents] for content, one in relatives.items()}
    for item in items:
        if not item.has_manifest:
            strange = _standing_in(item, made)
            ids[item.name] = strange or item.name
            if strange:
                made[strange] = replace(made[strange], name=item.name, served=True, missing="", stage="made elsewhere")
            else:
                made[item.name] = _alone(item)
    for run in (i for i in items if i.kind == "run"):
        ties[run.name] = [("tokens", ids[m.name]) for m in members_of(desk, run)]
        made[run.name] = replace(
            made[run.name], generation=1 + max((made[p].generation for _, p in ties[run.name]), default=-1)
        )
    return _tied(made, ties)


def _of_manifest(one: Relative, names: Mapping[Path, str]) -> Made:
    made, where = one.manifest, one.folder.resolve()
    copies = tuple(names.get(c.resolve(), str(c)) for c in one.copies)
    place = str(one.folder)
    facts = one.content, names.get(where, place) if made is not None else place, one.kind
    if made is None:
        return Made(*facts, "", None, one.generation, False, place, one.missing, "", {}, {}, None, None, {}, {}, {}, {})
    b = made.balance
    return Made(
        *facts,
        made.stage,
        made.version,
        one.generation,
        where in names,
        place,
        "",
        made.fingerprint,
        made.params,
        seeds_of(made.params),
        b.entered if b else None,
        b.kept if b else None,
        b.removed if b else {},
        b.quarantined if b else {},
        made.counts,
        made.libraries,
        copies=copies,
    )


def seeds_of(params: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """What parameters call a seed, however deep, by the way to it."""
    found: dict[str, Any] = {}
    for name, value in params.items():
        if isinstance(value, Mapping):
            found |= seeds_of(value, f"{where}{name}.")
        elif name == "seed" or name.endswith("_seed"):
            found[f"{where}{name}"] = value
    return found


def _alone(item: Item) -> Made:
    """A thing without a manifest: a set of another maker, a run file, an audit."""
    params: Mapping[str, Any] = {}
    stage = item.stage or "made elsewhere"
    if item.kind == "run":
        try:
            settings = read_settings(item.path)
            params, stage = orjson.loads(orjson.dumps(dict(settings.values), default=str)), settings.framework
        except TypecaseError as error:
            stage = f"cannot be read: {error}"
    facts = item.name, item.name, item.kind, stage, None, 0, True, str(item.path), "", ""
    return Made(*facts, params, seeds_of(params), None, None, {}, {}, {}, {})


def _standing_in(item: Item, made: Mapping[str, Made]) -> str:
    """The id of the lost parent that a thing without a manifest is, by where it lies; "" for none."""
    own = {item.path.resolve()} | ({item.pair.prefix.resolve()} if item.kind == "tokens" else set())
    return next((c for c, one in made.items() if one.missing and Path(one.place) in own), "")


def _tied(made: Mapping[str, Made], ties: Mapping[str, Sequence[tuple[str, str]]]) -> tuple[Made, ...]:
    children: dict[str, list[Tie]] = {}
    for child, parents in ties.items():
        for role, parent in parents:
            children.setdefault(parent, []).append(Tie(role, child, made[child].name))
    found = [
        replace(
            one,
            parents=tuple(Tie(role, p, made[p].name) for role, p in ties.get(key, ())),
            children=tuple(children.get(key, ())),
        )
        for key, one in made.items()
    ]
    return tuple(sorted(found, key=lambda m: (m.generation, m.kind, m.name)))


def _focus(every: Sequence[Made], of: str) -> Made:
    found = [m for m in every if of in (m.name, m.id, *m.copies)] or [m for m in every if len(of) >= 6 and m.id.startswith(of)]
    if not found:
        raise NotFound(f"nothing called {of!r} is served, nor behind what is: the page Overview names what there is")
    return found[0]


def _chosen(every: Sequence[Made], query: Query) -> list[Made]:
    kept = {m.id for m in every}
    if query.of:
        focus = _focus(every, query.of)
        by_id = {m.id: m for m in every}
        kept = _reached(by_id, focus.id, "parents") | _reached(by_id, focus.id, "children")
    return [m for m in every if m.id in kept and query.kind in ("", m.kind)]


def _reached(by_id: Mapping[str, Made], start: str, way: str) -> set[str]:
    seen, waiting = {start}, [start]
    while waiting:
        for tie in getattr(by_id[waiting.pop()], way):
            if tie.id not in seen:
                seen.add(tie.id)
                waiting.append(tie.id)
    return seen


def python(desk: Desk, query: Query) -> str:
    return "import typecase as tc\n\n" + "\n".join(f"tc.why({str(p)!r})" for p in _ends(desk, query))


def command(desk: Desk, query: Query) -> str:
    return "\n".join(f"typecase why {shlex.quote(str(p))}" for p in _ends(desk, query))


def _ends(desk: Desk, query: Query) -> list[str]:
    """Where the artifacts lie that nothing else was made from, or the one that is asked for."""
    every = whole(desk)
    if query.of:
        return [_focus(every, query.of).place]
    chosen = [m for m in _chosen(every, query) if m.fingerprint]
    return [m.place for m in chosen if not any(by_id.fingerprint for by_id in chosen if m.id in {t.id for t in by_id.parents})]


FORMATS = ("jsonl", "csv", "parquet")


def export(desk: Desk, query: Query, out: Path) -> None:
    """A row for every thing of the tree; mappings as JSON. Raises NotFound where nothing was served."""
    chosen = _chosen(whole(desk), query)
    if not chosen:
        raise NotFound("nothing was served: there is nothing to download")
    exports.export_rows([pa.Table.from_pylist([_row(m) for m in chosen])], out)


def _row(one: Made) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name in Made.__slots__:
        value = getattr(one, name)
        if isinstance(value, Mapping):
            value = orjson.dumps(dict(value), default=str).decode()
        elif isinstance(value, tuple):
            value = ", ".join(v.name if isinstance(v, Tie) else v for v in value)
        row[name] = value
    return row
