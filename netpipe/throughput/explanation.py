"""Why so many workers and not more or fewer, as a sentence. Formatting only."""

from collections.abc import Iterator, Sequence

from netpipe.throughput.candidates import AS_FAST, Candidate
from netpipe.throughput.formatting import amount, megabytes


def times(workers: int) -> str:
    """Write a number of workers: `1 worker`."""
    return f"{workers} worker{'s' * (workers != 1)}"


def explained(chosen: Candidate, candidates: Sequence[Candidate]) -> str:
    """Compare the chosen candidate with its neighbours, and with the fastest above it.

    Args:
        chosen: One of the candidates.
        candidates: The fewest workers first.
    """
    first = f"{times(chosen.workers)}: {amount(chosen.tokens_per_s)} tokens/s"
    compared = (_beside(one, chosen) for one in _worth_telling(chosen, candidates))
    return "; ".join([first, *compared]) + "."


def _worth_telling(chosen: Candidate, candidates: Sequence[Candidate]) -> Iterator[Candidate]:
    above = [one for one in candidates if one.workers > chosen.workers]
    below = [one for one in candidates if one.workers < chosen.workers]
    yield from above[:1]
    compared = [one for one in above[1:] if one.fate == "open"]
    if compared:
        yield max(compared, key=lambda one: one.tokens_per_s)
    yield from below[-1:]


def _beside(one: Candidate, chosen: Candidate) -> str:
    if one.fate in ("over budget", "failed"):
        return f"{one.workers} left out: {one.reason.splitlines()[0].rstrip(':')}"
    verb = "gives" if one.workers == 1 else "give"
    gain = one.tokens_per_s / chosen.tokens_per_s - 1
    more = f"{abs(gain):.0%} {'more' if gain >= 0 else 'less'}"
    if chosen.tokens_per_s < AS_FAST * one.tokens_per_s:
        more += ", but not in every round"
    return f"{one.workers} {verb} {amount(one.tokens_per_s)} ({more}){_price(one, chosen)}"


def _price(one: Candidate, chosen: Candidate) -> str:
    dearer = one.peak_pss_bytes - chosen.peak_pss_bytes
    return f" for {megabytes(dearer)} more" if one.workers > chosen.workers and dearer > 0 else ""
