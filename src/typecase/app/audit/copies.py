"""Auditing by prompts: asks a model to repeat the tokens that its weights point at, with controls.

audit_copies(model, out)      chances, verdicts, and whether the run is worth anything

    candidates ──► verify ──► verified?  share of the last block > 5 %: the next block of tokens, as suspicious as they come
    controls   ──► frequent tokens (can the model repeat at all?), drawn ordinary ones, known dead ones, other examples
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from typecase.app.audit.weights import WeightsAudit, audit_weights, vocabulary_of
from typecase.core.glitch.categories import OK
from typecase.core.glitch.copies import LIMIT, Controls, Share, class_of, controls_of, is_borderline, share_of
from typecase.core.glitch.outliers import SHARE, median_threshold, soft_threshold
from typecase.errors import BadQuery
from typecase.lm.copying.copying import Copier, Form, Which, find_placeholder, forms_of, plain_words, protocol_fingerprint
from typecase.lm.copying.verifying import Journal, Tried, verify
from typecase.lm.protocol import LM, fingerprint_of
from typecase.store.audit.roundtrip import round_trip
from typecase.store.audit.vocabulary import Vocabulary

ANSWERS = "answers.jsonl"
_FREQUENT, _ORDINARY, _DEAD, _STABLE = 32, 64, 20, 32
_GO_ON = 0.05
_MOST_FREQUENT = 5
Progress = Callable[[int, int], None]
Purpose = Literal["", "again", "whole"]


@dataclass(frozen=True, slots=True)
class CopiesAudit:
    """`verified` of `tested` candidates the model cannot repeat. `outside` estimates how many more there are among the tokens
    that were not asked, from `controls.false_verified`. `tokens_read` is what the model read; with `void` nothing follows."""

    model: str
    answers: str
    which: str
    limit: float
    placeholder: str | None
    forms: tuple[str, ...]
    weights: WeightsAudit
    tested: int
    unanswered: int
    verified: int
    borderline: int
    blocks: tuple[Share, ...]
    not_asked: int
    outside: tuple[float, float]
    controls: Controls
    void: bool
    soft_threshold: float
    median_threshold: float
    tokens_read: int
    table: pa.Table = field(repr=False, compare=False)

    def header(self) -> dict[str, Any]:
        """Everything but the tables."""
        own = {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in ("table", "weights")}
        return own | {"weights": self.weights.header()}


def audit_copies(
    model: str | Path,
    out: str | Path,
    *,
    endpoint: LM | None = None,
    weights: WeightsAudit | None = None,
    tokenizer: str | Path | None = None,
    references: Sequence[int] | None = None,
    share: float = SHARE,
    everything: bool = False,
    ids: Collection[int] | None = None,
    which: Which = "quick",
    limit: float = LIMIT,
    device: str = "auto",
    dtype: Literal["float32", "bfloat16", "float16"] = "float32",
    seed: int = 0,
    progress: Progress | None = None,
) -> CopiesAudit:
    """Asks `model`, or `endpoint` which serves it, to repeat its most suspicious tokens; answers are kept in the folder `out`.

    Candidates are the lowest `share` and on, a block of that size at a time, while more than 5 % of the last are verified;
    with `everything` all tokens; with `ids` those. A killed run goes on where it was. `which` is quick or full.
    """
    vocabulary = vocabulary_of(model, tokenizer)
    if vocabulary is None:
        raise BadQuery(f"{model} has no tokenizer beside it: name one")
    found = weights or audit_weights(model, tokenizer=tokenizer, references=references, share=share)
    trip = round_trip(vocabulary)
    ordinary = [category == OK for category in trip.categories]
    asker = asker_of(model, endpoint, vocabulary, trip.decoded, ordinary, which, limit, device, dtype, seed)
    journal = Journal(Path(out) / ANSWERS, asker.run)
    run = _Run(asker, journal, limit, which == "quick", progress or (lambda done, total: None))
    ranked = _ranked(found)
    tried, blocks, asked = _blocks(run, ranked, found.candidates, everything, ids)
    controls = _controls(run, found, trip.decoded, ordinary, tried, ranked, seed)
    return _result(str(model), run, found, tried, blocks, controls, asked, len(ranked) - asked, which)


@dataclass(frozen=True, slots=True)
class Asker:
    """A model and its forms; `again` are the same forms with other examples."""

    copier: Copier
    forms: tuple[Form, ...]
    again: tuple[Form, ...]
    placeholder: str | None
    run: str


def asker_of(
    model: str | Path,
    endpoint: LM | None,
    vocabulary: Vocabulary,
    texts: Sequence[str],
    ordinary: Sequence[bool],
    which: Which,
    limit: float,
    device: str,
    dtype: Literal["float32", "bfloat16", "float16"],
    seed: int,
) -> Asker:
    """`model`, or `endpoint` which serves it, with the forms that its tokenizer can write."""
    words = plain_words(texts, ordinary)
    if endpoint is not None:
        from typecase.lm.copying.remote import RemoteCopier

        whole = [vocabulary.text_of(t) if ordinary[t] else None for t in range(vocabulary.num_ids)]
        remote = RemoteCopier(endpoint, whole, words=[texts[w].strip() for w in words], seed=seed)
        forms = remote.forms()
        return Asker(remote, forms, (), None, _run_key(remote, forms, vocabulary, limit, True))
    from typecase.lm.copying.local import LocalCopier
    from typecase.store.weights.checkpoint import locate

    place = locate(model)
    local = LocalCopier(place.parent if place.suffix == ".safetensors" else place, device=device, dtype=dtype)
    placeholder = find_placeholder(texts, ordinary, local.encode_bare)
    forms = forms_of(which, placeholder, words, local.encode, seed=seed)
    again = forms_of(which, placeholder, words, local.encode, seed=seed + 1)
    return Asker(local, forms, again, placeholder[1], _run_key(local, forms, vocabulary, limit, which == "quick"))


def _run_key(copier: Copier, forms: Sequence[Form], vocabulary: Vocabulary, limit: float, early_exit: bool) -> str:
    """What a kept answer must have been given under."""
    protocol = protocol_fingerprint(forms, limit, early_exit=early_exit)
    return fingerprint_of(copier.fingerprint, vocabulary.fingerprint, protocol)


@dataclass(frozen=True, slots=True)
class _Run:
    asker: Asker
    journal: Journal
    limit: float
    early_exit: bool
    progress: Progress

    def ask(self, ids: Sequence[int], purpose: Purpose = "") -> dict[int, Tried]:
        """Asks for ids in order: "again" with other examples, "whole" every form and step even of a token that is repeated."""
        return verify(
            self.asker.copier,
            self.asker.again if purpose == "again" else self.asker.forms,
            ids,
            self.journal,
            limit=self.limit,
            early_exit=self.early_exit and purpose != "whole",
            purpose=purpose,
            progress=self.progress,
        )

    def is_verified(self, tried: Tried) -> bool:
        return tried.max_prob < self.limit


def _ranked(found: WeightsAudit) -> list[int]:
    """Ids of real tokens, the most suspicious first."""
    rows = found.table.select(["i", "rank"]).to_pylist()
    kinds = found.table.column("kind").to_pylist() if "kind" in found.table.column_names else [None] * len(rows)
    return [row["i"] for row, kind in sorted(zip(rows, kinds), key=lambda x: x[0]["rank"]) if kind != "gap"]


def _blocks(
    run: _Run, ranked: list[int], size: int, everything: bool, ids: Collection[int] | None
) -> tuple[dict[int, Tried], tuple[Share, ...], int]:
    """What was answered, the share verified in each block, and how many were asked."""
    if ids is not None:
        order = {t: k for k, t in enumerate(ranked)}
        wrong = sorted(i for i in ids if i not in order)
        if wrong:
            raise BadQuery(f"these are no ids of tokens: {', '.join(map(str, wrong[:8]))}")
        ranked, everything = sorted(ids, key=order.__getitem__), True
    tried: dict[int, Tried] = {}
    blocks: list[Share] = []
    asked = 0
    step = len(ranked) if everything else max(1, size)
    for at in range(0, len(ranked), step):
        found = run.ask(ranked[at : at + step])
        tried |= found
        asked += len(ranked[at : at + step])
        blocks.append(share_of(sum(map(run.is_verified, found.values())), len(found)))
        if not blocks[-1].hits > _GO_ON * blocks[-1].trials:
            break
    return tried, tuple(blocks), asked


def _controls(
    run: _Run,
    found: WeightsAudit,
    texts: Sequence[str],
    ordinary: Sequence[bool],
    tried: dict[int, Tried],
    ranked: list[int],
    seed: int,
) -> Controls:
    rng = np.random.default_rng(seed)
    plain = [t for t in ranked if ordinary[t]]
    frequent = frequent_ids(texts, plain, rng)
    others = _drawn(rng, [t for t in plain if t not in tried], _ORDINARY)
    hexes = found.table.column("hex").to_pylist() if "hex" in found.table.column_names else []
    dead = [
        t for t, h in enumerate(hexes) if h in ("c0", "c1", "f5", "f6", "f7", "f8", "f9", "fa", "fb", "fc", "fd", "fe", "ff")
    ]
    known = list(dict.fromkeys([*(t for t in found.references.ids if t < found.num_ids), *dead]))[:_DEAD]
    whole = run.ask(frequent, "whole")
    some = _drawn(rng, sorted(tried), _STABLE)
    again = run.ask(some, "again") if run.asker.again else {}
    return controls_of(
        [t.max_prob for t in whole.values()],
        [t.max_prob for t in run.ask(others).values()],
        [t.max_prob for t in run.ask(known).values()],
        [(tried[i].max_prob, t.max_prob) for i, t in again.items()],
        run.limit,
    )


def frequent_ids(texts: Sequence[str], plain: Sequence[int], rng: np.random.Generator) -> list[int]:
    """Some of the words among `plain` ids that are frequent, as ids rise with rarity: what any model can repeat."""
    by_id = sorted(t for t in plain if len(texts[t].strip()) > 2 and texts[t].strip().isalpha())
    return _drawn(rng, by_id[: max(_FREQUENT, len(by_id) // _MOST_FREQUENT)], _FREQUENT)


def _drawn(rng: np.random.Generator, ids: Sequence[int], number: int) -> list[int]:
    if len(ids) <= number:
        return list(ids)
    return sorted(rng.choice(np.asarray(ids, np.int64), number, replace=False).tolist())


def _result(
    model: str,
    run: _Run,
    found: WeightsAudit,
    tried: dict[int, Tried],
    blocks: tuple[Share, ...],
    controls: Controls,
    asked: int,
    rest: int,
    which: str,
) -> CopiesAudit:
    indicator = found.table.column("main_indicator").to_pylist()
    kinds = found.table.column("kind").to_pylist() if "kind" in found.table.column_names else ["normal"] * found.num_ids
    normal = [i for i in tried if kinds[i] == "normal" and indicator[i] is not None]
    values = np.array([indicator[i] for i in normal], np.float64)
    verified = np.array([run.is_verified(tried[i]) for i in normal], np.bool_)
    return CopiesAudit(
        model=model,
        answers=str(run.journal.path),
        which=which,
        limit=run.limit,
        placeholder=run.asker.placeholder,
        forms=tuple(form.name for form in run.asker.forms),
        weights=found,
        tested=len(tried),
        unanswered=asked - len(tried),
        verified=sum(map(run.is_verified, tried.values())),
        borderline=sum(is_borderline(t.max_prob, run.limit) for t in tried.values()),
        blocks=blocks,
        not_asked=rest,
        outside=(controls.false_verified.low * rest, controls.false_verified.high * rest),
        controls=controls,
        void=controls.void,
        soft_threshold=soft_threshold(values, verified),
        median_threshold=median_threshold(values, verified),
        tokens_read=run.asker.copier.tokens,
        table=_table(found.num_ids, tried, run.limit),
    )


def _table(num_ids: int, tried: dict[int, Tried], limit: float) -> pa.Table:
    rows = [tried.get(i) for i in range(num_ids)]
    chances = [None if r is None else r.max_prob for r in rows]
    return pa.table(
        {
            "i": pa.array(range(num_ids), pa.int64()),
            "max_prob": pa.array(chances, pa.float64()),
            "first_step": pa.array([None if r is None else r.first_step for r in rows], pa.float64()),
            "forms": pa.array([[] if r is None else [name for name, _ in r.chances] for r in rows], pa.list_(pa.string())),
            "magikarp": pa.array([class_of(p) for p in chances]),
            "verified": pa.array([None if p is None else p < limit for p in chances], pa.bool_()),
            "borderline": pa.array([None if p is None else is_borderline(p, limit) for p in chances], pa.bool_()),
        }
    )
