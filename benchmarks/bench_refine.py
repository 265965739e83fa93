"""Executor speed: strict parsing and running of refining programs, one core.

    python benchmarks/bench_refine.py [--quick] [--json]

Documents are made from a fixed seed: pages with a menu, a footer, inline marks and links. The published executor's own
measure is documents of 3.7 kB with two calls or fewer: here 3.7 kB, a line range and a string. Harder are pages of 1.8 kB
whose programs have four statements (two line ranges, two strings).

The peer is written here: the published executor's behaviour in its naive
form (a list of lines, split on commas and equals signs, replace-all on the whole text, ranges expanded line by line). It
checks nothing: no unique match, no words, no guards, no audit trail. It is not the published code.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from measure import Record, options, report, seconds

from typecase.core.program.language import text_hash
from typecase.core.program.parse import parse
from typecase.core.program.run import run

WORDS = (
    "the of a to and in is that for it as with be on by this from are or an which one can has more line file set".split()  # noqa: SIM905
)


def make(num_documents: int, seed: int, *, num_lines: int = 34, statements: int = 4) -> list[tuple[str, str, str]]:
    """(text, program, hash of the text) of made pages."""
    rng = random.Random(seed)
    made = []
    for number in range(num_documents):
        lines = ["Home", "About us", "Contact", f"Chapter {number} [edit]"]
        for _ in range(num_lines):
            words = rng.choices(WORDS, k=rng.randint(4, 22))
            lines.append(" ".join(words).capitalize() + ".")
        link = rng.randint(6, 30)
        lines[link] += f" (see page {number}, or click here)"
        lines += ["Share this page", f"Copyright {number}"]
        last = len(lines) - 1
        program = (
            f"remove_lines(line_start=0, line_end=2)\n"
            f'remove_str(line=3, text=" [edit]")\n'
            f'remove_str(line={link}, text=" (see page {number}, or click here)")\n'
            f"remove_lines(line_start={last - 1}, line_end={last})"
        )
        program = "\n".join(program.split("\n")[:statements])
        text = "\n".join(lines)
        made.append((text, program, text_hash(text)))
    return made


def peer(program: str, text: str) -> str:
    """The published behaviour in naive form; renamed calls, `remove_str` stands for its one-argument normalize."""
    errors = 0
    gone: set[int] = set()
    for call in program.strip(" ").split("\n"):
        if call.startswith("remove_lines"):
            try:
                parts = call[call.index("(") + 1 : call.index(")")].split(",")
                first, last = int(parts[0].split("=")[1]), int(parts[1].split("=")[1])
            except (ValueError, IndexError):
                errors += 1
                continue
            gone.update(range(first, last + 1))
        elif call.startswith("remove_str"):
            parts = call[call.index("(") + 1 : call.index(")")].split(",")
            text = text.replace(parts[1].split("=")[1].strip().strip('"'), "")
    kept = "\n".join(line for number, line in enumerate(text.split("\n")) if number not in gone)
    before, after = len(text.split()), len(kept.split())
    if after <= 10 or (after / before <= 0.05 and errors < 2):
        return ""
    return kept if errors < 2 else text


def per_second(work: Callable[[str, str, str], object], pages: Sequence[tuple[str, str, str]]) -> float:
    """Documents a second of one pass over `pages`."""
    return len(pages) / seconds(lambda: [work(*page) for page in pages])


def main() -> None:
    chosen = options(__doc__)
    num = 500 if chosen.quick else 2000
    published = compared(make(num, 7, num_lines=72, statements=2), 2, quick=chosen.quick)
    report([*published, *compared(make(num, 7), 4, quick=chosen.quick)], as_json=chosen.json)


def compared(pages: Sequence[tuple[str, str, str]], statements: int, *, quick: bool) -> list[Record]:
    """Ours against the wished speed, which is that of the published executor on its measure, and against the naive one."""
    size = sum(len(text) for text, _, _ in pages) / len(pages)
    first = run(parse(pages[0][1], text_hash=pages[0][2]), pages[0][0])
    assert first.status == "edited" and first.num_errors == 0 and len(first.changes) == statements, first
    works: list[Callable[[str, str, str], object]] = [
        lambda text, program, digest: run(parse(program, text_hash=digest), text),
        lambda text, program, digest: peer(program, text),
    ]
    rounds = [[per_second(work, pages) for work in works] for _ in range(3 if quick else 12)]
    ours, naive = (max(column) for column in zip(*rounds, strict=True))
    name = f"parse + run, {size:,.0f} bytes and {statements} statements, one core"
    return [
        Record(f"{name}, against the wished 19,000", ours, 19_000, "documents/s", ours / 19_000),
        Record(f"{name}, against a naive executor that checks nothing", ours, naive, "documents/s", ours / naive),
    ]


if __name__ == "__main__":
    main()
