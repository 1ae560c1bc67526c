"""Reasons for which a measurement is inconclusive. Pure.

Each function returns the reason as part of a sentence, or None where there is no such doubt.
"""

from math import isfinite

from netpipe.results import statistics
from netpipe.results.measurement import GpuHealth, Measurement
from netpipe.results.units import format_ratio_interval, format_rounds, format_seconds_interval
from netpipe.verdict import quantities
from netpipe.verdict.quantities import AT_RISK_ABOVE, EPSILON

_MAX_HALF_WIDTH_FRACTION = 0.10  # of an interval's median; a wider load time is called spread


def explain_too_few_rounds(measurement: Measurement) -> str | None:
    """Explain why there are no intervals."""
    load = measurement.load_s_per_batch
    if isfinite(load.low):
        return None
    return f"only {format_rounds(load.n)} fitted into the time; an interval needs 3"


def explain_no_evidence(measurement: Measurement) -> str | None:
    """Explain why the measurement proves nothing at all."""
    if measurement.batch_bytes == 0:
        return "the loader's batches are empty"
    if not measurement.losses_are_finite:
        return "the loss is NaN or infinite: such a step may take another time than a true one"
    epoch = f"an epoch of {measurement.epoch_batches} batches"
    if not measurement.within_epochs:
        return f"{epoch} is too short to measure: the loader must go on (repeat)"
    if not measurement.drained and measurement.epoch_batches is not None:
        return f"the loader's buffers outlast {epoch}: the loader must go on (repeat)"
    if not measurement.drained:
        return "the loader's buffers could not be drained in time; a larger budget gives more"
    gpu = measurement.gpu
    return None if gpu is None else _explain_gpu(gpu, measurement.step_s.n)


def _explain_gpu(gpu: GpuHealth, rounds: int) -> str | None:
    if gpu.foreign_pids:
        return f"other processes were on the GPU: {', '.join(map(str, gpu.foreign_pids))}"
    if gpu.throttled_rounds:
        reasons = ", ".join(gpu.throttle_reasons)
        return f"the GPU was throttled in {gpu.throttled_rounds} of {rounds} rounds: {reasons}"
    return None


def explain_undecided_loader(measurement: Measurement) -> str | None:
    """Explain why the loader may or may not be slower than the step."""
    return _explain_undecided_limit(measurement, 1 + EPSILON)


def explain_undecided_health(measurement: Measurement) -> str | None:
    """Explain why training may or may not wait, or the loader may or may not be at risk.

    On a CPU device, where the loader and the step take turns on its cores, R is not judged.
    """
    if not measurement.device.shares_host_cores and quantities.seems_to_stall(measurement):
        reason = explain_undecided_stall(measurement)
        if reason:
            return reason
    return _explain_undecided_limit(measurement, AT_RISK_ABOVE)


def explain_undecided_stall(measurement: Measurement) -> str | None:
    """Explain why training may or may not wait."""
    train = quantities.train_over_larger(measurement)
    if not train.low <= 1 + EPSILON < train.high:
        return None
    ratio = format_ratio_interval(train)
    return f"R is {ratio} of the larger of L and S0, on both sides of a limit"


def _explain_undecided_limit(measurement: Measurement, limit: float) -> str | None:
    load, ratio = measurement.load_s_per_batch, quantities.load_over_step(measurement)
    if not ratio.low < limit < ratio.high:
        return None
    if statistics.half_width_fraction(load) > _MAX_HALF_WIDTH_FRACTION:
        return f"loading a batch took {format_seconds_interval(load)}, too spread to tell"
    return f"L/S0 is {format_ratio_interval(ratio)}, on both sides of a limit"
