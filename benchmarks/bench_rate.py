"""Rating documents: the starter rater against scikit-learn's HashingVectorizer (character n-grams 3 to 5) and Ridge.

    python benchmarks/bench_rate.py [--quick] [--json]

Both are trained on the rated documents of four fifths of the sources in seeds/ and asked about the rest. `agreement` is
Spearman's rank correlation with the readers' overall score, `domains` the share of domains that are the readers', both on
sources that neither has seen. Speed is of one core on the same strings: `short` are the seeds as they are (1.4 kB), `long`
eight of them in one document (11 kB), all of it read by both. scikit-learn gives expected scores and leanings to domains;
confidence and whatever is read of the form of a text is ours alone. `n-grams alone` is the head of lm/head without an encoder:
as far from the readers as the peer, and the fastest.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from measure import Record, best_of, options, rate, report
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import Ridge
from sklearn.pipeline import Pipeline, make_pipeline
from threadpoolctl import threadpool_limits

from typecase.core.learn.agreement import spearman
from typecase.lm.head.train import HeadSettings, fit_gram_head
from typecase.lm.rate.rater import Rater, pack_texts
from typecase.lm.rate.rubric import load_rubric
from typecase.lm.rate.seeds import Seeds, read_seeds, source_folds
from typecase.lm.starter.fit import lists_for, rubric_text_of
from typecase.lm.starter.starter import load_starter
from typecase.lm.starter.train import Settings, fit_model

SEEDS = Path(__file__).parents[1] / "seeds"
SEED = 2


def peer_of(seeds: Seeds) -> Pipeline:
    """Ridge on hashed character n-grams, all criteria and domains at once."""
    hashing = HashingVectorizer(analyzer="char", ngram_range=(3, 5), n_features=1 << 18, alternate_sign=False)
    return make_pipeline(hashing, Ridge(alpha=0.3)).fit(list(seeds.texts), np.hstack([seeds.scores, seeds.votes]))


def agreement(seeds: Seeds) -> tuple[list[Record], Pipeline]:
    """How both agree with readers on a fifth of the sources, and the trained peer."""
    folds = source_folds(seeds.sources, folds=5, seed=SEED)
    taught, asked = (seeds.pick(np.flatnonzero(rows)) for rows in (folds != 0, folds == 0))
    rater = fit_model(taught, rubric_text_of("dataman"), lists_for(SEEDS), Settings(), seed=SEED)
    peer = peer_of(taught)
    ours, theirs = rater.rate(*pack_texts(asked.texts)), peer.predict(list(asked.texts))
    column, num_criteria = seeds.rubric.columns.index("overall_score"), len(seeds.rubric.columns)
    label = asked.votes.argmax(axis=1)
    rho = [spearman(scores[:, column], asked.scores[:, column]) for scores in (ours.scores, theirs)]
    right = [float((domain == label).mean()) for domain in (ours.domain, theirs[:, num_criteria:].argmax(axis=1))]
    return [
        Record("agreement on the overall score", rho[0], rho[1], "rho", rho[0] / rho[1]),
        Record("domains", right[0], right[1], "share", right[0] / right[1]),
    ], peer


def speed(name: str, rater: Rater, texts: list[str], peer: Pipeline, rounds: int) -> Record:
    """MB/s of both on the same strings, packing included."""
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    rater.rate(*pack_texts(texts[:10]))
    ours, theirs = best_of([lambda: rater.rate(*pack_texts(texts)), lambda: peer.predict(texts)], rounds)
    return rate(name, megabytes, ours, theirs, "MB/s")


def main() -> None:
    args = options(__doc__)
    seeds = read_seeds(SEEDS, load_rubric("dataman"))
    rounds = 2 if args.quick else 5
    texts = list(seeds.texts[:400] if args.quick else seeds.texts)
    long = ["\n\n".join(texts[at : at + 8]) for at in range(0, len(texts), 8)]
    with threadpool_limits(limits=1):
        records, peer = agreement(seeds)
        grams = fit_gram_head(seeds, rubric_text_of("dataman"), HeadSettings(), seed=SEED)
        for name, rater in (("rating", load_starter()), ("rating by n-grams alone", grams)):
            records += [speed(f"{name}, short documents", rater, texts, peer, rounds)]
            records += [speed(f"{name}, long documents", rater, long, peer, rounds)]
    report(records, as_json=args.json, notes=["held out: a fifth of the sources; the card has figures over all of them"])


if __name__ == "__main__":
    main()
