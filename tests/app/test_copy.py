"""copy: an artifact to a URL and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("fsspec")

from tests.conftest import make_documents
from tests.recipe.test_run import tree
from typecase.app.commands.copy import copy_command
from typecase.errors import FixInput, NotFound

Docs = Callable[..., Path]


def ran(*arguments: str) -> str:
    done = CliRunner().invoke(copy_command, list(arguments), catch_exceptions=False, standalone_mode=False)
    return done.output


def test_there_and_back(docs_artifact: Docs, tmp_path: Path) -> None:
    folder, url, back = docs_artifact(make_documents(["a", "b"]), 2), f"file://{tmp_path}/bucket/docs", tmp_path / "back"
    assert ran(str(folder), url).startswith(f"{url}  docs, 2 files")
    told = json.loads(ran(url, str(back), "--json"))
    assert told["kind"] == "docs" and told["files"] == 2 and told["at"] == str(back)
    assert tree(back) == tree(folder)


def test_what_cannot_be_copied_is_refused(docs_artifact: Docs, tmp_path: Path) -> None:
    folder = str(docs_artifact(make_documents(["a"]), 1))
    for pair in ((folder, str(tmp_path / "x")), ("s3://a/b", "s3://a/c")):
        with pytest.raises(FixInput, match="must be a URL, and the other a folder"):
            CliRunner().invoke(copy_command, pair, catch_exceptions=False, standalone_mode=False)
    with pytest.raises(NotFound):
        CliRunner().invoke(copy_command, (str(tmp_path), "memory://x"), catch_exceptions=False, standalone_mode=False)
