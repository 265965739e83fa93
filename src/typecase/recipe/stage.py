"""Stage: one step of a recipe, in three beats.

    survey    a shard -> a small summary            (optional)
    decide    all summaries -> one decision         (optional; it goes into the manifest)
    work      a task and the decision -> a part     (tasks are the shards unless the decision says otherwise)

A stage is a frozen dataclass of its parameters: it is its own configuration. It may not look at anything but its
parameters, what it is given, and its shard; that is why any engine and any number of workers give the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Self

from typecase.core.balance import EMPTY, Balance
from typecase.engine.protocol import Engine

Given = Mapping[str, Path]
"""Role -> folder of the artifact that plays it."""

Summary = Mapping[str, Any]
"""What a survey found: a JSON object; larger things lie in scratch files that it names."""


@dataclass(frozen=True, slots=True)
class Report:
    """What one task came to: its files (name relative to the output folder -> rows), balance, and counts that add up.

    `ranges` are the bytes [start, stop) that the task wrote into a file shared with other tasks; `finish` reports the file.
    """

    files: Mapping[str, int] = field(default_factory=dict)
    balance: Balance = EMPTY
    counts: Mapping[str, int] = field(default_factory=dict)
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Base of every stage; subclasses are frozen dataclasses whose fields are their parameters.

    verb      the command and the name of the folder
    version   raised when the same parameters give other bytes
    needs     roles that must be given; `wants` may be given
    gives     the role that the output plays for later stages, and its kind
    """

    verb: ClassVar[str]
    version: ClassVar[int] = 1
    needs: ClassVar[tuple[str, ...]] = ()
    wants: ClassVar[tuple[str, ...]] = ()
    gives: ClassVar[str] = "docs"
    libraries: ClassVar[tuple[str, ...]] = ("pyarrow",)

    def identity(self, engine: Engine) -> dict[str, Any]:
        """The parameters as JSON, files replaced by their contents: the stage's share of the fingerprint.

        Raises FixInput for a parameter that cannot work; called before anything runs.
        """
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self)}

    def content_of(self, role: str, path: Path) -> str | None:
        """Names by content what plays `role` without a manifest, as a foreign token set does; None: it must have one."""
        return None

    def check(self, given: Given) -> None:
        """Raises when the given artifacts cannot serve; called before anything is written."""

    def shards(self, given: Given) -> Sequence[Any]:
        """What is surveyed: small picklable values, in the order that counts."""
        raise NotImplementedError

    def survey(self, given: Given, shard: Any, scratch: Path) -> Summary | None:
        """A shard's summary; scratch files go into `scratch` under names that no other shard uses."""
        return None

    def decide(self, given: Given, summaries: Sequence[Summary], scratch: Path) -> dict[str, Any]:
        """The decision as JSON; runs once, in the calling process."""
        return {}

    def tasks(self, given: Given, shards: Sequence[Any], decision: Mapping[str, Any]) -> Sequence[Any]:
        """What is worked; the shards, unless the stage cuts its output another way."""
        return shards

    def work(self, given: Given, task: Any, decision: Mapping[str, Any], out: Path, scratch: Path) -> Report:
        """Writes the files of one task into `out` (atomically) and reports them."""
        raise NotImplementedError

    def finish(self, given: Given, decision: Mapping[str, Any], out: Path, scratch: Path) -> Report:
        """Files that belong to the whole, written once after all tasks, in the calling process."""
        return Report()

    def sampled(self, share: float) -> Self:
        """The same stage over a share of the documents; only a stage that reads sources changes."""
        return self

    @property
    def holds_model(self) -> bool:
        """Whether `work` keeps a model in its process: an engine then gives it workers that stay, and its share of a GPU."""
        return False

    @property
    def surveys(self) -> bool:
        return type(self).survey is not Stage.survey


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    if hasattr(value, "__dataclass_fields__"):
        return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return value
