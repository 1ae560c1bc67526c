"""The blocks of a loader that is timed beside another one, and the figures that come with them."""

from collections.abc import Iterator
from math import inf
from typing import Any, cast

import pytest

from netpipe.clock import Clock
from netpipe.duets.block_timers import LoadTimer
from netpipe.measuring.loader_puller import Puller
from netpipe.results.measurement import Interval
from tests.duets import duet_targets
from tests.fakes import FakeClock
from tests.measuring.simulated import start_puller


class DeepBuffer(Iterator[int]):
    """A thread that makes a batch in 2 ms of CPU time, up to `depth` batches ahead."""

    pids = worker_pids = ()

    def __init__(self, clock: FakeClock, depth: int, take_s: float) -> None:
        self._clock, self._depth, self._take_s = clock, depth, take_s
        self._made_s, self._taken_s = list[float](), list[float]()

    def _make(self) -> None:
        while (number := len(self._made_s)) < len(self._taken_s) + self._depth:
            room_s = self._taken_s[number - self._depth] if number >= self._depth else 0.0
            self._made_s.append(max(room_s, self._made_s[-1] if number else 0.0) + 0.002)

    def __next__(self) -> int:
        self._make()
        number = len(self._taken_s)
        self._clock.sleep(max(self._take_s, self._made_s[number] - self._clock()))
        self._taken_s.append(self._clock())
        return number

    def cpu_s(self) -> float:
        """Return the CPU seconds of the batches so far."""
        self._make()
        return 0.002 * sum(made_s <= self._clock() for made_s in self._made_s)


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
    puller, footprints = Puller(duet_targets.quick, Clock()), Footprints(description)
    timer = LoadTimer(puller, Clock(), 0.01, cast(Any, footprints))
    block = timer.time_block(timer.size)
    assert block["once"] == {"first_batch_s": [puller.first_batch_s], **expected}
    assert footprints.readings == 1


def time_deep_buffer(clock: FakeClock, depth: int, take_s: float = 0.0) -> LoadTimer:
    """Prepare the blocks of a loader with a deep buffer."""
    loader = DeepBuffer(clock, depth, take_s)
    puller = Puller(lambda: loader, clock)
    puller.processes = loader  # type: ignore[assignment]
    return LoadTimer(puller, clock, 0.1, cast(Any, Footprints({})))


@pytest.mark.parametrize(
    ("depth", "take_s", "least", "most"),
    [(40, 0.0012, 100, 150), (40, 0.0, 40, 60), (4, 0.0, 4, 16), (1, 0.0, 0, 16)],
)
def test_a_block_skips_the_batches_that_were_made_before(
    clock: FakeClock, depth: int, take_s: float, least: int, most: int
) -> None:
    """The rest is made within the block, even if taking one takes more than half as long."""
    timer = time_deep_buffer(clock, depth, take_s)
    assert least <= timer.size.skipped <= most
    block = timer.time_block(timer.size)
    timed_s = block["stamps_s"][timer.size.skipped :]
    assert (timed_s[-1] - timed_s[0]) / (len(timed_s) - 1) == pytest.approx(0.002, rel=0.05)


@pytest.mark.parametrize(("depth", "rests"), [(40, True), (1500, False)])
def test_what_a_loader_needs_of_the_host(clock: FakeClock, depth: int, *, rests: bool) -> None:
    """It uses one core, and does not rest if filling its buffers takes more than two seconds."""
    use = time_deep_buffer(clock, depth).core_use
    assert (use.helpers, use.rests) == ((0, 0), rests)
    assert use.cores == pytest.approx(1.0, rel=0.1)


def test_a_short_epoch_still_holds_a_block(clock: FakeClock) -> None:
    """No more batches are skipped than an epoch has beside the timed ones."""
    timer = time_deep_buffer(clock, 40, take_s=0.0012)
    puller, timed = timer._puller, 150
    puller.epoch_batches, puller._epoch_began = 200, puller.pulled
    assert 20 < timer._count_until_empty(3, timed) <= 200 - timed


def test_no_block_contains_a_start(clock: FakeClock) -> None:
    """A block ends with the epoch, and one in which the loader starts again has no times."""
    puller = start_puller(clock, [100.0, *[0.001] * 7])
    timer = LoadTimer(puller, clock, 0.01, cast(Any, Footprints({})))
    assert not timer.core_use.rests  # an epoch is too short to find out
    blocks = [timer.time_block(timer.size) for _ in range(9)]
    assert any(blocks)
    for stamps_s in (block["stamps_s"] for block in blocks if block):
        assert stamps_s[-1] - stamps_s[0] < 1.0
