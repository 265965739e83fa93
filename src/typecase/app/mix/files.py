"""Files of a mix: the plan with what `select` and the frameworks take from it, as JSON or TOML, and reading it back.

    [mix]       unit, budget and, for every group, its weight, tokens, epochs
    [select]    the quota table, the budget and the epochs, as `select --mix` takes them
    [megatron]  data_path = [tokens, path, …]        weights are tokens: Megatron draws samples in their proportion
    [gpt_neox]  train_data_paths, train_data_weights

Weights are whole tokens, so nothing is rounded. The same plan gives the same bytes.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import orjson

from typecase.core.mixing.shares import MixPlan
from typecase.core.selection.quota import Label
from typecase.core.selection.selection import Budget, Policy
from typecase.errors import AlreadyExists, BadQuery, CorruptStore, NotFound
from typecase.store import atomic
from typecase.store.tokens.pair import find_pair


def plan_table(
    plan: MixPlan, *, by: Sequence[str] = (), strata: Sequence[Label] = (), paths: Sequence[str] = ()
) -> dict[str, Any]:
    """The plan as plain values."""
    groups = {
        row.group.name: {
            "available": row.group.tokens,
            "documents": row.group.documents,
            "share": float(row.share),
            "tokens": row.taken,
            "epochs": float(row.epochs),
            "repeated": row.repeated,
            "left": row.left,
        }
        for row in plan.rows
    }
    mix = {"unit": plan.unit, "budget": plan.budget, "taken": plan.taken, "short": plan.short, "warnings": list(plan.warnings)}
    table: dict[str, Any] = {"mix": mix | {"groups": groups}}
    if by:
        table["select"] = select_table(plan, by, strata)
    if paths:
        table |= blends(plan, [str(find_pair(path).prefix) for path in paths])
    return table


def select_table(plan: MixPlan, by: Sequence[str], strata: Sequence[Label]) -> dict[str, Any]:
    """What Policy(quota="table", strata=…, table=…, epochs=…) and Budget(tokens=…) take: rows of a stratum's label and the
    tokens that are taken of it, repeats included. Labels are lists, since a label may hold a slash."""
    rows = [[list(label), row.taken] for label, row in zip(strata, plan.rows, strict=True) if row.taken]
    epochs = max((math.ceil(row.epochs) for row in plan.rows), default=1)
    return {
        "budget": sum(row.taken for row in plan.rows),
        "strata": list(by),
        "quota": "table",
        "spill": "none",
        "epochs": max(1, epochs),
        "table": rows,
    }


def mix_policy(path: Path, policy: Policy) -> tuple[Policy, Budget]:
    """`policy` with the quotas of the plan at `path`, and the plan's budget in tokens.

    Raises CorruptStore for a file that holds no plan of documents; FixInput where the policy cannot be divided so.
    """
    part = read_table(path).get("select")
    if not isinstance(part, dict) or not {"budget", "strata", "table", "spill"} <= set(part):
        raise CorruptStore(f"{path} holds no plan for documents; give a file that `mix plan DOCS` or `mix whatif DOCS` wrote")
    made = replace(
        policy,
        strata=tuple(part["strata"]),
        quota="table",
        table=tuple((tuple(label), float(tokens)) for label, tokens in part["table"]),
        spill=part["spill"],
        epochs=int(part.get("epochs", 1)),
        floors=(),
        caps=(),
    )
    return made, Budget(tokens=int(part["budget"]))


def blends(plan: MixPlan, prefixes: Sequence[str]) -> dict[str, Any]:
    """The mix for training: token sets in the given order, those that give nothing left out."""
    used = [(row.taken, prefix) for row, prefix in zip(plan.rows, prefixes, strict=True) if row.taken]
    return {
        "megatron": {"data_path": [value for pair in used for value in pair]},
        "gpt_neox": {"train_data_paths": [p for _, p in used], "train_data_weights": [float(n) for n, _ in used]},
    }


def write_plan(
    out: Path, plan: MixPlan, *, by: Sequence[str] = (), strata: Sequence[Label] = (), paths: Sequence[str] = ()
) -> None:
    """Writes the plan to `out`, .json or .toml. Raises AlreadyExists when another plan is there."""
    write_table(out, plan_table(plan, by=by, strata=strata, paths=paths))


def write_table(out: Path, table: Mapping[str, Any]) -> None:
    """Writes plain values as the name says. Raises BadQuery for another name, AlreadyExists when other values are there."""
    if out.suffix == ".json":
        data = orjson.dumps(table, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    elif out.suffix == ".toml":
        data = "\n".join(_toml(table)).lstrip("\n").encode() + b"\n"
    else:
        raise BadQuery(f"{out} should be called .json or .toml")
    if out.exists() and out.read_bytes() != data:
        raise AlreadyExists(f"{out} is there with other values; remove it, or write another file")
    atomic.write_bytes(out, data)


def _toml(table: Mapping[str, Any], path: tuple[str, ...] = ()) -> list[str]:
    """The lines of a table: values first, then the tables inside it. JSON's strings, numbers and lists are
    TOML's too; what is None is left out."""
    lines = [f"\n[{'.'.join(path)}]"] if path else []
    inner = [(name, value) for name, value in table.items() if isinstance(value, Mapping)]
    lines += [
        f"{_key(name)} = {orjson.dumps(value).decode()}" for name, value in table.items() if not isinstance(value, Mapping)
    ]
    for name, value in inner:
        lines += _toml(value, (*path, _key(name)))
    return lines


def _key(name: str) -> str:
    return orjson.dumps(name).decode()


def read_table(path: Path) -> dict[str, Any]:
    """A table of plain values. Raises NotFound, CorruptStore for a file that is neither JSON nor TOML."""
    if not path.is_file():
        raise NotFound(f"no file {path}")
    try:
        found: Any = tomllib.loads(path.read_text("utf-8")) if path.suffix == ".toml" else orjson.loads(path.read_bytes())
    except ValueError as error:
        raise CorruptStore(f"{path} cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise CorruptStore(f"{path} holds no table")
    return found


def mix_weights(path: Path) -> dict[str, Fraction]:
    """{group: tokens} of a plan or a proposal: weights in tokens. Raises CorruptStore for another file."""
    groups = _groups(path)
    return {name: Fraction(int(row["tokens"])) for name, row in groups.items()}


def mix_available(path: Path) -> dict[str, int]:
    """{group: tokens there are} of a plan or a proposal."""
    return {name: int(row["available"]) for name, row in _groups(path).items() if row.get("available") is not None}


def _groups(path: Path) -> dict[str, Any]:
    mix = read_table(path).get("mix")
    groups = mix.get("groups") if isinstance(mix, dict) else None
    if not isinstance(groups, dict) or not all(isinstance(row, dict) and "tokens" in row for row in groups.values()):
        raise CorruptStore(f"{path} holds no mix; give a file that mix plan, mix propose or mix whatif wrote")
    return groups
