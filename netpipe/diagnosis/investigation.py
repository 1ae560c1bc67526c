"""Finds out in one session why a loader takes as long as it does."""

from collections.abc import Iterator, Sequence
from functools import partial
from math import inf
from statistics import median
from typing import Final

from netpipe.clock import Clock
from netpipe.diagnosis.blocks import FirstLook, take_first_look
from netpipe.diagnosis.bottleneck import Evidence, find_bottleneck
from netpipe.diagnosis.cost_model import build_model
from netpipe.diagnosis.diagnosis import Findings, Intervention, Stage
from netpipe.diagnosis.interventions import (
    ONE_WORKER,
    SINGLE_THREAD,
    TINY_PAYLOAD,
    UNMODIFIED,
    WITHOUT_STAGE,
    loader_interventions,
    scaling_interventions,
)
from netpipe.diagnosis.loader_variants import (
    count_threads,
    count_workers,
    section_of,
    single_thread_variant,
)
from netpipe.diagnosis.schedule import NO_TIME, Schedule
from netpipe.diagnosis.single_thread_run import END_FRACTION, SingleThreadRun
from netpipe.diagnosis.stage_times import StageTime
from netpipe.diagnosis.turns import SideBlocks, describe_error, log_interval
from netpipe.diagnosis.variant_runs import VariantRuns
from netpipe.diagnosis.what_if import MeasuredLoader, choose_change, list_changes, predict_all
from netpipe.measuring.loader_puller import LoaderFactory
from netpipe.results.measurement import Interval
from netpipe.session.bounded_calls import call_within
from netpipe.session.heartbeat import UNWATCHED, Watch

_WORKERS_START_S: Final = 1.0


