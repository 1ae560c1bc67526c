"""Reading a loader once: what came of it, batch by batch, even if it fails or hangs."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Final

from netpipe.clock import Clock
from netpipe.errors import HangError
from netpipe.linting.experiments.batch_digest import digest, element_count
from netpipe.linting.experiments.variants import open_iterator
from netpipe.measuring.loader_puller import LoaderFactory
from netpipe.session.bounded_calls import call_within, summarize_error

_CLOSING_S: Final = 6.0  # for a loader that is asked to end: Grain gives a worker 5 s
_STARTING_S: Final = 6.0  # for the first batch: workers start anew for every run
_LATE_S: Final = 1.0  # for a batch that is being made


@dataclass(frozen=True)
class Run:
    """What one reading of a loader gave.

    Attributes:
        digests: One of each batch.
        elements: In all of them.
        whole: Whether the data came to its end.
        failure: What the loader raised; "" when it did not fail.
        hung: Whether it was still waited for when it was left.
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
        """Return the number of batches after which the two differ; infinite if none is seen to."""
        pairs = zip(self.digests, other.digests, strict=False)
        differs = (place for place, (one, two) in enumerate(pairs) if one != two)
        mine, others = len(self.digests), len(other.digests)
        ends = (self.whole and mine < others) or (other.whole and others < mine)
        return next(differs, min(mine, others) if ends else inf)


def read_batches(loader: LoaderFactory, enough: float, limit_s: float, clock: Clock) -> Run:
    """Read a loader's batches and keep a digest of each.

    Args:
        loader: Makes the loader.
        enough: Batches to read.
        limit_s: Seconds from the first batch after which to stop, or to kill what has not stopped
            a little later.
        clock: Seconds.

    Returns:
        What came until then; what the loader raised is in it.
    """
    reading = _Reading(clock, limit_s)
    failure, hung = "", False
    try:
        call_within(
            lambda: reading.read(loader, enough),
            limit_s,
            reading.grace_s,
        )
    except HangError:
        hung = not reading.closing  # what had been read by then is there
    except Exception as error:  # noqa: BLE001  # the user's code may raise anything
        failure = summarize_error(error)
    return Run(
        tuple(reading.digests), reading.elements, reading.whole, failure, hung, reading.start_s
    )


class _Reading:
    """What has been read so far: it is there even if the loader hangs."""

    def __init__(self, clock: Clock, limit_s: float) -> None:
        self._clock = clock
        self._limit_s = limit_s
        self._asked_s = clock()
        self.start_s = 0.0
        self.digests: list[bytes] = []
        self.elements = 0
        self.whole = False
        self.closing = False

    def grace_s(self) -> float:
        """Return the seconds that what is under way may take beyond the limit."""
        if self.closing:
            return _CLOSING_S
        return self.start_s + _LATE_S if self.digests else _STARTING_S

    def read(self, loader: LoaderFactory, enough: float) -> None:
        """Read until there are enough batches, or the time is over, or the data."""
        with open_iterator(loader()) as batches:
            self._read_from(batches, enough)
            # Not where that raises: it does when workers that hang are killed.
            self.closing = True

    def _read_from(self, batches: Iterator[object], enough: float) -> None:
        while len(self.digests) < enough and not self._is_over():
            try:
                batch = next(batches)
            except StopIteration:
                self.whole = True
                return
            if not self.digests:
                self.start_s = self._clock() - self._asked_s
            self.elements += element_count(batch)
            self.digests.append(digest(batch))

    def _is_over(self) -> bool:
        begun_s = self._asked_s + self.start_s
        return bool(self.digests) and self._clock() - begun_s > self._limit_s
