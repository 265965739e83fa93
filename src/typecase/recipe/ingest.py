"""Ingest: files of any format become a document store; every row is a document, left out, or quarantined.

    survey   a split (part of a file, or some small files) -> sorted runs of rows in the scratch folder
    decide   how many parts; at which line each split begins
    work     a range of ids out of all runs -> part-k.parquet, quarantine/part-k.parquet, removed/part-k.parquet

The output depends on the names and contents of the files and on the parameters; not on their order on disk, on how the
work was cut, or on who did it. A document has the id of its key, where `id_key` names one, else that of its text and
place. Text is never changed. A row that is no document is quarantined with its place, the reason and its first bytes,
and reading goes on after it.

Price: 100 MB/s of JSON lines on one core, two fifths of it zstd; scratch space of the size of the decompressed input;
0.3 GB of memory a worker (mapped pages of scratch files aside), and a few times the longest document.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import orjson
import pyarrow.parquet as pq

from typecase.engine.protocol import Engine
from typecase.errors import BadRecipe, CorruptStore
from typecase.recipe.ingest_part import Listing, Part, write_part
from typecase.recipe.ingest_runs import KEY_END
from typecase.recipe.ingest_split import spill_split
from typecase.recipe.stage import Given, Report, Stage, Summary
from typecase.store import atomic
from typecase.store.sources.fields import Fields
from typecase.store.sources.files import FORMATS, hash_files, list_files
from typecase.store.sources.read import LIMIT_BYTES, Reading
from typecase.store.sources.splits import Split, cut_splits

PART_BYTES = 64 << 20
"""A part is a task for every stage that follows: small enough to share out, and to lose little when one is interrupted."""
_LISTING = "listing.json"


@dataclass(frozen=True, kw_only=True)
class Ingest(Stage):
    """Reads files into a document store.

    inputs        files, folders (all below them), globs, or "-" for standard input
    format        jsonl, parquet, csv, tsv, text, html or warc; by default each file's extension says it
    text_key      the field that holds the text; "a.b" is the field b of the object a
    id_key        the field that names a document; without one its id comes from its text and place (WARC: its url)
    source        the corpus of all documents; by default the file's name without extensions (its folder, for formats of
                  one document a file)
    source_key    the field whose value is the source instead
    sample        keep the documents whose ids fall into this share (0–1) of all ids
    main_content  of an HTML page only what looks like its main content
    max_document_bytes, part_bytes   a longer document is quarantined; text and metadata aimed at for a part

    Every other field of a row becomes metadata.
    """

    verb: ClassVar[str] = "ingest"
    gives: ClassVar[str] = "docs"
    libraries: ClassVar[tuple[str, ...]] = ("pyarrow", "orjson", "resiliparse")

    inputs: tuple[str, ...]
    format: str | None = None
    text_key: str = "text"
    id_key: str | None = None
    source: str | None = None
    source_key: str | None = None
    sample: float = 1.0
    main_content: bool = False
    max_document_bytes: int = LIMIT_BYTES
    part_bytes: int = PART_BYTES

    def __post_init__(self) -> None:
        given: object = self.inputs
        items = (given,) if isinstance(given, str | Path) else self.inputs
        object.__setattr__(self, "inputs", tuple(map(str, items)))
        if not self.inputs:
            raise BadRecipe('ingest needs inputs: files, folders, globs, or "-" for standard input')
        if self.format is not None and self.format not in FORMATS:
            raise BadRecipe(f"ingest knows no format {self.format!r}; it is one of {', '.join(FORMATS)}")
        if self.source is not None and self.source_key is not None:
            raise BadRecipe("ingest takes source or source_key, not both")
        if not 0 < self.sample <= 1:
            raise BadRecipe(f"a sample is a share above 0 and up to 1 (100%), got {self.sample:g}")
        if self.max_document_bytes < 1 or self.part_bytes < 1:
            raise BadRecipe("max_document_bytes and part_bytes must be at least 1")

    def sampled(self, share: float) -> Self:
        return replace(self, sample=share)

    def identity(self, engine: Engine) -> dict[str, Any]:
        files = list_files(self.inputs, format=self.format)
        listed = [
            {"name": file.name, "bytes": file.size_bytes, "xxh3_128": digest}
            for file, digest in zip(files, hash_files(files, engine), strict=True)
        ]
        return {**super().identity(engine), "inputs": listed}

    def shards(self, given: Given) -> Sequence[Split]:
        return cut_splits(list_files(self.inputs, format=self.format))

    def survey(self, given: Given, shard: Split, scratch: Path) -> Summary:
        fields = Fields(self.text_key, self.id_key, self.source_key)
        reading = Reading(fields, self.max_document_bytes, self.main_content)
        return spill_split(shard, reading, keep_below=self._keep_below, scratch=scratch)

    def decide(self, given: Given, summaries: Sequence[Summary], scratch: Path) -> dict[str, Any]:
        names: list[str] = []
        sources: list[str] = []
        bases: list[int] = []
        lines = [0, -1]  # of the file with this number, so far
        for summary in summaries:
            if summary["first"] != lines[1]:
                lines = [0, summary["first"]]
                names += summary["names"]
                sources += summary["sources"]
            bases.append(lines[0])
            lines[0] += summary["lines"]
        if self.source is not None:
            sources = [self.source] * len(names)
        atomic.write_json(scratch / _LISTING, {"names": names, "sources": sources, "bases": bases})
        size_bytes = sum(summary["size_bytes"] for summary in summaries)
        return {
            "files": len(names),
            "parts": max(1, -(-size_bytes // self.part_bytes)),
            "_rows": sum(summary["rows"] for summary in summaries),
        }

    def tasks(self, given: Given, shards: Sequence[Any], decision: Mapping[str, Any]) -> Sequence[Part]:
        return [Part(index, decision["parts"]) for index in range(decision["parts"])]

    def work(self, given: Given, task: Part, decision: Mapping[str, Any], out: Path, scratch: Path) -> Report:
        listing = Listing(**orjson.loads((scratch / _LISTING).read_bytes()))
        return write_part(task, listing, keep_below=self._keep_below, scratch=scratch, out=out)

    def finish(self, given: Given, decision: Mapping[str, Any], out: Path, scratch: Path) -> Report:
        """Writes nothing; makes sure that every row the survey saw has been written somewhere."""
        written = sum(pq.read_metadata(path).num_rows for path in out.rglob("part-*.parquet"))
        if written != decision["_rows"]:
            raise CorruptStore(f"{decision['_rows']} rows were read but {written} written to {out}; remove it and run again")
        return Report()

    @property
    def _keep_below(self) -> int:
        return KEY_END if self.sample == 1 else int(self.sample * KEY_END)
