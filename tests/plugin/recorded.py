"""Measurements that sessions could have recorded."""

from dataclasses import replace

from netpipe.gate.duets import Duet
from netpipe.gate.metrics import GATED, ONCE
from netpipe.results.measurement import Device, Host, Interval, Measurement, Rounds, Waits

CPU = Device("cpu-testing-4", "cpu", "cpu")
H200 = Device("h200-x1", "NVIDIA H200", "gpu")
HOST = Host("Testing CPU", cores=4, memory_bytes=16 * 2**30, machine="0123456789abcdef")
ROUNDS = 10
SLICES = 20


def recorded(
    load_s: float = 0.010,
    step_s: float = 0.030,
    train_s: float = 0.030,
    load_cpu_ratio: float = 2.0,
    device: Device = CPU,
) -> Measurement:
    """Return a measurement of equal rounds, which is healthy with the default times."""
    return Measurement(
        device=device,
        host=HOST,
        versions={"python": "3.11"},
        fingerprint="the same data",
        load_s_per_batch=_all(load_s),
        step_s=_all(step_s),
        step_synced_s=_all(step_s),
        step_shadow_s=None,
        step_transfer_s=None,
        train_s_per_step=_all(train_s),
        headroom=_all(step_s / load_s),
        stall_fraction=_all((train_s - step_s) / train_s),
        accelerator_utilisation=_all(step_s / train_s),
        load_cpu_ratio=_all(load_cpu_ratio),
        wait_s=Waits(p50=0.0, p95=0.0, p99=0.0, cv=0.1),
        sync_probe_fraction=0.0,
        sync_probe_idle_fraction=0.0,
        worst_tenth_fraction=0.1,
        compilations=0,
        buffered_batches=1.0,
        dispatch_depth=2,
        overhead_fraction=None,
        busy_elsewhere_fraction=0.0,
        batch_bytes=4096,
        first_batch_s=0.5,
        peak_pss_bytes=400_000_000,
        growth_bytes_per_batch=_all(1000.0),
        drained=True,
        elapsed_s=20.0,
        rounds=Rounds(
            load_s_per_batch=(load_s,) * ROUNDS,
            step_s=(step_s,) * ROUNDS,
            train_s_per_step=(train_s,) * ROUNDS,
        ),
        calibration="reference-loader/1, 0 workers",
    )


def make_duet(quantity: str, base: Measurement, now: Measurement, slices: int = SLICES) -> Duet:
    """Return a duet whose slices all have the figures of two sessions."""

    def equal_slices(session: Measurement) -> dict[str, tuple[float, ...]]:
        return {
            metric.name: (metric.value(session),) * (1 if metric in ONCE else slices)
            for metric in GATED[quantity]
        }

    return Duet(
        equal_slices(base),
        equal_slices(now),
        difference="" if base.fingerprint == now.fingerprint else "other data",
        shares_cores=now.device.shares_host_cores,
    )


def loader_bound() -> Measurement:
    """Return a measurement whose loader takes twice the time of the step."""
    return recorded(load_s=0.060, train_s=0.060)


def costlier() -> Measurement:
    """Return a measurement whose loader takes slightly more CPU time than the bound allows."""
    return recorded(load_cpu_ratio=2.12)


def costly() -> Measurement:
    """Return a healthy measurement whose loader takes half as much CPU time again."""
    return recorded(load_cpu_ratio=3.0)


def open_question() -> Measurement:
    """Return a measurement that is inconclusive."""
    return replace(recorded(), drained=False)


def _all(value: float) -> Interval:
    return Interval(value, value, value, ROUNDS)
