"""Waivers that must go: expired ones, and those that no regression needs any more."""

from collections.abc import Iterator

from netpipe.gate.comparison import Outcome
from netpipe.gate.metrics import GATED
from netpipe.gate.waivers import Waiver
from netpipe.suite.run import GateResult, Run


def waiver_problems(run: Run) -> Iterator[str]:
    """Give one sentence for each waiver that fails the run, which says what to delete.

    A waiver of another device than those of this run is left alone.
    """
    devices = {sessions[-1].device.key for sessions in run.sessions.values()}
    for waiver in run.acceptance.waivers:
        if not any(map(waiver.is_for, devices)):
            continue
        why = _why_not(run, waiver)
        if why is not None:
            yield f"{run.acceptance.waivers_file}: delete the waiver of {waiver.name}: {why}"


def _why_not(run: Run, waiver: Waiver) -> str | None:
    if waiver.is_expired(run.acceptance.today):
        return f"it expired on {waiver.expires}"
    if run.is_gone(waiver.benchmark):
        return "there is no such benchmark"
    compared = [one for one in run.compared if one.is_of(waiver)]
    if compared and not any(_holds(one, waiver.metric) for one in compared):
        return "the benchmark is not held by that metric"
    counted = [one for one in compared if _is_counted(one, waiver.metric)]
    if counted and all(one.comparison.outcome in _FINE for one in counted):
        return f"without it, it is {counted[-1].comparison.outcome} on {counted[-1].now.device.key}"
    return None


_FINE = (Outcome.PASS, Outcome.IMPROVED)


def _holds(compared: GateResult, metric: str) -> bool:
    return any(one.name == metric for one in GATED[compared.quantity])


def _is_counted(compared: GateResult, metric: str) -> bool:
    """Return whether a comparison is of a metric, and judged it."""
    one = compared.comparison.decisive
    return one is not None and not one.why_not and one.metric.name == metric
