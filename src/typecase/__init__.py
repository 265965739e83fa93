"""typecase: see, search, edit, rate, refine, select and audit the exact tokens that a model trains on.

    import typecase as tc

    recipe = tc.Recipe("web", tc.Ingest(inputs=("crawl/*.jsonl.zst",)), tc.Rate(), tc.Refine(), tc.Dedup(), …)
    *_, tokens = recipe.run("work", engine=tc.Local(8))
    tc.open(tokens.folder).read(0)

Every public name is in `__all__`; each is imported when it is first used, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOMES = {
    "AlreadyExists": "errors",
    "Artifact": "recipe.run",
    "BadProgram": "errors",
    "BadQuery": "errors",
    "BadRecipe": "errors",
    "Balance": "core.balance",
    "Budget": "core.selection.selection",
    "Build": "recipe.build",
    "Conflict": "errors",
    "CorruptStore": "errors",
    "Damaged": "errors",
    "Dedup": "recipe.dedup",
    "Document": "core.document",
    "DocumentStore": "store.documents",
    "Engine": "engine.protocol",
    "FingerprintMismatch": "errors",
    "FixInput": "errors",
    "Ingest": "recipe.ingest",
    "Local": "engine.local",
    "Manifest": "store.manifest",
    "ModelUnavailable": "errors",
    "NeedsExtra": "errors",
    "NotFound": "errors",
    "Place": "core.document",
    "Policy": "core.selection.selection",
    "Program": "core.program.language",
    "Rate": "recipe.rate",
    "Recipe": "recipe.recipe",
    "Refine": "recipe.refine",
    "Refusal": "core.program.language",
    "SchemaMismatch": "errors",
    "Select": "recipe.select",
    "Span": "core.document",
    "Stage": "recipe.stage",
    "StaleEdit": "errors",
    "TokenStore": "store.tokens.store",
    "Tokenizer": "store.tokenizer.tokenizer",
    "TryAgain": "errors",
    "TypecaseError": "errors",
    "WorkerLost": "errors",
    "doctor": "app.health",
    "export": "app.verbs",
    "fate": "app.verbs",
    "info": "app.verbs",
    "load_recipe": "recipe.recipe",
    "merge": "app.health",
    "open": "app.verbs",
    "open_tokenizer": "store.tokenizer.tokenizer",
    "repair": "app.health",
    "run": "app.verbs",
    "run_stage": "recipe.run",
    "show": "app.verbs",
    "why": "app.verbs",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'typecase' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"typecase.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
