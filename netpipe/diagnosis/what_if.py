"""Predicts the effect of each change, and chooses the one to try. Arithmetic only."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, exp, hypot, inf, isfinite, log
from statistics import median
from typing import Final

from netpipe.diagnosis.cost_model import (
    Evidence,
    LoaderModel,
    build_model,
    with_batch_size,
    with_payload,
    with_stage_times,
)
from netpipe.diagnosis.diagnosis import Prediction
from netpipe.diagnosis.experiments.read_scaling import LEVELS
from netpipe.diagnosis.experiments.stage_times import StageTime
from netpipe.diagnosis.experiments.turns import Side, divide, log_interval
from netpipe.grain_access.dataset_variants import READ_AHEAD
from netpipe.grain_access.loader_variants import count_threads, count_workers
from netpipe.results.measurement import Interval
from netpipe.verdict.worker_sizing import enough_workers

WORKERS: Final = "workers"
WITHOUT_STAGE: Final = "without-stage"
NO_THREADS: Final = "no-threads"
READS: Final = "reads-in-flight"
LARGER_RECORDS: Final = "larger-records"
SMALLER_BATCH: Final = "smaller-batch"

MAX_HELPFUL_RATIO: Final = 0.95
"""Largest load time after a change, over that before, for the change to be worth trying."""

# More reads in flight that gain less than this are not worth their threads.
_NEAR_BEST: Final = 1.1
_LARGER_RECORDS: Final = 8
_MAX_LISTED_WORKERS: Final = 4
_MAX_WORKERS: Final = 64
_MAX_STAGES: Final = 2
_MIN_SENDING_FRACTION: Final = 0.02
# Largest logarithm of predicted over measured in 95% of the trials of each kind in
# perf_tests/studies/diagnosis, beyond the spread of the rounds.
_MODEL_ERRORS: Final = {READS: 0.55, WORKERS: 0.30, WITHOUT_STAGE: 0.40}
_OTHER_MODEL_ERROR: Final = max(_MODEL_ERRORS.values())


@dataclass(frozen=True)
class MeasuredLoader:
    """A loader's model, calibrated to it, and the seconds per batch of each round."""

    model: LoaderModel
    rounds_s: tuple[float, ...]

    @property
    def s_per_batch(self) -> float:
        """The median of the rounds."""
        return median(self.rounds_s)

    def ratio(self, changed: LoaderModel) -> float:
        """Return the load time after a change over that before, by the model."""
        return changed.s_per_batch() / self.model.s_per_batch()

    def predict(self, changed: LoaderModel, kind: str) -> Interval:
        """Return the seconds per batch after a change.

        The 95% interval combines Student's interval of the rounds with the error of the model.
        """
        rounds, middle_s = log_interval(self.rounds_s), self.s_per_batch * self.ratio(changed)
        if not isfinite(rounds.high):
            return Interval(middle_s, 0.0, inf, rounds.n)
        model_error = _MODEL_ERRORS.get(kind, _OTHER_MODEL_ERROR)
        factor = exp(hypot(log(rounds.high / rounds.low) / 2, model_error))
        return Interval(middle_s, middle_s / factor, middle_s * factor, rounds.n)


def model_loader(evidence: Evidence, side: str = Side.UNMODIFIED) -> MeasuredLoader:
    """Return the unmodified loader with its model, or the loader with one worker."""
    rounds_s = evidence.variants.s_per_batch(side)
    model = build_model(evidence, side).calibrated_to(median(rounds_s))
    return MeasuredLoader(model, _scale_rounds(evidence, rounds_s))


def model_without_threads(evidence: Evidence, loader: MeasuredLoader) -> MeasuredLoader | None:
    """Return the single-thread run if it clearly beats reader threads in this process."""
    has_own_threads = count_threads(evidence.graph) > 0 and not count_workers(evidence.graph)
    if not (evidence.is_rebuilt and has_own_threads):
        return None
    unmodified_s = evidence.variants.interval(Side.UNMODIFIED)
    if evidence.scaling.interval(Side.SINGLE_THREAD).high >= unmodified_s.low:
        return None
    rounds_s = evidence.scaling.s_per_batch(Side.SINGLE_THREAD)
    return MeasuredLoader(loader.model, _scale_rounds(evidence, rounds_s))


def _scale_rounds(evidence: Evidence, rounds_s: Sequence[float]) -> tuple[float, ...]:
    # Reports state one load time; the rounds give only the ratios to it.
    factor = evidence.load_s.median / median(evidence.variants.s_per_batch(Side.UNMODIFIED))
    return tuple(factor * round_s for round_s in rounds_s)