class Investigation:
    """Investigates one loader within a budget.

    Args:
        loader: Makes it.
        target: Names the factory, so that another process can import it.
        step_s: Seconds of the step that it feeds; None without one.
        cores: The usable cores.
        budget_s: Seconds for everything.
        clock: Seconds.
        watch: Hears of every wait for a batch, and what is being done.
        load_s: The load time as measured with the step; None without one.
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
        load_s: Interval | None = None,
    ) -> None:
        self._loader = loader
        self._target = target
        self._step_s = step_s
        self._load_s = load_s
        self._cores = cores
        self._budget_s = budget_s
        self._clock = clock
        self._watch = watch
        self._started_s = clock()
        self._single_thread, self._graph = single_thread_variant(loader)
        self._workers = count_workers(self._graph)
        self._threads = count_threads(self._graph)
        self._remarks: list[str] = []

    def run(self) -> Findings:
        """Measure and conclude everything.

        Raises:
            SessionError: The loader failed.
        """
        # Before any variant of it runs, so that a failure here is the loader's own.
        look = take_first_look(self._loader, self._clock, self._watch, inf)
        # Variants may have workers even if the unmodified loader has none.
        look = look._replace(start_s=max(look.start_s, _WORKERS_START_S * bool(self._graph.nodes)))
        schedule = Schedule(self._clock, self._budget_s, self._watch)
        single, times, scaling = self._run_single_thread(look, schedule)
        look = look._replace(batch_s=single.look.batch_s)
        runs = VariantRuns(
            *(self._loader, self._graph, self._cores, single.is_rebuilt),
            *(look, schedule, self._watch),
        )
        variants = runs.measure()
        load_s = self._load_s or variants.interval(UNMODIFIED)
        loader = self._measured(times, scaling, variants, load_s, UNMODIFIED, self._workers)
        one_worker = None
        if variants.has(ONE_WORKER):
            one_worker = self._measured(times, scaling, variants, load_s, ONE_WORKER, 1)
        without_threads = None
        if single.is_rebuilt:
            without_threads = self._without_threads(loader, scaling, variants, load_s)
        changes = list_changes(loader, one_worker, times, self._step_s, without_threads)
        ablated = runs.without_stages(times, self._remarks)
        change = choose_change(changes, load_s.median, self._step_s, tuple(ablated))
        verified, unverified = runs.try_change(change, load_s, ablated)
        interventions = self._interventions(times, scaling, variants, load_s, single.disk())
        self._remarks += _describe_skipped(interventions, unverified)
        blocks, alone = variants.blocks(UNMODIFIED), scaling.blocks(SINGLE_THREAD)
        tiny = variants.speedup(TINY_PAYLOAD, UNMODIFIED) if variants.has(TINY_PAYLOAD) else None
        evidence = Evidence(scaling, tiny, blocks, self._sender(), interventions)
        return Findings(
            load_s_per_batch=load_s,
            load_cpu_s_per_batch=log_interval([block.cpu_s_per_batch for block in blocks]),
            lane="rebuilt" if single.is_rebuilt else "as-it-is",
            lane_s_per_batch=scaling.interval(SINGLE_THREAD),
            lane_cpu_s_per_batch=log_interval([block.cpu_s_per_batch for block in alone]),
            workers=self._workers,
            threads=self._threads,
            stages=self._stages(times, loader, interventions),
            bottleneck=find_bottleneck(loader, times, evidence),
            interventions=interventions,
            what_if=predict_all(changes, self._step_s),
            verified=verified,
            unverified=unverified,
            elapsed_s=self._clock() - self._started_s,
            remarks=tuple(dict.fromkeys(self._remarks)),
        )

    def _run_single_thread(
        self, unmodified: FirstLook, schedule: Schedule
    ) -> tuple[SingleThreadRun, tuple[StageTime, ...], SideBlocks]:
        """Run the loader in one thread, or unmodified if that fails."""
        try:
            if self._single_thread is not self._loader:
                slot = schedule.slot(1.0, END_FRACTION)
                start = partial(
                    take_first_look, self._single_thread, self._clock, UNWATCHED, slot.until_s
                )
                look = call_within(start, slot.remaining_s())
                return self._measure_single_thread(self._single_thread, look, schedule)
        except Exception as error:  # noqa: BLE001  # a failure of ours costs only this part
            self._remarks.append(
                f"the loader does not run in one thread ({describe_error(error)}): it was "
                "diagnosed as it is"
            )
        return self._measure_single_thread(self._loader, unmodified, schedule)

    def _measure_single_thread(
        self, loader: LoaderFactory, look: FirstLook, schedule: Schedule
    ) -> tuple[SingleThreadRun, tuple[StageTime, ...], SideBlocks]:
        run = SingleThreadRun(
            *(loader, self._target, self._graph, loader is not self._loader, look),
            *(schedule, self._watch, self._remarks),
        )
        times = run.stage_times()
        return run, times, run.measure_scaling(times)

    def _measured(
        self,
        times: tuple[StageTime, ...],
        scaling: SideBlocks,
        variants: SideBlocks,
        load_s: Interval,
        side: str,
        workers: int,
    ) -> MeasuredLoader:
        has_tiny = side == UNMODIFIED and variants.has(TINY_PAYLOAD)
        tiny = variants.blocks(TINY_PAYLOAD) if has_tiny else []
        blocks, rounds_s = variants.blocks(side), variants.s_per_batch(side)
        model = build_model(times, self._graph, scaling, blocks, tiny, workers, self._cores)
        # One figure for the load time everywhere: only the ratios to it come from these rounds.
        factor = load_s.median / median(variants.s_per_batch(UNMODIFIED))
        scaled_s = tuple(factor * round_s for round_s in rounds_s)
        return MeasuredLoader(model.calibrated_to(median(rounds_s)), scaled_s)

    def _without_threads(
        self, loader: MeasuredLoader, scaling: SideBlocks, variants: SideBlocks, load_s: Interval
    ) -> MeasuredLoader | None:
        """Return the single-thread run if it clearly beats reader threads in this process."""
        unmodified_s = variants.interval(UNMODIFIED)
        is_faster = scaling.interval(SINGLE_THREAD).high < unmodified_s.low
        if self._workers or not self._threads or not is_faster:
            return None
        factor = load_s.median / unmodified_s.median
        scaled_s = tuple(factor * round_s for round_s in scaling.s_per_batch(SINGLE_THREAD))
        return MeasuredLoader(loader.model, scaled_s)

    def _interventions(
        self,
        times: tuple[StageTime, ...],
        scaling: SideBlocks,
        variants: SideBlocks,
        load_s: Interval,
        disk: Intervention,
    ) -> tuple[Intervention, ...]:
        """Return all interventions, those with the clearest effect first."""
        largest = times[0].name if times else "no stage"
        made = (
            *scaling_interventions(scaling, largest),
            *loader_interventions(variants, load_s, self._cores),
            disk,
        )
        return tuple(sorted(made, key=lambda one: (-one.clear_factor, one.speedup is None)))

    def _stages(
        self,
        times: tuple[StageTime, ...],
        loader: MeasuredLoader,
        interventions: Sequence[Intervention],
    ) -> tuple[Stage, ...]:
        costs = [cost for cost, _ in loader.model.stages]
        total_s = sum(cost.wall_s for cost in costs)
        without_s = [one.after_s_per_batch for one in interventions if one.name == WITHOUT_STAGE]
        return tuple(
            Stage(
                time.name,
                None if time.node is None else time.node.id,
                time.function,
                time.made_at,
                section_of(time.node, self._graph),
                cost.wall_s,
                cost.cpu_s,
                cost.wall_s / total_s if total_s else 0.0,
                "sampling" if time.single_thread_node is None else "timing",
                without_s[0] if place == 0 and without_s else None,
            )
            for place, (time, cost) in enumerate(zip(times, costs, strict=True))
        )

    def _sender(self) -> str:
        nodes = self._graph.of_kind("ProcessPrefetch", "DataLoader")
        return str(nodes[0]) if nodes else ""


def _describe_skipped(interventions: Sequence[Intervention], unverified: str) -> Iterator[str]:
    skipped = [one.what for one in interventions if one.says.endswith(NO_TIME)]
    skipped += [unverified.split(" could not be tried")[0]] * unverified.endswith(NO_TIME)
    if skipped:
        yield f"not tried for lack of time: {', '.join(skipped)}; give a larger --budget"
