"""audit: the verbs and their commands; tables in every format; filters; comparison; refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.csv
import pytest
from click.testing import CliRunner

from tests.store.naive_tokens import write_set
from typecase.app.audit import auditing
from typecase.app.commands.audit import audit_command
from typecase.core.glitch.prediction import Plan
from typecase.errors import BadQuery, TypecaseError
from typecase.store.audit.files import escaped, read_table, select_rows, write_table
from typecase.store.audit.vocabulary import open_vocabulary

DATA = Path(__file__).parents[1] / "data" / "tokenizers"
BYTES = DATA / "bytes"


def run(*arguments: object) -> Any:
    result = CliRunner().invoke(audit_command, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def audit() -> auditing.TokenizerAudit:
    return auditing.audit_tokenizer(BYTES)


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    v = open_vocabulary(BYTES)
    texts = ["the words that the reader sees", "the type case holds the sorts", "ü the " * 30]
    return write_set(tmp_path / "set" / "text", [[ids] for ids in v.codec.encode(texts)])


def test_rows_add_up(audit: auditing.TokenizerAudit) -> None:
    table = audit.table
    assert table.num_rows == audit.num_ids and table.column("i").to_pylist() == list(range(audit.num_ids))
    for counted in (audit.kinds, audit.reach, audit.categories, audit.origins, audit.suggestions):
        assert sum(counted.values()) == audit.num_ids
    assert sum(audit.lengths.values()) == audit.num_ids
    rows = table.to_pylist()
    zero = next(row for row in rows if row["hex"] == "00")
    assert zero["decoded"] == "\0" and zero["kind"] == "byte" and zero["duplicate_of"] is None


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".csv", ".md"])
def test_tables_are_written_in_every_format(audit: auditing.TokenizerAudit, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"t{suffix}"
    assert write_table(path, audit.table, audit.header()) == audit.num_ids
    if suffix == ".jsonl":
        first, *rows = [json.loads(line) for line in path.read_text().split("\n")[:-1]]
        assert first["header"]["groups"]["bytes"] == 256 and [row["i"] for row in rows] == list(range(audit.num_ids))
    elif suffix == ".parquet":
        table, header = read_table(path)
        assert table.to_pylist() == audit.table.to_pylist() and header["num_ids"] == audit.num_ids
    elif suffix == ".csv":
        read = pyarrow.csv.read_csv(path, parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True))
        assert read.num_rows == audit.num_ids
    else:
        lines = [line for line in path.read_text().split("\n") if line.startswith("|")]
        assert len(lines) == audit.num_ids + 2
    with pytest.raises(BadQuery, match="no known format"):
        write_table(tmp_path / "t.xls", audit.table, {})


def test_hostile_text_cannot_break_a_table() -> None:
    hostile = "a|b`c\n\x00\u202ed\u200b\ue000<x>"
    assert escaped(hostile) == r"a\|b\`c\\u000a\\u0000\\u202ed\\u200b\\ue000\<x\>"


def test_rows_are_filtered_and_sorted(audit: auditing.TokenizerAudit) -> None:
    found = select_rows(audit.table, where="utf8 = 'prefix'", sort="bytes desc", top=3)
    assert found.num_rows == 3 and set(found.column("utf8").to_pylist()) == {"prefix"}
    assert select_rows(audit.table, top=5).column("i").to_pylist() == [0, 1, 2, 3, 4]
    with pytest.raises(BadQuery, match="its columns are i, raw_vocab"):
        select_rows(audit.table, where="no_such = 1")


def test_a_corpus_is_joined(tokens: Path, tmp_path: Path) -> None:
    found = auditing.audit_corpus([tokens], tmp_path / "census", tokenizer=BYTES, plan=Plan(at_risk=3), wanted=[300])
    rows = found.table.to_pylist()
    the = next(row for row in rows if row["decoded"] == " the")
    assert the["count"] >= 30 and the["documents"] >= 2 and the["prediction"] == "expected" and the["suggestion"] == "keep"
    assert rows[300]["suggestion"] == "retrain" if rows[300]["count"] == 0 else True
    assert found.never == sum(row["count"] == 0 and row["kind"] != "gap" for row in rows)
    assert found.once == sum(row["count"] == 1 for row in rows) and found.outside == 0 and found.mismatched == ()
    assert sum(row["count"] for row in rows) == found.num_tokens
    again = auditing.audit_corpus([tokens, tokens], tmp_path / "two", tokenizer=BYTES)
    assert again.num_tokens == 2 * found.num_tokens and again.num_documents == 6


def test_another_tokenizer_is_noticed(tmp_path: Path) -> None:
    v = open_vocabulary(BYTES)
    dead = [t for t, data in enumerate(v.data) if data in (b"\xc0", b"\xf5")]
    tokens = write_set(tmp_path / "set" / "text", [[[*dead, 5, 60000]]])
    found = auditing.audit_corpus([tokens], tmp_path / "census", tokenizer=BYTES)
    assert found.mismatched == tuple(sorted(dead)) and found.outside == 1
    with pytest.raises(BadQuery, match="does not say which tokenizer made it"):
        auditing.audit_corpus([tokens], tmp_path / "other")


def test_two_tokenizers_are_compared() -> None:
    found = auditing.audit_compare(BYTES, DATA / "gpt4.json")
    assert found.shared + found.only_a <= found.num_a and found.only_b > 0
    assert found.table.num_rows == found.only_a + found.only_b + found.changed
    same = auditing.audit_compare(BYTES, BYTES)
    assert (same.moved, same.only_a, same.only_b, same.changed, same.table.num_rows) == (0, 0, 0, 0, 0)


def test_commands(tokens: Path, tmp_path: Path) -> None:
    assert "as reports count   bytes 256" in run("tokenizer", BYTES)
    made = json.loads(run("tokenizer", BYTES, "--json", "--where", "kind = 'byte'", "--top", 4))
    assert len(made["rows"]) == 4 and made["groups"]["special"] >= 1
    out = tmp_path / "t.parquet"
    text = run("corpus", tokens, "-o", tmp_path / "c", "--tokenizer", BYTES, "--quiet", "--table", out, "--epochs", 2)
    assert "predicted under-trained" in text and read_table(out)[1]["exposure"] == 2
    assert "shared" in run("compare", BYTES, DATA / "gpt4.json")
    tiny = DATA / "tiny.tiktoken"
    assert "rank file" in run("tokenizer", tiny, "--pattern", "gpt2", "--special", "<eot>=600")
    with pytest.raises(TypecaseError, match="above 0"):
        run("corpus", tokens, "-o", tmp_path / "d", "--tokenizer", BYTES, "--epochs", 0)
