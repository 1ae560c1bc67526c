"""Variants of a pipeline timed in turns with the pipeline as it is, in one run.

Each block has an iterator of its own, so that no buffer of one side is filled while another side
is timed; its first part is thrown away. Rounds of a block for each side run there and back
(A B B A), so that a machine that grows slower favours none.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import Final

from netpipe.clock import Clock
from netpipe.errors import HangError
from netpipe.linting.experiments.blocks import FLAT_OUT, Block, MeasureBlock, Pace
from netpipe.linting.experiments.variants import Variant, build
from netpipe.measuring.loader_puller import LoaderFactory
from netpipe.session.bounded_calls import call_within, summarize_error

AS_IT_IS: Final = Variant()
LATE: Final = "skipped for lack of time"
LEAST_ROUNDS: Final = 3  # with fewer, a ratio has no interval

_MOST_ROUNDS: Final = 6
_BLOCK_SHARE: Final = 1 / 12  # of a side's time: half of it is for starting and ending loaders
_GRACE_S: Final = 5.0  # for a block that began in time to end: its workers start anew
_LEAST_STEP_S: Final = 1e-3  # a shorter one is no step: sleeping is not that exact


@dataclass(frozen=True)
class Compared:
    """A variant beside the pipeline as it is.

    Attributes:
        before: Blocks of the pipeline as it is.
        after: As many of the variant, each of the same round as the one of its index.
        failure: Why there are no more; "" when nothing failed.
        pace: How both were pulled.
    """

    before: tuple[Block, ...]
    after: tuple[Block, ...]
    failure: str = ""
    pace: Pace = FLAT_OUT


class Bench:
    """Compares variants of one pipeline within one budget.

    Args:
        loader: Makes the pipeline; called anew for each block.
        clock: Seconds.
        budget_s: Seconds for all.
        measure: What measures a block.
        tell: Is told what is being done.
    """

    def __init__(
        self,
        loader: LoaderFactory,
        clock: Clock,
        budget_s: float,
        measure: MeasureBlock,
        tell: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._loader = loader
        self._clock = clock
        self._measure = measure
        self._tell = tell
        self._ends_s = clock() + budget_s

    def compare(
        self, variants: Sequence[Variant], share: float, stepping: bool = False
    ) -> Mapping[Variant, Compared]:
        """Do rounds of a block for each variant and one for the pipeline as it is.

        No block is begun when the budget is over, and what was begun is given up soon after.

        Args:
            variants: At least one, the most important first: the last are skipped where there is
                no time for all. What fails once is left out from then on.
            share: The part of the time left to spend, or more for the least number of rounds.
            stepping: Whether to pull as a trainer does whose step takes as long as a batch of the
                pipeline as it is; otherwise flat out.
        """
        share_s = share * self._left_s()
        ends_s = self._clock() + share_s
        # Warm-up: what is read for the first time comes from the disk.
        look = Pace(_BLOCK_SHARE * share_s / (1 + len(variants)), from_start=True)
        began_s = self._clock()
        self._tell("waiting for the first batches of the pipeline as it is")
        looked, failed = self._round([AS_IT_IS], look)
        looked_s = self._clock() - began_s
        chosen = variants[: _affordable(self._left_s(), looked_s)]
        self._tell(f"measuring {len(chosen)} of {len(variants)} proposals, the gravest first")
        pace = _pace(looked.get(AS_IT_IS), look.block_s, stepping)
        rounds, failures = self._rounds(chosen, ends_s, pace, failed)
        late = _lacks_time(looked_s, len(variants)) if looked else LATE
        return {
            variant: Compared(
                tuple(blocks[AS_IT_IS] for blocks in rounds if variant in blocks),
                tuple(blocks[variant] for blocks in rounds if variant in blocks),
                failures.get(AS_IT_IS)
                or failures.get(variant, "")
                or ("" if any(variant in blocks for blocks in rounds) else late),
                pace,
            )
            for variant in variants
        }

    def _rounds(
        self,
        variants: Sequence[Variant],
        ends_s: float,
        pace: Pace,
        failures: Mapping[Variant, str],
    ) -> tuple[list[Mapping[Variant, Block]], Mapping[Variant, str]]:
        rounds: list[Mapping[Variant, Block]] = []
        longest_s = 0.0
        while len(rounds) < _MOST_ROUNDS and AS_IT_IS not in failures:
            asked_s = self._clock()
            by_s = ends_s if len(rounds) >= LEAST_ROUNDS else self._ends_s
            sides = [side for side in (AS_IT_IS, *variants) if side not in failures]
            if asked_s >= self._ends_s or asked_s + longest_s > by_s or sides == [AS_IT_IS]:
                break
            blocks, failed = self._round(sides[:: -1 if len(rounds) % 2 else 1], pace)
            # What the end of the budget cuts off is no failure of what was measured before.
            measured = set() if self._left_s() else {side for one in rounds for side in one}
            failures = {**failures, **{k: why for k, why in failed.items() if k not in measured}}
            rounds += [blocks] if AS_IT_IS in blocks else []
            longest_s = max(longest_s, self._clock() - asked_s)
        return rounds, failures

    def _round(
        self, sides: Sequence[Variant], pace: Pace
    ) -> tuple[dict[Variant, Block], dict[Variant, str]]:
        blocks: dict[Variant, Block] = {}
        failures: dict[Variant, str] = {}
        for side in sides:
            if not self._left_s():
                break
            try:
                blocks[side] = self._block(side, pace)
            except Exception as error:  # noqa: BLE001  # the user's code may raise anything
                failures[side] = summarize_error(error)
        return blocks, failures

    def _block(self, variant: Variant, pace: Pace) -> Block:
        limit_s = self._left_s() + _GRACE_S
        try:
            return call_within(
                lambda: self._measure(lambda: build(self._loader, variant), pace), limit_s
            )
        except HangError as error:
            what = "whole epoch" if pace.from_start and pace.block_s == inf else "few batches"
            raise HangError(
                f"a {what} took longer than the {limit_s:.0f} s that were left: it is slow, and a"
                " longer --budget would do, or it hangs"
            ) from error

    def _left_s(self) -> float:
        return max(0.0, self._ends_s - self._clock())


def _affordable(left_s: float, looked_s: float) -> int:
    """Return how many variants there is time for, at least one; a block is like the first look."""
    return max(1, int(left_s / max(1e-9, LEAST_ROUNDS * looked_s)) - 1)


def _lacks_time(looked_s: float, variants: int) -> str:
    needed_s = looked_s * (1 + LEAST_ROUNDS * (1 + variants))
    return (
        f"{LATE}: starting the pipeline for a few batches takes {looked_s:.3g} s,"
        f" so a --budget of about {ceil(needed_s)} s would do"
    )


def _pace(seen: Block | None, block_s: float, stepping: bool) -> Pace:
    """Choose how to pull, by what the first look at the pipeline as it is has shown."""
    if seen is None:
        return Pace(block_s)
    step_s = max(_LEAST_STEP_S, seen.load_s_per_batch) if stepping else 0.0
    # Data so short that most of a block would be restarts are compared by whole epochs.
    return Pace(inf if seen.ended else block_s, step_s, seen.ended)
