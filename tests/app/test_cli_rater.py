"""`typecase rater`: fitting of every kind, cards, and mistakes told in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from tests.lm.tiny import one_thread
from tests.train.made import RUBRIC_TEXT, make_folder
from typecase.app.commands.rater import rater_command
from typecase.app.fit import fitting
from typecase.errors import AlreadyExists, BadQuery, NotFound, TypecaseError
from typecase.lm.head import head
from typecase.lm.head.head import HeadCard
from typecase.lm.rate.rater import pack_texts
from typecase.lm.rate.raters import open_rater
from typecase.lm.rate.rubric import load_rubric
from typecase.lm.rate.seeds import read_seeds
from typecase.lm.starter.fit import Card
from typecase.lm.starter.starter import open_rater as open_starter

assert one_thread


@pytest.fixture
def place(tmp_path: Path) -> Path:
    make_folder(tmp_path / "notes")
    (tmp_path / "notes.toml").write_text(RUBRIC_TEXT)
    return tmp_path


def run(*arguments: object) -> str:
    done = CliRunner().invoke(rater_command, [str(a) for a in arguments], catch_exceptions=True)
    if isinstance(done.exception, TypecaseError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def fit_lm(place: Path, name: str, *more: object) -> str:
    return run(
        *("fit", place / "notes", "-o", place / name, "--kind", "lm", "--rubric", place / "notes.toml"),
        *("--model", "tiny", "--window", 24, "--epochs", 0.2, "--batch", 8, "--device", "cpu", *more),
    )


def test_a_language_model_is_fitted_shown_and_reproduced(place: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    told = fit_lm(place, "one", "--every", 1)
    assert "lm rater -> " in told and "RATER_CARD.md" in told and "majority" in told and "loud" in told
    made: dict[str, Any] = json.loads(fit_lm(place, "two", "--every", 1, "--json"))
    assert made["kind"] == "lm" and made["figures"]["documents"] == 20
    for name in ("RATER_CARD.md", "rater.toml", "figures.json", "model/model.safetensors"):
        assert (place / "one" / name).read_bytes() == (place / "two" / name).read_bytes()
    card = json.loads(run("card", place / "two", "--json"))
    assert made["fingerprint"] in card["card"] and card["figures"] == made["figures"]
    assert run("card", place / "two").startswith("# Rater notes-lm")


@pytest.mark.slow
def test_a_starter_is_fitted_to_seeds_and_to_any_annotation_set(place: Path) -> None:
    more = ("--rubric", place / "notes.toml")
    run("fit", place / "notes", "-o", place / "direct", *more)
    (place / "apart").mkdir()
    texts = (place / "notes" / "documents.jsonl").rename(place / "apart" / "texts.jsonl")
    run("fit", place / "notes" / "ratings.jsonl", "--docs", texts, "-o", place / "joined", *more)
    direct, joined = open_starter(place / "direct"), open_starter(place / "joined")
    assert direct.fingerprint == joined.fingerprint
    said = direct.rate(*pack_texts(["fish boat wave salt tide"]))
    assert said.domain_names() == ["Sea"]
    assert run("card", place / "joined") == (place / "joined" / "STARTER_CARD.md").read_text()


def test_a_starter_is_taught_the_same_whatever_form_the_annotations_have(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def fit_starter(folder: Path, out: Path, *, seed: int, rubric: str) -> Card:
        seen.append(read_seeds(folder, load_rubric(rubric)))
        out.mkdir()
        return Card("f" * 32, {}, "")

    monkeypatch.setattr(fitting, "fit_starter", fit_starter)
    more = ("--rubric", place / "notes.toml")
    assert "starter rater -> " in run("fit", place / "notes", "-o", place / "direct", *more)
    texts = (place / "notes" / "documents.jsonl").rename(place / "texts.jsonl")
    run("fit", place / "notes" / "ratings.jsonl", "--docs", texts, "-o", place / "joined", *more)
    direct, joined = seen
    assert direct.ids == joined.ids and direct.texts == joined.texts and direct.sources == joined.sources
    np.testing.assert_array_equal(direct.scores, joined.scores)
    np.testing.assert_array_equal(direct.votes, joined.votes)


def test_a_head_is_given_what_was_read_and_its_encoder(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def fit_head(taught: Any, out: Path, *, seed: int, rubric: str, encoder: str) -> HeadCard:
        seen.append((taught, seed, rubric, encoder))
        out.mkdir()
        return HeadCard("f" * 32, {}, "")

    monkeypatch.setattr(head, "fit_head", fit_head)
    more = ("--kind", "head", "--model", "none", "--rubric", place / "notes.toml", "--seed", 4)
    assert "head rater -> " in run("fit", place / "notes", "-o", place / "direct", *more)
    run("fit", place / "notes" / "ratings.jsonl", "-o", place / "joined", *more)
    folder, documents = seen[0][0], seen[1][0]
    assert folder == place / "notes" and len(documents) == 120
    assert seen[0][1:] == seen[1][1:] == (4, str(place / "notes.toml"), "none")


@pytest.mark.slow
def test_a_head_is_fitted_and_has_a_card(place: Path) -> None:
    make_folder(place / "more", num=200, sources=20)
    run("fit", place / "more", "-o", place / "head", "--kind", "head", "--model", "none", "--rubric", place / "notes.toml")
    said = open_rater(place / "head").rate(*pack_texts(["fish boat wave salt tide"]))
    assert said.domain_names() == ["Sea"] and run("card", place / "head").startswith("# ")


def test_the_shipped_card_is_shown_without_a_name_and_by_its_name() -> None:
    assert run("card").startswith("# Starter rater")
    assert run("card") == run("card", "starter")


def test_mistakes_are_told(place: Path) -> None:
    with pytest.raises(BadQuery, match="--lora belongs to --kind lm"):
        run("fit", place / "notes", "-o", place / "out", "--lora", 4)
    with pytest.raises(BadQuery, match="--batch-tokens belongs to --kind lm, a head has"):
        run("fit", place / "notes", "-o", place / "out", "--kind", "head", "--model", "none", "--batch-tokens", 4)
    with pytest.raises(AlreadyExists, match="choose another folder"):
        run("fit", place / "notes", "-o", place)
    with pytest.raises(NotFound, match="no card in"):
        run("card", place)
    with pytest.raises(NotFound, match=r"no ratings\.jsonl"):
        run("fit", place, "-o", place / "out", "--kind", "lm")
    assert not (place / "out").exists()
