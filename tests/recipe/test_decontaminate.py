"""Decontamination: what shares n-grams with evaluation files goes, with the item, the place and the share told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import make_docs_artifact, make_documents
from typecase.core.document import Document
from typecase.engine.local import Local
from typecase.errors import BadQuery, BadRecipe, NotFound
from typecase.recipe.decontaminate import MOST_ITEMS, REASON, Decontaminate
from typecase.recipe.run import Artifact, run_stage
from typecase.recipe.why import fate
from typecase.store.documents import open_documents
from typecase.store.shards import read_columns

TOKENIZER = str(Path(__file__).parent.parent / "data" / "tokenizers" / "bytes")


def write_items(path: Path, items: Sequence[str]) -> str:
    path.write_bytes(b"".join(orjson.dumps({"text": item}) + b"\n" for item in items))
    return str(path)


def rows_of(made: Artifact, table: str) -> list[dict[str, object]]:
    return [row for part in open_documents(made.folder).side_parts(table) for row in read_columns(part).to_pylist()]


def some_words(seed: int, num: int) -> list[str]:
    return [f"w{n:x}" for n in np.random.default_rng(seed).integers(0, 1 << 40, num)]


def naive_grams(words: Sequence[str], n: int) -> set[tuple[str, ...]]:
    n = min(n, len(words))
    return {tuple(words[i : i + n]) for i in range(len(words) - n + 1)} if words else set()


def naive_overlap(document: Sequence[str], item: Sequence[str], n: int, shortest: int) -> tuple[int, int]:
    """Distinct n-grams of the item that stand in the document, and all of them."""
    if len(item) < shortest:
        return 0, 0
    grams = naive_grams(item, n)
    size = len(next(iter(grams)))
    held = {tuple(document[i : i + size]) for i in range(len(document) - size + 1)}
    return len(grams & held), len(grams)


LETTERS = st.lists(st.sampled_from("abc"), max_size=14)


@settings(max_examples=25, deadline=None)
@given(
    texts=st.lists(LETTERS, min_size=1, max_size=6),
    items=st.lists(LETTERS, min_size=1, max_size=4),
    n=st.integers(2, 5),
    shortest=st.integers(1, 2),
    count=st.integers(1, 3),
    share=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_fast_equals_sets_of_tuples(
    tmp_path_factory: pytest.TempPathFactory,
    texts: list[list[str]],
    items: list[list[str]],
    n: int,
    shortest: int,
    count: int,
    share: float,
) -> None:
    folder = tmp_path_factory.mktemp("decontaminate")
    documents = make_documents([" ".join(t) for t in texts])
    docs = make_docs_artifact(folder / "docs", documents, 2)
    file = write_items(folder / "eval.jsonl", [" ".join(i) for i in items])
    stage = Decontaminate(against=(file,), n=n, shortest=shortest, count=count, share=share)
    if all(len(i) < shortest for i in items):
        with pytest.raises(BadRecipe, match="nothing can be looked for"):
            run_stage(stage, {"docs": docs}, folder / "out")
        return
    made = run_stage(stage, {"docs": docs}, folder / "out")
    expected, gone = {}, set()
    for document, words in zip(documents, texts, strict=True):
        for row, item in enumerate(items):
            found, grams = naive_overlap(words, item, n, shortest)
            if found:
                expected[document.id, row] = (found, grams)
                if found >= min(count, grams) and found / grams >= share:
                    gone.add(document.id)
    assert {(r["doc_id"], r["row"]): (r["found"], r["grams"]) for r in rows_of(made, "overlap")} == expected
    assert {r["doc_id"] for r in rows_of(made, "removed")} == gone
    assert {d.id for d in open_documents(made.folder)} == {d.id for d in documents} - gone
    assert made.manifest.balance is not None and made.manifest.balance.num_removed == len(gone)


def planted(tmp_path: Path) -> tuple[list[Document], str, list[str]]:
    """40 documents; the first two hold an item of 30 words, whole and by half, in other case and punctuation."""
    item = some_words(1, 30)
    texts = [" ".join(some_words(100 + k, 200)) for k in range(40)]
    texts[0] = f"汉字 é {texts[0]}\n«{', '.join(item).upper()}!» and more"
    texts[1] = f"{texts[1]} {' '.join(item[:20])} end"
    other = some_words(2, 10)
    texts[2] = f"{' '.join(other)} {texts[2]}"
    file = write_items(tmp_path / "eval.jsonl", [" ".join(item), " ".join(other), "too short to mean anything"])
    return make_documents(texts), file, [" ".join(item), " ".join(other)]


def test_what_was_found_where_is_told(tmp_path: Path) -> None:
    documents, file, items = planted(tmp_path)
    docs = make_docs_artifact(tmp_path / "docs", documents, 3)
    made = run_stage(Decontaminate(against=(file,)), {"docs": docs}, tmp_path / "out")
    found = {r["doc_id"]: r for r in rows_of(made, "overlap")}
    assert set(found) == {d.id for d in documents[:3]}
    whole, half, short = (found[d.id] for d in documents[:3])
    assert (whole["found"], whole["grams"], whole["share"]) == (18, 18, 1.0)
    assert str(whole["text"]).lower().replace(",", "") == items[0]
    assert (half["found"], half["text"]) == (8, " ".join(items[0].split()[:20]))
    assert (short["row"], short["found"], short["grams"], short["text"]) == (1, 1, 1, items[1])
    for document in documents[:3]:
        row = found[document.id]
        assert document.text[row["start"] : row["stop"]] == row["text"]  # type: ignore[misc]
    told = fate(made.folder, documents[1].id)[-1]
    assert (told.outcome, told.reason) == ("removed", REASON)
    assert told.detail["detail"] == f"eval.jsonl row 0: 8 of 18 n-grams, characters {half['start']}-{half['stop']}"
    assert made.manifest.decision["by_file"] == {
        "eval.jsonl": {"items": 3, "too_short": 1, "touched": 2, "found": 2, "documents": 3}
    }
    assert made.manifest.decision["contaminated"] == 3


def test_thresholds_decide_who_goes(tmp_path: Path) -> None:
    documents, file, _ = planted(tmp_path)
    docs = make_docs_artifact(tmp_path / "docs", documents, 2)
    gone = {}
    for name, options in {"share": {"share": 0.6}, "count": {"count": 10}, "report": {"remove": False}}.items():
        made = run_stage(Decontaminate(against=(file,), **options), {"docs": docs}, tmp_path / name)  # type: ignore[arg-type]
        gone[name] = {r["doc_id"] for r in rows_of(made, "removed")}
        assert len(rows_of(made, "overlap")) == 3
    first, _, third = (d.id for d in documents[:3])
    assert gone == {"share": {first, third}, "count": {first, third}, "report": set()}, "a short item has one n-gram"


def test_the_same_for_parts_and_workers(tmp_path: Path) -> None:
    documents, file, _ = planted(tmp_path)
    seen = []
    for parts, workers in ((1, 0), (4, 0), (4, 2)):
        docs = make_docs_artifact(tmp_path / f"docs-{parts}-{workers}", documents, parts)
        out = tmp_path / f"out-{parts}-{workers}"
        made = run_stage(Decontaminate(against=(file,)), {"docs": docs}, out, engine=Local(workers))
        seen.append((rows_of(made, "removed"), rows_of(made, "overlap"), made.manifest.decision))
    assert seen[0] == seen[1] == seen[2]


def test_tokens_instead_of_words(tmp_path: Path) -> None:
    documents, file, items = planted(tmp_path)
    docs = make_docs_artifact(tmp_path / "docs", documents, 2)
    made = run_stage(Decontaminate(against=(file,), tokenizer=TOKENIZER), {"docs": docs}, tmp_path / "out")
    rows = {r["doc_id"]: r for r in rows_of(made, "overlap")}
    assert set(rows) >= {documents[1].id, documents[2].id}, "tokens see case: the first may be missed"
    assert str(rows[documents[2].id]["text"]).strip() in items[1]


def test_two_files_of_one_name_and_text_files(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    item = " ".join(some_words(5, 20))
    one, two = write_items(tmp_path / "eval.jsonl", [item]), write_items(tmp_path / "a" / "eval.jsonl", [item])
    lines = tmp_path / "lines.txt"
    lines.write_text(f"nothing\n{item}\n")
    docs = make_docs_artifact(tmp_path / "docs", make_documents([item]))
    made = run_stage(Decontaminate(against=(one, two, str(lines))), {"docs": docs}, tmp_path / "out")
    assert {(r["file"], r["row"]) for r in rows_of(made, "overlap")} == {
        ("eval.jsonl", 0),
        ("eval.jsonl (1)", 0),
        ("lines.txt", 1),
    }
    assert len(open_documents(made.folder)) == 0


def test_a_changed_file_is_another_question(tmp_path: Path) -> None:
    docs = make_docs_artifact(tmp_path / "docs", make_documents([" ".join(some_words(6, 20))]))
    file = write_items(tmp_path / "eval.jsonl", [" ".join(some_words(7, 20))])
    before = run_stage(Decontaminate(against=(file,)), {"docs": docs}, tmp_path / "before").manifest
    write_items(tmp_path / "eval.jsonl", [" ".join(some_words(6, 20))])
    after = run_stage(Decontaminate(against=(file,)), {"docs": docs}, tmp_path / "after").manifest
    assert before.fingerprint != after.fingerprint
    assert (before.decision["contaminated"], after.decision["contaminated"]) == (0, 1)


def test_what_cannot_work_is_refused(tmp_path: Path) -> None:
    docs = {"docs": make_docs_artifact(tmp_path / "docs", make_documents(["a"]))}
    file = write_items(tmp_path / "eval.jsonl", ["short"])
    with pytest.raises(NotFound, match="no such evaluation file"):
        run_stage(Decontaminate(against=("nowhere.jsonl",)), docs, tmp_path / "out")
    with pytest.raises(BadRecipe, match="nothing can be looked for"):
        run_stage(Decontaminate(against=(file,)), docs, tmp_path / "out")
    with pytest.raises(BadQuery, match="row 0 has no text under 'question'"):
        run_stage(Decontaminate(against=(file,), key="question"), docs, tmp_path / "out")
    with pytest.raises(BadRecipe, match="shortest of 1 or more"):
        run_stage(Decontaminate(against=(file,), n=0), docs, tmp_path / "out")


def test_a_prompt_that_all_items_share_does_not_flood_the_table(tmp_path: Path) -> None:
    prompt = " ".join(some_words(8, 20))
    items = [f"{prompt} {' '.join(some_words(20 + k, 10))}" for k in range(MOST_ITEMS + 30)]
    docs = make_docs_artifact(tmp_path / "docs", make_documents([prompt, items[70]]))
    made = run_stage(Decontaminate(against=(write_items(tmp_path / "eval.jsonl", items),)), {"docs": docs}, tmp_path / "out")
    rows = rows_of(made, "overlap")
    assert len(rows) == 2 * MOST_ITEMS
    whole = next(d.id for d in make_documents(["", ""])[1:])
    assert next(r["share"] for r in rows if r["doc_id"] == whole and r["row"] == 70) == 1.0
    assert {r["detail"].split(":")[0] for r in rows_of(made, "removed") if r["doc_id"] == whole} == {"eval.jsonl row 70"}  # type: ignore[attr-defined]
