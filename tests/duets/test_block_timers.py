"""The figures of a loader that a block answers with beside its times."""

from math import inf
from typing import Any, cast

import pytest

from netpipe.clock import MonotonicClock
from netpipe.duets.block_timers import LoadTimer
from netpipe.measuring.loader_puller import Puller
from netpipe.results.measurement import Interval
from tests.duets import duet_targets
from tests.fakes import FakeClock
from tests.measuring.simulated import start_puller


class Footprints:
    """A log with a prepared description, which counts its readings."""

    def __init__(self, description: dict[str, Any]) -> None:
        self._description, self.readings = description, 0

    def read(self, _: object) -> None:
        """Count a reading."""
        self.readings += 1

    def describe(self) -> dict[str, Any]:
        """Return the description."""
        return self._description


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ({}, {}),
        (
            {"peak_pss_bytes": 7, "growth_bytes_per_batch": Interval(5.0, 3.0, 9.0, 8)},
            {"peak_pss_bytes": [7], "growth_bytes_per_batch": [3.0]},
        ),
        (
            {"peak_pss_bytes": 7, "growth_bytes_per_batch": Interval(5.0, -inf, inf, 4)},
            {"peak_pss_bytes": [7], "growth_bytes_per_batch": []},
        ),
    ],
    ids=["not counted", "bounded", "too few readings"],
)
def test_each_block_answers_with_start_and_memory(
    description: dict[str, Any], expected: dict[str, Any]
) -> None:
    """Growth is its sure part, and is left out while it is not bounded."""
    puller, footprints = Puller(duet_targets.quick, MonotonicClock()), Footprints(description)
    timer = LoadTimer(puller, MonotonicClock(), 0.01, cast(Any, footprints))
    block = timer.time_block(timer.size)
    assert block["once"] == {"first_batch_s": [puller.first_batch_s], **expected}
    assert footprints.readings == 1


def test_no_block_contains_a_start(clock: FakeClock) -> None:
    """A block ends with the epoch, and one in which the loader starts again has no times."""
    puller = start_puller(clock, [100.0, *[0.001] * 7])
    timer = LoadTimer(puller, clock, 0.01, cast(Any, Footprints({})))
    blocks = [timer.time_block(timer.size) for _ in range(9)]
    assert any(blocks)
    for stamps_s in (block["stamps_s"] for block in blocks if block):
        assert stamps_s[-1] - stamps_s[0] < 1.0
