"""The batches that a version gives, as digests that another process has made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Final

from netpipe.duets.parent import Side, name_failures
from netpipe.jobs.parent import run_session
from netpipe.jobs.progress import OnProgress
from netpipe.jobs.request import SessionRequest
from netpipe.results.fields import parse

FIRST: Final = "the first batches"
SECOND: Final = "the second epoch"
WORKERS: Final = " workers"
"""Ends the name of a pass with a chosen number of workers."""
_MAX_PASSES: Final = 6


@dataclass(frozen=True)
class ReadRequest(SessionRequest):
    """The settings of one reading; `workers` is None if the loader chooses them."""

    kind: str = "read"
    batches: int = 256  #: The most batches of each pass.
    workers: int | None = None
    has_variants: bool = True  #: Whether later epochs, and other workers and shards are read.
    shuffles: bool = True  #: Without, only an epoch is read.

    @property
    def _own_limit_s(self) -> float:
        # The session itself limits each start and each batch.
        pass_s = self.start_limit_s + self.batches * self.batch_limit_s
        return super()._own_limit_s + (_MAX_PASSES if self.has_variants else 1) * pass_s


@dataclass(frozen=True)
class Pass:
    """The batches of one iteration, and whether there are no more.

    Attributes:
        leaves: For each batch, the dtype and shape of each leaf, and its digest, by name.
        rows: For each batch, a digest of each row, or of the batch if its leaves differ in length.
    """

    leaves: Sequence[Mapping[str, tuple[str, str]]]
    rows: Sequence[Sequence[str]]
    ended: bool

    @cached_property
    def elements(self) -> list[str]:
        """The digests of all rows, in order."""
        return list(chain.from_iterable(self.rows))


@dataclass(frozen=True)
class Reading:
    """The passes over one version's loader, by name; one of them may be a whole epoch."""

    passes: Mapping[str, Pass]
    epoch_pass: str = ""

    @property
    def epoch(self) -> list[str]:
        """The elements of an epoch; empty if none ended."""
        return self.passes[self.epoch_pass].elements if self.epoch_pass else []


def read_batches(
    side: Side[ReadRequest], seed: str = "0", progress: OnProgress | None = None
) -> Reading:
    """Read the batches of one version in its own process, with a value of PYTHONHASHSEED."""
    place = side.environment.with_hash_seed(seed)
    with name_failures(side.name):
        return parse(run_session(side.command, side.request, place, progress), Reading, side.name)
