"""Search: counts, positions, what follows, and longest matches in a token set of documentation text.

    python benchmarks/bench_search.py --dir /tmp/typecase-bench            10^7 tokens; indexes made once and kept there
    python benchmarks/bench_search.py --dir /tmp/typecase-bench --quick    10^6 tokens

Peers, in memory maps like ours, warm:

    tokengrams     no documents: its answers must equal ours with `fenced=False`, and its table is our unfenced suffix array
    infini-gram    documents: its answers must equal ours; its table is the suffix array of its own bytes

Both tables are written by this program in the peers' published layouts, since their own builders take minutes; `bench_index`
times building. Queries are n-grams at random places of the text. What follows is asked of infini-gram exactly, without its
default cut at 1,000 hits; it takes a thread for every step, so only a few queries are timed. Unit: microseconds a query,
unless a line says otherwise; a ratio above 1 is in our favour.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter

import numpy as np
from bench_index import natural
from measure import Record, best_of, cost, options, report

from typecase.core.edit.edit import Replacement
from typecase.core.suffix.build import suffix_array
from typecase.engine.local import available_cores
from typecase.recipe.index import Index as IndexStage
from typecase.recipe.run import run_stage
from typecase.store.index.edited import EditedIndex
from typecase.store.index.index import Index, open_index
from typecase.store.journal.opening import open_journal
from typecase.store.tokens.pair import TokenPair
from typecase.store.tokens.writer import TokenSetWriter

SIZES = (1, 2, 3, 4, 5, 8)
NUM_COUNTS, NUM_NEXT, NUM_LONGEST, NUM_THREADED = 2000, 200, 2000, 4
NUM_CHECKED = 10
NUM_EDITS = 10_000
VOCABULARY = 50_257
SEPARATOR = 65_535
END = 50_256


Timed = tuple[Callable[[], object], int]
"""What is run, and over how many queries, hits or tokens its time is spread."""


def made_set(folder: Path, num_tokens: int) -> tuple[Path, np.ndarray, np.ndarray]:
    """The token set, its tokens and the ends of its documents."""
    tokens, ends = natural(folder, num_tokens)
    prefix = folder / f"search_{num_tokens}"
    if not TokenPair.at(prefix).idx.exists():
        with TokenSetWriter(prefix, np.uint16) as writer:
            writer.append(tokens, np.diff(ends, prepend=0))
    return prefix, tokens, ends


def tokengrams_index(prefix: Path, tokens: np.ndarray) -> object | None:
    """tokengrams over the same `.bin`; None when it is not installed."""
    try:
        from tokengrams import MemmapIndex
    except ImportError:
        return None
    table = prefix.with_name(prefix.name + ".tokengrams")
    if not table.exists():
        suffix_array(tokens, threads=available_cores()).astype(np.uint64).tofile(table)
    return MemmapIndex(str(TokenPair.at(prefix).bin), str(table), VOCABULARY)


def infini_gram_index(prefix: Path, tokens: np.ndarray, ends: np.ndarray) -> object | None:
    """infini-gram over the same documents, each behind its separator; None when it is not installed."""
    try:
        from infini_gram.engine import InfiniGramEngine
    except ImportError:
        return None
    folder = prefix.with_name(prefix.name + ".infini")
    if not folder.exists():
        folder.mkdir()
        starts = np.concatenate(([0], ends[:-1]))
        text = np.insert(tokens, starts, SEPARATOR)
        text.tofile(folder / "tokenized.0")
        (2 * (starts + np.arange(len(starts)))).astype(np.uint64).tofile(folder / "offset.0")
        width = int(np.ceil(np.log2(text.nbytes) / 8))
        pointers = 2 * suffix_array(text.byteswap(), threads=available_cores()).astype(np.uint64)
        pointers.view(np.uint8).reshape(-1, 8)[:, :width].tofile(folder / "table.0")
    return InfiniGramEngine(index_dir=str(folder), eos_token_id=END, vocab_size=SEPARATOR, token_dtype="u16")


def drawn(tokens: np.ndarray, size: int, num: int) -> list[list[int]]:
    places = np.random.default_rng(size).integers(0, len(tokens) - size, num)
    return tokens[places[:, None] + np.arange(size)].tolist()


def check(index: Index, grams: object | None, infini: object | None, tokens: np.ndarray) -> None:
    """All three must agree before anything is timed."""
    for size in SIZES:
        for number, query in enumerate(drawn(tokens, size, NUM_CHECKED)):
            if grams is not None:
                assert index.count(query, fenced=False) == grams.count(query), query  # type: ignore[attr-defined]
                assert index.positions(query, fenced=False).tolist() == sorted(grams.positions(query))  # type: ignore[attr-defined]
                dense = index.next(query, fenced=False).dense(VOCABULARY)
                assert np.array_equal(dense, grams.count_next(query)), query  # type: ignore[attr-defined]
            if infini is not None:
                assert index.count(query) == infini.count(query)["count"], query  # type: ignore[attr-defined]
            if infini is not None and number < 2:
                follows = infini.ntd(query, max_support=1 << 40)["result_by_token_id"]  # type: ignore[attr-defined]
                ours = index.next(query)
                theirs = {token: what["cont_cnt"] for token, what in follows.items()}
                theirs.pop(END, None)
                assert dict(zip(ours.ids.tolist(), ours.counts.tolist(), strict=True)) == theirs, query
    if infini is not None:
        given = disturbed(tokens)
        assert index.longest_match(given).tolist() == infini.creativity(given)["rs"]  # type: ignore[attr-defined]


def disturbed(tokens: np.ndarray) -> list[int]:
    """A text that the set holds in stretches of 1 to 60 tokens."""
    rng = np.random.default_rng(5)
    out: list[int] = []
    while len(out) < NUM_LONGEST:
        place = int(rng.integers(0, len(tokens) - 60))
        out += tokens[place : place + int(rng.integers(1, 60))].tolist()
    return out[:NUM_LONGEST]


def against(
    name: str, ours: Timed, peers: dict[str, Timed], rounds: int, *, unit: str = "us", per_second: float = 1e6
) -> Iterator[Record]:
    """Ours and every peer in turn, each as a cost a query."""
    times = best_of([ours[0], *(run for run, _ in peers.values())], rounds)
    for (peer, (_, num)), time in zip(peers.items(), times[1:], strict=True):
        yield cost(f"{name} vs {peer}", times[0] / ours[1] * per_second, time / num * per_second, unit)


def each(function: Callable[[list[int]], object], queries: list[list[int]]) -> Timed:
    return lambda: [function(query) for query in queries], len(queries)


def measure(index: Index, grams: object | None, infini: object | None, tokens: np.ndarray, rounds: int) -> Iterator[Record]:
    found = {name: peer for name, peer in (("tokengrams", grams), ("infini-gram", infini)) if peer is not None}
    for size in SIZES:
        queries = drawn(tokens, size, NUM_COUNTS)
        counts = {name: each(peer.count, queries[:400]) for name, peer in found.items()}  # type: ignore[attr-defined]
        yield from against(f"count, {size} tokens, one by one", each(index.count, queries), counts, rounds)
        batch = (lambda q=queries: index.count_batch(q)), NUM_COUNTS  # type: ignore[misc]
        yield from against(f"count, {size} tokens, batch", batch, counts, rounds)
    for size in SIZES:
        yield from follows(index, grams, infini, drawn(tokens, size, NUM_NEXT), rounds)
    if grams is not None:
        frequent = index.ngrams(1, top=100).ids[::10].tolist()
        hits = int(index.count_batch(frequent).sum())
        listed = {"tokengrams (unsorted)": (each(grams.positions, frequent)[0], hits)}  # type: ignore[attr-defined]
        ours = each(index.positions, frequent)[0], hits
        yield from against("positions, sorted, a hit", ours, listed, rounds, unit="ns", per_second=1e9)
    if infini is not None:
        given = disturbed(tokens)
        creativity = {"infini-gram": ((lambda: infini.creativity(given)), len(given))}  # type: ignore[attr-defined]
        ours = (lambda: index.longest_match(given)), len(given)
        yield from against("longest match, a token", ours, creativity, min(rounds, 2))


def follows(
    index: Index, grams: object | None, infini: object | None, queries: list[list[int]], rounds: int
) -> Iterator[Record]:
    """What follows the queries, one by one and in a batch."""
    name, peers = f"next, {len(queries[0])} tokens", dict[str, Timed]()
    if grams is not None:
        peers["tokengrams"] = each(grams.count_next, queries)  # type: ignore[attr-defined]
    yield from against(f"{name}, one by one", each(index.next, queries), peers, rounds)
    if grams is not None:
        batch = {"tokengrams": ((lambda: grams.batch_count_next(queries)), len(queries))}  # type: ignore[attr-defined]
        yield from against(f"{name}, batch", ((lambda: index.next_batch(queries)), len(queries)), batch, rounds)
    if infini is not None:
        few = queries[:NUM_THREADED]
        threaded = each(lambda q: infini.ntd(q, max_support=1 << 40), few)  # type: ignore[attr-defined]
        yield from against(f"{name}, {NUM_THREADED} queries", each(index.next, few), {"infini-gram": threaded}, 1)


def over_edits(index: Index, prefix: Path, tokens: np.ndarray, rounds: int) -> Iterator[Record]:
    """Ours with 10,000 edits of three tokens in a journal, against ours without: the ratio is wanted above 0.5.

    Queries stand in the text without edits; as many are tokens that an edit wrote, with what stands around them.
    """
    rng = np.random.default_rng(7)
    with tempfile.TemporaryDirectory() as folder, open_journal(prefix, folder=folder, write=True) as journal:
        lengths = journal.store.lengths.astype(np.int64)
        places = np.sort(rng.choice(len(tokens) // 8 - 1, NUM_EDITS, replace=False)) * 8
        sequences = np.searchsorted(np.cumsum(lengths), places, side="right")
        starts = places - (np.cumsum(lengths) - lengths)[sequences]
        fit = starts + 3 <= lengths[sequences]
        new = tokens[rng.integers(0, len(tokens) - 3, NUM_EDITS)[:, None] + np.arange(3)]
        columns = (sequences[fit].tolist(), starts[fit].tolist(), places[fit].tolist(), new[fit])
        journal.record([Replacement(q, s, tokens[p : p + 3], n) for q, s, p, n in zip(*columns, strict=True)])
        view = journal.view()
        begin = perf_counter()
        edited = EditedIndex(index, view)
        opened = perf_counter() - begin
        now = edited.text[:]
        for size in SIZES:
            queries = drawn(tokens, size, NUM_COUNTS // 2) + drawn_at(now, places[fit], size, NUM_COUNTS // 2)
            for query in queries[::400]:
                assert edited.count(query) == len(edited.positions(query)), query
            bare = {"without edits": each(index.count, queries)}
            yield from against(f"count over 10,000 edits, {size} tokens, one by one", each(edited.count, queries), bare, rounds)
            batch = {"without edits": ((lambda q=queries: index.count_batch(q)), NUM_COUNTS)}  # type: ignore[misc]
            ours = (lambda q=queries: edited.count_batch(q)), NUM_COUNTS  # type: ignore[misc]
            yield from against(f"count over 10,000 edits, {size} tokens, batch", ours, batch, rounds)
        few = drawn(tokens, 3, NUM_NEXT)
        bare = {"without edits": each(index.next, few)}
        yield from against("next over 10,000 edits, 3 tokens, one by one", each(edited.next, few), bare, rounds)
        yield cost("opening 10,000 edits vs building the index anew", opened, built_anew(prefix), "s")


def drawn_at(tokens: np.ndarray, places: np.ndarray, size: int, num: int) -> list[list[int]]:
    """Runs of `size` tokens that begin at one of `places`, or up to two tokens behind it."""
    rng = np.random.default_rng(size)
    begins = rng.choice(places[places < len(tokens) - size - 3], num) + rng.integers(0, 3, num)
    return tokens[begins[:, None] + np.arange(size)].tolist()


def built_anew(prefix: Path) -> float:
    with tempfile.TemporaryDirectory() as folder:
        begin = perf_counter()
        run_stage(IndexStage(), {"tokens": prefix}, Path(folder) / "index")
        return perf_counter() - begin


def sizes(index: Index, prefix: Path, grams: object | None, infini: object | None) -> Iterator[Record]:
    """Bytes a token beside the `.bin`."""
    ours = sum(path.stat().st_size for path in index.folder.iterdir()) / index.num_tokens
    if grams is not None:
        theirs = prefix.with_name(prefix.name + ".tokengrams").stat().st_size / index.num_tokens
        yield cost("index vs tokengrams", ours, theirs, "B/token")
    if infini is not None:
        files = prefix.with_name(prefix.name + ".infini").iterdir()
        yield cost(
            "index vs infini-gram, its tokens included",
            ours,
            sum(f.stat().st_size for f in files) / index.num_tokens,
            "B/token",
        )


def main() -> None:
    args = options(__doc__, dir="/tmp/typecase-bench")
    num_tokens = 10**6 if args.quick else 10**7
    prefix, tokens, ends = made_set(Path(args.dir), num_tokens)
    made = run_stage(IndexStage(), {"tokens": prefix}, prefix.with_name(prefix.name + ".index"))
    index = open_index(made.folder)
    grams, infini = tokengrams_index(prefix, tokens), infini_gram_index(prefix, tokens, ends)
    check(index, grams, infini, tokens)
    rounds = 3 if args.quick else 5
    records = [
        *measure(index, grams, infini, tokens, rounds),
        *over_edits(index, prefix, tokens, rounds),
        *sizes(index, prefix, grams, infini),
    ]
    absent = [name for name, peer in (("tokengrams", grams), ("infini-gram", infini)) if peer is None]
    notes = [f"{num_tokens:,} tokens, {len(ends):,} documents", *(f"{name} is not installed: no lines" for name in absent)]
    report(records, as_json=args.json, notes=notes)


if __name__ == "__main__":
    main()
