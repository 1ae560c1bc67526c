"""The fewest workers that load as fast as any, chosen from trials of a loader. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from netpipe.results.units import format_amount, format_megabytes
from netpipe.throughput.figures import FIGURES, Tally, over_rounds, ratio

# The part of another's tokens per second from which on a candidate counts as fast as it.
_AS_FAST: Final = 0.95
# Of the fastest; runs of one candidate were seen to differ by a factor of 1.7.
_HOPELESS_FRACTION: Final = 1 / 3

Status = Literal["open", "chosen", "not needed", "slower", "over budget", "failed"]


@dataclass(frozen=True)
class Candidate:
    """A number of workers, and what is known of it.

    Attributes:
        workers: How many.
        finished_bytes: About what its finished batches take while they wait.
        runs: What its trials counted, in the order of the rounds.
        status: "open" while it can still be chosen.
        reason: Why it has this status; empty while it is open.
    """

    workers: int
    finished_bytes: int
    runs: tuple[Tally, ...] = ()
    status: Status = "open"
    reason: str = ""

    @property
    def speeds(self) -> list[float]:
        """Its tokens per second, one value per run."""
        return [FIGURES["tokens_per_s"](run) for run in self.runs]

    @property
    def tokens_per_s(self) -> float:
        """The median over its runs, of which there must be at least one."""
        return over_rounds("tokens_per_s", self.runs).median

    @property
    def peak_pss_bytes(self) -> int:
        """The most memory of all its processes in any run; 0 without a run."""
        return max((run.peak_pss_bytes for run in self.runs), default=0)

    @property
    def label(self) -> str:
        """The number as text: `1 worker`."""
        return f"{self.workers} worker{'s' * (self.workers != 1)}"


@dataclass(frozen=True)
class WorkerChoice:
    """The number of workers to use, and why not another.

    Attributes:
        workers: How many.
        reason: A sentence that compares it with its neighbors.
        memory_budget_bytes: What all processes together may take.
        seconds: How long each trial measured the steady state.
        candidates: All candidates with their final status, the fewest workers first.
    """

    workers: int
    reason: str
    memory_budget_bytes: int
    seconds: float
    candidates: tuple[Candidate, ...]


def worker_counts(cores: int) -> list[int]:
    """Return the numbers of workers worth a trial: the powers of two, and the cores.

    Not 0: the training process would load then, and its other work is not known here.
    """
    return sorted({cores, *(1 << exponent for exponent in range(cores.bit_length()))})


def open_candidates(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return those that can still be chosen."""
    return [candidate for candidate in candidates if candidate.status == "open"]


def choose(
    candidates: Sequence[Candidate], memory_budget_bytes: int, seconds: float
) -> WorkerChoice:
    """Choose the fewest workers that are not clearly slower than the fastest.

    Workers that do not make loading faster cost memory, and cores that the trainer could use.

    Args:
        candidates: The fewest workers first. At least one is open, and all open ones have runs of
            the same rounds.
        memory_budget_bytes: What all processes together may take.
        seconds: How long each trial measured.
    """
    judged = drop_slower(candidates)
    chosen, *others = open_candidates(judged)
    sentence = explain(chosen, judged)
    unneeded = f"not clearly faster than {chosen.label}"
    final = {chosen.workers: replace(chosen, status="chosen", reason=sentence)}
    for other in others:
        final[other.workers] = replace(other, status="not needed", reason=unneeded)
    every = tuple(final.get(candidate.workers, candidate) for candidate in judged)
    return WorkerChoice(chosen.workers, sentence, memory_budget_bytes, seconds, every)


def is_decided(candidates: Sequence[Candidate]) -> bool:
    """Return whether further rounds are unlikely to change the choice.

    They may change it where the fewest workers that are not clearly slower have a lower median.
    """
    judged = open_candidates(drop_slower(candidates))
    return judged[0].tokens_per_s >= _AS_FAST * _fastest(judged).tokens_per_s


def drop_slower(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Mark the open candidates that are clearly slower than the fastest open one.

    A candidate is clearly slower if its median is below 95% of the fastest's and the 95% interval
    of its ratio to it, round by round, lies below 1.
    """
    fastest = _fastest(open_candidates(candidates))
    return [
        replace(candidate, status="slower", reason=f"clearly slower than {fastest.label}")
        if candidate.status == "open" and _is_clearly_slower(candidate, fastest)
        else candidate
        for candidate in candidates
    ]


def drop_hopeless(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Mark the open candidates that were below a third of the fastest in every round so far."""
    rounds = zip(*(candidate.speeds for candidate in open_candidates(candidates)), strict=True)
    fastest = [max(of_round) for of_round in rounds]
    return [
        _judge_hopeless(candidate, fastest) if candidate.status == "open" else candidate
        for candidate in candidates
    ]


def _judge_hopeless(candidate: Candidate, fastest: Sequence[float]) -> Candidate:
    pairs = list(zip(candidate.speeds, fastest, strict=True))
    if any(own >= _HOPELESS_FRACTION * most for own, most in pairs):
        return candidate
    own, most = map(format_amount, pairs[-1])
    reason = f"{own} tokens/s, less than a third of {most} in round {len(pairs)}"
    return replace(candidate, status="slower", reason=reason)


def _fastest(candidates: Sequence[Candidate]) -> Candidate:
    return max(candidates, key=lambda candidate: candidate.tokens_per_s)


def _is_clearly_slower(candidate: Candidate, fastest: Candidate) -> bool:
    relative = ratio("tokens_per_s", candidate.runs, fastest.runs)
    below = candidate.tokens_per_s < _AS_FAST * fastest.tokens_per_s
    return below and relative is not None and relative.high < 1


def explain(chosen: Candidate, candidates: Sequence[Candidate]) -> str:
    """Compare the chosen candidate with its neighbors and with the fastest one above it.

    Args:
        chosen: One of the candidates.
        candidates: The fewest workers first.
    """
    sentence = f"{chosen.label}: {format_amount(chosen.tokens_per_s)} tokens/s"
    for other in _worth_naming(chosen, candidates):
        sentence += f"; {_compare(other, chosen)}"
    return f"{sentence}."


def _worth_naming(chosen: Candidate, candidates: Sequence[Candidate]) -> Iterator[Candidate]:
    above = [candidate for candidate in candidates if candidate.workers > chosen.workers]
    yield from above[:1]
    if rivals := open_candidates(above[1:]):
        yield _fastest(rivals)
    yield from [candidate for candidate in candidates if candidate.workers < chosen.workers][-1:]


def _compare(other: Candidate, chosen: Candidate) -> str:
    if other.status in ("over budget", "failed"):
        return f"{other.workers} left out: {other.reason.splitlines()[0].rstrip(':')}"
    verb = "gives" if other.workers == 1 else "give"
    gain = other.tokens_per_s / chosen.tokens_per_s - 1
    more = f"{abs(gain):.0%} {'more' if gain >= 0 else 'less'}"
    if chosen.tokens_per_s < _AS_FAST * other.tokens_per_s:
        more += ", but not in every round"
    text = f"{other.workers} {verb} {format_amount(other.tokens_per_s)} ({more})"
    extra_bytes = other.peak_pss_bytes - chosen.peak_pss_bytes
    if other.workers > chosen.workers and extra_bytes > 0:
        text += f" for {format_megabytes(extra_bytes)} more"
    return text
