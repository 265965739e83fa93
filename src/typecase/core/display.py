"""Display: how a notebook shows what typecase gives, as small pieces of HTML. Every text is escaped: it stays text.

    document    a line of facts, the text in a box that scrolls
    hit         the text around, the hit marked
    difference  what went struck through, what came underlined

`_repr_html_` of the classes calls these. Colours say nothing that strokes do not say, so that light and dark notebooks do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

MOST_CHARS = 4000
_BOX = (
    "white-space:pre-wrap;overflow-wrap:anywhere;max-height:24em;overflow:auto;"
    "border:1px solid #8888;padding:.4em;margin:.2em 0"
)


def facts(title: str, rows: Mapping[str, Any]) -> str:
    """A title and what is known, in one line; what is None or empty is left out."""
    told = "  ".join(f"<b>{escape(str(k))}</b> {escape(_said(v))}" for k, v in rows.items() if v not in (None, "", (), {}))
    return f"<div><b>{escape(title)}</b>  {told}</div>"


def _said(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def box(*pieces: str) -> str:
    """Pieces of HTML in a box that keeps line ends and scrolls."""
    return f'<pre style="{_BOX}">{"".join(pieces)}</pre>'


def plain(text: str) -> str:
    """A text, cut at MOST_CHARS, with how much was left out."""
    more = len(text) - MOST_CHARS
    return escape(text[:MOST_CHARS]) + (f"<i> … and {more:,} more characters</i>" if more > 0 else "")


def marked(before: str, text: str, after: str) -> str:
    """A hit with the text around it."""
    return f"{plain(before)}<mark>{plain(text)}</mark>{plain(after)}"


def changed(old: str | None, new: str | None) -> str:
    """What went and what came; None where there is nothing."""
    gone = f"<del>{plain(old)}</del>" if old else ""
    return gone + (f"<ins>{plain(new)}</ins>" if new else "")


def numbers(ids: Iterable[int], most: int = 200) -> str:
    """Token ids, the first `most`."""
    known = [int(i) for i in ids]
    return " ".join(map(str, known[:most])) + (f" … and {len(known) - most:,} more" if len(known) > most else "")
