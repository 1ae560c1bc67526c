"""Rounds of blocks in turns on a fake clock, and the measures of a block."""

import re
from collections.abc import Iterator
from itertools import count
from math import inf
from threading import Event
from typing import Any

import grain
import numpy as np
import pytest

from netpipe.errors import HangError, MisuseError
from netpipe.grain_access.dataset_variants import Variant
from netpipe.grain_access.reader import read_graph
from netpipe.linting.experiments import variant_comparison
from netpipe.linting.experiments.variant_comparison import (
    ElementBlock,
    Pace,
    VariantComparison,
    measure_block,
)
from netpipe.measuring import loader_puller
from netpipe.measuring.loader_puller import LoaderFactory
from tests.fakes import FakeClock, FakeProcesses

AMPLE_S = 60.0
CALM, SMALL = Variant(read_threads=0), Variant(read_buffer=3)
THREADS = grain.ReadOptions(num_threads=2, prefetch_buffer_size=7)


def factory() -> Any:
    """A pipeline that reads with two threads and a buffer of 7."""
    return grain.MapDataset.source(range(8)).to_iter_dataset(THREADS)


def name_side(loader: LoaderFactory) -> str:
    """Return the side that a loader belongs to, by its settings."""
    (node,) = read_graph(loader()).of_kind("ToIter")
    settings = f"{node.parameters['num_threads']} {node.parameters['prefetch_buffer_size']}"
    return {"2 7": "A", "0 7": "calm", "2 3": "small"}[settings]


class Script:
    """Measures blocks as a test prescribes, and records their order."""

    def __init__(self, clock: FakeClock, block_s: float = 0.1) -> None:
        self._clock = clock
        self._block_s = block_s
        self.order: list[str] = []
        self.asked: list[Pace] = []
        self.load_s, self.ended = 0.0, False
        self.fails_at: dict[str, int] = {}

    def __call__(self, loader: LoaderFactory, pace: Pace) -> ElementBlock:
        """Advance the clock; the time of the block is its number."""
        side = name_side(loader)
        self.order.append(side)
        self.asked.append(pace)
        self._clock.sleep(self._block_s)
        if self.order.count(side) == self.fails_at.get(side):
            raise ValueError(f"{side} broke")
        return ElementBlock(float(len(self.order)), 0.0, 1.0, self.load_s, self.ended)


def test_blocks_alternate(clock: FakeClock) -> None:
    """After a block that warms the machine up, rounds run there and back."""
    script = Script(clock)
    compared = VariantComparison(factory, clock, 60.0, script).compare([CALM, SMALL], 1.0)
    there = ["A", "calm", "small"]
    assert script.order == ["A", *(there + there[::-1]) * 3]
    assert [block.s_per_element for block in compared[CALM].before] == [2, 7, 8, 13, 14, 19]
    assert [block.s_per_element for block in compared[CALM].after] == [3, 6, 9, 12, 15, 18]
    assert [block.s_per_element for block in compared[SMALL].after] == [4, 5, 10, 11, 16, 17]
    block_s = 60.0 / 12 / 3
    assert script.asked == [Pace(block_s, from_start=True), *[Pace(block_s)] * 18]


@pytest.mark.parametrize(("load_s", "step_s"), [(0.007, 0.007), (0.0, 0.001)])
def test_both_sides_have_the_same_pace(clock: FakeClock, load_s: float, step_s: float) -> None:
    """A step lasts as long as a batch, at least 1 ms; short data are compared by whole epochs."""
    script = Script(clock)
    script.load_s = load_s
    compared = VariantComparison(factory, clock, 60.0, script).compare([CALM], 1.0, stepping=True)
    assert set(script.asked[1:]) == {Pace(2.5, step_s)} == {compared[CALM].pace}
    script = Script(clock)
    script.ended = True
    VariantComparison(factory, clock, 60.0, script).compare([CALM], 1.0)
    assert set(script.asked[1:]) == {Pace(inf, from_start=True)}


