"""Alarms of a baseline that the machine has caused: its own commit is as slow there now."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from netpipe.errors import InputError
from netpipe.gate.baseline import Baseline
from netpipe.gate.comparison import Comparison, Outcome, combine

_ALARMS: Final = (Outcome.REGRESSED, Outcome.INCONCLUSIVE)
_NO_WORSE: Final = (Outcome.PASS, Outcome.IMPROVED)


def recorded_commit(baselines: Sequence[Baseline], key: str) -> str:
    """Return the commit that was measured for the latest baseline of a device.

    Args:
        baselines: All of the device, the latest last.
        key: The key of its device.

    Raises:
        InputError: There is no baseline, or what was measured for it is not a commit.
    """
    if not baselines:
        raise InputError(
            "--netpipe-against baseline", "baseline", f"be there for {key}", "none",
            "Record one with --netpipe-record NAME, or name a commit",
        )  # fmt: skip
    baseline = baselines[-1]
    if baseline.dirty:
        raise InputError(
            baseline.path, "commit_info.dirty", "be false, to measure its commit again", "true",
            "Record it again from a commit",
        )  # fmt: skip
    return baseline.commit


def cleared(
    held: Comparison,
    paired: Sequence[Comparison],
    commit: str,
    baselines: Iterable[Baseline],
) -> Comparison:
    """Return a comparison with a baseline; NOT_COMPARED where the machine has caused its alarm.

    It has where pairs with the commit of that very baseline find the metric no worse.

    Args:
        held: The comparison of one metric with the baseline.
        paired: What the pairs come to, metric by metric.
        commit: What they are with.
        baselines: Those of the device; the one that raised the alarm is found by its name.
    """
    decisive = held.decisive
    if decisive is None or held.outcome not in _ALARMS:
        return held
    if not any(one.metric == held.metric and one.outcome in _NO_WORSE for one in paired):
        return held
    recorded = next((one for one in baselines if one.name == decisive.where), None)
    if recorded is None or recorded.dirty or recorded.commit != commit:
        return held
    # It was recorded on what is another machine now, so it is no baseline of this one.
    why_not = "the machine has changed, not the code"
    not_compared = replace(
        decisive,
        outcome=Outcome.NOT_COMPARED,
        reason=f"{held.reason}, and so is its commit {commit[:12]} on this machine now: {why_not}",
        is_open=False,
        why_not=why_not,
    )
    return combine([not_compared])
