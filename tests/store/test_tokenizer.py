"""Laws of a tokenizer: the library's ids, text back from ids, one identity by content."""

from __future__ import annotations

import json
import multiprocessing
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from typecase.errors import BadQuery, FingerprintMismatch, FixInput, NotFound
from typecase.store.tokenizer.known import PROBE_TEXTS
from typecase.store.tokenizer.tokenizer import Tokenizer, open_tokenizer

from .tokenizer_samples import BYTES, GPT4, PAIR, PIECES, RANKS, RUNS, UNIGRAM, library, library_ids, texts

DEFINITIONS = [BYTES, RUNS, GPT4, PIECES, UNIGRAM]
OPENED = {path: open_tokenizer(path) for path in DEFINITIONS}
LIBRARY = {path: library(path) for path in DEFINITIONS}
WITH_SPECIAL = {path: library(path) for path in DEFINITIONS}
for _opened in WITH_SPECIAL.values():
    _opened.encode_special_tokens = False
IDS = [path.stem for path in DEFINITIONS]


def edited(path: Path, target: Path, change: object) -> Path:
    """A copy of the definition at `path` after `change(definition)`."""
    definition = json.loads((path / "tokenizer.json" if path.is_dir() else path).read_text("utf-8"))
    change(definition)  # type: ignore[operator]
    target.write_text(json.dumps(definition), "utf-8")
    return target


# text to ids


@pytest.mark.parametrize("path", DEFINITIONS, ids=IDS)
@given(text=texts)
def test_ids_are_those_of_the_library(path: Path, text: str) -> None:
    assert OPENED[path].encode(text).tolist() == library_ids(LIBRARY[path], text)


@pytest.mark.parametrize("path", DEFINITIONS, ids=IDS)
@given(text=texts)
def test_with_special_tokens_allowed_too(path: Path, text: str) -> None:
    assert OPENED[path].encode(text, allow_special=True).tolist() == library_ids(WITH_SPECIAL[path], text)


def test_who_does_the_work_and_why() -> None:
    engines = {path.stem: OPENED[path].engine for path in DEFINITIONS}
    assert engines == {
        "bytes": "tiktoken",
        "runs": "tiktoken",
        "gpt4": "tiktoken",
        "pieces": "tokenizers",
        "unigram": "tokenizers",
    }
    assert OPENED[PIECES].engine_reason == "the model is WordPiece, not byte-level BPE"
    assert "proven" in OPENED[BYTES].engine_reason


@pytest.mark.parametrize("path", [BYTES, RUNS, RANKS], ids=["bytes", "runs", "ranks"])
def test_text_that_spells_a_special_token_stays_text(path: Path) -> None:
    tokenizer = open_ranks() if path == RANKS else OPENED[path]
    special = tokenizer.special_tokens["<|endoftext|>"]
    text = "the case<|endoftext|> the sorts"
    assert special not in tokenizer.encode(text)
    assert list(tokenizer.encode(text, allow_special=True)).count(special) == 1
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_added_tokens_that_are_not_special_are_found_in_text() -> None:
    tokenizer = OPENED[RUNS]
    assert tokenizer.encode("a" + " " * 8 + "b").tolist()[1] == tokenizer.added_tokens[" " * 8]
    assert tokenizer.added_tokens["|||EMAIL|||"] in tokenizer.encode("to |||EMAIL||| now")


def test_a_token_with_a_part_is_special_even_if_its_file_forgets(tmp_path: Path) -> None:
    def forget(definition: dict[str, list[dict[str, object]]]) -> None:
        for token in definition["added_tokens"]:
            token["special"] = False

    edited(BYTES, tmp_path / "tokenizer.json", forget)
    shutil.copy(BYTES / "tokenizer_config.json", tmp_path)
    tokenizer = open_tokenizer(tmp_path)
    assert tokenizer.eod_id not in tokenizer.encode("the end<|endoftext|>")


def test_nothing_is_put_around_and_nothing_cut_short() -> None:
    assert len(OPENED[PIECES].encode("the sorts " * 50)) >= 100  # the file truncates to 16, pads, and adds [CLS] and [SEP]
    assert OPENED[PIECES].encode("").tolist() == []
    assert OPENED[BYTES].encode("a").tolist() == library_ids(LIBRARY[BYTES], "a")


