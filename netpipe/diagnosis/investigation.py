"""All that a session does to a loader to find out why it takes as long as it does."""

from collections.abc import Iterator, Sequence
from functools import partial
from math import inf
from statistics import median
from typing import Final

from netpipe.clock import Clock
from netpipe.diagnosis.blocks import FirstLook, take_first_look
from netpipe.diagnosis.bottleneck import Evidence, bottleneck
from netpipe.diagnosis.diagnosis import Findings, Intervention, Stage
from netpipe.diagnosis.interventions import (
    AS_IT_IS,
    ONE_WORKER,
    TINY_PAYLOAD,
    clearest_first,
    of_lanes,
    of_the_whole,
)
from netpipe.diagnosis.loader_variants import serial
from netpipe.diagnosis.model_parts import parts_of, section_of, threads_of, workers_of
from netpipe.diagnosis.prediction import Known
from netpipe.diagnosis.schedule import NO_TIME, Schedule
from netpipe.diagnosis.single_thread_run import UNTIL, SingleThread
from netpipe.diagnosis.stage_times import StageTime
from netpipe.diagnosis.thread_scaling import LANE, WITHOUT_STAGE
from netpipe.diagnosis.turns import SideBlocks, describe_error, log_interval
from netpipe.diagnosis.what_if import changes, predictions, worth_trying
from netpipe.diagnosis.whole_loader import Whole
from netpipe.measuring.loader_puller import LoaderFactory
from netpipe.session.bounded_calls import call_within
from netpipe.session.heartbeat import UNWATCHED, Watch

_WORKERS_START_S: Final = 1.0


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
        self._workers = workers_of(self._graph)
        self._remarks: list[str] = []

    def findings(self) -> Findings:
        """Look into all of it.

        Raises:
            SessionError: The loader failed.
        """
        # Before any variant of it runs, so that a failure here is the loader's own.
        look = take_first_look(self._loader, self._clock, self._watch, inf)
        # Variants may have workers where the loader as it is has none.
        look = look._replace(start_s=max(look.start_s, _WORKERS_START_S * bool(self._graph.nodes)))
        schedule = Schedule(self._clock, self._budget_s, self._watch)
        lane, times, lanes = self._single_thread(look, schedule)
        look = look._replace(batch_s=lane.look.batch_s)
        as_it_is = Whole(
            self._loader, self._graph, self._cores, lane.is_rebuilt, look, schedule, self._watch
        )
        whole = as_it_is.turns()
        known, moved = self._known(times, lanes, whole)
        one_thread = self._one_thread(known, lanes, whole) if lane.is_rebuilt else None
        every = changes(known, moved, times, self._step_s, one_thread)
        load_s, blocks = whole.interval(AS_IT_IS), whole.blocks(AS_IT_IS)
        omitted = as_it_is.without_stages(times, self._remarks)
        change = worth_trying(every, load_s.median, self._step_s, tuple(omitted))
        verified, unverified = as_it_is.tried(change, load_s, omitted)
        largest = times[0].name if times else "no stage"
        interventions = clearest_first(
            (*of_lanes(lanes, largest), *of_the_whole(whole, self._cores), lane.disk())
        )
        self._remarks += _on_time(interventions, unverified)
        tiny = whole.speedup(TINY_PAYLOAD, AS_IT_IS) if whole.has(TINY_PAYLOAD) else None
        evidence = Evidence(lanes, tiny, blocks, self._sender(), interventions)
        return Findings(
            load_s_per_batch=load_s,
            load_cpu_s_per_batch=log_interval([one.cpu_s_per_batch for one in blocks]),
            lane="rebuilt" if lane.is_rebuilt else "as-it-is",
            lane_s_per_batch=lanes.interval(LANE),
            lane_cpu_s_per_batch=log_interval([one.cpu_s_per_batch for one in lanes.blocks(LANE)]),
            workers=self._workers,
            threads=threads_of(self._graph),
            stages=self._stages(times, known, lanes),
            bottleneck=bottleneck(known, times, evidence),
            interventions=interventions,
            what_if=predictions(every, self._step_s),
            verified=verified,
            unverified=unverified,
            elapsed_s=self._clock() - self._started,
            remarks=tuple(dict.fromkeys(self._remarks)),
        )

    def _single_thread(
        self, as_it_is: FirstLook, schedule: Schedule
    ) -> tuple[SingleThread, tuple[StageTime, ...], SideBlocks]:
        """Run the loader in one thread, or as it is where that fails."""
        if self._lane is self._loader:
            return self._looked_into(self._loader, as_it_is, schedule)
        try:
            time = schedule.part(1.0, UNTIL)
            look = partial(take_first_look, self._lane, self._clock, UNWATCHED, time.until_s)
            return self._looked_into(self._lane, call_within(look, time.remaining_s()), schedule)
        except Exception as error:  # noqa: BLE001  # a failure of ours costs only this part
            self._remarks.append(
                f"the loader does not run in one thread ({describe_error(error)}): it was "
                "looked into as it is"
            )
            return self._looked_into(self._loader, as_it_is, schedule)

    def _looked_into(
        self, loader: LoaderFactory, look: FirstLook, schedule: Schedule
    ) -> tuple[SingleThread, tuple[StageTime, ...], SideBlocks]:
        is_rebuilt = loader is not self._loader
        lane = SingleThread(
            *(loader, self._target, self._graph, is_rebuilt, look),
            *(schedule, self._watch, self._remarks),
        )
        times = lane.stages()
        return lane, times, lane.lanes(times)

    def _known(
        self, times: tuple[StageTime, ...], lanes: SideBlocks, whole: SideBlocks
    ) -> tuple[Known, Known | None]:
        def known(side: str, tiny: str, workers: int) -> Known:
            blocks = whole.blocks(side)
            bare = whole.blocks(tiny) if whole.has(tiny) else []
            parts = parts_of(times, self._graph, lanes, blocks, bare, workers, self._cores)
            rounds_s = whole.s_per_batch(side)
            return Known(parts.held_to(median(rounds_s)), rounds_s)

        moved = known(ONE_WORKER, "", 1) if whole.has(ONE_WORKER) else None
        return known(AS_IT_IS, TINY_PAYLOAD, self._workers), moved

    def _one_thread(self, known: Known, lanes: SideBlocks, whole: SideBlocks) -> Known | None:
        """Return the single-thread run, where it clearly beats reader threads in this process."""
        if self._workers or not threads_of(self._graph):
            return None
        is_faster = lanes.interval(LANE).high < whole.interval(AS_IT_IS).low
        return Known(known.parts, lanes.s_per_batch(LANE)) if is_faster else None

    def _stages(
        self, times: tuple[StageTime, ...], known: Known, lanes: SideBlocks
    ) -> tuple[Stage, ...]:
        works = [work for work, _ in known.parts.stages]
        total_s = sum(work.wall_s for work in works)
        absent = lanes.paired_interval(WITHOUT_STAGE, LANE) if lanes.has(WITHOUT_STAGE) else None
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

    def _sender(self) -> str:
        nodes = self._graph.of_kind("ProcessPrefetch", "DataLoader")
        return str(nodes[0]) if nodes else ""


def _on_time(interventions: Sequence[Intervention], unverified: str) -> Iterator[str]:
    skipped = [one.what for one in interventions if one.says.endswith(NO_TIME)]
    skipped += [unverified.split(" could not be tried")[0]] * unverified.endswith(NO_TIME)
    if skipped:
        yield f"not tried for lack of time: {', '.join(skipped)}; give a larger --budget"
