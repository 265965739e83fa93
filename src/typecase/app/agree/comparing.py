"""compare: a language model compares documents pair by pair; scores come out of who beat whom.

    documents ─► pairs (random | neighbours | telling, in rounds) ─► comparisons.jsonl ─► Bradley-Terry ─► ratings
                                                                      grows, resumes        log-odds        1..5 by win share

    out/  part-00000.parquet          a row a document, as any ratings
          pairwise/part-00000.parquet log-odds, standard error, comparisons, component, by document and criterion
          comparisons.jsonl           every pair: both orders, the excerpts, why it is missing
          rater/                      rater.toml and anchors.jsonl: a rater that places new documents among these
          manifest.json               written last

A score is the chance to beat a random document of the set, on the rubric's scale. `comparisons.jsonl` is written while the
model answers: an interrupted run goes on where it was, and pairs that failed in passing (a timeout) are asked again.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from typecase.app.agree.compare_writing import LOG, Found, Items, Plan, write_compared
from typecase.app.agree.readings import F64, I64, facts_of
from typecase.core.pairing import neighbour_pairs, random_pairs, telling_pairs
from typecase.core.pairwise import Comparisons, fit_scores, place_bias
from typecase.core.rating import Criterion, Rubric
from typecase.errors import AlreadyExists, BadQuery, CorruptStore, NotFound
from typecase.lm.protocol import LASTING, LM, fingerprint_of
from typecase.lm.rate.pairwise import excerpts_of, judge_pairs, way_of
from typecase.lm.rate.pairwise_rater import rubric_of
from typecase.lm.rate.rubric import load_rubric
from typecase.lm.tables import read_table
from typecase.store import atomic
from typecase.store.manifest import NAME

_STAY = frozenset((*LASTING, "no_label", "no_logprobs", "rejected", "refused"))


@dataclass(frozen=True, slots=True)
class CriterionCompared:
    """How the comparison of one criterion went.

    consistent   share of the valid pairs in which both orders name the same winner; 0.5 would be a model that looks at the
                 place alone or guesses
    bias         log-odds for whatever is shown second
    error        median standard error of a log-odds score
    """

    criterion: str
    pairs: int
    valid: int
    missing: Mapping[str, int]
    unsure: int
    components: int
    consistent: float | None
    bias: float
    label_mass: float | None
    spread: float
    error: float


@dataclass(frozen=True, slots=True)
class Compared:
    """A finished comparison."""

    folder: str
    model: str
    way: str
    documents: int
    reused: int
    criteria: tuple[CriterionCompared, ...]
    warnings: tuple[str, ...]


def compare(
    docs: Path, out: Path, *, model: str | Path | LM, criteria: Sequence[str] = (), rubric: str | Path = "qurating", plan: Plan
) -> Compared:
    """Compares documents of `docs` and writes ratings to `out`. Raises AlreadyExists when `out` was made otherwise."""
    table = None if not isinstance(model, str | Path) else model_table(model)
    lm = _opened(model, table)
    asked = load_rubric(rubric)
    asked = rubric_of(asked, tuple(criteria) or asked.columns)
    way = way_of(lm)
    items = _items(docs, plan)
    header = _header(items, lm, asked, plan)
    known = _Log.open(out, header)
    found = {criterion.id: _ask(lm, criterion, items, plan, known) for criterion in asked.criteria}
    write_compared(out, docs, items, asked, found, header, plan, table, rubric)
    return _report(out, lm, way, items, found, known, plan)


def model_table(spec: str | Path) -> dict[str, Any]:
    """A model's name, address or .toml file with a [model] table as that table, its path made absolute."""
    from typecase.lm.models import table_of

    path = Path(spec)
    if path.suffix != ".toml":
        table, base = table_of(spec), Path()
    else:
        if not path.is_file():
            raise NotFound(f"no file {path}: it should hold a [model] table")
        read = read_table(path)
        table, base = dict(read.get("model", read)), path.parent
    if isinstance(table.get("path"), str) and (base / table["path"]).exists():
        table["path"] = str((base / table["path"]).resolve())
    return table


def _opened(model: str | Path | LM, table: Mapping[str, Any] | None) -> LM:
    if not isinstance(model, str | Path):
        return model
    from typecase.lm.models import open_lm

    return open_lm(table if table is not None else model)


