"""Doctor: everything that can be told wrong, odd or noteworthy of a token set, with the first place where.

    index       header, dtype, lengths, pointers, document index        one pass over the .idx
    tokens      ids against dtype, vocabulary and end-of-document id     one pass over the .bin (full)
    manifest    the bytes are those that were written                    one more read (full, where a manifest lies beside)
    tokenizer   ids that come back identical from decode and encode      64 documents, when one is given

Nothing is changed and nothing is raised for damage: what cannot be read is itself a finding. Price of `full`: about 1 GB/s
from the page cache, in bounded memory (one byte a sequence where documents have several).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from typecase.errors import CorruptStore, FingerprintMismatch, NotFound, SchemaMismatch
from typecase.store.manifest import NAME
from typecase.store.tokens.census import EodCount, TokenCensus, take_census
from typecase.store.tokens.damage import Finding, Severity, chunk_of
from typecase.store.tokens.fingerprint import verify
from typecase.store.tokens.pair import TokenPair, find_pair
from typecase.store.tokens.roundtrip import RoundTrip, round_trip
from typecase.store.tokens.salvage import salvage
from typecase.store.tokens.store import TokenStore, open_tokens

_CHUNK = 1 << 18
_TRAP = range(65_500, 65_537)
"""Vocabulary sizes that the frameworks store as int32 and that Megatron-Core, told not to read the header, takes as uint16."""

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE


@dataclass(frozen=True, slots=True)
class Examination:
    """What was found. `ok` is False where opening would refuse, or where ids or bytes are wrong.

    `format`, `dtype` and the counts are of the set as far as it can be read; None and 0 where the index cannot. `census`
    is None without `full`. `round_trip` is a share of documents, None without a tokenizer.
    """

    prefix: Path
    format: str | None = None
    dtype: str | None = None
    num_documents: int = 0
    num_sequences: int = 0
    num_tokens: int = 0
    num_empty_documents: int = 0
    multimodal: bool = False
    census: TokenCensus | None = None
    eod: EodCount | None = None
    round_trip: float | None = None
    findings: tuple[Finding, ...] = field(default=())

    @property
    def ok(self) -> bool:
        return not any(finding.severity is Severity.ERROR for finding in self.findings)


def examine(
    path: Path | str,
    *,
    tokenizer: RoundTrip | None = None,
    vocab_size: int | None = None,
    eod: int | None = None,
    full: bool = True,
) -> Examination:
    """Examines the token set at `path`.

    `eod` is the end-of-document id, guessed when not given. With `full`, every token is read; without, only the index and a
    sample. Raises NotFound when there is no set, and nothing for damage.
    """
    pair = find_pair(path)
    try:
        store = open_tokens(pair.idx, damaged=True)
    except CorruptStore as error:
        return _sorted(Examination(pair.prefix), [Finding("index", ERROR, str(error)), *_salvage_findings(pair), *_stray(pair)])
    with store:
        exam = Examination(
            pair.prefix,
            format=store.layout.header.format,
            dtype=store.dtype.name,
            num_documents=store.num_documents,
            num_sequences=store.num_sequences,
            num_tokens=store.num_tokens,
            multimodal=store.modes is not None,
        )
        found = [*store.facts.findings, *_index_findings(store), *_stray(pair), *_journal_findings(pair)]
        if any(f.code in ("document-index", "negative-length") for f in found):
            return _sorted(exam, found)  # documents cannot be told, so nothing more can
        num_empty, first_empty = _empty_documents(store)
        exam = replace(exam, num_empty_documents=num_empty)
        if num_empty:
            text = f"{num_empty} of {store.num_documents} documents have no tokens"
            found.append(Finding("empty-documents", NOTE, text, first_empty))
        if store.dtype.kind in "iu" and store.modes is None:
            census, eod_count = take_census(store, vocab_size=vocab_size, eod=eod, full=full)
            exam = replace(exam, census=census if full else None, eod=eod_count)
            found += [*_eod_findings(eod_count, asked=eod), *_id_findings(store, census, vocab_size)]
            if tokenizer is not None:
                exam = replace(exam, round_trip=round_trip(store, tokenizer, eod=eod_count.eod))
                found += _round_trip_findings(exam.round_trip)
        if full and (pair.idx.parent / NAME).is_file():
            found += _manifest_findings(pair)
    return _sorted(exam, found)


def _sorted(exam: Examination, found: list[Finding]) -> Examination:
    """Errors first, then warnings, then notes."""
    return replace(exam, findings=tuple(sorted(found, key=lambda f: list(Severity).index(f.severity))))


def _salvage_findings(pair: TokenPair) -> list[Finding]:
    try:
        saved = salvage(pair)
    except CorruptStore:
        return []
    text = "; ".join(saved.notes)
    return [Finding("repairable", NOTE, f"`--repair` can read {saved.layout.num_documents} documents of it: {text}")]


def _stray(pair: TokenPair) -> list[Finding]:
    names = [f".{file.name}.*.tmp" for file in (pair.bin, pair.idx)]
    return [
        Finding("stray-file", WARNING, f"{file} was left by a writer that died; it may be deleted")
        for name in names
        for file in sorted(pair.idx.parent.glob(name))
    ]


def _index_findings(store: TokenStore) -> list[Finding]:
    found = []
    header, layout = store.layout.header, store.layout
    if header.format == "TNTIDX":
        found.append(Finding("legacy", NOTE, "TNTIDX, which only GPT-NeoX and NeMo 1 read; `--repair` writes it as MMIDIDX"))
    if store.dtype.kind == "f":
        other = {6: 7, 7: 6}[header.dtype_code]
        found.append(
            Finding("float", NOTE, f"{store.dtype} under code {header.dtype_code}: some frameworks mean it by code {other}")
        )
    if layout.modes is not None:
        found.append(Finding("multimodal", NOTE, "the index has modes: readers must be told that the set is multimodal"))
    if store.facts.num_empty:
        found.append(Finding("empty-sequences", NOTE, f"{store.facts.num_empty} sequences have no tokens"))
    if not store.facts.contiguous and store.facts.first_error is None:
        found += _gaps(store)
    width = _other_width(store)
    if width:
        text = f"the .bin and the pointers have {width} bytes a token, the header says {store.dtype}: the dtype code is wrong"
        found.append(Finding("wrong-dtype", ERROR, text))
    return found


def _other_width(store: TokenStore) -> int | None:
    """The item size that sizes and pointers agree on, if it is not the header's."""
    total = int(store.lengths.sum(dtype=np.int64))
    width, rest = divmod(store.pair.bin.stat().st_size, total) if total else (0, 1)
    if rest or width == store.dtype.itemsize or width not in (1, 2, 4, 8):
        return None
    lengths, pointers = chunk_of(store.layout, 0, 1 << 16)
    return width if np.array_equal(pointers[1:], np.cumsum(lengths[:-1] * width)) else None


