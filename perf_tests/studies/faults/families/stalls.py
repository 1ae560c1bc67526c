"""Loading that is fast enough on average but sometimes late, or nearly too slow."""

from collections.abc import Iterable
from typing import Final

from perf_tests.studies.faults.cases import Case, Range, Values, load_s
from perf_tests.studies.faults.parts.batches import Batch
from perf_tests.studies.faults.parts.delays import RareTail, Steady, Stutter
from perf_tests.studies.faults.parts.grain_loaders import Stages
from perf_tests.studies.faults.parts.loaders import Prefetched, in_main_thread
from perf_tests.studies.faults.planted import PYTHON, TRANSFORM, waits

_JITTER = ("jitter",)
_QUICK = {"step_s": Range(0.010, 0.014), "load_ratio": Range(0.03, 0.08)}
# Longer than the current batch, the queues and the two steps in flight hide together.
_SHORT = {**_QUICK, "pause_ratio": Range(5.5, 7.0), "every": Range(18, 22, whole=True)}
_LONG = {**_QUICK, "pause_ratio": Range(8.0, 9.5), "every": Range(24, 28, whole=True)}


def _stutter(values: Values) -> Stutter:
    return Stutter(
        load_s(values), values["pause_ratio"] * values["step_s"], every=int(values["every"])
    )


_RARE_BUDGET_RATIO = 4.0
_RARE_BUDGET_S = 5.0 * _RARE_BUDGET_RATIO


def _rare_pause(values: Values) -> Iterable[Batch]:
    """Pause so long that training loses `cost` of its time beyond the steps in flight."""
    step_s, cost, depth = values["step_s"], values["cost"], int(values["depth"])
    every = max(8, round((1 - cost) * _RARE_BUDGET_S / values["pauses_in_budget"] / step_s))
    hidden_s = 2 * step_s + depth * (step_s - load_s(values))
    pause_s = cost / (1 - cost) * every * step_s + hidden_s
    batches = in_main_thread(Stutter(load_s(values), pause_s, every))
    return Prefetched(batches, depth) if depth else batches


CASES: Final = (
    Case(
        "periodic-pause",
        "jitter",
        "loading in the trainer's thread pauses now and then, for longer than two steps can hide",
        _JITTER,
        lambda values: in_main_thread(_stutter(values)),
        _SHORT,
        budget_ratio=2.0,
        planted=waits(PYTHON),
    ),
    Case(
        "rare-pause",
        "jitter",
        "a pause that comes four to forty times in the budget costs 8% to 40% of the time",
        ("jitter", "loader-bound"),
        _rare_pause,
        {
            "step_s": Range(0.010, 0.040),
            "load_ratio": Range(0.05, 0.4),
            "cost": Range(0.08, 0.4),
            "pauses_in_budget": Range(4.0, 40.0),
            "depth": Range(0, 6, whole=True),
        },
        why="with long pauses, loading takes longer than the step in the mean",
        budget_ratio=_RARE_BUDGET_RATIO,
        planted=waits(PYTHON),
    ),
    Case(
        "pause-behind-a-short-queue",
        "jitter",
        "a thread that prefetches two batches pauses now and then",
        _JITTER,
        lambda values: Prefetched(in_main_thread(_stutter(values)), depth=2),
        _LONG,
        budget_ratio=2.0,
        planted=waits(PYTHON),
    ),
    Case(
        "pause-in-a-worker",
        "jitter",
        "a Grain worker that buffers one batch opens a slow shard now and then",
        _JITTER,
        lambda values: Stages(transform=_stutter(values), by_batch=True).in_workers(1),
        _LONG,
        budget_ratio=2.0,
        planted=waits(TRANSFORM),
    ),
    Case(
        "heavy-tail",
        "jitter",
        "a batch at random takes several steps, with a Pareto tail",
        _JITTER,
        lambda values: in_main_thread(
            RareTail(
                load_s(values),
                values["pause_ratio"] * values["step_s"],
                values["alpha"],
                values["every"],
            )
        ),
        {
            **_QUICK,
            "step_s": Range(0.008, 0.011),
            "pause_ratio": Range(3.0, 3.6),
            "alpha": Range(4.0, 5.0),
            "every": Range(12.0, 15.0),
        },
        budget_ratio=3.0,
        planted=waits(PYTHON),
    ),
    Case(
        "at-risk",
        "at-risk",
        "loading in the trainer's thread takes nearly as long as a step",
        ("at-risk",),
        lambda values: in_main_thread(Steady(load_s(values))),
        {"step_s": Range(0.018, 0.026), "load_ratio": Range(0.87, 0.94)},
        planted=waits(PYTHON),
    ),
    Case(
        "at-risk-worker",
        "at-risk",
        "one worker process takes nearly as long as a step",
        ("at-risk",),
        lambda values: Stages(transform=Steady(load_s(values)), by_batch=True).in_workers(1),
        {"step_s": Range(0.018, 0.026), "load_ratio": Range(0.87, 0.94)},
        planted=waits(TRANSFORM),
    ),
)
