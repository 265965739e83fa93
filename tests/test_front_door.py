"""The public list, the floors' names, and what importing costs."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import typecase

SRC = Path(typecase.__file__).parent
DRAWERS = {"utils", "util", "helpers", "common", "misc", "manager", "handler", "base"}


def test_the_list_is_sorted_and_every_name_is_there() -> None:
    assert list(typecase.__all__) == sorted(typecase.__all__)
    for name in typecase.__all__:
        assert getattr(typecase, name) is not None
    assert set(typecase.__all__) == set(dir(typecase))


def test_type_checkers_see_the_same_list() -> None:
    tree = ast.parse((SRC / "__init__.py").read_text())
    seen = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("typecase.")
        for alias in node.names
    }
    assert seen == {name: f"typecase.{home}" for name, home in typecase._HOMES.items()}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        _ = typecase.nope


def test_importing_the_package_imports_nothing_heavy() -> None:
    heavy = ("numpy", "pyarrow", "numba", "duckdb", "tokenizers", "tiktoken", "torch", "ray")
    code = f"import sys, typecase; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


TORCH = ("typecase.lm.forward", "typecase.lm.writing", "typecase.train.")
"""Where torch may be imported: the tensors of local models, and the room of training."""


def test_no_other_module_imports_torch_or_does_work_when_imported() -> None:
    names = [
        ".".join(("typecase", *p.relative_to(SRC).with_suffix("").parts)).removesuffix(".__init__") for p in SRC.rglob("*.py")
    ]
    light = sorted(name for name in names if not name.startswith(TORCH))
    code = f"import importlib, sys\nfor n in {light!r}: importlib.import_module(n)\nprint('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_every_file_is_named_for_a_noun_or_a_verb() -> None:
    assert not [p for p in SRC.rglob("*.py") if p.stem in DRAWERS]


def test_errors_survive_a_worker() -> None:
    import pickle

    errors = importlib.import_module("typecase.errors")
    for name in typecase.__all__:
        kind = getattr(typecase, name)
        if isinstance(kind, type) and issubclass(kind, errors.TypecaseError):
            error = kind("torch", "lm") if kind is errors.NeedsExtra else kind("message")
            again = pickle.loads(pickle.dumps(error))
            assert type(again) is kind and str(again) == str(error)
