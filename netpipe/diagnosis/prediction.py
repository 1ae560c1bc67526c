"""Predictions with their intervals: the model, held to what was measured, over resampled rounds."""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Final

import numpy as np

from netpipe.diagnosis.cost_model import Parts
from netpipe.results.measurement import Interval

_DRAWS: Final = 500
_SEED: Final = 0
# The spread of the logarithm of predicted over measured, by its median absolute deviation: 0.08 and
# 0.09 in the two files of trials in perf_tests/studies/diagnosis.
_MODEL_ERROR: Final = 0.09


@dataclass(frozen=True)
class Known:
    """A loader that was measured, with as much of its parts as was.

    Attributes:
        parts: As the model sees it.
        rounds_s: Its seconds a batch, one a round.
    """

    parts: Parts
    rounds_s: tuple[float, ...]

    @property
    def s_per_batch(self) -> float:
        """The median of the rounds."""
        return median(self.rounds_s)

    def ratio(self, change: Callable[[Parts], Parts]) -> float:
        """Return the time after a change over that before it, as the model says."""
        return change(self.parts).s_per_batch() / self.parts.s_per_batch()


def predicted(known: Known, change: Callable[[Parts], Parts]) -> Interval:
    """Return a prediction with its 95% interval: by the bootstrap, and the model's own error.

    Args:
        known: What was measured.
        change: What is changed.
    """
    ratio = known.ratio(change)
    generator = np.random.default_rng(_SEED)
    drawn = generator.choice(known.rounds_s, (_DRAWS, len(known.rounds_s)))
    medians = np.median(drawn, axis=1) * ratio
    errors = np.exp(generator.normal(0.0, _MODEL_ERROR if ratio != 1 else 0.0, _DRAWS))
    low, high = np.percentile(medians * errors, [2.5, 97.5])
    return Interval(known.s_per_batch * ratio, float(low), float(high), len(known.rounds_s))
