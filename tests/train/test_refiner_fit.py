"""A language model that learns to refine: the rows that it reads, a whole fit of a tiny one, resumed, opened and asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from click.testing import CliRunner  # noqa: E402

from typecase.app.commands.refiner import refiner_command  # noqa: E402
from typecase.core.program.language import Program, keep_all, remove_lines, show  # noqa: E402
from typecase.errors import AlreadyExists, BadQuery, BadRecipe, TypecaseError  # noqa: E402
from typecase.lm.refine.form import load_refine_form  # noqa: E402
from typecase.lm.refine.refiners import open_refiner  # noqa: E402
from typecase.train.encoding import Encoder, open_tokenizer  # noqa: E402
from typecase.train.refiner_data import RefinerData, examples_of  # noqa: E402
from typecase.train.refiner_fit import fit_lm_refiner  # noqa: E402
from typecase.train.refiner_pairs import PAIRS, PairSet, collect_pairs, pair_of, read_pairs  # noqa: E402
from typecase.train.refiner_recipe import RefinerRecipe, split_of  # noqa: E402
from typecase.train.scratch import TINY, make_scratch  # noqa: E402
from typecase.train.tune import Scored, Unwatched  # noqa: E402

RECIPE = RefinerRecipe(base="tiny", domain="web", budget=120, max_tokens=40, epochs=2, batch=8, every=4, held_out=8, measured=6)
MENUS = ["Home", "Menu", "Login", "Share", "Search"]


def pairs_made(tmp_path: Path, *, decided: bool = False) -> PairSet:
    rows = []
    for n in range(40):
        body = f"Page {n} tells of boats and nets.\nThe sea was calm on day {n}.\n"
        noisy = f"{MENUS[n % 5]}\n{body}" if n % 2 else body
        rows.append({"noisy": noisy, "clean": body, "source": f"site{n % 8}"})
    rows += [{"noisy": f"buy {n} now", "clean": "", "source": f"site{n % 8}"} for n in range(12)] if decided else []
    (tmp_path / "texts.jsonl").write_bytes(b"\n".join(orjson.dumps(row) for row in rows))
    collect_pairs([("texts", tmp_path / "texts.jsonl")], tmp_path / "pairs")
    return read_pairs(tmp_path / "pairs")


def encoder_of(tmp_path: Path) -> Encoder:
    base = make_scratch(tmp_path / "base", ["boats and nets", "remove_lines(line_start=0, line_end=1)"] * 20, size=TINY, seed=1)
    return Encoder(open_tokenizer(base), base, chat=False, system="")


def test_rows_hold_the_prompt_and_ask_for_the_program_alone(tmp_path: Path) -> None:
    encoder, form = encoder_of(tmp_path), load_refine_form("student")
    text = "Menu\nThe boats.\nThe nets."
    pair = pair_of("s", "texts", text, Program((remove_lines(0, 0),)), "keep")
    found, lost = examples_of([pair], form, encoder, budget=200, max_tokens=60, stages=("document", "chunk"))
    assert not lost and [one.reply for one in found] == ["keep_doc()", "remove_lines(line_start=0, line_end=0)"]
    assert form.chunk_prompt("[000]Menu\n[001]The boats.\n[002]The nets.") == found[1].prompt
    data = RefinerData(found, encoder, keeps=1, seed=1)
    row = data.row(1)
    assert row.ids == (*encoder.prompts([found[1].prompt])[0], *row.targets[:-1])
    assert encoder.tokenizer.decode(row.targets[:-1]) == found[1].reply and row.targets[-1] == encoder.tokenizer.eos_token_id


def test_chunks_are_taught_their_own_rows(tmp_path: Path) -> None:
    encoder, form = encoder_of(tmp_path), load_refine_form("student")
    text = "\n".join(f"Line number {n} of the text." for n in range(12))
    pair = pair_of("s", "texts", text, Program((remove_lines(5, 6),)), None)
    whole, _ = examples_of([pair], form, encoder, budget=2000, max_tokens=60, stages=("chunk",))
    parts, _ = examples_of([pair], form, encoder, budget=60, max_tokens=60, stages=("chunk",))
    assert [one.reply for one in whole] == ["remove_lines(line_start=5, line_end=6)"]
    assert len(parts) > 2 and sum(one.reply != "keep_all()" for one in parts) <= 2
    long, lost = examples_of([pair], form, encoder, budget=2000, max_tokens=3, stages=("chunk",))
    assert not long and lost == {"a program longer than an answer": 1}


def test_an_epoch_shows_all_that_has_something_to_do(tmp_path: Path) -> None:
    encoder, form = encoder_of(tmp_path), load_refine_form("student")
    pairs = [pair_of("s", "texts", f"Menu\nText {n}.", Program((remove_lines(0, 0),)), None) for n in range(4)]
    pairs += [pair_of("s", "texts", f"Other text {n}.", Program((keep_all(),)), None) for n in range(20)]
    found, _ = examples_of(pairs, form, encoder, budget=200, max_tokens=60, stages=("chunk",))
    data = RefinerData(found, encoder, keeps=2, seed=1)
    first, second = data.epoch(0).tolist(), data.epoch(1).tolist()
    assert len(first) == len(second) == 12 and {0, 1, 2, 3} <= set(first) & set(second)
    assert first == RefinerData(found, encoder, keeps=2, seed=1).epoch(0).tolist() and first != second


def test_sources_are_not_divided_and_too_few_are_refused(tmp_path: Path) -> None:
    taught = pairs_made(tmp_path)
    split = split_of(taught.pairs, RECIPE)
    sources = [{taught.pairs[k].source for k in rows} for rows in (split.train, split.held_out, split.test)]
    assert not (sources[0] & sources[1] or sources[0] & sources[2] or sources[1] & sources[2])
    with pytest.raises(BadRecipe, match="3 sources or more"):
        split_of([replace(pair, source="one") for pair in taught.pairs], RECIPE)
    for wrong in ({"stages": ()}, {"domain": "cats"}, {"budget": 0}, {"keeps": -1}):
        with pytest.raises(BadQuery):
            replace(RECIPE, **wrong)


class _Stop(Unwatched):
    def scored(self, scored: Scored, best: bool) -> None:
        if scored.step >= 4:
            raise KeyboardInterrupt


@pytest.mark.slow
def test_a_fit_is_resumed_to_the_same_bytes_opened_and_asked(tmp_path: Path) -> None:
    taught = pairs_made(tmp_path, decided=True)
    recipe = replace(RECIPE, stages=("document", "chunk"))
    made = fit_lm_refiner(taught, tmp_path / "whole", recipe)
    with pytest.raises(KeyboardInterrupt):
        fit_lm_refiner(taught, tmp_path / "cut", recipe, watch=_Stop())
    assert not (tmp_path / "cut").exists()
    again = fit_lm_refiner(taught, tmp_path / "cut", recipe)
    assert again.tuned.resumed_at == 4 and again.fingerprint == made.fingerprint
    for name in ("model/model.safetensors", "refiner.toml", "figures.json", "REFINER_CARD.md"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    assert made.figures["valid"] == 1.0 and 0 <= made.figures["lines"]["f1"] <= 1
    assert made.figures["decisions"]["texts"] > 0 and "web-refiner-lm" in made.card and "constrained" in made.card
    refiner = open_refiner(tmp_path / "whole")
    (proposal,) = refiner.propose(["Menu\nA text of boats.\nAnd nets."])
    assert refiner.fingerprint == made.fingerprint and (proposal.decision is not None or show(proposal.program))
    with pytest.raises(AlreadyExists):
        fit_lm_refiner(taught, tmp_path / "whole", recipe)
    assert not list(tmp_path.glob(".*.partial"))


def test_the_commands_make_pairs_fit_and_show_the_card(tmp_path: Path) -> None:
    pairs_made(tmp_path)
    texts = tmp_path / "texts.jsonl"

    def run(*arguments: object) -> str:
        result = CliRunner().invoke(refiner_command, [str(a) for a in arguments], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    assert "40 in = 40 kept + 0 left out" in run("pairs", "--texts", texts, "-o", tmp_path / "p")
    assert (tmp_path / "p" / PAIRS).is_file()
    options = ["--kind", "lm", "--model", "tiny", "--domain", "maths", "--budget", 120, "--max-tokens", 40, "--epochs", 0.5]
    said = run("fit", tmp_path / "p", "-o", tmp_path / "m", *options, "--measured", 3, "--held-out", 4)
    assert "programs 100.0 % constrained" in said and "step 0: held out" in said
    assert "maths-refiner-lm" in run("card", tmp_path / "m")
    with pytest.raises(TypecaseError, match="--kind lm"):
        run("fit", tmp_path / "p", "-o", tmp_path / "t", "--domain", "web")
