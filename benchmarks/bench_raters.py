"""Raters under planted damage: what each notices as the dose grows, beside scikit-learn's ridge on character n-grams.

    python benchmarks/bench_raters.py [--quick] [--json]

All raters are trained on the rated documents of four fifths of the sources in seeds/. Clean documents of the last fifth
(undamaged, read as 4 or better) are damaged in thirteen ways, one for each criterion, at five doses (core/damage); no rater
was trained on damage made by that code. A rater *falls* with a damage if its overall score does so in the mean of documents
beyond noise: the 95 % interval of rho (dose and score within a document, bootstrap over sources) lies below -0.2, and no
step to the next dose rises with its whole interval above 0. It is *specific* if the criterion that the damage is aimed at
falls at least as far as any other.

--quick takes fewer documents and leaves out the rater on minilm. That one is skipped where its package is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from bench_rate import SEED, SEEDS, peer_of
from measure import Record, options, report
from threadpoolctl import threadpool_limits

from typecase.core.damage.planting import DAMAGES, DOSES, damaged
from typecase.core.damage.response import Response, response_of
from typecase.core.learn.agreement import spearman
from typecase.errors import NeedsExtra
from typecase.lm.embedding import VectorStore, open_encoder
from typecase.lm.head.train import HeadSettings, fit_encoded_head, fit_gram_head
from typecase.lm.rate.rater import Rater, pack_texts
from typecase.lm.rate.rubric import load_rubric
from typecase.lm.rate.seeds import Seeds, read_seeds, source_folds
from typecase.lm.starter.fit import lists_for, rubric_text_of
from typecase.lm.starter.train import Settings, fit_model

F64 = npt.NDArray[np.float64]
Scores = Callable[[Sequence[str]], F64]
"""Texts to scores and leanings to domains, float64 (texts, criteria + domains)."""

OVERALL = "overall_score"
CLEAN = 4.0
MANY, FEW = 80, 24


def scores_of(rater: Rater) -> Scores:
    def scores(texts: Sequence[str]) -> F64:
        ratings = rater.rate(*pack_texts(texts))
        return np.hstack([ratings.scores, ratings.domain_chances]).astype(np.float64)

    return scores


def raters_of(taught: Seeds, *, quick: bool) -> dict[str, Scores]:
    """The raters by name, each trained on `taught`."""
    text, lists = rubric_text_of("dataman"), lists_for(SEEDS)
    raters: dict[str, Rater] = {
        "starter": fit_model(taught, text, lists, Settings(), seed=SEED),
        "n-gram head": fit_gram_head(taught, text, HeadSettings(), seed=SEED),
    }
    if not quick:
        try:
            store = VectorStore(open_encoder("minilm"))
            raters["head on minilm"] = fit_encoded_head(
                taught,
                text,
                lists,
                store,
                HeadSettings(),
                encoder_name=store.encoder.name,
                encoder_fingerprint=store.encoder.fingerprint,
                seed=SEED,
            )
        except NeedsExtra as error:
            print(f"without the head on minilm: {error}")
    return {name: scores_of(rater) for name, rater in raters.items()}


def clean_documents(asked: Seeds, most: int) -> Seeds:
    """Undamaged documents that readers rate CLEAN or better, `most` of them, evenly from all."""
    column = asked.rubric.columns.index(OVERALL)
    rows = [row for row in range(len(asked)) if not asked.damage[row] and asked.scores[row, column] >= CLEAN]
    return asked.pick(np.array(rows[:: max(1, len(rows) // most)][:most], np.int64))


def partner(clean: Seeds, row: int) -> str:
    """A text of another source."""
    half = len(clean) // 2
    places = ((row + half + step) % len(clean) for step in range(len(clean)))
    return next((clean.texts[p] for p in places if clean.sources[p] != clean.sources[row]), "")


def responses(scores: Scores, clean: Seeds) -> list[Response]:
    """The response to every kind of damage."""
    out = []
    for damage in DAMAGES:
        texts = [
            damaged(text, damage, dose, seed=SEED, other=partner(clean, row))
            for row, text in enumerate(clean.texts)
            for dose in (0.0, *DOSES)
        ]
        said = scores(texts)[:, : len(clean.rubric.columns)].reshape(len(clean), 1 + len(DOSES), -1)
        out.append(response_of(damage, said, DOSES, clean.sources, clean.rubric.columns, OVERALL))
    return out


def table(name: str, found: Sequence[Response]) -> list[str]:
    """Lines for people."""
    doses = " ".join(f"{dose:>5g}" for dose in (0.0, *DOSES))
    lines = ["", f"{name}", f"{'':12}  overall at dose {doses:30}   rho (95 %)             own rho  rises  specificity  falls"]
    for r in found:
        means = " ".join(f"{mean:5.2f}" for mean in r.means)
        low, high = r.rho_interval
        lines.append(
            f"{r.damage.name:12}  {'':15} {means}   {r.rho:+.2f} ({low:+.2f} to {high:+.2f})   {r.own_rho:+.2f}   "
            f"{r.violations:5.0%}  {r.specificity:11.2f}  {'yes' if r.falls else 'no'}"
        )
    return lines


def agreement(name: str, scores: Scores, peer: Scores, asked: Seeds) -> list[Record]:
    column, num_criteria = asked.rubric.columns.index(OVERALL), len(asked.rubric.columns)
    label = asked.votes.argmax(axis=1)
    said = [rater(asked.texts) for rater in (scores, peer)]
    rho = [spearman(rows[:, column], asked.scores[:, column]) for rows in said]
    right = [float((rows[:, num_criteria:].argmax(axis=1) == label).mean()) for rows in said]
    return [
        Record(f"{name}: agreement on the overall score", rho[0], rho[1], "rho", rho[0] / rho[1]),
        Record(f"{name}: domains", right[0], right[1], "share", right[0] / right[1]),
    ]


def counts(name: str, ours: Sequence[Response], theirs: Sequence[Response]) -> list[Record]:
    falls, specific = ([sum(test(r) for r in found) for found in (ours, theirs)] for test in (_falls, _specific))
    records = [
        Record(f"{name}: kinds of damage that it falls with", *falls, f"of {len(DAMAGES)}", falls[0] / max(1, falls[1])),
        Record(f"{name}: kinds that it tells apart", *specific, f"of {len(DAMAGES)}", specific[0] / max(1, specific[1])),
    ]
    for r, p in zip(ours, theirs, strict=True):
        records.append(Record(f"{name}: {r.damage.name}", -r.rho, -p.rho, "-rho", -r.rho / max(0.05, -p.rho)))
    return records


def _falls(response: Response) -> bool:
    return response.falls


def _specific(response: Response) -> bool:
    return response.specificity >= 1


def main() -> None:
    args = options(__doc__)
    seeds = read_seeds(Path(SEEDS), load_rubric("dataman"))
    folds = source_folds(seeds.sources, folds=5, seed=SEED)
    taught, asked = (seeds.pick(np.flatnonzero(rows)) for rows in (folds != 0, folds == 0))
    peer_model = peer_of(taught)

    def peer(texts: Sequence[str]) -> F64:
        return np.asarray(peer_model.predict(list(texts)), np.float64)

    records, notes = [], []
    with threadpool_limits(limits=2):
        for name, scores in raters_of(taught, quick=args.quick).items():
            clean = clean_documents(asked, FEW if args.quick or name == "head on minilm" else MANY)
            ours, theirs = responses(scores, clean), responses(peer, clean)
            records += [*agreement(name, scores, peer, asked), *counts(name, ours, theirs)]
            notes += table(f"{name}, {len(clean)} documents", ours)
    report(records, as_json=args.json, notes=notes)


if __name__ == "__main__":
    main()
