"""The answer cache: replay, repeats, kills, eviction, damage, readers beside a writer."""

from __future__ import annotations

import itertools
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.lm.contract import CHOICES, TEXTS, LMContract, same
from typecase.errors import BadQuery, CorruptStore, NotFound, TryAgain
from typecase.lm.cache import AnswerCache, CachedLM, _decode, _encode
from typecase.lm.fake import FakeLM
from typecase.lm.protocol import LM, Answer, Choices, Failure, Result, Scores, Vector


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[AnswerCache]:
    with AnswerCache(tmp_path / "answers.db") as opened:
        yield opened


class TestCachedFake(LMContract):
    @pytest.fixture
    def lm(self, cache: AnswerCache) -> LM:
        return CachedLM(FakeLM(), cache, window_rows=3)


def everything(lm: LM) -> list[Result]:
    """All four calls on the same texts."""
    return [
        *lm.generate(TEXTS, max_tokens=6, seed=1, temperature=0.5, top_logprobs=2),
        *lm.score(TEXTS),
        *lm.score_continuations(TEXTS, itertools.repeat(CHOICES)),
        *lm.embed(TEXTS),
    ]


def test_a_second_run_replays_without_a_call(tmp_path: Path) -> None:
    first, second = FakeLM(), FakeLM()
    with AnswerCache(tmp_path / "answers.db") as cache:
        told = everything(CachedLM(first, cache))
    with AnswerCache(tmp_path / "answers.db") as cache:
        replayed = everything(CachedLM(second, cache))
        stats = cache.stats()
    assert all(same(a, b) for a, b in zip(told, replayed, strict=True))
    assert all(same(a, b) for a, b in zip(told, everything(FakeLM()), strict=True))
    assert (first.rows_asked, second.rows_asked) == (4 * len(TEXTS), 0)
    assert (stats.hits, stats.misses, stats.stored, stats.entries, stats.hit_rate) == (32, 0, 0, 32, 1.0)


def test_other_requests_are_other_entries(cache: AnswerCache) -> None:
    lm = FakeLM()
    for model in (lm, FakeLM("other")):
        for temperature, seed, stop, max_tokens in [
            (0.5, 1, (), 6),
            (0.5, 2, (), 6),
            (0.7, 1, (), 6),
            (0.5, 1, ("a",), 6),
            (0.5, 1, (), 7),
        ]:
            list(CachedLM(model, cache).generate(["x"], max_tokens=max_tokens, seed=seed, temperature=temperature, stop=stop))
    assert cache.stats().entries == 10
    list(CachedLM(lm, cache).score_continuations(["x", "x"], [["a", "bc"], ["ab", "c"]]))
    assert cache.stats().entries == 12


def test_greedy_answers_are_shared_by_all_seeds(cache: AnswerCache) -> None:
    lm = FakeLM()
    for seed in range(3):
        list(CachedLM(lm, cache).generate(["x"], max_tokens=6, seed=seed))
    assert lm.rows_asked == 1


def test_repeats_in_a_window_are_asked_once(cache: AnswerCache) -> None:
    lm = FakeLM()
    results = list(CachedLM(lm, cache).generate(["a", "b", "a", "a"], max_tokens=6, seed=1))
    assert same(results[0], results[2]) and same(results[0], results[3])
    stats = cache.stats()
    assert (lm.rows_asked, stats.misses, stats.repeats, stats.hits) == (2, 2, 2, 0)


def test_passing_failures_are_asked_again_and_lasting_ones_are_not(cache: AnswerCache) -> None:
    bad = FakeLM(failures={"BOOM": Failure("timeout", "planted")})
    prompts = ["fine", "BOOM", "word " * 600]
    kinds = [
        [getattr(r, "kind", "ok") for r in CachedLM(lm, cache).generate(prompts, max_tokens=3, seed=1)]
        for lm in (bad, FakeLM())
    ]
    assert kinds == [["ok", "timeout", "too_long"], ["ok", "ok", "too_long"]]
    good = FakeLM()
    list(CachedLM(good, cache).generate(prompts, max_tokens=3, seed=1))
    assert good.rows_asked == 0


@pytest.mark.parametrize(
    "result",
    [
        Answer("tëxt \ud800", "stop", 3, 2, np.array([-0.1, -1e-30], np.float32), ((("a", -0.1), ("\ud800", -2.0)),)),
        Answer("", "length", 0, 0),
        Scores(np.array([], np.float32), 0, 1),
        Choices(np.array([-1.5], np.float32), np.array([2], np.int32), 9),
        Vector(np.array([1 / 3, -0.0], np.float32), 1),
        Failure("too_long", 'many "words"\n'),
    ],
)
def test_stored_values_come_back_exactly(result: Result) -> None:
    back = _decode(_encode(result))
    assert back is not None and same(result, back)
    if isinstance(result, Answer) and isinstance(back, Answer):
        assert back.top == result.top


