"""Commands that look at what lies on disk: info, show, export, doctor, merge."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from typecase.app import health, verbs
from typecase.app.options import answer, json_option
from typecase.app.printing import balance_lines, examination_lines, info_lines, shown_lines

PATH = click.Path(path_type=Path)


@click.command(name="info")
@click.argument("path", type=PATH)
@json_option
def info_command(path: Path, as_json: bool) -> None:
    """Say what lies at PATH: a token set of any maker, or an artifact."""
    found = verbs.info(path)
    answer(found, info_lines(found), as_json)


# A range such as -3: begins like an option.
@click.command(name="show", context_settings={"ignore_unknown_options": True})
@click.argument("path", type=PATH)
@click.argument("docs")
@click.option("--tokenizer", help="Needed where the set has none of its own.")
@click.option("--tokens", "limit", default=verbs.SHOWN_TOKENS, show_default=True, help="Tokens shown of each document.")
@click.option("--ids", is_flag=True, help="Show the token ids too.")
@json_option
def show_command(path: Path, docs: str, tokenizer: str | None, limit: int, ids: bool, as_json: bool) -> None:
    """Show documents as text and tokens, boundaries marked.

    DOCS are numbers, half-open ranges or doc_ids: 7, 10:20, -3:, 3f2a91, or several with commas.
    """
    shown = verbs.show(path, docs, tokenizer=tokenizer, limit_tokens=limit)
    answer(shown, shown_lines(shown, ids=ids, colour=sys.stdout.isatty()), as_json)


@click.command(name="export")
@click.argument("path", type=PATH)
@click.argument("out", type=PATH)
@click.option("--docs", help="Some documents only, as in `typecase show`.")
@click.option("--what", type=click.Choice(["text", "tokens", "both"]), default="both", show_default=True)
@click.option("--tokenizer", help="Needed for text where the set has none of its own.")
@json_option
def export_command(path: Path, out: Path, docs: str | None, what: Any, tokenizer: str | None, as_json: bool) -> None:
    """Write documents to OUT, in the format of its name.

    .jsonl, .csv (also .gz, .zst), .parquet, or .bin for a token set of the chosen documents.
    """
    made = verbs.export(path, out, picks=docs, what=what, tokenizer=tokenizer)
    tokens = f", {made.tokens:,} tokens" if made.tokens else ""
    answer(made, [f"{made.documents:,} documents{tokens} -> {', '.join(map(str, made.files))}"], as_json)


@click.command(name="doctor")
@click.argument("path", type=PATH)
@click.option("--repair", "out", type=PATH, help="Write the whole documents as a new set into this folder.")
@click.option("--tokenizer", help="Try whether sampled documents survive decode and encode.")
@click.option("--guess", multiple=True, help="A tokenizer that it may be; give several, the best comes first.")
@click.option("--eod", type=int, help="The end-of-document id; guessed when not given.")
@click.option("--quick", is_flag=True, help="Read the index and a sample, not every token.")
@json_option
def doctor_command(
    path: Path, out: Path | None, tokenizer: str | None, guess: tuple[str, ...], eod: int | None, quick: bool, as_json: bool
) -> None:
    """Examine a token set or an artifact. Exits with 4 when something is damaged."""
    if guess:
        shares = health.guess(path, guess)
        answer(shares, [f"{share:>5.0%}  {name}" for name, share in shares.items()], as_json)
        return
    if out is not None:
        made = health.repair(path, out)
        lines = [f"{made.source} -> {made.prefix}", *(f"  {line}" for line in balance_lines(made.balance))]
        answer(made, [*lines, *(f"  {note}" for note in made.notes)], as_json)
        return
    exam = health.doctor(path, tokenizer=tokenizer, eod=eod, quick=quick)
    answer(exam, examination_lines(exam), as_json)
    if not exam.ok:
        sys.exit(4)


@click.command(name="merge")
@click.argument("sources", nargs=-1, required=True, type=PATH)
@click.option("-o", "--out", required=True, type=PATH, help="Folder of the new set.")
@click.option("--promote", is_flag=True, help="Widen sources of different dtypes to the widest.")
@json_option
def merge_command(sources: tuple[Path, ...], out: Path, promote: bool, as_json: bool) -> None:
    """Join token sets, in the given order, into a new one."""
    made = health.merge(sources, out, promote=promote)
    lines = [
        f"{made.num_sources} sets -> {made.prefix}: {made.num_documents:,} documents, {made.num_tokens:,} tokens, {made.dtype}"
    ]
    lines += [f"  {p} had no document index: every sequence is a document" for p in made.without_documents]
    lines += [f"  {p} was widened to {made.dtype}" for p in made.promoted]
    lines += [f"  {p} has no provenance, so the new set has none" for p in made.without_provenance]
    answer(made, lines, as_json)
