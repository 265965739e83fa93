"""Makes examples/corpus/ from seeds/ and from pages of two Debian documentation packages.

    apt-get download debian-handbook postgresql-doc-15 && for d in *.deb; do dpkg -x $d debs; done
    python examples/make_corpus.py --debs debs

The corpus is committed; this file says how it was made and makes it again. The planted faults are listed in FAULTS and
in CORPUS.md.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
UNCLEAR = ("other", "mentions", "GPL/free", "free (")
NUM_NOTES, NUM_MANUALS = 360, 240
NOTES = {
    "prose",
    "mail",
    "readme",
    "blog",
    "article",
    "news report",
    "comment thread",
    "help-page",
    "text",
    "html-page",
    "html-main",
}

FAULTS: tuple[tuple[str, bytes], ...] = (
    ("an empty text", b'{"id": "fault-empty", "text": "", "licence": "CC0-1.0"}'),
    ("no text key", b'{"id": "fault-nokey", "body": "the text key is missing", "licence": "CC0-1.0"}'),
    ("JSON that ends too early", b'{"id": "fault-json", "text": "this row was cut'),
    ("a byte that is not UTF-8", b'{"id": "fault-utf8", "text": "caf\xe9", "licence": "CC0-1.0"}'),
    ("a NUL byte", b'{"id": "fault-nul", "text": "before\\u0000after", "licence": "CC0-1.0"}'),
    ("a text that is a number", b'{"id": "fault-type", "text": 42, "licence": "CC0-1.0"}'),
)
PAGES = {
    "debian-handbook/html/en-US": 24,
    "debian-handbook/html/de-DE": 3,
    "debian-handbook/html/fr-FR": 3,
    "postgresql-doc-15/html": 24,
}


def chosen(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Rows with a plain licence, in an order that depends on their ids alone."""
    clear = [r for r in rows if not str(r["licence"]).startswith(UNCLEAR)]
    return sorted(clear, key=lambda r: hashlib.blake2b(str(r["id"]).encode()).digest())


def write_notes(rows: list[dict[str, object]]) -> None:
    lines = [orjson.dumps(row) for row in rows]
    for number, (_, fault) in enumerate(FAULTS):
        lines.insert(20 + 50 * number, fault)
    lines.append(lines[3])  # the same id again
    copy = dict(rows[5]) | {"id": "copy-of-a-note"}
    lines.append(orjson.dumps(copy))  # the same text under another id
    with pa.CompressedOutputStream(str(CORPUS / "notes.jsonl.zst"), "zstd") as file:
        file.write(b"\n".join(lines) + b"\n")


def write_manuals(rows: list[dict[str, object]], twin: dict[str, object]) -> None:
    rows = [*rows, dict(twin) | {"id": "note-in-the-manuals"}, dict(rows[0]) | {"id": "fault-null", "text": None}]
    columns = ("id", "text", "licence", "lang", "kind", "path")
    table = pa.table({name: [row[name] for row in rows] for name in columns})
    pq.write_table(table, CORPUS / "manuals.parquet", compression="zstd", row_group_size=64)


def write_pages(debs: Path) -> None:
    for folder, number in PAGES.items():
        package, *_, last = folder.split("/")
        out = CORPUS / "web" / package / (last if last != "html" else "")
        out.mkdir(parents=True, exist_ok=True)
        pages = [p for p in (debs / "usr/share/doc" / folder).glob("*.html") if 9_000 < p.stat().st_size < 18_000]
        pages.sort(key=lambda p: hashlib.blake2b(p.name.encode()).digest())
        for page in pages[:number]:
            shutil.copyfile(page, out / page.name)
    (CORPUS / "web" / "empty.html").write_text("<!doctype html><html><head><title></title></head><body></body></html>\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=Path, default=HERE.parent / "seeds")
    parser.add_argument("--debs", type=Path, required=True)
    options = parser.parse_args()
    with pa.input_stream(str(options.seeds / "documents.jsonl.zst"), compression="zstd") as file:
        rows = chosen([orjson.loads(line) for line in file.read().splitlines()])
    notes = [r for r in rows if r["kind"] in NOTES or r["damage"]][:NUM_NOTES]
    taken = {r["id"] for r in notes}
    manuals = [r for r in rows if r["id"] not in taken][:NUM_MANUALS]
    shutil.rmtree(CORPUS / "web", ignore_errors=True)
    write_notes([{k: r[k] for k in ("id", "text", "licence", "lang", "kind", "path")} for r in notes])
    write_manuals(manuals, notes[7])
    write_pages(options.debs)


if __name__ == "__main__":
    main()
