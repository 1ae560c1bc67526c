"""Whether another order is as well shuffled as that of the base. Pure."""

from collections.abc import Mapping, Sequence
from itertools import count

import numpy as np

from netpipe.judge.judgement import NOT_COMPARED, Check
from netpipe.judge.reading import FIRST, SECOND, Reading
from netpipe.judge.same_data import list_places
from netpipe.judge.shuffling import compare_shuffles, describe_shuffle


def check_shuffled(now: Reading, then: Reading, source: Reading) -> Check:
    """Say whether this version shuffles worse than the base.

    `source` is an epoch of the base without shuffles.
    """
    readings, places = (then, now), list_places(source.epoch)
    known = [_list_elements(each) for each in readings]
    if all(known) and all(one == other for one, other in zip(*known, strict=False)):
        return Check("shuffled", "NO_WORSE", "in the same order")
    if not all(each.epoch and places.keys() >= {*_list_elements(each)} for each in readings):
        why = "the order without a shuffle is not known for all elements"
        return Check("shuffled", NOT_COMPARED, why)
    orders = (_find_order(each, places) for each in readings)
    found = compare_shuffles(*(describe_shuffle(each, len(source.epoch)) for each in orders))
    return Check("shuffled", found.outcome, found.reason)


def _list_elements(reading: Reading) -> list[str]:
    """Return the elements of at least one epoch, in the order in which they come."""
    both = (reading.passes[name] for name in (FIRST, SECOND) if name in reading.passes)
    return [element for each in both for element in each.elements]


def _find_order(reading: Reading, places: Mapping[str, Sequence[int]]) -> list[list[np.ndarray]]:
    """Return the places in the source of one or two epochs' elements, in batches."""
    elements, length = _list_elements(reading), len(reading.epoch)
    size, epochs = max(map(len, reading.passes[FIRST].rows)), list[list[np.ndarray]]()
    for start in range(0, min(2, len(elements) // length) * length, length):
        # Equal elements have the places in turn.
        numbers = {element: count() for element in places}
        found = [
            known[min(next(numbers[element]), len(known) - 1)]
            for element in elements[start : start + length]
            for known in (places[element],)
        ]
        epochs.append([np.array(found[at : at + size]) for at in range(0, length, size)])
    return epochs
