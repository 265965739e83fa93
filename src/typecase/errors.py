"""The error tree, named for what the reader does next.

    TypecaseError
    |- FixInput                 exit 2   the request is at fault: change it
    |  |- BadQuery                       a query or id that cannot mean anything
    |  |- BadProgram                     a refining program that cannot be run
    |  |- BadRecipe                      a stage whose needs nothing before it gives
    |  |- NotFound                       a path, document or name that does not exist
    |  `- NeedsExtra                     an optional dependency is missing
    |- Conflict                 exit 3   something else got there first
    |  |- StaleEdit                      the bytes under an edit have changed
    |  |- AlreadyExists                  the output is there, made another way
    |  `- FingerprintMismatch            an artifact belongs to other contents
    |- Damaged                  exit 4   the data on disk is not what it should be
    |  |- CorruptStore                   bytes that no writer can have meant
    |  `- SchemaMismatch                 columns or types other than promised
    `- TryAgain                 exit 5   nothing is wrong with the request
       |- ModelUnavailable               a model server did not answer
       `- WorkerLost                     a worker process died

A message says what was found, where, and what to do next. The command line turns a branch into its exit code and
never shows a traceback for an error of this tree.
"""

from __future__ import annotations

from typing import ClassVar


class TypecaseError(Exception):
    """Root of every error that typecase raises on purpose."""

    exit_code: ClassVar[int] = 1


class FixInput(TypecaseError):
    """The request cannot be served as it stands."""

    exit_code = 2


class BadQuery(FixInput):
    """A query, id, range or parameter that cannot mean anything."""


class BadProgram(FixInput):
    """A refining program that cannot be parsed or run."""


class BadRecipe(FixInput):
    """A recipe or stage that cannot work, found before anything ran."""


class NotFound(FixInput):
    """A path, document, stage or name that does not exist."""


class NeedsExtra(FixInput):
    """An optional dependency is missing; the message names the command that installs it."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs the extra '{extra}': pip install 'typecase[{extra}]'")
        self.what, self.extra = what, extra

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.what, self.extra)


class Conflict(TypecaseError):
    """Something else got there first."""

    exit_code = 3


class StaleEdit(Conflict):
    """The bytes that an edit expects are no longer there."""


class AlreadyExists(Conflict):
    """The output exists and was made another way."""


class FingerprintMismatch(Conflict):
    """An artifact was made for other contents than those at hand."""


class Damaged(TypecaseError):
    """The data on disk is not what it should be."""

    exit_code = 4


class CorruptStore(Damaged):
    """Bytes on disk that no writer can have meant."""


class SchemaMismatch(Damaged):
    """Columns or types other than promised."""


class TryAgain(TypecaseError):
    """Nothing is wrong with the request; the same call may succeed later."""

    exit_code = 5


class ModelUnavailable(TryAgain):
    """A model server did not answer."""


class WorkerLost(TryAgain):
    """A worker process died before it answered."""
