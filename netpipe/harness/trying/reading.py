"""Reading a loader once: what came of it, batch by batch, even if it fails or hangs."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Final

from netpipe.harness.clock import Clock
from netpipe.harness.errors import HangError
from netpipe.harness.pull import LoaderFactory
from netpipe.harness.trying.bounded import bounded, in_a_line
from netpipe.harness.trying.contents import digest, element_count
from netpipe.harness.trying.variants import iterating

_CLOSING_S: Final = 6.0  # for a loader that is asked to end: Grain gives a worker 5 s


@dataclass(frozen=True)
class Run:
    """What one reading of a loader gave.

    Attributes:
        digests: One of each batch.
        elements: In all of them.
        whole: Whether the data came to its end.
        failure: What the loader raised; "" when it did not fail.
    """

    digests: tuple[bytes, ...]
    elements: int
    whole: bool
    failure: str = ""

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
        limit_s: Seconds after which to stop, or to kill what has not stopped a little later.
        clock: Seconds.

    Returns:
        What came until then; what the loader raised is in it.
    """
    reading = _Reading()
    ends_s = clock() + limit_s
    failure = ""
    try:
        bounded(
            lambda: reading.read(loader, enough, lambda: clock() > ends_s), limit_s + _CLOSING_S
        )
    except HangError:
        pass  # what had been read by then is there
    except Exception as error:  # noqa: BLE001  # the user's code may raise anything
        failure = in_a_line(error)
    return Run(tuple(reading.digests), reading.elements, reading.whole, failure)


class _Reading:
    """What has been read so far: it is there even if the loader hangs."""

    def __init__(self) -> None:
        self.digests: list[bytes] = []
        self.elements = 0
        self.whole = False

    def read(self, loader: LoaderFactory, enough: float, is_over: Callable[[], bool]) -> None:
        """Read until there are enough batches, or the time is over, or the data."""
        with iterating(loader()) as batches:
            while len(self.digests) < enough and not is_over():
                try:
                    batch = next(batches)
                except StopIteration:
                    self.whole = True
                    return
                self.elements += element_count(batch)
                self.digests.append(digest(batch))
