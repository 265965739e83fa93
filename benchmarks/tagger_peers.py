"""What main-content extractors keep of the held-out twins, as lines, for bench_tagger.py.

    python benchmarks/tagger_peers.py UNPACKED [--seeds seeds/twins]     writes SEEDS/peers.jsonl.zst

UNPACKED holds a folder for each Debian package (`apt-get download PKG && dpkg -x PKG_*.deb UNPACKED/PKG`). Extractors see
the HTML, which says more than text does: where links, lists and headings are. Needed: trafilatura and justext (both from
PyPI, with lxml_html_clean); resiliparse is there anyway.

An extractor's text is laid beside the page's text by the longest common subsequence of words; a line of the page is kept
when half of its words or more are found. Where an extractor finds nothing, all lines are removed.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
from numba import njit
from resiliparse.extract.html2text import extract_plain_text

from typecase.core.twins.marks import Twin, ranges_of
from typecase.store.sources.markup import decoded
from typecase.store.twins import HELD, read_twins

PEERS = "peers.jsonl.zst"
_WORD = re.compile(r"\w+|[^\w\s]")


def extractors() -> dict[str, Callable[[str], str]]:
    """Name -> HTML to text; those that are installed."""
    found: dict[str, Callable[[str], str]] = {
        "resiliparse": lambda html: str(
            extract_plain_text(html, main_content=True, preserve_formatting=True, list_bullets=True, alt_texts=True)
        )
    }
    try:
        import trafilatura

        found["trafilatura"] = lambda html: trafilatura.extract(html) or ""
    except ImportError as error:
        print(f"no trafilatura: {error}")
    try:
        import justext

        words = justext.get_stoplist("English")
        found["justext"] = lambda html: "\n".join(p.text for p in justext.justext(html, words) if not p.is_boilerplate)
    except ImportError as error:
        print(f"no justext: {error}")
    return found


def keys_of(text: str) -> np.ndarray:
    return np.array([int.from_bytes(blake2b(w.encode(), digest_size=7).digest()) for w in _WORD.findall(text)], np.int64)


@njit(cache=True)
def matched(page: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Which words of the page are in a longest common subsequence with those that were kept."""
    n, m = len(page), len(kept)
    best = np.zeros((n + 1, m + 1), np.uint16)
    for i in range(n - 1, -1, -1):
        for j in range(m - 1, -1, -1):
            if page[i] == kept[j]:
                best[i, j] = best[i + 1, j + 1] + 1
            else:
                best[i, j] = max(best[i + 1, j], best[i, j + 1])
    out = np.zeros(n, np.bool_)
    i = j = 0
    while i < n and j < m:
        if page[i] == kept[j] and best[i, j] == best[i + 1, j + 1] + 1:
            out[i] = True
            i += 1
            j += 1
        elif best[i + 1, j] >= best[i, j + 1]:
            i += 1
        else:
            j += 1
    return out


def removed(twin: Twin, text: str) -> list[int]:
    lines = [keys_of(line) for line in twin.lines]
    found = matched(np.concatenate([np.zeros(0, np.int64), *lines]), keys_of(text))
    out, at = [], 0
    for number, words in enumerate(lines):
        if len(words) and 2 * found[at : at + len(words)].sum() < len(words):
            out.append(number)
        at += len(words)
    return out


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("root", type=Path)
    options.add_argument("--seeds", type=Path, default=Path(__file__).parents[1] / "seeds" / "twins")
    given = options.parse_args()
    found = extractors()
    rows = []
    for twin in read_twins(given.seeds / HELD):
        html, _ = decoded((given.root / twin.source / twin.path).read_bytes())
        row = {"source": twin.source, "path": twin.path}
        for name, extract in found.items():
            row[name] = ranges_of(removed(twin, extract(html)))
        rows.append(orjson.dumps(row) + b"\n")
        if len(rows) % 100 == 0:
            print(len(rows), flush=True)
    data = pa.Codec("zstd", compression_level=19).compress(b"".join(rows), asbytes=True)
    (given.seeds / PEERS).write_bytes(data)


if __name__ == "__main__":
    main()