def test_random_ids_are_refused(tmp_path: Path) -> None:
    path = edited(BYTES, tmp_path / "x.json", lambda definition: definition["model"].update(dropout=0.1))
    with pytest.raises(BadQuery, match="dropout"):
        open_tokenizer(path)


# ids to text


@pytest.mark.parametrize("path", [BYTES, GPT4], ids=["bytes", "gpt4"])
@given(text=texts)
def test_decode_gives_the_text_back(path: Path, text: str) -> None:
    tokenizer = OPENED[path]
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.decode_bytes(ids) == b"".join(tokenizer.token_bytes(int(i)) or b"" for i in ids) == text.encode()


@pytest.mark.parametrize("path", DEFINITIONS, ids=IDS)
@given(text=texts)
def test_decode_is_that_of_the_library(path: Path, text: str) -> None:
    ids = library_ids(LIBRARY[path], text)
    assert OPENED[path].decode(ids) == LIBRARY[path].decode(ids, skip_special_tokens=False)


def test_ids_that_no_token_has() -> None:
    for ids in ([-1], [OPENED[RUNS].num_ids], [600]):  # 600 lies in the gap before the last id
        with pytest.raises(BadQuery, match=f"no token {ids[0]}"):
            OPENED[RUNS].decode(ids)
        with pytest.raises(BadQuery, match=f"no token {ids[0]}"):
            OPENED[RUNS].token_text(ids[0])
    with pytest.raises(BadQuery, match="no token 300"):
        OPENED[PIECES].decode([2, 300])


def test_tokens_by_name_text_and_spelling() -> None:
    tokenizer = OPENED[BYTES]
    space_the = tokenizer.id_of(" the")
    assert tokenizer.id_of("Ġthe") == space_the
    assert tokenizer.token_text(space_the) == " the"
    assert tokenizer.token_bytes(space_the) == b" the"
    assert tokenizer.id_of("<|endoftext|>") == 0
    assert tokenizer.token_text(tokenizer.id_of("Ð")) == "\\xd0"
    with pytest.raises(NotFound, match="no token 'typesetter'"):
        tokenizer.id_of("typesetter")
    assert OPENED[PIECES].id_of("[CLS]") == 2
    assert OPENED[PIECES].token_bytes(2) is None


# sizes and parts


def test_three_sizes_of_a_vocabulary() -> None:
    runs = OPENED[RUNS]
    assert (runs.vocab_size, runs.num_ids, runs.max_id) == (513, 701, 700)  # one entry lies far out, at 700
    assert len(runs.added_tokens) == 10
    assert max(runs.added_tokens.values()) == 520
    ranks = open_ranks()
    assert (ranks.vocab_size, ranks.num_ids) == (512, 601)


def test_parts_come_from_the_configuration_or_from_known_names(tmp_path: Path) -> None:
    tokenizer = OPENED[BYTES]
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.eod_id, tokenizer.pad_id) == (None, 0, 0, 1)
    unigram = OPENED[UNIGRAM]
    assert (unigram.bos_id, unigram.eos_id, unigram.eod_id, unigram.pad_id) == (1, 2, 2, None)
    shutil.copytree(BYTES, tmp_path / "chat")
    (tmp_path / "chat" / "tokenizer_config.json").write_text('{"eos_token": "<|padding|>", "bos_token": "Ġthe"}')
    chat = open_tokenizer(tmp_path / "chat")
    assert (chat.bos_id, chat.eos_id, chat.eod_id) == (chat.id_of("Ġthe"), 1, 0)  # a turn ends otherwise than a document


# identity


def test_the_fingerprint_follows_the_content_and_not_the_place(tmp_path: Path) -> None:
    shutil.copytree(BYTES, tmp_path / "moved")
    assert open_tokenizer(tmp_path / "moved").fingerprint == OPENED[BYTES].fingerprint
    assert open_tokenizer(PAIR) == OPENED[BYTES]  # the same vocabulary as GPT-2's pair of files

    def written_otherwise(definition: dict[str, dict[str, object]]) -> None:
        model = definition["model"]
        model["merges"] = [" ".join(pair) for pair in model["merges"]]
        model["vocab"] = dict(reversed(model["vocab"].items()))
        model["ignore_merges"] = False
        definition["post_processor"] = None

    assert open_tokenizer(edited(BYTES, tmp_path / "older.json", written_otherwise)) == OPENED[BYTES]


