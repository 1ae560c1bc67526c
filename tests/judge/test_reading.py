"""The batches of a version, read in a process of its own."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from netpipe.duets.parent import Side
from netpipe.jobs.parent import ProcessEnvironment
from netpipe.jobs.targets import Factories
from netpipe.jobs.watchdog import Watchdog
from netpipe.judge import reading
from netpipe.judge.reading import FIRST, ReadRequest, read_batches
from netpipe.judge.reading_job import read_loader


class _AskedError(Exception):
    pass


def test_a_version_is_read_with_the_hash_seed_that_was_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise an order that depends on hashes would be the same in both versions."""
    asked: list[Mapping[str, str]] = []

    def run_session(_: object, __: object, place: ProcessEnvironment, *___: Any) -> None:
        asked.append(place.variables)
        raise _AskedError

    monkeypatch.setattr(reading, "run_session", run_session)
    for seed in ("0", "7"):
        with pytest.raises(_AskedError):
            read_batches(Side("now", ["python"], ReadRequest()), seed)
    assert [variables["PYTHONHASHSEED"] for variables in asked] == ["0", "7"]


def test_slow_batches_may_take_as_long_as_the_session_lets_them() -> None:
    """The parent does not end a session whose batches each come in time."""
    one, many = (ReadRequest(batches=batches, batch_limit_s=10.0) for batches in (1, 257))
    assert many.limit_s - one.limit_s >= 6 * 256 * 10.0


def test_each_batch_has_its_own_time_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Many slow batches may take longer than a start, and one of them longer than the budget."""
    limits_s: list[float] = []
    monkeypatch.setattr(Watchdog, "begin_rounds", lambda _, limit_s: limits_s.append(limit_s))
    request = ReadRequest(result=str(tmp_path / "result"), has_variants=False, batch_limit_s=300.0)
    found = read_loader(request, Factories(lambda: [1, 2, 3]), ExitStack())
    assert len(found["read"]["passes"][FIRST]["rows"]) == 3
    assert limits_s == [300.0] * 4  # The last one is the end.
