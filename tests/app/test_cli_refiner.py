"""The commands over refiners, on a small set of twins: what they write, say and refuse."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from typecase.app.commands.refiner import refiner_command
from typecase.app.fit import tagger_fitting
from typecase.core.learn.trees import Growth
from typecase.core.twins.marks import Twin
from typecase.errors import AlreadyExists, BadRecipe, NotFound
from typecase.lm.tagger.noise import inject, read_noise
from typecase.lm.tagger.tagger import load_tagger
from typecase.lm.tagger.train import Settings
from typecase.store.twins import write_twins

SMALL = Growth(trees=6, depth=3, rate=0.3, rows=0.6, measures=0.4, least_weight=1, damping=1)
SETTINGS = Settings(mixed=10, folds=2, first=SMALL, second=SMALL, epochs=2)
SENTENCE = "it was a long day at the harbour and nobody knew what would happen once all of the ships came in"


def twins(number: int, generators: int) -> list[Twin]:
    rng = np.random.default_rng(number)
    made = []
    for at in range(number):
        body = [" ".join(rng.permutation(SENTENCE.split())).capitalize() + "." for _ in range(5)]
        lines, noise = inject(body, read_noise(), rng, blocks=3)
        gone = tuple(i for i, (line, flag) in enumerate(zip(lines, noise)) if flag and line.strip())
        made.append(Twin("\n".join(lines), gone, f"f{at % generators}", f"g{at % generators}", "s", str(at), "MIT"))
    return made


@pytest.fixture
def seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_twins(tmp_path / "seeds" / "train.jsonl.zst", twins(24, 6))
    write_twins(tmp_path / "seeds" / "held.jsonl.zst", twins(8, 2))
    monkeypatch.setattr(tagger_fitting, "Settings", lambda: SETTINGS)
    return tmp_path / "seeds"


def run(*arguments: object, ok: bool = True) -> str:
    done = CliRunner().invoke(refiner_command, [str(a) for a in arguments])
    if ok and done.exception is not None:
        raise done.exception
    return done.output


def test_a_tagger_is_fitted_opened_and_described(seeds: Path, tmp_path: Path):
    out = tmp_path / "mine"
    text = run("fit", seeds, "-o", out, "--quiet")
    tagger = load_tagger(out)
    assert tagger.fingerprint in text and "8 pages of 2 generators" in text
    assert sorted(path.name for path in out.iterdir()) == ["TAGGER_CARD.md", "figures.json", "tagger.npz"]
    card = json.loads(run("card", out, "--json"))
    assert card["figures"]["fingerprint"] == tagger.fingerprint and tagger.fingerprint in card["card"]
    assert run("card", out) == (out / "TAGGER_CARD.md").read_text()


def test_equal_seeds_give_equal_bytes(seeds: Path, tmp_path: Path):
    made = [json.loads(run("fit", seeds, "-o", tmp_path / name, "--json")) for name in ("a", "b")]
    assert made[0]["fingerprint"] == made[1]["fingerprint"]
    for name in ("TAGGER_CARD.md", "figures.json", "tagger.npz"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_progress_is_told(seeds: Path, tmp_path: Path):
    assert "second forest grown" in run("fit", seeds, "-o", tmp_path / "mine")


def test_without_held_out_pages_nothing_is_measured(seeds: Path, tmp_path: Path):
    (seeds / "held.jsonl.zst").unlink()
    made = tagger_fitting.fit_refiner(seeds, tmp_path / "mine")
    assert made.figures["families"] == {} and load_tagger(made.folder).sure == SETTINGS.careful[2]


def test_what_cannot_be_done_is_refused_and_leaves_nothing(seeds: Path, tmp_path: Path):
    with pytest.raises(NotFound, match="no folder"):
        run("fit", tmp_path / "nowhere", "-o", tmp_path / "a")
    with pytest.raises(AlreadyExists):
        run("fit", seeds, "-o", seeds)
    write_twins(seeds / "train.jsonl.zst", twins(6, 2))
    with pytest.raises(BadRecipe, match="4 or more"):
        run("fit", seeds, "-o", tmp_path / "a", "--quiet")
    with pytest.raises(NotFound, match="no card"):
        run("card", tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seeds"]


def test_the_shipped_card_names_the_shipped_weights():
    assert load_tagger().fingerprint in run("card")
