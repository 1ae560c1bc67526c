"""Runs every measurement of a loader and draws the conclusions, in one session."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Final

from netpipe.clock import Clock
from netpipe.device.shared_storages import list_shared_storages
from netpipe.diagnosis.conclusions import (
    NOT_MADE,
    describe_reads,
    find_bottleneck,
    list_interventions,
    list_stages,
    verify,
)
from netpipe.diagnosis.cost_model import Evidence
from netpipe.diagnosis.diagnose_request import InvestigationRequest
from netpipe.diagnosis.diagnosis import Findings, Intervention, Verification
from netpipe.diagnosis.experiments.pulling_threads import (
    Block,
    FirstLook,
    PullingThread,
    measure_block,
    take_first_look,
)
from netpipe.diagnosis.experiments.single_thread_run import END_FRACTION, Measured, SingleThreadRun
from netpipe.diagnosis.experiments.stage_times import StageTime
from netpipe.diagnosis.experiments.turns import (
    MIN_ROUNDS,
    NO_TIME,
    Schedule,
    Side,
    SideBlocks,
    TimeSlot,
    describe_error,
    measure_in_turns,
    note_failure,
    require_side,
)
from netpipe.diagnosis.what_if import (
    MAX_STAGES,
    Change,
    choose_change,
    find_enough_workers,
    find_faster_alone,
    list_changes,
    model_loader,
)
from netpipe.grain_access.dataset_variants import READ_AHEAD, Variant, build_variant
from netpipe.grain_access.loader_variants import (
    count_read_buffer,
    count_threads,
    count_workers,
    single_thread_variant,
    with_tiny_payload,
    with_workers,
    without_stage,
)
from netpipe.jobs.bounded_calls import call_within
from netpipe.jobs.heartbeat import UNWATCHED, Watch
from netpipe.measuring.loader_puller import LoaderFactory
from netpipe.results.measurement import Interval

_MIN_WORKERS_START_S: Final = 1.0
_VARIANTS_BUDGET_FRACTION: Final = 0.32
# The rest of the time is for trying a change.
_VARIANTS_END_FRACTION: Final = 0.85
_TRIAL_BUDGET_FRACTION: Final = 0.25
_ROUNDS: Final = 4
_MIN_BLOCK_S: Final = 0.4
_MIN_BATCHES: Final = 4
_WARM_UP_FACTOR: Final = 1.25


@dataclass
class Investigation:
    """Investigates one loader within a budget."""

    loader: LoaderFactory
    request: InvestigationRequest
    cores: int
    clock: Clock
    watch: Watch

    def __post_init__(self) -> None:
        self._started_s = self.clock()
        self._single_thread, self._graph = single_thread_variant(self.loader)
        self._remarks: list[str] = []
        self._reads_wait = False

    def run(self) -> Findings:
        """Run all measurements, and return the findings.

        Raises:
            SessionError: The loader failed.
        """
        evidence = self._measure()
        scaling, variants, loader = evidence.scaling, evidence.variants, model_loader(evidence)
        has_one = variants.has(Side.ONE_WORKER)
        one_worker = model_loader(evidence, Side.ONE_WORKER) if has_one else None
        alone_s, step_s = find_faster_alone(evidence), self.request.step_s
        changes = list(list_changes(loader, one_worker, evidence.times, step_s, alone_s))
        outcome = self._try_change(changes, evidence)
        tried = None if isinstance(outcome, str) else outcome
        interventions = list_interventions(evidence)
        self._note_skipped(interventions)
        return Findings(
            load_s_per_batch=evidence.load_s,
            load_cpu_s_per_batch=variants.cpu_interval(Side.UNMODIFIED),
            lane="rebuilt" if evidence.is_rebuilt else "as-it-is",
            lane_s_per_batch=scaling.interval(Side.SINGLE_THREAD),
            lane_cpu_s_per_batch=scaling.cpu_interval(Side.SINGLE_THREAD),
            workers=count_workers(self._graph),
            threads=count_threads(self._graph),
            enough_workers=find_enough_workers(changes, evidence, step_s, tried),
            stages=list_stages(evidence, loader, interventions),
            bottleneck=find_bottleneck(loader, evidence, interventions),
            interventions=interventions,
            what_if=tuple(change.predict(evidence.load_s.median) for change in changes),
            verified=tried,
            unverified=outcome if isinstance(outcome, str) else "",
            elapsed_s=self.clock() - self._started_s,
            remarks=tuple(dict.fromkeys(self._remarks)),
            reads=describe_reads(loader.model),
            storage=" and ".join(list_shared_storages()),
        )

    def _measure(self) -> Evidence:
        # No variant has run yet, so a failure here is the loader's own.
        look = take_first_look(self.loader, self.clock, self.watch, inf)
        # Variants may have workers even if the unmodified loader has none.
        min_start_s = _MIN_WORKERS_START_S if self._graph.nodes else 0.0
        look = look._replace(start_s=max(look.start_s, min_start_s))
        self._schedule = Schedule(self.clock, self.request.wanted_s, self.watch, self.clock())
        run, (times, reads, scaling) = self._run_single_thread(look)
        self._look = look._replace(batch_s=run.look.batch_s)
        self._reads_wait = reads is not None
        variants = self._measure_variants(can_add_workers=run.is_rebuilt)
        load_s = variants.interval(Side.UNMODIFIED)
        if self.request.load_s is not None:
            load_s = Interval(*self.request.load_s)
        return Evidence(
            self._graph, self.cores, run.is_rebuilt, times, scaling, variants, load_s, reads
        )

    def _run_single_thread(self, unmodified: FirstLook) -> tuple[SingleThreadRun, Measured]:
        """Return the single-thread run, and its measurements.

        The unmodified loader is used if it cannot be rebuilt to run in one thread.
        """
        run = SingleThreadRun(
            loader=self.loader,
            target=self.request.targets["loader"],
            graph=self._graph,
            is_rebuilt=False,
            look=unmodified,
            schedule=self._schedule,
            watch=self.watch,
            remarks=self._remarks,
        )
        if self._single_thread is not self.loader:
            try:
                loader, slot = self._single_thread, self._schedule.slot(1.0, END_FRACTION)
                start = partial(take_first_look, loader, self.clock, UNWATCHED, slot.until_s)
                look = call_within(start, slot.remaining_s())
                # The watchdog would blame the loader for a variant that hangs.
                rebuilt = replace(run, loader=loader, is_rebuilt=True, look=look, watch=UNWATCHED)
                return rebuilt, rebuilt.measure()
            except Exception as error:  # noqa: BLE001  # then the loader is measured as it is
                why = describe_error(error)
                self._remarks.append(
                    f"the loader does not run in one thread ({why}): it was diagnosed as it is"
                )
        return run, run.measure()

    def _measure_variants(self, *, can_add_workers: bool) -> SideBlocks:
        variants = dict[str, LoaderFactory]()
        # If reads wait, workers are not the limit: save the time for trying other reads.
        if not self._reads_wait:
            if self._graph.nodes and count_workers(self._graph):
                variants[Side.TINY_PAYLOAD] = with_tiny_payload(self.loader, self._graph)
            elif can_add_workers and not count_workers(self._graph):
                variants[Side.ONE_WORKER] = self._with_workers(1)
        slot = self._schedule.slot(_VARIANTS_BUDGET_FRACTION, _VARIANTS_END_FRACTION)
        turns = self._measure_in_turns(variants, slot, "the unmodified loader")
        return require_side(Side.UNMODIFIED, turns)

    def _try_change(self, changes: Sequence[Change], evidence: Evidence) -> Verification | str:
        """Return the measured effect of the change that is chosen, or why none was tried."""
        if not evidence.is_rebuilt:
            return "only a Grain pipeline rebuilt to run in one thread can be changed"
        load_s, ablated = evidence.load_s, self._build_ablated(evidence.times)
        change = choose_change(changes, load_s.median, self.request.step_s, ablated)
        if change is None:
            return "no change that can be tried is predicted to help"
        slot, turns = self._schedule.slot(_TRIAL_BUDGET_FRACTION), SideBlocks()
        cost_s = self._estimate_cost_s(self._choose_block_s(slot, sides=2))
        if 2 * MIN_ROUNDS * cost_s <= slot.remaining_s():
            changed = {change.name: self._build_changed(change, ablated)}
            turns = self._measure_in_turns(changed, slot, f"trying {change.name}")
        if turns.has(change.name, Side.UNMODIFIED):
            return verify(change, turns, load_s)
        why = turns.why_missing(change.name, Side.UNMODIFIED)
        advice = "; give a larger --budget" if why == NO_TIME else ""
        self._remarks.append(f"{change.name} could not be tried: {why}{advice}")
        return why

    def _build_changed(self, change: Change, ablated: Mapping[int, LoaderFactory]) -> LoaderFactory:
        if change.stage is not None:
            return ablated[change.stage]
        if change.workers == 0:
            return self._single_thread
        if change.workers is not None:
            return self._with_workers(change.workers)
        threads = change.threads or 0
        buffer = max(count_read_buffer(self._graph), READ_AHEAD * threads) if threads else None
        variant = Variant(read_threads=threads, read_buffer=buffer)
        return lambda: build_variant(self.loader, variant)

    def _with_workers(self, workers: int) -> LoaderFactory:
        return with_workers(self.loader, self._graph, workers, keeps_threads=self._reads_wait)

    def _build_ablated(self, times: Sequence[StageTime]) -> dict[int, LoaderFactory]:
        """Return loaders that each lack one of the costliest stages, by the stage's index."""
        ablated = dict[int, LoaderFactory]()
        for index, stage in enumerate(times[:MAX_STAGES]):
            # The receiver frees the shared memory of a worker's batch, so it cannot be resent.
            if stage.node is None or (stage.node.in_worker and stage.node.kind == "Batch"):
                continue
            with note_failure(self._remarks, f"{stage.name} could not be left out"):
                if loader := without_stage(self.loader, stage.node.id):
                    ablated[index] = loader
        return ablated

    def _measure_in_turns(
        self, variants: Mapping[str, LoaderFactory], slot: TimeSlot, name: str
    ) -> SideBlocks:
        """Measure the variants in turns with the unmodified loader; `name` labels the progress."""

        def measure(side: str, loader: LoaderFactory) -> Block:
            watch = self.watch if side == Side.UNMODIFIED else UNWATCHED
            # Start anew for each block, so that the buffers are empty.
            with closing(PullingThread(loader, slot.clock, watch, slot.until_s)) as thread:
                return measure_block([thread], block_s)

        loaders = {Side.UNMODIFIED: self.loader, **variants}
        block_s = self._choose_block_s(slot, len(loaders))
        sides = {side: partial(measure, side, loader) for side, loader in loaders.items()}
        progress, cost_s = self._schedule.progress(name), self._estimate_cost_s(block_s)
        return measure_in_turns(sides, slot, progress, cost_s, Side.UNMODIFIED)

    def _choose_block_s(self, slot: TimeSlot, sides: int) -> float:
        """Return the seconds to pull for a block: an equal share of the budget, within bounds."""
        share_s = slot.budget_s / (_ROUNDS * sides) - self._look.start_s
        wanted_s = max(_MIN_BLOCK_S, _MIN_BATCHES * self._look.batch_s, share_s)
        fitting_s = slot.remaining_s() / MIN_ROUNDS - self._look.start_s
        return min(wanted_s, max(_MIN_BLOCK_S, fitting_s))

    def _estimate_cost_s(self, block_s: float) -> float:
        """Return the seconds of a block, including start and warm-up."""
        return self._look.start_s + _WARM_UP_FACTOR * block_s

    def _note_skipped(self, interventions: Sequence[Intervention]) -> None:
        """Add a remark about interventions that were skipped for lack of time."""
        skipped = [effect.what for effect in interventions if effect.says == NOT_MADE + NO_TIME]
        if skipped:
            names = ", ".join(skipped)
            self._remarks.append(f"not tried for lack of time: {names}; give a larger --budget")
