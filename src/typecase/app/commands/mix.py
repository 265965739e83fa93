"""Commands that mix: plan, swarm, fit, propose, whatif."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import click

from typecase.app.mix import mixing
from typecase.app.mix.files import mix_available, mix_weights, plan_table, write_plan
from typecase.app.mix.law import Wanted, fit, judged_row, make_proposal, proposal_table
from typecase.app.mix.printing import law_lines, plan_lines, proposal_lines, reply_lines
from typecase.app.mix.runs import Table
from typecase.app.options import answer, json_option
from typecase.core.mixing.law import DAMPING
from typecase.core.mixing.session import HELP
from typecase.core.mixing.shares import OVERS, UNITS, label_of, parse_number, parse_weights
from typecase.core.mixing.swarm import Swarm
from typecase.core.selection.policy import Budget
from typecase.core.selection.quota import Label
from typecase.errors import BadQuery, FixInput

F = TypeVar("F", bound=Callable[..., Any])
PATH = click.Path(path_type=Path)


def pool_options(command: F) -> F:
    """What is mixed: --by, --ratings, --tokenizer of a folder of documents."""
    command = click.option("--tokenizer", help="Counts the tokens of documents.")(command)
    command = click.option("--ratings", type=PATH, help="Folder of ratings, for --by domain.")(command)
    return click.option("--by", default="source", show_default=True, help="Columns that make groups, with commas.")(command)


@click.group(name="mix")
def mix_command() -> None:
    """From weights to tokens, epochs and repeats; from proxy runs to weights."""


@mix_command.command(name="plan")
@click.argument("inputs", nargs=-1, required=True)
@click.option("-w", "--weight", "weights", multiple=True, help="NAME=NUMBER; again, or with commas. * is every other group.")
@click.option("--from", "source", type=PATH, help="Weights of a mix that propose or whatif wrote.")
@click.option("--unit", type=click.Choice(UNITS), help="What the numbers count. Must be said with --weight.")
@click.option("--budget", help="Tokens: 10M, 1.5B. Left out, weights in epochs are taken as they stand.")
@click.option("--cap", "caps", multiple=True, help="EPOCHS, or NAME=EPOCHS; 4 by default.")
@click.option("--over", type=click.Choice(OVERS), default="warn", show_default=True, help="What happens above a cap.")
@click.option("-o", "--out", type=PATH, help=".json or .toml: plan, quota table for select, blend weights.")
@pool_options
@json_option
def plan_command(
    inputs: tuple[str, ...], weights: tuple[str, ...], source: Path | None, unit: Any, budget: str | None,
    caps: tuple[str, ...], over: Any, out: Path | None, by: str, ratings: Path | None, tokenizer: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Show what weights take of INPUTS: tokens, epochs and repeats of every group, before anything is made.

    INPUTS are one folder of documents, or token sets as PATH or NAME=PATH.
    """
    spelled, unit = _weights(weights, source, unit)
    pool = mixing.read_pool(inputs, by=_names(by), ratings=ratings, tokenizer=tokenizer)
    made = mixing.plan(pool, spelled, unit=unit, budget=_tokens(budget), caps=_caps(caps), over=over, out=out)
    answer(plan_table(made, by=pool.by, strata=pool.strata, paths=pool.paths), plan_lines(made), as_json)