def _gaps(store: TokenStore) -> list[Finding]:
    """Bytes in no sequence and in several, by place; the order of the sequences does not matter."""
    lengths, starts = chunk_of(store.layout, 0, store.num_sequences)
    order = np.lexsort((lengths, starts))
    starts, stops = starts[order], (starts + lengths * store.dtype.itemsize)[order]
    reach = np.concatenate((np.zeros(1, np.int64), np.maximum.accumulate(stops)))[:-1]
    found = []
    for code, severity, sizes, what in (
        ("gap", WARNING, starts - reach, "in no sequence"),
        ("overlap", WARNING, np.minimum(reach, stops) - starts, "in several sequences"),
    ):
        seen = np.flatnonzero(sizes > 0)
        if seen.size:
            k = int(seen[0])
            byte = int(reach[k]) if code == "gap" else int(starts[k])
            total = int(sizes[seen].sum())
            text = f"{total} bytes of the .bin are {what} ({seen.size} places, the first before sequence {order[k]})"
            found.append(Finding(code, severity, text, None, byte))
    return found


def _empty_documents(store: TokenStore) -> tuple[int, int | None]:
    """How many documents have no tokens, and the first."""
    count, first = 0, None
    for start in range(0, store.num_documents, _CHUNK):
        docs = np.arange(start, min(start + _CHUNK, store.num_documents))
        empty = store.document_lengths(docs) == 0
        if first is None and empty.any():
            first = start + int(np.argmax(empty))
        count += int(np.count_nonzero(empty))
    return count, first


