"""Reach against the real encoder: a witness is what it says, and no text makes what is called unreachable. Seeded mutants."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tokenizers

from typecase.store.audit.reach import Reach, find_reach
from typecase.store.audit.roundtrip import round_trip
from typecase.store.audit.vocabulary import Vocabulary, open_vocabulary
from typecase.store.tokenizer.alphabet import spelling
from typecase.store.tokenizer.known import PROBE_TEXTS

DATA = Path(__file__).parents[2] / "data" / "tokenizers"
FILES = ["bytes", "runs.json", "gpt4.json", "pieces.json", "unigram.json", "tiny.tiktoken"]


def opened(name: str) -> Vocabulary:
    return open_vocabulary(DATA / name, pattern="gpt2") if name.endswith("tiktoken") else open_vocabulary(DATA / name)


def many_texts(v: Vocabulary, count: int) -> list[str]:
    draw = random.Random(3)
    words = [t for k in range(v.num_ids) if (t := v.text_of(k)) is not None]
    mixed = ["".join(draw.choices(words, k=draw.randrange(1, 9))) for _ in range(count)]
    wild = ["".join(chr(draw.choice((draw.randrange(0x300), draw.randrange(0xD800)))) for _ in range(6)) for _ in range(count)]
    return [*PROBE_TEXTS, *words, *mixed, *wild]


@pytest.mark.parametrize("name", FILES)
def test_witnesses_and_the_unreachable(name: str) -> None:
    v = opened(name)
    reaches = find_reach(v).reaches
    for token, reach in enumerate(reaches):
        assert (reach.witness is not None) == (reach.verdict == "reachable")
        if reach.witness is not None:
            assert token in v.codec.encode([reach.witness])[0]
        elif reach.verdict in ("unreachable", "unproven"):
            assert reach.failing and reach.reason
    assert all(reach.verdict == "reachable" for reach, kind in zip(reaches, v.kinds) if kind == "added")
    made = {token for ids in v.codec.encode(many_texts(v, 3000)) for token in ids}
    assert not {t for t in made if reaches[t].verdict == "unreachable"}
    trip = round_trip(v)
    for token, again in enumerate(trip.again):
        if list(again) == [token] and v.kinds[token] not in ("special", "gap"):
            assert reaches[token].verdict == "reachable"
    assert len(trip.categories) == v.num_ids


def test_a_clean_vocabulary_has_no_false_alarm() -> None:
    v = opened("bytes")
    bad = [k for k, r in enumerate(find_reach(v).reaches) if r.verdict == "unreachable" and v.kinds[k] != "byte"]
    assert bad == []


def mutated(
    tmp_path: Path, tokens: Sequence[str], *, merges: Sequence[list[str]] = (), added: Sequence[str] = (), **change: Any
) -> Vocabulary:
    definition = json.loads((DATA / "bytes" / "tokenizer.json").read_text())
    vocab = definition["model"]["vocab"]
    for token in tokens:
        vocab[token] = max([*vocab.values(), *(t["id"] for t in definition["added_tokens"])]) + 1
    definition["model"]["merges"] += list(merges)
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    top = max([*vocab.values(), *(t["id"] for t in definition["added_tokens"])])
    definition["added_tokens"] += [{"id": top + 1 + k, "content": text, **flags} for k, text in enumerate(added)]
    (tmp_path / "tokenizer.json").write_text(json.dumps(definition | change))
    return open_vocabulary(tmp_path)


def reach_of(v: Vocabulary, token: str) -> Reach:
    return find_reach(v).reaches[v.spellings.index(token)]


def test_mutants_are_found_with_their_reason(tmp_path: Path) -> None:
    dead = reach_of(mutated(tmp_path, ["qzq"]), "qzq")
    assert (dead.verdict, dead.failing, dead.reason) == ("unreachable", ("merge",), "no merge makes it")

    late = reach_of(mutated(tmp_path, ["xthe", "thex"], merges=[["x", "the"], ["the", "x"]]), "thex")
    assert late.verdict == "reachable"
    pre = mutated(tmp_path, ["hx", "thx"], merges=[["t", "hx"]])
    found = reach_of(pre, "thx")
    assert found.verdict == "unreachable" and found.failing == ("merge",)

    composed = spelling("e\u0301".encode())
    first = spelling("\u0301".encode())
    v = mutated(tmp_path, [first, composed], merges=[[first[0], first[1]], ["e", first]], normalizer={"type": "NFC"})
    changed = reach_of(v, composed)
    assert changed.verdict == "unreachable" and "normalizer" in changed.failing and changed.reason.startswith("normalised away")

    v = mutated(tmp_path, ["qq"], merges=[["q", "q"]], added=["qq!"])
    assert reach_of(v, "qq").verdict == "reachable"
    v = mutated(tmp_path, ["qqj"], merges=[["q", "q"], ["qq", "j"]][:0], added=["qq"])
    assert reach_of(v, "qqj").reason.startswith("shadowed by the added token")

    cut = reach_of(mutated(tmp_path, ["aĠa"], merges=[["a", "Ġa"]]), "aĠa")
    assert (cut.verdict, cut.failing) == ("unreachable", ("context",)) and cut.reason == "the cut never isolates it"


def test_a_token_that_needs_a_neighbour_is_not_called_unreachable(tmp_path: Path) -> None:
    """Alone, `?><?` would be one piece of the cut and merge otherwise; the published round trip reports such tokens."""
    v = mutated(tmp_path, ["Ġ?", "?>", "><"], merges=[["Ġ", "?"], ["?", ">"], [">", "<"]])
    trip, reach = round_trip(v), find_reach(v).reaches
    for token in ("?>", "><"):
        assert reach[v.spellings.index(token)].verdict == "reachable"
    assert trip.groups.unreachable == 1


@pytest.mark.parametrize("whole_first", [False, True])
def test_whole_pieces_first(tmp_path: Path, whole_first: bool) -> None:
    definition = json.loads((DATA / "bytes" / "tokenizer.json").read_text())
    definition["model"]["vocab"]["zqz"] = 5000
    definition["model"]["ignore_merges"] = whole_first
    (tmp_path / "tokenizer.json").write_text(json.dumps(definition))
    v = open_vocabulary(tmp_path)
    assert tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json")).encode("zqz", add_special_tokens=False).ids == (
        [5000] if whole_first else [v.spellings.index(c) for c in "zqz"]
    )
    assert reach_of(v, "zqz").verdict == ("reachable" if whole_first else "unreachable")