KILLED = """
import os, signal, sys
from typecase.lm.cache import AnswerCache, CachedLM
from typecase.lm.fake import FakeLM
asked = 0
def reply(prompt):
    global asked
    asked += 1
    if asked == 38:
        os.kill(os.getpid(), signal.SIGKILL)
    return prompt.upper()
lm = CachedLM(FakeLM(reply=reply), AnswerCache(sys.argv[1]), window_rows=25)
for _ in lm.generate([f"row {k}" for k in range(100)], max_tokens=9, seed=0): pass
"""


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "answers.db"
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL

    def reply(prompt: str) -> str:
        return prompt.upper()

    lm = FakeLM(reply=reply)
    lm_again = FakeLM(reply=reply)
    reply.__qualname__ = "reply"
    prompts = [f"row {k}" for k in range(100)]
    with AnswerCache(path) as cache:
        results = list(CachedLM(lm, cache).generate(prompts, max_tokens=9, seed=0))
        assert [r.text for r in results if isinstance(r, Answer)] == [p.upper() for p in prompts]
        assert (lm.rows_asked, cache.stats().hits) == (100 - 37, 37)
        list(CachedLM(lm_again, cache).generate(prompts, max_tokens=9, seed=0))
    assert lm_again.rows_asked == 0


def test_the_size_is_bounded_and_the_oldest_go_first(tmp_path: Path) -> None:
    path = tmp_path / "answers.db"
    with AnswerCache(path, size_bytes=1 << 16) as cache:
        lm = CachedLM(FakeLM(), cache)
        for k in range(700):
            list(lm.embed([f"row {k}"]))
            assert cache.stats().size_bytes <= 1 << 16
        stats = cache.stats()
        assert stats.evicted > 0 and stats.entries == 700 - stats.evicted
        total = sqlite3.connect(path).execute("select sum(size) from answers").fetchone()[0]
        assert total == stats.size_bytes > (1 << 16) * 8 // 10
        late, early = FakeLM(), FakeLM()
        list(CachedLM(late, cache).embed(["row 699", "row 698"]))
        list(CachedLM(early, cache).embed(["row 0"]))
    assert (late.rows_asked, early.rows_asked) == (0, 1)


def test_a_damaged_value_is_asked_again(cache: AnswerCache) -> None:
    list(CachedLM(FakeLM(), cache).score(["a", "b"]))
    with sqlite3.connect(cache.path) as db:
        db.execute("update answers set value = substr(value, 1, 9)")
    db.close()
    lm = FakeLM()
    assert all(same(a, b) for a, b in zip(CachedLM(lm, cache).score(["a", "b"]), FakeLM().score(["a", "b"])))
    assert (lm.rows_asked, cache.stats().damaged) == (2, 2)
    assert all(isinstance(r, Scores) for r in CachedLM(FakeLM(failures={"": Failure("timeout", "")}), cache).score(["a", "b"]))


def test_a_locked_file_is_no_damage(cache: AnswerCache) -> None:
    cache._db.execute("pragma busy_timeout = 10")
    other = sqlite3.connect(cache.path, isolation_level=None)
    other.execute("begin immediate")
    with pytest.raises(TryAgain, match="locked"):
        list(CachedLM(FakeLM(), cache).score(["a"]))
    other.execute("rollback")
    other.close()
    assert len(list(CachedLM(FakeLM(), cache).score(["a"]))) == 1


def test_what_is_no_cache_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database " * 1000)
    with pytest.raises(CorruptStore, match="move it away"):
        AnswerCache(tmp_path / "text")
    with pytest.raises(NotFound, match="cannot be opened"):
        AnswerCache(tmp_path)
    newer = sqlite3.connect(tmp_path / "newer")
    newer.execute("pragma user_version = 99")
    newer.close()
    with pytest.raises(CorruptStore, match="format 99"):
        AnswerCache(tmp_path / "newer")
    with pytest.raises(BadQuery, match="65,536"):
        AnswerCache(tmp_path / "small", size_bytes=10)


WRITER = """
import sys
from typecase.lm.cache import AnswerCache, CachedLM
from typecase.lm.fake import FakeLM
with AnswerCache(sys.argv[1]) as cache:
    rows = range(int(sys.argv[2]), int(sys.argv[3]))
    for _ in CachedLM(FakeLM(), cache, window_rows=7).score([f"row {k}" for k in rows]): pass
"""


def test_many_processes_read_and_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "answers.db"
    ranges = [(0, 150), (100, 250), (0, 250)]
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(a), str(b)]) for a, b in ranges]
    with AnswerCache(path) as cache:
        for _ in range(20):
            list(CachedLM(FakeLM(), cache).score([f"row {k}" for k in range(0, 250, 10)]))
        assert [writer.wait(60) for writer in writers] == [0, 0, 0]
        lm = FakeLM()
        list(CachedLM(lm, cache).score([f"row {k}" for k in range(250)]))
        assert lm.rows_asked == 0 and cache.stats().entries == 250
        total = sqlite3.connect(path).execute("select sum(size) from answers").fetchone()[0]
        assert total == cache.stats().size_bytes


def test_a_run_that_stops_early_keeps_what_it_gave(cache: AnswerCache) -> None:
    lm = FakeLM()
    rows = CachedLM(lm, cache).score(f"row {k}" for k in range(100))
    taken = list(itertools.islice(rows, 5))
    rows.close()  # type: ignore[attr-defined]
    assert len(taken) == cache.stats().entries == lm.rows_asked == 5
