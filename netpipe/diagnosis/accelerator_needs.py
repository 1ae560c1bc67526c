"""What each accelerator would need of this host to be fed. Pure."""

from typing import Final

from netpipe.device.accelerators import names_with_peak, peak_flops_of_name
from netpipe.diagnosis.diagnosis import Findings, Need
from netpipe.verdict.worker_sizing import enough_workers

_USED_BY: Final = "workers"


def needs(findings: Findings, flops_per_step: float | None, mfu: float) -> tuple[Need, ...]:
    """Return the needs of every accelerator with a known peak, the slowest first.

    Args:
        findings: Of the loader.
        flops_per_step: None where it is not known: then no step time can be derived.
        mfu: The part of its peak that a step reaches.
    """
    if flops_per_step is None:
        return ()
    steps_s = {
        name: flops_per_step / (peak * mfu)
        for name in names_with_peak()
        if (peak := peak_flops_of_name(name)) is not None
    }
    slowest_first = sorted(steps_s.items(), key=lambda one: -one[1])
    return tuple(_need(findings, name, step_s) for name, step_s in slowest_first)


def _need(findings: Findings, name: str, step_s: float) -> Need:
    return Need(
        accelerator=name,
        step_s=step_s,
        batches_per_s=1 / step_s,
        workers=enough_workers(_occupied_s(findings), step_s),
        cores=findings.load_cpu_s_per_batch.median / step_s,
        headroom=step_s / findings.load_s_per_batch.median,
    )


def _occupied_s(findings: Findings) -> float:
    """Return the seconds that a batch occupies a worker: what workers do now, or would do."""
    in_workers = [one for one in findings.stages if one.section == _USED_BY] or findings.stages
    occupied_s = sum(one.s_per_batch for one in in_workers)
    return max(occupied_s, findings.workers * findings.load_s_per_batch.median)
