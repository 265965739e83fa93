"""Auditing: one function a question about the tokens of a vocabulary.

audit_tokenizer(spec)                     what the tokenizer alone says
audit_corpus([tokens], out)               the same, joined with the counts of token sets, and what a run will leave unseen
audit_compare(a, b)                       which tokens two tokenizers share, and how they differ
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import tiktoken
import tokenizers

from typecase.app.engines import Workers, engine_of
from typecase.core.glitch.categories import GroupCounts
from typecase.core.glitch.prediction import NEVER, RISK, Plan
from typecase.errors import BadQuery, FixInput
from typecase.recipe.build import TOKENIZER
from typecase.recipe.count import Count
from typecase.recipe.progress import Reporter
from typecase.recipe.run import run_stage
from typecase.store.audit.census import KeptCensus, merged, read_census
from typecase.store.audit.table import CorpusFacts, TokenFacts, examine, join, token_table
from typecase.store.audit.vocabulary import Vocabulary, open_vocabulary
from typecase.store.journal.opening import split_edited
from typecase.store.tokens.pair import find_pair


@dataclass(frozen=True, slots=True)
class TokenizerAudit:
    """What the tokenizer alone says. `groups` are the figures of a published report; the rest counts ids by what they are."""

    tokenizer: str
    file_kind: str
    model: str
    num_ids: int
    fingerprint: str
    groups: GroupCounts
    kinds: Mapping[str, int]
    categories: Mapping[str, int]
    reach: Mapping[str, int]
    failing: Mapping[str, int]
    reasons: Mapping[str, int]
    utf8: Mapping[str, int]
    origins: Mapping[str, int]
    suggestions: Mapping[str, int]
    duplicates: int
    scaffolds: int
    lengths: Mapping[str, int]
    scripts: Mapping[str, int]
    libraries: Mapping[str, str]
    table: pa.Table = field(repr=False, compare=False)

    def header(self) -> dict[str, Any]:
        """Everything but the table, as JSON."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "table"}
        groups = values.pop("groups")
        return values | {"groups": {name: getattr(groups, name) for name in groups.__dataclass_fields__}}


