"""Commands that run one stage into a folder: ingest, build."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from typecase.app import verbs
from typecase.app.engines import Workers
from typecase.app.options import answer, out_option, reporter, work_options
from typecase.app.printing import artifact_lines
from typecase.errors import FixInput
from typecase.recipe.build import Build
from typecase.recipe.ingest import PART_BYTES, Ingest
from typecase.recipe.stage import Stage
from typecase.store.sources.files import FORMATS
from typecase.store.sources.read import LIMIT_BYTES

DOCS = click.Path(path_type=Path)


def _made(stage: Stage, given: Mapping[str, Path], out: Path, workers: Workers, quiet: bool, as_json: bool) -> None:
    made = verbs.make(stage, dict(given), out, workers=workers, reporter=reporter(quiet, as_json))
    answer(made, artifact_lines(made), as_json)


@click.command(name="ingest")
@click.argument("inputs", nargs=-1, required=True)
@out_option
@click.option("--format", "format_", type=click.Choice(list(FORMATS)), help="By default each file's extension says it.")
@click.option("--text-key", default="text", show_default=True, help="The field that holds the text; a.b for nested ones.")
@click.option("--id-key", help="The field that names a document.")
@click.option("--source", help="The corpus of all documents; by default the file's name.")
@click.option("--source-key", help="The field whose value is the source.")
@click.option("--main-content", is_flag=True, help="Of HTML pages only what looks like the main content.")
@click.option("--max-document-bytes", default=LIMIT_BYTES, show_default=True, help="A longer row is quarantined.")
@click.option("--part-bytes", default=PART_BYTES, show_default=True, help="Text aimed at for one part.")
@work_options
def ingest_command(
    inputs: tuple[str, ...],
    out: Path,
    format_: str | None,
    text_key: str,
    id_key: str | None,
    source: str | None,
    source_key: str | None,
    main_content: bool,
    max_document_bytes: int,
    part_bytes: int,
    workers: Workers,
    quiet: bool,
    as_json: bool,
) -> None:
    """Read files into a document store.

    INPUTS are files, folders, globs or - for standard input: JSONL, Parquet, CSV, TSV, text, HTML or WARC, plain, .gz or .zst.
    """
    stage = Ingest(
        inputs=inputs,
        format=format_,
        text_key=text_key,
        id_key=id_key,
        source=source,
        source_key=source_key,
        main_content=main_content,
        max_document_bytes=max_document_bytes,
        part_bytes=part_bytes,
    )
    _made(stage, {}, out, workers, quiet, as_json)


@click.command(name="build")
@click.argument("docs", type=DOCS)
@out_option
@click.option("--tokenizer", required=True, help="tokenizer.json, a folder, a .tiktoken file, or package:NAME.")
@click.option("--eod", default="yes", show_default=True, help="yes (the tokenizer's own), no, a token or an id.")
@click.option("--bos", default="no", show_default=True, help="Likewise, before every document.")
@click.option("--order", type=click.Choice(["source", "id"]), default="source", show_default=True)
@click.option("--allow-special", is_flag=True, help="Text that spells a special token becomes that token.")
@work_options
def build_command(
    docs: Path,
    out: Path,
    tokenizer: str,
    eod: str,
    bos: str,
    order: str,
    allow_special: bool,
    workers: Workers,
    quiet: bool,
    as_json: bool,
) -> None:
    """Tokenise DOCS into text_document.bin and .idx, as GPT-NeoX, Megatron-LM and NeMo read them."""
    if order not in ("source", "id"):
        raise FixInput(f"order must be source or id, got {order!r}")
    stage = Build(
        tokenizer=tokenizer,
        eod=_special(eod),
        bos=_special(bos),
        order="source" if order == "source" else "id",
        allow_special=allow_special,
    )
    _made(stage, {"docs": docs}, out, workers, quiet, as_json)


def _special(value: str) -> bool | str | int:
    if value in ("yes", "no"):
        return value == "yes"
    return int(value) if value.isdigit() else value
