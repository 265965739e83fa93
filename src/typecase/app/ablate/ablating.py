"""The verb ablate: an ablation file -> token sets, runs, and what they say.

    ABLATION.toml    OUT/ sets/<arm>/             token sets of arms that are documents, or of recipes
                          runs/<arm>/<seed>/      runs and their measurements
                          findings.json           everything, for machines
                          arms.csv curves.csv correlations.csv proxies.csv
                          report.html figures/    with the extra `report`

Run again, it finds what is finished, goes on with what was interrupted, and writes the same bytes. `proxies.csv` is the table
that `typecase mix fit` reads: shares of what each run learnt, and its losses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from typecase.engine.local import Local
from typecase.engine.protocol import Engine
from typecase.errors import BadRecipe, FingerprintMismatch, NeedsExtra
from typecase.recipe.build import TOKENIZER, Build
from typecase.recipe.progress import Quiet, Reporter
from typecase.recipe.recipe import load_recipe
from typecase.recipe.run import run_stage
from typecase.store.documents import open_documents
from typecase.store.journal.opening import open_set
from typecase.store.manifest import NAME, read_manifest
from typecase.store.timeline.documents import Library
from typecase.store.tokenizer.tokenizer import open_tokenizer
from typecase.train.ablation.plan import Ablation, Arm, read_ablation

if TYPE_CHECKING:
    from typecase.train.ablation.findings import Findings
    from typecase.train.ablation.running import RunResult, Sets


@dataclass(frozen=True, slots=True, eq=False)
class Ablated:
    """What an ablation made: where it lies and what it says; `page` is None without the extra `report`."""

    out: Path
    findings: Findings
    page: Path | None


def ablate(
    path: Path | str,
    out: Path | str,
    *,
    workers: int = 0,
    engine: Engine | None = None,
    reporter: Reporter | None = None,
    finished: Callable[[RunResult], None] | None = None,
) -> Ablated:
    """Runs the ablation file at `path` into the folder `out`; `finished` hears of every run.

    Raises BadRecipe for what is wrong in the file, AlreadyExists and FingerprintMismatch where `out` holds other
    runs, NeedsExtra.
    """
    try:
        import torch  # noqa: F401
    except ImportError:
        raise NeedsExtra("training", "lm") from None
    from typecase.app.ablate.writing import write_all
    from typecase.train.ablation.findings import find
    from typecase.train.ablation.running import run_all

    ablation, out = read_ablation(path), Path(out)
    engine = engine or Local(workers)
    sets = make_sets(ablation, out, engine=engine, reporter=reporter)
    results = run_all(ablation, sets, out, engine, finished=finished)
    sizes = {name: _tokens_of(folder) for name, folder in sets.arms.items()}
    sizes |= {arm.name: sum(sizes[part] for part, _ in arm.mix) for arm in ablation.arms if arm.mix}
    found = find(ablation, results, sizes)
    page = write_all(out, found, results, shares_of(ablation, sets))
    return Ablated(out, found, page)


def make_sets(ablation: Ablation, out: Path, *, engine: Engine, reporter: Reporter | None = None) -> Sets:
    """The token set of every arm, built where the file gives documents or a recipe; the held sets, and one for the curve."""
    from typecase.train.ablation.running import Sets

    reporter = reporter or Quiet()
    named = ablation.tokenizer or _fitted(ablation, out)
    arms = {arm.name: _set_of(arm, named, out, engine, reporter) for arm in ablation.arms if not arm.mix}
    prints = {}
    for name, folder in arms.items():
        if not (folder / TOKENIZER).is_dir():
            raise BadRecipe(f"arm {name}: {folder} has no tokenizer beside it; build it with `typecase build`")
        prints[name] = open_tokenizer(str(folder / TOKENIZER)).fingerprint
    if len(set(prints.values())) > 1:
        raise FingerprintMismatch(f"arms have different tokenizers, and their losses cannot be compared: {prints}")
    tokenizer = str(next(iter(arms.values())) / TOKENIZER)
    held = dict(ablation.held)
    first = next(iter(held))
    held["curve"] = _built(held[first], out / "sets" / f"held {first}", tokenizer, engine, reporter)
    return Sets(arms, held, tokenizer)


def _set_of(arm: Arm, tokenizer: str | None, out: Path, engine: Engine, reporter: Reporter) -> Path:
    assert arm.path is not None
    if arm.kind == "tokens":
        return arm.path
    if arm.kind == "recipe":
        artifacts = load_recipe(arm.path).run(out / "sets" / arm.name, engine=engine, reporter=reporter)
        last = [one for one in artifacts if one.manifest.kind == "tokens"]
        if not last:
            raise BadRecipe(f"arm {arm.name}: {arm.path} makes no token set; end it with Build(tokenizer=…)")
        return last[-1].folder
    if tokenizer is None:
        raise BadRecipe(f"arm {arm.name} is documents: say with which `tokenizer` they are built, or the `vocab` of a new one")
    return _built(arm.path, out / "sets" / arm.name, tokenizer, engine, reporter)


def _fitted(ablation: Ablation, out: Path) -> str | None:
    """A tokenizer of `vocab` tokens, learnt from the documents of the base; None where the file does not ask for one."""
    if not ablation.vocab:
        return None
    from typecase.train.ablation.vocabulary import fit_tokenizer

    base = next(arm for arm in ablation.arms if arm.name == ablation.base)
    if base.kind != "docs" or base.path is None:
        raise BadRecipe(f"a `vocab` is learnt from documents, and the base {base.name} is {base.kind}: name a `tokenizer`")
    texts = (text for table in open_documents(base.path).tables(["text"]) for text in table.column("text").to_pylist())
    return str(fit_tokenizer(texts, ablation.vocab, out / "tokenizer"))


def _built(path: Path, out: Path, tokenizer: str, engine: Engine, reporter: Reporter) -> Path:
    """`path`, or where it holds documents a token set of them."""
    if not (path / NAME).is_file() or read_manifest(path).kind != "docs":
        return path
    return run_stage(Build(tokenizer=tokenizer), {"docs": path}, out, engine=engine, reporter=reporter).folder


def _tokens_of(folder: Path) -> int:
    with open_set(folder) as store:
        return int(store.num_tokens)


def shares_of(ablation: Ablation, sets: Sets) -> dict[str, dict[str, float]]:
    """For every arm the share of each domain in what it learns: the arms that are mixed, or else the sources of its set.

    Empty where neither is known of every arm; an arm that is no mix and no part of one is left out.
    """
    parts = ablation.mixed
    if parts:
        found = {arm.name: dict(arm.mix) for arm in ablation.arms if arm.mix}
        found |= {name: {name: 1.0} for name in parts}
        return {
            arm.name: {part: found[arm.name].get(part, 0.0) for part in parts} for arm in ablation.arms if arm.name in found
        }
    shares = {name: _sources(folder) for name, folder in sets.arms.items()}
    names = sorted({source for one in shares.values() for source in one})
    if not all(shares.values()) or len(names) < 2:
        return {}
    return {arm: {name: one.get(name, 0.0) for name in names} for arm, one in shares.items()}


def _sources(folder: Path) -> Mapping[str, float]:
    with open_set(folder) as store:
        library = Library(0, store)
        if library.provenance is None:
            return {}
        table = library.columns(["source", "tokens"])
    tokens = table.column("tokens").to_numpy().astype(np.float64)
    sources = np.array([name or "" for name in table.column("source").to_pylist()], object)
    return {str(name): float(tokens[sources == name].sum() / tokens.sum()) for name in sorted(set(sources.tolist()))}
