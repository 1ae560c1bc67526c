"""Plausible measurements, made from the value of every round so that intervals agree with them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from netpipe.results import statistics
from netpipe.results.measurement import (
    CalibrationTurns,
    Device,
    Host,
    Interval,
    Measurement,
    Rounds,
    Waits,
)

Series = float | Sequence[float]

GPU = Device("h200-x1", "NVIDIA H200", "gpu")
CPU = Device("cpu-intel-xeon-2", "cpu", "cpu")
EMULATED = Device("emulated-30ms", "emulated:30ms", "emulated")
HOST = Host("Intel Xeon", 2, 8 * 2**30, machine="0123456789abcdef")


def spread(low: float, middle: float, high: float) -> tuple[float, ...]:
    """Return nine rounds whose interval runs from `low` to `high` about `middle`."""
    return (low, middle, high) * 3


def make_measurement(
    *,
    load_s: Series = 0.010,
    step_s: Series = 0.030,
    train_s: Series = 0.030,
    synced_s: Series | None = None,
    shadow_s: Series | None = None,
    transfer_s: Series | None = None,
    loaded_s: Series | None = None,
    load_cpu_s: Series = 0.008,
    turns_load_cpu_s: Series = 0.008,
    turns_reference_cpu_s: Series = 0.004,
    host_s: Series = 0.0001,
    exposed_s: Series = (),
    compiled: Series = 0,
    rounds: int = 9,
    **overrides: Any,
) -> Measurement:
    """Make a measurement: a healthy one on a GPU, unless told otherwise.

    Args:
        load_s: L of every round in seconds, or of all rounds.
        step_s: S0, as `load_s`.
        train_s: R, as `load_s`.
        synced_s: S_sync; the step's own time by default.
        shadow_s: S1; the step's own time by default.
        transfer_s: S2; the step's own time by default.
        loaded_s: S3, as `load_s`; not measured by default.
        load_cpu_s: CPU seconds of a batch.
        turns_load_cpu_s: CPU seconds of a batch, pulled in turns with the reference loader.
        turns_reference_cpu_s: CPU seconds of a batch of the reference loader.
        host_s: H, as `load_s`.
        exposed_s: Seconds of a step that a device idles after a sync; not measured by default.
        compiled: Compilations of every round.
        rounds: How many rounds there are.
        overrides: Fields of the Measurement to replace.
    """
    load, step, train, cpu, host = (
        _series(one, rounds) for one in (load_s, step_s, train_s, load_cpu_s, host_s)
    )
    over, under = (_series(one, rounds) for one in (turns_load_cpu_s, turns_reference_cpu_s))
    compilations, exposed = _series(compiled, rounds), _series(exposed_s, rounds)
    synced, shadow, transfer = (
        step if one is None else _series(one, rounds) for one in (synced_s, shadow_s, transfer_s)
    )
    loaded = () if loaded_s is None else _series(loaded_s, rounds)
    made = Measurement(
        device=GPU,
        host=HOST,
        versions={"jax": "0.10.2", "grain": "0.2.18"},
        fingerprint="data-1 config-1",
        load_s_per_batch=statistics.median_interval(load),
        step_s=statistics.median_interval(step),
        step_synced_s=statistics.median_interval(synced),
        step_shadow_s=statistics.median_interval(shadow),
        step_transfer_s=statistics.median_interval(transfer),
        train_s_per_step=statistics.median_interval(train),
        headroom=statistics.ratio_interval(step, load),
        stall_fraction=statistics.stall_interval(loaded or step, train),
        accelerator_utilisation=statistics.ratio_interval(step, train),
        load_cpu_ratio=statistics.ratio_interval(over, under),
        wait_s=Waits(p50=0.0001, p95=0.0002, p99=0.0004, cv=0.2),
        sync_probe_fraction=0.0,
        sync_probe_idle_fraction=0.0,
        worst_tenth_fraction=0.2,
        compilations=int(sum(compilations)),
        buffered_batches=16.0,
        dispatch_depth=2,
        overhead_fraction=None,
        busy_elsewhere_fraction=0.01,
        batch_bytes=49_152,
        first_batch_s=1.5,
        peak_pss_bytes=400_000_000,
        growth_bytes_per_batch=Interval(1000.0, 500.0, 1500.0, rounds),
        growing_process="worker 1 (pid 7)",
        drained=True,
        elapsed_s=21.0,
        rounds=Rounds(
            load, cpu, step, synced, shadow, transfer, train, host, compilations, exposed, loaded
        ),
        step_loaded_s=statistics.median_interval(loaded) if loaded else None,
        host_s_per_step=statistics.median_interval(host),
        calibration="reference-loader/1, 0 workers",
        turns=tuple(map(CalibrationTurns, over, under)),
    )
    return replace(made, **overrides)


def _series(value: Series, rounds: int) -> tuple[float, ...]:
    return (value,) * rounds if isinstance(value, int | float) else tuple(value)
