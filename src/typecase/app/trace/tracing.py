"""Verbs over a training run: what a step saw, when something was seen, what a run will see, and samples of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from typecase.app.search.searching import open_search
from typecase.app.verbs import tokenizer_for
from typecase.core.order.order import Split
from typecase.errors import BadQuery
from typecase.store import exports
from typecase.store.exports import Exported, What
from typecase.store.orders.descriptions import Description
from typecase.store.picks import picked
from typecase.store.timeline.indexes import Checked, FoundIndex, checked, find_indexes, read_indexes, write_indexes
from typecase.store.timeline.policies import Policy, chosen_by
from typecase.store.timeline.report import Comparison, RunReport, compare, report
from typecase.store.timeline.samples import Sample, Samples
from typecase.store.timeline.timeline import Sighting, Timeline, lay, open_timeline
from typecase.store.tokenizer.tokenizer import Tokenizer
from typecase.store.tokens.scan import find_tokens
from typecase.store.tokens.writer import TokenSetWriter

Changes = Mapping[str, Any] | Sequence[str]
_MOST_HITS = 100_000


@dataclass(frozen=True, slots=True)
class ShownSample:
    """A sample with its text, where a tokenizer is known: one for each of its pieces, empty beyond the tokens asked for."""

    sample: Sample
    texts: tuple[str, ...] | None

    @property
    def text(self) -> str | None:
        return "".join(self.texts) if self.texts is not None else None


@dataclass(frozen=True, slots=True)
class Traced:
    """Where something is trained: the places, and how much of the set was looked at to find them."""

    asked: str
    hits: int
    sightings: tuple[Sighting, ...]
    note: str = ""


def trace_at(
    run: Timeline | Path | str,
    step: int,
    *,
    rank: int | None = None,
    split: Split = "train",
    changes: Changes = (),
    tokenizer: str | None = None,
    limit: int | None = None,
) -> list[ShownSample]:
    """The samples that `step` (0-based) of a run reads, all or those of one data-parallel rank, in the order of the loader.

    The text is that of the first `limit` tokens of each.
    Raises BadQuery for a step or rank that the run has not.
    """
    with _opened(run, split, changes) as timeline:
        return list(shown(timeline, timeline.at(step, rank=rank), tokenizer, limit=limit))


def trace_when(
    run: Timeline | Path | str,
    *,
    doc: str | None = None,
    text: str | None = None,
    tokens: Sequence[int] | None = None,
    member: int = 0,
    index: Path | str | None = None,
    split: Split = "train",
    changes: Changes = (),
    tokenizer: str | None = None,
) -> Traced:
    """Every step, sample, position and epoch that sees a document, a text, or a run of token ids.

    `doc` is a number or the first digits of a doc_id of token set `member`. A text is encoded without special tokens, as it
    stands; it is looked for in every token set by reading it, or in one by its search `index`. Raises BadQuery when not exactly
    one of the three is given.
    """
    if sum(x is not None for x in (doc, text, tokens)) != 1:
        raise BadQuery("name one thing to look for: a document, a text, or token ids")
    with _opened(run, split, changes) as timeline:
        if doc is not None:
            if not 0 <= member < len(timeline.libraries):
                raise BadQuery(f"there is no token set {member}: the run has {len(timeline.libraries)}, numbered from 0")
            library = timeline.libraries[member]
            numbers = picked(doc, library.store.num_documents, library.provenance)
            found = [s for d in numbers for s in timeline.when_document(member, int(d))]
            return Traced(doc, len(numbers), tuple(found))
        if index is not None:
            return _when_indexed(timeline, index, text, tokens, tokenizer)
        found, hits = [], 0
        for number, library in enumerate(timeline.libraries):
            ids = tokens if tokens is not None else _encoded(library.store.pair.bin.parent, tokenizer, str(text))
            sequences, starts = find_tokens(library.store, ids, limit=_MOST_HITS)
            hits += len(starts)
            if len(starts):
                found += timeline.when(sequences, starts, starts + len(ids), member=number)
        note = f"only the first {_MOST_HITS:,} hits of a token set were followed" if hits >= _MOST_HITS else ""
        if text is not None and not hits and not text.startswith(" "):
            note = _with_blank(timeline, tokenizer, text)
        return Traced(text if text is not None else f"{len(tokens or ())} ids", hits, tuple(found), note)


def trace_plan(
    run: Timeline | Path | str, *, split: Split = "train", changes: Changes = (), by: Sequence[str] = ("source", "domain")
) -> RunReport:
    """What a run trains on, without training: epochs, repeats, waste, shares. See `store.timeline.report`."""
    with _opened(run, split, changes) as timeline:
        return report(timeline, by=by)


def trace_compare(
    old: Path | str,
    new: Path | str,
    *,
    step: int,
    split: Split = "train",
    allow_changed_order: bool = False,
    changes: Changes = (),
) -> Comparison:
    """What the run `new` changes for one that followed `old` up to `step`; Conflict when it silently changes the order."""
    with _opened(old, split, ()) as before, _opened(new, split, changes) as after:
        return compare(before, after, step=step, allow_changed_order=allow_changed_order)


def order_list(path: Path | str) -> list[FoundIndex]:
    """The index files in a folder, a cache, or beside a token set: of GPT-NeoX and its kin, and of Megatron-Core."""
    return find_indexes(Path(path))


def order_check(run: Path | str, *, indexes: Path | None = None, split: Split = "train", changes: Changes = ()) -> Checked:
    """The index files of a run, in `indexes` or where its framework keeps them, against its token sets and settings."""
    with open_timeline(run, changes=changes, split=split) as timeline:
        read = read_indexes(timeline.plan, timeline.stores, indexes)
        built = lay(timeline.plan, timeline.stores)
        return checked(timeline.plan, timeline.stores, read, built, str(indexes or "the framework's own place"))


def order_write(
    run: Path | str,
    folder: Path | str,
    *,
    framework: str | None = None,
    tokenizer: Mapping[str, Any] | Path | None = None,
    paths: Sequence[str] = (),
    split: Split = "train",
    changes: Changes = (),
) -> tuple[Path, ...]:
    """Writes the order of a run as index files that its framework starts from; `framework` chooses for a keyed order.

    `tokenizer` is what Megatron's tokenizer says of itself, or the description.txt of a run with the same one; `paths` are the
    data paths as Megatron will be given them.
    """
    if isinstance(tokenizer, Path):
        tokenizer = Description.read(tokenizer).values.get("tokenizer")
    with open_timeline(run, changes=changes, split=split) as timeline:
        as_framework = framework or timeline.plan.framework
        if as_framework == "typecase":
            raise BadQuery(
                "a keyed order needs no index files; name the framework that is to follow it: gpt-neox, megatron-core"
            )
        return write_indexes(
            timeline.plan,
            timeline.stores,
            timeline.laid,
            Path(folder),
            framework=as_framework,
            tokenizer=tokenizer,
            paths=paths,
        )


def sample(
    run: Timeline | Path | str,
    *,
    indices: npt.ArrayLike | None = None,
    steps: npt.ArrayLike | None = None,
    policy: str | Policy | None = None,
    seed: int = 0,
    split: Split = "train",
    changes: Changes = (),
) -> Iterator[Sample]:
    """Samples of a run by training index, by step, or by a policy, one after another in bounded memory."""
    with _opened(run, split, changes) as timeline:
        for batch in batches(timeline, indices=indices, steps=steps, policy=policy, seed=seed):
            yield from batch


def batches(
    timeline: Timeline,
    *,
    indices: npt.ArrayLike | None = None,
    steps: npt.ArrayLike | None = None,
    policy: str | Policy | None = None,
    seed: int = 0,
) -> Iterator[Samples]:
    """The chosen samples, a few million tokens at a time, each with the seat where it is first trained."""
    if sum(x is not None for x in (indices, steps, policy)) != 1:
        raise BadQuery("choose samples by one of indices, steps and policy")
    if steps is not None:
        for step in np.asarray(steps, np.int64).reshape(-1).tolist():
            yield timeline.at(step)
        return
    wanted = chosen_by(timeline, policy, seed=seed) if policy is not None else np.asarray(indices, np.int64).reshape(-1)
    for batch in timeline.batches(wanted):
        seats = [seats[0] if seats else None for seats in timeline.seats(batch.reads.indices)]
        yield Samples(batch.reads, batch.tokens, batch.offsets, batch.num_tokens, batch.libraries, tuple(seats))


def export_samples(
    timeline: Timeline, chosen: Iterator[Samples], out: Path | str, *, what: What = "both", tokenizer: str | None = None
) -> Exported:
    """Writes samples to a new file: ids, steps, documents and offsets, with tokens, text or both; `.bin` writes a token set
    with a sequence a sample, padding left out. Formats as in `store.exports`."""
    out = Path(out)
    if exports.format_of(out) == ".bin":
        return _export_bin(timeline, chosen, out)
    reader = _reader(timeline, tokenizer) if what != "tokens" else None
    if what == "both" and reader is None:
        raise BadQuery("text needs a tokenizer, and this set has none recorded: name one, or export tokens alone")
    count = tokens = 0

    def tables() -> Iterator[pa.Table]:
        nonlocal count, tokens
        for batch in chosen:
            rows = []
            for one in batch:
                text = reader.decode(one.tokens.tolist()) if reader is not None else None
                row = dict(one.as_dict(text))
                if what == "text":
                    del row["tokens"]
                row["documents"] = [{**d, "scores": orjson.dumps(d["scores"]).decode()} for d in row["documents"]]
                rows.append(row)
                tokens += len(one.tokens)
            count += len(rows)
            yield pa.Table.from_pylist(rows)

    exports.export_rows(tables(), out)
    return Exported((out,), count, tokens)


def _export_bin(timeline: Timeline, chosen: Iterator[Samples], out: Path) -> Exported:
    prefix = out.with_suffix("") if out.suffix in (".bin", ".idx") else out
    count = 0
    with TokenSetWriter(prefix, timeline.stores[0].dtype) as writer:
        for batch in chosen:
            lengths = np.diff(batch.offsets)
            writer.append(batch.tokens, lengths, per_document=np.ones(len(lengths), np.int64))
            count += len(lengths)
    files = (prefix.with_name(prefix.name + ".bin"), prefix.with_name(prefix.name + ".idx"))
    return Exported(files, count, writer.num_tokens)


def shown(timeline: Timeline, samples: Samples, tokenizer: str | None, *, limit: int | None = None) -> Iterator[ShownSample]:
    """Samples with the text of each piece, of their first `limit` tokens."""
    reader = _reader(timeline, tokenizer)
    for one in samples:
        tokens = one.tokens[:limit]
        cuts = [tokens[p.at : p.at + p.stop - p.start] for p in one.pieces]
        yield ShownSample(one, tuple(reader.decode(cut) for cut in cuts) if reader is not None else None)


def _reader(timeline: Timeline, tokenizer: str | None) -> Tokenizer | None:
    return tokenizer_for(timeline.stores[0].pair.bin.parent, tokenizer)


def _encoded(folder: Path, named: str | None, text: str) -> list[int]:
    reader = tokenizer_for(folder, named)
    if reader is None:
        raise BadQuery(f"{folder} has no tokenizer recorded: name one to look for a text, or give token ids")
    ids: list[int] = list(reader.encode(text))
    if not ids:
        raise BadQuery(f"{text!r} encodes to no token")
    return ids


def _when_indexed(
    timeline: Timeline, index: Path | str, text: str | None, tokens: Sequence[int] | None, tokenizer: str | None
) -> Traced:
    with open_search(index, tokenizer=tokenizer, run=timeline) as search:
        ids = search.ids_of(text if text is not None else tokens or [])
        hits = search.index.count(ids)
        places = search.index.places(search.index.positions(ids, limit=_MOST_HITS))
        seen = [s for one in search.sightings(places.docs, places.offsets, len(ids)) for s in one]
    seen.sort(key=lambda s: (s.seat is None, s.seat.step if s.seat else 0, s.index, s.at))
    note = f"only the first {_MOST_HITS:,} hits were followed" if hits > _MOST_HITS else ""
    return Traced(text if text is not None else f"{len(ids)} ids", hits, tuple(seen), note)


def _with_blank(timeline: Timeline, tokenizer: str | None, text: str) -> str:
    """What to say of a text that is nowhere: within a line, words are tokens with the blank before them."""
    hits = 0
    for library in timeline.libraries:
        ids = _encoded(library.store.pair.bin.parent, tokenizer, " " + text)
        hits += len(find_tokens(library.store, ids, limit=_MOST_HITS)[0])
    return f"with a blank before it: {hits:,} in the set" if hits else ""


@contextmanager
def _opened(run: Timeline | Path | str, split: Split, changes: Changes) -> Iterator[Timeline]:
    """A timeline that was given stays open; one that is opened here is closed here."""
    if isinstance(run, Timeline):
        yield run
        return
    with open_timeline(run, changes=changes, split=split) as timeline:
        yield timeline
