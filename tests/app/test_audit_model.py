"""audit weights, report, gate, text: a planted checkpoint goes through all of them; verify runs on a tiny model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from tests.lm.server import serve
from tests.store.audit.test_vocabulary import model_bytes
from tests.store.weights.making import bf16, write_folder
from typecase.app.audit import auditing
from typecase.app.audit.bigrams import audit_bigrams
from typecase.app.audit.verdict import audit_gate, audit_report
from typecase.app.audit.weights import WeightsAudit, audit_weights, vocabulary_of
from typecase.app.commands.audit import audit_command
from typecase.errors import BadQuery, FixInput, TypecaseError
from typecase.lm.fake import FakeLM
from typecase.lm.protocol import Can
from typecase.store.audit.files import read_table, write_table
from typecase.store.audit.vocabulary import open_vocabulary

DATA = Path(__file__).parents[1] / "data" / "tokenizers"
BYTES = DATA / "bytes"
WIDTH, PADDING = 64, 24


def called(*arguments: object) -> Result:
    return CliRunner().invoke(audit_command, [str(a) for a in arguments], catch_exceptions=False)


def run(*arguments: object) -> str:
    result = called(*arguments)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """A tied checkpoint with the tokenizer `bytes`: bytes that no text holds and 15 tokens are one vector, id 300 is zero."""
    folder = tmp_path_factory.mktemp("planted")
    shutil.copytree(BYTES, folder, dirs_exist_ok=True)
    v = open_vocabulary(BYTES)
    rng = np.random.default_rng(0)
    values = rng.normal(size=(v.num_ids + PADDING, WIDTH)) + rng.normal(size=WIDTH)
    never = [t for t, d in enumerate(v.data) if v.kinds[t] == "byte" and d and (d[0] in (0xC0, 0xC1) or d[0] >= 0xF5)]
    normal = [t for t, kind in enumerate(v.kinds) if kind == "normal" and t != 300]
    dead = sorted({*never, *rng.choice(normal, 15, replace=False).tolist()})
    values[[*dead, *range(v.num_ids, len(values))]] = rng.normal(size=WIDTH) * 1.3
    values[dead] += 0.02 * rng.normal(size=(len(dead), WIDTH))
    values[300] = 0
    config = {"vocab_size": len(values), "hidden_size": WIDTH, "tie_word_embeddings": True}
    half = {"model.embed_tokens.weight": bf16(values)}, {"model.norm.weight": np.ones(WIDTH, np.float32)}
    write_folder(folder, list(half), config)
    return folder, dead


@pytest.fixture(scope="module")
def weights(planted: tuple[Path, list[int]]) -> WeightsAudit:
    return audit_weights(planted[0])


def test_planted_tokens_rank_first(planted: tuple[Path, list[int]], weights: WeightsAudit) -> None:
    rows = sorted(weights.table.to_pylist(), key=lambda row: row["rank"])
    assert rows[0]["i"] == 300 and rows[0]["row"] == "zero" and rows[0]["e_out_cosine"] is None and rows[0]["candidate"]
    dead = planted[1]
    assert {row["i"] for row in rows[1 : len(dead) + 1]} == set(dead)
    assert weights.tied and weights.num_ids < weights.num_rows and weights.padding == {"ordinary": PADDING}
    assert weights.plateau is not None and weights.plateau.size == len(dead) and weights.warnings == ()
    assert weights.agreement is not None and weights.agreement.spearman > 0.95
    assert sum(weights.rows.values()) == weights.num_ids == weights.table.num_rows
    assert sum(row["reference"] for row in rows) <= 10


def test_the_candidates_are_counted_as_published(weights: WeightsAudit) -> None:
    rows = weights.table.to_pylist()
    ordinary = np.array([row["e_out_cosine"] for row in rows if row["category"] == "OK" and row["e_out_cosine"] is not None])
    assert weights.threshold == pytest.approx(np.percentile(ordinary, 2))
    assert (ordinary <= weights.threshold).sum() == int(0.02 * (len(ordinary) - 1)) + 1
    special = [row for row in rows if row["category"] == "OK_SPECIAL" and (row["e_out_cosine"] or 0) <= weights.threshold]
    assert weights.tested_as_published == int(0.02 * (len(ordinary) - 1)) + 1 + len(special) + 1  # and the row of zeros


def test_what_cannot_rank_is_refused(planted: tuple[Path, list[int]]) -> None:
    with pytest.raises(BadQuery, match="inverted"):
        audit_weights(planted[0], main="e_in_norm")
    with pytest.raises(BadQuery, match="is no indicator"):
        audit_weights(planted[0], main="bias")
    with pytest.raises(FixInput, match="share"):
        audit_weights(planted[0], share=0)


def test_given_references_and_old_views(planted: tuple[Path, list[int]]) -> None:
    folder, dead = planted
    text = run("weights", folder, "--references", ",".join(map(str, dead[:4])), "--old-views", "--top", 3)
    assert "(given)" in text and "identical to another" in text
    made = json.loads(run("weights", folder, "--old-views", "--json", "--where", "candidate"))
    assert {"pc_cosine", "centred_cosine"} <= set(made["rows"][0]) and made["spreads"]["pc_cosine"]["median"] > 0
    assert made["references"]["method"] == "neighbours"


def test_report_gate_and_text(planted: tuple[Path, list[int]], weights: WeightsAudit, tmp_path: Path) -> None:
    folder, dead = planted
    tokenizer = auditing.audit_tokenizer(BYTES)
    write_table(tmp_path / "t.parquet", tokenizer.table, tokenizer.header())
    run("weights", folder, "--table", tmp_path / "w.parquet")
    v = open_vocabulary(BYTES)
    wanted = next(t for t in dead if v.kinds[t] == "normal")
    text = run(
        "report", tmp_path / "t.parquet", tmp_path / "w.parquet", "--table", tmp_path / "v.parquet",
        "--ids", tmp_path / "ids.json", "--wanted", wanted,
    )  # fmt: skip
    assert "by tokenizer, weights" in text and "under_trained" in text
    rows = {row["i"]: row for row in read_table(tmp_path / "v.parquet")[0].to_pylist()}
    assert all(rows[t]["decision"] == "under_trained" for t in [*dead, 300])
    assert rows[300]["reasons"] == ["its row is zero"] and rows[wanted]["advice"] == "reinitialise"
    never = next(t for t in dead if v.kinds[t] == "byte")
    assert rows[never]["advice"] == "keep" and "no text makes it" in rows[never]["reasons"]
    ids = json.loads((tmp_path / "ids.json").read_text())
    assert set(ids["mask"]) == {t for t, row in rows.items() if row["decision"] == "under_trained"}
    assert ids["reinitialise"] == [wanted] and not set(ids["drop"]) & set(ids["replace"])

    passed = called("gate", tmp_path / "v.parquet", "--fail-on", f"under_trained={len(ids['mask'])}", "--fail-on", "wasted=99%")
    assert passed.exit_code == 0 and "pass" in passed.output
    broken = called("gate", tmp_path / "v.parquet", "--fail-on", "zero_rows=0", "--sarif", tmp_path / "s.json", "--json")
    assert broken.exit_code == 1
    answer = json.loads(broken.output)
    assert answer["findings"][0]["first_ids"] == [300] and not answer["passed"]
    sarif = json.loads((tmp_path / "s.json").read_text())
    assert sarif["runs"][0]["results"][0]["level"] == "error" and sarif["version"] == "2.1.0"
    (tmp_path / "allow.json").write_text(json.dumps([{"i": 300, "hex": rows[300]["hex"]}]))
    assert audit_gate(tmp_path / "v.parquet", ["zero_rows=0"], allowed=tmp_path / "allow.json").passed
    (tmp_path / "allow.json").write_text(json.dumps([{"i": 300, "hex": "00"}]))
    assert not audit_gate(tmp_path / "v.parquet", ["zero_rows=0"], allowed=tmp_path / "allow.json").passed
    assert audit_gate(tmp_path / "v.parquet", ["new=0"], baseline=tmp_path / "v.parquet").passed
    for budgets, message in (([], "needs a budget"), (["x=1"], "no measure"), (["never=0"], "lacks"), (["new=0"], "baseline")):
        with pytest.raises(FixInput, match=message):
            audit_gate(tmp_path / "v.parquet", budgets)

    piece = v.text_of(wanted) or ""
    (tmp_path / "a.txt").write_text(f"plain words\n{piece}\n", encoding="utf-8")
    made = json.loads(run("text", tmp_path / "a.txt", "--verdict", tmp_path / "v.parquet", "--tokenizer", BYTES, "--json"))
    expected = [v.codec.encode([line])[0] for line in ("plain words\n", f"{piece}\n")]
    assert made["tokens"] == sum(map(len, expected))
    assert {m["i"]: m["times"] for m in made["marked"]} == {
        t: sum(ids_.count(t) for ids_ in expected) for t in ids["mask"] if any(t in ids_ for ids_ in expected)
    }
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": piece}) + "\n{}\n")
    with pytest.raises(FixInput, match="line 2"):
        run("text", tmp_path / "a.jsonl", "--verdict", tmp_path / "v.parquet", "--tokenizer", BYTES)
    with pytest.raises(FixInput, match="no decisions"):
        run("text", tmp_path / "a.txt", "--verdict", tmp_path / "w.parquet", "--tokenizer", BYTES)


def test_the_tokenizer_beside_the_weights_is_found(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32)
    folder = write_folder(tmp_path / "m", [{"wte.weight": values}])
    bare = audit_weights(folder)
    assert bare.tokenizer is None and bare.num_ids == 40 and "hex" not in bare.table.column_names
    (folder / "tokenizer.model").write_bytes(model_bytes())
    found = vocabulary_of(folder, None)
    assert found is not None and found.file_kind == "SentencePiece"
    assert vocabulary_of(folder / "model.safetensors", None) is not None
    with pytest.raises(BadQuery, match="another tokenizer"):
        audit_weights(folder, tokenizer=BYTES)


def test_two_models_are_compared(planted: tuple[Path, list[int]], weights: WeightsAudit, tmp_path: Path) -> None:
    table = weights.table
    write_table(tmp_path / "a.parquet", table, weights.header())
    moved = np.array(table.column("candidate").to_pylist())
    moved[[300, 301]] = ~moved[[300, 301]]
    at = table.column_names.index("candidate")
    write_table(tmp_path / "b.parquet", table.set_column(at, "candidate", pa.array(moved)), weights.header())
    made = json.loads(run("diff", tmp_path / "a.parquet", tmp_path / "b.parquet", "--json", "--where", "true"))
    assert [row["i"] for row in made["rows"]] == [300, 301] and made["correlation"] == pytest.approx(1)
    assert made["bad_a"] == sum(table.column("candidate").to_pylist())
    assert "1.000 (Jaccard)" in run("diff", tmp_path / "a.parquet", tmp_path / "a.parquet")
    write_table(tmp_path / "part.parquet", table.slice(0, 9), weights.header())
    with pytest.raises(BadQuery, match="9 of 512 ids: write it without --where"):
        audit_gate(tmp_path / "part.parquet", ["zero_rows=0"])
    write_table(tmp_path / "c.parquet", table.slice(0, 9), {})
    with pytest.raises(BadQuery, match="different vocabularies"):
        run("diff", tmp_path / "a.parquet", tmp_path / "c.parquet")


def test_bigrams_are_what_the_encoder_makes(tmp_path: Path) -> None:
    v = open_vocabulary(DATA / "gpt4.json")
    found = audit_bigrams(DATA / "gpt4.json")
    rows = found.table.to_pylist()
    assert found.made == len(rows) <= found.possible and found.made > 0
    for row in rows[:200]:
        assert v.codec.encode([row["text"]])[0] == [row["a"], row["b"]]
    assert "the encoder makes" in run("bigrams", DATA / "gpt4.json", "--top", 3)
    write_table(tmp_path / "w.parquet", pa.table({"i": [0], "percentile": [1.0]}), {})
    with pytest.raises(BadQuery, match="no table of audit weights"):
        run("bigrams", DATA / "gpt4.json", "--weights", tmp_path / "w.parquet")


def test_tables_that_do_not_belong_together_are_refused(weights: WeightsAudit) -> None:
    small = pa.table({"i": [0, 1], "row": ["ordinary", "zero"], "hex": ["61", "62"]})
    with pytest.raises(BadQuery, match="different vocabularies"):
        audit_report([(weights.table, weights.header()), (small, {})])
    with pytest.raises(BadQuery, match="no audit"):
        audit_report([(pa.table({"x": [1]}), {})])
    with pytest.raises(BadQuery, match="nothing to join"):
        audit_report([])


def test_void_prompts_are_no_evidence() -> None:
    table = pa.table({"i": [0, 1], "max_prob": [0.0, 0.9], "verified": [True, False], "borderline": [False, False]})
    assert audit_report([(table, {})]).decisions == {"fine": 1, "under_trained": 1}
    void = audit_report([(table, {"void": True}), (pa.table({"i": [0, 1], "row": ["ordinary"] * 2}), {})])
    assert void.void and void.decisions == {"fine": 2} and "prompts" not in void.sides


def test_counts_are_compared_with_indicators() -> None:
    table = pa.table({"i": range(4), "row": ["ordinary"] * 4, "e_out_cosine": [0.1, 0.2, 0.3, 0.4], "count": [0, 1, 5, 900]})
    assert audit_report([(table, {})]).correlations == {"e_out_cosine": pytest.approx(1.0)}


def test_a_served_model_is_asked(planted: tuple[Path, list[int]], tmp_path: Path) -> None:
    """A server that repeats everything but the planted tokens."""
    pytest.importorskip("httpx")
    folder, dead = planted
    v = open_vocabulary(BYTES)
    silent = {text.strip() for t in dead if (text := v.text_of(t))} | {(v.text_of(300) or "").strip()}

    def reply(prompt: str) -> str:
        asked = prompt.split("«")[-1].split("»")[0]
        return "I do not know" if asked.strip() in silent else asked

    with serve(FakeLM(reply=reply, can=Can(generate=True))) as server:
        (tmp_path / "m.toml").write_text(f'[model]\nurl = "{server.url}"\nmodel = "fake"\ntop_logprobs = 0\n')
        text = run(
            "verify", folder, "-o", tmp_path / "out", "--endpoint", tmp_path / "m.toml", "--share", 0.04, "--quiet",
            "--table", tmp_path / "c.parquet",
        )  # fmt: skip
        asked = len(server.requests)
        run("verify", folder, "-o", tmp_path / "out", "--endpoint", tmp_path / "m.toml", "--share", 0.04, "--quiet")
        once_more = len(server.requests) - asked
    rows = read_table(tmp_path / "c.parquet")[0].to_pylist()
    tested = {row["i"] for row in rows if row["verified"] is not None}
    assert {row["i"] for row in rows if row["verified"]} == {t for t in tested if (v.text_of(t) or "").strip() in silent}
    assert {t for t in [*dead, 300] if v.kinds[t] == "normal" and row_is_ok(rows[t])} <= tested
    assert "VOID" not in text and "unanswered" in text and asked > 0 and once_more == 0


def row_is_ok(row: dict[str, Any]) -> bool:
    """Whether a token can be asked as text."""
    return bool(row["category"] == "OK")


@pytest.mark.slow
def test_verify_on_a_model_that_cannot_copy_is_void(planted: tuple[Path, list[int]], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    transformers: Any = pytest.importorskip("transformers")
    v = open_vocabulary(BYTES)
    config = transformers.LlamaConfig(
        vocab_size=v.num_ids, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=1024, tie_word_embeddings=True,
    )  # fmt: skip
    folder = tmp_path / "m"
    shutil.copytree(BYTES, folder)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    transformers.PreTrainedTokenizerFast(tokenizer_file=str(BYTES / "tokenizer.json")).save_pretrained(folder)
    options = ("--share", 0.005, "--device", "cpu", "--quiet", "--table", tmp_path / "c.parquet")
    first = called("verify", folder, "-o", tmp_path / "out", *options)
    assert first.exit_code == 3 and "VOID" in first.output
    table, header = read_table(tmp_path / "c.parquet")
    assert header["void"] and header["controls"]["can_copy"] < 0.5
    answers = (tmp_path / "out" / "answers.jsonl").read_bytes()
    again = called("verify", folder, "-o", tmp_path / "out", *options)
    assert (tmp_path / "out" / "answers.jsonl").read_bytes() == answers and again.exit_code == 3
    assert read_table(tmp_path / "c.parquet")[0].to_pylist() == table.to_pylist()
    assert called("gate", tmp_path / "c.parquet", "--fail-on", "verified=0").exit_code == 3
    with pytest.raises(TypecaseError, match="no ids of tokens"):
        run("verify", folder, "-o", tmp_path / "out", "--ids", "999999", "--quiet")
