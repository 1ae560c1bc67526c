"""One reading of a loader: digests of its batches, kept even if it fails or hangs."""

from dataclasses import dataclass
from math import inf
from typing import Final

from netpipe.clock import Clock
from netpipe.errors import HangError
from netpipe.linting.experiments.batch_digest import digest, element_count
from netpipe.linting.experiments.variants import open_iterator
from netpipe.measuring.loader_puller import LoaderFactory
from netpipe.session.bounded_calls import call_within, summarize_error

# For closing a loader: Grain gives a worker 5 s to end.
_CLOSING_S: Final = 6.0
# For the first batch: workers start anew for every run.
_STARTING_S: Final = 6.0
# For a batch that is being made when the time is over.
_LATE_S: Final = 1.0


@dataclass(frozen=True)
class Run:
    """What one reading of a loader gave.

    Attributes:
        digests: One for each batch.
        elements: In all batches together.
        whole: Whether the data came to their end.
        failure: What the loader raised; "" when it did not fail.
        hung: Whether the loader was still waited for when it was abandoned.
        start_s: Seconds to the first batch: workers start anew for every run.
        skipped: Whether there was no time left for it.
    """

    digests: tuple[bytes, ...]
    elements: int
    whole: bool
    failure: str = ""
    hung: bool = False
    start_s: float = 0.0
    skipped: bool = False

    def same_until(self, other: "Run") -> float:
        """Return the number of batches before the first difference; infinite if none is seen."""
        own, others = len(self.digests), len(other.digests)
        pairs = zip(self.digests, other.digests, strict=False)
        differing = (place for place, (this, that) in enumerate(pairs) if this != that)
        ends = (self.whole and own < others) or (other.whole and others < own)
        return next(differing, min(own, others) if ends else inf)


def read_batches(loader: LoaderFactory, enough: float, limit_s: float, clock: Clock) -> Run:
    """Read a loader's batches and keep a digest of each.

    Args:
        loader: Makes the loader.
        enough: Batches to read, at least 1.
        limit_s: Seconds from the first batch after which to stop. A loader that does not stop soon
            after is killed.
        clock: Seconds.

    Returns:
        What was read until then, and what the loader raised.
    """
    reading = _Reading(clock, limit_s)
    failure, hung = "", False
    try:
        call_within(lambda: reading.read(loader, enough), limit_s, reading.grace_s)
    except HangError:
        hung = not reading.closing
    except Exception as error:  # noqa: BLE001  # the user's code may raise anything
        failure = summarize_error(error)
    return Run(
        tuple(reading.digests), reading.elements, reading.whole, failure, hung, reading.start_s
    )


class _Reading:
    """What was read so far, available even if the loader hangs."""

    def __init__(self, clock: Clock, limit_s: float) -> None:
        self._clock = clock
        self._limit_s = limit_s
        self.digests: list[bytes] = []
        self.elements = 0
        self.start_s = 0.0
        self.whole = self.closing = False

    def grace_s(self) -> float:
        """Return the seconds that the running operation may take beyond the limit."""
        if self.closing:
            return _CLOSING_S
        return self.start_s + _LATE_S if self.digests else _STARTING_S

    def read(self, loader: LoaderFactory, enough: float) -> None:
        """Read until there are enough batches, the time is over, or the data end."""
        asked_s = self._clock()
        with open_iterator(loader()) as batches:
            for batch in batches:
                if not self.digests:
                    self.start_s = self._clock() - asked_s
                self.elements += element_count(batch)
                self.digests.append(digest(batch))
                took_s = self._clock() - asked_s - self.start_s
                if len(self.digests) >= enough or took_s > self._limit_s:
                    break
            else:
                self.whole = True
            # Not in a finally: reading raises when workers that hang are killed.
            self.closing = True
