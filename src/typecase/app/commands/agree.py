"""Commands about trusting ratings: agree, calibrate, drift, compare."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from typecase.app.agree import agreeing, calibrating, comparing, drifting
from typecase.app.agree.compare_writing import HOWS, How, Plan
from typecase.app.agree.printing import agreement_lines, asked_lines, calibration_lines, compared_lines, drift_lines
from typecase.app.options import answer, json_option
from typecase.errors import BadQuery
from typecase.lm.rate.pairwise import VOTES, WORDS

PATH = click.Path(path_type=Path)
_KEYS = {"k": "keep", "d": "drop", "s": "skip"}


@click.command(name="agree")
@click.argument("sets", nargs=-1, required=True)
@click.option("--docs", type=PATH, help="The documents: sources, lengths. Found by itself for ratings that `rate` made.")
@click.option("--people", multiple=True, help="Which of the SETS people made.")
@click.option("--rubric", default="dataman", show_default=True, help="Name or TOML file.")
@click.option("--by", multiple=True, type=click.Choice(agreeing.BREAKDOWNS), help="Break down; may be given again.")
@click.option("--criterion", help="What is broken down; the rubric's summary by default.")
@click.option("--group", help="What intervals draw: source, document, or a key of the documents (a cluster of near copies).")
@click.option("--resamples", default=agreeing.RESAMPLES, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--whole", is_flag=True, help="Every figure, and the confusion tables.")
@json_option
def agree_command(
    sets: tuple[str, ...], docs: Path | None, people: tuple[str, ...], rubric: str, by: tuple[str, ...], criterion: str | None,
    group: str | None, resamples: int, seed: int, whole: bool, as_json: bool,
) -> None:  # fmt: skip
    """How far two SETS of ratings or more say the same; the last of each pair is the reference.

    A set is a folder of ratings, a file of JSON lines, or FILE#RATER. One file with several readings a document is compared
    with itself, reading by reading.
    """
    found = agreeing.agree(
        sets, docs=docs, rubric=rubric, by=by, criterion=criterion, group=group, people=people, resamples=resamples, seed=seed
    )
    answer(found, [] if as_json else agreement_lines(found, whole=whole), as_json)


@click.command(name="calibrate")
@click.argument("docs", required=False, type=PATH)
@click.option("--ratings", type=PATH, help="Scores of the documents.")
@click.option("-o", "--out", type=PATH, help="File of labels; an existing one is continued.")
@click.option("--labels", type=PATH, help="Ask nobody: propose a threshold from this file of labels.")
@click.option("--precision", type=float, help="Wish: at least this share of the kept is worth keeping.")
@click.option("--keep-rate", type=float, help="Wish: keep this share of all documents.")
@click.option("--criterion", help="The score to cut on; the rubric's summary by default.")
@click.option("--rubric", default="dataman", show_default=True, help="Name or TOML file.")
@click.option("--sample", default=200, show_default=True, help="Documents to ask about.")
@click.option("--bins", default=5, show_default=True, help="Score bins; each is drawn alike within each source.")
@click.option("--seed", default=0, show_default=True)
@click.option("--scores", is_flag=True, help="Show the score while asking; it sways people.")
@click.option("--shape", type=click.Choice(["isotonic", "logistic"]), default="isotonic", show_default=True)
@json_option
def calibrate_command(
    docs: Path | None, ratings: Path | None, out: Path | None, labels: Path | None, precision: float | None,
    keep_rate: float | None, criterion: str | None, rubric: str, sample: int, bins: int, seed: int, scores: bool,
    shape: str, as_json: bool,
) -> None:  # fmt: skip
    """Say keep or drop for a drawn sample of DOCS; get the threshold for a wished precision or keep rate."""
    if labels is None:
        if docs is None or ratings is None or out is None:
            raise BadQuery("give DOCS, --ratings and -o to ask people, or --labels to propose a threshold")
        session = calibrating.open_session(
            docs, ratings, out, criterion=criterion, rubric=rubric, size=sample, bins=bins, seed=seed
        )
        _ask(session, calibrating.LabelFile(out), scores)
        progress = session.progress
        if precision is None and keep_rate is None:
            lines = [", ".join(f"{n} {name}" for name, n in progress.items()) + f" -> {out}"]
            answer(progress, [*lines, f"next: typecase calibrate --labels {out} --precision 0.9"], as_json)
            return
    found = calibrating.propose_from(
        labels or out or Path(), precision=precision, keep_rate=keep_rate, ratings=ratings,
        shape="logistic" if shape == "logistic" else "isotonic", seed=seed,
    )  # fmt: skip
    answer(found, [] if as_json else calibration_lines(found), as_json)


def _ask(session: calibrating.Session, file: calibrating.LabelFile, scores: bool) -> None:
    """One document after the other, a line of input each; the end of input stops as q does."""
    keys = sys.stdin
    whole = False
    while (one := session.current) is not None:
        done = len(session.asked) - session.progress["open"]
        for line in asked_lines(one, done, len(session.asked), scores=scores, whole=whole):
            click.echo(line, err=True)
        click.echo("k keep  d drop  s skip  u undo  m more  q quit > ", nl=False, err=True)
        given = keys.readline()
        key = given.strip().lower()[:1]
        whole = key == "m"
        if not given or key == "q":
            break
        if key == "u":
            taken_back = session.undo()
            if taken_back is not None:
                file.append(taken_back)
        elif key in _KEYS:
            file.append(session.answer(_KEYS[key]))
    click.echo("", err=True)


@click.command(name="drift")
@click.argument("old", required=False)
@click.argument("new", required=False)
@click.option("--anchors", nargs=2, metavar="OLD NEW", help="Ratings of the same documents, then and now: did the rater move?")
@click.option("--by", help="Compare the parts of OLD with the rest: source, file, or a key of the documents.")
@click.option("--docs", type=PATH, help="The documents; found by itself for ratings that `rate` made.")
@click.option("--rubric", default="dataman", show_default=True, help="Name or TOML file.")
@click.option("--tolerance", default=0.1, show_default=True, help="Levels that the mean of the anchors may move.")
@click.option("--resamples", default=drifting.RESAMPLES, show_default=True)
@click.option("--seed", default=0, show_default=True)
@json_option
def drift_command(
    old: str | None, new: str | None, anchors: tuple[str, str] | None, by: str | None, docs: Path | None, rubric: str,
    tolerance: float, resamples: int, seed: int, as_json: bool,
) -> None:  # fmt: skip
    """Whether the ratings OLD and NEW come from the same place, and whether the rater itself moved. Exit code 1 on an alarm."""
    found = drifting.drift(
        old, new, docs=docs, by=by, anchors=anchors or None, rubric=rubric, tolerance=tolerance, resamples=resamples, seed=seed
    )
    answer(found, [] if as_json else drift_lines(found), as_json)
    if found.alarm:
        raise click.exceptions.Exit(1)


@click.command(name="compare")
@click.argument("docs", type=PATH)
@click.option("-o", "--out", required=True, type=PATH, help="Folder of the ratings; an interrupted one is continued.")
@click.option("--model", required=True, help="A folder, a .gguf file, http://host/v1#name, or a .toml with a [model] table.")
@click.option("--criterion", "criteria", multiple=True, help="Of the rubric; all of them by default.")
@click.option("--rubric", default="qurating", show_default=True, help="Name or TOML file.")
@click.option("--pairs", required=True, type=int, help="Pairs for each criterion; ten a document rank well.")
@click.option("--how", type=click.Choice(HOWS), default="random", show_default=True)
@click.option("--rounds", default=4, show_default=True, help="Rounds of choosing telling pairs.")
@click.option("--sample", type=int, help="Compare so many documents, drawn by their ids; all by default.")
@click.option("--words", default=WORDS, show_default=True, help="Longest excerpt.")
@click.option("--votes", default=VOTES, show_default=True, help="Answers drawn where no chances are told.")
@click.option("--confidence", default=0.0, show_default=True, help="Leave out pairs closer to a tie; QuRating takes 0.5.")
@click.option("--anchors", default=24, show_default=True, help="Documents kept for rating others; 0 for none.")
@click.option("--seed", default=0, show_default=True)
@json_option
def compare_command(
    docs: Path, out: Path, model: str, criteria: tuple[str, ...], rubric: str, pairs: int, how: How, rounds: int,
    sample: int | None, words: int, votes: int, confidence: float, anchors: int, seed: int, as_json: bool,
) -> None:  # fmt: skip
    """Rate DOCS by comparing them pair by pair with a language model."""
    plan = Plan(pairs, how, rounds, sample, words, votes, confidence, anchors, seed)
    found = comparing.compare(docs, out, model=model, criteria=criteria, rubric=rubric, plan=plan)
    answer(found, [] if as_json else compared_lines(found), as_json)
