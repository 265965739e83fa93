"""Pairs to teach a refiner with: from every kind of evidence, each with its balance."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from tests.conftest import make_docs_artifact, make_documents
from typecase.core.program.guards import STRICT
from typecase.core.program.language import Program
from typecase.core.program.parse import parse
from typecase.core.program.run import run
from typecase.core.twins.marks import Twin
from typecase.errors import AlreadyExists, BadQuery, CorruptStore, NotFound
from typecase.recipe.refine import Refine
from typecase.recipe.run import run_stage
from typecase.store.twins import write_twins
from typecase.train.refiner_pairs import Pair, collect_pairs, read_pairs

BODY = "The boats lay in the sun and the children counted them from the wall.\n" * 3
PAGE = "Home | About us\n" + BODY + "Copyright 2019 Somebody. All rights reserved.\n"


def lines_of(path: Path, *rows: object) -> Path:
    path.write_bytes(b"\n".join(orjson.dumps(row) for row in rows))
    return path


def only(pairs: tuple[Pair, ...]) -> Pair:
    (pair,) = pairs
    return pair


def done(pair: Pair) -> str:
    program = parse(pair.program or "")
    assert isinstance(program, Program)
    from dataclasses import replace

    return run(program, pair.text, replace(STRICT, nth=True, protected=())).text


def test_twins_teach_the_lines_that_go(tmp_path: Path) -> None:
    twin = Twin(PAGE, (0, 4), "plain", "hugo", "pkg", "a.html", "MIT")
    write_twins(tmp_path / "train.jsonl.zst", [twin])
    manifest = collect_pairs([("twins", tmp_path / "train.jsonl.zst")], tmp_path / "out")
    pair = only(read_pairs(tmp_path / "out").pairs)
    assert pair.source == "hugo" and pair.decision is None and done(pair).strip() == BODY.strip()
    assert manifest.balance is not None and manifest.balance.entered == manifest.balance.kept == 1
    assert manifest.counts["twins"] == manifest.counts["pairs"] == 1


def test_of_a_folder_of_twins_only_those_that_are_taught_are_read(tmp_path: Path) -> None:
    write_twins(tmp_path / "train.jsonl.zst", [Twin(PAGE, (0, 4), "plain", "hugo", "pkg", "a.html", "MIT")])
    write_twins(tmp_path / "held.jsonl.zst", [Twin(PAGE + "More.\n", (0, 4), "plain", "held", "pkg", "b.html", "MIT")])
    (tmp_path / "peers.jsonl.zst").write_bytes(b"no twins at all")
    collect_pairs([("twins", tmp_path)], tmp_path / "out")
    assert only(read_pairs(tmp_path / "out").pairs).source == "hugo"
    (tmp_path / "train.jsonl.zst").unlink()
    with pytest.raises(NotFound, match=r"train\.jsonl\.zst"):
        collect_pairs([("twins", tmp_path)], tmp_path / "none")


def test_twins_that_a_guard_would_leave_as_they_are_teach_nothing(tmp_path: Path) -> None:
    menu = "".join(f"An entry of a menu, number {n} of many\n" for n in range(40))
    write_twins(tmp_path / "train.jsonl.zst", [Twin(menu + BODY, tuple(range(40)), "plain", "hugo", "pkg", "a.html", "MIT")])
    manifest = collect_pairs([("twins", tmp_path)], tmp_path / "out")
    assert not read_pairs(tmp_path / "out").pairs and manifest.balance is not None
    ((reason, number),) = manifest.balance.removed.items()
    assert reason.startswith("guarded: G_") and number == manifest.balance.entered == 1


def test_texts_are_aligned_and_what_is_no_deletion_is_counted(tmp_path: Path) -> None:
    rows = [
        {"noisy": PAGE, "clean": BODY, "source": "site"},
        {"noisy": BODY, "clean": BODY + "More."},
        {"noisy": "buy buy buy", "clean": ""},
        {"noisy": PAGE, "clean": BODY},
    ]
    collect_pairs([("texts", lines_of(tmp_path / "t.jsonl", *rows))], tmp_path / "out")
    found = read_pairs(tmp_path / "out")
    assert found.balance.as_dict() == {
        "in": 4, "kept": 2, "removed": {"adds text, which no deletion can": 1, "the same text twice": 1}, "quarantined": {},
    }  # fmt: skip
    assert [(pair.source, pair.decision) for pair in found.pairs] == [("site", "keep"), ("t", "drop")]
    assert done(found.pairs[0]).strip() == BODY.strip() and found.pairs[1].program is None


def test_a_log_of_injections_is_undone(tmp_path: Path) -> None:
    at = BODY.index("and")
    text = BODY[:at] + "[ad] " + BODY[at:] + "Subscribe now\n"
    row = {"text": text, "injected": [[len(text) - 14, len(text)], [at, at + 5]], "source": "x"}
    collect_pairs([("log", lines_of(tmp_path / "log.jsonl", row))], tmp_path / "out")
    assert done(only(read_pairs(tmp_path / "out").pairs)).strip() == BODY.strip()
    with pytest.raises(CorruptStore, match="does not lie in its text"):
        collect_pairs([("log", lines_of(tmp_path / "bad.jsonl", {"text": "ab", "injected": [[1, 9]]}))], tmp_path / "no")
    assert not (tmp_path / "no").exists()


def test_rules_and_runs_teach_what_they_did(tmp_path: Path) -> None:
    texts = [PAGE, BODY, "word " * 4, "Skip to content\n" + BODY * 2]
    docs = make_docs_artifact(tmp_path / "docs", make_documents(texts))
    refined = run_stage(Refine(), {"docs": docs}, tmp_path / "refined").folder
    collect_pairs([("run", refined)], tmp_path / "run")
    collect_pairs([("rules", docs)], tmp_path / "rules")
    by_run, by_rules = read_pairs(tmp_path / "run"), read_pairs(tmp_path / "rules")
    assert {pair.text for pair in by_run.pairs} <= set(texts) and len(by_rules.pairs) == 4
    edited = [pair for pair in by_rules.pairs if pair.program not in (None, "keep_all()")]
    assert edited and all(done(pair) != pair.text for pair in edited)
    assert by_run.balance.entered == 4


def test_equal_evidence_gives_equal_bytes_and_nothing_is_half_made(tmp_path: Path) -> None:
    evidence = [("texts", lines_of(tmp_path / "t.jsonl", {"noisy": PAGE, "clean": BODY}))]
    for name in ("a", "b"):
        collect_pairs(evidence, tmp_path / name)  # type: ignore[arg-type]
    assert (tmp_path / "a" / "pairs.jsonl.zst").read_bytes() == (tmp_path / "b" / "pairs.jsonl.zst").read_bytes()
    assert read_pairs(tmp_path / "a").fingerprint == read_pairs(tmp_path / "b").fingerprint
    with pytest.raises(AlreadyExists):
        collect_pairs(evidence, tmp_path / "a")  # type: ignore[arg-type]
    with pytest.raises(BadQuery, match="no evidence"):
        collect_pairs([], tmp_path / "c")
    with pytest.raises(NotFound):
        collect_pairs([("texts", tmp_path / "none")], tmp_path / "c")
    with pytest.raises(CorruptStore, match="line 1 has no clean"):
        collect_pairs([("texts", lines_of(tmp_path / "u.jsonl", {"noisy": "x"}))], tmp_path / "c")
    with pytest.raises(NotFound, match="refiner pairs"):
        read_pairs(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b", "t.jsonl", "u.jsonl"]
