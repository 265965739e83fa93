"""select: documents -> the documents that a budget keeps, and a reason for every row.

    survey   a part's narrow columns: id, tokens, score from the ratings, source and domain
    decide   token mass per stratum, quotas that sum to the budget, one cut a stratum
    work     a part is read again: every row is kept or has a reason

    part-00000.parquet             the kept documents, as they were
    selection/part-00000.parquet   every document: kept, reason, stratum, score, key, tokens, copies
    removed/part-00000.parquet     every other document: reason and detail

The decision names what was asked, met and spilled in each stratum, where it was cut, and what the cut did to every
source and domain: a score that sorts by domain rather than by quality is seen there, next to what one threshold for
the whole corpus would have done.

Price: text is read twice where tokens are counted, once where documents are. Tokens are those of the text alone; a
token set adds one for the end of each document.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from typecase.core.balance import Balance
from typecase.core.selection.decide import apply
from typecase.core.selection.mixed import apply_mixed
from typecase.core.selection.quota import Label
from typecase.core.selection.selection import (
    BELOW_CUT,
    BY_CUT,
    KEPT,
    MISSING,
    REASONS,
    Budget,
    Policy,
    Selection,
    named_policy,
)
from typecase.engine.protocol import Engine
from typecase.errors import BadRecipe, FixInput
from typecase.recipe.candidates import Candidates, Columns, open_candidates, survey_part
from typecase.recipe.keep import write_kept
from typecase.recipe.select_decision import Deciding, cuts_of, mixed_of, strata_of_cells
from typecase.recipe.select_scores import SIDES, Part, check_sides, draws_of, survey_scores
from typecase.recipe.stage import Given, Report, Stage, Summary
from typecase.recipe.values import check_columns, check_ratings, has_column
from typecase.store.documents import REMOVED_SCHEMA, open_documents
from typecase.store.shards import part_name, read_columns, write_shard

SELECTION_SCHEMA = pa.schema(
    [
        ("doc_id", pa.string()),
        ("kept", pa.bool_()),
        ("reason", pa.string()),
        ("stratum", pa.string()),
        ("score", pa.float64()),
        ("key", pa.float64()),
        ("tokens", pa.int64()),
        ("copies", pa.int32()),
    ]
)
"""`score` is what the policy made of the ratings, before normalising, null where there is none; `key` is what ordered the
document, null where it was not in the running; `tokens` is null where no tokenizer was given; `copies` is how often the
document counts, 0 where it is not kept: see `copies_of`."""


@dataclass(frozen=True, kw_only=True)
class Select(Stage):
    """budget     Budget(tokens=…), Budget(documents=…) or Budget(bytes=…)
    policy     a name, see `core/selection/named.py`, or a Policy(…)
    score      the rating that a named policy goes by: a column, or ((column, weight), …)
    strata     the columns whose labels divide the budget of a named policy; source and domain, or what there is of them
    tokenizer  counts the tokens; needed for a budget in tokens
    seed       needed by a policy that draws
    inverse    the negative control: the worst first, or what the filters leave out
    floors, caps    shares of the budget that a stratum, or all that begin so, gets at least and at most
    epochs     how often a document may be taken where its stratum holds less than its quota
    """

    verb: ClassVar[str] = "select"
    version: ClassVar[int] = 2
    needs: ClassVar[tuple[str, ...]] = ("docs",)
    wants: ClassVar[tuple[str, ...]] = ("ratings", "perplexity", "importance")

    budget: Budget
    policy: str | Policy = "top"
    score: str | tuple[tuple[str, float], ...] | None = None
    strata: tuple[str, ...] | None = None
    tokenizer: str | None = None
    seed: int | None = None
    inverse: bool = False
    floors: Mapping[str, float] = field(default_factory=dict)
    caps: Mapping[str, float] = field(default_factory=dict)
    epochs: int | None = None

    def identity(self, engine: Engine) -> dict[str, Any]:
        policy = self._policy(("source",))
        if policy.needs_seed and self.seed is None:
            raise FixInput(f"select: policy {self._name} draws documents: give a seed, for example seed=1")
        if self.budget.unit == "tokens" and self.tokenizer is None:
            raise FixInput("select: a budget in tokens needs tokenizer=…; or give Budget(documents=…) or Budget(bytes=…)")
        plain = super().identity(engine)
        if self.tokenizer is not None:
            from typecase.store.tokenizer.tokenizer import (
                open_tokenizer,  # half a second of imports, only where tokens are counted
            )

            plain["tokenizer"] = open_tokenizer(self.tokenizer).fingerprint
        return plain | {"seed": self.seed if policy.needs_seed else None}

    def check(self, given: Given) -> None:
        docs, ratings = given["docs"], given.get("ratings")
        open_documents(docs)
        policy = self._policy(self._strata(given))
        draws = draws_of(policy)
        check_sides(draws, given)
        scored = [name for terms in draws for name, _ in terms if name not in SIDES]
        of_ratings = [name for name in scored if not name.startswith("meta.")]
        if ratings is not None:
            check_ratings(docs, ratings)
        elif of_ratings:
            raise BadRecipe(
                f"select: policy {self._name} goes by {of_ratings[0]!r}, but there are no ratings: rate the documents,"
                " name a field of the source rows with score='meta.FIELD', or use policy='uniform'"
            )
        check_columns(scored, self._columns(given).labels, ratings)

    def shards(self, given: Given) -> Sequence[int]:
        return range(len(open_documents(given["docs"]).parts))

    def survey(self, given: Given, shard: int, scratch: Path) -> Summary:
        part = _part(scratch, shard)
        store = open_documents(given["docs"])
        found = survey_part(store, shard, given.get("ratings"), self._columns(given), part.candidates)
        survey_scores(store.parts[shard], given, draws_of(self._policy(self._strata(given))), part.scores)
        return found | {"files": [part.candidates.name, part.scores.name]}

    def decide(self, given: Given, summaries: Sequence[Summary], scratch: Path) -> dict[str, Any]:
        policy = self._policy(self._strata(given))
        columns = self._columns(given).labels
        cells = sorted({tuple(cell) for summary in summaries for cell in summary["cells"]})
        parts = [Part(*(scratch / name for name in summary["files"])) for summary in summaries]
        return Deciding(parts, cells, columns, policy, self.budget, self.seed, scratch).decision()

    def work(self, given: Given, task: int, decision: Mapping[str, Any], out: Path, scratch: Path) -> Report:
        part = open_documents(given["docs"]).parts[task]
        policy = self._policy(tuple(decision["columns"]))
        scratch_part = _part(scratch, task)
        candidates = open_candidates(scratch_part.candidates)
        made = self._made(policy, scratch_part, candidates, decision, scratch)
        rows, text_bytes = write_kept(part, made.kept, out / part_name(task))
        doc_ids = read_columns(part, ["doc_id"]).column("doc_id").combine_chunks()
        chosen, removed = f"selection/{part_name(task)}", f"removed/{part_name(task)}"
        write_shard(out / chosen, [_selection_table(doc_ids, candidates, made)], SELECTION_SCHEMA)
        gone = _removed_table(doc_ids, made)
        write_shard(out / removed, [gone], REMOVED_SCHEMA)
        counts = {"documents": rows, "text_bytes": text_bytes}
        if candidates.tokens is not None:
            counts["tokens"] = int(candidates.tokens[made.kept].sum())
        if (copies := int(made.copies.sum())) != rows:
            counts["copies"] = copies
            counts["copied_amount"] = int((candidates.amount * made.copies).sum())
        balance = Balance(len(made.kept), rows, {r: n for r, n in made.counts().items() if r != REASONS[KEPT]})
        return Report({part_name(task): rows, chosen: len(made.kept), removed: gone.num_rows}, balance, counts)

    def _made(
        self, policy: Policy, part: Part, candidates: Candidates, decision: Mapping[str, Any], scratch: Path
    ) -> Selection:
        cuts = cuts_of(decision, scratch)
        stratum_of = strata_of_cells(candidates.cells, decision["cell_columns"], cuts.labels, policy)
        if not policy.each:
            return apply(cuts, part.pool(stratum_of), policy=policy, seed=self.seed)
        assert self.seed is not None, "identity() refuses a policy that draws without a seed"
        pools = [part.pool(stratum_of, k) for k in range(len(policy.each))]
        return apply_mixed(mixed_of(decision, scratch), pools, policy=policy, seed=self.seed)

    @property
    def _name(self) -> str:
        return repr(self.policy) if isinstance(self.policy, str) else f"with key={self.policy.key!r}"

    def _policy(self, strata: tuple[str, ...]) -> Policy:
        if isinstance(self.policy, Policy):
            if (self.score, self.strata, self.inverse, self.epochs) != (None, None, False, None) or self.floors or self.caps:
                raise FixInput(
                    "select: score=, strata=, inverse=, epochs=, floors= and caps= belong to a named policy; a Policy(…) holds"
                    " its own"
                )
            return self.policy
        made = named_policy(self.policy, score=self.score, strata=strata, inverse=self.inverse)
        if self.strata is not None and "@" not in self.policy:
            made = replace(made, strata=tuple(self.strata))
        floors: dict[str | Label, float] = dict(self.floors.items())
        caps: dict[str | Label, float] = dict(self.caps.items())
        epochs = made.epochs if self.epochs is None else self.epochs
        return replace(made, floors=floors, caps=caps, epochs=epochs)

    def _strata(self, given: Given) -> tuple[str, ...]:
        if isinstance(self.policy, Policy):
            return self.policy.strata
        if self.strata is not None:
            return self._policy(tuple(self.strata)).strata
        found = ("source", "domain") if has_column("domain", given.get("ratings")) else ("source",)
        return self._policy(found).strata

    def _columns(self, given: Given) -> Columns:
        policy = self._policy(self._strata(given))
        reported = ("source", "domain") if has_column("domain", given.get("ratings")) else ("source",)
        labels = tuple(dict.fromkeys((*policy.strata, *reported)))
        return Columns(labels, (), self.budget.unit, self.tokenizer)


def _part(scratch: Path, task: int) -> Part:
    return Part(scratch / f"candidates-{task:05d}.arrow", scratch / f"scores-{task:05d}.arrow")


def _selection_table(doc_ids: pa.Array, candidates: Candidates, made: Selection) -> pa.Table:
    strata = pa.array(["/".join(label) for label in made.cuts.labels], pa.string())
    return pa.table(
        {
            "doc_id": doc_ids,
            "kept": made.kept,
            "reason": pa.array(REASONS).take(pa.array(made.reason)),
            "stratum": strata.take(pa.array(made.stratum)),
            "score": pa.array(made.score, from_pandas=True),
            "key": pa.array(made.key, from_pandas=True),
            "tokens": candidates.tokens if candidates.tokens is not None else pa.nulls(len(doc_ids), pa.int64()),
            "copies": made.copies,
        },
        schema=SELECTION_SCHEMA,
    )


def _removed_table(doc_ids: pa.Array, made: Selection) -> pa.Table:
    rows = np.flatnonzero(~made.kept)
    details = [_detail(made, int(row)) for row in rows]
    reasons = pa.array(REASONS).take(pa.array(made.reason[rows]))
    return pa.table([doc_ids.take(pa.array(rows)), reasons, pa.array(details, pa.string())], schema=REMOVED_SCHEMA)


def _detail(made: Selection, row: int) -> str:
    s, reason = made.stratum[row], made.reason[row]
    stratum = "/".join(made.cuts.labels[s]) or "all"
    if reason == BELOW_CUT:
        if made.cuts.take[s] != BY_CUT:
            return f"{stratum}: quota 0"
        key, cut = made.key[row], made.cuts.key[s]
        return f"{stratum}: key {key:.9g}, cut at {cut:.9g}" + (" (a tie, decided by hash)" if key == cut else "")
    return stratum if reason == MISSING or np.isnan(made.score[row]) else f"{stratum}: score {made.score[row]:.9g}"