def _items(docs: Path, plan: Plan) -> Items:
    """The documents that take part, by rising id: all that have text, or a sample drawn by a hash of (seed, id)."""
    facts = facts_of(docs)
    able = sorted(doc for doc, one in facts.items() if one.text_bytes)
    if plan.sample is not None and plan.sample < len(able):
        able = sorted(sorted(able, key=lambda doc: _dice(plan.seed, doc))[: plan.sample])
    texts = facts_of(docs, wanted=set(able), texts=True)
    able = [doc for doc in able if texts[doc].text.strip()]
    if len(able) < 2:
        raise BadQuery(f"{docs} has {len(able)} documents with text; comparing takes two")
    return Items(tuple(able), tuple(texts[doc].text for doc in able), len(facts))


def _dice(seed: int, doc_id: str) -> bytes:
    return blake2b(f"{seed}\0{doc_id}".encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _header(items: Items, lm: LM, rubric: Rubric, plan: Plan) -> dict[str, Any]:
    texts = blake2b(digest_size=16)
    for text in items.texts:
        texts.update(len(text).to_bytes(8, "little") + text.encode("utf-8", "surrogatepass"))
    return {
        "typecase": "comparisons",
        "format": 1,
        "documents": fingerprint_of(list(items.ids), texts.hexdigest()),
        "model": lm.name,
        "model_fingerprint": lm.fingerprint,
        "rubric": rubric.fingerprint,
        "criteria": list(rubric.columns),
        "plan": {key: value for key, value in asdict(plan).items() if key not in ("anchors", "confidence")},
    }


@dataclass(slots=True)
class _Log:
    """The comparisons that are there, by (criterion, a, b), and the file that they are added to."""

    path: Path
    rows: dict[tuple[str, str, str], dict[str, Any]]
    reused: int = 0

    @classmethod
    def open(cls, out: Path, header: Mapping[str, Any]) -> _Log:
        path = out / LOG
        if not path.exists():
            if (out / NAME).exists() or (out.is_dir() and any(out.iterdir())):
                raise AlreadyExists(f"{out} is there and holds no {LOG}: name another folder")
            atomic.write_bytes(path, orjson.dumps(header) + b"\n")
            return cls(path, {})
        data = path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            atomic.write_bytes(path, data[:whole])
        try:
            lines = [orjson.loads(line) for line in data[:whole].splitlines()]
            rows = {(row["criterion"], row["a"], row["b"]): row for row in lines[1:]}
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise CorruptStore(f"{path} is no log of comparisons ({error!r}); keep it aside and begin anew") from None
        if changed := [key for key in header if not lines or lines[0].get(key) != header[key]]:
            raise AlreadyExists(f"{out} was begun otherwise ({', '.join(changed)} differ): name another folder")
        return cls(path, rows, len(rows))

    def wants(self, key: tuple[str, str, str]) -> bool:
        """Whether a pair is still to be asked: it is not there, or it failed in passing."""
        row = self.rows.get(key)
        return row is None or (bool(row["reason"]) and row["reason"] not in _STAY)

    def add(self, rows: Iterator[dict[str, Any]]) -> None:
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            for row in rows:
                os.write(handle, orjson.dumps(row) + b"\n")
                self.rows[(row["criterion"], row["a"], row["b"])] = row
            os.fsync(handle)
        finally:
            os.close(handle)


def _ask(lm: LM, criterion: Criterion, items: Items, plan: Plan, log: _Log) -> Found:
    pairs = np.zeros((0, 2), np.int64)
    rounds = plan.rounds if plan.how == "telling" else 1
    found: Found | None = None
    for number in range(rounds):
        want = plan.pairs * (number + 1) // rounds - len(pairs)
        pairs = np.concatenate([pairs, _next_pairs(items, plan, want, number, found, pairs)])
        open_ = [(int(a), int(b)) for a, b in pairs if log.wants((criterion.id, items.ids[a], items.ids[b]))]
        log.add(_asked(lm, criterion, items, open_, plan))
        found = _fitted(criterion, items, pairs, plan, log)
    assert found is not None
    return found


def _next_pairs(items: Items, plan: Plan, want: int, number: int, found: Found | None, known: I64) -> I64:
    size = len(items.ids)
    if plan.how == "neighbours":
        return neighbour_pairs(size, want)
    if found is None:
        return random_pairs(size, want, seed=plan.seed)
    most = max(2, -(-2 * want // size) * 2)
    return telling_pairs(found.fit.scores, found.fit.errors, want, seed=plan.seed + number, known=known, most=most)


def _asked(
    lm: LM, criterion: Criterion, items: Items, pairs: Sequence[tuple[int, int]], plan: Plan
) -> Iterator[dict[str, Any]]:
    cuts = [
        excerpts_of(items.texts[a], items.texts[b], words=plan.words, key=(plan.seed, items.ids[a], items.ids[b]))
        for a, b in pairs
    ]
    shown = (
        (items.texts[a][slice(*cut.first)], items.texts[b][slice(*cut.second)]) for (a, b), cut in zip(pairs, cuts, strict=True)
    )
    said = judge_pairs(lm, shown, criterion, votes=plan.votes, seed=plan.seed)
    for (a, b), cut, one in zip(pairs, cuts, said, strict=True):
        yield {
            "criterion": criterion.id,
            "a": items.ids[a],
            "b": items.ids[b],
            "forward": one.forward,
            "backward": one.backward,
            "chance": one.chance,
            "label_mass": one.label_mass,
            "reason": one.reason,
            "a_chars": cut.first,
            "b_chars": cut.second,
        }


def _fitted(criterion: Criterion, items: Items, pairs: I64, plan: Plan, log: _Log) -> Found:
    rows = tuple(log.rows[(criterion.id, items.ids[a], items.ids[b])] for a, b in pairs)
    forward, backward, chance = (_floats(rows, name) for name in ("forward", "backward", "chance"))
    comparisons = Comparisons.of(pairs[:, 0], pairs[:, 1], chance)
    fit = fit_scores(comparisons, len(items.ids), confidence=plan.confidence, with_bias=False)
    return Found(comparisons, fit, place_bias(forward, backward), rows)


def _floats(rows: Sequence[Mapping[str, Any]], name: str) -> F64:
    return np.array([np.nan if row[name] is None else row[name] for row in rows], np.float64)


def _report(out: Path, lm: LM, way: str, items: Items, found: Mapping[str, Found], log: _Log, plan: Plan) -> Compared:
    criteria = tuple(_told(criterion, one) for criterion, one in found.items())
    said = []
    for one in criteria:
        if one.components > 1:
            said.append(f"{one.criterion}: {one.components} groups were never compared with each other; random pairs join them")
        if one.consistent is not None and one.consistent < 0.6:
            said.append(
                f"{one.criterion}: both orders agree in {one.consistent:.0%} only; the model goes by place, not by text"
            )
        if one.label_mass is not None and one.label_mass < 0.1:
            said.append(f"{one.criterion}: the model wants to give a label in {one.label_mass:.1%} only; try a chat model")
    if 2 * plan.pairs < 10 * len(items.ids):
        said.append(f"{2 * plan.pairs / len(items.ids):.1f} comparisons a document: scores are loose, 20 rank well")
    return Compared(str(out), lm.name, way, len(items.ids), log.reused, criteria, tuple(said))


def _told(criterion: str, one: Found) -> CriterionCompared:
    forward, backward, mass = (_floats(one.rows, name) for name in ("forward", "backward", "label_mass"))
    valid = ~np.isnan(forward) & ~np.isnan(backward)
    compared = one.fit.compared > 0
    return CriterionCompared(
        criterion,
        len(one.rows),
        int(valid.sum()),
        dict(sorted(Counter(row["reason"] for row in one.rows if row["reason"]).items())),
        one.fit.unsure,
        one.fit.components,
        float(((forward > 0.5) == (backward < 0.5))[valid].mean()) if valid.any() else None,
        one.bias,
        float(np.nanmean(mass)) if (~np.isnan(mass)).any() else None,
        float(one.fit.scores[compared].std()) if compared.any() else 0.0,
        float(np.median(one.fit.errors[compared])) if compared.any() else float("nan"),
    )
