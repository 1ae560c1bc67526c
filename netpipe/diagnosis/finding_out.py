"""All that a session does to a loader to find out why it takes as long as it does."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf
from statistics import median
from typing import Final

from netpipe.diagnosis.absent import without_stage
from netpipe.diagnosis.binding import Evidence, bottleneck
from netpipe.diagnosis.blocks import Lane, Time, fresh_block
from netpipe.diagnosis.diagnosis import Findings, Intervention, Stage, Verified, longest_s
from netpipe.diagnosis.disk import CACHED, from_disk_and_cache
from netpipe.diagnosis.interventions import (
    AS_IT_IS,
    HALF_THE_CORES,
    ONE_WORKER,
    TINY_PAYLOAD,
    clearest_first,
    of_lanes,
    of_the_disk,
    of_the_whole,
)
from netpipe.diagnosis.lanes import LANE, WITHOUT_STAGE, lanes_in_turns
from netpipe.diagnosis.parts import parts_of, section_of, threads_of, workers_of
from netpipe.diagnosis.prediction import Known
from netpipe.diagnosis.rebuilt import (
    on_half_the_cores,
    serial,
    with_tiny_payload,
    with_workers,
    without_read_threads,
)
from netpipe.diagnosis.stage_times import StageTime, stage_times
from netpipe.diagnosis.turns import (
    LEAST_ROUNDS,
    NO_TIME,
    Side,
    Turns,
    in_turns,
    interval_of,
    reason,
)
from netpipe.diagnosis.verifying import verified
from netpipe.diagnosis.what_if import NO_THREADS, Change, changes, predictions, worth_trying
from netpipe.harness.clock import Clock
from netpipe.harness.errors import SessionError
from netpipe.harness.measurement import Interval
from netpipe.harness.pull import LoaderFactory
from netpipe.harness.trying.bounded import bounded
from netpipe.harness.watch import UNWATCHED, Watch

# Of the budget: what is looked at in which share of it.
_STAGES: Final = 0.08
_LANES: Final = 0.25
_DISK: Final = 0.10
_WHOLE: Final = 0.32
_VERIFYING: Final = 0.25
_LEAST_BLOCK_S: Final = 0.4
_LEAST_BATCHES: Final = 4
# Of the longest time: when what comes later still needs the rest.
_LANES_UNTIL: Final = 0.6
_WHOLE_UNTIL: Final = 0.85
_WORKERS_START_S: Final = 1.0
_FIRST_LOOK: Final = 3  # batches
_ROUNDS: Final = 4
_WITH_WARM_UP: Final = 1.25  # a block and its warm-up


class FindingOut:
    """One loader, looked into within a budget.

    Args:
        loader: Makes it.
        target: Names the factory, for another process to find it.
        step_s: Seconds of the step that it feeds; None without one.
        cores: That it may use.
        budget_s: Seconds for all.
        clock: Seconds.
        watch: Told of every wait for a batch, and of what is done.
    """

    def __init__(
        self,
        loader: LoaderFactory,
        target: str,
        step_s: float | None,
        cores: int,
        budget_s: float,
        clock: Clock,
        watch: Watch,
    ) -> None:
        self._loader = loader
        self._target = target
        self._step_s = step_s
        self._cores = cores
        self._budget_s = budget_s
        self._clock = clock
        self._watch = watch
        self._started = clock()
        self._lane, self._graph = serial(loader)
        self._is_rebuilt = self._lane is not loader
        self._workers = workers_of(self._graph)
        self._remarks: list[str] = []
        self._begun_s, self._start_s = self._started, 0.0

    def findings(self) -> Findings:
        """Look into all of it.

        Raises:
            SessionError: The loader failed.
        """
        # Before any variant of it runs, so that a failure here is the loader's own.
        start_s, self._as_it_is_s = self._first_look(self._loader, self._watch, inf)
        # Variants may have workers where the loader as it is has none.
        self._start_s = max(start_s, _WORKERS_START_S * bool(self._graph.nodes))
        self._begun_s = self._clock()
        times, lanes = self._single_thread()
        whole = self._whole()
        known, moved = self._known(times, lanes, whole)
        slower_by_threads = (
            self._is_rebuilt
            and not self._workers
            and threads_of(self._graph) > 0
            and lanes.interval(LANE).high < whole.interval(AS_IT_IS).low
        )
        one_thread = Known(known.parts, lanes.s_per_batch(LANE)) if slower_by_threads else None
        every = changes(known, moved, times, self._step_s, one_thread)
        load_s = whole.interval(AS_IT_IS)
        verdict, unverified = self._verified(every, times, load_s)
        interventions = self._interventions(times, lanes, whole, self._disk())
        self._remark_on_time(interventions, unverified)
        tiny = whole.speedup(TINY_PAYLOAD, AS_IT_IS) if whole.has(TINY_PAYLOAD) else None
        evidence = Evidence(lanes, tiny, whole.blocks(AS_IT_IS), self._sender(), interventions)
        as_it_is = whole.blocks(AS_IT_IS)
        return Findings(
            load_s_per_batch=load_s,
            load_cpu_s_per_batch=interval_of([one.cpu_s_per_batch for one in as_it_is]),
            lane="rebuilt" if self._is_rebuilt else "as-it-is",
            lane_s_per_batch=lanes.interval(LANE),
            lane_cpu_s_per_batch=interval_of([one.cpu_s_per_batch for one in lanes.blocks(LANE)]),
            workers=self._workers,
            threads=threads_of(self._graph),
            stages=self._stages(times, known, lanes),
            bottleneck=bottleneck(known, times, evidence),
            interventions=interventions,
            what_if=predictions(every, self._step_s),
            verified=verdict,
            unverified=unverified,
            elapsed_s=self._clock() - self._started,
            remarks=tuple(self._remarks),
        )

    def _single_thread(self) -> tuple[tuple[StageTime, ...], Turns]:
        """Run the loader in one thread, or as it is where that fails."""
        try:
            if self._is_rebuilt:
                time = self._time(1.0, _LANES_UNTIL)
                look = partial(self._first_look, self._lane, UNWATCHED, time.until_s)
                # The watchdog would call a variant that hangs a loader that hangs.
                self._lane_start_s, self._batch_s = bounded(look, time.left_s())
            else:
                self._lane_start_s, self._batch_s = self._start_s, self._as_it_is_s
            times = self._stage_times()
            return times, _with(LANE, self._lanes(times))
        except Exception as error:
            if not self._is_rebuilt:
                raise
            self._remarks.append(
                f"the loader does not run in one thread ({reason(error)}): it was looked into as "
                "it is"
            )
            self._lane, self._is_rebuilt = self._loader, False
            return self._single_thread()

    def _stage_times(self) -> tuple[StageTime, ...]:
        try:
            time = self._time(_STAGES, _LANES_UNTIL)
            # Another start follows, which all else is held against.
            self._demand(time, 2 * self._lane_start_s + _LEAST_BATCHES * self._batch_s)
            timing = partial(
                stage_times, self._lane, self._graph, time.budget_s, self._clock, self._lane_watch
            )
            return bounded(timing, time.left_s()) if self._is_rebuilt else timing()
        except Exception as error:  # noqa: BLE001  # a failure of ours costs only this part
            self._remarks.append(f"the stages could not be timed: {reason(error)}")
            return ()

    def _disk(self) -> Intervention:
        try:
            time = self._time(_DISK)
            self._demand(time, 2 * LEAST_ROUNDS * (self._lane_start_s + self._batch_s))
            turns = from_disk_and_cache(
                self._lane,
                time,
                self._batch_s,
                self._lane_watch,
                self._say("disk"),
            )
        except Exception as error:  # noqa: BLE001  # a failure of ours costs only this part
            turns = Turns((), {CACHED: reason(error)})
        return of_the_disk(turns)

    def _first_look(
        self, loader: LoaderFactory, watch: Watch, until_s: float
    ) -> tuple[float, float]:
        """Return the seconds that a start takes, and about those that a batch takes."""
        started = self._clock()
        lane = Lane(loader, self._clock, watch, until_s)
        start_s = self._clock() - started
        try:
            pulled = lane.pulling(0.0, least=_FIRST_LOOK)()
        finally:
            lane.close()
        return start_s, pulled.wall_s / pulled.batches

    def _lanes(self, times: tuple[StageTime, ...]) -> Turns:
        return lanes_in_turns(
            self._lane,
            self._target,
            self._absent(times),
            self._time(_LANES, _LANES_UNTIL),
            self._batch_s,
            self._lane_watch,
            self._say("lanes"),
        )

    def _absent(self, times: tuple[StageTime, ...]) -> LoaderFactory | None:
        node = times[0].lane_node if self._is_rebuilt and times else None
        try:
            return None if node is None else without_stage(self._lane, node)
        except Exception as error:  # noqa: BLE001  # a failure of ours costs only this part
            self._remarks.append(f"{times[0].name} could not be left out: {reason(error)}")
            return None

    def _whole(self) -> Turns:
        sides: dict[str, LoaderFactory] = {AS_IT_IS: self._loader}
        if self._workers:
            sides[TINY_PAYLOAD] = with_tiny_payload(self._loader, self._graph)
        elif self._is_rebuilt:
            sides[ONE_WORKER] = with_workers(self._loader, self._graph, 1)
        if self._cores > 1:
            sides[HALF_THE_CORES] = on_half_the_cores(self._loader)
        time = self._time(_WHOLE, _WHOLE_UNTIL)
        whole = self._in_turns(sides, time, "the loader as it is")
        return _with(AS_IT_IS, whole)

    def _in_turns(self, sides: dict[str, LoaderFactory], time: Time, name: str) -> Turns:
        block_s = self._block_s(time, sides)
        measured: dict[str, Side] = {
            side: partial(
                fresh_block,
                made,
                block_s,
                self._clock,
                self._watch if side == AS_IT_IS else UNWATCHED,
                time.until_s,
            )
            for side, made in sides.items()
        }
        return in_turns(measured, time, self._say(name), self._block_cost_s(block_s), AS_IT_IS)

    def _block_s(self, time: Time, sides: Mapping[str, LoaderFactory]) -> float:
        share_s = time.budget_s / (_ROUNDS * len(sides)) - self._start_s
        wanted_s = max(_LEAST_BLOCK_S, _LEAST_BATCHES * self._batch_s, share_s)
        return min(wanted_s, max(_LEAST_BLOCK_S, time.left_s() / LEAST_ROUNDS - self._start_s))

    def _block_cost_s(self, block_s: float) -> float:
        return self._start_s + _WITH_WARM_UP * block_s

    def _known(
        self, times: tuple[StageTime, ...], lanes: Turns, whole: Turns
    ) -> tuple[Known, Known | None]:
        def known(side: str, tiny: str, workers: int) -> Known:
            blocks = whole.blocks(side)
            bare = whole.blocks(tiny) if whole.has(tiny) else []
            parts = parts_of(times, self._graph, lanes, blocks, bare, workers, self._cores)
            rounds_s = whole.s_per_batch(side)
            return Known(parts.held_to(median(rounds_s)), rounds_s)

        moved = known(ONE_WORKER, "", 1) if whole.has(ONE_WORKER) else None
        return known(AS_IT_IS, TINY_PAYLOAD, self._workers), moved

    def _verified(
        self, every: list[Change], times: tuple[StageTime, ...], load_s: Interval
    ) -> tuple[Verified | None, str]:
        if not self._is_rebuilt:
            return None, "only a Grain pipeline made anew that runs in one thread can be changed"
        try:
            omitted = self._omitted(times)
        except Exception as error:  # noqa: BLE001  # a failure of ours costs only this part
            return None, f"no stage could be left out: {reason(error)}"
        change = worth_trying(every, load_s.median, self._step_s, tuple(omitted))
        if change is None:
            return None, "no change that can be tried promises anything"
        if change.kind == NO_THREADS:
            made = without_read_threads(self._loader)
        elif change.workers is not None:
            made = with_workers(self._loader, self._graph, change.workers)
        else:
            made = omitted[change.place or 0]
        sides = {AS_IT_IS: self._loader, change.says: made}
        time = self._time(_VERIFYING)
        if LEAST_ROUNDS * 2 * self._block_cost_s(self._block_s(time, sides)) > time.left_s():
            return None, f"{change.says} could not be tried: {NO_TIME}"
        turns = self._in_turns(sides, time, f"trying {change.says}")
        return verified(change, turns, load_s)

    def _omitted(self, times: tuple[StageTime, ...]) -> dict[int, LoaderFactory]:
        """Return the loaders without a stage, by its place.

        What a worker's batch gives lies in shared memory that whoever takes it gives back: it
        cannot be given twice.
        """
        omitted = {}
        for place, one in enumerate(times):
            if one.node is None or (one.node.in_worker and one.node.kind == "Batch"):
                continue
            made = without_stage(self._loader, one.node.id)
            if made is not None:
                omitted[place] = made
        return omitted

    def _stages(
        self, times: tuple[StageTime, ...], known: Known, lanes: Turns
    ) -> tuple[Stage, ...]:
        works = [work for work, _ in known.parts.stages]
        total_s = sum(work.wall_s for work in works)
        absent = lanes.after(WITHOUT_STAGE, LANE) if lanes.has(WITHOUT_STAGE) else None
        return tuple(
            Stage(
                one.name,
                None if one.node is None else one.node.id,
                one.function,
                one.made_at,
                section_of(one.node, self._graph),
                work.wall_s,
                work.cpu_s,
                work.wall_s / total_s if total_s else 0.0,
                "timing" if one.lane_node is not None else "sampling",
                absent if place == 0 else None,
            )
            for place, (one, work) in enumerate(zip(times, works, strict=True))
        )

    def _interventions(
        self, times: tuple[StageTime, ...], lanes: Turns, whole: Turns, disk: Intervention
    ) -> tuple[Intervention, ...]:
        largest = times[0].name if times else "no stage"
        return clearest_first((*of_lanes(lanes, largest), *of_the_whole(whole, self._cores), disk))

    @property
    def _lane_watch(self) -> Watch:
        return UNWATCHED if self._is_rebuilt else self._watch

    def _time(self, share: float, until: float = 1.0) -> Time:
        until_s = self._begun_s + until * longest_s(self._budget_s)
        return Time(self._clock, share * self._budget_s, until_s)

    @staticmethod
    def _demand(time: Time, cost_s: float) -> None:
        if cost_s > time.left_s():
            raise SessionError(NO_TIME)

    def _remark_on_time(self, interventions: Sequence[Intervention], unverified: str) -> None:
        skipped = [one.what for one in interventions if one.says.endswith(NO_TIME)]
        skipped += [unverified.split(" could not be tried")[0]] * unverified.endswith(NO_TIME)
        if skipped:
            self._remarks.append(
                f"not tried for lack of time: {', '.join(skipped)}; give a larger --budget"
            )

    def _sender(self) -> str:
        nodes = self._graph.of_kind("ProcessPrefetch", "DataLoader")
        return str(nodes[0]) if nodes else ""

    def _say(self, what: str) -> Callable[[int], None]:
        return lambda number: self._watch.doing(what, self._budget_s, f"round {number}")


def _with(side: str, turns: Turns) -> Turns:
    """Return turns that have what all else is held against."""
    if not turns.has(side):
        # It has given batches in this process before, so that a variant may have caused this.
        raise SessionError(
            f"the loader gave batches at first, but failed when it was started again: "
            f"{turns.failures[side]}. If its source hands out the same objects each time and a map "
            "changes them in place, let the source return copies"
        )
    return turns
