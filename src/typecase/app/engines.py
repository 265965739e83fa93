"""Which engine an option names.

    local             this process, or `--workers` processes of this machine        Local(workers)
    local:4           four processes                                                Local(4)
    ray               a cluster of this machine's cores, or that of RAY_ADDRESS     Ray()
    ray://auto        the Ray cluster that runs on this machine                     Ray("auto")
    ray://head:6379?cpus=2&gpus=0.25&workers=16                                     Ray("head:6379", 16, 2, 0.25)
    slurm?workers=16&folder=/shared/tmp&partition=long&models.gres=gpu:1            Slurm(16, "/shared/tmp", …)

What follows the question mark are the parameters of the engine. Of Slurm, every other name is an option of sbatch
(`partition=long` is `--partition=long`), and with `models.` in front one for stages with a model alone. `--workers`, where it
is given, is the number of workers of any engine that does not name its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl

from typecase.engine.local import Local
from typecase.engine.protocol import Engine
from typecase.errors import FixInput

Workers = int | Engine
"""How work is spread: a number of processes of this machine, 0 for this one, or an engine."""
_FORMS = "local, local:N, ray, ray://auto, ray://HOST:PORT, or slurm"


def engine_of(workers: Workers) -> Engine:
    """The engine that is meant."""
    return Local(workers) if isinstance(workers, int) else workers


def engine_named(spec: str = "local", *, workers: int = 0) -> Engine:
    """The engine that `spec` names; see above. Raises FixInput for what it does not know."""
    name, _, said = spec.partition("?")
    try:
        pairs = parse_qsl(said, keep_blank_values=True, strict_parsing=True) if said else []
    except ValueError:
        raise FixInput(f"--engine {spec}: {said!r} cannot be read; parameters are name=value, with & between them") from None
    given = dict(pairs)
    if len(given) < len(pairs):
        raise FixInput(f"--engine {spec}: a parameter is named twice")
    kind, _, rest = name.partition(":")
    if kind == "local":
        _known(spec, given, ())
        return Local(_whole(spec, "N", rest) if rest or name.endswith(":") else workers)
    if kind == "ray" and ((not rest and name == "ray") or (rest.startswith("//") and len(rest) > 2)):
        return _ray(spec, rest[2:] or None, given, workers)
    if name == "slurm":
        return _slurm(spec, given, workers)
    raise FixInput(f"--engine {spec!r} names no engine: it is {_FORMS}")


def _ray(spec: str, address: str | None, given: Mapping[str, str], workers: int) -> Engine:
    from typecase.engine.ray import Ray

    _known(spec, given, ("workers", "cpus", "gpus"))
    own = _whole(spec, "workers", given["workers"]) if "workers" in given else workers or None
    return Ray(
        address, own, cpus=_number(spec, "cpus", given.get("cpus", "1")), gpus=_number(spec, "gpus", given.get("gpus", "0"))
    )


def _slurm(spec: str, given: Mapping[str, str], workers: int) -> Engine:
    from typecase.engine.slurm import Slurm

    own = _whole(spec, "workers", given["workers"]) if "workers" in given else max(1, workers)
    others = {name: value for name, value in given.items() if name not in ("workers", "folder")}
    models = tuple(_option(name.removeprefix("models."), value) for name, value in others.items() if name.startswith("models."))
    options = tuple(_option(name, value) for name, value in others.items() if not name.startswith("models."))
    return Slurm(own, given.get("folder", "."), options, models)


def _option(name: str, value: str) -> str:
    return f"--{name}={value}" if value else f"--{name}"


def _known(spec: str, given: Mapping[str, str], names: tuple[str, ...]) -> None:
    if unknown := [name for name in given if name not in names]:
        has = f"it has {', '.join(names)}" if names else "it has none"
        raise FixInput(f"--engine {spec}: the engine has no parameter {unknown[0]!r}; {has}")


def _whole(spec: str, name: str, text: str) -> int:
    if not text.isdecimal():
        raise FixInput(f"--engine {spec}: {name} is a whole number, got {text!r}")
    return int(text)


def _number(spec: str, name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise FixInput(f"--engine {spec}: {name} is a number, got {text!r}") from None
