"""Index files: a run read from its own files is the run computed, and what does not belong is found and named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from tests.core.order.golden import golden_folder
from tests.store.timeline.runs import make_set, settings_of, write_run
from tests.store.timeline.test_timeline import LENGTHS
from typecase.app.trace import tracing
from typecase.errors import BadQuery, FingerprintMismatch, NotFound
from typecase.store.timeline.timeline import open_timeline

TOKENIZER = {"class": "T", "v": 50304}


def megatron_run(folder: Path, case: dict[str, Any], **changes: Any) -> Path:
    """The run of a golden case of Megatron-Core, over the golden token sets and their caches."""
    golden = golden_folder() / "megatron-core"
    weights = case["weights"] or [None] * len(case["prefixes"])
    data = [x for w, p in zip(weights, case["prefixes"]) for x in ([w] if w is not None else []) + [str(golden / p)]]
    settings = {
        "framework": "megatron-core",
        "data_path": data,
        "seq_length": case["sequence_length"],
        "seed": case["seed"],
        "split": case["split"],
        "train_samples": case["sizes"][0],
        "global_batch_size": 1,
        "eval_iters": 1,
    }
    return write_run(folder / "run.json", settings | changes)


def test_a_megatron_cache_is_found_by_its_description_and_belongs(tmp_path: Path) -> None:
    golden = golden_folder() / "megatron-core"
    cases = [
        c for c in orjson.loads((golden / "cases.json").read_bytes())["cases"] if c["sizes"][0] and len(c["prefixes"]) == 1
    ]
    plain = [c for c in cases if c.get("drop_last_partial_validation_sequence", True) is not False]
    assert plain
    for case in plain:
        extra = case.get("add_extra_token_to_sequence", True)
        run = megatron_run(tmp_path, case, add_extra_token_to_sequence=extra)
        found = tracing.order_check(run)
        assert found.agree, (case["name"], found)
        place = golden / case["prefixes"][0] / "cache" / "GPTDataset_indices"
        with open_timeline(run) as built, open_timeline(run, changes={"indexes": str(place)}) as read:
            every = np.arange(built.num_samples)
            assert np.array_equal(built.samples(every).padded(), read.samples(every).padded())


def test_neox_files_belong_and_stand_for_the_order(tmp_path: Path) -> None:
    golden = golden_folder() / "gpt-neox"
    for case in orjson.loads((golden / "cases.json").read_bytes())["cases"]:
        if "prefix" not in case or case["num_epochs"]:
            continue
        run = write_run(
            tmp_path / "run.json",
            {
                "framework": "gpt-neox",
                "data_path": str(golden / case["prefix"]),
                "seq_length": case["seq_length"],
                "seed": case["seed"],
                "split": case["split"],
                "train_iters": case["num_samples"],
                "train_micro_batch_size_per_gpu": 1,
                "pack_impl": case["packing_impl"],
                "allow_chopped": case["allow_chopped"],
            },
        )
        assert tracing.order_check(run).agree, case["name"]


@pytest.mark.parametrize("framework", ["gpt-neox", "megatron-core", "typecase"])
def test_what_is_written_is_read_back(tmp_path: Path, framework: str) -> None:
    make_set(tmp_path / "a", LENGTHS)
    run = write_run(tmp_path / "run.json", settings_of(framework, "a"))
    target = "gpt-neox" if framework == "typecase" else framework
    made = tracing.order_write(run, tmp_path / "indexes", framework=target, tokenizer=TOKENIZER)
    assert made and all(p.is_file() for p in made)
    changes = {"split": "100,0,0"} if framework == "typecase" else {}
    followed = write_run(tmp_path / "followed.json", settings_of(target, "a", **changes))
    with open_timeline(run) as mine, open_timeline(followed, changes={"indexes": "indexes"}) as theirs:
        every = np.arange(160 if framework == "typecase" else mine.num_samples)
        assert np.array_equal(mine.samples(every).padded(), theirs.samples(every).padded())
    again = tracing.order_write(run, tmp_path / "indexes", framework=target, tokenizer=TOKENIZER)
    assert again == made


def test_a_blend_is_written_and_read_back(tmp_path: Path) -> None:
    make_set(tmp_path / "a", LENGTHS)
    make_set(tmp_path / "b", LENGTHS[::-1], first_id=10_000)
    for framework, data in (
        ("megatron-core", {"data_path": [0.75, "a", 0.25, "b"]}),
        ("gpt-neox", {"train_data_paths": ["a", "b"], "train_data_weights": [3, 1]}),
    ):
        run = write_run(tmp_path / "run.json", settings_of(framework, "a") | data)
        tracing.order_write(run, tmp_path / framework, tokenizer=TOKENIZER)
        assert tracing.order_check(run, indexes=tmp_path / framework).agree
        with open_timeline(run) as built, open_timeline(run, changes={"indexes": framework}) as read:
            every = np.arange(built.num_samples)
            assert np.array_equal(built.samples(every).padded(), read.samples(every).padded())


def test_blends_of_two_runs_share_a_cache(tmp_path: Path) -> None:
    make_set(tmp_path / "a", LENGTHS)
    make_set(tmp_path / "b", LENGTHS[::-1], first_id=10_000)
    data = {"data_path": [0.75, "a", 0.25, "b"]}
    runs = [write_run(tmp_path / f"{n}.json", settings_of("megatron-core", "a", train_iters=n) | data) for n in (20, 30)]
    for run in runs:
        tracing.order_write(run, tmp_path / "cache", tokenizer=TOKENIZER)
    for run in runs:
        assert tracing.order_check(run, indexes=tmp_path / "cache").agree


def test_files_of_another_seed_split_or_set_are_told(tmp_path: Path) -> None:
    make_set(tmp_path / "a", LENGTHS)
    run = write_run(tmp_path / "run.json", settings_of("gpt-neox", "a"))
    made = tracing.order_write(run, tmp_path / "files")
    other = write_run(tmp_path / "other.json", settings_of("gpt-neox", "a", split="50,25,25"))
    told = tracing.order_check(other, indexes=tmp_path / "files").differences[str(tmp_path / "a" / "text_document")]
    assert any("[0, " in d.sentence for d in told)
    with pytest.raises(NotFound, match="9s"):
        tracing.order_check(run, indexes=tmp_path / "files", changes={"seed": 9})
    shuffle = np.load(made[2])
    np.save(made[2], shuffle[::-1])
    codes = {
        d.code for d in tracing.order_check(run, indexes=tmp_path / "files").differences[str(tmp_path / "a" / "text_document")]
    }
    assert codes == {"shuffle-order"}


def test_files_of_a_set_that_was_tokenised_again_are_refused_when_read(tmp_path: Path) -> None:
    make_set(tmp_path / "a", LENGTHS)
    run = write_run(tmp_path / "run.json", settings_of("gpt-neox", "a"))
    tracing.order_write(run, tmp_path / "files")
    for file in (tmp_path / "a").iterdir():
        file.unlink()
    make_set(tmp_path / "a", [n + (n > 20) for n in LENGTHS])
    with open_timeline(run, changes={"indexes": "files"}) as timeline, pytest.raises(FingerprintMismatch, match="order check"):
        timeline.samples(np.arange(20))
    assert not tracing.order_check(run, indexes=tmp_path / "files").agree


def test_listing_names_every_set(tmp_path: Path) -> None:
    golden = golden_folder()
    found = tracing.order_list(golden / "gpt-neox")
    assert {f.framework for f in found} == {"gpt-neox"} and len(found) >= 8
    caches = tracing.order_list(golden / "megatron-core" / "a_u16")
    assert {f.framework for f in caches} == {"megatron-core"} and all(not f.missing for f in caches)
    assert tracing.order_list(tmp_path) == []


def test_what_cannot_be_written(tmp_path: Path) -> None:
    make_set(tmp_path / "a", LENGTHS)
    keyed = write_run(tmp_path / "keyed.json", settings_of("typecase", "a"))
    with pytest.raises(BadQuery, match="name the framework"):
        tracing.order_write(keyed, tmp_path / "x")
    core = write_run(tmp_path / "core.json", settings_of("megatron-core", "a"))
    with pytest.raises(BadQuery, match="what the tokenizer says of itself"):
        tracing.order_write(core, tmp_path / "x")
    with pytest.raises(BadQuery, match="not as those of gpt-neox"):
        tracing.order_write(core, tmp_path / "x", framework="gpt-neox", tokenizer=TOKENIZER)
    assert not (tmp_path / "x").exists()
