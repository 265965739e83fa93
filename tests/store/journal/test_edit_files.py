"""Files of edits: every kind of line, and every wrong one said with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from typecase.errors import BadQuery, NotFound
from typecase.store.journal.edit_files import OPS, Request, read_requests

GOOD: list[dict[str, Any]] = [
    {"text": "a text", "copies": 4},
    {"op": "inject", "tokens": [5, 9], "sample": 812, "type": "position", "position": 40, "reason": "why"},
    {"op": "inject", "text": "x", "step": 3, "sample": 1, "type": "seq_start", "eod": 0},
    {"op": "replace", "find": "2019", "text": "2021", "limit": 100},
    {"op": "replace", "find_tokens": [1, 2], "tokens": []},
    {"op": "replace", "document": 3, "start": 0, "stop": 2, "tokens": [7]},
    {"op": "mask", "document": 12, "start": 0, "stop": 40, "fill": 0},
    {"op": "delete", "document": 12},
    {"op": "delete", "sequence": 12, "start": 3, "stop": 5},
    {"op": "insert", "at": 0, "text": "new"},
    {"op": "append", "tokens": [1, 2]},
]

BAD: list[tuple[Any, str]] = [
    ({"op": "paint"}, "there is no op 'paint'; there are inject"),
    ({"op": "inject"}, "'inject' needs either text or tokens"),
    ({"text": "x", "tokens": [1]}, "needs either text or tokens"),
    ({"text": "x", "copy": 3}, "'inject' has no copy"),
    ({"text": "x", "copies": 0}, "there is at least one"),
    ({"text": "x", "copies": 2, "sample": 3}, "no place is given with several"),
    ({"text": "x", "sample": -1}, "sample is -1, a whole number"),
    ({"text": "x", "sample": True}, "sample is True, a whole number"),
    ({"text": "x", "sample": "seven"}, "sample is 'seven', a whole number"),
    ({"text": 5}, "text is 5, a text is wanted"),
    ({"tokens": [1, -2]}, "a list of token ids is wanted"),
    ({"tokens": "1 2"}, "a list of token ids is wanted"),
    ({"text": "x", "type": "middle"}, "no injection type 'middle'"),
    ({"text": "x", "type": "position"}, "go together"),
    ({"text": "x", "position": 3}, "go together"),
    ({"text": "x", "sample": 3, "document": 4}, "sample and document are given; an edit has one place"),
    ({"op": "replace", "text": "x"}, "needs one of find"),
    ({"op": "replace", "text": "x", "start": 1, "stop": 2}, "'replace' needs a place"),
    ({"op": "mask", "start": 3, "stop": 9, "document": 1}, "'mask' needs fill"),
    ({"op": "mask", "start": 9, "stop": 3, "document": 1, "fill": 0}, "start first"),
    ({"op": "delete"}, "'delete' needs a place"),
    ({"op": "insert", "text": "x"}, "'insert' needs at"),
    ([1, 2], "is a list, an edit is an object"),
]


def test_every_kind_of_request() -> None:
    requests = read_requests(GOOD)
    assert requests[0] == Request("inject", "edit 0", text="a text", copies=4)
    assert requests[1].tokens == (5, 9) and requests[1].reason == "why"
    assert requests[4].tokens == ()
    assert {r.op for r in requests} == set(OPS)


@pytest.mark.parametrize(("row", "said"), BAD, ids=[said for _, said in BAD])
def test_what_is_wrong_is_said_with_its_place(row: Any, said: str) -> None:
    with pytest.raises(BadQuery, match=f"edit 1.*{said}"):
        read_requests([GOOD[0], row])


def test_json_lines(tmp_path: Path) -> None:
    import orjson

    path = tmp_path / "edits.jsonl"
    path.write_bytes(b"\n".join(orjson.dumps(row) for row in GOOD) + b"\n\n")
    assert [r.op for r in read_requests(path)] == [r.op for r in read_requests(GOOD)]
    assert read_requests(path)[3].where == f"{path}, line 4"
    path.write_bytes(orjson.dumps(GOOD[0]) + b"\n\n{not json}\n")
    with pytest.raises(BadQuery, match=r"edits\.jsonl, line 3 is not JSON"):
        read_requests(path)
    with pytest.raises(NotFound):
        read_requests(tmp_path / "none.jsonl")


def test_csv(tmp_path: Path) -> None:
    path = tmp_path / "edits.csv"
    path.write_text('op,text,tokens,sample,type,copies\ninject,"a, b",,,,3\ninject,,"[5, 9]",812,seq_start,\n')
    first, second = read_requests(path)
    assert (first.text, first.copies, first.sample) == ("a, b", 3, None)
    assert (second.tokens, second.sample, second.type, second.where) == ((5, 9), 812, "seq_start", f"{path}, line 3")
    for text, said in (
        ("op,text\ninject,a,b\n", r"line 2 has another number of cells"),
        ("text,sample\nx,seven\n", r"line 2: sample is 'seven'"),
        ("tokens\n[1 2]\n", r"line 2, tokens is not JSON"),
    ):
        path.write_text(text)
        with pytest.raises(BadQuery, match=said):
            read_requests(path)
