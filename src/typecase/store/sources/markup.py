"""HTML -> text: which encoding, then what a reader of the page sees.

The encoding is looked for in this order, and the first one in which every byte has a meaning is taken:

    a byte order mark
    what HTTP or the page declares, when that is a multi-byte encoding (such text may pass for UTF-8 by chance)
    UTF-8                       (other text hardly ever passes for it, whatever the page declares)
    what HTTP or the page declares
    what the bytes look like    unless they look like UTF-8 with damage, which other encodings would turn into noise

A page that none of them can decode is a fault; no byte is ever dropped or replaced. The text is that of resiliparse,
with line breaks, list bullets and alternative texts.

Price: 40 MB/s of HTML for the whole page, 20 MB/s for its main content.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from itertools import accumulate

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import detect_encoding, map_encoding_to_html5

from typecase.store.sources.fields import FieldFault
from typecase.store.sources.rows import BAD_HTML, NO_HTML_TEXT

_BOMS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_DECLARED = re.compile(
    rb"""<meta\b[^>]*?\bcharset\s*=\s*["']?\s*([\w.:+-]+)|<\?xml\b[^>]*?\bencoding\s*=\s*["']([\w.:+-]+)""", re.IGNORECASE
)
_DECLARED_WITHIN = 4096
_BLOCK = re.compile(r"<(/?)(?:div|article)\b", re.IGNORECASE)
_MAX_DEPTH = 4096
_SUPERSETS = {"shift_jis": "cp932", "euc_kr": "cp949", "gbk": "gb18030", "gb2312": "gb18030", "iso8859-11": "cp874"}
"""What browsers decode under these names."""
_MULTI_BYTE = {"cp932", "cp949", "gb18030", "big5", "big5hkscs", "euc_jp", "iso2022_jp"}


def html_text(data: bytes, *, main_content: bool, charset: str | None = None) -> tuple[str, str]:
    """The visible text of a page and the encoding it was in; `charset` is what HTTP says.

    Raises FieldFault when the page cannot be decoded or shows no text.
    """
    html, encoding = decoded(data, charset)
    if main_content and (depth := _depth(html)) > _MAX_DEPTH:
        raise FieldFault(BAD_HTML, f"nested {depth} levels deep; finding its main content would take too long")
    text = str(extract_plain_text(html, main_content=main_content, preserve_formatting=True, list_bullets=True, alt_texts=True))
    if not text or text.isspace():
        raise FieldFault(NO_HTML_TEXT, f"{len(data)} bytes of HTML")
    return text, encoding


def _depth(html: str) -> int:
    """Levels of the elements in whose nesting the search for main content is quadratic."""
    if html.count("<div") + html.count("<article") + html.count("<DIV") + html.count("<ARTICLE") <= _MAX_DEPTH:
        return 0
    return max(accumulate(-1 if found[1] else 1 for found in _BLOCK.finditer(html)), default=0)


def decoded(data: bytes, charset: str | None = None, *, reason: str = BAD_HTML) -> tuple[str, str]:
    """The characters of a page and its encoding. Raises FieldFault with `reason`."""
    for bom, encoding in _BOMS.items():
        if data.startswith(bom):
            return _strict(data[len(bom) :], encoding, reason), encoding
    tried: list[str] = []
    for encoding in _candidates(data, charset):
        if encoding in tried:
            continue
        try:
            return data.decode(encoding), encoding
        except (UnicodeDecodeError, LookupError):
            tried.append(encoding)
    raise FieldFault(reason, f"not {', not '.join(tried)}")


def _candidates(data: bytes, charset: str | None) -> Iterator[str]:
    declared = [name for name in (charset, _declared(data)) if name]
    known = [_SUPERSETS.get(name, name) for name in map(_python_name, declared)]
    yield from (name for name in known if name in _MULTI_BYTE)
    yield "utf-8"
    yield from known
    if not _is_damaged_utf8(data):
        found = _python_name(detect_encoding(data, from_html_meta=False) or "utf-8")
        yield _SUPERSETS.get(found, found)


def _declared(data: bytes) -> str | None:
    found = _DECLARED.search(data, 0, _DECLARED_WITHIN)
    return (found[1] or found[2]).decode("ascii", "replace") if found else None


def _python_name(name: str) -> str:
    """The codec that browsers use for an encoding of this name; UTF-8 for one that nobody knows."""
    mapped = str(map_encoding_to_html5(name))
    # A page that could be read far enough to find this name in it is not UTF-16.
    return "utf-8" if mapped.startswith("utf-16") else mapped


def _is_damaged_utf8(data: bytes) -> bool:
    """Whether most of what is not ASCII is well-formed UTF-8."""
    text = data.decode("utf-8", "replace")
    foreign = sum(1 for c in text if c > "\x7f")
    return text.count("\ufffd") * 2 < foreign


def _strict(data: bytes, encoding: str, reason: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise FieldFault(reason, f"{encoding}, {error.reason} at byte {error.start}") from None
