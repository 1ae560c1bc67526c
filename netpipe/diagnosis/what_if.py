"""What each change would give, and which one is worth trying. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from netpipe.diagnosis.cost_model import (
    Parts,
    scaled,
    with_payload,
    with_stage_times,
    with_workers,
)
from netpipe.diagnosis.diagnosis import Prediction
from netpipe.diagnosis.prediction import Known, predicted
from netpipe.diagnosis.stage_times import StageTime
from netpipe.results.measurement import Interval

WORKERS: Final = "workers"
WITHOUT_STAGE: Final = "without-stage"
NO_THREADS: Final = "no-threads"
SMALLER_BATCH: Final = "smaller-batch"

_FED: Final = 1.25  # headroom that is enough
_LISTED_WORKERS: Final = 4
_MOST_WORKERS: Final = 64
_STAGES: Final = 2
_WORTH: Final = 0.95  # of the time as it is, below which a change is worth trying
_SENT_MATTERS: Final = 0.02  # of the time


@dataclass(frozen=True)
class Change:
    """A change that the model can make.

    Attributes:
        says: In words: "3 workers".
        kind: As of a `Prediction`.
        make: Makes it.
        known: The measured loader that it is made of.
        workers: How many there are then; None where that does not change.
        place: The stage's place in the list that it makes absent; None for none.
    """

    says: str
    kind: str
    make: Callable[[Parts], Parts]
    known: Known
    workers: int | None = None
    place: int | None = None

    @property
    def prediction(self) -> Interval:
        """Seconds of a batch."""
        return predicted(self.known, self.make)


def changes(
    known: Known,
    moved: Known | None,
    times: Sequence[StageTime],
    step_s: float | None,
    one_thread: Known | None = None,
) -> list[Change]:
    """Return what could be changed.

    Args:
        known: The loader as it is.
        moved: The same with one worker, where it has none and that was measured.
        times: Its stages, the largest first.
        step_s: Seconds of a step; None without one.
        one_thread: The single-thread run, where that is clearly faster than the loader as it is
            with its reader threads: what it takes is the prediction.
    """
    says = "no reader threads (grain.ReadOptions(num_threads=0))"
    return [
        *([Change(says, NO_THREADS, lambda parts: parts, one_thread)] if one_thread else []),
        *_of_workers(known, moved or known, step_s),
        *_of_stages(known, times),
        *_of_size(known),
    ]


def predictions(every: Sequence[Change], step_s: float | None) -> tuple[Prediction, ...]:
    """Return what each change would give."""
    return tuple(
        Prediction(
            one.says,
            one.kind,
            one.prediction,
            # A step of fewer sequences is another step.
            None if one.kind == SMALLER_BATCH else headroom(one.prediction, step_s),
        )
        for one in every
    )


def headroom(load_s: Interval, step_s: float | None) -> Interval | None:
    """Return the step's time over that of a batch."""
    if step_s is None:
        return None
    return Interval(
        step_s / load_s.median,
        step_s / load_s.high if load_s.high > 0 else 0.0,
        step_s / load_s.low if load_s.low > 0 else float("inf"),
        load_s.n,
    )


def worth_trying(
    every: Sequence[Change], now_s: float, step_s: float | None, can_omit: Sequence[int]
) -> Change | None:
    """Return the change to try: no threads, the fewest workers that feed the step, or a stage less.

    Args:
        every: What could be changed.
        now_s: Seconds of a batch of the loader as it is.
        step_s: Seconds of a step; None without one.
        can_omit: The places of the stages that can be left out.
    """
    helpful = [one for one in every if one.prediction.median < _WORTH * now_s]
    workers = [one for one in helpful if one.kind == WORKERS]
    threads = [one for one in helpful if one.kind == NO_THREADS]
    stages = [one for one in helpful if one.kind == WITHOUT_STAGE and one.place in can_omit]
    fed = [one for one in workers if step_s and step_s / one.prediction.median >= _FED]
    return next(iter((*threads, *fed, *workers, *stages)), None)


def _of_workers(known: Known, moved: Known, step_s: float | None) -> Iterator[Change]:
    now = known.parts.workers
    counts = {*range(1, _LISTED_WORKERS + 1), now + 1, 2 * now, _enough(moved, step_s)} - {0, now}
    for count in sorted(counts):
        says = f"{count} worker{'s' * (count > 1)}"
        make = partial(with_workers, workers=count)
        yield Change(says, WORKERS, make, moved, workers=count)


def _enough(moved: Known, step_s: float | None) -> int:
    """Return the fewest workers that feed the step with room to spare; 0 if none do."""
    if step_s is None:
        return 0
    for count in range(1, _MOST_WORKERS + 1):
        load_s = moved.s_per_batch * moved.ratio(partial(with_workers, workers=count))
        if step_s / load_s >= _FED:
            return count
    return 0


def _of_stages(known: Known, times: Sequence[StageTime]) -> Iterator[Change]:
    for place, stage in list(enumerate(times))[:_STAGES]:
        faster = partial(with_stage_times, place=place, factor=0.5)
        absent = partial(with_stage_times, place=place, factor=0.0)
        yield Change(f"{stage.name} twice as fast", "faster-stage", faster, known)
        yield Change(f"{stage.name} at no cost", WITHOUT_STAGE, absent, known, place=place)


def _of_size(known: Known) -> Iterator[Change]:
    yield Change("batches of half the size", SMALLER_BATCH, partial(scaled, factor=0.5), known)
    parts = known.parts
    if parts.payload_send_s + parts.payload_receive_s > _SENT_MATTERS * known.s_per_batch:
        half, none = (partial(with_payload, factor=factor) for factor in (0.5, 0.0))
        yield Change("half the bytes a batch", "narrower-dtype", half, known)
        yield Change("nothing sent between processes", "no-transfer", none, known)
