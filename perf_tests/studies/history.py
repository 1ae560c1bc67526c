"""`python -m perf_tests.studies.history`: how often `netpipe history` is wrong about a change.

Nothing is timed: histories are drawn from recorded sessions of unchanged code, and from noise.
"""

from collections.abc import Callable, Iterator, Sequence
from math import log
from typing import Final

import click
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from rich.console import Console

from netpipe.gate.metrics import METRICS
from netpipe.history.change_points import MIN_COMMITS, cut_levels
from netpipe.history.entries import is_steady
from netpipe.results.measurement import Measurement
from perf_tests.studies.gate_power.__main__ import KEPT
from perf_tests.studies.gate_power.live import read_sessions

COMMITS: Final = 200
_DRIFT_BEGINS, _DRIFT_COMMITS, _DRIFT = 100, 20, log(1.03)
# A drift is found if its change lies in it or shortly after it.
_FOUND_WITHIN: Final = range(_DRIFT_BEGINS - 10, _DRIFT_BEGINS + 2 * _DRIFT_COMMITS)
# Recorded sessions are drawn in runs of this many, so that what lasted for several still does.
_BLOCK: Final = 10

Levels = NDArray[np.float64]
Noise = Callable[[Generator, int], Levels]


def recorded_noise(sessions: Sequence[Measurement], name: str) -> Noise:
    """Return a function that draws the levels of a metric from recorded sessions."""
    metric = METRICS[name]
    levels = np.array([metric.level(each) for each in sessions if is_steady(metric, each)])

    def draw(rng: Generator, commits: int) -> Levels:
        starts = rng.integers(len(levels) - _BLOCK + 1, size=(-(-commits // _BLOCK), 1))
        drawn: Levels = levels[(starts + np.arange(_BLOCK)).reshape(-1)[:commits]]
        return drawn

    return draw


def normal_noise(spread: float) -> Noise:
    """Return a function that draws independent levels with a standard deviation."""
    return lambda rng, commits: rng.normal(0, spread, commits)


def _draw_one_of_two(rng: Generator, commits: int) -> Levels:
    return np.where(rng.random(commits) < 0.3, 0.01, 0.0)


def add_drift(levels: Levels) -> Levels:
    """Add a drift of 3% over 20 commits, in the middle."""
    passed = (np.arange(len(levels)) - _DRIFT_BEGINS) / _DRIFT_COMMITS
    drifted: Levels = levels + _DRIFT * np.clip(passed, 0, 1)
    return drifted


def count_alarms(levels: Levels) -> int:
    """Return how many changes a history of unchanged code shows at its end or ever before.

    It is looked at after each commit; a change that moves by a few commits is the same.
    """
    seen: list[int] = []
    for commits in range(MIN_COMMITS, len(levels) + 1):
        cuts = cut_levels(tuple(levels[:commits].tolist()))
        seen += [cut for cut in cuts if all(abs(cut - each) > _BLOCK for each in seen)]
    return len(seen)


def make_rows(sessions: Sequence[Measurement], histories: int) -> Iterator[str]:
    """Yield the rows of a table in Markdown."""
    noises = {
        f"{name}, recorded": recorded_noise(sessions, name)
        for name, metric in METRICS.items()
        if sum(is_steady(metric, each) for each in sessions) > _BLOCK and not metric.is_share
    }
    noises |= {f"normal, {spread:.1%}": normal_noise(spread) for spread in (0.01, 0.015, 0.03)}
    noises["one of two values, 1% apart"] = _draw_one_of_two
    for name, draw in noises.items():
        rng = np.random.default_rng(0)
        alarms = [count_alarms(draw(rng, COMMITS)) for _ in range(histories)]
        drawn = [add_drift(draw(rng, COMMITS)) for _ in range(histories)]
        found = [
            any(cut in _FOUND_WITHIN for cut in cut_levels(tuple(each.tolist()))) for each in drawn
        ]
        spread = np.std(draw(rng, 10 * COMMITS))
        yield (
            f"| {name} | {spread:.1%} | {sum(alarms) / histories:.2f} | "
            f"{sum(found)} of {histories} |"
        )


@click.command()
@click.option("--histories", default=100, show_default=True, help="Histories of each kind.")
def main(histories: int) -> None:
    """Draw histories of 200 commits, and print how many changes are false, and which are found."""
    sessions = [each.measurement for each in read_sessions(KEPT) if not each.slowdown.doses]
    console = Console(soft_wrap=True, highlight=False)
    console.print("| noise | spread | false changes in 200 commits | drifts of 3% found |")
    console.print("|---|--:|--:|--:|")
    for row in make_rows(sessions, histories):
        console.print(row)


if __name__ == "__main__":
    main()
