"""Readers: from files as people have them to rows with a text, and a reason for every row that has none.

    files.py     which files, their names, formats and hashes
    splits.py    what one worker reads: a range of lines, some row groups, a handful of small files
    read.py      one split -> Rows (texts, other fields, places) and Faults (what, where, why)
    |- jsonl.py      lines.py        |- texts.py    markup.py
    |- delimited.py  cells.py        `- warc.py     http.py
    |- parquet.py    arrow_json.py
    streams.py   plain, gzip, zstd
    fields.py    the text, id and source of a row
    rows.py      Rows, Fault, and the reasons

A reader never raises for what is in a file, and after every bad row it reads on.
"""
