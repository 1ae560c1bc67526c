"""One lane of a loader, two as threads and two as processes, and one without a stage, in turns."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Final

from netpipe.diagnosis.blocks import Block, PullingThread, measure_block
from netpipe.diagnosis.diagnosis import clear_factor
from netpipe.diagnosis.schedule import TimeSlot
from netpipe.diagnosis.second_process import SecondProcess
from netpipe.diagnosis.stage_ablation import KEPT
from netpipe.diagnosis.turns import MIN_ROUNDS, Side, SideBlocks, measure_in_turns
from netpipe.measuring.loader_puller import LoaderFactory
from netpipe.session.heartbeat import UNWATCHED, Watch

LANE: Final = "lane"
TWO_THREADS: Final = "two-threads"
TWO_PROCESSES: Final = "two-processes"
WITHOUT_STAGE: Final = "without-stage"

_ROUNDS: Final = 5  # that the budget is meant for
_LEAST_BLOCK_S: Final = 0.2
_LEAST_BATCHES: Final = 4
_WARM_UP: Final = 1.25  # a block and its warm-up


def lanes_in_turns(
    loader: LoaderFactory,
    target: str,
    absent: LoaderFactory | None,
    time: TimeSlot,
    batch_s: float,
    watch: Watch,
    say: Callable[[int], None],
) -> SideBlocks:
    """Measure one lane, two at once in two ways, and one without a stage.

    Times are without what other programs took of the cores.

    Args:
        loader: Makes a lane.
        target: The loader's, which another process resolves for itself.
        absent: Makes a lane without a stage, if there is one to be left out.
        time: How long all may take.
        batch_s: About what a batch of a lane takes.
        watch: Told of every wait for a batch.
        say: Is told the number of each round.
    """
    block_s = max(
        _LEAST_BLOCK_S,
        _LEAST_BATCHES * batch_s,
        time.budget_s / (_ROUNDS * (3 + (absent is not None)) * _WARM_UP),
    )
    block_s = min(block_s, max(_LEAST_BLOCK_S, time.remaining_s() / (MIN_ROUNDS * _WARM_UP)))
    with ExitStack() as stack:
        start = partial(_lane, stack, time, watch)
        started = time.clock()
        lane = start(loader)
        # What one more lane takes, until it has been measured three times.
        cost_s = time.clock() - started + MIN_ROUNDS * _WARM_UP * block_s
        prepared = partial(_prepared, time, cost_s)
        sides: dict[str, Side] = {
            LANE: lambda: measure_block([lane], block_s),
            TWO_THREADS: prepared(lambda: partial(measure_block, [lane, start(loader)], block_s)),
            TWO_PROCESSES: prepared(lambda: _beside_another(stack, lane, target, time, block_s)),
        }
        if absent is not None:
            sides[WITHOUT_STAGE] = prepared(lambda: _without(start(absent), block_s))
        watched = LANE if watch is not UNWATCHED else ""
        turns = measure_in_turns(sides, time, say, _WARM_UP * block_s, watched).undelayed()
        return without_dear_copies(turns)


def without_dear_copies(turns: SideBlocks) -> SideBlocks:
    """Drop the lane without a stage where copies of what the stage returns slow it down."""
    if not turns.has(WITHOUT_STAGE):
        return turns
    speedup = turns.speedup(WITHOUT_STAGE, LANE)
    if speedup.median > 1 or not clear_factor(speedup):
        return turns
    return turns.without_side(
        WITHOUT_STAGE, "copying what the stage returns takes longer than the stage"
    )


def _lane(stack: ExitStack, time: TimeSlot, watch: Watch, loader: LoaderFactory) -> PullingThread:
    lane = PullingThread(loader, time.clock, watch, time.until_s)
    stack.callback(lane.close)
    return lane


def _prepared(time: TimeSlot, cost_s: float, prepare: Callable[[], Side]) -> Side:
    """Return a side; where it cannot be prepared, the side fails and the others do not."""
    try:
        time.require(cost_s)
        return prepare()
    except Exception as error:  # noqa: BLE001  # the user's code may raise anything
        return partial(_failed, error)


def _failed(error: Exception) -> Block:
    raise error


def _without(lane: PullingThread, enough_s: float) -> Side:
    lane.start_pulling(0.0, least=KEPT)()
    return lambda: measure_block([lane], enough_s)


def _beside_another(
    stack: ExitStack, lane: PullingThread, target: str, time: TimeSlot, enough_s: float
) -> Side:
    second = stack.enter_context(SecondProcess(target, time.remaining_s() / 2))
    return lambda: _beside(lane, second, enough_s)


def _beside(lane: PullingThread, second: SecondProcess, enough_s: float) -> Block:
    """Return what a batch takes of this process's lane and another process's together.

    The CPU seconds are of this process's own batches.
    """
    theirs = second.start_pulling(_WARM_UP * enough_s)
    own, other = measure_block([lane], enough_s), theirs()
    return replace(
        own,
        s_per_batch=1 / (1 / own.s_per_batch + other.batches / other.wall_s),
        undelayed_s_per_batch=1
        / (1 / own.undelayed_s_per_batch + other.batches / other.undelayed_s),
    )
