"""Why a measurement leaves its verdict open. Pure."""

from math import isfinite

from netpipe.harness import quantities, stats
from netpipe.harness.measurement import Measurement
from netpipe.harness.quantities import AT_RISK_ABOVE, EPSILON
from netpipe.harness.units import ratio_interval, seconds_interval

_WIDE_LOAD = 0.10  # half of an interval, of its median


def why_inconclusive(measurement: Measurement) -> str | None:
    """Return what leaves the verdict open; None when nothing does."""
    load = measurement.load_s_per_batch
    if not isfinite(load.low):
        return f"only {load.n} rounds fitted into the time; an interval needs 3"
    if measurement.batch_bytes == 0:
        return "the loader's batches are empty"
    if not measurement.losses_are_finite:
        return "the loss is NaN or infinite: such a step may take another time than a true one"
    if not measurement.drained:
        return "the loader's buffers could not be drained in time"
    return (
        _why_gpu_is_no_evidence(measurement)
        or _why_load_is_open(measurement)
        or _why_train_is_open(measurement)
    )


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


def _why_train_is_open(measurement: Measurement) -> str | None:
    """Return why R leaves a stall open; on a CPU device it is not judged."""
    train = quantities.train_over_larger(measurement)
    if measurement.device.shares_host_cores or not train.low <= 1 + EPSILON < train.median:
        return None
    return f"R is {ratio_interval(train)} of the larger of L and S0, on both sides of a limit"


def _why_load_is_open(measurement: Measurement) -> str | None:
    load = measurement.load_s_per_batch
    ratio = quantities.load_over_step(measurement)
    if ratio.high < AT_RISK_ABOVE or ratio.low > 1 + EPSILON:
        return None
    if stats.half_width_fraction(load) > _WIDE_LOAD:
        return f"loading a batch took {seconds_interval(load)}, too spread to tell"
    if ratio.low < AT_RISK_ABOVE < ratio.high or ratio.low < 1 + EPSILON < ratio.high:
        return f"L/S0 is {ratio_interval(ratio)}, on both sides of a limit"
    return None
