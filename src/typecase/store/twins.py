"""Twins out of HTML: pages of a known layout, as a crawler sees them, with the lines that are not their main content.

    families = read_families()                              layouts: where their content stands, what is left out of it
    twin = twin_of(html, family, path="a/b.html")           None where the page has no such content

    python -m typecase.store.twins UNPACKED -o seeds/twins   pages of unpacked Debian packages -> train and held-out files

The text is the one that `ingest` makes of a page (resiliparse, all nodes). Which lines are content is told by marks put
into the page before its text is taken (core/twins/marks), at the places that the layout's selectors name.

A file of twins is JSON lines, zstandard: `text`, `gone` as inclusive ranges, `family`, `generator`, `source`, `path`,
`licence`. Price: about 20 ms a page.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import orjson
import pyarrow as pa
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLTree

from typecase.core.twins.marks import CUT, DONE, KEEP, KEPT, Twin, gone_lines, ranges_of
from typecase.errors import CorruptStore, NotFound
from typecase.store.atomic import write_bytes
from typecase.store.sources.fields import FieldFault
from typecase.store.sources.markup import decoded

TRAIN, HELD = "train.jsonl.zst", "held.jsonl.zst"
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
"""E-mail addresses: what is passed on is passed on without them."""

MIN_CONTENT = 100
"""Characters of content below which a page is a redirect, a frame or an index."""

Side = Literal["train", "held"]


@dataclass(frozen=True, slots=True)
class Family:
    """A layout: `keep` selects the main content, `strip` what is left out within it; pages lie under `under`."""

    id: str
    generator: str
    package: str
    keep: str
    strip: tuple[str, ...]
    licence: str
    side: Side
    under: str = ""
    without: str = ""


def read_families() -> list[Family]:
    """The layouts that are known."""
    table = tomllib.loads((files("typecase.store") / "twin_families.toml").read_text("utf-8"))
    return [Family(**{**row, "strip": tuple(row.get("strip", ()))}) for row in table["family"]]


def plain_text(html: str | HTMLTree) -> str:
    """The text of a whole page, as `ingest` takes it."""
    return str(extract_plain_text(html, main_content=False, preserve_formatting=True, list_bullets=True, alt_texts=True))


def twin_of(html: str, family: Family, *, path: str = "") -> Twin | None:
    """The twin of a page; None where it has no such content, hardly any, or marks would change its text."""
    tree = HTMLTree.parse(html)
    document = tree.document
    kept = None if document is None else document.query_selector(family.keep)
    if document is None or kept is None:
        return None
    _mark(tree, kept, KEEP, KEPT)
    for selector in family.strip:
        for node in document.query_selector_all(selector):
            _mark(tree, node, CUT, DONE)
    plain = plain_text(html)
    gone = gone_lines(plain, plain_text(tree))
    if gone is None:
        return None
    twin = Twin(plain, gone, family.id, family.generator, family.package, path, family.licence)
    return twin if len(twin.clean) >= MIN_CONTENT else None


def _mark(tree: HTMLTree, node: Any, before: str, after: str) -> None:
    first = node.first_child
    if first is None:
        return
    node.insert_before(tree.create_text_node(before), first)
    node.append_child(tree.create_text_node(after))


def pages_of(root: Path, family: Family) -> list[Path]:
    """The HTML pages of a family below `root/PACKAGE`, in an order that looks random and is always the same."""
    found = [
        path
        for path in (root / family.package).rglob("*.htm*")
        if path.suffix in (".html", ".htm")
        and path.is_file()
        and not path.is_symlink()
        and family.under in str(path.relative_to(root))
        and not (family.without and family.without in str(path.relative_to(root)))
    ]
    return sorted(found, key=lambda path: blake2b(str(path.relative_to(root)).encode(), digest_size=8).digest())


def twins_of(root: Path, family: Family, *, pages: int, chars: int) -> Iterator[Twin]:
    """Up to `pages` twins of a family, none of over `chars` characters and no text twice."""
    seen: set[str] = set()
    for path in pages_of(root, family)[: 8 * pages]:
        if len(seen) >= pages:
            return
        if path.stat().st_size > 40 * chars:
            continue
        try:
            html, _ = decoded(path.read_bytes())
        except FieldFault:
            continue
        twin = twin_of(html, family, path=str(path.relative_to(root / family.package)))
        twin = None if twin is None else replace(twin, text=_ADDRESS.sub("[email]", twin.text))
        if twin is not None and len(twin.text) <= chars and twin.text not in seen:
            seen.add(twin.text)
            yield twin


def write_twins(path: Path, twins: Iterable[Twin]) -> int:
    """Writes a file of twins; returns how many."""
    rows = [orjson.dumps({**asdict(twin), "gone": ranges_of(twin.gone)}) + b"\n" for twin in twins]
    codec = pa.Codec("zstd", compression_level=19)
    write_bytes(path, codec.compress(b"".join(rows), asbytes=True))
    return len(rows)


def read_twins(path: Path) -> list[Twin]:
    """The twins in a file. Raises NotFound, or CorruptStore naming the line that is no twin."""
    if not path.is_file():
        raise NotFound(f"no twins at {path}: give a .jsonl or .jsonl.zst file of twins")
    twins: list[Twin] = []
    with pa.input_stream(str(path)) as stream:
        data = stream.read()
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line:
            continue
        try:
            row = orjson.loads(line)
            gone = tuple(at for first, last in row.pop("gone") for at in range(first, last + 1))
            twin = Twin(gone=gone, **row)
            if gone and not (gone[0] >= 0 and gone[-1] < len(twin.lines)):
                raise ValueError("a range of lines that the text does not have")
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise CorruptStore(f"{path}, line {number} is no twin ({error}); make the file again") from None
        twins.append(twin)
    return twins


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line of this module."""
    parser = argparse.ArgumentParser(prog="python -m typecase.store.twins", description="Twins out of unpacked packages.")
    parser.add_argument("root", type=Path, help="folder with a folder for each unpacked package")
    parser.add_argument("-o", "--out", type=Path, required=True, help="folder for the two files")
    parser.add_argument("--pages", type=int, default=60, help="pages of each family at most")
    parser.add_argument("--chars", type=int, default=24_000, help="characters of a page at most")
    chosen = parser.parse_args(arguments)
    families = read_families()
    for side, name in (("train", TRAIN), ("held", HELD)):
        made: list[Twin] = []
        for family in (f for f in families if f.side == side):
            some = list(twins_of(chosen.root, family, pages=chosen.pages, chars=chosen.chars))
            lines = sum(len(twin.lines) for twin in some)
            gone = sum(len(twin.gone) for twin in some)
            print(f"{side} {family.id:24} {len(some):4} pages {lines:7} lines, {gone:6} gone", flush=True)
            made += some
        write_twins(chosen.out / name, made)


if __name__ == "__main__":
    main()