@mix_command.command(name="swarm")
@click.argument("inputs", nargs=-1)
@click.option("--available", multiple=True, help="NAME=TOKENS, or a mix file; instead of INPUTS.")
@click.option("-n", "--count", default=64, show_default=True, help="Proxy runs.")
@click.option("-o", "--out", required=True, type=PATH, help="CSV, a row a run.")
@click.option("--budget", help="Tokens of one proxy run; caps domains at --epochs.")
@click.option("--epochs", default=15.0, show_default=True, help="The most of a domain in a proxy run.")
@click.option("--smoothing", default=0.5, show_default=True, help="Exponent on available tokens.")
@click.option("--strengths", default="0.1,5,15", show_default=True, help="FIRST,LAST,HOW MANY of the draws: small, one domain.")
@click.option("--distance", default=0.0, show_default=True, help="The least total variation between two mixes.")
@click.option("--keep", type=PATH, help="A mix whose ratios hold outside --changed.")
@click.option("--changed", help="Domains that are free with --keep, with commas.")
@click.option("--seed", default=0, show_default=True)
@pool_options
@json_option
def swarm_command(
    inputs: tuple[str, ...], available: tuple[str, ...], count: int, out: Path, budget: str | None, epochs: float,
    smoothing: float, strengths: str, distance: float, keep: Path | None, changed: str | None, seed: int, by: str,
    ratings: Path | None, tokenizer: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Draw the mixes that proxy models are to be trained on."""
    there = _available(available)
    if inputs:
        pool = mixing.read_pool(inputs, by=_names(by), ratings=ratings, tokenizer=tokenizer)
        there = {group.name: group.tokens for group in pool.groups}
    settings = Swarm(
        smoothing=smoothing, strengths=_strengths(strengths), distance=distance, epochs=epochs, budget=_tokens(budget)
    )  # fmt: skip
    made = mixing.swarm(there, count, out, settings=settings, seed=seed, keep=keep, changed=_names(changed or ""))
    answer({"runs": made, "out": out}, [f"{made} proxy mixes of {len(there)} domains -> {out}"], as_json)


@mix_command.command(name="fit")
@click.argument("runs", type=PATH)
@click.option("-o", "--out", type=PATH, help="The law, .json.")
@click.option("--domain", "domains", multiple=True, help="A column of weights; by default those called w.NAME.")
@click.option("--target", "targets", multiple=True, help="A column of losses; by default those called loss.NAME.")
@click.option("--losses", type=PATH, help="A CSV of the losses where RUNS has the weights alone, as RegMix published its runs.")
@click.option("--check", type=PATH, help="The same table of runs of a larger model.")
@click.option("--check-losses", type=PATH, help="Their losses, where --check has the weights alone.")
@click.option("--damping", default=DAMPING, show_default=True, help="Ridge of the law.")
@click.option("--seed", default=0, show_default=True, help="Of folds and intervals.")
@json_option
def fit_command(
    runs: Path, out: Path | None, domains: tuple[str, ...], targets: tuple[str, ...], losses: Path | None, check: Path | None,
    check_losses: Path | None, damping: float, seed: int, as_json: bool,
) -> None:  # fmt: skip
    """Fit the mixing law to RUNS, a CSV with the weights and the losses of every proxy run, and say what it is worth.

    With --losses the runs lie in two tables, as RegMix published them; rows are joined by their first column.
    """
    if check_losses is not None and (check is None or losses is None):
        raise BadQuery("--check-losses goes with --check, and with --losses")
    proxies = Table(runs, losses, domains, targets)
    larger = Table(check, check_losses or None, domains, targets) if check is not None else None
    made = fit(proxies, out=out, check=larger, damping=damping, seed=seed)
    value = {
        "domains": made.domains, "targets": made.targets, "ceiling": made.ceiling, "warnings": made.warnings, "out": out,
        "judged": [judged_row(one) for one in made.judged], "larger": [judged_row(one) for one in made.larger],
    }  # fmt: skip
    answer(value, law_lines(made, str(out) if out else None), as_json)


@mix_command.command(name="propose")
@click.argument("law", type=PATH)
@click.option("--budget", required=True, help="Tokens of the real run: 10B.")
@click.option("--available", multiple=True, help="NAME=TOKENS with commas, or a mix file; a domain not named is unlimited.")
@click.option("--repeats", default="4", show_default=True, help="The most epochs of a domain.")
@click.option("--floor", "floors", multiple=True, help="NAME=SHARE at least.")
@click.option("--cap", "caps", multiple=True, help="NAME=SHARE at most.")
@click.option("--kl", "nearness", default=0.0, show_default=True, help="Weight of the divergence from the prior.")
@click.option("--prior", multiple=True, help="NAME=WEIGHT, or a mix file; by default what is available.")
@click.option("--importance", multiple=True, help="TARGET=NUMBER; 1 by default.")
@click.option("--keep", type=PATH, help="A mix whose ratios hold outside --changed.")
@click.option("--changed", help="Domains that are free with --keep, with commas.")
@click.option("-o", "--out", type=PATH, help="The mix, .json or .toml, for mix plan --from.")
@json_option
def propose_command(
    law: Path, budget: str, available: tuple[str, ...], repeats: str, floors: tuple[str, ...], caps: tuple[str, ...],
    nearness: float, prior: tuple[str, ...], importance: tuple[str, ...], keep: Path | None, changed: str | None,
    out: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """The best mix under LAW that there is data for, with a proof of how good it is."""
    tokens = _tokens(budget)
    assert tokens is not None
    near = {n: Fraction(t) for n, t in mix_weights(Path(prior[0])).items()} if _is_file(prior) else _shares(prior)
    wanted = Wanted(
        budget=tokens, available=_available(available), repeats=parse_number(repeats), floors=_shares(floors),
        caps=_shares(caps), prior=near, nearness=nearness, importance=_shares(importance), keep=keep,
        changed=_names(changed or ""),
    )  # fmt: skip
    made = make_proposal(law, wanted, out=out)
    answer(proposal_table(made, law=law), proposal_lines(made, str(out) if out else None), as_json)


@mix_command.command(name="whatif")
@click.argument("inputs", nargs=-1, required=True)
@click.option("-w", "--weight", "weights", multiple=True, help="NAME=NUMBER to begin with; by default the mix as it lies.")
@click.option("--from", "source", type=PATH, help="Begin with a mix that propose or whatif wrote.")
@click.option("--unit", type=click.Choice(UNITS), help="What numbers count; tokens by default.")
@click.option("--budget", help="Tokens; by default as many as there are.")
@click.option("--cap", default="4", show_default=True, help="The most epochs of a group; off for none.")
@click.option("--law", type=PATH, help="Predicts losses of every mix.")
@pool_options
@json_option
def whatif_command(
    inputs: tuple[str, ...], weights: tuple[str, ...], source: Path | None, unit: Any, budget: str | None, cap: str,
    law: Path | None, by: str, ratings: Path | None, tokenizer: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Try mixes, one line at a time: `web 0.5`, `books x2`, `cap web 4`, `undo`, `save mix.json`; `help` says the rest."""
    pool = mixing.read_pool(inputs, by=_names(by), ratings=ratings, tokenizer=tokenizer)
    spelled: Mapping[Label, Fraction] | None = None
    if weights or source is not None:
        spelled, unit = _weights(weights, source, unit)
    whole = sum(group.tokens for group in pool.groups)
    session = mixing.open_session(
        pool, budget=_tokens(budget) or whole, unit=unit or "tokens", weights=spelled,
        cap=None if cap == "off" else parse_number(cap), law=law,
    )  # fmt: skip
    asks = sys.stdin.isatty() and not as_json
    for line in [] if as_json else reply_lines(session.show()) + ([f"  {one}" for one in HELP] if asks else []):
        click.echo(line)
    while (said := _read_line(asks)) is not None:
        reply = session.say(said)
        if reply.act == "quit":
            break
        lines = reply_lines(reply)
        if reply.act == "save":
            lines = [f"saved -> {reply.text}"]
            try:
                write_plan(Path(reply.text), reply.plan, by=pool.by, strata=pool.strata, paths=pool.paths)
            except FixInput as error:
                lines = [f"  ! {error}"]
        if not as_json:
            for one in lines:
                click.echo(one)
    if as_json:
        last = session.show()
        table = plan_table(last.plan, by=pool.by, strata=pool.strata, paths=pool.paths) | {"predicted": dict(last.predicted)}
        answer(table, [], True)


def _read_line(asks: bool) -> str | None:
    if asks:
        try:
            return str(click.prompt("mix", prompt_suffix="> ", default="", show_default=False))
        except click.Abort:
            return None
    line = sys.stdin.readline()
    return line.rstrip("\n") if line else None


def _weights(given: tuple[str, ...], source: Path | None, unit: Any) -> tuple[Mapping[Label, Fraction], Any]:
    """The weights and their unit: of a mix file they are tokens."""
    if (source is None) == (not given):
        raise BadQuery("give weights as --weight NAME=NUMBER, or a mix with --from, not both")
    if source is not None:
        if unit not in (None, "tokens"):
            raise BadQuery(f"a mix file has weights in tokens; leave out --unit {unit}")
        return {label_of(name): weight for name, weight in mix_weights(source).items()}, "tokens"
    if unit is None:
        raise BadQuery("say what the weights count: --unit tokens, documents or epochs")
    return parse_weights(given), unit


def _tokens(text: str | None) -> int | None:
    if text is None:
        return None
    budget = Budget.parse(text)
    if budget.tokens is None:
        raise BadQuery(f"a mix has a budget in tokens, got {text!r}; with --unit the weights may count documents or epochs")
    return budget.tokens


def _caps(given: tuple[str, ...]) -> dict[Label, Fraction]:
    """{label: epochs}; a bare number, or 4 when there is none, holds for every group; off for none."""
    bare = [text for text in given if "=" not in text]
    caps = parse_weights([text for text in given if "=" in text])
    if bare[-1:] != ["off"]:
        caps.setdefault((), parse_number(bare[-1]) if bare else Fraction(4))
    return caps


def _available(given: tuple[str, ...]) -> dict[str, int]:
    if _is_file(given):
        return mix_available(Path(given[0]))
    pieces = [piece.partition("=") for text in given for piece in text.split(",") if piece.strip()]
    missing = [name for name, sign, _ in pieces if not sign]
    if missing:
        raise BadQuery(f"--available {missing[0]!r} is neither NAME=TOKENS nor a mix file")
    return {name.strip(): _tokens(number) or 0 for name, _, number in pieces}


def _strengths(text: str) -> tuple[float, float, int]:
    parts = text.split(",")
    try:
        first, last, number = float(parts[0]), float(parts[1]), int(parts[2])
    except (ValueError, IndexError):
        raise BadQuery(f"--strengths reads FIRST,LAST,NUMBER, for example 0.1,5,15, got {text!r}") from None
    if len(parts) != 3:
        raise BadQuery(f"--strengths reads FIRST,LAST,NUMBER, for example 0.1,5,15, got {text!r}")
    return first, last, number


def _is_file(given: tuple[str, ...]) -> bool:
    return len(given) == 1 and "=" not in given[0]


def _shares(given: tuple[str, ...]) -> dict[str, Fraction]:
    return {"/".join(label): number for label, number in parse_weights(given).items()}


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
