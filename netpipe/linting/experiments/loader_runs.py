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
        whole: Whether the data came to their end.
        failure: What the loader raised; "" when it did not fail.
        hung: Whether the loader was still waited for when it was abandoned.
        start_s: Seconds to the first batch.
        skipped: Whether there was no time left for it.
    """

    digests: tuple[bytes, ...] = ()
    elements: int = 0
    whole: bool = False
    failure: str = ""
    hung: bool = False
    start_s: float = 0.0
    skipped: bool = False

    def same_until(self, other: "Run") -> float:
        """Return the number of batches before the first difference; infinite if none is seen."""
        own, others = len(self.digests), len(other.digests)
        for number, (this, that) in enumerate(zip(self.digests, other.digests, strict=False)):
            if this != that:
                return number
        ends = (self.whole and own < others) or (other.whole and others < own)
        return min(own, others) if ends else inf


def read_batches(loader: LoaderFactory, enough: float, limit_s: float, clock: Clock) -> Run:
    """Read at least one batch, until there are enough, the data end or the limit is over.

    The limit is counted from the first batch. A loader that does not stop soon after is killed.
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
                if len(digests) >= enough or clock() - asked_s - start_s > limit_s:
                    break
            else:
                whole = True
            # Not in a finally: reading raises when workers that hang are killed.
            is_closing = True

    def grace_s() -> float:
        if is_closing:
            return _CLOSING_S
        return start_s + _LATE_S if digests else _STARTING_S

    try:
        call_within(read, limit_s, grace_s)
    except HangError:
        hung = not is_closing
    except Exception as error:  # noqa: BLE001  # the user's code may raise anything
        failure = summarize_error(error)
    return Run(tuple(digests), elements, whole, failure, hung, start_s)
