"""Variants of a pipeline timed in turns with the unchanged pipeline, in one run.

Each block has an iterator of its own, so that no buffer of one side fills while another side is
timed; its first part is thrown away.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import Final

from netpipe.clock import Clock
from netpipe.errors import HangError
from netpipe.linting.experiments.blocks import FLAT_OUT, ElementBlock, MeasureBlock, Pace
from netpipe.linting.experiments.variants import Variant, build_variant
from netpipe.measuring.interleaving import MIN_ROUNDS, Interleaved, interleave
from netpipe.measuring.loader_puller import LoaderFactory
from netpipe.session.bounded_calls import call_within, summarize_error

UNCHANGED: Final = Variant()
NO_TIME: Final = "skipped for lack of time"

_MAX_ROUNDS: Final = 6
# Half of a side's time is for starting and ending loaders.
_BLOCK_SHARE: Final = 1 / 12
# A block that begins in time may end this much later: its workers start anew.
_GRACE_S: Final = 5.0
# Sleeping is not exact enough for a shorter step.
_MIN_STEP_S: Final = 1e-3

_Blocks = Interleaved[Variant, ElementBlock]


@dataclass(frozen=True)
class VariantBlocks:
    """Blocks of a variant and of the unchanged pipeline.

    Attributes:
        before: Blocks of the unchanged pipeline.
        after: As many of the variant, each from the same round as the block before.
        failure: Why there are no more; "" when nothing failed.
        pace: How both were pulled.
    """

    before: tuple[ElementBlock, ...]
    after: tuple[ElementBlock, ...]
    failure: str = ""
    pace: Pace = FLAT_OUT


class VariantComparison:
    """Compares variants of one pipeline within one budget.

    Args:
        loader: Makes the pipeline; called anew for each block.
        clock: Seconds.
        budget_s: Seconds for all comparisons.
        measure: Measures a block.
        tell: Called with what is being done.
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
    ) -> Mapping[Variant, VariantBlocks]:
        """Measure rounds of one block of each variant and one of the unchanged pipeline.

        No block begins when the budget is over, and a running one is given up soon after.

        Args:
            variants: At least one, the most important first: the last are skipped where there is
                no time for all. A variant that fails once is left out from then on.
            share: The part of the time left to spend; the least number of rounds may take more.
            stepping: Whether to pull as a trainer does whose step takes as long as a batch of the
                unchanged pipeline; otherwise flat out.
        """
        began_s = self._clock()
        share_s = share * self._left_s()
        # Warm-up: what is read for the first time comes from the disk.
        look_pace = Pace(_BLOCK_SHARE * share_s / (1 + len(variants)), from_start=True)
        self._tell("waiting for the first batches of the pipeline as it is")
        look = self._interleave([UNCHANGED], look_pace, lambda done: not done.rounds)
        look_s = self._clock() - began_s
        chosen = variants[: _affordable(self._left_s(), look_s)]
        self._tell(f"measuring {len(chosen)} of {len(variants)} proposals, the most severe first")
        seen = next(iter(look.results(UNCHANGED)), None)
        pace = _choose_pace(seen, look_pace.block_s, stepping)

        def wants_round(done: _Blocks) -> bool:
            ends_s = began_s + share_s if len(done.rounds) >= MIN_ROUNDS else self._ends_s
            return (
                len(done.rounds) < _MAX_ROUNDS
                and self._clock() + done.longest_round_s <= ends_s
                and not {UNCHANGED} & done.failures.keys()
                and any(variant not in done.failures for variant in chosen)
            )

        done = look if look.failures else self._interleave([UNCHANGED, *chosen], pace, wants_round)
        no_time = _describe_lack(look_s, len(variants)) if seen else NO_TIME
        return {variant: _paired(done, variant, pace, no_time) for variant in variants}

    def _interleave(
        self, sides: Sequence[Variant], pace: Pace, wants_round: Callable[[_Blocks], bool]
    ) -> _Blocks:
        return interleave(
            sides,
            lambda side: self._measure_block(side, pace),
            lambda done: self._left_s() > 0 and wants_round(done),
            clock=self._clock,
            until_s=self._ends_s,
            describe_error=summarize_error,
        )

    def _measure_block(self, variant: Variant, pace: Pace) -> ElementBlock:
        limit_s = self._left_s() + _GRACE_S
        try:
            return call_within(
                lambda: self._measure(lambda: build_variant(self._loader, variant), pace), limit_s
            )
        except HangError as error:
            what = "whole epoch" if pace.from_start and pace.block_s == inf else "few batches"
            raise HangError(
                f"a {what} took longer than the {limit_s:.0f} s that were left: it is slow, and a"
                " longer --budget would do, or it hangs"
            ) from error

    def _left_s(self) -> float:
        return max(0.0, self._ends_s - self._clock())


def _paired(done: _Blocks, variant: Variant, pace: Pace, no_time: str) -> VariantBlocks:
    """Return the blocks of the rounds in which a variant and the unchanged pipeline were timed."""
    pairs = [
        (blocks[UNCHANGED], blocks[variant])
        for blocks in done.rounds
        if UNCHANGED in blocks and variant in blocks
    ]
    before, after = zip(*pairs, strict=True) if pairs else ((), ())
    failure = done.failures.get(UNCHANGED) or done.failures.get(variant, "")
    return VariantBlocks(before, after, failure or ("" if pairs else no_time), pace)


def _affordable(left_s: float, look_s: float) -> int:
    """Return how many variants there is time for, at least one; a block takes as long as a look."""
    return max(1, int(left_s / max(1e-9, MIN_ROUNDS * look_s)) - 1)


def _describe_lack(look_s: float, variants: int) -> str:
    needed_s = look_s * (1 + MIN_ROUNDS * (1 + variants))
    return (
        f"{NO_TIME}: starting the pipeline for a few batches takes {look_s:.3g} s,"
        f" so a --budget of about {ceil(needed_s)} s would do"
    )


def _choose_pace(seen: ElementBlock | None, block_s: float, stepping: bool) -> Pace:
    """Choose how to pull, from the first look at the unchanged pipeline."""
    if seen is None:
        return Pace(block_s)
    step_s = max(_MIN_STEP_S, seen.load_s_per_batch) if stepping else 0.0
    # Data so short that most of a block would be restarts are compared by whole epochs.
    return Pace(inf if seen.ended else block_s, step_s, seen.ended)
