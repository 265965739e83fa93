"""Run files: what they may say, and what is said when they cannot mean anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from typecase.errors import BadQuery, NotFound
from typecase.store.timeline.settings import read_settings


def test_toml_json_and_a_command_line_say_the_same(tmp_path: Path) -> None:
    toml, json, args = tmp_path / "run.toml", tmp_path / "run.json", tmp_path / "args.toml"
    head = 'framework = "megatron-core"\ndata_path = ["0.7", "a", "0.3", "b"]\n'
    toml.write_text(head + "seq_length = 32\nrampup_batch_size = [4, 4, 100]")
    json.write_text(
        '{"framework": "megatron-core", "seq-length": 32, "rampup_batch_size": [4, 4, 100],'
        ' "data_path": ["0.7", "a", "0.3", "b"]}'
    )
    args.write_text(head + 'args = "--seq-length 32 --rampup-batch-size 4 4 100 --bf16"')
    assert read_settings(toml).values == read_settings(json).values
    assert {**read_settings(toml).values, "bf16": True} == read_settings(args).values


def test_changes_override_and_are_typed_as_in_toml(tmp_path: Path) -> None:
    run = tmp_path / "run.toml"
    run.write_text('framework = "gpt-neox"\nseed = 1')
    found = read_settings(run, ["seed=7", "split=90,5,5", "allow-chopped=false", "name='x'"])
    assert found.values == {"seed": 7, "split": "90,5,5", "allow_chopped": False, "name": "x"}
    assert read_settings(run, {"seed": 8}).values["seed"] == 8


def test_a_token_set_stands_for_a_file(tmp_path: Path) -> None:
    found = read_settings(tmp_path / "set", ["framework=gpt-neox"])
    assert found.values == {"data_path": str(tmp_path / "set")}


@pytest.mark.parametrize(
    ("text", "changes", "said"),
    [
        ("seed = 1", [], "framework is not given"),
        ('framework = "fairseq"', [], "framework is 'fairseq'; name one of gpt-neox"),
        ("seed = ", [], "cannot be read"),
        ('framework = "gpt-neox"', ["seed"], "'seed' is no setting"),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, text: str, changes: list[str], said: str) -> None:
    run = tmp_path / "run.toml"
    run.write_text(text)
    with pytest.raises(BadQuery, match=said):
        read_settings(run, changes)


def test_missing_settings_and_wrong_kinds_are_named(tmp_path: Path) -> None:
    run = tmp_path / "run.toml"
    run.write_text('framework = "gpt-neox"\nseq_lenght = 32\nseed = "one"\nflag = true')
    found = read_settings(run)
    with pytest.raises(BadQuery, match=r"gpt-neox needs seq_length, and it is not given; there is 'seq_lenght'"):
        found.need("seq_length", int)
    with pytest.raises(BadQuery, match="seed is 'one', expected int"):
        found.get("seed", int)
    with pytest.raises(BadQuery, match="flag is True, expected int"):
        found.get("flag", int)
    with pytest.raises(NotFound, match="does not exist"):
        read_settings(tmp_path / "none.toml")