def test_the_fingerprint_changes_with_one_merge_one_token_one_cut(tmp_path: Path) -> None:
    def swap(definition: dict[str, dict[str, list[object]]]) -> None:
        merges = definition["model"]["merges"]
        merges[-1], merges[-2] = merges[-2], merges[-1]

    def rename(definition: dict[str, list[dict[str, object]]]) -> None:
        definition["added_tokens"][1]["lstrip"] = True

    def normalize(definition: dict[str, object]) -> None:
        definition["normalizer"] = {"type": "NFC"}

    found = {OPENED[BYTES].fingerprint}
    for number, change in enumerate((swap, rename, normalize)):
        found.add(open_tokenizer(edited(BYTES, tmp_path / f"{number}.json", change)).fingerprint)
    assert len(found) == 4


def test_check_names_what_changed(tmp_path: Path) -> None:
    tokenizer = OPENED[BYTES]
    tokenizer.check(tokenizer.fingerprint, tokenizer.probe_ids)
    assert len(tokenizer.probe_ids) == len(PROBE_TEXTS)

    def drop_the(definition: dict[str, dict[str, list[list[str]]]]) -> None:
        model = definition["model"]
        model["merges"] = [pair for pair in model["merges"] if "".join(pair) != "Ġthe"]

    other = open_tokenizer(edited(BYTES, tmp_path / "other.json", drop_the))
    with pytest.raises(FingerprintMismatch, match=r"of 24 probe texts encode otherwise, first ' the of"):
        other.check(tokenizer.fingerprint, tokenizer.probe_ids)
    with pytest.raises(FingerprintMismatch, match="encode alike"):
        other.check(tokenizer.fingerprint, other.probe_ids)


def test_pickle_opens_again_once_and_refuses_another(tmp_path: Path) -> None:
    shutil.copytree(BYTES, tmp_path / "here")
    tokenizer = open_tokenizer(tmp_path / "here")
    data = pickle.dumps(tokenizer)
    assert len(data) < 1000
    again = pickle.loads(data)
    assert again == tokenizer
    assert hash(again) == hash(tokenizer)
    assert pickle.loads(data) is again
    ranks = pickle.loads(pickle.dumps(open_ranks()))
    assert ranks == open_ranks()
    assert ranks.special_tokens == {"<|endoftext|>": 600}

    data = pickle.dumps(open_tokenizer(edited(BYTES, tmp_path / "late.json", lambda _: None)))
    edited(BYTES, tmp_path / "late.json", lambda definition: definition["model"]["merges"].pop())
    with pytest.raises(FingerprintMismatch, match="where the work began"):
        pickle.loads(data)


def test_a_spawned_worker_gives_the_same_ids() -> None:
    given_texts = ["the sorts", "  lie in\n the case", ""]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        there = pool.apply(_encode_there, (OPENED[RUNS], given_texts))
    ids, lengths = OPENED[RUNS].encode_batch(given_texts)
    assert np.array_equal(there[0], ids)
    assert np.array_equal(there[1], lengths)


def _encode_there(tokenizer: Tokenizer, given_texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    return tokenizer.encode_batch(given_texts)


def test_repr_and_equality() -> None:
    assert repr(OPENED[PIECES]).startswith("Tokenizer('")
    assert "num_ids=300, engine='tokenizers'" in repr(OPENED[PIECES])
    assert OPENED[PIECES] != OPENED[UNIGRAM]
    assert OPENED[PIECES] != "pieces"


def test_lone_surrogates_are_named() -> None:
    for path in DEFINITIONS:
        with pytest.raises(FixInput, match=r"U\+DC80 at character 2"):
            OPENED[path].encode("ab\udc80")
    with pytest.raises(FixInput, match=r"U\+DC80 at character 2"):
        open_ranks().encode("ab\udc80")


def open_ranks() -> Tokenizer:
    return open_tokenizer(RANKS, pattern="cl100k", special_tokens={"<|endoftext|>": 600})