@dataclass(frozen=True, slots=True)
class CorpusAudit:
    """Counts and prediction, over the tokenizer's own audit; `table` there has the columns of both.

    `never` are ids counted 0 times, `at_risk` those that the planned run sees too seldom; `mismatched` ids were counted though
    no text can make them: the set was made by another tokenizer, or another version. `outside` tokens are no ids at all.
    `wasted_share` of the embedding's rows are predicted under-trained.
    """

    tokenizer: TokenizerAudit
    token_sets: tuple[str, ...]
    censuses: tuple[str, ...]
    num_tokens: int
    num_documents: int
    sources: Mapping[str, int]
    exposure: float
    at_risk_limit: float
    never: int
    never_but_reachable: int
    once: int
    one_document: int
    one_family: int
    at_risk: int
    wasted_share: float
    outside: int
    mismatched: tuple[int, ...]

    @property
    def table(self) -> pa.Table:
        return self.tokenizer.table

    def header(self) -> dict[str, Any]:
        """Everything but the table, as JSON."""
        own = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "tokenizer"}
        return self.tokenizer.header() | own | {"sources": dict(self.sources)}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two vocabularies by the bytes of their tokens. `moved` are shared tokens under another id, `categories` counts pairs.

    `table` has a row for every token that only one has, or whose category or reach differ.
    """

    a: str
    b: str
    num_a: int
    num_b: int
    shared: int
    moved: int
    only_a: int
    only_b: int
    changed: int
    groups_a: GroupCounts
    groups_b: GroupCounts
    table: pa.Table = field(repr=False, compare=False)


def audit_tokenizer(
    spec: str | Path, *, pattern: str | None = None, special_tokens: Mapping[str, int] | None = None
) -> TokenizerAudit:
    """Audits the tokenizer that `spec` names: any kind of file, see `store.audit.vocabulary`."""
    facts = examine(open_vocabulary(spec, pattern=pattern, special_tokens=special_tokens))
    return _tokenizer_audit(facts, token_table(facts))


def audit_corpus(
    token_sets: Sequence[str | Path],
    out: str | Path,
    *,
    tokenizer: str | Path | None = None,
    pattern: str | None = None,
    special_tokens: Mapping[str, int] | None = None,
    plan: Plan | None = None,
    wanted: Collection[int] = (),
    workers: Workers = 0,
    reporter: Reporter | None = None,
) -> CorpusAudit:
    """Counts `token_sets` into censuses in the folder `out`, one for each, and joins them with their tokenizer.

    The tokenizer is the one that the sets were built with, or the one named. Censuses that lie there from before are used.
    Raises BadQuery where none is known, or the sets do not go together.
    """
    if not token_sets:
        raise BadQuery("no token set was named")
    plan, out = plan or Plan(), Path(out)
    vocabulary = _vocabulary(token_sets, tokenizer, pattern, special_tokens)
    folders = [out] if len(token_sets) == 1 else [out / f"set-{k:03d}" for k in range(len(token_sets))]
    stage = Count(num_ids=vocabulary.num_ids)
    for tokens, folder in zip(token_sets, folders):
        run_stage(stage, {"tokens": Path(tokens)}, folder, engine=engine_of(workers), reporter=reporter)
    kept = [read_census(folder) for folder in folders]
    try:
        total = merged(kept) if len(kept) > 1 else kept[0]
    except ValueError:
        raise BadQuery("the token sets were built with different tokenizers: audit each on its own") from None
    facts = examine(vocabulary)
    corpus = join(facts, total, plan)
    audit = _tokenizer_audit(facts, token_table(facts, corpus, wanted=wanted))
    return _corpus_audit(audit, facts, corpus, plan, [str(s) for s in token_sets], [str(f) for f in folders])


def audit_compare(a: str | Path, b: str | Path) -> Comparison:
    """Compares two tokenizers token by token."""
    first, second = (audit_tokenizer(spec) for spec in (a, b))
    rows_a, rows_b = ({row["hex"]: row for row in _narrow(audit.table)} for audit in (first, second))
    shared = rows_a.keys() & rows_b.keys()
    changed = [h for h in shared if any(rows_a[h][c] != rows_b[h][c] for c in ("category", "reach"))]
    wanted = sorted((rows_a.keys() ^ rows_b.keys()) | set(changed))
    names = ("i", "category", "reach", "reason")
    table = pa.Table.from_pylist(
        [
            {"hex": h, "text": bytes.fromhex(h).decode("utf-8", "backslashreplace")}
            | {
                f"{name}_{side}": rows[h][name] if h in rows else None
                for side, rows in (("a", rows_a), ("b", rows_b))
                for name in names
            }
            for h in wanted
        ],
        schema=pa.schema(
            [("hex", pa.string()), ("text", pa.string())]
            + [(f"{n}_{side}", pa.int64() if n == "i" else pa.string()) for side in "ab" for n in names]
        ),
    )
    return Comparison(
        first.tokenizer,
        second.tokenizer,
        first.num_ids,
        second.num_ids,
        len(shared),
        sum(rows_a[h]["i"] != rows_b[h]["i"] for h in shared),
        len(rows_a) - len(shared),
        len(rows_b) - len(shared),
        len(changed),
        first.groups,
        second.groups,
        table,
    )


def _narrow(table: pa.Table) -> list[dict[str, Any]]:
    """Rows of real tokens; of duplicates the first."""
    rows: list[dict[str, Any]] = table.select(["hex", "i", "category", "reach", "reason"]).to_pylist()
    return [row for row in reversed(rows) if row["hex"] is not None]


def _vocabulary(
    token_sets: Sequence[str | Path],
    named: str | Path | None,
    pattern: str | None,
    special_tokens: Mapping[str, int] | None,
) -> Vocabulary:
    if named is not None:
        return open_vocabulary(named, pattern=pattern, special_tokens=special_tokens)
    for tokens in token_sets:
        recorded = find_pair(split_edited(tokens)[0]).bin.parent / TOKENIZER
        if recorded.is_dir():
            return open_vocabulary(recorded, pattern=pattern, special_tokens=special_tokens)
    raise BadQuery(f"{token_sets[0]} does not say which tokenizer made it: name one (`typecase doctor --guess` finds it)")


def _tokenizer_audit(facts: TokenFacts, table: pa.Table) -> TokenizerAudit:
    v, reaches = facts.vocabulary, facts.reached.reaches
    lengths = Counter(len(data) for data in v.data if data is not None)
    return TokenizerAudit(
        tokenizer=v.where,
        file_kind=v.file_kind,
        model=v.model,
        num_ids=v.num_ids,
        fingerprint=v.fingerprint,
        groups=facts.trip.groups,
        kinds=_counted(v.kinds),
        categories=_counted([c or "(gap)" for c in facts.trip.categories]),
        reach=_counted([r.verdict for r in reaches]),
        failing=_counted([" + ".join(r.failing) for r in reaches if r.failing]),
        reasons=_counted([_kind_of_reason(r.reason) for r in reaches if r.reason]),
        utf8=_counted([u.kind for u in facts.reached.utf8 if u is not None]),
        origins=_counted(table.column("origin").to_pylist()),
        suggestions=_counted(table.column("suggestion").to_pylist()),
        duplicates=sum(other is not None for other in facts.duplicate_of),
        scaffolds=int(facts.scaffold.sum()),
        lengths={str(size): lengths[size] for size in sorted(lengths)},
        scripts=_counted([s for s in table.column("script").to_pylist() if s is not None]),
        libraries={"tokenizers": tokenizers.__version__, "tiktoken": tiktoken.__version__},
        table=table,
    )


def _counted(values: Sequence[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items(), key=lambda item: (-item[1], item[0])))


def _kind_of_reason(reason: str) -> str:
    """A reason without what is particular to one token."""
    for kind in ("normalised away", "shadowed by the added token", "pre-empted by an earlier merge"):
        if reason.startswith(kind):
            return kind
    return "shadowed by a token of the same bytes" if reason.startswith("shadowed") else reason.split(":")[0]


def _corpus_audit(
    audit: TokenizerAudit, facts: TokenFacts, corpus: CorpusFacts, plan: Plan, token_sets: list[str], censuses: list[str]
) -> CorpusAudit:
    kept: KeptCensus = corpus.kept
    census, kinds = kept.census, corpus.prediction.kinds
    counts, documents = census.total, census.in_documents
    real = np.array([kind != "gap" for kind in facts.vocabulary.kinds])
    reachable = np.array([reach.verdict in ("reachable", "unproven") for reach in facts.reached.reaches])
    mismatched = np.flatnonzero(~facts.reachable & (counts > 0))
    under = int(np.count_nonzero(corpus.prediction.under_trained))
    return CorpusAudit(
        tokenizer=audit,
        token_sets=tuple(token_sets),
        censuses=tuple(censuses),
        num_tokens=census.num_tokens,
        num_documents=census.num_documents,
        sources={name: int(n) for name, n in zip(kept.sources, census.counts.sum(axis=1))},
        exposure=plan.exposure(census.num_tokens),
        at_risk_limit=plan.at_risk,
        never=int(np.count_nonzero(real & (kinds == NEVER))),
        never_but_reachable=int(np.count_nonzero(real & reachable & (kinds == NEVER))),
        once=int(np.count_nonzero(counts == 1)),
        one_document=int(np.count_nonzero(documents == 1)),
        one_family=int(np.count_nonzero((corpus.family_size > 1) & (documents > 0) & (counts < 100))),
        at_risk=int(np.count_nonzero(kinds == RISK)),
        wasted_share=under / max(1, len(kinds)),
        outside=census.outside,
        mismatched=tuple(mismatched.tolist()),
    )


def plan_of(tokens: int | None, epochs: float, at_risk: float) -> Plan:
    """A plan from the command line. Raises FixInput for numbers that cannot be."""
    try:
        return Plan(tokens, epochs, at_risk)
    except ValueError as error:
        raise FixInput(str(error)) from None
