"""Progress: a bar where a person looks, plain lines where output is piped, nothing else on standard output."""

from __future__ import annotations

import io

from typecase.recipe.progress import Bars, Lines, Quiet, reporter_for


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_piped_output_gets_a_plain_line_per_phase() -> None:
    stream = io.StringIO()
    reporter = reporter_for(stream)
    assert isinstance(reporter, Lines)
    with reporter.phase("rate work", total=3, done=1) as phase:
        phase.advance(10, 2_000_000)
        phase.advance(10, 2_000_000)
    [line] = stream.getvalue().splitlines()
    assert line.startswith("rate work: 3/3") and "docs/s" in line and "MB/s" in line and "\r" not in line


def test_a_terminal_gets_a_bar_with_rate() -> None:
    stream = Terminal()
    reporter = reporter_for(stream)
    assert isinstance(reporter, Bars)
    with reporter.phase("rate work", total=2, done=1) as phase:
        phase.advance(10, 2_000_000)
    assert "2/2" in stream.getvalue() and "docs/s" in stream.getvalue()


def test_quiet_says_nothing() -> None:
    with Quiet().phase("x", total=1, done=0) as phase:
        phase.advance(1, 1)
