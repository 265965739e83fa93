"""The command `audit bigrams`: pairs of incomplete tokens, how often a corpus holds them, whether a model can repeat them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import pyarrow as pa

from typecase.app.audit.bigrams import BigramAudit, audit_bigrams
from typecase.app.audit.pairs import MOST, PairsAudit, ask_pairs
from typecase.app.audit.rows import PATH, finish, row_options, tell_prompts
from typecase.app.options import json_option
from typecase.store.audit.files import select_rows

_COLUMNS = ("a", "b", "text", "script_a", "script_b", "count", "percentile_a", "percentile_b", "p", "control_p", "by_the_cut")


@click.command(name="bigrams")
@click.argument("tokenizer")
@click.option("--weights", type=PATH, help=".parquet of audit weights: pairs of suspicious tokens come first.")
@click.option("--tokens", help="A token set: how often it holds each pair; those that it never holds come first.")
@click.option("--model", help="Ask this model to repeat them; its tokenizer must be TOKENIZER.")
@click.option("-o", "--out", type=PATH, help="Folder of the answers, with --model; a run that was killed goes on from there.")
@click.option("--most", default=MOST, show_default=True, help="Ask for so many pairs, the first of the list.")
@click.option("--device", default="auto", show_default=True)
@click.option("--dtype", type=click.Choice(["float32", "bfloat16", "float16"]), default="float32", show_default=True)
@click.option("--seed", default=0, show_default=True, help="Of the examples.")
@click.option("--quiet", is_flag=True, help="No progress.")
@row_options
@json_option
def bigrams_command(
    tokenizer: str, weights: Path | None, tokens: str | None, model: str | None, out: Path | None, most: int, device: str,
    dtype: Any, seed: int, quiet: bool, out_table: Path | None, where: str | None, sort: str | None, top: int | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Pairs of incomplete tokens of TOKENIZER that make a text together: few of them were ever seen side by side.

    With --model they are asked for, each beside the same text cut elsewhere. Exit code 3: it cannot repeat ordinary tokens.
    """
    if (model is None) != (out is None):
        raise click.UsageError("--model and -o go together: answers of a model are kept in a folder")
    found = audit_bigrams(tokenizer, weights=weights, tokens=tokens)
    header, lines, whole, void = found.header(), bigram_lines(found), found.table, False
    if model is not None and out is not None:
        told = None if quiet or as_json else tell_prompts
        asked = ask_pairs(
            found, model, out, tokenizer=tokenizer, most=most, device=device, dtype=dtype, seed=seed, progress=told
        )
        header, lines = {**header, "model": asked.header()}, [*lines, *asked_lines(asked)]
        whole, void = asked.table, asked.void
    numbered = whole.append_column("i", pa.array(range(whole.num_rows), pa.int64()))
    rows = select_rows(numbered, where=where, sort=sort, top=top).drop_columns(["i"])
    finish(header, lines, whole, rows, out_table, where, as_json, _COLUMNS)
    if void:
        sys.exit(3)


def bigram_lines(found: BigramAudit) -> list[str]:
    """The pairs of a vocabulary on one screen."""
    lines = [
        f"{found.tokenizer}: {found.fragments:,} parts of characters, {found.possible:,} pairs make a text",
        f"  the encoder makes {found.made:,} of them; {found.mixed:,} join two scripts",
    ]
    if found.never is not None:
        lines.append(f"  {found.never:,} of those stand nowhere in the {found.corpus_tokens:,} tokens of {found.corpus}")
    return lines


def asked_lines(found: PairsAudit) -> list[str]:
    """What a model made of them."""
    b, c = found.broken, found.by_the_cut
    lines = [
        f"{found.model}: {found.asked:,} pairs asked, {found.tokens_read:,} tokens read",
        f"  cannot be repeated {b.hits:,} of {b.trials:,} ({b.low:.1%} to {b.high:.1%});"
        f" {c.hits:,} of {c.trials:,} of these can, cut elsewhere",
    ]
    if found.void:
        lines.append(f"  VOID: it repeats frequent tokens with a chance of {found.can_copy:.3f} only: nothing follows")
    return lines
