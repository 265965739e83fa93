"""Commands that audit tokens: of a tokenizer, of a corpus, of two tokenizers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from typecase.app.audit import auditing
from typecase.app.audit.rows import PATH, chosen_rows, finish, ids_of, pairs, row_options
from typecase.app.commands.audit_bigrams import bigrams_command
from typecase.app.commands.audit_mark import mark_command
from typecase.app.commands.audit_model import (
    diff_command,
    gate_command,
    marginal_command,
    report_command,
    text_command,
    verify_command,
    weights_command,
)
from typecase.app.commands.audit_spectra import spectra_command
from typecase.app.options import json_option, reporter
from typecase.store.audit.files import read_table, select_rows

F = TypeVar("F", bound=Callable[..., Any])


def tokenizer_options(command: F) -> F:
    """--pattern and --special, for rank files that are not known by their hash."""
    command = click.option("--special", multiple=True, help="NAME=ID of a special token of such a file.")(command)
    return click.option("--pattern", help="How a rank file that is not known cuts text: gpt2, cl100k, qwen2, o200k, a regex.")(
        command
    )


@click.group(name="audit")
def audit_command() -> None:
    """Which tokens no text can make, which a corpus never shows, which a run will leave under-trained, or has."""


for _command in (
    weights_command,
    verify_command,
    marginal_command,
    report_command,
    diff_command,
    bigrams_command,
    spectra_command,
    gate_command,
    text_command,
    mark_command,
):
    audit_command.add_command(_command)


@audit_command.command(name="tokenizer")
@click.argument("tokenizer")
@tokenizer_options
@row_options
@json_option
def tokenizer_command(
    tokenizer: str, pattern: str | None, special: tuple[str, ...], out_table: Path | None, where: str | None,
    sort: str | None, top: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Audit TOKENIZER: a tokenizer.json, rank file, SentencePiece .model, tekken.json, .gguf, folder or package:NAME[/FILE]."""
    found = auditing.audit_tokenizer(tokenizer, pattern=pattern, special_tokens=_special(special))
    rows = chosen_rows(found.table, where, sort, top, "reach in ('unreachable', 'unproven')")
    lines = tokenizer_lines(found)
    finish(found.header(), lines, found.table, rows, out_table, where, as_json)


