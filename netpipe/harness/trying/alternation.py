"""Variants of a pipeline timed in turns with the pipeline as it is, in one run.

Each block has an iterator of its own, so that no buffer of one side is filled while another side
is timed; its first part is thrown away. Rounds of a block for each side run there and back
(A B B A), so that a machine that grows slower favours none.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from netpipe.harness.clock import Clock
from netpipe.harness.pull import LoaderFactory, Puller
from netpipe.harness.trying.bounded import bounded, in_a_line
from netpipe.harness.trying.contents import element_count
from netpipe.harness.trying.variants import Variant, build, iterating
from netpipe.harness.watch import UNWATCHED, Watch

AS_IT_IS: Final = Variant()
LEAST_ROUNDS: Final = 3  # with fewer, a ratio has no interval

_MOST_ROUNDS: Final = 6
_BLOCK_SHARE: Final = 1 / 12  # of a side's time: half of it is for starting and ending loaders
_WARM_UP_SHARE: Final = 0.3  # of a block, before it: what workers made ahead comes in no time
_GRACE_S: Final = 10.0  # for a block that began in time to end


@dataclass(frozen=True)
class Block:
    """What pulling flat out for a while showed. Per element: a fix may change the batches.

    Attributes:
        s_per_element: Wall seconds.
        cpu_s_per_element: CPU seconds of all processes.
        elements_per_batch: How many came at a time, on average.
    """

    s_per_element: float
    cpu_s_per_element: float
    elements_per_batch: float


@dataclass(frozen=True)
class Compared:
    """A variant beside the pipeline as it is.

    Attributes:
        before: Blocks of the pipeline as it is.
        after: As many of the variant, each of the same round as the one of its index.
        failure: Why there are no more; "" when nothing failed.
    """

    before: tuple[Block, ...]
    after: tuple[Block, ...]
    failure: str = ""


MeasureBlock = Callable[[LoaderFactory, float], Block]
"""Measures a loader from its start, for so many seconds once it is warm."""


class Bench:
    """Compares variants of one pipeline within one budget.

    Args:
        loader: Makes the pipeline; called anew for each block.
        clock: Seconds.
        budget_s: Seconds for all.
        measure: What measures a block.
    """

    def __init__(
        self, loader: LoaderFactory, clock: Clock, budget_s: float, measure: MeasureBlock
    ) -> None:
        self._loader = loader
        self._clock = clock
        self._measure = measure
        self._ends_s = clock() + budget_s

    def compare(self, variants: Sequence[Variant], share: float) -> Mapping[Variant, Compared]:
        """Do rounds of a block for each variant and one for the pipeline as it is.

        Args:
            variants: At least one; what fails once is left out from then on.
            share: The part of the time left to spend, or more for the least number of rounds.
        """
        share_s = share * self._left_s()
        rounds, failures = self._rounds(variants, self._clock() + share_s, share_s)
        return {
            variant: Compared(
                tuple(blocks[AS_IT_IS] for blocks in rounds if variant in blocks),
                tuple(blocks[variant] for blocks in rounds if variant in blocks),
                failures.get(AS_IT_IS) or failures.get(variant, ""),
            )
            for variant in variants
        }

    def _rounds(
        self, variants: Sequence[Variant], ends_s: float, share_s: float
    ) -> tuple[list[Mapping[Variant, Block]], Mapping[Variant, str]]:
        block_s = _BLOCK_SHARE * share_s / (1 + len(variants))
        # Warm-up: what is read for the first time comes from the disk.
        _, failures = self._round([AS_IT_IS], block_s)
        rounds: list[Mapping[Variant, Block]] = []
        longest_s = 0.0
        while len(rounds) < _MOST_ROUNDS and AS_IT_IS not in failures:
            asked_s = self._clock()
            by_s = ends_s if len(rounds) >= LEAST_ROUNDS else self._ends_s
            sides = [side for side in (AS_IT_IS, *variants) if side not in failures]
            if asked_s + longest_s > by_s or sides == [AS_IT_IS]:
                break
            blocks, failed = self._round(sides[:: -1 if len(rounds) % 2 else 1], block_s)
            failures |= failed
            rounds += [blocks] if AS_IT_IS in blocks else []
            longest_s = max(longest_s, self._clock() - asked_s)
        return rounds, failures

    def _round(
        self, sides: Sequence[Variant], block_s: float
    ) -> tuple[dict[Variant, Block], dict[Variant, str]]:
        blocks: dict[Variant, Block] = {}
        failures: dict[Variant, str] = {}
        for side in sides:
            try:
                blocks[side] = self._block(side, block_s)
            except Exception as error:  # noqa: BLE001  # the user's code may raise anything
                failures[side] = in_a_line(error)
        return blocks, failures

    def _block(self, variant: Variant, block_s: float) -> Block:
        return bounded(
            lambda: self._measure(lambda: build(self._loader, variant), block_s),
            self._left_s() + _GRACE_S,
        )

    def _left_s(self) -> float:
        return max(0.0, self._ends_s - self._clock())


# ---- Measuring


def measured_block(
    loader: LoaderFactory, block_s: float, clock: Clock, watch: Watch = UNWATCHED
) -> Block:
    """Start a loader, warm it up, and time what it gives flat out.

    Args:
        loader: Makes the loader.
        block_s: Seconds to time, at least; more where a few batches take longer.
        clock: Seconds.
        watch: Told of every wait for a batch.
    """
    counted = _Counted(loader)
    puller = Puller(counted.batches, clock, watch)
    try:
        # Warm-up: the first workers have made batches ahead while the last ones started.
        puller.flat_out(_WARM_UP_SHARE * block_s)
        pulled = puller.flat_out(block_s)
    finally:
        puller.close()
    elements = counted.elements / puller.pulled
    return Block(pulled.s_per_batch / elements, pulled.cpu_s_per_batch / elements, elements)


class _Counted:
    """A loader, and how many elements it has given."""

    def __init__(self, loader: LoaderFactory) -> None:
        self._loader = loader
        self.elements = 0

    def batches(self) -> Iterator[Any]:
        """Start the loader."""
        with iterating(self._loader()) as batches:
            for batch in batches:
                self.elements += element_count(batch)
                yield batch
