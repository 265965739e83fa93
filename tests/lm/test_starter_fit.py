"""Making a starter rater: from a small made folder of seeds, any rubric, equal bytes, no source on both sides."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from typecase.core.learn.trees import Growth
from typecase.errors import BadRecipe, NotFound
from typecase.lm.rate.damage import DAMAGES, Dice, plant
from typecase.lm.rate.rater import pack_texts
from typecase.lm.rate.rubric import load_rubric
from typecase.lm.rate.seeds import read_classes, read_seeds, source_folds
from typecase.lm.starter.fit import fit_starter
from typecase.lm.starter.starter import load_starter, open_rater
from typecase.lm.starter.train import Settings

SEEDS = Path(__file__).parents[2] / "seeds"
SMALL = Growth(80, 2, 0.1, 0.8, 0.15, 2, 1)
QUICK = replace(Settings(), bits=12, folds=3, damage=SMALL, scores=SMALL, trust=SMALL)
RUBRIC = """
id = "tiny"
version = 1
scale = [1, 3]
[[criterion]]
id = "order"
question = "Is it in order?"
[[criterion]]
id = "wet"
question = "Does it speak of water?"
[[domain]]
id = "Sea"
letter = "S"
[[domain]]
id = "Land"
letter = "L"
"""
SEA, LAND = (
    ["fish", "boat", "wave", "salt", "net", "harbour", "tide"],
    ["field", "cow", "plough", "barn", "wheat", "hedge", "path"],
)


def in_lines(words: str) -> str:
    """A text of the form that the seeds have."""
    first, *rest = words.split()
    return "\n".join(f"The {word} is near the {first} number {line}." for line, word in enumerate([first, *rest] * 2))


def make_seeds(folder: Path) -> Path:
    """60 documents of 12 sources on sea or land; every fifth is a shuffled variant of the one before, rated lower."""
    folder.mkdir()
    dice = Dice(1)
    documents, ratings = [], []
    text = ""
    for doc in range(60):
        sea, variant = doc % 10 < 5, doc % 5 == 4
        if not variant:
            words = SEA if sea else LAND
            lines = [f"The {words[dice.below(7)]} is near the {words[dice.below(7)]} number {line}." for line in range(8)]
            text = "\n".join(lines)
        shown = " ".join(reversed(text.split("\n"))) if variant else text
        kind = {"variant_of": f"d{doc - 1}", "damage": "sentence-shuffle"} if variant else {"variant_of": None, "damage": None}
        documents.append({"id": f"d{doc}", "text": shown, "source": f"s{doc // 5}", **kind})
        ratings.append(
            {
                "id": f"d{doc}",
                "rater": "a",
                "domain": "Sea" if sea else "Land",
                "order": 1 if variant else 3,
                "wet": 3 if sea else 1,
            }
        )
    (folder / "documents.jsonl").write_text("".join(json.dumps(row) + "\n" for row in documents))
    (folder / "ratings.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ratings))
    (folder / "rubric.toml").write_text(RUBRIC)
    return folder


def test_a_rater_of_any_rubric_is_made_with_equal_bytes(tmp_path: Path) -> None:
    seeds = make_seeds(tmp_path / "seeds")
    cards = [fit_starter(seeds, tmp_path / out, seed=3, rubric=seeds / "rubric.toml", settings=QUICK) for out in ("a", "b")]
    assert cards[0] == cards[1]
    for name in ("starter.npz", "STARTER_CARD.md"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    rater = open_rater(tmp_path / "a")
    assert rater.fingerprint == cards[0].fingerprint and cards[0].fingerprint in cards[0].text
    ratings = rater.rate(*pack_texts([in_lines("boat net tide wave"), in_lines("cow barn field path"), ""]))
    assert ratings.domain_names() == ["Sea", "Land", None]
    assert ratings.scores[0, 1] > ratings.scores[1, 1] and ratings.rubric.columns == ("order", "wet")
    figures = cards[0].figures
    assert figures["domain"]["accuracy"] > 0.9 and figures["criteria"]["wet"]["rho"] > 0.5
    assert figures["damage"]["sentence-shuffle"]["variants"] == 12 and figures["sources"] == 12


def test_the_shipped_seeds_are_read_whole() -> None:
    seeds = read_seeds(SEEDS, load_rubric("dataman"))
    assert len(seeds) == 1619 and seeds.readings.sum() == 1732 and len(set(seeds.sources)) == 324
    assert ((seeds.scores >= 1) & (seeds.scores <= 5)).all() and np.allclose(seeds.votes.sum(axis=1), 1)
    classes = read_classes(SEEDS)
    assert classes is not None and set(classes) == set(load_starter().lexicon.classes)
    licences = {"id", "licence", "source", "text"}
    with pa.input_stream(str(SEEDS / "documents.jsonl.zst"), compression="zstd") as stream:
        rows = [json.loads(line) for line in stream.read().splitlines()]
    assert all(licences <= set(row) and row["licence"] for row in rows)


def test_no_source_lies_on_two_sides_and_folds_are_even() -> None:
    sources = tuple(f"s{i * i % 23}" for i in range(300))
    folds = source_folds(sources, folds=5, seed=1)
    assert all(len({int(f) for f, s in zip(folds, sources) if s == source}) == 1 for source in set(sources))
    assert set(folds.tolist()) == set(range(5))
    assert (folds == source_folds(sources, folds=5, seed=1)).all() and (folds != source_folds(sources, folds=5, seed=2)).any()


def test_a_part_of_the_seeds_forgets_originals_outside_it(tmp_path: Path) -> None:
    folder = make_seeds(tmp_path / "seeds")
    seeds = read_seeds(folder, load_rubric(folder / "rubric.toml"))
    part = seeds.pick(np.array([4, 8, 9]))
    assert part.original.tolist() == [-1, -1, 1] and part.ids == ("d4", "d8", "d9")


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("ratings", lambda row: row | {"wet": 9}, "'wet' must be a whole number 1..3, got 9"),
        ("ratings", lambda row: row | {"id": "d99"}, "there is no document 'd99'"),
        ("documents", lambda row: row | {"id": "d1"}, "share an id"),
        ("documents", lambda row: row | {"source": "other"}, "not of the source of its original"),
    ],
)
def test_seeds_that_contradict_themselves_are_refused(tmp_path: Path, name: str, change: object, message: str) -> None:
    folder = make_seeds(tmp_path / "seeds")
    path = folder / f"{name}.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[4] = change(rows[4])  # type: ignore[operator]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(BadRecipe, match=message):
        read_seeds(folder, load_rubric(folder / "rubric.toml"))


def test_a_document_without_a_reading_and_a_folder_without_seeds(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"no documents\.jsonl"):
        fit_starter(tmp_path, tmp_path / "out", seed=1)
    folder = make_seeds(tmp_path / "seeds")
    kept = (folder / "ratings.jsonl").read_text().splitlines()[1:]
    (folder / "ratings.jsonl").write_text("\n".join(kept))
    with pytest.raises(BadRecipe, match="1 documents have no rating, the first is 'd0'"):
        fit_starter(folder, tmp_path / "out", seed=1, rubric=folder / "rubric.toml")


@pytest.mark.parametrize("kind", sorted(DAMAGES))
def test_damage_changes_a_text_the_same_way_for_equal_dice(kind: str) -> None:
    text = "The boat is near the harbour. The tide is 'high' today.\n\nNets are dry, and salt is white.\n* one\n* two\n" * 4
    other = "A cow walks to the barn.\nWheat grows in the field behind it.\n" * 4
    first, second = (DAMAGES[kind](text, other, Dice(7)) for _ in range(2))
    assert first == second != text


def test_planting_takes_turns_and_weaves_only_within_a_pool() -> None:
    texts = [f"Text {i} speaks of one thing.\n" * 8 + f"mark{i}" for i in range(30)]
    copies = plant(texts, [f"s{i}" for i in range(30)], [i % 2 for i in range(30)], 66, seed=1)
    assert {kind for _, kind, _ in copies} == set(DAMAGES)
    for row, kind, text in copies:
        if kind == "interleaved":
            others = {int(word) for word in text.split() if word.isdigit()} - {row}
            assert len(others) == 1 and others.pop() % 2 == row % 2


@pytest.mark.slow
def test_the_shipped_weights_are_made_from_the_shipped_seeds(tmp_path: Path) -> None:
    """Equal fingerprints on the machine that made them; elsewhere a last bit may differ, but the ratings hardly."""
    fit_starter(SEEDS, tmp_path, seed=1)
    texts = list(read_seeds(SEEDS, load_rubric("dataman")).texts)[:200]
    fresh, shipped = (rater.rate(*pack_texts(texts)) for rater in (open_rater(tmp_path), load_starter()))
    assert np.abs(fresh.scores - shipped.scores).mean() < 0.02
    assert (fresh.domain == shipped.domain).mean() > 0.99
