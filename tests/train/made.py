"""A small annotation set that can be learnt: notes on sea or land; how often a word is shouted says the level."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import orjson

from typecase.core.rating import Rubric
from typecase.lm.rate.annotations import Annotations
from typecase.lm.rate.rubric import parse_rubric
from typecase.train.annotation_set import read_annotations

RUBRIC_TEXT = """
id = "notes"
version = 1
scale = [1, 3]
summary = "loud"
[[criterion]]
id = "loud"
question = "Does it shout?"
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
SEA, LAND = ("fish", "boat", "wave", "salt", "tide"), ("cow", "barn", "wheat", "hedge", "path")


def rubric() -> Rubric:
    return parse_rubric(RUBRIC_TEXT, where="made")


def make_folder(folder: Path, *, num: int = 120, sources: int = 12) -> Path:
    """`num` notes of as many sources as asked for, as documents.jsonl and ratings.jsonl."""
    folder.mkdir(parents=True)
    dice = np.random.default_rng(1)
    documents, ratings = [], []
    for doc in range(num):
        sea, loud = bool(dice.integers(2)), int(dice.integers(1, 4))
        words = dice.choice(SEA if sea else LAND, 6).tolist()
        for at in dice.permutation(6)[: (loud - 1) * 2]:
            words[at] += "!"
        documents.append({"id": f"n{doc:03d}", "text": " ".join(words), "source": f"s{doc % sources}"})
        domain, wet = ("Sea", 3) if sea else ("Land", 1)
        ratings.append({"id": f"n{doc:03d}", "domain": domain, "loud": loud, "wet": wet})
    for name, rows in (("documents", documents), ("ratings", ratings)):
        (folder / f"{name}.jsonl").write_bytes(b"\n".join(orjson.dumps(row) for row in rows))
    return folder


def made_annotations(folder: Path, *, num: int = 120, sources: int = 12) -> Annotations:
    return read_annotations(make_folder(folder, num=num, sources=sources), rubric())[0]
