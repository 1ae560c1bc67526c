"""A loader in one thread: what its stages take, lanes of it beside each other, and the disk."""

from dataclasses import dataclass
from functools import partial
from typing import Final

from netpipe.diagnosis.blocks import FirstLook
from netpipe.diagnosis.diagnosis import Intervention
from netpipe.diagnosis.interventions import of_the_disk
from netpipe.diagnosis.page_cache import CACHED, from_disk_and_cache
from netpipe.diagnosis.schedule import Schedule
from netpipe.diagnosis.stage_ablation import without_stage
from netpipe.diagnosis.stage_times import StageTime, stage_times
from netpipe.diagnosis.thread_scaling import LANE, lanes_in_turns
from netpipe.diagnosis.turns import MIN_ROUNDS, SideBlocks, describe_error, require_side
from netpipe.linting.graph.nodes import Graph
from netpipe.measuring.loader_puller import LoaderFactory
from netpipe.session.bounded_calls import call_within
from netpipe.session.heartbeat import UNWATCHED, Watch

UNTIL: Final = 0.6
"""Of the longest time, when stages and lanes must be over: what comes later needs the rest."""

# Of the budget.
_STAGES: Final = 0.08
_LANES: Final = 0.25
_DISK: Final = 0.10
_LEAST_BATCHES: Final = 4


@dataclass(frozen=True)
class SingleThread:
    """The single-thread run of a loader.

    Attributes:
        loader: Makes a lane.
        target: Names the factory of the loader, for another process to find it.
        graph: Of the loader as it is.
        is_rebuilt: Whether a lane is the pipeline without workers and threads; else it is the
            loader as it is.
        look: What a lane's first batches took.
        schedule: Gives each part its time.
        watch: Told of every wait for a batch of the loader as it is.
        remarks: Takes what could not be done.
    """

    loader: LoaderFactory
    target: str
    graph: Graph
    is_rebuilt: bool
    look: FirstLook
    schedule: Schedule
    watch: Watch
    remarks: list[str]

    def stages(self) -> tuple[StageTime, ...]:
        """Return what the stages take, the largest first; none where they cannot be timed."""
        try:
            time = self.schedule.part(_STAGES, UNTIL)
            # Another start follows, which all else is held against.
            time.require(2 * self.look.start_s + _LEAST_BATCHES * self.look.batch_s)
            timing = partial(
                stage_times, self.loader, self.graph, time.budget_s, time.clock, self._lane_watch
            )
            return call_within(timing, time.remaining_s()) if self.is_rebuilt else timing()
        except Exception as error:  # noqa: BLE001  # a failure of ours costs only this part
            self.remarks.append(f"the stages could not be timed: {describe_error(error)}")
            return ()

    def lanes(self, times: tuple[StageTime, ...]) -> SideBlocks:
        """Return one lane in turns with two, and with one without its largest stage.

        Raises:
            SessionError: A lane failed.
        """
        time = self.schedule.part(_LANES, UNTIL)
        say, batch_s = self.schedule.say("lanes"), self.look.batch_s
        absent = self._absent(times)
        lanes = lanes_in_turns(
            self.loader, self.target, absent, time, batch_s, self._lane_watch, say
        )
        return require_side(LANE, lanes)

    def disk(self) -> Intervention:
        """Return what bytes that are cached give."""
        try:
            time = self.schedule.part(_DISK)
            time.require(2 * MIN_ROUNDS * (self.look.start_s + self.look.batch_s))
            say = self.schedule.say("disk")
            turns = from_disk_and_cache(self.loader, time, self.look.batch_s, self._lane_watch, say)
        except Exception as error:  # noqa: BLE001  # a failure of ours costs only this part
            turns = SideBlocks((), {CACHED: describe_error(error)})
        return of_the_disk(turns)

    def _absent(self, times: tuple[StageTime, ...]) -> LoaderFactory | None:
        node = times[0].lane_node if self.is_rebuilt and times else None
        try:
            return None if node is None else without_stage(self.loader, node)
        except Exception as error:  # noqa: BLE001  # a failure of ours costs only this part
            self.remarks.append(f"{times[0].name} could not be left out: {describe_error(error)}")
            return None

    @property
    def _lane_watch(self) -> Watch:
        # The watchdog would call a variant that hangs a loader that hangs.
        return UNWATCHED if self.is_rebuilt else self.watch
