"""Predictions of what each change would give, and the choice of the one to try. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Final

import numpy as np

from netpipe.diagnosis.cost_model import (
    LoaderModel,
    with_batch_size,
    with_payload,
    with_stage_times,
    with_workers,
)
from netpipe.diagnosis.diagnosis import Prediction
from netpipe.diagnosis.stage_times import StageTime
from netpipe.results.measurement import Interval

WORKERS: Final = "workers"
WITHOUT_STAGE: Final = "without-stage"
NO_THREADS: Final = "no-threads"
SMALLER_BATCH: Final = "smaller-batch"

MAX_HELPFUL_RATIO: Final = 0.95
"""Of the load time after a change to that before; above, the change is not worth trying."""

_ENOUGH_HEADROOM: Final = 1.25
_MAX_LISTED_WORKERS: Final = 4
_MAX_WORKERS: Final = 64
_MAX_STAGES: Final = 2
_MIN_SENDING_FRACTION: Final = 0.02
_RESAMPLES: Final = 500
_SEED: Final = 0
# The spread of the logarithm of predicted over measured, by its median absolute deviation: 0.08 and
# 0.09 in the two files of trials in perf_tests/studies/diagnosis.
_MODEL_ERROR: Final = 0.09


@dataclass(frozen=True)
class MeasuredLoader:
    """A loader's model, and what the loader really takes.

    Attributes:
        model: Calibrated to the measured loader.
        rounds_s: Seconds per batch of each round.
    """

    model: LoaderModel
    rounds_s: tuple[float, ...]

    @property
    def s_per_batch(self) -> float:
        """The median of the rounds."""
        return median(self.rounds_s)

    def ratio(self, change: Callable[[LoaderModel], LoaderModel]) -> float:
        """Return the load time after a change over that before, by the model."""
        return change(self.model).s_per_batch() / self.model.s_per_batch()

    def predict(self, change: Callable[[LoaderModel], LoaderModel]) -> Interval:
        """Return the seconds per batch after a change.

        The 95% interval is the bootstrap over the rounds, widened by the model's own error.
        """
        ratio = self.ratio(change)
        generator = np.random.default_rng(_SEED)
        resampled = generator.choice(self.rounds_s, (_RESAMPLES, len(self.rounds_s)))
        errors = np.exp(generator.normal(0.0, _MODEL_ERROR if ratio != 1 else 0.0, _RESAMPLES))
        low, high = np.percentile(np.median(resampled, axis=1) * ratio * errors, [2.5, 97.5])
        return Interval(self.s_per_batch * ratio, float(low), float(high), len(self.rounds_s))


@dataclass(frozen=True)
class Change:
    """A change that the model can make.

    Attributes:
        name: "3 workers".
        kind: As in a `Prediction`.
        apply: Makes it to a model.
        base: The measured loader that it is made to.
        workers: Their number after the change; None if it stays.
        place: The place of the stage that the change removes; None for none.
    """

    name: str
    kind: str
    apply: Callable[[LoaderModel], LoaderModel]
    base: MeasuredLoader
    workers: int | None = None
    place: int | None = None

    @property
    def predicted_s(self) -> Interval:
        """Seconds per batch after the change."""
        return self.base.predict(self.apply)


def list_changes(
    loader: MeasuredLoader,
    one_worker: MeasuredLoader | None,
    times: Sequence[StageTime],
    step_s: float | None,
    single_thread: MeasuredLoader | None = None,
) -> list[Change]:
    """Return the changes that could be made.

    Args:
        loader: The unmodified loader.
        one_worker: The same with one worker, if it has none and that was measured.
        times: Its stages, the largest first.
        step_s: Seconds of a step; None without one.
        single_thread: The single-thread run, if it is clearly faster than the unmodified loader
            with its reader threads: it then predicts what leaving out the threads gives.
    """
    name = "no reader threads (grain.ReadOptions(num_threads=0))"
    return [
        *([Change(name, NO_THREADS, lambda model: model, single_thread)] if single_thread else []),
        *_worker_changes(loader, one_worker or loader, step_s),
        *_stage_changes(loader, times),
        *_size_changes(loader),
    ]


def predict_all(changes: Sequence[Change], step_s: float | None) -> tuple[Prediction, ...]:
    """Return the prediction of each change."""
    return tuple(
        Prediction(
            change.name,
            change.kind,
            change.predicted_s,
            # A step on fewer sequences takes another time.
            None if change.kind == SMALLER_BATCH else headroom(change.predicted_s, step_s),
        )
        for change in changes
    )


def headroom(load_s: Interval, step_s: float | None) -> Interval | None:
    """Return the step time over the load time."""
    if step_s is None:
        return None
    low = step_s / load_s.high if load_s.high > 0 else 0.0
    high = step_s / load_s.low if load_s.low > 0 else float("inf")
    return Interval(step_s / load_s.median, low, high, load_s.n)


def choose_change(
    changes: Sequence[Change], load_s: float, step_s: float | None, removable: Sequence[int]
) -> Change | None:
    """Return the change to try: no threads, else enough workers, more workers, a stage less."""
    helpful = [
        change for change in changes if change.predicted_s.median < MAX_HELPFUL_RATIO * load_s
    ]
    workers = [change for change in helpful if change.kind == WORKERS]
    threads = [change for change in helpful if change.kind == NO_THREADS]
    stages = [change for change in helpful if change.place in removable]
    enough = [
        change
        for change in workers
        if step_s and step_s / change.predicted_s.median >= _ENOUGH_HEADROOM
    ]
    return next(iter((*threads, *enough, *workers, *stages)), None)


def _worker_changes(
    loader: MeasuredLoader, base: MeasuredLoader, step_s: float | None
) -> Iterator[Change]:
    now = loader.model.workers
    listed = {*range(1, _MAX_LISTED_WORKERS + 1), now + 1, 2 * now, _enough_workers(base, step_s)}
    for count in sorted(listed - {0, now}):
        apply = partial(with_workers, workers=count)
        yield Change(f"{count} worker{'s' * (count > 1)}", WORKERS, apply, base, workers=count)


def _enough_workers(base: MeasuredLoader, step_s: float | None) -> int:
    """Return the fewest workers that feed the step with room to spare; 0 if none do."""
    for count in range(1, _MAX_WORKERS + 1) if step_s else ():
        load_s = base.s_per_batch * base.ratio(partial(with_workers, workers=count))
        if step_s and step_s / load_s >= _ENOUGH_HEADROOM:
            return count
    return 0


def _stage_changes(loader: MeasuredLoader, times: Sequence[StageTime]) -> Iterator[Change]:
    for place, stage in enumerate(times[:_MAX_STAGES]):
        faster = partial(with_stage_times, place=place, factor=0.5)
        free = partial(with_stage_times, place=place, factor=0.0)
        yield Change(f"{stage.name} twice as fast", "faster-stage", faster, loader)
        yield Change(f"{stage.name} at no cost", WITHOUT_STAGE, free, loader, place=place)


def _size_changes(loader: MeasuredLoader) -> Iterator[Change]:
    half_size = partial(with_batch_size, factor=0.5)
    yield Change("batches of half the size", SMALLER_BATCH, half_size, loader)
    sending_s = loader.model.payload_send_s + loader.model.payload_receive_s
    if sending_s > _MIN_SENDING_FRACTION * loader.s_per_batch:
        half, none = (partial(with_payload, factor=factor) for factor in (0.5, 0.0))
        yield Change("half the bytes a batch", "narrower-dtype", half, loader)
        yield Change("nothing sent between processes", "no-transfer", none, loader)
