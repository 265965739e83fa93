"""Settings: a training run, said in the words of the framework that runs it.

    # run.toml
    framework = "megatron-core"
    data_path = "work/tokens/web"            # or [0.7, "web", 0.3, "code"]
    seq_length = 4096
    seed = 1234
    split = "969,30,1"
    train_iters = 100_000
    global_batch_size = 512
    micro_batch_size = 4
    data_parallel_size = 16

Names are those of the framework's own configuration: a JSON configuration of GPT-NeoX can be used as it is, and `args` takes a
Megatron command line as text. Paths are relative to the file. Settings that do not touch the data are ignored where the
framework has hundreds of them; a misspelt one that does is found by its likeness.
"""

from __future__ import annotations

import difflib
import shlex
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from typecase.errors import BadQuery, NotFound

FRAMEWORKS = ("gpt-neox", "megatron-core", "nemo", "megatron-bridge", "typecase")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a run by name, the framework that they belong to, and the folder that paths start from."""

    framework: str
    values: Mapping[str, Any]
    folder: Path
    where: str

    def get(self, name: str, kind: type | tuple[type, ...], default: Any = None) -> Any:
        """The setting `name`, or `default`. Raises BadQuery when it is of another kind."""
        value = self.values.get(name)
        if value is None:
            return default
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if float in kinds and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            names = " or ".join(k.__name__ for k in kinds)
            raise BadQuery(f"{self.where}: {name} is {value!r}, expected {names}")
        return value

    def need(self, name: str, kind: type | tuple[type, ...]) -> Any:
        """The setting `name`. Raises BadQuery when it is missing."""
        value = self.get(name, kind)
        if value is None:
            near = difflib.get_close_matches(name, list(self.values), n=1, cutoff=0.75)
            hint = f"; there is {near[0]!r}" if near else ""
            raise BadQuery(f"{self.where}: {self.framework} needs {name}, and it is not given{hint}")
        return value

    def path(self, value: str) -> Path:
        """`value` as a path from the folder of the run file."""
        return (self.folder / value.strip()).resolve() if not Path(value.strip()).is_absolute() else Path(value.strip())


def read_settings(run: Path | str, changes: Mapping[str, Any] | Iterable[str] = ()) -> Settings:
    """The settings of the run file `run` (.toml or .json), or of a token set with everything in `changes`.

    `changes` override, as a mapping or as texts `name=value` with values as in TOML; bare words are strings. Raises NotFound,
    and BadQuery for what cannot be read.
    """
    run = Path(run)
    given = _changes(changes)
    if run.suffix in (".toml", ".json"):
        values, folder = _file(run), run.parent
    else:
        values, folder = {"data_path": str(run.resolve())}, Path.cwd()
    values = _named({**values, **given})
    if "args" in values:
        values = {**_arguments(str(values.pop("args"))), **values}
    framework = str(values.pop("framework", ""))
    if framework not in FRAMEWORKS:
        said = f"is {framework!r}" if framework else "is not given"
        raise BadQuery(f"{run}: framework {said}; name one of {', '.join(FRAMEWORKS)}, in the file or with --set framework=…")
    return Settings(framework, values, folder.resolve(), str(run))


def _file(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise NotFound(f"{path} does not exist; a run file is described in `docs/trace.md`")
    data = path.read_bytes()
    try:
        values = orjson.loads(data) if path.suffix == ".json" else tomllib.loads(data.decode("utf-8"))
    except (ValueError, UnicodeDecodeError) as error:
        raise BadQuery(f"{path} cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise BadQuery(f"{path} holds a {type(values).__name__}, expected names and values")
    return values


def _changes(changes: Mapping[str, Any] | Iterable[str]) -> dict[str, Any]:
    if isinstance(changes, Mapping):
        return dict(changes)
    given = {}
    for change in changes:
        name, equals, text = change.partition("=")
        if not equals or not name.strip():
            raise BadQuery(f"{change!r} is no setting: write name=value")
        given[name.strip()] = value_of(text.strip())
    return given


def value_of(text: str) -> Any:
    """A value as TOML writes it; anything else is a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _named(values: Mapping[str, Any]) -> dict[str, Any]:
    """Names with underscores: GPT-NeoX writes `seq-length` and `seq_length`, Megatron `--seq-length`."""
    return {name.lstrip("-").replace("-", "_"): value for name, value in values.items()}


def _arguments(text: str) -> dict[str, Any]:
    """A Megatron command line as settings: `--name`, `--name value`, `--name value value …`."""
    found: dict[str, list[str]] = {}
    name = None
    for word in shlex.split(text):
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            found[name] = [value] if equals else []
        elif name is not None:
            found[name].append(word)
    return _named({n: _argument(words) for n, words in found.items()})


def _argument(words: list[str]) -> Any:
    values = [_number(word) for word in words]
    return True if not values else values[0] if len(values) == 1 else values


def _number(word: str) -> Any:
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word