@audit_command.command(name="corpus")
@click.argument("token_sets", nargs=-1, required=True, type=PATH)
@click.option("-o", "--out", required=True, type=PATH, help="Folder of the census, counted once and used again.")
@click.option("--tokenizer", help="Needed where the sets have none of their own.")
@click.option("--planned-tokens", type=int, help="Tokens of the planned run; by default the counted sets, once an epoch.")
@click.option("--epochs", type=float, default=1.0, show_default=True, help="How often the planned run sees them.")
@click.option("--at-risk", type=float, default=10.0, show_default=True, help="Sightings too few to train a token.")
@click.option("--wanted", help="Ids that must be trained, with commas: the suggestion is then to retrain, not to drop.")
@click.option("--workers", default=0, show_default=True, help="Processes; 0 works in this one, on every core.")
@click.option("--quiet", is_flag=True, help="No progress.")
@tokenizer_options
@row_options
@json_option
def corpus_command(
    token_sets: tuple[Path, ...], out: Path, tokenizer: str | None, planned_tokens: int | None, epochs: float,
    at_risk: float, wanted: str | None, workers: int, quiet: bool, pattern: str | None, special: tuple[str, ...],
    out_table: Path | None, where: str | None, sort: str | None, top: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Count every token of TOKEN_SETS and predict, before any training, which will be under-trained."""
    found = auditing.audit_corpus(
        token_sets,
        out,
        tokenizer=tokenizer,
        pattern=pattern,
        special_tokens=_special(special),
        plan=auditing.plan_of(planned_tokens, epochs, at_risk),
        wanted=ids_of(wanted),
        workers=workers,
        reporter=reporter(quiet, as_json),
    )
    rows = chosen_rows(found.table, where, sort, top, "prediction <> 'expected' and kind = 'normal'")
    finish(found.header(), corpus_lines(found), found.table, rows, out_table, where, as_json)


@audit_command.command(name="compare")
@click.argument("a")
@click.argument("b")
@row_options
@json_option
def compare_command(
    a: str, b: str, out_table: Path | None, where: str | None, sort: str | None, top: int | None, as_json: bool
) -> None:
    """Compare two tokenizers token by token, by bytes."""
    found = auditing.audit_compare(a, b)
    named = found.table.append_column("i", found.table.column("i_a"))
    rows = select_rows(named, where=where, sort=sort, top=top).drop_columns(["i"])
    header = {name: getattr(found, name) for name in found.__dataclass_fields__ if name != "table"}
    lines = [
        f"a {found.a}: {found.num_a:,} ids; unreachable {found.groups_a.unreachable:,}, partial {found.groups_a.partial:,}",
        f"b {found.b}: {found.num_b:,} ids; unreachable {found.groups_b.unreachable:,}, partial {found.groups_b.partial:,}",
        f"  shared {found.shared:,} ({found.moved:,} under another id, {found.changed:,} of another category or reach),"
        f" only a {found.only_a:,}, only b {found.only_b:,}",
    ]
    finish(header, lines, found.table, rows, out_table, where, as_json)


@audit_command.command(name="rows")
@click.argument("table", type=PATH)
@row_options
@json_option
def rows_command(
    table: Path, out_table: Path | None, where: str | None, sort: str | None, top: int | None, as_json: bool
) -> None:
    """Show rows of TABLE, a .parquet that any of these commands wrote, or the folder of an `audit report`."""
    found, header = read_table(table / "tokens.parquet" if table.is_dir() else table)
    rows = select_rows(found, where=where, sort=sort, top=top)
    lines = [f"{table}: {rows.num_rows:,} of {found.num_rows:,} rows"]
    finish(header, lines, rows, rows, out_table, where or "true", as_json)


def tokenizer_lines(found: auditing.TokenizerAudit) -> list[str]:
    """The audit of a tokenizer on one screen."""
    g = found.groups
    lines = [
        f"{found.tokenizer}: {found.file_kind}, {found.model}, {found.num_ids:,} ids",
        f"  as reports count   bytes {g.bytes:,}   unreachable {g.unreachable:,}   partial UTF-8 {g.partial:,}"
        f"   special {g.special:,}",
        f"  reach              {pairs(found.reach)}",
    ]
    lines += [f"    {number:>8,}  {reason}" for reason, number in list(found.reasons.items())[:8]]
    lines += [
        f"  kinds              {pairs(found.kinds)}",
        f"  utf-8              {pairs(found.utf8)}",
        f"  scripts            {pairs(dict(list(found.scripts.items())[:8]))}",
        f"  duplicates {found.duplicates:,}   likely scaffolds {found.scaffolds:,}   longest {list(found.lengths)[-1]} bytes",
        f"  suggestions        {pairs(found.suggestions)}",
    ]
    return lines


def corpus_lines(found: auditing.CorpusAudit) -> list[str]:
    """The audit of a corpus on one screen."""
    lines = [
        f"{', '.join(found.token_sets)}: {found.num_tokens:,} tokens, {found.num_documents:,} documents,"
        f" {len(found.sources)} sources -> {', '.join(found.censuses)}",
        f"  {found.tokenizer.tokenizer}: {found.tokenizer.num_ids:,} ids",
        f"  never seen {found.never:,} ({found.never_but_reachable:,} could be)   once {found.once:,}"
        f"   in one document {found.one_document:,}   in the same few documents {found.one_family:,}",
        f"  predicted under-trained: {found.never:,} never, {found.at_risk:,} at most {found.at_risk_limit:g} times,"
        f" in a run that sees each token {found.exposure:g} times; {found.wasted_share:.1%} of the embedding",
        f"  origins            {pairs(found.tokenizer.origins)}",
        f"  suggestions        {pairs(found.tokenizer.suggestions)}",
    ]
    if found.outside:
        lines.append(f"  {found.outside:,} tokens are no ids of this tokenizer: the set was made by another")
    if found.mismatched:
        some = ", ".join(map(str, found.mismatched[:8]))
        lines.append(
            f"  {len(found.mismatched):,} tokens were counted that no text can make ({some}): another tokenizer or version"
        )
    return lines


def _special(given: tuple[str, ...]) -> dict[str, int] | None:
    found: dict[str, int] = {}
    for pair in given:
        name, _, number = pair.rpartition("=")
        if not name or not number.isdigit():
            raise click.BadParameter(f"{pair!r} is no NAME=ID", param_hint="--special")
        found[name] = int(number)
    return found or None
