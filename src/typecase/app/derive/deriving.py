"""Reverse thinking, whole: from a folder of documents to a rubric, step by step, each step a file that may be edited.

out/perplexity/            nats of every document         (only where no perplexity was given)
    1-tails.jsonl          the documents of the tails
    2-causes.jsonl         why each is odd, said by the teacher, with the passage that shows it
    3-clusters.jsonl       causes of one meaning; kept, or why not
    4-names.jsonl          the kept ones as criteria
    rubric.toml            what raters read; provenance.json: the documents behind each criterion
    report.json            tails, codes, coverage, redundancy; the perplexity model, the rounds, the merge rule
    answers.db             all that the teacher said: a run over it again makes the same bytes without asking
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from typecase.app.derive.report import Trial, count_tails, provenance, read_trial, redundancy
from typecase.app.derive.step_chain import StepChain
from typecase.app.engines import Workers, engine_of
from typecase.core.perplexity import OK
from typecase.core.tails import Control, tails
from typecase.errors import BadQuery, BadRecipe, CorruptStore, FingerprintMismatch, ModelUnavailable, NotFound, TryAgain
from typecase.lm.derive import names as derive_names
from typecase.lm.derive.causes import ask_causes
from typecase.lm.derive.deriving import (
    Candidate,
    Cause,
    Pruning,
    Suspect,
    as_row,
    candidate_of,
    candidates,
    cause_of,
    suspect_of,
    uncovered,
)
from typecase.lm.derive.drop import REPLIES, REQUESTS, PostedLM
from typecase.lm.derive.names import Named, ask_names, named_of, rubric_toml
from typecase.lm.protocol import LM
from typecase.lm.rate.rubric import parse_rubric
from typecase.recipe.perplexity import NGRAM, Perplexity, read_perplexity
from typecase.recipe.progress import Reporter
from typecase.recipe.run import run_stage
from typecase.store.atomic import write_bytes, write_json
from typecase.store.documents import DocumentStore, open_documents
from typecase.store.manifest import NAME as MANIFEST
from typecase.store.manifest import read_manifest

Step = Literal["tails", "causes", "clusters", "names", "rubric"]
STEPS: tuple[Step, ...] = ("tails", "causes", "clusters", "names", "rubric")
FILES: Mapping[Step, str] = {
    "tails": "1-tails.jsonl",
    "causes": "2-causes.jsonl",
    "clusters": "3-clusters.jsonl",
    "names": "4-names.jsonl",
    "rubric": "rubric.toml",
}
_POST = "post:"


@dataclass(frozen=True, slots=True)
class Derivation:
    """How to derive.

    teacher      a language model as `open_lm` has it, or post:FOLDER
    perplexity   an artifact, "ngram", or a language model
    per          documents are ranked by nats a byte, or a token as the published code does: then cutting a text into smaller
                 tokens, as odd characters do, makes it look easier than it is
    control      how length is held still (see core.tails)
    redundant    correlation of trial ratings from which one of two criteria goes
    """

    teacher: str
    perplexity: str = NGRAM
    quantile: float = 0.02
    per: Literal["byte", "token"] = "byte"
    control: Control = "bins"
    rounds: int = 1
    pruning: Pruning = field(default_factory=Pruning)
    redundant: float = 0.95
    rubric_id: str = "derived"
    version: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.rounds < 1 or not 0 < self.redundant <= 1:
            raise BadQuery(f"rounds are 1 or more and a correlation is above 0 and at most 1, got {self}")


@dataclass(frozen=True, slots=True)
class Derived:
    """What a run came to: what became of each file, and the report (empty before the rubric is made)."""

    folder: Path
    notes: tuple[str, ...]
    report: Mapping[str, Any]


def derive(
    docs: Path | str,
    out: Path | str,
    plan: Derivation,
    *,
    until: Step = "rubric",
    ratings: Path | None = None,
    keep_edits: bool = False,
    workers: Workers = 0,
    reporter: Reporter | None = None,
) -> Derived:
    """Runs the steps up to `until` in the folder `out`; steps that are done are not done again.

    `ratings` are trial ratings by an earlier version of this rubric: of two criteria that correlate beyond `redundant` one
    goes.
    Raises TryAgain where replies of a teacher by post are awaited, StaleEdit where a person must decide (see StepChain).
    """
    store, out = open_documents(docs), Path(out)
    out.mkdir(parents=True, exist_ok=True)
    scored = _perplexity_of(store, out, plan.perplexity, workers, reporter)
    chain = StepChain(out, keep_edits)
    run = _Run(store, out, plan, scored, chain)
    suspects = run.suspects()
    if until == "tails":
        return Derived(out, tuple(chain.notes), {})
    teacher = open_teacher(plan.teacher, out)
    causes = run.causes(teacher, suspects)
    if until == "causes":
        return Derived(out, tuple(chain.notes), {})
    found = run.clusters(causes)
    if until == "clusters":
        return Derived(out, tuple(chain.notes), {})
    named = run.names(teacher, found)
    if until == "names":
        return Derived(out, tuple(chain.notes), {})
    trial = read_trial(ratings, named) if ratings else None
    report = run.rubric(suspects, causes, found, named, trial, teacher.name)
    return Derived(out, tuple(chain.notes), report)


def open_teacher(spec: str, out: Path) -> LM:
    """The teacher: requests and replies in a folder (post:FOLDER), or a language model behind the answers in `out`."""
    if spec.startswith(_POST):
        return PostedLM(Path(spec.removeprefix(_POST)))
    from typecase.lm.models import open_lm

    lm: LM = open_lm(spec, cache=out / "answers.db")
    return lm


@dataclass(slots=True)
class _Run:
    store: DocumentStore
    out: Path
    plan: Derivation
    scored: Path
    chain: StepChain

    def suspects(self) -> list[Suspect]:
        ground = {
            "docs": self.store.manifest.content,
            "perplexity": read_manifest(self.scored).content,
            "quantile": self.plan.quantile,
            "per": self.plan.per,
            "control": self.plan.control,
        }
        data = self.chain.step(FILES["tails"], ground, lambda: _lines(map(as_row, self._find_tails())))
        return [suspect_of(row, where) for row, where in self._rows("tails", data)]

    def causes(self, teacher: LM, suspects: Sequence[Suspect]) -> list[Cause]:
        plan = self.plan
        ground = {"teacher": teacher.fingerprint, "rounds": plan.rounds, "seed": plan.seed}
        ground |= {"pruning": asdict(plan.pruning)} if plan.rounds > 1 else {}
        data = self.chain.step(FILES["causes"], ground, lambda: _lines(map(as_row, self._ask(teacher, suspects))))
        return [cause_of(row, where) for row, where in self._rows("causes", data)]

    def clusters(self, causes: Sequence[Cause]) -> list[Candidate]:
        ground = asdict(self.plan.pruning)
        data = self.chain.step(FILES["clusters"], ground, lambda: _lines(map(as_row, candidates(causes, self.plan.pruning))))
        return [candidate_of(row, where) for row, where in self._rows("clusters", data)]

    def names(self, teacher: LM, found: Sequence[Candidate]) -> list[Named]:
        kept = [one for one in found if one.kept]
        if not kept:
            raise BadRecipe(
                f"no cause in {self.out / FILES['clusters']} was kept: lower --support, raise --quantile, or see the codes"
                f" in {self.out / FILES['causes']}; a teacher that writes no JSON names nothing"
            )

        def make() -> bytes:
            named = ask_names(teacher, kept, seed=self.plan.seed)
            _no_waiting(teacher)
            return _lines(map(derive_names.as_row, named))

        ground = {"teacher": teacher.fingerprint, "seed": self.plan.seed}
        data = self.chain.step(FILES["names"], ground, make)
        return [named_of(row, where) for row, where in self._rows("names", data)]

    def rubric(
        self, suspects: Sequence[Suspect], causes: Sequence[Cause], found: Sequence[Candidate], named: Sequence[Named],
        trial: Trial | None, teacher: str,
    ) -> dict[str, Any]:  # fmt: skip
        plan, by_id = self.plan, {one.id: one for one in found}
        matrix, dropped = redundancy(suspects, by_id, named, trial, plan.redundant)
        final = [one for one in named if one.id not in dropped]
        log = self._log(teacher, trial)
        ground = {"id": plan.rubric_id, "version": plan.version, "log": log, "dropped": dropped}
        text = self.chain.step(
            FILES["rubric"],
            ground,
            lambda: rubric_toml(final, by_id, rubric_id=plan.rubric_id, version=plan.version, log=log).encode(),
        ).decode()
        rubric = parse_rubric(text, where=str(self.out / FILES["rubric"]), folder=self.out)
        write_json(self.out / "provenance.json", provenance(final, by_id, causes))
        report = {
            "log": log,
            "rubric": {"id": rubric.id, "version": rubric.version, "criteria": list(rubric.columns)},
            "tails": count_tails(suspects),
            "codes": dict(sorted(Counter(cause.code for cause in causes).items())),
            "clusters": {"found": len(found), "kept": sum(one.kept for one in found)}
            | {"pruned": dict(sorted(Counter(one.reason.split(" ")[0] for one in found if not one.kept).items()))},
            "coverage": 1 - len(uncovered(suspects, found)) / len(suspects) if suspects else None,
            "redundant": dropped,
            "redundancy": matrix,
        }
        write_bytes(self.out / "report.json", orjson.dumps(report, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
        return report

    def _log(self, teacher: str, trial: Trial | None) -> dict[str, Any]:
        plan, scored = self.plan, read_manifest(self.scored)
        model = {key: value for key, value in scored.params.items() if key != "seed"}
        return {
            "documents": f"{self.store.num_documents} of content {self.store.manifest.content}",
            "perplexity": ", ".join(f"{key} {value}" for key, value in model.items()),
            "tails": f"{plan.quantile:g} of each source at each end, by nats a {plan.per}, length control {plan.control}",
            "teacher": teacher,
            "rounds": plan.rounds,
            "merge rule": plan.pruning.rule,
            "trial ratings": f"{trial.rows} documents" if trial else "none",
        }

    def _find_tails(self) -> list[Suspect]:
        scored = read_perplexity(self.scored)
        narrow = pa.concat_tables([*self.store.tables(["doc_id", "source"])]) if self.store.parts else None
        if narrow is None:
            return []
        sources = narrow.column("source").take(pc.index_in(scored.column("doc_id"), value_set=narrow.column("doc_id")))
        tokens = scored.column("tokens").to_numpy() - scored.column("unscored").to_numpy()
        good = pc.equal(scored.column("status"), OK).to_numpy() & (tokens > 0)
        rows = np.flatnonzero(good)
        names = pc.fill_null(sources, "").to_pylist()
        labels = sorted({names[row] for row in rows})
        code = {name: k for k, name in enumerate(labels)}
        nats, tokens = scored.column("nll").to_numpy(zero_copy_only=False)[rows], tokens[rows]
        size = scored.column("bytes").to_numpy()[rows]
        units = size if self.plan.per == "byte" else tokens
        codes = np.array([code[names[row]] for row in rows], np.int64)
        both = tails(codes, nats / units, units, quantile=self.plan.quantile, control=self.plan.control)
        ids = scored.column("doc_id").to_pylist()
        found = []
        for end, members in (("low", both.low), ("high", both.high)):
            rank: Counter[str] = Counter()
            for k in members.tolist():
                source = labels[codes[k]]
                rank[source] += 1
                odd, each = float(both.oddness[k]), float(nats[k])
                numbers = round(odd, 6), round(each / int(tokens[k]), 6), round(each / int(size[k]), 6)
                sizes = int(tokens[k]), int(size[k])
                found.append(Suspect(ids[rows[k]], source, end, rank[source], *numbers, *sizes))
        return found

    def _ask(self, teacher: LM, suspects: Sequence[Suspect]) -> list[Cause]:
        texts = self._texts({suspect.doc_id for suspect in suspects})
        if gone := [suspect.doc_id for suspect in suspects if suspect.doc_id not in texts]:
            raise NotFound(f"{FILES['tails']} names {gone[0]!r}, which is not in {self.store.folder}: remove that line")
        causes: list[Cause] = []
        known: list[str] = []
        left = list(suspects)
        for number in range(1, self.plan.rounds + 1):
            if not left:
                break
            causes += ask_causes(teacher, left, texts, known=known, number=number, seed=self.plan.seed)
            _no_waiting(teacher)
            if causes and all(cause.code.startswith("failed:") for cause in causes):
                kinds = ", ".join(sorted({cause.code for cause in causes}))
                raise ModelUnavailable(
                    f"{teacher.name} answered none of {len(causes)} requests ({kinds}): see to it, then run again"
                )
            found = candidates(causes, self.plan.pruning)
            known, left = [one.centre for one in found if one.kept], uncovered(suspects, found)
        return causes

    def _texts(self, wanted: set[str]) -> dict[str, str]:
        ids = pa.array(sorted(wanted), pa.string())
        found: dict[str, str] = {}
        for table in self.store.tables(["doc_id", "text"]):
            picked = table.filter(pc.is_in(table.column("doc_id"), value_set=ids))
            found.update(zip(picked.column("doc_id").to_pylist(), picked.column("text").to_pylist()))
        return found

    def _rows(self, step: Step, data: bytes) -> list[tuple[dict[str, Any], str]]:
        rows = []
        for number, line in enumerate(data.splitlines(), start=1):
            where = f"{self.out / FILES[step]}, line {number}"
            if not line.strip():
                continue
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise CorruptStore(f"{where} is not JSON ({error}): mend the line or remove it") from None
            if not isinstance(row, dict):
                raise CorruptStore(f"{where} is no JSON object: mend the line or remove it")
            rows.append((row, where))
        return rows


def _perplexity_of(store: DocumentStore, out: Path, spec: str, workers: Workers, reporter: Reporter | None) -> Path:
    """The perplexity artifact asked for; made in `out` where none was given. It must be of these documents."""
    folder = Path(spec)
    if (folder / MANIFEST).is_file() and read_manifest(folder).kind == "perplexity":
        parent = next((p for p in read_manifest(folder).parents if p.role == "docs"), None)
        if parent is None or parent.content != store.manifest.content:
            raise FingerprintMismatch(f"{folder} is the perplexity of other documents than {store.folder}: make it of these")
        return folder
    stage = Perplexity(model=spec)
    return run_stage(stage, {"docs": store.folder}, out / "perplexity", engine=engine_of(workers), reporter=reporter).folder


def _no_waiting(teacher: LM) -> None:
    if isinstance(teacher, PostedLM) and teacher.waiting:
        raise TryAgain(
            f"{teacher.waiting} requests wait for a reply: they are in {teacher.folder / REQUESTS}; write a line"
            f' {{"id": "…", "reply": "…"}} for each into {teacher.folder / REPLIES} and run the same command again'
        )


def _lines(rows: Any) -> bytes:
    return b"".join(orjson.dumps(row) + b"\n" for row in rows)
