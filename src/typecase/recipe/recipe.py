"""Recipe: stages in a row, as a short Python file.

    from typecase import Build, Dedup, Ingest, Rate, Recipe, Refine, Select

    recipe = Recipe(
        "web",
        Ingest(inputs=("crawl/*.jsonl.zst",), id_key="url"),
        Rate(),
        Refine(),
        Dedup(),
        Select(budget=Budget(tokens=10_000_000), tokenizer="gpt2.tiktoken", seed=1),
        Build(tokenizer="gpt2.tiktoken"),
    )

Each stage takes what the stages before it gave, by role (docs, ratings, tokens …), the newest first. A stage whose
role nobody gives is refused before anything runs. Every output lies in a folder named by the fingerprint of all that
led to it, so changing the last stage keeps the work of the first ones:

    work/runs/<fingerprint>/<stage>/
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from typecase.engine.local import Local
from typecase.engine.protocol import Engine
from typecase.errors import BadRecipe, NotFound
from typecase.recipe.progress import Reporter
from typecase.recipe.run import Artifact, prepare, run_prepared
from typecase.recipe.stage import Stage


@dataclass(frozen=True, init=False)
class Recipe:
    """A name and its stages, in order."""

    name: str
    stages: tuple[Stage, ...]

    def __init__(self, name: str, *stages: Stage) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "stages", stages)
        _check_roles(self)

    def sampled(self, share: float) -> Recipe:
        """The same recipe over the documents whose id falls into the first `share` (0–1) of all ids."""
        if not 0 < share <= 1:
            raise BadRecipe(f"a sample is a share above 0 and up to 1 (100%), got {share:g}")
        changed = [s.sampled(share) for s in self.stages]
        if changed == list(self.stages) and share < 1:
            raise BadRecipe(f"recipe {self.name!r} has no stage that can sample: it does not begin with Ingest")
        return Recipe(self.name, *changed)

    def run(self, work: Path | str, *, engine: Engine | None = None, reporter: Reporter | None = None) -> list[Artifact]:
        """Runs every stage, or finds it done; see `run_stage` for errors. The artifacts come in the order of the stages."""
        return list(self.iterate(work, engine=engine, reporter=reporter))

    def iterate(
        self, work: Path | str, *, engine: Engine | None = None, reporter: Reporter | None = None
    ) -> Iterator[Artifact]:
        """`run`, one artifact at a time."""
        engine = engine or Local(0)
        given: dict[str, Path] = {}
        for stage in self.stages:
            roles = {role: given[role] for role in (*stage.needs, *stage.wants) if role in given}
            prepared = prepare(stage, roles, engine)
            out = Path(work) / "runs" / prepared.fingerprint[:12] / stage.verb
            artifact = run_prepared(prepared, out, engine=engine, reporter=reporter)
            given[stage.gives] = artifact.folder
            yield artifact


def _check_roles(recipe: Recipe) -> None:
    if not recipe.stages:
        raise BadRecipe(f"recipe {recipe.name!r} has no stages")
    have: set[str] = set()
    for number, stage in enumerate(recipe.stages, 1):
        if not isinstance(stage, Stage):
            raise BadRecipe(f"recipe {recipe.name!r}: item {number} is a {type(stage).__name__}, not a stage")
        missing = [role for role in stage.needs if role not in have]
        if missing:
            before = ", ".join(s.verb for s in recipe.stages[: number - 1]) or "nothing"
            raise BadRecipe(
                f"recipe {recipe.name!r}: stage {number} ({stage.verb}) needs {' and '.join(missing)}, but before it stand"
                f" only: {before}"
            )
        have.add(stage.gives)


def load_recipe(path: Path | str) -> Recipe:
    """The `recipe` that a Python file defines. Raises NotFound or BadRecipe; the file is run, so trust it."""
    path = Path(path)
    if not path.is_file():
        raise NotFound(f"no recipe file {path}")
    module = _module_of(path.resolve())
    recipe = getattr(module, "recipe", None)
    if not isinstance(recipe, Recipe):
        raise BadRecipe(f"{path} defines no `recipe = Recipe(…)`")
    return recipe


def _module_of(path: Path) -> ModuleType:
    """Imports the file under its own name where that name is free, so that worker processes can import it as well:
    a recipe may then define stages of its own."""
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    found = importlib.util.find_spec(path.stem) if path.stem.isidentifier() else None
    if found is not None and found.origin == str(path):
        return importlib.import_module(path.stem)
    name = f"typecase_recipe_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadRecipe(f"{path} is not a Python file; a recipe is one that defines `recipe = Recipe(…)`")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
