"""Compares variants of a pipeline by blocks of batches, timed in turns within one run.

Each block has its own iterator, so that no buffer of one side fills while another side is timed.
The first part of each block is discarded.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf
from statistics import median
from typing import Any, Final

from netpipe.clock import Clock
from netpipe.errors import HangError, MisuseError
from netpipe.grain_access.dataset_variants import Variant, build_variant, open_iterator
from netpipe.jobs.bounded_calls import call_within, summarize_error
from netpipe.jobs.processes import ProcessTree
from netpipe.jobs.targets import LoaderFactory
from netpipe.linting.experiments.loader_runs import element_count
from netpipe.measuring.interleaving import MIN_ROUNDS, Interleaved, interleave
from netpipe.measuring.loader_puller import Puller, close_with_timeout

UNCHANGED: Final = Variant()
NO_TIME: Final = "skipped for lack of time"

# Warm-up as a fraction of the block: batches that workers made ahead take no time.
_WARM_UP_FRACTION: Final = 0.3
_MIN_STEPS: Final = 4
_MAX_ROUNDS: Final = 6
# Starting and ending loaders takes the other half of a side's time.
_BLOCK_FRACTION: Final = 1 / 12
# A block that begins in time may end this much late, because its workers must start.
_GRACE_S: Final = 5.0
# Sleeping is not exact enough for a shorter step.
_MIN_STEP_S: Final = 1e-3


@dataclass(frozen=True)
class ElementBlock:
    """The cost of a block per element, because a fix may change the batch size.

    Attributes:
        load_s_per_batch: The median wait for a batch; 0 unless the block is timed from its start.
    """

    s_per_element: float
    cpu_s_per_element: float
    elements_per_batch: float
    load_s_per_batch: float = 0.0
    ended: bool = False


@dataclass(frozen=True)
class Pace:
    """How a block is pulled.

    Attributes:
        block_s: The minimum time to measure, from the first batch on.
        step_s: Seconds from a batch to the request for the next; 0: full speed.
        from_start: Whether the start of the loader counts too, and the block ends with the data.
    """

    block_s: float
    step_s: float = 0.0
    from_start: bool = False


MeasureBlock = Callable[[LoaderFactory, Pace], ElementBlock]
"""Starts a loader and measures one block."""


def measure_block(loader: LoaderFactory, pace: Pace, clock: Clock) -> ElementBlock:
    """Start a loader, and return the cost of a block of its batches."""
    if pace.from_start:
        return _measure_from_start(loader, pace, clock)
    counts: list[int] = []
    puller = Puller(lambda: _count_elements(loader, counts), clock)
    try:
        # Warm-up: the first workers made batches ahead while the last workers started.
        _pull(puller, clock, _WARM_UP_FRACTION * pace.block_s, pace.step_s)
        s_per_batch, cpu_s_per_batch = _pull(puller, clock, pace.block_s, pace.step_s)
    finally:
        close_with_timeout(puller.close)
    elements = sum(counts) / puller.pulled
    return ElementBlock(s_per_batch / elements, cpu_s_per_batch / elements, elements)


def _pull(puller: Puller, clock: Clock, enough_s: float, step_s: float) -> tuple[float, float]:
    """Pull like a trainer with a step; return the wall and CPU seconds per batch."""
    if not step_s:
        pulled = puller.pull_flat_out(enough_s, whole_bursts=True)
        return pulled.s_per_batch, pulled.cpu_s_per_batch
    started_s, cpu_s = clock(), puller.processes.cpu_s()
    wall_s, batches = 0.0, 0
    while batches < _MIN_STEPS or clock() - started_s < enough_s:
        step_started_s = clock()
        clock.sleep(step_s)
        wall_s += clock() - step_started_s + puller.pull()[1]
        batches += 1
    return wall_s / batches, (puller.processes.cpu_s() - cpu_s) / batches


def _measure_from_start(loader: LoaderFactory, pace: Pace, clock: Clock) -> ElementBlock:
    """Return the cost from the call of the factory to the end of the data or of the block."""
    counts: list[int] = []
    waits_s: list[float] = []
    ended = False
    started_s, cpu_s = clock(), ProcessTree().cpu_s()
    first_s = end_s = started_s
    batches = _count_elements(loader, counts)
    try:
        for _ in batches:
            waits_s.append(clock() - end_s)
            first_s = clock() if len(waits_s) == 1 else first_s
            clock.sleep(pace.step_s)
            end_s = clock()
            if end_s - first_s >= pace.block_s:
                break
        else:
            ended = True
        # Read this before closing the loader: the CPU time of ended workers is unknown.
        cpu_s = ProcessTree().cpu_s() - cpu_s
    finally:
        close_with_timeout(batches.close)
    if not waits_s:
        raise MisuseError("loader() gave no batch: it must give at least one")
    elements = sum(counts)
    return ElementBlock(
        s_per_element=(end_s - started_s) / elements,
        cpu_s_per_element=cpu_s / elements,
        elements_per_batch=elements / len(waits_s),
        load_s_per_batch=median(waits_s),
        ended=ended,
    )


def _count_elements(loader: LoaderFactory, counts: list[int]) -> Generator[Any, None, None]:
    """Yield a loader's batches; append the number of elements of each to `counts`."""
    with open_iterator(loader()) as batches:
        for batch in batches:
            counts.append(element_count(batch))
            yield batch