def test_a_block_that_does_not_end_gives_its_reason(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message gives the limit and the flag that raises it."""

    def abandon(_work: object, _limit_s: float) -> ElementBlock:
        raise HangError("abandoned")

    monkeypatch.setattr(variant_comparison, "call_within", abandon)
    compared = VariantComparison(factory, clock, 1.0, Script(clock)).compare([CALM], 1.0)
    assert re.search("block of batches .* 6 s .* --budget", compared[CALM].failure)


def test_rounds_keep_to_the_share_of_the_time(clock: FakeClock) -> None:
    """Three rounds, which an interval needs, may take more while there is time at all."""
    script = Script(clock, block_s=1.0)
    compared = VariantComparison(factory, clock, 20.0, script).compare([CALM], 0.5)
    assert len(compared[CALM].after) == 4
    assert clock() == 9.0
    comparison = VariantComparison(factory, clock, 20.0, script)
    assert len(comparison.compare([CALM], 0.1)[CALM].after) == 3
    assert len(comparison.compare([SMALL], 0.1)[SMALL].after) == 3
    assert len(comparison.compare([SMALL], 1.0)[SMALL].after) == 2


def test_a_variant_that_fails_is_left_out(clock: FakeClock) -> None:
    """The other variants continue, and the exception of the failed one is kept."""
    script = Script(clock)
    script.fails_at["calm"] = 2
    compared = VariantComparison(factory, clock, 60.0, script).compare([CALM, SMALL], 1.0)
    assert compared[CALM].failure == "ValueError: calm broke"
    assert len(compared[CALM].before) == len(compared[CALM].after) == 1
    assert (compared[SMALL].failure, len(compared[SMALL].after)) == ("", 6)


@pytest.mark.parametrize("fails_at", [1, 3])
def test_nothing_runs_without_two_sides(clock: FakeClock, fails_at: int) -> None:
    """A failure of the unchanged pipeline ends all; a variant that cannot be built, its round."""
    script = Script(clock)
    script.fails_at["A"] = fails_at
    compared = VariantComparison(factory, clock, 60.0, script).compare([CALM, SMALL], 1.0)
    assert {blocks.failure for blocks in compared.values()} == {"ValueError: A broke"}
    assert script.order.count("A") == fails_at
    script = Script(clock)
    made = factory()
    compared = VariantComparison(lambda: made, clock, 60.0, script).compare([CALM], 1.0)
    assert "to_iter_dataset" in compared[CALM].failure
    assert script.order == ["A", "A"]


# ---- A block


@pytest.fixture
def _one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loader without workers, that uses 3 s of CPU time between one reading and the next."""
    always = iter(lambda: 3.0, None)
    monkeypatch.setattr(loader_puller, "ProcessTree", lambda **_: FakeProcesses(use_s=always))
    monkeypatch.setattr(variant_comparison, "ProcessTree", lambda: FakeProcesses(use_s=[6.0]))
    monkeypatch.setattr(FakeProcesses, "worker_pids", (), raising=False)


def paced(clock: FakeClock, gaps_s: Iterator[float], elements: int) -> LoaderFactory:
    """A factory of batches of `elements` elements, each after a gap."""

    def batches() -> Iterator[Any]:
        for gap_s in gaps_s:
            clock.sleep(gap_s)
            yield {"x": np.zeros((elements, 2))}

    return batches


@pytest.mark.usefixtures("_one_process")
def test_a_block_is_timed_per_element(clock: FakeClock) -> None:
    """The times are per element; a slow first batch and batches made ahead do not count."""
    block = measure_block(paced(clock, (0.5 for _ in count()), 4), Pace(5.0), clock)
    assert block == ElementBlock(0.125, 3.0 / 10 / 4, 4.0)
    gaps_s = [30.0, *[0.0] * 20, *[0.5] * 100]
    assert measure_block(paced(clock, iter(gaps_s), 1), Pace(10.0), clock).s_per_element == 0.5
    # Loading that waits for the trainer takes its time besides the step.
    slow = paced(clock, iter([0.25] * 1000), 2)
    assert measure_block(slow, Pace(20.0, step_s=0.75), clock).s_per_element == 0.5


@pytest.mark.usefixtures("_one_process")
def test_a_block_closes_its_loader(clock: FakeClock) -> None:
    """No iterator outlives its block, whether it was timed or failed."""
    closed = []

    def batches(last: int) -> Iterator[Any]:
        try:
            for _ in range(last):
                clock.sleep(0.5)
                yield np.zeros(1)
            raise ValueError("broken")
        finally:
            closed.append(last)

    measure_block(lambda: batches(1000), Pace(2.0), clock)
    with pytest.raises(Exception, match="broken"):
        measure_block(lambda: batches(3), Pace(2.0), clock)
    assert closed == [1000, 3]


@pytest.mark.usefixtures("_one_process")
@pytest.mark.parametrize("pace", [Pace(2.0), Pace(2.0, 0.1), Pace(2.0, from_start=True)])
def test_a_block_is_there_before_its_loader_is_closed(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch, pace: Pace
) -> None:
    """Workers that never stop do not discard the measurement."""
    monkeypatch.setattr(loader_puller, "_CLOSE_TIMEOUT_S", 0.0)
    over = Event()

    def batches() -> Iterator[Any]:
        try:
            while True:
                clock.sleep(0.5)
                yield np.zeros(1)
        finally:
            assert over.wait(AMPLE_S)

    assert measure_block(batches, pace, clock).elements_per_batch == 1
    over.set()


@pytest.mark.usefixtures("_one_process")
def test_an_epoch_is_timed_from_its_start(clock: FakeClock) -> None:
    """The start of a loader counts, and no second epoch is begun."""
    gaps_s = [3.0, 0.5, 0.5, 0.5]
    block = measure_block(paced(clock, iter(gaps_s), 2), Pace(inf, 0.0, from_start=True), clock)
    assert (block.s_per_element, block.load_s_per_batch, block.ended) == (4.5 / 8, 0.5, True)
    look = measure_block(paced(clock, iter(gaps_s), 2), Pace(0.2, 0.0, from_start=True), clock)
    assert (look.s_per_element, look.ended) == (3.5 / 4, False)
    with pytest.raises(MisuseError, match="gave no batch"):
        measure_block(paced(clock, iter([]), 1), Pace(1.0, 0.0, from_start=True), clock)


def test_without_time_for_all_only_the_most_severe_is_measured(clock: FakeClock) -> None:
    """A pipeline that starts slowly leaves time for one variant: the others are skipped."""
    script, reported = Script(clock, block_s=6.0), list[str]()
    comparison = VariantComparison(factory, clock, 25.0, script, reported.append)
    compared = comparison.compare([CALM, SMALL], 1.0)
    assert script.order == ["A", "A", "calm"]
    assert len(compared[CALM].before) == len(compared[CALM].after) == 1
    assert compared[CALM].failure == ""
    assert re.match("skipped .* 6 s, .* --budget .* 60 s", compared[SMALL].failure)
    waiting, measuring = reported
    assert "first batches" in waiting
    assert "1 of 2 proposals" in measuring


def test_nothing_is_begun_when_the_budget_is_over(clock: FakeClock) -> None:
    """A failed variant is skipped in the round and in later comparisons, with its reason."""
    script = Script(clock, block_s=20.0)
    comparison = VariantComparison(factory, clock, 25.0, script)
    assert "200 s" in comparison.compare([CALM, SMALL], 0.5)[CALM].failure
    assert script.order == ["A", "A"]
    assert "skipped" in comparison.compare([CALM], 1.0)[CALM].failure
    assert script.order == ["A", "A"]


def test_a_round_that_the_budget_cuts_off_takes_nothing_back(clock: FakeClock) -> None:
    """Earlier measurements are kept; a failure with time left is reported instead."""

    class Late(Script):
        late_s = 100.0

        def __call__(self, loader: LoaderFactory, pace: Pace) -> ElementBlock:
            if self.order.count("calm") == 2 and name_side(loader) == "calm":
                clock.sleep(self.late_s)
                raise ValueError("broke late")
            return super().__call__(loader, pace)

    for late_s, failure in ((100.0, ""), (0.5, "ValueError: broke late")):
        script = Late(clock, block_s=1.0)
        script.late_s = late_s
        compared = VariantComparison(factory, clock, 10.0, script).compare([CALM], 1.0)[CALM]
        assert (compared.failure, len(compared.after)) == (failure, 2)
