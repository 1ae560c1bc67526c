"""The protocol: warm up, drain, then rounds of interleaved blocks; produces a Measurement."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

from netpipe.harness import processes, stats
from netpipe.harness.clock import Clock
from netpipe.harness.measurement import Device, Finding, Host, Measurement, Rounds, Waits
from netpipe.harness.pull import Puller
from netpipe.harness.rounds import Bench, Log, Subject
from netpipe.harness.training import TrainBlock

_CLOSING_S = 5.0  # a worker that takes longer is ended with the session


@dataclass(frozen=True)
class Place:
    """Where it is measured.

    Attributes:
        device_of: Returns the device for the number of devices that the step uses.
        host: The machine that loads.
        versions: Version of every package that matters, by name.
    """

    device_of: Callable[[int], Device]
    host: Host
    versions: Mapping[str, str]


def measure(
    subject: Subject,
    place: Place,
    budget_s: float,
    clock: Clock,
    waiting: Callable[[float | None], None] = lambda _: None,
) -> Measurement:
    """Measure a loader and a step together.

    Args:
        subject: The loader, the step and the loop.
        place: The device and the host, as they are to be recorded.
        budget_s: Seconds that the rounds may take.
        clock: Seconds.
        waiting: Told the moment a batch is asked for, and None when it has come.

    Returns:
        Everything that was measured.

    Raises:
        MisuseError: A factory does not give what it must.
    """
    started, host_cpu = clock(), processes.read_host_cpu()
    puller = Puller(subject.loader, clock, waiting)
    try:
        bench = Bench(subject, puller, clock, budget_s)
        bench.run()
        busy = processes.busy_elsewhere_fraction(host_cpu, processes.read_host_cpu())
        return _summary(bench, place, subject.fingerprint, clock() - started, busy)
    finally:
        _close(puller)


def _close(puller: Puller) -> None:
    """Stop the loader's workers; one that hangs does not hold up what was measured."""
    closing = threading.Thread(target=puller.close, name="netpipe-close", daemon=True)
    closing.start()
    closing.join(_CLOSING_S)


def _summary(
    bench: Bench, place: Place, fingerprint: str, elapsed_s: float, busy_elsewhere: float
) -> Measurement:
    log, stepper = bench.log, bench.stepper
    waits_s = [wait for block in log.train for wait in block.waits_s]
    return Measurement(
        device=place.device_of(stepper.devices_used),
        host=place.host,
        versions=place.versions,
        fingerprint=fingerprint,
        load_s_per_batch=stats.median_interval(log.load_s),
        step_s=stats.median_interval(log.step_s),
        step_synced_s=stats.median_interval(log.synced_s),
        step_shadow_s=stats.median_interval(log.shadow_s),
        step_transfer_s=stats.median_interval(log.transfer_s),
        train_s_per_step=stats.median_interval(log.train_s),
        headroom=stats.ratio_interval(log.step_s, log.load_s),
        stall_fraction=stats.median_interval(
            [
                max(0.0, 1 - step / train)
                for step, train in zip(log.step_s, log.train_s, strict=True)
            ]
        ),
        accelerator_utilisation=stats.ratio_interval(log.step_s, log.train_s),
        load_cpu_ratio=stats.ratio_interval(log.load_cpu_s, log.calibration_s),
        wait_s=Waits(
            p50=stats.percentile(waits_s, 0.50),
            p95=stats.percentile(waits_s, 0.95),
            p99=stats.percentile(waits_s, 0.99),
            cv=stats.variation(log.gaps_s),
        ),
        sync_probe_fraction=_fraction(log.train),
        sync_probe_idle_fraction=stepper.ready_before_next / max(1, stepper.asked_before_next),
        worst_tenth_fraction=stats.worst_tenth_fraction(_stalls_s(log)),
        compilations=log.compilations,
        buffered_batches=median(log.lent) if log.mostly_drained else None,
        dispatch_depth=max(block.depth for block in log.train),
        overhead_fraction=None,
        busy_elsewhere_fraction=busy_elsewhere,
        batch_bytes=bench.batch_bytes,
        first_batch_s=bench.puller.first_batch_s,
        drained=log.mostly_drained,
        elapsed_s=elapsed_s,
        rounds=Rounds(
            load_s_per_batch=tuple(log.load_s),
            load_cpu_s_per_batch=tuple(log.load_cpu_s),
            step_s=tuple(log.step_s),
            step_synced_s=tuple(log.synced_s),
            step_shadow_s=tuple(log.shadow_s),
            step_transfer_s=tuple(log.transfer_s),
            train_s_per_step=tuple(log.train_s),
            calibration_s=tuple(log.calibration_s),
        ),
        findings=tuple(_findings(bench)),
    )


def _fraction(blocks: list[TrainBlock]) -> float:
    return sum(block.ready for block in blocks) / max(1, sum(block.asked for block in blocks))


def _stalls_s(log: Log) -> list[float]:
    """Return by how much each real step was longer than a step alone."""
    step_s = median(log.step_s)
    return [max(0.0, one - step_s) for block in log.train for one in block.steps_s]


def _findings(bench: Bench) -> list[Finding]:
    found = []
    if bench.puller.restarts:
        found.append(
            Finding(
                "loader-restarted",
                f"the loader ended {bench.puller.restarts} times and was started again: a loader "
                "that goes on (repeat) gives truer figures",
            )
        )
    if not bench.log.mostly_drained:
        found.append(
            Finding(
                "undrained-buffers",
                f"the loader's buffers still lent speed after {max(bench.log.lent):.0f} batches",
            )
        )
    return found
