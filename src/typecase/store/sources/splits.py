"""What one worker reads: a range of lines, some row groups, or a handful of small files.

    a.jsonl   300 MB        [0, 96 MiB) [96, 192) [192, 286)          plain JSON lines, anywhere
    b.parquet 900 MB        row groups 0-6, 7-13, …                   by their uncompressed size
    c.csv, d.jsonl.gz, …    one split a file
    20,000 small .html      256 files, or 32 MB, a split

How the input is cut decides who does the work and nothing else: ids, row numbers and the order of the output do not
depend on it. A change of the sizes here needs a new `Ingest.version`, because an unfinished run resumes by split number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from typecase.store.sources.files import SourceFile
from typecase.store.sources.parquet import group_bytes
from typecase.store.sources.streams import SUFFIXES, compression_of

SPLIT_BYTES = 96 << 20
GROUP_BYTES = 32 << 20
GROUP_FILES = 256
_COMPRESSED = (".parquet", ".pq", *SUFFIXES)
_COMPRESSION = 4
"""A compressed file counts for so many times its size."""


@dataclass(frozen=True, slots=True)
class Split:
    """Files to read, which follow each other in the listing from number `first` on.

    `start`, `stop` bound a part of a single file: bytes of JSON lines, row groups of Parquet; None is the whole.
    """

    index: int
    first: int
    files: tuple[SourceFile, ...]
    start: int = 0
    stop: int | None = None


def cut_splits(files: Sequence[SourceFile]) -> list[Split]:
    """The splits of a listing, in its order."""
    splits: list[Split] = []
    small: list[SourceFile] = []
    weight = 0
    for number, file in enumerate(files):
        parts = list(_parts(file)) if file.size_bytes > SPLIT_BYTES and file.problem is None else []
        own = _weight(file)
        if small and (len(parts) > 1 or weight + own > GROUP_BYTES or len(small) == GROUP_FILES):
            splits.append(Split(len(splits), number - len(small), tuple(small)))
            small, weight = [], 0
        if len(parts) > 1:
            splits += [Split(len(splits) + k, number, (file,), start, stop) for k, (start, stop) in enumerate(parts)]
        else:
            small.append(file)
            weight += own
    if small:
        splits.append(Split(len(splits), len(files) - len(small), tuple(small)))
    return splits


def _weight(file: SourceFile) -> int:
    return file.size_bytes * (_COMPRESSION if file.name.lower().endswith(_COMPRESSED) else 1)


def _parts(file: SourceFile) -> Iterator[tuple[int, int | None]]:
    """Bounds of the parts of a large file; none or one when it is read as a whole."""
    if compression_of(file.path):
        return
    if file.format == "jsonl":
        num_parts = -(-file.size_bytes // SPLIT_BYTES)
        cuts = [file.size_bytes * k // num_parts for k in range(num_parts)]
        yield from zip(cuts, [*cuts[1:], None], strict=True)
    elif file.format == "parquet":
        start, size = 0, 0
        sizes = group_bytes(file.path)
        for group, group_size in enumerate(sizes):
            if group > start and size + group_size > SPLIT_BYTES:
                yield start, group
                start, size = group, 0
            size += group_size
        yield start, max(len(sizes), 1)
