"""The overhead that the harness adds to the run that it measures or watches."""

import sys
import time
from collections.abc import Iterator
from itertools import islice, repeat
from pathlib import Path

import pytest

from netpipe.results.measurement import Measurement
from netpipe.results.units import format_percent, format_seconds
from netpipe.watching.watcher import Watcher

_STEP_S = 0.020  # the shortest supported step
_MAX_FRACTION = 0.01
_MAX_WATCHING_S = 20e-6
_MAX_CALLS = 30
_BATCHES = 10_000


def test_the_instruments_cost_little(netpipe_measurement: Measurement) -> None:
    """The harness adds less than 1% of a 20 ms step to a bare loop."""
    fraction = netpipe_measurement.overhead_fraction
    assert fraction is not None
    overhead_s = fraction * netpipe_measurement.step_s.median
    assert overhead_s < _MAX_FRACTION * _STEP_S, (
        f"the instruments add {format_seconds(overhead_s)} to each step, "
        f"{format_percent(fraction)} of this one"
    )


class _Result:
    """The array of a finished step; this process must not use a device."""

    def is_ready(self) -> bool:
        return True

    def is_deleted(self) -> bool:
        return False


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watcher]:
    """Batches that are there at once, with a log that gets a line every 50 ms."""
    watched = Watcher(repeat({"x": 1}), tmp_path / "run.jsonl", window_s=0.05)
    _train(watched, 100)
    watched.close_window()  # the first one imports what the others need
    yield watched
    watched.stop()


def _train(watched: Watcher, batches: int) -> None:
    aux = {"loss": _Result()}
    for _ in islice(watched, batches):
        watched.on_step_end(aux)


def test_watching_takes_little_cpu_time(watched: Watcher) -> None:
    """A batch and its step take at most 20 us, the watcher's own thread included.

    The best of ten turns counts, because other programs slow a turn down.
    """
    turns_s = []
    for _ in range(10):
        began_s = time.process_time()
        _train(watched, _BATCHES)
        turns_s.append((time.process_time() - began_s) / _BATCHES)
    watched.close_window()
    assert watched.figures()["netpipe/batches"] > 0
    assert min(turns_s) <= _MAX_WATCHING_S, ", ".join(map(format_seconds, turns_s))


def test_watching_calls_few_functions(watched: Watcher) -> None:
    """The loop's thread calls at most 30 functions for a batch, on a machine of any speed."""
    calls: list[str] = []
    sys.setprofile(lambda _, event, __: calls.append(event) if event.endswith("call") else None)
    try:
        _train(watched, 1000)
    finally:
        sys.setprofile(None)
    assert len(calls) <= _MAX_CALLS * 1000
