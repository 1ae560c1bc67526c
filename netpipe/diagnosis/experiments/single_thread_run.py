"""Measures a loader in one thread: its stages, and its scaling to a second thread or process.

The scaling is measured in turns with the plain single-thread run. Times exclude waiting for a core
that another program used.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, cast

from netpipe.diagnosis.diagnosis import clear_factor
from netpipe.diagnosis.experiments.pulling_threads import (
    Block,
    FirstLook,
    PullingThread,
    measure_block,
    measure_cold_block,
)
from netpipe.diagnosis.experiments.read_scaling import ReadScaling, measure_read_scaling
from netpipe.diagnosis.experiments.second_process import SecondProcess
from netpipe.diagnosis.experiments.stage_times import StageTime, measure_stage_times
from netpipe.diagnosis.experiments.turns import (
    MIN_ROUNDS,
    MeasureSide,
    Schedule,
    Side,
    SideBlocks,
    TimeSlot,
    measure_in_turns,
    note_failure,
    require_side,
)
from netpipe.grain_access.loader_variants import KEPT, OneThread, without_stage
from netpipe.grain_access.nodes import Graph
from netpipe.jobs.bounded_calls import call_within
from netpipe.jobs.heartbeat import Watch
from netpipe.jobs.targets import Target
from netpipe.measuring.loader_puller import LoaderFactory

END_FRACTION: Final = 0.6
"""Fraction of the longest duration by which stages and scaling end; later parts need the rest."""

_STAGES_FRACTION: Final = 0.08
_SCALING_FRACTION: Final = 0.25
_READS_FRACTION: Final = 0.20
_MIN_WAITING_FRACTION: Final = 0.5
_ROUNDS: Final = 5
_MIN_BLOCK_S: Final = 0.2
_MIN_BATCHES: Final = 4
_WITH_WARM_UP: Final = 1.25


Measured = tuple[tuple[StageTime, ...], ReadScaling | None, SideBlocks]
"""The stages of a single-thread run (the largest first), reads if they wait, and scaling."""


@dataclass(frozen=True)
class SingleThreadRun:
    """The single-thread run of a loader.

    `target` and `graph` belong to the unmodified loader, and so does `loader` unless `is_rebuilt`.
    """

    loader: LoaderFactory
    target: Target
    graph: Graph
    is_rebuilt: bool
    look: FirstLook
    schedule: Schedule
    watch: Watch
    remarks: list[str]

    def measure(self) -> Measured:
        """Measure the stages, the reads if they wait, and the scaling.

        Raises:
            SessionError: The run failed.
        """
        times = self.stage_times()
        return times, self.measure_reads(times), self.measure_scaling(times)

    def stage_times(self) -> tuple[StageTime, ...]:
        """Return the stages, the largest first; none if they cannot be timed."""
        slot = self.schedule.slot(_STAGES_FRACTION, END_FRACTION)
        measure = partial(
            measure_stage_times, self.loader, self.graph, slot.budget_s, slot.clock, self.watch
        )
        times = list[StageTime]()
        with note_failure(self.remarks, "the stages could not be timed"):
            # Leave time to start again for the scaling, which everything is compared with.
            slot.require(2 * self.look.start_s + _MIN_BATCHES * self.look.batch_s)
            times += call_within(measure, slot.remaining_s()) if self.is_rebuilt else measure()
        return tuple(times)

    def measure_scaling(self, times: tuple[StageTime, ...]) -> SideBlocks:
        """Return blocks of the run alone, with a second thread or process, and without a stage.

        Raises:
            SessionError: The run failed.
        """
        slot, ablated = self.schedule.slot(_SCALING_FRACTION, END_FRACTION), None
        node = times[0].single_thread_node if self.is_rebuilt and times else None
        if node is not None:
            with note_failure(self.remarks, f"{times[0].name} could not be left out"):
                ablated = without_stage(self.loader, node)
        share_s = slot.budget_s / (_ROUNDS * (4 if ablated else 3) * _WITH_WARM_UP)
        wanted_s = max(_MIN_BLOCK_S, _MIN_BATCHES * self.look.batch_s, share_s)
        fitting_s = slot.remaining_s() / (MIN_ROUNDS * _WITH_WARM_UP)
        block_s = min(wanted_s, max(_MIN_BLOCK_S, fitting_s))
        watched = "" if self.is_rebuilt else Side.SINGLE_THREAD
        progress = self.schedule.progress("single-thread runs")
        with ExitStack() as stack:
            sides = self._start_sides(stack, slot, block_s, ablated)
            turns = measure_in_turns(sides, slot, progress, _WITH_WARM_UP * block_s, watched)
        return drop_costly_ablation(require_side(Side.SINGLE_THREAD, turns))

    def measure_reads(self, times: Sequence[StageTime]) -> ReadScaling | None:
        """Return how reading scales with reader threads, if reading waits and can be measured."""
        reading = [time for time in times if time.node and time.node.random_access]
        waiting_s = sum(time.s_per_batch - time.cpu_s_per_batch for time in reading)
        whole_s = sum(time.s_per_batch for time in times)
        if not self.is_rebuilt or waiting_s < _MIN_WAITING_FRACTION * whole_s or not whole_s:
            return None
        with note_failure(self.remarks, "reads at the same time could not be measured"):
            slot = self.schedule.slot(_READS_FRACTION, END_FRACTION)
            # Measure again, because stage times may include waits for a core.
            with self._start(self.loader, slot) as puller:
                block = measure_cold_block([puller], _MIN_BLOCK_S)
            if block.cpu_s_per_batch < (1 - _MIN_WAITING_FRACTION) * block.s_per_batch:
                dataset = cast("OneThread", self.loader()).dataset
                measure = partial(measure_read_scaling, dataset, times, slot)
                return call_within(measure, slot.remaining_s())
        return None

    def _start(self, loader: LoaderFactory, slot: TimeSlot) -> closing[PullingThread]:
        thread = PullingThread(loader, slot.clock, self.watch, slot.until_s, undelayed=True)
        return closing(thread)

    def _start_sides(
        self, stack: ExitStack, slot: TimeSlot, block_s: float, ablated: LoaderFactory | None
    ) -> dict[str, MeasureSide]:
        def start_second_thread() -> MeasureSide:
            second = stack.enter_context(self._start(self.loader, slot))
            return partial(measure_block, [puller, second], block_s)

        def start_second_process() -> MeasureSide:
            second = stack.enter_context(SecondProcess(self.target, slot.remaining_s() / 2))
            return partial(pull_beside, puller, second, block_s)

        def start_without_stage(loader: LoaderFactory) -> MeasureSide:
            other = stack.enter_context(self._start(loader, slot))
            other.start_pulling(0.0, least=KEPT)()
            return partial(measure_block, [other], block_s)

        started_s = slot.clock()
        puller = stack.enter_context(self._start(self.loader, slot))
        # The cost of one more side: its start and the minimum number of rounds.
        cost_s = slot.clock() - started_s + MIN_ROUNDS * _WITH_WARM_UP * block_s
        starts: dict[str, Callable[[], MeasureSide]] = {
            Side.TWO_THREADS: start_second_thread,
            Side.TWO_PROCESSES: start_second_process,
        }
        if ablated is not None:
            starts[Side.WITHOUT_STAGE] = partial(start_without_stage, ablated)
        sides = {side: _prepare(slot, cost_s, start) for side, start in starts.items()}
        return {Side.SINGLE_THREAD: partial(measure_block, [puller], block_s), **sides}


def drop_costly_ablation(scaling: SideBlocks) -> SideBlocks:
    """Drop the run without a stage if copying the stage's results slows it down."""
    if not scaling.has(Side.WITHOUT_STAGE):
        return scaling
    speedup = scaling.speedup(Side.WITHOUT_STAGE, Side.SINGLE_THREAD)
    if speedup.median > 1 or not clear_factor(speedup):
        return scaling
    kept = {side: blocks for side, blocks in scaling.blocks.items() if side != Side.WITHOUT_STAGE}
    why = "copying what the stage returns takes longer than the stage"
    return SideBlocks(kept, {**scaling.failures, Side.WITHOUT_STAGE: why})


def _prepare(slot: TimeSlot, cost_s: float, start: Callable[[], MeasureSide]) -> MeasureSide:
    """Return a started side. If it fails to start, measuring this side raises the error."""
    try:
        slot.require(cost_s)
        return start()
    except Exception as error:  # noqa: BLE001  # the user's code may raise anything
        failure = error

    def fail() -> Block:
        raise failure

    return fail


def pull_beside(puller: PullingThread, second: SecondProcess, min_s: float) -> Block:
    """Return a block with the added rates of both processes, and the CPU time of this process."""
    wait = second.start_pulling(_WITH_WARM_UP * min_s)
    own, other = measure_block([puller], min_s), wait()
    rate = 1 / own.s_per_batch + other.batches / other.wall_s
    return replace(own, s_per_batch=1 / rate)
