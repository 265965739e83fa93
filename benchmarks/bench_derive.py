"""Reverse thinking on planted causes (spec Bench-8): tails, clusters, and how many of them reach the rubric.

    python benchmarks/bench_derive.py [--quick] [--json]

Twelve causes are planted in clean prose of the seeds, 2 % of the documents at each end. `recall` is the share of a cause's
documents in the tail where it belongs, `precision` the share of a tail that is planted there. Ours ranks by nats a byte
against the median of like length; the peer is what the published code does, nats a token as they are, over the same n-gram
model. Word order and misspelling move an n-gram model of so little text too little; their recall is printed all the same.

`clusters` is the adjusted Rand index between planted causes and clusters, over the planted documents in the tails; the peer is
scikit-learn's agglomerative clustering with the same linkage and threshold on its own TfidfVectorizer. The teacher is a
stub of rules (planted.py): it proves plumbing and statistics, not a language model's insight.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from measure import Record, options, report
from planted import CAUSES, clean_prose, plant, stub_reply
from sklearn.cluster import AgglomerativeClustering
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import adjusted_rand_score

from typecase.app.derive import deriving
from typecase.app.derive.deriving import Derivation, Derived
from typecase.lm.cache import AnswerCache, CachedLM
from typecase.lm.fake import ALL, FakeLM
from typecase.lm.protocol import Can
from typecase.lm.rate.rubric import load_rubric
from typecase.lm.rate.seeds import read_seeds
from typecase.recipe.ingest import Ingest
from typecase.recipe.run import run_stage
from typecase.store.documents import open_documents

SEEDS = Path(__file__).parents[1] / "seeds"
SHARE = 0.02
_CAN = Can(generate=True, forms=ALL.forms, context_tokens=None)


def corpus(folder: Path, seed: int) -> tuple[Path, dict[str, str]]:
    """A docs artifact of planted texts, and the cause of each document by id."""
    seeds = read_seeds(SEEDS, load_rubric("dataman"))
    texts, labels = plant(clean_prose(seeds, np.random.default_rng(seed)), share=SHARE, seed=seed)
    lines = [json.dumps({"text": text, "id": str(row)}) for row, text in enumerate(texts)]
    (folder / "texts.jsonl").write_text("\n".join(lines) + "\n")
    made = run_stage(Ingest(inputs=(str(folder / "texts.jsonl"),)), {}, folder / "docs")
    label_of = dict(zip(texts, labels))
    return made.folder, {doc.id: label_of[doc.text] for doc in open_documents(made.folder)}


def derived(docs: Path, out: Path, asked: FakeLM, **settings: object) -> Derived:
    """A derivation by the stub, its answers kept in `out`."""
    deriving.open_teacher = lambda spec, folder: CachedLM(asked, AnswerCache(folder / "answers.db"))  # type: ignore[assignment]
    return deriving.derive(docs, out, Derivation("stub", quantile=SHARE, **settings))  # type: ignore[arg-type]


def rows(out: Path, name: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (out / name).read_text().splitlines()]


def tail_figures(out: Path, cause_of: dict[str, str]) -> tuple[dict[str, float], float]:
    """Recall of each cause in its own tail, and the share of the tails that was planted there."""
    tail = {(str(row["doc_id"]), str(row["end"])) for row in rows(out, "1-tails.jsonl")}
    recall = {}
    for cause, (end, _) in CAUSES.items():
        own = [doc for doc, label in cause_of.items() if label == cause]
        recall[cause] = sum((doc, end) in tail for doc in own) / len(own)
    right = sum(bool(cause_of[doc]) and CAUSES[cause_of[doc]][0] == end for doc, end in tail)
    return recall, right / len(tail)


def purity(out: Path, cause_of: dict[str, str]) -> tuple[float, float]:
    """Adjusted Rand index of our clusters and of scikit-learn's, over planted documents of the tails that have a cause."""
    said = {str(r["doc_id"]): str(r["cause"]) for r in rows(out, "2-causes.jsonl") if r["code"] in ("ok", "evidence_respaced")}
    cluster_of = {phrase: row["id"] for row in rows(out, "3-clusters.jsonl") for phrase in row["phrases"]}  # type: ignore[attr-defined]
    docs = [doc for doc in said if cause_of[doc]]
    truth = [cause_of[doc] for doc in docs]
    vectors = TfidfVectorizer().fit_transform([said[doc] for doc in docs]).toarray()
    model = AgglomerativeClustering(None, metric="cosine", linkage="average", distance_threshold=0.75)
    theirs: Sequence[int] = model.fit_predict(vectors)
    return adjusted_rand_score(truth, [cluster_of[said[doc]] for doc in docs]), adjusted_rand_score(truth, theirs)


def replayed(docs: Path, out: Path, stub: FakeLM) -> bool:
    """Whether a run from the answers alone makes every file again, byte for byte, with no request."""
    names = [*deriving.FILES.values(), "provenance.json", "report.json"]
    before = {name: (out / name).read_bytes() for name in names}
    for name in (*names, "state.json"):
        (out / name).unlink()
    asked = stub.rows_asked
    derived(docs, out, stub)
    return stub.rows_asked == asked and all((out / name).read_bytes() == data for name, data in before.items())


def main() -> None:
    args = options(__doc__)
    seeds = range(1 if args.quick else 3)
    recalls, plains, precisions, rand, found = [], [], [], [], []
    notes = []
    for seed in seeds:
        folder = Path(tempfile.mkdtemp())
        try:
            docs, cause_of = corpus(folder, seed)
            stub = FakeLM("stub", can=_CAN, reply=stub_reply)
            made = derived(docs, folder / "out", stub)
            recall, precision = tail_figures(folder / "out", cause_of)
            derived(docs, folder / "plain", FakeLM("stub", can=_CAN, reply=stub_reply), control="none", per="token")
            plain, plain_precision = tail_figures(folder / "plain", cause_of)
            recalls.append(recall)
            plains.append(plain)
            precisions.append((precision, plain_precision))
            rand.append(purity(folder / "out", cause_of))
            criteria = set(made.report["rubric"]["criteria"])
            found.append(sum(cause.replace(" ", "_") in criteria for cause in CAUSES) / len(CAUSES))
            if not replayed(docs, folder / "out", stub):
                sys.exit(f"seed {seed}: the replay differs")
            notes.append(f"seed {seed}: {len(cause_of)} documents, {made.report['clusters']}; replay identical, nothing asked")
        finally:
            shutil.rmtree(folder)
    records = []
    for cause, (end, _) in CAUSES.items():
        ours, peer = (float(np.mean([one[cause] for one in many])) for many in (recalls, plains))
        records.append(
            Record(f"recall, {cause} ({end})", ours, peer, "share", ours / peer if peer else 1.0 if ours == 0 else float("inf"))
        )
    mean = np.mean(precisions, axis=0)
    records.append(Record("precision of the tails", mean[0], mean[1], "share", mean[0] / mean[1]))
    ari = np.mean(rand, axis=0)
    records.append(Record("clusters", ari[0], ari[1], "ARI", ari[0] / ari[1]))
    share = float(np.mean(found))
    records.append(Record("planted causes in the rubric", share, 1.0, "share", share))
    report(records, as_json=args.json, notes=[*notes, "the last line has no peer: 1 is all of them"])


if __name__ == "__main__":
    main()