def _id_findings(store: TokenStore, census: TokenCensus, vocab_size: int | None) -> list[Finding]:
    found: list[Finding] = []
    if census.negative is not None:
        text = f"{census.num_negative} ids are negative (least {census.min_id}): a label set masks with -100, a text has none"
        found.append(Finding("negative-id", WARNING, text, *census.negative))
    if census.outside is not None:
        text = (
            f"{census.num_outside} ids lie outside the vocabulary of {vocab_size} (largest {census.max_id}): is it another one?"
        )
        found.append(Finding("outside-vocabulary", ERROR, text, *census.outside))
    seen = None if census.max_id is None else census.max_id + 1
    size = vocab_size if vocab_size is not None else seen
    if store.dtype.itemsize > 2 and size in _TRAP:
        text = (
            f"{store.dtype} for a vocabulary of {size}: Megatron-Core reads it as uint16 garbage when it is given per-dataset"
            " sequence counts, for then it does not read the header; store it as uint16"
        )
        found.append(Finding("vocabulary-trap", WARNING, text))
    elif store.dtype.itemsize > 2 and seen is not None and seen <= 1 << 16 and census.negative is None:
        text = f"the largest id is {census.max_id}: uint16 would make the .bin of {store.dtype} smaller"
        found.append(Finding("wide-dtype", NOTE, text))
    return found


def _eod_findings(count: EodCount, *, asked: int | None) -> list[Finding]:
    found: list[Finding] = []
    sampled = "" if count.exact else "sampled "
    if not count.num_documents:
        return found
    if count.eod is None:
        text = f"no id ends most of {count.num_documents} {sampled}documents: boundaries come from the .idx alone"
        return [Finding("no-eod", WARNING, text)]
    name = f"EOD id {count.eod}" + ("" if asked is not None else " (guessed)")
    share = f"{count.num_ending} of {count.num_documents} {sampled}documents end with {name}"
    if count.num_ending == count.num_documents:
        found.append(Finding("eod", NOTE, share))
    else:
        where = "boundaries come from the .idx alone" if not count.num_ending else "the others end where the .idx says"
        found.append(Finding("no-eod", WARNING, f"{share}: {where}", *(count.without or (None, None))))
    if count.num_inside:
        text = f"{name} stands {count.num_inside} times inside documents: several texts in one, or the .idx of another .bin"
        found.append(Finding("eod-inside", WARNING, text, *(count.inside or (None, None))))
    return found


def _round_trip_findings(share: float | None) -> list[Finding]:
    if share is None:
        return []
    text = f"{share:.0%} of sampled documents come back identical from the tokenizer"
    return [
        Finding("tokenizer", NOTE, text) if share >= 0.9 else Finding("tokenizer", WARNING, f"{text}: it may be another one")
    ]


def _journal_findings(pair: TokenPair) -> list[Finding]:
    """What the journal beside the set says of its bytes."""
    from typecase.store.journal.health import edited_in_place, half_applied  # the journal stands upon token sets

    try:
        half, whole = half_applied(pair.idx), edited_in_place(pair.idx)
    except (CorruptStore, SchemaMismatch) as error:
        return [Finding("journal", ERROR, str(error))]
    if half is not None:
        return [Finding("half-applied", ERROR, str(half))]
    return [Finding("edited-in-place", NOTE, str(whole))] if whole is not None else []


def _manifest_findings(pair: TokenPair) -> list[Finding]:
    from typecase.store.journal.health import edited_only_in_place

    try:
        verify(pair.idx)
    except FingerprintMismatch as error:
        if edited_only_in_place(pair.idx):
            return [Finding("manifest", NOTE, "but for the edits in place, every byte is as the manifest promises")]
        return [Finding("changed", ERROR, str(error))]
    except (NotFound, CorruptStore, SchemaMismatch) as error:
        return [Finding("manifest", WARNING, str(error))]
    return [Finding("manifest", NOTE, "every byte is as the manifest promises")]
