"""Which probes train and which evaluate."""

import numpy as np
from numpy.typing import NDArray

from netpipe.data.counter_rng import fold_key, uniform
from netpipe.errors import InputError

EVAL_FRACTION = 0.05
"""The share of probes kept for evaluation, unless told otherwise."""

_SPLIT = 0


def choose_eval(
    probes: NDArray[np.int64], *, seed: int = 0, eval_fraction: float = EVAL_FRACTION
) -> NDArray[np.bool_]:
    """Choose the probes of the eval split, by a hash of the probe and the seed.

    A probe keeps its side whatever other probes there are, unless a side would be empty: then
    the probe nearest to it changes over.

    Args:
        probes: int64 (n,), distinct.
        seed: Another seed makes another choice.
        eval_fraction: The share of probes to expect, between 0 and 1.

    Returns:
        bool (n,), True for eval.

    Raises:
        InputError: The fraction is not one, or there are fewer than two probes.
    """
    check_eval_fraction(eval_fraction)
    if len(probes) < 2:
        way_out = "A column prb_id tells probes apart that share an address"
        raise InputError(
            "split", "probes", "be at least 2, for train and eval", len(probes), way_out
        )
    place = uniform(fold_key(seed, probes), _SPLIT)
    chosen = place < eval_fraction
    chosen[np.argmin(place)] = True
    chosen[np.argmax(place)] = False
    return chosen


def check_eval_fraction(eval_fraction: float) -> None:
    """Raise an InputError for a fraction that leaves a side empty."""
    if not 0 < eval_fraction < 1:
        raise InputError("split", "eval_fraction", "be between 0 and 1", eval_fraction)
