"""The fewest workers that load as fast as any: chosen from trials in turns. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from netpipe.throughput.candidates import AS_FAST, Candidate, still_open
from netpipe.throughput.explanation import explained, times
from netpipe.throughput.figures import FIGURES, ratio
from netpipe.throughput.formatting import amount

_HOPELESS: Final = 1 / 3  # of the best; runs of one candidate were seen to differ by 1.7


@dataclass(frozen=True)
class WorkerChoice:
    """The number of workers to take, and why not another.

    Attributes:
        workers: How many.
        reason: Compares it with its neighbours, as a sentence.
        memory_budget_bytes: What all processes together may take.
        seconds: How long each trial measured the steady state.
        candidates: What became of each, the fewest workers first.
    """

    workers: int
    reason: str
    memory_budget_bytes: int
    seconds: float
    candidates: tuple[Candidate, ...]


def choose(
    candidates: Sequence[Candidate], memory_budget_bytes: int, seconds: float
) -> WorkerChoice:
    """Choose the fewest workers that are not clearly slower than the fastest.

    What more workers do not make faster they only make dearer: memory, and cores that the trainer
    could use.

    Args:
        candidates: The fewest workers first; one at least is open, and all that are open have runs
            of the same rounds.
        memory_budget_bytes: What left some of them out.
        seconds: How long each trial measured.
    """
    judged = without_slower(candidates)
    chosen, *others = still_open(judged)
    reason = f"not clearly faster than {times(chosen.workers)}"
    settled = {one.workers: replace(one, fate="not needed", reason=reason) for one in others}
    sentence = explained(chosen, judged)
    settled[chosen.workers] = replace(chosen, fate="chosen", reason=sentence)
    every = tuple(settled.get(one.workers, one) for one in judged)
    return WorkerChoice(chosen.workers, sentence, memory_budget_bytes, seconds, every)


def is_decided(candidates: Sequence[Candidate]) -> bool:
    """Return whether further rounds could not change much.

    They could where the fewest workers that are not clearly slower are slower in the median.
    """
    judged = still_open(without_slower(candidates))
    return judged[0].tokens_per_s >= AS_FAST * _fastest(judged).tokens_per_s


def without_slower(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Settle those that are clearly slower than the fastest of the open ones.

    So is one whose median is below 95% of the fastest's, and whose ratio to it in the same rounds
    has a 95% interval below 1.
    """
    fastest = _fastest(still_open(candidates))
    return [
        replace(one, fate="slower", reason=f"clearly slower than {times(fastest.workers)}")
        if one.fate == "open" and _is_clearly_slower(one, fastest)
        else one
        for one in candidates
    ]


def without_hopeless(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Settle the open ones that gave less than a third of the fastest in every round so far."""
    rivals = still_open(candidates)
    speeds = {one.workers: [FIGURES["tokens_per_s"](run) for run in one.runs] for one in rivals}
    fastest = [max(of_round) for of_round in zip(*speeds.values(), strict=True)]

    def judged(one: Candidate) -> Candidate:
        own = speeds.get(one.workers)
        if own is None or any(
            mine >= _HOPELESS * most for mine, most in zip(own, fastest, strict=True)
        ):
            return one
        reason = f"{amount(own[-1])} tokens/s, less than a third of {amount(fastest[-1])}"
        return replace(one, fate="slower", reason=f"{reason} in round {len(own)}")

    return [judged(one) for one in candidates]


def _fastest(candidates: Sequence[Candidate]) -> Candidate:
    return max(candidates, key=lambda one: one.tokens_per_s)


def _is_clearly_slower(one: Candidate, fastest: Candidate) -> bool:
    beside = ratio("tokens_per_s", one.runs, fastest.runs)
    below = one.tokens_per_s < AS_FAST * fastest.tokens_per_s
    return below and beside is not None and beside.high < 1
