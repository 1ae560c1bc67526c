"""Predicts whether each change helps, and chooses the one to try. Arithmetic only."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from statistics import median
from typing import Final

from netpipe.diagnosis.cost_model import Evidence, LoaderModel, build_model, remove_stage
from netpipe.diagnosis.diagnosis import Prediction, Verification
from netpipe.diagnosis.experiments.read_scaling import LEVELS
from netpipe.diagnosis.experiments.stage_times import StageTime
from netpipe.diagnosis.experiments.turns import Side
from netpipe.grain_access.loader_variants import count_threads, count_workers
from netpipe.results.units import format_count
from netpipe.verdict.worker_sizing import enough_workers

WORKERS: Final = "workers"
WITHOUT_STAGE: Final = "without-stage"
NO_THREADS: Final = "no-threads"
READS: Final = "reads-in-flight"
FASTER: Final = "faster"

# A change counts as faster if the ratio of the load times is below this.
_FASTER_BELOW: Final = 0.95
# The fewest reads in flight within this factor of the best load time are enough.
_NEAR_BEST: Final = 1.1
_MAX_LISTED_WORKERS: Final = 4
_MAX_WORKERS: Final = 64
MAX_STAGES: Final = 2


@dataclass(frozen=True)
class MeasuredLoader:
    """A loader's model, and its measured seconds per batch."""

    model: LoaderModel
    s_per_batch: float

    def load_s(self, changed: LoaderModel) -> float:
        """Return the seconds per batch that the model predicts after a change."""
        return self.s_per_batch * changed.s_per_batch() / self.model.s_per_batch()

    def gain_fraction(self, stage: int) -> float:
        """Return the fraction of the load time that removing a stage saves, according to the model.

        Time that no stage accounts for, such as late wake-ups, is not saved.
        """
        model_s = self.model.s_per_batch()
        saved_s = model_s - remove_stage(self.model, stage).s_per_batch()
        return saved_s / max(model_s, self.s_per_batch)


def model_loader(evidence: Evidence, side: str = Side.UNMODIFIED) -> MeasuredLoader:
    """Return the unmodified loader, or the loader with one worker, together with its model."""
    return MeasuredLoader(
        build_model(evidence, side), _load_s(evidence, evidence.variants.s_per_batch(side))
    )


def find_faster_alone(evidence: Evidence) -> float | None:
    """Return the seconds per batch in one thread, without workers and reader threads.

    None if the loader has neither, or is not clearly slower with them.
    """
    has_any = count_threads(evidence.graph) > 0 or count_workers(evidence.graph) > 0
    if not (evidence.is_rebuilt and has_any):
        return None
    unmodified_s = evidence.variants.interval(Side.UNMODIFIED)
    if evidence.scaling.interval(Side.SINGLE_THREAD).high >= unmodified_s.low:
        return None
    return _load_alone_s(evidence)


def _load_alone_s(evidence: Evidence) -> float:
    return _load_s(evidence, evidence.scaling.s_per_batch(Side.SINGLE_THREAD))


def _load_s(evidence: Evidence, rounds_s: Sequence[float]) -> float:
    # Every report states the same load time; these rounds only provide the ratio to it.
    unmodified_s = median(evidence.variants.s_per_batch(Side.UNMODIFIED))
    return evidence.load_s.median * median(rounds_s) / unmodified_s


@dataclass(frozen=True)
class Change:
    """A change to a loader, and the expected seconds per batch.

    `workers`, and the reader `threads` of each process, are the numbers after the change, or None
    if unchanged. `stage` is the index of the stage that the change removes.
    """

    name: str
    kind: str
    load_s: float
    workers: int | None = None
    stage: int | None = None
    threads: int | None = None

    def predict(self, load_s: float) -> Prediction:
        """Predict whether the change is faster or slower than the current `load_s` per batch."""
        expected = "unclear"
        if self.load_s < _FASTER_BELOW * load_s:
            expected = FASTER
        elif self.load_s > load_s / _FASTER_BELOW:
            expected = "slower"
        return Prediction(self.name, self.kind, expected)


