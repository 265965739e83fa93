"""Commands over a search index: index, and search with its questions."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import click

from typecase.app import verbs
from typecase.app.engines import Workers
from typecase.app.options import answer, json_option, out_option, reporter, work_options
from typecase.app.printing import artifact_lines, table
from typecase.app.search import searching
from typecase.app.search import statistics as search_statistics
from typecase.app.search.printing import found_lines, quoted_lines
from typecase.errors import BadQuery, NotFound
from typecase.recipe.index import Index
from typecase.store.picks import numbers

F = TypeVar("F", bound=Any)
PATH = click.Path(path_type=Path)


def index_options(command: F) -> F:
    """INDEX, --tokenizer, --over and --json of every command over an index."""
    command = click.argument("index", type=PATH)(command)
    command = click.option("--tokenizer", help="Needed for text where the set has none of its own.")(command)
    over = "The token set, where it lies elsewhere; with @ behind it (set@, set@branch, set@17) as its journal says."
    command = click.option("--over", type=PATH, help=over)(command)
    return json_option(command)


@click.command(name="index")
@click.argument("tokens", type=PATH)
@click.option("--memory", default="4GB", show_default=True, help="What one worker may take; bounds the shards.")
@out_option
@work_options
def index_command(tokens: Path, memory: str, out: Path, workers: Workers, quiet: bool, as_json: bool) -> None:
    """Build a search index over a token set of any maker: a suffix array that knows its documents."""
    made = verbs.make(
        Index(memory_bytes=bytes_of(memory)), {"tokens": tokens}, out, workers=workers, reporter=reporter(quiet, as_json)
    )
    answer(made, artifact_lines(made), as_json)


@click.group(name="search")
def search_command() -> None:
    """Ask a search index: where a text stands, what follows it, what is repeated, what a text was copied from.

    INDEX is a folder that `typecase index` made.
    """


@search_command.command(name="find")
@index_options
@click.argument("text", required=False)
@click.option("--ids", help="Token ids instead of a text, with commas.")
@click.option("--where", help="Documents of a condition in SQL: \"source = 'wiki' and overall_score >= 4 and tokens < 2000\".")
@click.option("--run", type=PATH, help="A run file: show every step that sees a hit.")
@click.option("--steps", help="With --run: only what these steps train on, as 100:200.")
@click.option("--ratings", type=PATH, help="Scores of the documents, where the lineage of the set has none.")
@click.option("--with", "others", multiple=True, type=PATH, help="A further index: of a set that was appended.")
@click.option("--limit", default=10, show_default=True, help="Hits shown.")
@click.option("--offset", default=0, show_default=True, help="Hits passed over before.")
@click.option("--sample", type=int, help="So many hits drawn uniformly instead of the first ones.")
@click.option("--seed", default=0, show_default=True)
@click.option("--context", default=20, show_default=True, help="Tokens shown on each side.")
def find_command(
    index: Path, text: str | None, ids: str | None, tokenizer: str | None, over: Path | None, where: str | None,
    run: Path | None, steps: str | None, ratings: Path | None, others: tuple[Path, ...], limit: int, offset: int,
    sample: int | None, seed: int, context: int, as_json: bool,
) -> None:  # fmt: skip
    """How often a text or a run of ids stands in the set, and where: document, place, context, score, step."""
    if (text is None) == (ids is None):
        raise BadQuery("name one thing to look for: a text, or --ids")
    query = text if text is not None else numbers(ids or "")
    with ExitStack() as stack:
        folders = [(index, over), *((further, None) for further in others)]
        opened = [
            stack.enter_context(
                searching.open_search(i, tokens=o, tokenizer=tokenizer, run=run, ratings=ratings, member=number)
            )
            for number, (i, o) in enumerate(folders)
        ]
        search = opened[0]
        found = searching.hits_over(
            opened, query, limit=limit, offset=offset, sample=sample, seed=seed, where=where, steps=steps_of(steps),
            context=context,
        )  # fmt: skip
        plain = text is not None and where is None and steps is None and not others
        variants = search.variants(text) if plain and text is not None else []
        as_text = search.as_text(text) if plain and text is not None and search.byte_level else None
    value = {**asdict(found), "variants": [asdict(v) for v in variants], "as_text": as_text} if as_json else None
    answer(value, [] if as_json else found_lines(found, variants, as_text, colour=sys.stdout.isatty()), as_json)


@search_command.command(name="regex")
@index_options
@click.argument("pattern")
@click.option("--limit", default=10, show_default=True, help="Hits shown.")
def regex_command(index: Path, pattern: str, tokenizer: str | None, over: Path | None, limit: int, as_json: bool) -> None:
    """Documents whose text matches a regular expression, narrowed by the index to those that can."""
    with searching.open_search(index, tokens=over, tokenizer=tokenizer) as search:
        found = search.regex(pattern, limit=limit)
    rows = [(f"document {m.doc}", f"[{m.start}, {m.stop})", m.text.replace("\n", "⏎")) for m in found]
    answer([asdict(m) for m in found], table(rows) or ["no document matches"], as_json)


@search_command.command(name="next")
@index_options
@click.argument("text", required=False, default="")
@click.option("--top", default=10, show_default=True, help="Tokens shown.")
def next_command(index: Path, text: str, tokenizer: str | None, over: Path | None, top: int, as_json: bool) -> None:
    """Which tokens follow a text, and how often; without one, the most frequent tokens."""
    with searching.open_search(index, tokens=over, tokenizer=tokenizer) as search:
        total, rows = search.following(text, top=top)
    shown = [(f"{r.count:,}", f"{r.share:.1%}", str(r.id) if r.id >= 0 else "", repr(r.text) if r.text else "") for r in rows]
    value = {"count": total, "next": [asdict(r) for r in rows]}
    answer(value, [f"{total:,} in the set", *(f"  {line}" for line in table(shown))], as_json)


@search_command.command(name="continue")
@index_options
@click.argument("text")
@click.option("--tokens", "num_tokens", default=20, show_default=True, help="Tokens to add.")
@click.option("--samples", default=3, show_default=True)
@click.option("-n", default=4, show_default=True, help="Tokens that count, with the one drawn: an n-gram model.")
@click.option("--smoothed", is_flag=True, help="Kneser-Ney, with discounts fitted to the set; else as often as it occurs.")
@click.option("--seed", default=0, show_default=True)
def continue_command(
    index: Path, text: str, tokenizer: str | None, over: Path | None, num_tokens: int, samples: int, n: int, smoothed: bool,
    seed: int, as_json: bool,
) -> None:  # fmt: skip
    """Continue a text with tokens drawn from the set."""
    with searching.open_search(index, tokens=over, tokenizer=tokenizer) as search:
        made = search_statistics.continuations(
            search, text, num_tokens=num_tokens, num_samples=samples, n=n, smoothed=smoothed, seed=seed
        )
    answer(made, [repr(one) for one in made], as_json)


@search_command.command(name="rank")
@index_options
@click.argument("texts", nargs=-1, required=True)
@click.option("--all", "together", is_flag=True, help="Count the places where all stand, instead of ranking documents.")
@click.option("--within", type=int, help="With --all: beginning within so many tokens; else in the same document.")
@click.option("--estimate", type=int, help="With --all: look at so many hits only, and say how far off that may be.")
@click.option("--limit", default=10, show_default=True)
@click.option("--seed", default=0, show_default=True)
def rank_command(
    index: Path, texts: tuple[str, ...], tokenizer: str | None, over: Path | None, together: bool, within: int | None,
    estimate: int | None, limit: int, seed: int, as_json: bool,
) -> None:  # fmt: skip
    """Documents by how many of the texts they hold. `one|other` is a text or the other."""
    if not together and (within is not None or estimate is not None):
        raise BadQuery("--within and --estimate belong to --all")
    with searching.open_search(index, tokens=over, tokenizer=tokenizer) as search:
        if together:
            found = search_statistics.together(search, texts, within=within, estimate=estimate, seed=seed, limit=limit)
            off = "" if found.exact else f" ± {found.standard_error:,.0f} (estimated from {found.looked_at:,} hits)"
            lines = [f"{found.count:,.0f}{off} places with all"]
            lines += [f"  document {d.doc}  {d.doc_id or ''}  {d.source or ''}".rstrip() for d in found.documents]
            answer(found, lines, as_json)
            return
        ranked = search_statistics.ranked(search, texts, limit=limit)
    rows = [
        (f"{r.clauses} of {len(texts)}", f"{r.hits:,} hits", f"document {r.document.doc}", r.document.doc_id or "",
         r.document.source or "") for r in ranked
    ]  # fmt: skip
    answer([asdict(r) for r in ranked], table(rows) or ["no document holds any"], as_json)


@search_command.command(name="attribute")
@index_options
@click.argument("file", type=click.File("r", encoding="utf-8"))
@click.option("--min-tokens", default=6, show_default=True, help="The shortest stretch.")
@click.option("--max-count", type=int, help="Leave out stretches that are more frequent.")
@click.option("--documents", default=3, show_default=True, help="Documents named for each.")
def attribute_command(
    index: Path, file: Any, tokenizer: str | None, over: Path | None, min_tokens: int, max_count: int | None, documents: int,
    as_json: bool,
) -> None:  # fmt: skip
    """Which stretches of a text (FILE, or - for standard input) stand verbatim in the set, and in which documents."""
    with searching.open_search(index, tokens=over, tokenizer=tokenizer) as search:
        text = file.read()
        found = search.attribute(text, min_len=min_tokens, max_count=max_count, documents=documents)
        total = len(search.ids_of(text))
    answer([asdict(q) for q in found], quoted_lines(found, total), as_json)


@search_command.command(name="ngrams")
@index_options
@click.option("-n", required=True, type=int, help="Tokens of an n-gram.")
@click.option("--top", type=int, help="The most frequent ones.")
@click.option("--at-least", type=int, help="All that occur so often.")
def ngrams_command(
    index: Path, tokenizer: str | None, over: Path | None, n: int, top: int | None, at_least: int | None, as_json: bool
) -> None:
    """The most frequent n-grams, or all above a threshold."""
    if (top is None) == (at_least is None):
        raise BadQuery("give one of --top and --at-least")
    with searching.open_search(index, tokens=over, tokenizer=tokenizer) as search:
        rows = search_statistics.ngrams(search, n, top=top, at_least=at_least)
    lines = table([(f"{r.count:,}", " ".join(map(str, r.ids)), repr(r.text)) for r in rows]) or ["no n-gram is so frequent"]
    answer([asdict(r) for r in rows], lines, as_json)


@search_command.command(name="duplicates")
@index_options
@click.option("--min-tokens", default=50, show_default=True, help="The shortest stretch that counts.")
@click.option("--limit", default=20, show_default=True, help="Stretches shown; --json gives all.")
def duplicates_command(
    index: Path, tokenizer: str | None, over: Path | None, min_tokens: int, limit: int, as_json: bool
) -> None:
    """Stretches of the set that stand in it more than once, with their documents."""
    with searching.open_search(index, tokens=over, tokenizer=tokenizer) as search:
        found = search_statistics.duplicates(search, min_tokens, limit=None if as_json else limit)
    lines = [f"{found.stretches:,} stretches, {found.tokens:,} tokens ({found.share:.1%} of the set)"]
    lines += [f"  {line}" for line in table([(f"document {d.doc}", f"[{d.start:,}, {d.stop:,})", d.text) for d in found.shown])]
    answer(asdict(found), lines, as_json)


@search_command.command(name="contamination")
@index_options
@click.argument("file", type=PATH)
@click.option("-n", default=13, show_default=True, help="Tokens of an n-gram.")
@click.option(
    "--key", default="text", show_default=True, help="The key of the text in a .jsonl file; a .txt file has one a line."
)
@click.option("--limit", default=20, show_default=True, help="Texts shown; --json gives all.")
def contamination_command(
    index: Path, file: Path, tokenizer: str | None, over: Path | None, n: int, key: str, limit: int, as_json: bool
) -> None:
    """Of every text of an evaluation file, the share of its n-grams that stand in the set."""
    if not file.is_file():
        raise NotFound(f"{file} does not exist")
    with searching.open_search(index, tokens=over, tokenizer=tokenizer) as search:
        rows = search_statistics.contamination(search, file, n, key=key)
    held = [r for r in rows if r.share is not None and r.share > 0]
    short = sum(r.share is None for r in rows)
    lines = [f"{len(rows):,} texts: {len(held):,} share a {n}-gram with the set, {short:,} are shorter than {n} tokens"]
    worst = sorted(held, key=lambda r: (-(r.share or 0), r.row))[:limit]
    lines += [f"  {line}" for line in table([(f"{r.share or 0:.1%}", f"row {r.row}", r.text[:80]) for r in worst])]
    answer([asdict(r) for r in rows], lines, as_json)


def steps_of(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    first, colon, last = text.partition(":")
    if not first.isdigit() or (colon and not last.isdigit()):
        raise BadQuery(f"{text!r} is no range of steps: write 100 or 100:200")
    return (int(first), int(last)) if colon else (int(first), int(first) + 1)


def bytes_of(text: str) -> int:
    """4GB, 500MB, 2000000 -> bytes. Raises BadQuery."""
    units = {"GB": 10**9, "MB": 10**6, "KB": 10**3, "B": 1, "": 1}
    digits = text.upper().rstrip("GMKB ")
    unit = text.upper()[len(digits) :].strip()
    try:
        return int(float(digits) * units[unit])
    except (ValueError, KeyError) as error:
        raise BadQuery(f"{text!r} is no amount of memory: write 4GB or 500MB") from error
