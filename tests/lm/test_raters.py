"""open_rater: a name, weights, a folder, a table; each mistake is named with what there is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.lm.tiny import make_tiny, one_thread
from typecase.errors import BadRecipe, FixInput, NotFound
from typecase.lm.cache import CachedLM
from typecase.lm.rate.rater import pack_texts
from typecase.lm.rate.raters import open_rater, open_table
from typecase.lm.rate.windowed import WindowedRater
from typecase.lm.starter.starter import load_starter, to_bytes

assert one_thread
RUBRIC = """
id = "small"
version = 1
scale = [1, 5]
summary = "clear"

[[criterion]]
id = "clear"
question = "Clear?"
[criterion.anchors]
1 = "no"
5 = "yes"

[[criterion]]
id = "fresh"
question = "Fresh?"
[criterion.anchors]
1 = "no"
5 = "yes"

[[domain]]
id = "Type"
letter = "A"

[[domain]]
id = "Ink"
letter = "B"
"""
TEXTS = ["The forme is locked up. " * 3, "", "Ink."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("rater")
    make_tiny(folder / "model")
    (folder / "rubric.toml").write_text(RUBRIC)
    (folder / "rater.toml").write_text(
        'kind = "lm"\nname = "ours"\nrubric = "rubric.toml"\nform = "student"\nleast_mass = 0.0\n'
        '[windows]\ntokens = 40\nmost = 3\nrepetition = ["fresh"]\n[model]\npath = "model"\ndevice = "cpu"\nchat = true\n'
    )
    return folder


def changed(folder: Path, tmp_path: Path, old: str, new: str) -> Path:
    """The rater.toml of `folder` elsewhere, with a change."""
    text = (folder / "rater.toml").read_text().replace('"model"', f'"{folder / "model"}"')
    assert old in text
    (tmp_path / "rubric.toml").write_text(RUBRIC)
    (tmp_path / "rater.toml").write_text(text.replace(old, new))
    return tmp_path


def test_the_starter_by_name_and_by_weights(tmp_path: Path) -> None:
    shipped = load_starter()
    assert open_rater("starter") is shipped
    (tmp_path / "starter.npz").write_bytes(to_bytes(shipped))
    for spec in (tmp_path, tmp_path / "starter.npz", str(tmp_path)):
        assert open_rater(spec).fingerprint == shipped.fingerprint
    assert open_rater("starter", rubric="dataman") is shipped
    with pytest.raises(BadRecipe, match="fitted to"):
        open_rater("starter", rubric="qurating")


def test_a_folder_or_its_table_is_an_lm_rater_with_windows(folder: Path, tmp_path: Path) -> None:
    rater = open_rater(folder)
    assert isinstance(rater, WindowedRater) and rater.name == "ours"
    assert (rater.window_tokens, rater.most_windows, rater.correction.repetition) == (40, 3, ("fresh",))
    assert rater.rubric.columns == ("clear", "fresh") and rater.rubric.labels == ("Type", "Ink")
    assert open_rater(folder / "rater.toml").fingerprint == rater.fingerprint
    ratings = rater.rate(*pack_texts(TEXTS))
    assert ratings.status_names() == ["ok", "empty_text", "ok"]
    assert ratings.detail is not None and len(ratings.detail.windows[0]) in (2, 3)
    other = open_rater(changed(folder, tmp_path, "tokens = 40", "tokens = 41"))
    assert other.fingerprint != rater.fingerprint


def test_a_checkpoint_alone_is_asked_with_the_rubric_first(folder: Path, tmp_path: Path) -> None:
    for spec in (f"lm:{folder / 'model'}", folder / "model"):
        with pytest.raises(BadRecipe, match="has room for 0; take a shorter form"):  # the rubric alone is longer
            open_rater(spec)
    rater = open_table({"kind": "lm", "form": "student", "rubric": "rubric.toml", "model": {"path": "model"}}, folder)
    assert np.isfinite(rater.rate(*pack_texts(["a"])).scores).all()


def test_another_rubric_and_a_cache_are_put_in_the_table(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text(RUBRIC.replace('id = "small"', 'id = "one"').replace('"fresh"', '"bold"'))
    table = changed(folder, tmp_path, '\nrepetition = ["fresh"]', "")
    rater = open_rater(table, rubric=str(tmp_path / "one.toml"), cache=tmp_path / "answers.db")
    assert isinstance(rater, WindowedRater) and rater.rubric.columns == ("clear", "bold")
    cached = rater.inner.lm  # type: ignore[attr-defined]
    assert isinstance(cached, CachedLM) and cached.cache.path == tmp_path / "answers.db"
    first, second = rater.rate(*pack_texts(TEXTS)), rater.rate(*pack_texts(TEXTS))
    np.testing.assert_array_equal(first.scores, second.scores)
    stats = cached.cache.stats()
    assert stats.misses == 2 and stats.hits == stats.misses + stats.repeats, "the second time nothing was asked"
    cached.cache.close()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('kind = "lm"', 'kind = "oracle"', "kind is one of lm, teacher, head, pairwise, got 'oracle'"),
        ('name = "ours"', "colour = 1", "unknown key 'colour'; known are batch_docs"),
        ('form = "student"', 'form = "sonnet"', "no form 'sonnet'; there are student"),
        ("least_mass = 0.0", 'least_mass = "low"', "'least_mass' must be int or float, got 'low'"),
        ("least_mass = 0.0", 'view = "sideways"', "view is one of whole, head_tail, windows"),
        ("least_mass = 0.0", 'view = "whole"', "goes with view"),
        ("tokens = 40", "tokens = 4000", "do not fit"),
        ("tokens = 40", "token = 40", r"\[windows\]: unknown key 'token'; known are drift, most, repetition, tokens"),
        ('["fresh"]', '["wit"]', "no criterion 'wit' to correct; the rubric has clear, fresh"),
        ("chat = true", "chat = 1", "'chat' must be bool"),
        ("chat = true", "key = 1", "unknown key 'key'; a local model has"),
        ('kind = "lm"', "kind = ", "is not TOML"),
    ],
)
def test_a_mistake_in_the_table_is_named(folder: Path, tmp_path: Path, old: str, new: str, says: str) -> None:
    with pytest.raises(BadRecipe, match=says):
        open_rater(changed(folder, tmp_path, old, new))


def test_what_is_no_rater(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="give starter, a folder"):
        open_rater(tmp_path / "none")
    with pytest.raises(NotFound, match=r"neither rater\.toml"):
        open_rater(tmp_path)
    with pytest.raises(NotFound, match="no weights"):
        open_rater(tmp_path / "none.npz")
    with pytest.raises(NotFound, match="no model"):
        open_rater(f"lm:{tmp_path / 'none'}")


def test_a_server_that_tells_no_log_probabilities_cannot_be_read_by_labels() -> None:
    table = {"kind": "lm", "form": "student", "model": "http://localhost:1/v1#m"}
    with pytest.raises(FixInput, match="cannot do 'continuations'"):
        open_table(table, Path.cwd())


def test_a_server_by_its_address_is_a_teacher_and_windows_go_around_any_rater(tmp_path: Path) -> None:
    teacher = open_rater("http://localhost:1/v1#big", cache=tmp_path / "answers.db")
    assert teacher.name == "big" and teacher.rubric.id == "dataman" and isinstance(teacher.lm, CachedLM)  # type: ignore[attr-defined]
    teacher.lm.cache.close()  # type: ignore[attr-defined]
    model = {"url": "http://localhost:1/v1", "model": "big"}
    rater = open_table({"kind": "teacher", "model": model, "windows": {"tokens": 99, "most": 2}}, tmp_path, rubric="prox")
    assert isinstance(rater, WindowedRater) and rater.window_tokens == 99 and rater.rubric.id == "prox"


def test_any_rater_can_be_given_windows(folder: Path) -> None:
    pytest.importorskip("typecase.lm.rate.pairwise_rater")
    with pytest.raises(BadRecipe, match="needs 'model'"):
        open_table({"kind": "pairwise", "anchors": "a.jsonl", "windows": {"tokens": 9}}, folder)
