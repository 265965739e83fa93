"""Refine: the same result however the documents are divided, nothing lost, everything explained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import orjson
import pyarrow as pa
import pytest

from tests.conftest import make_documents
from typecase.core.balance import Balance
from typecase.core.document import Document
from typecase.core.program.guards import FREE, GuardPolicy
from typecase.core.program.language import text_hash
from typecase.core.program.parse import parse
from typecase.core.program.run import restore, run
from typecase.core.rules.groups import DEFAULT
from typecase.engine.local import Local
from typecase.errors import BadProgram, BadRecipe, SchemaMismatch
from typecase.recipe.refine import Refine
from typecase.recipe.run import run_stage
from typecase.store.documents import open_documents
from typecase.store.manifest import Manifest, write_manifest
from typecase.store.shards import read_columns

FOOTER = ["Acme Printing House of the North", "Opening hours on request", "Visit our little museum"]
LETTERS = str.maketrans("0123456789", "abcdefghij")


def body(number: int) -> list[str]:
    """Four sentences that no other page has; digits would be folded when lines are counted."""
    words = [f"x{number * 10 + k}".translate(LETTERS) for k in range(4)]
    return [
        f"The compositor takes the sorts of {word} from the case and sets them letter by letter, line by line."
        for word in words
    ]


def page(number: int) -> str:
    return "\n".join(["Home", "Next", f"Chapter {number} about type", "", *body(number), "", *FOOTER])


def corpus() -> list[str]:
    pages = [page(number) for number in range(24)]
    return [
        *pages,
        "",
        " \n\n",
        "\n".join(f"{i} {i * 7} {i * 11}" for i in range(40)),
        "donâ€™t stop the press before the last of the pages has been printed and dried and folded\r\nand sewn\r\n",
        "排版工人从字盘里挑出铅字检查替换排好印出校样。" * 4,
        "int main(void) {\n    return 0;\n}\n" * 4,
        "NAME\n       ls - list directory contents of the place that is named\n\nSEE ALSO\n       dir(1)",
    ]


@pytest.fixture
def documents(request: pytest.FixtureRequest) -> list[Document]:
    return make_documents(corpus())


def rows_of(folder: Path, side: str = "") -> list[dict[str, object]]:
    store = open_documents(folder)
    parts = store.side_parts(side) if side else store.parts
    return [row for part in parts for row in read_columns(part).to_pylist()]


def test_any_division_and_any_workers_give_the_same_rows(
    documents: list[Document], docs_artifact: Callable[..., Path], tmp_path: Path
) -> None:
    seen, contents = [], []
    for num_parts, workers in ((1, 0), (7, 0), (3, 0), (3, 2)):
        docs = docs_artifact(documents, num_parts=num_parts, name=f"docs{num_parts}-{workers}")
        made = run_stage(Refine(), {"docs": docs}, tmp_path / f"out{num_parts}-{workers}", engine=Local(workers))
        counts = dict(made.manifest.counts)
        balance = made.manifest.balance
        decision = dict(made.manifest.decision)
        sides = [rows_of(made.folder, side) for side in ("", "programs", "removed", "lines")]
        seen.append([*sides, counts, balance, decision])
        contents.append(made.manifest.content)
    assert all(other == seen[0] for other in seen[1:])
    assert contents[2] == contents[3]


def test_every_document_is_accounted_for(documents: list[Document], docs_artifact: Callable[..., Path], tmp_path: Path) -> None:
    made = run_stage(Refine(), {"docs": docs_artifact(documents, num_parts=3)}, tmp_path / "out")
    texts = {d.id: d for d in documents}
    programs = {str(row["doc_id"]): row for row in rows_of(made.folder, "programs")}
    removed = {str(row["doc_id"]): row for row in rows_of(made.folder, "removed")}
    kept = {d.id: d for d in open_documents(made.folder)}
    assert programs.keys() == texts.keys()
    assert kept.keys() | removed.keys() == texts.keys() and not kept.keys() & removed.keys()
    assert {str(row["reason"]) for row in removed.values()} == {"doc.blank", "doc.numbers"}
    balance = made.manifest.balance
    assert balance is not None and (balance.entered, balance.kept, balance.removed) == (
        31,
        28,
        {"doc.blank": 2, "doc.numbers": 1},
    )
    for doc_id, document in kept.items():
        row = programs[doc_id]
        # Everything but the text is as it was, and the stored program re-makes the text.
        assert replace(document, text="") == replace(texts[doc_id], text="")
        assert row["text_hash"] == text_hash(texts[doc_id].text)
        outcome = run(parse(str(row["program"]), text_hash=str(row["text_hash"])), texts[doc_id].text, FREE)
        assert outcome.text == document.text
        assert restore(outcome) == texts[doc_id].text
        assert (row["status"] == "edited") == (document.text != texts[doc_id].text)
        assert row["removed_bytes"] == len(texts[doc_id].text.encode()) - len(document.text.encode())


def test_pages_lose_their_menus_and_footers_and_nothing_else(
    documents: list[Document], docs_artifact: Callable[..., Path], tmp_path: Path
) -> None:
    made = run_stage(Refine(), {"docs": docs_artifact(documents)}, tmp_path / "out")
    kept = {d.place.row: d.text for d in open_documents(made.folder)}
    for number in range(24):
        assert kept[number].split("\n") == [f"Chapter {number} about type", "", *body(number)]
    assert kept[27].startswith("don’t stop the press")
    assert kept[27].endswith("folded\r\nand sewn\r\n")
    for same in (28, 29, 30):
        assert kept[same] == corpus()[same]
    counts = made.manifest.counts
    assert counts["rule:line.nav"] == 24
    assert counts["rule:line.frequent"] == 24
    assert counts["rule:encoding.mojibake"] == 1
    assert counts["documents"] == 31
    assert counts["edited"] == 25
    assert counts["text_bytes"] == sum(len(text.encode()) for text in corpus())
    assert made.manifest.decision["at_least"] == 5
    row = next(row for row in rows_of(made.folder, "programs") if "line.frequent" in str(row["provenance"]))
    provenance = orjson.loads(str(row["provenance"]))
    assert [entry[:4] for entry in provenance] == [
        ["rule", "line.nav", "1", "applied"],
        ["line_freq", "line.frequent", "1", "applied"],
    ]


def test_small_corpora_have_no_frequent_lines(docs_artifact: Callable[..., Path], tmp_path: Path) -> None:
    made = run_stage(Refine(), {"docs": docs_artifact(make_documents([page(n) for n in range(9)]))}, tmp_path / "out")
    assert made.manifest.decision["frequent_lines"] == 0
    assert all(FOOTER[0] in d.text for d in open_documents(made.folder))


def test_an_empty_corpus_gives_an_empty_one(docs_artifact: Callable[..., Path], tmp_path: Path) -> None:
    made = run_stage(Refine(), {"docs": docs_artifact([])}, tmp_path / "out")
    assert len(open_documents(made.folder)) == 0


LITERAL = ("gopher_quality", "gopher_repetition", "c4", "fineweb")


@pytest.mark.parametrize("rules", [(), ("encoding",), ("furniture", "document"), LITERAL])
def test_rules_are_chosen_by_name(
    rules: tuple[str, ...], documents: list[Document], docs_artifact: Callable[..., Path], tmp_path: Path
) -> None:
    made = run_stage(Refine(rules=rules, guards=FREE), {"docs": docs_artifact(documents)}, tmp_path / "out")
    balance = made.manifest.balance
    assert balance is not None and balance.entered == 31
    if not rules:
        assert [d.text for d in open_documents(made.folder)] == [d.text for d in sorted(documents, key=lambda d: d.id)]
    assert not open_documents(made.folder).side_parts("lines")


def test_guards_hold_back_what_takes_too_much(docs_artifact: Callable[..., Path], tmp_path: Path) -> None:
    docs = docs_artifact(make_documents(["Home\nNext\nPrevious\nUp\n\nHere are six words of text."]))
    made = run_stage(Refine(guards=GuardPolicy(kept_percent=90)), {"docs": docs}, tmp_path / "out")
    (row,) = rows_of(made.folder, "programs")
    assert (row["status"], row["reason"], row["removed_bytes"]) == ("guarded", "G_DOC_RATIO", 0)
    assert [d.text for d in open_documents(made.folder)] == ["Home\nNext\nPrevious\nUp\n\nHere are six words of text."]


def test_bad_parameters_are_refused_before_anything_runs(docs_artifact: Callable[..., Path], tmp_path: Path) -> None:
    docs = docs_artifact(make_documents(["a"]))
    with pytest.raises(BadProgram, match="no rules 'gopher'"):
        run_stage(Refine(rules=("gopher",)), {"docs": docs}, tmp_path / "out")
    with pytest.raises(BadProgram, match="twice"):
        run_stage(Refine(rules=("c4", "c4")), {"docs": docs}, tmp_path / "out")
    with pytest.raises(BadRecipe, match="2 documents"):
        run_stage(Refine(frequent_documents=1), {"docs": docs}, tmp_path / "out")
    with pytest.raises(SchemaMismatch):
        run_stage(Refine(), {"docs": _other_kind(tmp_path)}, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def _other_kind(folder: Path) -> Path:
    (folder / "tokens").mkdir()
    write_manifest(folder / "tokens", Manifest("tokens", "build", 1, {}, (), (), Balance(0, 0)))
    return folder / "tokens"


def test_defaults_are_what_the_docs_say() -> None:
    assert Refine().rules == DEFAULT == ("encoding", "furniture", "frequent", "document")


def test_long_documents_stream(docs_artifact: Callable[..., Path], tmp_path: Path) -> None:
    texts: Sequence[str] = [page(n) + "\n" + "word " * 200_000 for n in range(5)]
    made = run_stage(Refine(), {"docs": docs_artifact(make_documents(texts))}, tmp_path / "out")
    assert isinstance(made.manifest.counts["removed_bytes"], int)
    assert pa.types.is_large_string(read_columns(open_documents(made.folder).parts[0]).schema.field("text").type)
