"""The loader as it is in turns with variants of it, one of which is the change that is tried."""

from dataclasses import dataclass
from functools import partial
from typing import Final

from netpipe.diagnosis.blocks import FirstLook, measure_fresh_block
from netpipe.diagnosis.diagnosis import Verification
from netpipe.diagnosis.interventions import AS_IT_IS, HALF_THE_CORES, ONE_WORKER, TINY_PAYLOAD
from netpipe.diagnosis.loader_variants import (
    on_half_the_cores,
    with_tiny_payload,
    with_workers,
    without_read_threads,
)
from netpipe.diagnosis.model_parts import workers_of
from netpipe.diagnosis.schedule import NO_TIME, Schedule, TimeSlot
from netpipe.diagnosis.stage_ablation import without_stage
from netpipe.diagnosis.stage_times import StageTime
from netpipe.diagnosis.turns import (
    MIN_ROUNDS,
    Side,
    SideBlocks,
    describe_error,
    measure_in_turns,
    require_side,
)
from netpipe.diagnosis.verification import verified
from netpipe.diagnosis.what_if import NO_THREADS, Change
from netpipe.linting.graph.nodes import Graph
from netpipe.measuring.loader_puller import LoaderFactory
from netpipe.results.measurement import Interval
from netpipe.session.heartbeat import UNWATCHED, Watch

_SHARE: Final = 0.32  # of the budget
_UNTIL: Final = 0.85  # of the longest time: trying a change still needs the rest
_VERIFYING: Final = 0.25  # of the budget
_LEAST_BLOCK_S: Final = 0.4
_LEAST_BATCHES: Final = 4
_ROUNDS: Final = 4
_WITH_WARM_UP: Final = 1.25  # a block and its warm-up


@dataclass(frozen=True)
class Whole:
    """The loader as it is, to be measured beside variants of it.

    Attributes:
        loader: Makes it.
        graph: Of it; empty if it is not Grain's.
        cores: That it may use.
        can_change: Whether variants of it can be built.
        look: What its first batches took, with room for the start of a variant's workers.
        schedule: Gives each part its time.
        watch: Told of every wait for a batch of the loader as it is.
    """

    loader: LoaderFactory
    graph: Graph
    cores: int
    can_change: bool
    look: FirstLook
    schedule: Schedule
    watch: Watch

    def turns(self) -> SideBlocks:
        """Return it in turns with other workers, with nothing to send, and on half of the cores.

        Raises:
            SessionError: The loader as it is failed.
        """
        sides: dict[str, LoaderFactory] = {AS_IT_IS: self.loader}
        if workers_of(self.graph):
            sides[TINY_PAYLOAD] = with_tiny_payload(self.loader, self.graph)
        elif self.can_change:
            sides[ONE_WORKER] = with_workers(self.loader, self.graph, 1)
        if self.cores > 1:
            sides[HALF_THE_CORES] = on_half_the_cores(self.loader)
        time = self.schedule.part(_SHARE, _UNTIL)
        return require_side(AS_IT_IS, self._in_turns(sides, time, "the loader as it is"))

    def tried(
        self, change: Change | None, load_s: Interval, omitted: dict[int, LoaderFactory]
    ) -> tuple[Verification | None, str]:
        """Make a change, and compare it with its prediction.

        Args:
            change: Which; None where none promises anything.
            load_s: Seconds a batch of the loader as it is, which it was predicted from.
            omitted: Of `without_stages`.

        Returns:
            The comparison, or why there is none.
        """
        if not self.can_change:
            return None, "only a Grain pipeline made anew that runs in one thread can be changed"
        if change is None:
            return None, "no change that can be tried promises anything"
        if change.kind == NO_THREADS:
            made = without_read_threads(self.loader)
        elif change.workers is not None:
            made = with_workers(self.loader, self.graph, change.workers)
        else:
            made = omitted[change.place or 0]
        sides = {AS_IT_IS: self.loader, change.says: made}
        time = self.schedule.part(_VERIFYING)
        if MIN_ROUNDS * 2 * self._cost_s(self._block_s(time, len(sides))) > time.remaining_s():
            return None, f"{change.says} could not be tried: {NO_TIME}"
        return verified(change, self._in_turns(sides, time, f"trying {change.says}"), load_s)

    def without_stages(
        self, times: tuple[StageTime, ...], remarks: list[str]
    ) -> dict[int, LoaderFactory]:
        """Return the loaders without a stage, by its place.

        What a worker's batch gives lies in shared memory that whoever takes it gives back: it
        cannot be given twice.
        """
        omitted = dict[int, LoaderFactory]()
        for place, one in enumerate(times if self.can_change else ()):
            if one.node is None or (one.node.in_worker and one.node.kind == "Batch"):
                continue
            try:
                made = without_stage(self.loader, one.node.id)
            except Exception as error:  # noqa: BLE001  # a failure of ours costs only this part
                remarks.append(f"{one.name} could not be left out: {describe_error(error)}")
                continue
            if made is not None:
                omitted[place] = made
        return omitted

    def _in_turns(self, sides: dict[str, LoaderFactory], time: TimeSlot, name: str) -> SideBlocks:
        block_s = self._block_s(time, len(sides))
        measured: dict[str, Side] = {
            side: partial(
                measure_fresh_block,
                made,
                block_s,
                time.clock,
                self.watch if side == AS_IT_IS else UNWATCHED,
                time.until_s,
            )
            for side, made in sides.items()
        }
        return measure_in_turns(
            measured, time, self.schedule.say(name), self._cost_s(block_s), AS_IT_IS
        )

    def _block_s(self, time: TimeSlot, sides: int) -> float:
        share_s = time.budget_s / (_ROUNDS * sides) - self.look.start_s
        wanted_s = max(_LEAST_BLOCK_S, _LEAST_BATCHES * self.look.batch_s, share_s)
        return min(
            wanted_s, max(_LEAST_BLOCK_S, time.remaining_s() / MIN_ROUNDS - self.look.start_s)
        )

    def _cost_s(self, block_s: float) -> float:
        return self.look.start_s + _WITH_WARM_UP * block_s
