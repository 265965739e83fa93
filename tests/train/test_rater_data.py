"""Rows of a rater: the ids are those that the reader will see, and what may be hidden is hidden."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.lm.tiny import make_tiny, one_thread
from tests.train.made import made_annotations, rubric
from typecase.errors import BadQuery, BadRecipe
from typecase.lm.rate.annotations import Annotations
from typecase.lm.rate.rubric import load_rubric
from typecase.lm.rate.sheets import SHEETS, sheet_of
from typecase.lm.slots import Filled, fill

pytest.importorskip("torch")
pytest.importorskip("transformers")

from typecase.lm.local import LocalLM
from typecase.train.encoding import Encoder, open_tokenizer
from typecase.train.rater_data import RaterData, Showing

assert one_thread


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny(tmp_path_factory.mktemp("tiny") / "llama")


@pytest.fixture(scope="module")
def annotations(tmp_path_factory: pytest.TempPathFactory) -> Annotations:
    return made_annotations(tmp_path_factory.mktemp("made") / "notes", num=30)


def data_of(
    annotations: Annotations, checkpoint: Path, *, form: str = "student", chat: bool = False, **given: Any
) -> RaterData:
    encoder = Encoder(open_tokenizer(checkpoint), checkpoint, chat=chat, system="Rate." if chat else "")
    showing = Showing(**{"window": 64, **given})
    return RaterData(annotations.documents, sheet_of(rubric(), form), encoder, showing, seed=1)


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("form", SHEETS)
def test_the_ids_are_those_of_the_reader(annotations: Annotations, checkpoint: Path, form: str, chat: bool) -> None:
    lm = LocalLM(checkpoint, device="cpu", chat=chat, system="Rate." if chat else "")
    data, sheet = data_of(annotations, checkpoint, form=form, chat=chat), sheet_of(rubric(), form)
    seen: list[list[int]] = []
    prefill = lm._forward.prefill
    lm._forward.prefill = lambda rows: (seen.extend(list(row) for row in rows), prefill(rows))[1]  # type: ignore[method-assign]
    text = annotations.documents.texts[3]
    (filled,) = fill(lm, [sheet.prompt(text)], sheet.slots)
    assert isinstance(filled, Filled)
    row = data.row(3, epoch=None)
    assert list(row.ids[: len(seen[0])]) == seen[0], "prompt and the text before the first gap"
    reply = len(row.targets)
    read = [*row.ids[len(row.ids) - reply + 1 :], row.targets[-1]]
    assert read == list(row.targets), "what is read behind the prompt is what must be said"


def test_a_reply_is_letter_and_digits_and_an_end(annotations: Annotations, checkpoint: Path) -> None:
    data = data_of(annotations, checkpoint)
    tokenizer = open_tokenizer(checkpoint)
    seeds = annotations.documents
    for doc in range(5):
        said = tokenizer.decode(data.row(doc, epoch=None).targets)
        letter = "SL"[int(seeds.votes[doc].argmax())]
        loud, wet = seeds.scores[doc].astype(int)
        assert said == f"{letter}\n{loud}\n{wet}<|end|>"


def test_datamans_reply_has_29_tokens_and_the_end(checkpoint: Path, tmp_path: Path) -> None:
    dataman = load_rubric("dataman")
    encoder = Encoder(open_tokenizer(checkpoint), checkpoint, chat=True, system="")
    gaps = encoder.gaps(sheet_of(dataman, "student").slots)
    assert sum(len(gap.before) + len(gap.labels[0]) for gap in gaps) == 29
    assert {len(label) for gap in gaps for label in gap.labels} == {1}
    assert len(encoder.end()) == 1


def test_blank_and_random_change_what_is_read_and_never_what_must_be_said(annotations: Annotations, checkpoint: Path) -> None:
    truth = data_of(annotations, checkpoint)
    blank, shuffled = data_of(annotations, checkpoint, blank=1.0), data_of(annotations, checkpoint, random=1.0)
    ids = open_tokenizer(checkpoint).convert_tokens_to_ids(["L", "2"])
    read: set[tuple[int, ...]] = set()
    for doc in range(20):
        plain = truth.row(doc, epoch=0)
        for data in (blank, shuffled):
            row = data.row(doc, epoch=0)
            assert row.targets == plain.targets
            assert row.ids[: -len(plain.targets) + 1] == plain.ids[: -len(plain.targets) + 1]
        row = blank.row(doc, epoch=0)
        assert [row.ids[-5], row.ids[-3], row.ids[-1]] == [ids[0], ids[1], ids[1]], "the middle label, as one pass fills in"
        read.add(shuffled.row(doc, epoch=0).ids[-5:])
        assert blank.row(doc, epoch=None) == plain, "the held-out rows are the truth"
    assert len(read) > 8


def test_levels_between_two_are_drawn_so_that_the_mean_is_kept(checkpoint: Path, tmp_path: Path) -> None:
    from dataclasses import replace

    made = made_annotations(tmp_path / "made", num=4)
    scores = np.array([[1.25, 2.0]] * 4)
    half = replace(made, documents=replace(made.documents, scores=scores, votes=np.array([[0.25, 0.75]] * 4)))
    data, tokenizer = data_of(half, checkpoint, drawn=True), open_tokenizer(checkpoint)
    said = [tokenizer.decode(data.row(doc, epoch=epoch).targets) for doc in range(4) for epoch in range(200)]
    assert np.mean([int(text[2]) for text in said]) == pytest.approx(1.25, abs=0.05)
    assert {text[4] for text in said} == {"2"}
    assert np.mean([text[0] == "S" for text in said]) == pytest.approx(0.25, abs=0.05)
    assert {tokenizer.decode(data.row(0, epoch=None).targets)[:3]} == {"L\n1"}


def test_a_long_text_is_shown_in_the_readers_windows(annotations: Annotations, checkpoint: Path) -> None:
    text = " ".join(annotations.documents.texts)
    data = data_of(annotations, checkpoint, window=40)
    dice = np.random.default_rng(1)
    views = {data.view(text, dice) for _ in range(200)}
    assert len(views) > 10
    sizes = data._encoder.sizes(sorted(views))
    assert max(sizes) <= 40 and all(view in text for view in views)
    assert data.view(text) == data.view(text) and text.startswith(data.view(text))
    ends = data_of(annotations, checkpoint, window=40, long="ends").view(text, dice)
    head, tail = ends.split("...")
    assert text.startswith(head) and text.endswith(tail)
    assert data_of(annotations, checkpoint, window=4000, long="ends").view(text) == text


def test_what_cannot_be_meant_is_refused(annotations: Annotations, checkpoint: Path) -> None:
    with pytest.raises(BadQuery, match="shares"):
        Showing(10, blank=0.7, random=0.7)
    with pytest.raises(BadQuery, match="window"):
        Showing(1)
    encoder = Encoder(open_tokenizer(checkpoint), checkpoint, chat=False, system="")
    with pytest.raises(BadRecipe, match="asks for 'accuracy'"):
        RaterData(annotations.documents, sheet_of(load_rubric("dataman"), "student"), encoder, Showing(10), seed=1)