@dataclass(frozen=True)
class Change:
    """A change that the model can make to a measured loader.

    `workers`, and the reader `threads` of each process, are the numbers after the change; None if
    the number stays. `stage` is the index of the stage that the change removes.
    """

    name: str
    kind: str
    changed: LoaderModel
    base: MeasuredLoader
    workers: int | None = None
    stage: int | None = None
    threads: int | None = None

    def predict(self, step_s: float | None = None) -> Prediction:
        """Return the prediction, with the headroom unless the change alters the step time."""
        load_s = self.base.predict(self.changed, self.kind)
        if step_s is None or self.kind == SMALLER_BATCH:
            return Prediction(self.name, self.kind, load_s)
        return Prediction(self.name, self.kind, load_s, divide(step_s, load_s))

    @property
    def load_s(self) -> float:
        """The predicted seconds per batch."""
        return self.base.s_per_batch * self.base.ratio(self.changed)


def list_changes(
    loader: MeasuredLoader,
    one_worker: MeasuredLoader | None,
    times: Sequence[StageTime],
    step_s: float | None,
    single_thread: MeasuredLoader | None = None,
) -> Iterator[Change]:
    """Yield the changes that could be made to a loader.

    `one_worker` is the loader with one worker, if it has none and that was measured.
    `single_thread` is the single-thread run, if it clearly beats the loader's reader threads.
    """
    if single_thread:
        name = "no reader threads (grain.ReadOptions(num_threads=0))"
        yield Change(name, NO_THREADS, single_thread.model, single_thread, threads=0)
    yield from _read_changes(loader)
    yield from _worker_changes(one_worker or loader, loader.model.workers, step_s)
    for index, stage in enumerate(times[:_MAX_STAGES]):
        faster, free = (with_stage_times(loader.model, index, factor) for factor in (0.5, 0.0))
        yield Change(f"{stage.name} twice as fast", "faster-stage", faster, loader)
        yield Change(f"{stage.name} at no cost", WITHOUT_STAGE, free, loader, stage=index)
    half_size = with_batch_size(loader.model, 0.5)
    yield Change("batches of half the size", SMALLER_BATCH, half_size, loader)
    sending_s = loader.model.payload_send_s + loader.model.payload_receive_s
    if sending_s > _MIN_SENDING_FRACTION * loader.s_per_batch:
        half, nothing = (with_payload(loader.model, factor) for factor in (0.5, 0.0))
        yield Change("half the bytes a batch", "narrower-dtype", half, loader)
        yield Change("nothing sent between processes", "no-transfer", nothing, loader)


def _read_changes(loader: MeasuredLoader) -> Iterator[Change]:
    """Yield other numbers of reads in flight, and larger records."""
    model = loader.model
    if model.reads is None:
        return
    processes = max(1, model.workers)
    for in_flight in LEVELS:
        threads = ceil(in_flight / processes)
        name = f"{threads * processes} reads in flight (grain.ReadOptions(num_threads={threads}))"
        changed = replace(
            model, threads=threads, read_buffer=max(model.read_buffer, READ_AHEAD * threads)
        )
        if threads != model.threads:
            yield Change(name, READS, changed, loader, threads=threads)
    if factor := model.reads.larger_records_factor(_LARGER_RECORDS):
        stages = tuple((cost.with_waiting(factor), in_worker) for cost, in_worker in model.stages)
        name = f"records of {_LARGER_RECORDS} times the size"
        yield Change(name, LARGER_RECORDS, replace(model, stages=stages), loader)


def _worker_changes(base: MeasuredLoader, now: int, step_s: float | None) -> Iterator[Change]:
    def change_to(count: int) -> Change:
        changed = replace(base.model, workers=count)
        return Change(f"{count} worker{'s' * (count > 1)}", WORKERS, changed, base, workers=count)

    counts = range(1, _MAX_WORKERS + 1)
    enough = next((count for count in counts if _keeps_fed(change_to(count), step_s)), 0)
    listed = {*range(1, _MAX_LISTED_WORKERS + 1), now + 1, 2 * now, enough}
    yield from map(change_to, sorted(listed - {0, now}))


def _keeps_fed(change: Change, step_s: float | None) -> bool:
    """Return whether the changed loader keeps the step fed."""
    return step_s is not None and enough_workers(change.load_s, step_s) <= 1


def choose_change(
    changes: Sequence[Change], load_s: float, step_s: float | None, removable: Collection[int]
) -> Change | None:
    """Return the first that helps: other threads, enough workers, more workers, one stage fewer."""
    helpful = [change for change in changes if change.load_s < MAX_HELPFUL_RATIO * load_s]
    workers = [change for change in helpful if change.kind == WORKERS]
    threads = [change for change in helpful if change.kind == NO_THREADS]
    reads = [change for change in helpful if change.kind == READS]
    near_best_s = _NEAR_BEST * min((change.load_s for change in reads), default=0.0)
    few_reads = [each for each in reads if each.load_s <= near_best_s or _keeps_fed(each, step_s)]
    stages = [change for change in helpful if change.stage in removable]
    enough = [change for change in workers if _keeps_fed(change, step_s)]
    return next(iter((*threads, *few_reads, *enough, *workers, *stages)), None)
