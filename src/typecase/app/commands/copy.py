"""The command copy: artifacts to an object store and back."""

from __future__ import annotations

from pathlib import Path

import click

from typecase.app.options import answer, json_option
from typecase.app.places import artifact_folder
from typecase.app.printing import size
from typecase.errors import FixInput
from typecase.store.urls import get, is_url, put


@click.command(name="copy")
@click.argument("source")
@click.argument("target")
@json_option
def copy_command(source: str, target: str, as_json: bool) -> None:
    """Copy an artifact from SOURCE to TARGET, one of which is a URL: s3://bucket/docs/web.

    It is there whole or not at all: hashes are checked before a folder appears, and at a URL the manifest comes last. What was
    interrupted goes on with the file it stopped in. The scheme needs its library: s3fs for s3://, gcsfs for gs://.
    """
    if is_url(source) == is_url(target):
        raise FixInput(f"one of {source!r} and {target!r} must be a URL, and the other a folder")
    manifest = put(artifact_folder(source), target) if is_url(target) else get(source, Path(target))
    total = sum(entry.size_bytes for entry in manifest.files)
    told = {"kind": manifest.kind, "content": manifest.content, "files": len(manifest.files), "bytes": total, "at": target}
    answer(told, [f"{target}  {manifest.kind}, {len(manifest.files)} files, {size(total)}"], as_json)
