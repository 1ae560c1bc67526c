"""Runs a loader, and keeps the digests of its batches even if it fails or hangs."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from math import inf
from typing import Final

from netpipe.clock import Clock
from netpipe.errors import HangError
from netpipe.grain_access.batch_digests import digest
from netpipe.grain_access.dataset_variants import open_iterator
from netpipe.jobs.bounded_calls import call_within, summarize_error
from netpipe.jobs.targets import LoaderFactory

# Workers start for every run, and Grain gives each of them 5 s to end.
_GRACE_S: Final = 6.0


@dataclass(frozen=True)
class Run:
    """The batches that a loader gave.

    Attributes:
        failure: Words that follow "the loader"; "" if it did not fail.
        hung: Whether the loader was abandoned while a batch was due.
    """

    digests: tuple[bytes, ...] = ()
    elements: int = 0
    whole: bool = False
    failure: str = ""
    hung: bool = False
    start_s: float = 0.0

    def same_until(self, other: "Run") -> float:
        """Return the number of batches before the first difference; infinite if none is seen."""
        own, others = len(self.digests), len(other.digests)
        for number, (this, that) in enumerate(zip(self.digests, other.digests, strict=False)):
            if this != that:
                return number
        ends = (self.whole and own < others) or (other.whole and others < own)
        return min(own, others) if ends else inf


def read_batches(loader: LoaderFactory, max_batches: float, limit_s: float, clock: Clock) -> Run:
    """Read at least one batch, until `max_batches`, the end of the data or the limit.

    The limit counts from the first batch. A loader that overruns it is soon killed.
    """
    digests: list[bytes] = []
    elements, start_s = 0, 0.0
    whole = is_closing = hung = False
    failure = ""

    def read() -> None:
        nonlocal elements, start_s, whole, is_closing
        asked_s = clock()
        with open_iterator(loader()) as batches:
            for batch in batches:
                if not digests:
                    start_s = clock() - asked_s
                elements += element_count(batch)
                digests.append(digest(batch))
                if len(digests) >= max_batches or clock() - asked_s - start_s > limit_s:
                    break
            else:
                whole = True
            # Not in a `finally` block: killing workers that hang makes reading raise an error.
            is_closing = True

    try:
        call_within(read, limit_s, lambda: start_s + _GRACE_S)
    except HangError:
        hung = not is_closing
    except Exception as error:  # noqa: BLE001  # the user's code may raise anything
        failure = f"failed: {summarize_error(error)}"
    return Run(tuple(digests), elements, whole, failure, hung, start_s)


def element_count(batch: object) -> int:
    """Return the number of elements in a batch: the largest leading dimension of its leaves.

    The items of a list count, because ragged batches are lists; a scalar or empty batch has one.
    """
    return max(1, _leading(batch))


def _leading(value: object) -> int:
    if isinstance(value, list):
        return len(value)
    if isinstance(value, Mapping):
        return max(map(_leading, value.values()), default=0)
    if isinstance(value, tuple):
        return max(map(_leading, value), default=0)
    if is_dataclass(value):
        return max((_leading(getattr(value, field.name, ())) for field in fields(value)), default=0)
    shape = getattr(value, "shape", ())
    return int(shape[0]) if shape else 1
