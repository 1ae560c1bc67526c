"""The loader in one thread: its stage times, how it scales to a second thread or process, its disk.

Each measurement is in turns with the plain single-thread run. Times are without what the thread
waited for a core that another program had.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from netpipe.diagnosis.blocks import Block, FirstLook, PullingThread, measure_block
from netpipe.diagnosis.diagnosis import Intervention, clear_factor
from netpipe.diagnosis.interventions import (
    CACHED,
    SINGLE_THREAD,
    TWO_PROCESSES,
    TWO_THREADS,
    WITHOUT_STAGE,
    disk_intervention,
)
from netpipe.diagnosis.page_cache import compare_disk_with_cache
from netpipe.diagnosis.schedule import Schedule, TimeSlot
from netpipe.diagnosis.second_process import SecondProcess
from netpipe.diagnosis.stage_ablation import KEPT, without_stage
from netpipe.diagnosis.stage_times import StageTime, measure_stage_times
from netpipe.diagnosis.turns import (
    MIN_ROUNDS,
    Side,
    SideBlocks,
    describe_error,
    measure_in_turns,
    require_side,
)
from netpipe.linting.graph.nodes import Graph
from netpipe.measuring.loader_puller import LoaderFactory
from netpipe.session.bounded_calls import call_within
from netpipe.session.heartbeat import UNWATCHED, Watch

END_FRACTION: Final = 0.6
"""Of the longest duration, when stages and scaling must end: what comes later needs the rest."""

_STAGES_FRACTION: Final = 0.08
_SCALING_FRACTION: Final = 0.25
_DISK_FRACTION: Final = 0.10
_ROUNDS: Final = 5
_MIN_BLOCK_S: Final = 0.2
_MIN_BATCHES: Final = 4
_WITH_WARM_UP: Final = 1.25


@dataclass(frozen=True)
class SingleThreadRun:
    """The single-thread run of a loader, made by `loader`.

    `target` and `graph` are those of the unmodified loader; so is `loader` unless `is_rebuilt`.
    """

    loader: LoaderFactory
    target: str
    graph: Graph
    is_rebuilt: bool
    look: FirstLook
    schedule: Schedule
    watch: Watch
    remarks: list[str]

    def stage_times(self) -> tuple[StageTime, ...]:
        """Return the stages, the largest first; none if they cannot be timed."""
        try:
            slot = self.schedule.slot(_STAGES_FRACTION, END_FRACTION)
            # The loader is started once more afterwards, for what everything is compared with.
            slot.require(2 * self.look.start_s + _MIN_BATCHES * self.look.batch_s)
            measure = partial(
                measure_stage_times,
                *(self.loader, self.graph, slot.budget_s, slot.clock, self._own_watch),
            )
            return call_within(measure, slot.remaining_s()) if self.is_rebuilt else measure()
        except Exception as error:  # noqa: BLE001  # a failure of ours costs only this part
            self.remarks.append(f"the stages could not be timed: {describe_error(error)}")
            return ()

    def measure_scaling(self, times: tuple[StageTime, ...]) -> SideBlocks:
        """Return the run in turns with two at once, in two ways, and with one without a stage.

        Raises:
            SessionError: The run failed.
        """
        slot = self.schedule.slot(_SCALING_FRACTION, END_FRACTION)
        ablated = self._without_largest(times)
        with ExitStack() as stack:
            sides, block_s = self._scaling_sides(stack, slot, ablated)
            watched = "" if self.is_rebuilt else SINGLE_THREAD
            progress = self.schedule.progress("single-thread runs")
            turns = measure_in_turns(sides, slot, progress, _WITH_WARM_UP * block_s, watched)
        return drop_costly_ablation(require_side(SINGLE_THREAD, turns.undelayed()))

    def disk(self) -> Intervention:
        """Return what cached bytes give."""
        try:
            slot = self.schedule.slot(_DISK_FRACTION)
            slot.require(2 * MIN_ROUNDS * (self.look.start_s + self.look.batch_s))
            turns = compare_disk_with_cache(
                *(self.loader, slot, self.look.batch_s, self._own_watch),
                self.schedule.progress("disk"),
            )
        except Exception as error:  # noqa: BLE001  # a failure of ours costs only this part
            turns = SideBlocks((), {CACHED: describe_error(error)})
        return disk_intervention(turns)

    def _without_largest(self, times: tuple[StageTime, ...]) -> LoaderFactory | None:
        node = times[0].single_thread_node if self.is_rebuilt and times else None
        try:
            return None if node is None else without_stage(self.loader, node)
        except Exception as error:  # noqa: BLE001  # a failure of ours costs only this part
            self.remarks.append(f"{times[0].name} could not be left out: {describe_error(error)}")
            return None

    def _scaling_sides(
        self, stack: ExitStack, slot: TimeSlot, ablated: LoaderFactory | None
    ) -> tuple[dict[str, Side], float]:
        def start(loader: LoaderFactory) -> PullingThread:
            puller = PullingThread(loader, slot.clock, self._own_watch, slot.until_s)
            stack.callback(puller.close)
            return puller

        def start_without_stage(loader: LoaderFactory) -> Side:
            puller = start(loader)
            puller.start_pulling(0.0, least=KEPT)()
            return partial(measure_block, [puller], block_s)

        def start_second_process() -> Side:
            second = stack.enter_context(SecondProcess(self.target, slot.remaining_s() / 2))
            return partial(pull_beside, puller, second, block_s)

        block_s = self._block_s(slot, sides=3 + (ablated is not None))
        started_s = slot.clock()
        puller = start(self.loader)
        # The cost of one more run, until it has been measured in the least rounds.
        cost_s = slot.clock() - started_s + MIN_ROUNDS * _WITH_WARM_UP * block_s
        prepare = partial(_prepare, slot, cost_s)
        sides: dict[str, Side] = {
            SINGLE_THREAD: partial(measure_block, [puller], block_s),
            TWO_THREADS: prepare(
                lambda: partial(measure_block, [puller, start(self.loader)], block_s)
            ),
            TWO_PROCESSES: prepare(start_second_process),
        }
        if ablated is not None:
            sides[WITHOUT_STAGE] = prepare(partial(start_without_stage, ablated))
        return sides, block_s

    def _block_s(self, slot: TimeSlot, sides: int) -> float:
        share_s = slot.budget_s / (_ROUNDS * sides * _WITH_WARM_UP)
        wanted_s = max(_MIN_BLOCK_S, _MIN_BATCHES * self.look.batch_s, share_s)
        fitting_s = slot.remaining_s() / (MIN_ROUNDS * _WITH_WARM_UP)
        return min(wanted_s, max(_MIN_BLOCK_S, fitting_s))

    @property
    def _own_watch(self) -> Watch:
        # The watchdog would report a variant that hangs as a loader that hangs.
        return UNWATCHED if self.is_rebuilt else self.watch


def drop_costly_ablation(scaling: SideBlocks) -> SideBlocks:
    """Drop the run without a stage if copying the stage's results slows it down."""
    if not scaling.has(WITHOUT_STAGE):
        return scaling
    speedup = scaling.speedup(WITHOUT_STAGE, SINGLE_THREAD)
    if speedup.median > 1 or not clear_factor(speedup):
        return scaling
    why = "copying what the stage returns takes longer than the stage"
    return scaling.without_side(WITHOUT_STAGE, why)


def _prepare(slot: TimeSlot, cost_s: float, start: Callable[[], Side]) -> Side:
    """Return a side; if it cannot be started, that side fails and the others do not."""
    try:
        slot.require(cost_s)
        return start()
    except Exception as error:  # noqa: BLE001  # the user's code may raise anything
        failure = error

    def fail() -> Block:
        raise failure

    return fail


def pull_beside(puller: PullingThread, second: SecondProcess, min_s: float) -> Block:
    """Return a block of this process's batches and another process's together.

    The CPU seconds are those of this process's own batches.
    """
    wait = second.start_pulling(_WITH_WARM_UP * min_s)
    own, other = measure_block([puller], min_s), wait()
    return replace(
        own,
        s_per_batch=1 / (1 / own.s_per_batch + other.batches / other.wall_s),
        undelayed_s_per_batch=1
        / (1 / own.undelayed_s_per_batch + other.batches / other.undelayed_s),
    )
