"""Identity: which data, order, shape and plan a run is of, so that it is never taken up with others.

    store     the bytes of every token set, or its view                             read once, some gigabytes a second
    order     the framework's order and schedule, with all their parameters
    packing   what the first and the last step read: sequences, spans, and the rules at the borders of documents
    shape     of the model            plan  what of it decides the weights            start  the weights that it begins with

Each is 32 hexadecimal digits and knows no path. Above BIG_BYTES a `.bin` is known by its manifest's word instead of being read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import xxhash

from typecase.errors import AlreadyExists, CorruptStore, FingerprintMismatch, TypecaseError
from typecase.store.atomic import write_json
from typecase.store.journal.view import EditedTokens
from typecase.store.manifest import digest, read_manifest
from typecase.store.tokens.fingerprint import promised_fingerprint
from typecase.store.tokens.store import TokenStore
from typecase.train.batches import Course
from typecase.train.checkpoint import weights_of
from typecase.train.config import ModelShape, TrainPlan
from typecase.train.model import GPT

NAME = "run.json"
BIG_BYTES = 64 << 30
_WHAT = {
    "store": "other tokens (another set, or one that was edited since)",
    "order": "another order or schedule",
    "packing": "samples that are cut in another way",
    "shape": "another shape of the model",
    "plan": "another plan",
    "start": "other first weights",
}


def fingerprints(course: Course, shape: ModelShape, plan: TrainPlan, start: GPT | None) -> dict[str, str]:
    """What the run is of, by name."""
    timeline = course.timeline
    law = timeline.plan.order or timeline.plan.blend
    return {
        "store": digest([_store(store) for store in timeline.stores]),
        "order": digest([type(law).__name__, _plain(law), _plain(timeline.plan.schedule)]),
        "packing": _packing(course, plan),
        "shape": digest(shape.as_dict()),
        "plan": digest(plan.law()),
        "start": _start(start),
    }


def _store(store: TokenStore) -> str:
    if not isinstance(store, EditedTokens) and store.pair.bin.stat().st_size > BIG_BYTES:
        try:
            return promised_fingerprint(store.pair, read_manifest(store.pair.idx.parent))
        except TypecaseError:
            pass  # no manifest speaks of it: then it is read
    return store.fingerprint()


def _packing(course: Course, plan: TrainPlan) -> str:
    laid, state = course.timeline.laid, xxhash.xxh3_128()
    state.update(orjson.dumps([laid.num_samples, laid.sample_tokens, course.apart, course.anew, course.skips_firsts]))
    for step in sorted({0, plan.steps - 1}):
        reads = laid.reads(course.indices(step))
        packing = reads.packing
        for column in (reads.indices, reads.members, packing.docs, packing.starts, packing.stops, packing.bounds):
            state.update(np.ascontiguousarray(column, np.int64).tobytes())
    return state.hexdigest()


def _start(start: GPT | None) -> str:
    if start is None:
        return ""
    state = xxhash.xxh3_128()
    for name, weight in weights_of(start).items():
        state.update(name.encode())
        state.update(weight.numpy().tobytes())
    return state.hexdigest()


def _plain(law: Any) -> Any:
    """A dataclass as JSON has it, whatever its fields are."""
    values = asdict(law) if is_dataclass(law) and not isinstance(law, type) else law
    return orjson.loads(orjson.dumps(values, default=repr, option=orjson.OPT_SERIALIZE_NUMPY))


def claim(
    run: Path, found: Mapping[str, str], shape: ModelShape, plan: TrainPlan, about: Mapping[str, Any], *, resume: bool
) -> None:
    """Makes the folder `run` that of a run of these fingerprints.

    Raises FingerprintMismatch where it is that of another, AlreadyExists where it is this one and `resume` is not set.
    """
    path = run / NAME
    if not path.is_file():
        if run.is_dir() and any(run.iterdir()):
            raise AlreadyExists(f"{run} holds something that is no training run: choose another folder")
        card = {"fingerprints": dict(found), "shape": shape.as_dict(), "plan": plan.as_dict(), **about}
        write_json(path, card)
        return
    try:
        told = orjson.loads(path.read_bytes())
        there = dict(told["fingerprints"])
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise CorruptStore(f"{path} cannot be read ({error!r}): train into another folder") from None
    other = [name for name in found if there.get(name) != found[name]]
    if other:
        says = "; ".join(_WHAT[name] + _difference(name, told, shape, plan) for name in other)
        raise FingerprintMismatch(
            f"{run} holds another run, with {says}: train into another folder, give what that run was given, or begin from its"
            " weights (--from) in a folder of its own"
        )
    if not resume:
        raise AlreadyExists(f"{run} holds this very run: go on with it (--resume), or choose another folder")


def _difference(name: str, told: Mapping[str, Any], shape: ModelShape, plan: TrainPlan) -> str:
    """Which fields of shape or plan differ, in brackets."""
    if name not in ("shape", "plan"):
        return ""
    now = shape.as_dict() if name == "shape" else plan.law()
    then = told.get(name, {})
    fields = [f"{field} {then.get(field)}, not {value}" for field, value in now.items() if then.get(field) != value]
    return f" ({', '.join(fields)})" if fields else ""
