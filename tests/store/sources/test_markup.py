"""HTML: the right characters, or none."""

from __future__ import annotations

import pytest

from typecase.store.sources.fields import FieldFault
from typecase.store.sources.markup import decoded, html_text
from typecase.store.sources.rows import BAD_HTML, NO_HTML_TEXT


def text(data: bytes, charset: str | None = None) -> tuple[str, str]:
    return html_text(data, main_content=False, charset=charset)


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ("<p>hällo 😀".encode(), ("hällo 😀", "utf-8")),
        (b"\xef\xbb\xbf<p>h\xc3\xa4", ("hä", "utf-8")),
        ("<p>hällo".encode("utf-16"), ("hällo", "utf-16-le")),
        (b"<meta charset=iso-8859-1><p>caf\xe9", ("café", "cp1252")),
        (
            b'<meta http-equiv="Content-Type" content="text/html; charset=windows-1251"><p>' + "да".encode("cp1251"),
            ("да", "cp1251"),
        ),
        (b"<meta charset='euc-kr'><p>" + "한국어".encode("euc-kr"), ("한국어", "cp949")),
        (b"<meta charset=Shift_JIS><p>" + "①日本".encode("cp932"), ("①日本", "cp932")),
        (b"<meta charset=gb2312><p>" + "联通".encode("gbk"), ("联通", "gb18030")),
        (b"<meta charset=iso-2022-jp><p>" + "日本".encode("iso2022_jp"), ("日本", "iso2022_jp")),
        (b"<?xml version='1.0' encoding='iso-8859-2'?><p>\xb3", ("ł", "iso8859-2")),
        (b"<meta charset=latin1><p>h\xc3\xa4llo", ("hällo", "utf-8")),  # declared wrongly
        (b"<meta charset=klingon><p>h\xc3\xa4llo", ("hällo", "utf-8")),
        (
            b"<meta charset=utf-8><p>caf\xe9 au lait, cr\xe8me br\xfbl\xe9e et th\xe9",
            ("café au lait, crème brûlée et thé", "cp1252"),
        ),
    ],
)
def test_encodings(data: bytes, shown: tuple[str, str]) -> None:
    assert text(data) == shown


def test_http_speaks_first() -> None:
    assert text("<meta charset=utf-8><p>да".encode("cp1251"), "windows-1251") == ("да", "cp1251")


def test_damaged_utf8_is_not_turned_into_noise() -> None:
    data = b"<meta charset=utf-8><p>" + "привет мир ".encode() * 5 + b"\xff\xfe" + "ещё".encode()
    with pytest.raises(FieldFault) as caught:
        text(data)
    assert caught.value.reason == BAD_HTML


def test_half_a_character_after_a_mark() -> None:
    with pytest.raises(FieldFault) as caught:
        decoded(b"\xff\xfea\x00b")
    assert caught.value.reason == BAD_HTML


@pytest.mark.parametrize(
    "data", [b"", b"   ", b"<html><head><title>t</title></head><script>x</script>", b"<img src=x>", b"<!-- -->"]
)
def test_no_text(data: bytes) -> None:
    with pytest.raises(FieldFault) as caught:
        text(data)
    assert caught.value.reason == NO_HTML_TEXT


def test_layout_and_main_content() -> None:
    page = b"<nav><a href=/>menu</a></nav><main><h1>Head</h1><p>One  two\n three</p><ul><li>a<li>b</ul></main>"
    assert text(page)[0] == "menu\n\nHead\n\nOne two three\n\n  • a\n  • b"
    assert "menu" not in html_text(page, main_content=True)[0]


def test_deep_nesting_ends() -> None:
    page = b"<div>" * 50_000 + b"text"
    assert text(page)[0] == "text"
    with pytest.raises(FieldFault):
        html_text(page, main_content=True)
