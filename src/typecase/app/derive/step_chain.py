"""StepChain: a folder in which each step is a file made from the one before, and any file may be edited by hand.

    1-tails.jsonl -> 2-causes.jsonl -> 3-clusters.jsonl -> …        state.json: what each was made from, and as what

A file stays as long as what it was made from is the same; an edit of its own counts as what it says, and all behind it is made
again. A file that was edited *and* whose own ground has changed is refused: only a person can say which of the two holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import orjson

from typecase.errors import CorruptStore, StaleEdit
from typecase.store.atomic import write_bytes, write_json

STATE = "state.json"


@dataclass(slots=True)
class StepChain:
    """The steps of one folder, in the order in which `step` is called; `notes` says what became of each."""

    folder: Path
    keep_edits: bool = False
    notes: list[str] = field(default_factory=list)
    _before: str = ""

    def step(self, name: str, ground: Mapping[str, Any], make: Callable[[], bytes]) -> bytes:
        """The bytes of the file `name`: as they are, or made from `ground` and the step before.

        Raises StaleEdit for a file that was edited by hand and whose ground has changed since.
        """
        path = self.folder / name
        made_from = _hash(orjson.dumps([name, ground, self._before], option=orjson.OPT_SORT_KEYS))
        state = self._state()
        known = state.get(name, {})
        data = path.read_bytes() if path.is_file() else None
        edited = data is not None and _hash(data) != known.get("made")
        if data is not None and (known.get("from") == made_from or (edited and self.keep_edits)):
            self.notes.append(f"{name}: {'edited by hand, taken as it is' if edited else 'there already'}")
            state[name] = {"from": made_from, "made": known.get("made", "")}
        elif edited:
            raise StaleEdit(
                f"{path} was edited by hand, and what it was made from has changed since: look through it, then remove it to"
                " have it made again, or keep it as it is with --keep-edits"
            )
        else:
            self.notes.append(f"{name}: {'stale, made again' if data is not None else 'made'}")
            data = make()
            write_bytes(path, data)
            state[name] = {"from": made_from, "made": _hash(data)}
        write_json(self.folder / STATE, state)
        self._before = _hash(data)
        return data

    def _state(self) -> dict[str, Any]:
        path = self.folder / STATE
        if not path.is_file():
            return {}
        try:
            state: dict[str, Any] = orjson.loads(path.read_bytes())
        except orjson.JSONDecodeError as error:
            raise CorruptStore(f"{path} cannot be read ({error}); remove it, and every step is made again") from None
        return state


def _hash(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()
