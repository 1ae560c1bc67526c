"""The output of a session's process: its size on disk, and the lines shown."""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from netpipe.jobs.parent import SessionLog

LONG = b"filler\n" * 300_000


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[BinaryIO]:
    """A log file, written to as by a process that inherits it."""
    with (tmp_path / "log.txt").open("a+b", buffering=0) as opened:
        yield opened


def test_a_short_log_shows_its_last_lines(stream: BinaryIO) -> None:
    """Nothing is cut, and of many lines the last 25 are shown."""
    log = SessionLog(stream)
    stream.write(b"".join(b"line %d\n" % number for number in range(40)))
    log.cut()
    assert log.shown_lines() == [f"line {number}" for number in range(15, 40)]


def test_a_log_without_end_stays_small(stream: BinaryIO, tmp_path: Path) -> None:
    """After each cut it is empty; its last lines are shown."""
    log = SessionLog(stream)
    for _ in range(3):
        stream.write(LONG)
        log.cut()
        assert (tmp_path / "log.txt").stat().st_size == 0
    stream.write(b"last\n")
    assert log.shown_lines() == ["filler"] * 24 + ["last"]


def test_a_long_log_that_nobody_has_cut_is_not_read_whole(stream: BinaryIO) -> None:
    """A line of megabytes is shortened, and bytes that are not text are replaced."""
    log = SessionLog(stream)
    stream.write(b"\xff" * (2 << 20))
    assert log.shown_lines() == ["\N{REPLACEMENT CHARACTER}" * (1 << 14)]
