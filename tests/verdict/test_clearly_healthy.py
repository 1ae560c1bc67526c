"""When a verdict is so clear that no more rounds are needed."""

from typing import Any

import pytest

from netpipe.results.step_times import Distributions
from netpipe.verdict.decision import is_clearly_healthy
from tests.measurements import CPU, make_measurement, spread


def is_clear(steps: int = 84, **measured: Any) -> bool:
    """Return whether a fast loader with these other figures is clearly healthy."""
    times = Distributions((0.03,) * 101, (0.0,) * 101, steps)
    return is_clearly_healthy(
        make_measurement(**{"load_s": 0.004, "distributions": times, **measured})
    )


def test_a_fast_loader_is_clearly_healthy() -> None:
    """Intervals far from every limit are clear, even if they are wide."""
    assert is_clear()
    assert is_clear(load_s=spread(0.003, 0.004, 0.010))


@pytest.mark.parametrize(
    "measured",
    [
        {"load_s": 0.015},
        {"load_s": spread(0.003, 0.004, 0.013)},
        {"train_s": spread(0.030, 0.030, 0.033)},
        {"train_s": 0.040},
        {"train_s": spread(0.027, 0.030, 0.030)},
        {"sync_probe_fraction": 0.03},
        {"compiled": (1, *[0] * 8)},
        {"drained": False},
        {"within_epochs": False},
        {"steps": 83},
        {"distributions": None},
        {"device": CPU, "train_s": spread(0.030, 0.030, 0.033)},
    ],
    ids=lambda measured: "-".join(measured),
)
def test_anything_near_a_limit_takes_more_rounds(measured: dict[str, Any]) -> None:
    """A figure near a limit, or too few steps to see a rare pause, is not clear."""
    assert not is_clear(**measured)
