"""Commands that choose documents: select, and the importance that one of its policies goes by."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from typecase.app import verbs
from typecase.app.engines import Workers
from typecase.app.mix.files import mix_policy
from typecase.app.options import answer, out_option, reporter, work_options
from typecase.app.printing import artifact_lines
from typecase.core.selection.importance import BUCKETS, Hashing
from typecase.core.selection.named import USAGE, named_policy
from typecase.core.selection.selection import Budget
from typecase.errors import FixInput
from typecase.recipe.importance import Importance
from typecase.recipe.run import Artifact
from typecase.recipe.select import Select

DOCS = click.Path(path_type=Path)
SHORT_SHOWN = 5


@click.command(name="select")
@click.argument("docs", type=DOCS)
@out_option
@click.option("--budget", help="'10M tokens' (needs --tokenizer), '250k documents' or '2G bytes'.")
@click.option("--mix", "mix", type=DOCS, help="A plan of `mix plan DOCS`: its quotas, budget and epochs.")
@click.option("--policy", default="top", show_default=True, help=f"{USAGE}; @DOMAIN+DOMAIN behind one keeps to these domains.")
@click.option("--inverse", is_flag=True, help="The policy's negative control: the worst first, or what its filters leave out.")
@click.option("--score", help="The rating to go by, or several with weights: accuracy=1,creativity=0.5.")
@click.option("--strata", help="Columns that divide the budget, with commas; '' for none.")
@click.option("--floor", "floors", multiple=True, help="STRATUM=SHARE: at least this share of the budget; repeatable.")
@click.option("--cap", "caps", multiple=True, help="STRATUM=SHARE: at most this share of the budget; repeatable.")
@click.option("--epochs", type=int, help="How often a document may be taken where its stratum runs out.")
@click.option("--ratings", type=DOCS, help="Folder of ratings.")
@click.option("--perplexity", type=DOCS, help="Folder of perplexity, for the policy of that name.")
@click.option("--importance", type=DOCS, help="Folder of importance, for the policy dsir.")
@click.option("--tokenizer", help="Counts the tokens.")
@click.option("--seed", type=int, help="Needed by a policy that draws.")
@work_options
def select_command(
    docs: Path,
    out: Path,
    budget: str | None,
    mix: Path | None,
    policy: str,
    inverse: bool,
    score: str | None,
    strata: str | None,
    floors: tuple[str, ...],
    caps: tuple[str, ...],
    epochs: int | None,
    ratings: Path | None,
    perplexity: Path | None,
    importance: Path | None,
    tokenizer: str | None,
    seed: int | None,
    workers: Workers,
    quiet: bool,
    as_json: bool,
) -> None:
    """Keep documents of DOCS up to a budget; every row gets a reason."""
    if (budget is None) == (mix is None):
        raise FixInput("say how much is kept: --budget, or --mix with a plan")
    if mix is not None:
        if strata is not None or floors or caps or epochs is not None:
            raise FixInput(
                "a plan of --mix says strata, shares and epochs itself: leave out --strata, --floor, --cap, --epochs"
            )
        chosen, amount = mix_policy(mix, named_policy(policy, score=_score_of(score), inverse=inverse))
        stage = Select(budget=amount, policy=chosen, tokenizer=tokenizer, seed=seed)
    else:
        stage = Select(
            budget=Budget.parse(str(budget)),
            policy=policy,
            inverse=inverse,
            score=_score_of(score),
            strata=None if strata is None else tuple(s.strip() for s in strata.split(",") if s.strip()),
            floors=_shares(floors, "--floor"),
            caps=_shares(caps, "--cap"),
            epochs=epochs,
            tokenizer=tokenizer,
            seed=seed,
        )
    sides = {"ratings": ratings, "perplexity": perplexity, "importance": importance}
    given = {"docs": docs} | {role: folder for role, folder in sides.items() if folder is not None}
    made = verbs.make(stage, given, out, workers=workers, reporter=reporter(quiet, as_json))
    answer(made, [*artifact_lines(made), *_quota_lines(made)], as_json)


@click.command(name="importance")
@click.argument("docs", type=DOCS)
@out_option
@click.option("--target", required=True, type=DOCS, help="Folder of documents that look as wanted: ingest them first.")
@click.option("--hashing", type=click.Choice(["fast", "sha256"]), default="fast", show_default=True, help="Published: sha256.")
@click.option("--buckets", default=BUCKETS, show_default=True, help="Into which words and pairs are hashed.")
@click.option("--min-words", default=100, show_default=True, help="A shorter document has no log-weight.")
@work_options
def importance_command(
    docs: Path,
    out: Path,
    target: Path,
    hashing: str,
    buckets: int,
    min_words: int,
    workers: Workers,
    quiet: bool,
    as_json: bool,
) -> None:
    """Say how much more like TARGET than like the rest each document of DOCS is (DSIR); `select --policy dsir` draws by it."""
    kind: Hashing = "sha256" if hashing == "sha256" else "fast"
    stage = Importance(hashing=kind, buckets=buckets, min_words=min_words)
    made = verbs.make(stage, {"docs": docs, "target": target}, out, workers=workers, reporter=reporter(quiet, as_json))
    answer(made, artifact_lines(made), as_json)


def _score_of(text: str | None) -> str | tuple[tuple[str, float], ...] | None:
    if text is None or ("=" not in text and "," not in text):
        return text
    pairs = [part.partition("=") for part in text.split(",")]
    return tuple((name.strip(), _number(weight or "1", "--score")) for name, _, weight in pairs)


def _shares(given: tuple[str, ...], option: str) -> Mapping[str, float]:
    shares = {}
    for text in given:
        name, equals, share = text.rpartition("=")
        if not equals:
            raise FixInput(f"{option} reads STRATUM=SHARE, for example web=0.5, got {text!r}")
        shares[name] = _number(share, option)
    return shares


def _number(text: str, option: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise FixInput(f"{option}: {text!r} is not a number") from None


def _quota_lines(made: Artifact) -> list[str]:
    """Budget, what was met, and where quota had to move or is missing."""
    decision = made.manifest.decision
    unit = decision["unit"]
    lines = [f"  budget {decision['budget']:,} {unit}, met {decision['met']:,}"]
    moved = {level: n for level, n in decision["moved"].items() if n}
    if moved:
        told = ", ".join(f"{n:,} inside the {level}" if level != "all" else f"{n:,} anywhere" for level, n in moved.items())
        lines.append(f"  strata that ran out passed on {told}")
    if decision["short"]:
        lines.append(f"  {decision['short']:,} {unit} found no document: the strata asked for hold no more")
    repeated = [row for row in decision["strata"] if row["extra"]]
    if repeated:
        names = ", ".join("/".join(row["stratum"]) or "all" for row in repeated[:SHORT_SHOWN])
        lines.append(f"  {len(repeated)} strata are taken more than once: {names}")
    return lines