def list_changes(
    loader: MeasuredLoader,
    one_worker: MeasuredLoader | None,
    times: Sequence[StageTime],
    step_s: float | None,
    alone_s: float | None = None,
) -> Iterator[Change]:
    """Yield the changes that could be made to a loader.

    `one_worker` is the loader with one worker, if it has no workers and one was measured.
    `alone_s` is the time of a batch in one thread, if that is clearly faster.
    """
    if alone_s is not None and loader.model.workers:
        name = "no workers" + " and no reader threads" * (loader.model.threads > 0)
        yield Change(name, WORKERS, alone_s, workers=0)
    elif alone_s is not None:
        name = "no reader threads (grain.ReadOptions(num_threads=0))"
        yield Change(name, NO_THREADS, alone_s, threads=0)
    yield from _read_changes(loader)
    yield from _worker_changes(one_worker or loader, loader.model.workers, step_s)
    for index, stage in enumerate(times[:MAX_STAGES]):
        free_s = loader.s_per_batch * (1 - loader.gain_fraction(index))
        yield Change(f"{stage.name} at no cost", WITHOUT_STAGE, free_s, stage=index)


def _read_changes(loader: MeasuredLoader) -> Iterator[Change]:
    """Yield changes to the number of reads in flight."""
    model = loader.model
    if model.reads is None:
        return
    processes = max(1, model.workers)
    for threads in dict.fromkeys(ceil(in_flight / processes) for in_flight in LEVELS):
        name = f"{threads * processes} reads in flight (grain.ReadOptions(num_threads={threads}))"
        if threads != model.threads:
            changed_s = loader.load_s(replace(model, threads=threads))
            yield Change(name, READS, changed_s, threads=threads)


def _worker_changes(base: MeasuredLoader, now: int, step_s: float | None) -> Iterator[Change]:
    def change_to(count: int) -> Change:
        load_s = base.load_s(replace(base.model, workers=count))
        return Change(format_count(count, "worker"), WORKERS, load_s, workers=count)

    counts = range(1, _MAX_WORKERS + 1)
    enough = next((count for count in counts if _keeps_fed(change_to(count).load_s, step_s)), 0)
    listed = {*range(1, _MAX_LISTED_WORKERS + 1), now + 1, 2 * now, enough}
    yield from map(change_to, sorted(listed - {0, now}))


def find_enough_workers(
    changes: Sequence[Change],
    evidence: Evidence,
    step_s: float | None,
    tried: Verification | None,
) -> int | None:
    """Return the fewest workers that keep the step fed, 0 for none; None if that is not known.

    The time of a change that was `tried` counts instead of its prediction.
    """
    tried_s = {tried.change: tried.measured_s_per_batch.median} if tried else {}
    load_s = {
        each.workers: tried_s.get(each.name, each.load_s)
        for each in changes
        if each.workers is not None
    }
    if evidence.is_rebuilt:
        load_s.setdefault(0, _load_alone_s(evidence))
    load_s[count_workers(evidence.graph)] = evidence.load_s.median
    return min((count for count in load_s if _keeps_fed(load_s[count], step_s)), default=None)


def _keeps_fed(load_s: float, step_s: float | None) -> bool:
    """Return whether a loader that takes `load_s` for a batch keeps the step fed."""
    return step_s is not None and enough_workers(load_s, step_s) <= 1


def choose_change(
    changes: Sequence[Change], load_s: float, step_s: float | None, removable: Collection[int]
) -> Change | None:
    """Return the first helpful change to threads, reads, workers (enough first) or stages."""
    helpful = [change for change in changes if change.predict(load_s).expected == FASTER]
    workers = [change for change in helpful if change.kind == WORKERS]
    threads = [change for change in helpful if change.kind == NO_THREADS]
    reads = [change for change in helpful if change.kind == READS]
    near_best_s = _NEAR_BEST * min((change.load_s for change in reads), default=0.0)
    few_reads = [
        each for each in reads if each.load_s <= near_best_s or _keeps_fed(each.load_s, step_s)
    ]
    stages = [change for change in helpful if change.stage in removable]
    enough = [change for change in workers if _keeps_fed(change.load_s, step_s)]
    return next(iter((*threads, *few_reads, *enough, *workers, *stages)), None)
