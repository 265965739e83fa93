"""Measuring: a recipe run on a sample, with a clock beside every phase of every stage.

    recipe ─► sampled by doc_id ─► run in a folder of its own, anew ─► per stage: documents, bytes, tokens, seconds by phase

Seconds are measured here and never written into an artifact: the same recipe gives the same bytes. Phases that run on all
workers count their seconds times the workers; what is left of a stage's time is its decision and its frame, on one core.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from typecase.core.program.flops import stages_of
from typecase.core.scaling import StageSample
from typecase.engine.local import Local
from typecase.recipe.progress import Phase
from typecase.recipe.recipe import Recipe
from typecase.recipe.run import Artifact
from typecase.store.manifest import Manifest, read_manifest


@dataclass(slots=True)
class Clock:
    """A reporter that tells nobody and remembers how long every phase took, in seconds."""

    seconds: float = 0.0
    size_bytes: int = 0
    documents: int = 0
    _current: tuple[int, int] = field(default=(0, 0))

    @contextmanager
    def phase(self, name: str, *, total: int, done: int) -> Iterator[Phase]:
        """Times one phase; the bytes of the last phase are those of the stage."""
        begun = time.perf_counter()
        counted = _Counted()
        yield counted
        self.seconds += time.perf_counter() - begun
        if counted.documents:
            self.documents, self.size_bytes = counted.documents, counted.size_bytes

    def reset(self) -> None:
        """Begins anew, for the next stage."""
        self.seconds, self.size_bytes, self.documents = 0.0, 0, 0


@dataclass(slots=True)
class _Counted:
    documents: int = 0
    size_bytes: int = 0

    def advance(self, documents: int, size_bytes: int) -> None:
        self.documents += documents
        self.size_bytes += size_bytes


def measure(recipe: Recipe, work: Path, *, workers: int = 0) -> list[StageSample]:
    """Runs `recipe` in the empty folder `work` and says what each stage over documents took, in their order.

    Stages that rate are there too: they keep every document.
    """
    clock, engine = Clock(), Local(workers)
    found: list[StageSample] = []
    begun = time.perf_counter()
    for artifact in recipe.iterate(work, engine=engine, reporter=clock):
        took = time.perf_counter() - begun
        found.append(_sample(artifact, clock, max(0.0, took - clock.seconds), max(1, workers)))
        clock.reset()
        begun = time.perf_counter()
    return found


def _sample(artifact: Artifact, clock: Clock, alone: float, workers: int) -> StageSample:
    manifest = artifact.manifest
    counts, balance = manifest.counts, manifest.balance
    before = _documents(manifest, artifact.folder)
    entered = balance.entered if balance is not None and manifest.kind != "ratings" else before
    kept = counts.get("documents", balance.kept if balance is not None else before)
    bytes_out = counts.get("text_bytes", counts.get("bytes_after", clock.size_bytes))
    if manifest.kind == "ratings":
        kept = entered = before or max(1, clock.documents)
    return StageSample(
        manifest.stage, max(1, entered), kept, clock.size_bytes or bytes_out, bytes_out, counts.get("tokens"),
        clock.seconds * workers, alone, 0.0, _flops(manifest), _token_bytes(manifest),
    )  # fmt: skip


def _documents(manifest: Manifest, folder: Path) -> int:
    """Documents of the parent."""
    parent = next((p for p in manifest.parents if p.role == "docs"), None)
    return 0 if parent is None else int(read_manifest(folder / parent.path).counts.get("documents", 0))


def _token_bytes(manifest: Manifest) -> int | None:
    """Bytes of an id in the token set that was written, by its tokenizer's largest."""
    name = (manifest.decision or {}).get("dtype") if manifest.kind == "tokens" else None
    return None if name is None else int(np.dtype(name).itemsize)


def _flops(manifest: Manifest) -> float:
    """2 N (tokens read + written) of both stages of a refiner (Kaplan et al. 2020); 0 where its size is not told."""
    return sum(one.flops for one in stages_of(manifest.params.get("refiner") or {}, manifest.counts))
