"""Why a measurement leaves its verdict open. Pure."""

from math import isfinite

from netpipe.results import statistics
from netpipe.results.measurement import Measurement
from netpipe.results.units import format_ratio_interval, format_rounds, format_seconds_interval
from netpipe.verdict import quantities
from netpipe.verdict.quantities import AT_RISK_ABOVE, EPSILON

_WIDE_LOAD = 0.10  # half of an interval, of its median


def why_too_few_rounds(measurement: Measurement) -> str | None:
    """Return why there are no intervals; None when there are."""
    load = measurement.load_s_per_batch
    if isfinite(load.low):
        return None
    return f"only {format_rounds(load.n)} fitted into the time; an interval needs 3"


def why_no_evidence(measurement: Measurement) -> str | None:
    """Return why nothing can be told from it at all; None when something can."""
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
    return _why_gpu_is_no_evidence(measurement)


def _why_gpu_is_no_evidence(measurement: Measurement) -> str | None:
    gpu = measurement.gpu
    if gpu is None:
        return None
    if gpu.foreign_pids:
        pids = ", ".join(map(str, gpu.foreign_pids))
        return f"other processes were on the GPU: {pids}"
    if gpu.throttled_rounds:
        return (
            f"the GPU was throttled in {gpu.throttled_rounds} of {measurement.step_s.n} rounds: "
            + ", ".join(gpu.throttle_reasons)
        )
    return None


def why_loader_bound_is_open(measurement: Measurement) -> str | None:
    """Return why the loader may or may not be slower than the step."""
    return _why_limit_is_open(measurement, 1 + EPSILON)


def why_healthy_is_open(measurement: Measurement) -> str | None:
    """Return why training may or may not wait, or the loader have too little to spare.

    On a CPU device, where all take turns, R is not judged.
    """
    apart = not measurement.device.shares_host_cores
    if apart and quantities.stalls(measurement) and (why := why_stall_is_open(measurement)):
        return why
    return _why_limit_is_open(measurement, AT_RISK_ABOVE)


def why_stall_is_open(measurement: Measurement) -> str | None:
    """Return why training may or may not wait."""
    train = quantities.train_over_larger(measurement)
    if not train.low <= 1 + EPSILON < train.high:
        return None
    return (
        f"R is {format_ratio_interval(train)} of the larger of L and S0, on both sides of a limit"
    )


def _why_limit_is_open(measurement: Measurement, limit: float) -> str | None:
    load = measurement.load_s_per_batch
    ratio = quantities.load_over_step(measurement)
    if not ratio.low < limit < ratio.high:
        return None
    if statistics.half_width_fraction(load) > _WIDE_LOAD:
        return f"loading a batch took {format_seconds_interval(load)}, too spread to tell"
    return f"L/S0 is {format_ratio_interval(ratio)}, on both sides of a limit"
