"""The command line: the verbs, their options, and errors as one line and an exit code.

Commands live in their own modules and are imported when they are called, so that `typecase --help` stays quick.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

from typecase.errors import TypecaseError

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("recipe", "Run a recipe file end to end, resumable."),
    "plan": ("plan", "What a recipe takes for a corpus of a wished size, measured on a sample."),
    "ingest": ("stages", "Read files into a document store; quarantine what cannot be read."),
    "rate": ("rate", "Score every document: qualities, domain, confidence."),
    "rater": ("rater", "Train a rater; print its model card."),
    "rubric": ("rubric", "The criteria: list them, show one, derive one of your own."),
    "perplexity": ("rubric", "How surprising every document is to a language model."),
    "compare": ("agree", "Rate documents pair by pair with a language model."),
    "agree": ("agree", "How far raters, or a rater and people, say the same."),
    "calibrate": ("agree", "Say keep or drop for a sample; get the threshold."),
    "drift": ("agree", "Whether ratings, or the rater itself, have moved."),
    "analyse": ("analyse", "What ratings say of a corpus, and what they are worth."),
    "refine": ("refine", "Write and run a refining program for every document; show, compare and judge them."),
    "refiner": ("refiner", "Train a line tagger; print its model card."),
    "dedup": ("dedup", "Remove copies, near duplicates, or documents of repeated spans."),
    "decontaminate": ("dedup", "Remove what shares n-grams with evaluation files."),
    "select": ("select", "Keep documents up to a budget, with a reason for every row."),
    "importance": ("select", "How much more like a target than the corpus every document is."),
    "mix": ("mix", "From weights to tokens, epochs and repeats; from proxy runs to weights."),
    "build": ("stages", "Tokenise documents into a Megatron .bin/.idx with provenance."),
    "train": ("train", "Train a small model on exactly the tokens that trace shows."),
    "evaluate": ("evaluate", "What a model is worth: perplexity, tasks, a judge, and whether a difference is one."),
    "ablate": ("ablate", "Several data recipes and seeds, one model, equal tokens, one table."),
    "merge": ("tokens", "Join token sets in the given order."),
    "info": ("tokens", "Say what lies at a path."),
    "show": ("tokens", "Show documents as text and tokens, with boundaries marked."),
    "export": ("tokens", "Write documents to JSONL, CSV, Parquet or a .bin/.idx subset."),
    "index": ("search", "Build a search index over a token set of any maker."),
    "search": ("search", "Where a text stands, what follows it, what is repeated, what was copied."),
    "trace": ("trace", "Ask a training run: what a step saw, when something was seen, what it will see."),
    "order": ("order", "The index files of a training run: find, check, write."),
    "sample": ("trace", "Training samples by index, step or policy; show or export them."),
    "edit": ("edit", "Change what a model will see, see what that changes, and take it back."),
    "audit": ("audit", "Which tokens no text makes, a corpus never shows, a run will not train."),
    "report": ("report", "What became of the documents: funnel, shares, distributions, variety, warnings."),
    "serve": ("serve", "Open the workbench in a browser: documents, runs, and what to look at."),
    "copy": ("copy", "Copy an artifact to an object store, or back."),
    "doctor": ("tokens", "Examine a token set or artifact; repair into a new one."),
    "why": ("recipe", "Print the tree of parents of an artifact, or the fate of a document."),
}

INTERRUPTED = 130


class Lazy(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"typecase.app.commands.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="typecase")
def typecase() -> None:
    """See, search, edit, rate, refine, select and audit the exact tokens that a model trains on."""


def main(argv: list[str] | None = None) -> None:
    """Runs the command line and exits: 0 well, 2 fix the input, 3 conflict, 4 damaged data, 5 try again, 130 interrupted."""
    arguments = sys.argv[1:] if argv is None else argv
    as_json = "--json" in arguments
    try:
        code = typecase.main(arguments, prog_name="typecase", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except TypecaseError as error:
        _fail(type(error).__name__, str(error), error.exit_code, as_json)
    except click.ClickException as error:
        if as_json:
            _fail("Usage", error.format_message(), error.exit_code, as_json)
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        print("interrupted; finished shards are kept: run the same command again to resume", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _fail("System", f"{where}{error.strerror or error}", 1, as_json)


def _fail(kind: str, message: str, code: int, as_json: bool) -> None:
    if as_json:
        import orjson

        value: dict[str, Any] = {"error": {"kind": kind, "message": message, "exit_code": code}}
        sys.stderr.write(orjson.dumps(value).decode() + "\n")
    else:
        click.echo(click.style("error: ", fg="red", bold=True) + message, err=True)
    sys.exit(code)
