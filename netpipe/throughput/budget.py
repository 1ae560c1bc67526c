"""The memory that loading may take, and what is known of it before a trial. Pure."""

import re
from collections.abc import Sequence
from typing import Final

from netpipe.errors import InputError
from netpipe.throughput.candidates import Candidate
from netpipe.throughput.formatting import megabytes

OPTION: Final = "--memory-budget"

_AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?) ?([MG]i?B)")
_UNITS: Final = {"MB": 10**6, "GB": 10**9, "MiB": 2**20, "GiB": 2**30}


def parse_budget(text: str) -> int:
    """Read bytes from a number and its unit, `4GB`.

    Raises:
        InputError: It is no such thing, or 0.
    """
    found = _AMOUNT.fullmatch(text.strip())
    budget_bytes = int(float(found[1]) * _UNITS[found[2]]) if found else 0
    if not budget_bytes:
        constraint = f"be a number above 0 and one of {', '.join(_UNITS)}, such as 4GB"
        raise InputError(OPTION, "value", constraint, repr(text))
    return budget_bytes


def too_much_before(candidate: Candidate, measured: Sequence[Candidate], budget_bytes: int) -> str:
    """Return why a candidate is above the budget before it was tried; empty if it is not.

    Its finished batches are known. What its processes take beside them, the imports and the opened
    files of each worker, is told by two smaller candidates: memory grows by a worker's share with
    every worker.

    Args:
        candidate: Which to judge.
        measured: Smaller ones that were tried, the fewest workers first.
        budget_bytes: What all processes together may take.
    """
    if candidate.finished_bytes > budget_bytes:
        needed = f"{megabytes(candidate.finished_bytes)} of finished batches"
        return _above(needed, budget_bytes)
    if len(measured) > 1:
        expected = _expected_pss_bytes(candidate.workers, *measured[-2:])
        if expected > budget_bytes:
            smaller = " and ".join(str(one.workers) for one in measured[-2:])
            return _above(f"would take {megabytes(expected)}, going by {smaller}", budget_bytes)
    return ""


def too_much_measured(candidate: Candidate, budget_bytes: int) -> str:
    """Return why a candidate that was tried is above the budget; empty if it is not."""
    if candidate.peak_pss_bytes <= budget_bytes:
        return ""
    return _above(f"took {megabytes(candidate.peak_pss_bytes)}", budget_bytes)


def _expected_pss_bytes(workers: int, fewer: Candidate, more: Candidate) -> int:
    grown = max(0, more.peak_pss_bytes - fewer.peak_pss_bytes)
    of_worker = grown / (more.workers - fewer.workers)
    return round(more.peak_pss_bytes + of_worker * (workers - more.workers))


def _above(needed: str, budget_bytes: int) -> str:
    return f"{needed}, above the budget of {megabytes(budget_bytes)}"