_Rounds = Interleaved[Variant, ElementBlock]


@dataclass(frozen=True)
class VariantBlocks:
    """Blocks of the unchanged pipeline and of a variant, paired by round.

    `failure` is the reason why there are no more blocks, or none; "" if nothing failed.
    """

    before: tuple[ElementBlock, ...]
    after: tuple[ElementBlock, ...]
    failure: str = ""
    pace: Pace = Pace(0.0)


@dataclass
class VariantComparison:
    """Compares variants of one pipeline within one budget, which starts at construction.

    The loader factory is called again for each block, and `report_progress` for each phase.
    """

    loader: LoaderFactory
    clock: Clock
    budget_s: float
    measure: MeasureBlock
    report_progress: Callable[[str], object] = lambda _: None

    def __post_init__(self) -> None:
        self._ends_s = self.clock() + self.budget_s

    def compare(
        self, variants: Sequence[Variant], fraction: float, stepping: bool = False
    ) -> Mapping[Variant, VariantBlocks]:
        """Measure rounds, each with one block of every variant and one of the unchanged pipeline.

        No block begins once the budget is used up, and a running one is abandoned soon after. A
        variant that failed is left out of later rounds.

        Args:
            variants: The most important first: the last are skipped if time is short.
            fraction: Share of the remaining time to spend; `MIN_ROUNDS` may take more.
            stepping: Whether to pull beside a step as long as a batch of the unchanged pipeline;
                otherwise at full speed.
        """
        began_s, ours_s = self.clock(), fraction * self._left_s()
        # Warm-up: the first read of a file comes from the disk.
        self.report_progress("waiting for the first batches of the pipeline as it is")
        probe_pace = Pace(_BLOCK_FRACTION * ours_s / (1 + len(variants)), from_start=True)
        probe = self._interleave([UNCHANGED], probe_pace, 1, self._ends_s)
        if not probe.results(UNCHANGED):
            return {variant: _pair(probe, variant, probe_pace, NO_TIME) for variant in variants}
        (first,) = probe.results(UNCHANGED)
        step_s = max(_MIN_STEP_S, first.load_s_per_batch) if stepping else 0.0
        # Compare whole epochs if the data are so short that restarts would dominate a block.
        pace = Pace(inf if first.ended else probe_pace.block_s, step_s, first.ended)
        # Assume that a block takes as long as the probe.
        probe_s = self.clock() - began_s
        affordable = int(self._left_s() / max(1e-9, MIN_ROUNDS * probe_s)) - 1
        chosen = variants[: max(1, affordable)]
        self.report_progress(
            f"measuring {len(chosen)} of {len(variants)} proposals, the most severe first"
        )
        done = self._interleave([UNCHANGED, *chosen], pace, _MAX_ROUNDS, began_s + ours_s)
        needed_s = probe_s * (1 + MIN_ROUNDS * (1 + len(variants)))
        no_time = (
            f"{NO_TIME}: starting the pipeline for a few batches takes {probe_s:.3g} s,"
            f" so a --budget of about {ceil(needed_s)} s is needed"
        )
        return {variant: _pair(done, variant, pace, no_time) for variant in variants}

    def _interleave(
        self, sides: Sequence[Variant], pace: Pace, max_rounds: int, ends_s: float
    ) -> _Rounds:
        def wants_round(done: _Rounds) -> bool:
            limit_s = ends_s if len(done.rounds) >= MIN_ROUNDS else self._ends_s
            return (
                len(done.rounds) < max_rounds
                and self._left_s() > 0
                and self.clock() + done.longest_round_s <= limit_s
                and UNCHANGED not in done.failures
                and len(done.failures) < max(1, len(sides) - 1)
            )

        return interleave(
            sides,
            lambda side: self._measure_side(side, pace),
            wants_round,
            clock=self.clock,
            until_s=self._ends_s,
            describe_error=summarize_error,
        )

    def _measure_side(self, side: Variant, pace: Pace) -> ElementBlock:
        limit_s = self._left_s() + _GRACE_S
        try:
            return call_within(
                lambda: self.measure(lambda: build_variant(self.loader, side), pace), limit_s
            )
        except HangError as error:
            raise HangError(
                f"a block of batches took longer than the {limit_s:.0f} s that were left: it is"
                " slow and needs a longer --budget, or it hangs"
            ) from error

    def _left_s(self) -> float:
        return max(0.0, self._ends_s - self.clock())


def _pair(done: _Rounds, variant: Variant, pace: Pace, no_time: str) -> VariantBlocks:
    """Return the blocks of the rounds in which a variant and the unchanged pipeline were timed."""
    rounds = [blocks for blocks in done.rounds if UNCHANGED in blocks and variant in blocks]
    failure = done.failures.get(UNCHANGED) or done.failures.get(variant, "")
    return VariantBlocks(
        before=tuple(blocks[UNCHANGED] for blocks in rounds),
        after=tuple(blocks[variant] for blocks in rounds),
        failure=failure or ("" if rounds else no_time),
        pace=pace,
    )
