"""Tokens per second and MFU of real steps, or the reasons why they are unknown."""

import re
from statistics import fmean
from typing import Any, Final

from netpipe.device.accelerators import peak_flops
from netpipe.device.emulated_names import count_flops
from netpipe.errors import describe_error
from netpipe.measuring.round_log import RoundLog
from netpipe.measuring.rounds import RoundRunner
from netpipe.measuring.training.step_runner import StepRunner
from netpipe.measuring.training.token_counts import BY_ELEMENTS
from netpipe.results import statistics
from netpipe.results.measurement import Device

# Without compiling, XLA counts these operations once, for one device only, or not at all. Custom
# calls that compute nothing or only random bits are excluded.
_MISCOUNTED: Final = re.compile(
    r"stablehlo\.while|sdy\.manual_computation|(?<=stablehlo\.custom_call @)"
    r"(?!AllocateBuffer|LayoutConstraint|Sharding|annotate_device|\w+_threefry2x32)[\w$.]+"
)


def find_flops(runner: RoundRunner) -> None:
    """Log the FLOPs of a step, given by the user or counted by XLA, or why they are unknown."""
    log = runner.log
    try:
        log.flops_per_step, why_not = count_flops(runner.subject.flops), ""
        if log.flops_per_step is None:
            log.flops_per_step, why_not = count_by_xla(runner.stepper)
    except Exception as error:  # noqa: BLE001  # tracing the step may raise anything
        why_not = f"the step cannot be analysed: {describe_error(error).splitlines()[0]}"
    log.no_flops = f"{why_not}; give --flops-per-step (in pytest --netpipe-flops-per-step)"


def count_by_xla(stepper: StepRunner) -> tuple[float | None, str]:
    """Return the FLOPs of a step without compiling it, or None and the reason."""
    lowered = stepper.lower()
    text = lowered.compiler_ir().operation.get_asm(large_elements_limit=8)
    miscounted = set(_MISCOUNTED.findall(text))
    if "stablehlo.while" in miscounted:
        return None, "the step has a loop, whose body XLA counts once"
    if miscounted:
        return None, f"XLA does not count all FLOPs of {min(miscounted)} in the step"
    flops = (lowered.cost_analysis() or {}).get("flops", 0.0)
    return (flops, "") if flops > 0 else (None, "XLA finds no FLOPs in the step")


def compute_rates(runner: RoundRunner, log: RoundLog, device: Device) -> dict[str, Any]:
    """Return the rate fields of a measurement, with a reason for each missing rate."""
    seen = (*runner.counts, *(train.counted for train in log.train_blocks))
    counted = [found for found in seen if found is not None]
    unit = "examples" if any(found.rule == BY_ELEMENTS for found in counted) else "tokens"
    amounts, rounds = [getattr(found, unit) for found in counted], log.columns()
    real_s, rates = rounds.train_s_per_step, dict[str, Any](tokens_unit=unit, not_known={})
    for name, devices in (("tokens_per_s", 1), ("tokens_per_s_per_device", device.count)):
        if any(amounts):
            per_s = [fmean(amounts) / devices / step_s for step_s in real_s]
            rates[name] = statistics.median_interval(per_s)
        else:
            rates["not_known"][name] = "the batches have no tokens, or no arrays that can be read"
    mfu, peak, flops = runner.subject.assumed_mfu, peak_flops(device.kind), log.flops_per_step
    if mfu is not None:
        rates["mfu"] = statistics.ratio_interval([mfu * step_s for step_s in rounds.step_s], real_s)
    elif peak is None or flops is None:
        rates["not_known"]["mfu"] = log.no_flops if peak else _no_peak(device)
    else:
        least_s = flops / (peak * device.count)
        rates["mfu"] = statistics.median_interval([least_s / step_s for step_s in real_s])
    return rates


def _no_peak(device: Device) -> str:
    way_out = "; name an accelerator, such as emulated:h100" if device.emulated else ""
    return f"no peak is known for {device.key}{way_out}"
