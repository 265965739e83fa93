"""Does the data help: tiny language models on worlds whose noise is known, at equal tokens, over three seeds.

    python benchmarks/bench_world.py [--quick] [--json] [--work FOLDER] [--part refine|select]

refine   Pages of HTML documentation of generators that the tagger was not taught, cut to a screen or two. `noisy`: menus,
         notices and footers put in by wordings that it was not taught either (tagger_noise_held.toml), half of the
         characters of a page. `tagger`, `rules`, both: the noisy pages refined. `random`: as many of its lines gone, drawn
         at random. `clean`: the pages as they were, the oracle. Figure: bits per byte of held-out clean pages; the share of
         the gap that is closed. With noise of a fifth of the characters no gap could be measured at this size.
select   A pool of pages of which three fifths are damaged in one of 13 ways at a known dose. Policies keep three tenths of its
         tokens, by the ratings of the starter rater and by n-gram perplexity; the oracle keeps the least damaged. Inverse
         selections are the negative controls. A policy draws once, so the chance of its draw is not in the interval.

Every arm learns equally many tokens by the same plan. Vocabulary: learnt from the noisy pages, or those of the uniform draw.
The folder is kept where --work names it: run again, it goes on. Batch, rate and depth were chosen by the loss of the noisy arm
alone: with 16 samples a step the models had hardly left the frequencies of words, and seeds differed by more than arms.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from measure import options

from typecase.app.ablate.ablating import Ablated, ablate
from typecase.app.ablate.printing import ablated_lines, run_line
from typecase.core.damage.planting import DAMAGES, damaged
from typecase.core.selection.selection import Budget
from typecase.core.twins.agreement import Tally, tally, total
from typecase.core.twins.marks import Twin
from typecase.engine.local import Local
from typecase.lm.tagger.noise import Noise, inject, read_noise
from typecase.recipe.ingest import Ingest
from typecase.recipe.perplexity import Perplexity
from typecase.recipe.rate import Rate
from typecase.recipe.refine import Refine
from typecase.recipe.run import run_stage
from typecase.recipe.select import Select
from typecase.store.documents import open_documents
from typecase.store.twins import read_twins
from typecase.train.ablation.findings import bits_of

HERE = Path(__file__).parent
SEEDS = HERE.parent / "seeds" / "twins"
REFINERS: Mapping[str, Refine] = {
    "tagger": Refine(rules=(), refiner="tagger"),
    "rules": Refine(),
    "tagger and rules": Refine(refiner="tagger"),
}
POLICIES: Mapping[str, tuple[str, bool]] = {
    "uniform": ("uniform", False),
    "top overall": ("top", False),
    "top overall, inverse": ("top", True),
    "dataman:sum": ("dataman:sum", False),
    "qurating:2": ("sampled:2", False),
    "perplexity:low": ("perplexity:low", False),
    "perplexity:middle": ("perplexity:middle", False),
    "perplexity:high": ("perplexity:high", False),
}
_PAGE, _HELD = 2000, 120
_PARAGRAPH = "\n\n"


def pages(twins: Sequence[Twin], *, size: int = _PAGE) -> list[dict[str, str]]:
    """Clean texts cut between paragraphs into pages of about `size` characters."""
    found = []
    for twin in twins:
        held = ""
        for paragraph in twin.clean.strip("\n").split(_PARAGRAPH):
            if held and len(held) + len(paragraph) > size:
                found.append({"source": twin.family, "text": held})
                held = ""
            held = f"{held}{_PARAGRAPH}{paragraph}" if held else paragraph[: 2 * size]
        if len(held) > size // 4:
            found.append({"source": twin.family, "text": held})
    return [{"id": f"p{k:05d}", **page} for k, page in enumerate(found)]


def parted(rows: Sequence[dict[str, str]], seed: int, most: int) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Pages to learn from and pages held out, a sixth or _HELD; drawn by page, at most `most` in all."""
    order = np.random.default_rng(seed).permutation(len(rows))[:most]
    chosen = [rows[int(k)] for k in order]
    cut = min(len(chosen) // 6, _HELD)
    return chosen[cut:], chosen[:cut]


def noisy(text: str, kinds: Sequence[Noise], dice: np.random.Generator) -> tuple[str, list[bool]]:
    """The page between menus and footers, and which of its lines are those."""
    lines, noise = inject(text.split("\n"), kinds, dice, blocks=int(dice.integers(10, 26)), entries=8)
    return "\n".join(lines), noise


def without_some(text: str, share: float, dice: np.random.Generator) -> str:
    """The text without a share of its lines, drawn at random: what a refiner must beat."""
    return "\n".join(line for line in text.split("\n") if dice.random() >= share)


def ingested(rows: Sequence[Mapping[str, Any]], name: str, work: Path) -> Path:
    """Rows as a folder of documents."""
    file = work / f"{name}.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows), "utf-8")
    out = work / "docs" / name
    return run_stage(Ingest(inputs=(str(file),), id_key="id", source_key="source"), {}, out).folder


def refine_world(work: Path, plan: Mapping[str, Any], most: int, seeds: Sequence[int]) -> dict[str, Any]:
    """Pages, noise, refiners; then the arms."""
    learn, held = parted(pages(read_twins(SEEDS / "held.jsonl.zst")), 1, most)
    kinds = read_noise(HERE / "tagger_noise_held.toml")
    twins, dirty = {}, []
    for k, row in enumerate(learn):
        text, noise = noisy(row["text"], kinds, np.random.default_rng((7, k)))
        dirty.append({**row, "text": text})
        gone = tuple(at for at, (line, flag) in enumerate(zip(text.split("\n"), noise)) if flag and line.strip())
        twins[text] = Twin(gone=gone, text=text, source="world", path=row["id"], family=row["source"], generator="", licence="")
    docs = {
        "clean": ingested(learn, "clean", work),
        "noisy": ingested(dirty, "noisy", work),
        "held": ingested(held, "held", work),
    }
    for name, stage in REFINERS.items():
        docs[name] = run_stage(stage, {"docs": docs["noisy"]}, work / "docs" / name).folder
    before, after = (sum(map(len, texts_of(docs[name]).values())) for name in ("noisy", "tagger"))
    share = 1 - after / before
    some = [{**row, "text": without_some(row["text"], share, np.random.default_rng((8, k)))} for k, row in enumerate(dirty)]
    docs["random"] = ingested(some, "random", work)
    arms = ["noisy", "clean", *REFINERS, "random"]
    made = ablated("refine", work, {name: docs[name] for name in arms}, docs["held"], "noisy", plan, seeds)
    quality = {name: judged(docs["noisy"], docs[name], twins) for name in REFINERS}
    return {"made": made, "quality": quality, "shares": recovered(made, "noisy", "clean")}


def texts_of(folder: Path) -> dict[str, str]:
    """Text by id."""
    return {
        key: text
        for table in open_documents(folder).tables(["doc_id", "text"])
        for key, text in zip(table.column("doc_id").to_pylist(), table.column("text").to_pylist(), strict=True)
    }


def judged(before: Path, after: Path, twins: Mapping[str, Twin]) -> dict[str, float]:
    """Line precision, recall, F1 and over-deletion of what a refiner took; a dropped document lost all of its lines."""
    import difflib

    done, tallies = texts_of(after), []
    for key, text in texts_of(before).items():
        old, new = text.split("\n"), done.get(key, "").split("\n")
        blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
        kept = {at for block in blocks for at in range(block.a, block.a + block.size)}
        tallies.append(tally(twins[text], set(range(len(old))) - kept))
    whole: Tally = total(tallies)
    return {
        "precision": whole.precision, "recall": whole.recall, "f1": whole.f1, "over_deletion": whole.over_deletion,
        "dropped": sum(key not in done for key in texts_of(before)) / len(tallies),
    }  # fmt: skip


def select_world(work: Path, plan: Mapping[str, Any], most: int, seeds: Sequence[int]) -> dict[str, Any]:
    """A damaged pool, what policies keep of it; then the arms."""
    learn, held = parted(pages(read_twins(SEEDS / "train.jsonl.zst")), 2, most)
    dice, pool = np.random.default_rng(9), []
    for k, row in enumerate(learn):
        hurt = dice.random() < 0.6
        damage, dose = DAMAGES[int(dice.integers(len(DAMAGES)))], float(dice.uniform(0.2, 0.9)) if hurt else 0.0
        other = learn[(k + 1) % len(learn)]["text"]
        pool.append({**row, "text": damaged(row["text"], damage, dose, seed=k, other=other), "dose": dose})
    docs = {"pool": ingested(pool, "pool", work), "held": ingested(held, "held pool", work)}
    sides = {
        "ratings": run_stage(Rate(), {"docs": docs["pool"]}, work / "side" / "ratings", engine=Local(2)).folder,
        "perplexity": run_stage(Perplexity(), {"docs": docs["pool"]}, work / "side" / "perplexity").folder,
    }
    budget = Budget(bytes=int(0.3 * sum(len(row["text"].encode()) for row in pool)))
    dose_of, kept_doses = {row["text"]: row["dose"] for row in pool}, {}
    arms = {}
    for name, (policy, inverse) in POLICIES.items():
        stage = Select(budget=budget, policy=policy, inverse=inverse, seed=1, strata=("source",))
        given = {"docs": docs["pool"], **{role: side for role, side in sides.items() if _needs(policy) == role}}
        arms[name] = run_stage(stage, given, work / "docs" / f"select {name}".replace(":", "-")).folder
    best, held_bytes = [], 0
    for row in sorted(pool, key=lambda one: (one["dose"], one["id"])):
        held_bytes += len(row["text"].encode())
        if held_bytes > (budget.bytes or 0):
            break
        best.append(row)
    arms["oracle"] = ingested(best, "oracle", work)
    kept_doses = {
        name: float(np.mean([dose_of.get(t, 0.0) for t in texts_of(folder).values()])) for name, folder in arms.items()
    }
    made = ablated("select", work, arms, docs["held"], "uniform", plan, seeds)
    return {"made": made, "doses": kept_doses, "shares": recovered(made, "uniform", "oracle")}


def _needs(policy: str) -> str:
    return "" if policy == "uniform" else "perplexity" if policy.startswith("perplexity") else "ratings"


def ablated(
    name: str, work: Path, arms: Mapping[str, Path], held: Path, base: str, plan: Mapping[str, Any], seeds: Sequence[int]
) -> tuple[Ablated, list[Any]]:
    """The arms as an ablation file, run."""
    lines = [
        f'name = "{name}"',
        f'base = "{base}"',
        f"seeds = {list(seeds)}",
        f'token_budget = "{plan["budget"]}"',
        "vocab = 2048",
    ]
    lines += ["[model]", 'preset = "1m"', "layers = 2", "context = 128"]
    lines += ["[train]", "batch = 4", "learning_rate = 2e-3", "warmup = 30"]
    for arm, folder in arms.items():
        lines += [f'[arms."{arm.replace(":", " ").replace(",", "")}"]', f'docs = "{folder.resolve()}"']
    lines += ["[held]", f'clean = "{held.resolve()}"', "[tasks]", f"cloze = {plan['items']}", f"copy = {plan['items']}"]
    lines += ["[curve]", "looks = 8", "samples = 96"]
    file = work / f"{name}.toml"
    file.write_text("\n".join(lines) + "\n", "utf-8")
    results: list[Any] = []

    def finished(one: Any) -> None:
        results.append(one)
        print(run_line(one), flush=True)

    return ablate(file, work / f"ablation {name}", workers=2, finished=finished), results


def recovered(run: tuple[Ablated, list[Any]], noisy_arm: str, clean_arm: str) -> dict[str, tuple[float, float, float]]:
    """The share of the gap that every other arm closes, with its interval."""
    made, results = run
    names = [arm.arm for arm in made.findings.arms]
    runs = {name: sorted((one for one in results if one.arm == name), key=lambda one: one.seed) for name in names}
    figures = bits_of(runs, made.findings.held)
    shares = {
        name: figures.recovered(name, clean=clean_arm, noisy=noisy_arm) for name in names if name not in (noisy_arm, clean_arm)
    }
    return {name: (one.value, one.low, one.high) for name, one in shares.items()}


def show(title: str, found: Mapping[str, Any], gap: str) -> None:
    made, _ = found["made"]
    print(f"\n== {title}")
    print("\n".join(ablated_lines(made)))
    for kind in ("quality", "doses"):
        for name, value in found.get(kind, {}).items():
            said = ", ".join(f"{k} {v:.3f}" for k, v in value.items()) if isinstance(value, dict) else f"{value:.3f}"
            print(f"  {kind} {name:<24}{said}")
    for name, (value, low, high) in sorted(found["shares"].items(), key=lambda one: -one[1][0]):
        print(f"  share of the gap {gap} that is closed: {name:<24}{value:6.2f} [{low:.2f} {high:.2f}]")


def main() -> None:
    chosen = options(__doc__, work="", part="")
    quick = {"budget": "16k", "items": 12}
    refine, select = ({"budget": "600k", "items": 150}, {"budget": "400k", "items": 150})
    parts: dict[str, tuple[Callable[..., dict[str, Any]], dict[str, Any], int, str]] = {
        "refine": (refine_world, quick if chosen.quick else refine, 72 if chosen.quick else 1500, "noisy to clean"),
        "select": (select_world, quick if chosen.quick else select, 72 if chosen.quick else 2400, "uniform to oracle"),
    }
    seeds = (1,) if chosen.quick else (1, 2, 3)
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(chosen.work or scratch)
        work.mkdir(parents=True, exist_ok=True)
        told = {}
        for name, (world, plan, most, gap) in parts.items():
            if chosen.part in ("", name):
                found = world(work, plan, most, seeds)
                told[name] = {
                    "shares": found["shares"],
                    "arms": {a.arm: a.bits_per_byte.value for a in found["made"][0].findings.arms},
                }
                if not chosen.json:
                    show(name, found, gap)
        if chosen.json:
            print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
