"""The unmodified loader in turns with variants of it, one of which is the change to try."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from netpipe.diagnosis.blocks import FirstLook, measure_fresh_block
from netpipe.diagnosis.diagnosis import Verification
from netpipe.diagnosis.interventions import (
    HALF_THE_CORES,
    ONE_WORKER,
    TINY_PAYLOAD,
    UNMODIFIED,
    verify,
)
from netpipe.diagnosis.loader_variants import (
    count_workers,
    on_half_the_cores,
    with_tiny_payload,
    with_workers,
    without_read_threads,
)
from netpipe.diagnosis.schedule import NO_TIME, Schedule, TimeSlot
from netpipe.diagnosis.stage_ablation import without_stage
from netpipe.diagnosis.stage_times import StageTime
from netpipe.diagnosis.turns import (
    MIN_ROUNDS,
    SideBlocks,
    describe_error,
    measure_in_turns,
    require_side,
)
from netpipe.diagnosis.what_if import NO_THREADS, Change
from netpipe.linting.graph.nodes import Graph
from netpipe.measuring.loader_puller import LoaderFactory
from netpipe.results.measurement import Interval
from netpipe.session.heartbeat import UNWATCHED, Watch

_BUDGET_FRACTION: Final = 0.32
_END_FRACTION: Final = 0.85  # Trying a change still needs the time after it.
_TRYING_FRACTION: Final = 0.25
_ROUNDS: Final = 4
_MIN_BLOCK_S: Final = 0.4
_MIN_BATCHES: Final = 4
_WITH_WARM_UP: Final = 1.25


@dataclass(frozen=True)
class VariantRuns:
    """Measures a loader beside variants of it, if `can_change` says that they can be built."""

    loader: LoaderFactory
    graph: Graph
    cores: int
    can_change: bool
    look: FirstLook
    schedule: Schedule
    watch: Watch

    def measure(self) -> SideBlocks:
        """Return it in turns with a worker or a tiny payload, and on half of the cores.

        Raises:
            SessionError: The unmodified loader failed.
        """
        variants = dict[str, LoaderFactory]()
        if count_workers(self.graph):
            variants[TINY_PAYLOAD] = with_tiny_payload(self.loader, self.graph)
        elif self.can_change:
            variants[ONE_WORKER] = with_workers(self.loader, self.graph, 1)
        if self.cores > 1:
            variants[HALF_THE_CORES] = on_half_the_cores(self.loader)
        slot = self.schedule.slot(_BUDGET_FRACTION, _END_FRACTION)
        return require_side(UNMODIFIED, self._in_turns(variants, slot, "the unmodified loader"))

    def try_change(
        self, change: Change | None, load_s: Interval, ablated: Mapping[int, LoaderFactory]
    ) -> tuple[Verification | None, str]:
        """Make a change, and compare it with its prediction.

        Args:
            change: None if no change helps.
            load_s: Seconds per batch of the unmodified loader, which the prediction started from.
            ablated: The result of `without_stages`.

        Returns:
            The comparison and "", or None and why there is none.
        """
        if not self.can_change:
            return None, "only a Grain pipeline made anew that runs in one thread can be changed"
        if change is None:
            return None, "no change that can be tried is predicted to help"
        if change.kind == NO_THREADS:
            changed = without_read_threads(self.loader)
        elif change.workers is not None:
            changed = with_workers(self.loader, self.graph, change.workers)
        else:
            changed = ablated[change.place or 0]
        slot = self.schedule.slot(_TRYING_FRACTION)
        if 2 * MIN_ROUNDS * self._cost_s(self._block_s(slot, sides=2)) > slot.remaining_s():
            return None, f"{change.name} could not be tried: {NO_TIME}"
        turns = self._in_turns({change.name: changed}, slot, f"trying {change.name}")
        return verify(change.name, change.kind, change.predicted_s, turns, load_s)

    def without_stages(
        self, times: tuple[StageTime, ...], remarks: list[str]
    ) -> dict[int, LoaderFactory]:
        """Return the loaders without one stage, by the stage's place."""
        ablated = dict[int, LoaderFactory]()
        for place, stage in enumerate(times if self.can_change else ()):
            # A worker's batch lies in shared memory that its receiver frees: it cannot be resent.
            if stage.node is None or (stage.node.in_worker and stage.node.kind == "Batch"):
                continue
            try:
                if made := without_stage(self.loader, stage.node.id):
                    ablated[place] = made
            except Exception as error:  # noqa: BLE001  # a failure of ours costs only this part
                remarks.append(f"{stage.name} could not be left out: {describe_error(error)}")
        return ablated

    def _in_turns(
        self, variants: Mapping[str, LoaderFactory], slot: TimeSlot, name: str
    ) -> SideBlocks:
        loaders = {UNMODIFIED: self.loader, **variants}
        block_s = self._block_s(slot, len(loaders))
        sides = {
            side: partial(
                measure_fresh_block,
                *(loader, block_s, slot.clock),
                self.watch if side == UNMODIFIED else UNWATCHED,
                slot.until_s,
            )
            for side, loader in loaders.items()
        }
        progress, cost_s = self.schedule.progress(name), self._cost_s(block_s)
        return measure_in_turns(sides, slot, progress, cost_s, UNMODIFIED)

    def _block_s(self, slot: TimeSlot, sides: int) -> float:
        share_s = slot.budget_s / (_ROUNDS * sides) - self.look.start_s
        wanted_s = max(_MIN_BLOCK_S, _MIN_BATCHES * self.look.batch_s, share_s)
        fitting_s = slot.remaining_s() / MIN_ROUNDS - self.look.start_s
        return min(wanted_s, max(_MIN_BLOCK_S, fitting_s))

    def _cost_s(self, block_s: float) -> float:
        return self.look.start_s + _WITH_WARM_UP * block_s
