"""Annotation set: where the readings and the texts that teach a rater lie.

    read_annotations("seeds", rubric)                       a folder with ratings.jsonl and documents.jsonl (plain, .zst, .gz)
    read_annotations("work/docs/ratings", rubric)           an artifact of `rate`; its documents are found through its manifest
    read_annotations("gpt.jsonl", rubric, docs="work/docs/raw")   readings as JSON lines, documents anywhere

`docs` is a docs artifact, a folder with documents.jsonl, or a JSON-lines file. `source_key` names a field of a document's
meta that says what belongs together, where the source column is too coarse.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from typecase.core.rating import Rubric
from typecase.errors import NotFound, SchemaMismatch
from typecase.lm.rate.annotations import AnnotatedText, Annotations, TextsOf, annotations_of, read_json_lines, texts_of_lines
from typecase.store import atomic, shards
from typecase.store.documents import open_documents
from typecase.store.lineage import artifact_at, parents_of
from typecase.store.manifest import NAME, Parent, digest, read_manifest, relative

RATINGS, DOCUMENTS = "ratings.jsonl", "documents.jsonl"
_ENDINGS = ("", ".zst", ".gz")


def read_annotations(
    path: Path, rubric: Rubric, *, docs: Path | None = None, source_key: str | None = None
) -> tuple[Annotations, tuple[Path, ...]]:
    """The annotation set at `path`, and the files or artifacts that it was read from.

    Raises NotFound where readings or documents are missing, SchemaMismatch for an artifact of another kind or a table
    without the rubric's columns, BadRecipe where nothing is left to learn from.
    """
    if (path / NAME).is_file():
        place = docs if docs is not None else _docs_of(path)
        return annotations_of(_rows(path, rubric), _texts_of(place, source_key), rubric, where=str(path)), (path, place)
    if not path.exists():
        raise NotFound(f"no annotations at {path}: give a folder of seeds, one that `typecase rate` made, or JSON lines")
    ratings = _find(path, RATINGS) if path.is_dir() else path
    place = _place(docs) if docs is not None else _find(path if path.is_dir() else path.parent, DOCUMENTS)
    return annotations_of(read_json_lines(ratings), _texts_of(place, source_key), rubric, where=str(path)), (ratings, place)


def origins_of(places: tuple[Path, ...], *, child: Path) -> tuple[Parent, ...]:
    """Names what an annotation set was read from as parents of the artifact that will lie in `child`; a file by its folder."""
    parents = []
    for role, place in zip(("annotations", "docs"), places, strict=True):
        if (place / NAME).is_file():
            manifest = read_manifest(place)
            parents.append(Parent(role, manifest.kind, relative(place, child), manifest.content))
        else:
            content = digest([[place.name, atomic.content_hash(place)]])
            parents.append(Parent(role, "jsonl", relative(place.parent, child), content))
    return tuple(parents)


def _rows(folder: Path, rubric: Rubric) -> Iterator[dict[str, Any]]:
    """The rows of a ratings artifact."""
    manifest = read_manifest(folder)
    if manifest.kind != "ratings":
        raise SchemaMismatch(f"{folder} holds {manifest.kind}, not ratings; give the folder that `typecase rate` made")
    wanted = ["doc_id", *rubric.columns, *(["domain"] if rubric.domains else []), "status"]
    for entry in manifest.files:
        if "/" in entry.name or not entry.name.startswith("part-"):
            continue
        names = shards.open_shard(folder / entry.name).schema_arrow.names
        if missing := [name for name in wanted if name not in names]:
            raise SchemaMismatch(
                f"{folder} has no column '{missing[0]}': it was rated by another rubric than '{rubric.id}'; name its own"
            )
        for table in shards.read_groups(folder / entry.name, wanted):
            yield from table.to_pylist()


def _docs_of(ratings: Path) -> Path:
    """The documents that a ratings artifact was made from."""
    parent = next((one for one in parents_of(artifact_at(ratings)) if one.role == "docs"), None)
    if parent is None:
        raise NotFound(f"{ratings} does not say which documents it rates: name them as docs")
    if parent.manifest is None:
        raise NotFound(f"the documents that {ratings} rates are gone ({parent.missing}): name them as docs")
    return parent.folder


def _place(docs: Path) -> Path:
    return _find(docs, DOCUMENTS) if docs.is_dir() and not (docs / NAME).is_file() else docs


def _find(folder: Path, name: str) -> Path:
    for ending in _ENDINGS:
        if (folder / (name + ending)).is_file():
            return folder / (name + ending)
    raise NotFound(f"no {name} (plain, .zst or .gz) in {folder}")


def _texts_of(place: Path, source_key: str | None) -> TextsOf:
    if not (place / NAME).is_file():
        return texts_of_lines(place)
    store = open_documents(place)

    def texts(wanted: Collection[str]) -> dict[str, AnnotatedText]:
        ids = pa.array(sorted(wanted), pa.string())
        found: dict[str, AnnotatedText] = {}
        for table in store.tables(["doc_id", "text", "source", "meta"]):
            for row in table.filter(pc.is_in(table.column("doc_id"), value_set=ids)).to_pylist():
                found[row["doc_id"]] = _text_of(row, source_key)
        return found

    return texts


def _text_of(row: Mapping[str, Any], source_key: str | None) -> AnnotatedText:
    meta = orjson.loads(row["meta"])
    source = row["source"] if source_key is None else meta.get(source_key)
    original = meta.get("variant_of")
    return AnnotatedText(
        row["text"], str(source or ""), str(original) if original is not None else None, str(meta.get("damage") or "")
    )
