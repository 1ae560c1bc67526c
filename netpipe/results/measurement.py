"""What a session measured: plain, frozen numbers that travel as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from math import inf, isfinite
from typing import Any

import cattrs
from cattrs.errors import BaseValidationError

from netpipe.errors import InputError
from netpipe.results.step_times import Distributions, StepTimes

SCHEMA = "netpipe.measurement/1"


@dataclass(frozen=True)
class Device:
    """The accelerator that a step ran on, or was pretended to run on.

    Attributes:
        key: What baselines are filed under, `h100-sxm-80gb-x1`.
        kind: The name that the runtime gives the device.
        platform: The runtime's name of the platform: "cpu", "gpu", "tpu"; "emulated" for a clock.
        count: Devices used.
    """

    key: str
    kind: str
    platform: str
    count: int = 1

    @property
    def emulated(self) -> bool:
        """Whether the step is a clock, not a computation."""
        return self.platform == "emulated"

    @property
    def shares_host_cores(self) -> bool:
        """Whether the step runs on the cores that the loader needs."""
        return self.platform == "cpu"


@dataclass(frozen=True)
class Host:
    """The machine that loads: what a loader's speed depends on.

    Attributes:
        cpu: The model of the CPU.
        cores: CPUs that this process may use, by affinity and cgroup quota.
        memory_bytes: Memory that this process may use.
        container: Whether the process runs in a container.
        cpu_model: The CPU's family, model and stepping, which a cloud's "Intel Xeon Processor" does
            not tell apart; "" where the kernel does not give them.
        machine: Tells this machine from others of its class, without telling which it is; "" where
            that cannot be told, as of virtual ones.
    """

    cpu: str
    cores: int
    memory_bytes: int
    container: bool = False
    cpu_model: str = ""
    machine: str = ""


@dataclass(frozen=True)
class Interval:
    """A median with its 95% interval over `n` rounds, in the unit of the field that holds it."""

    median: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Waits:
    """The time a real training step spent inside `next()` of the loader.

    Attributes:
        p50: Half of the steps waited no longer, in seconds.
        p95: 95% of the steps waited no longer, in seconds.
        p99: 99% of the steps waited no longer, in seconds.
        cv: Standard deviation over mean of the time between batches when pulled flat out;
            0: every batch takes the same time; 1: as irregular as a Poisson process.
    """

    p50: float
    p95: float
    p99: float
    cv: float


@dataclass(frozen=True)
class Finding:
    """Something seen beside the verdict."""

    name: str
    message: str


@dataclass(frozen=True)
class BlockingLine:
    """A line of the trainer's loop that stands still until the device is done.

    Attributes:
        file: The file, as Python names it.
        line: The line's number, from 1.
        code: The line itself.
        fraction: Share of the time from a batch to the request for the next one that the loop
            stands there.
        working_fraction: Share of that during which it computed; near 0: it only waits.
    """

    file: str
    line: int
    code: str
    fraction: float
    working_fraction: float = 0.0


@dataclass(frozen=True)
class GpuHealth:
    """How the GPU fared while it was measured; one entry a round where there are several.

    Attributes:
        sm_clock_mhz: Clock of its multiprocessors.
        temperature_c: Its temperature in degrees Celsius.
        throttled_rounds: Rounds in which heat or its supply slowed it down.
        throttle_reasons: Why, each reason once.
        foreign_pids: Processes of others that were on it at any time.
    """

    sm_clock_mhz: tuple[float, ...]
    temperature_c: tuple[float, ...]
    throttled_rounds: int
    throttle_reasons: tuple[str, ...]
    foreign_pids: tuple[int, ...]


@dataclass(frozen=True)
class CalibrationTurns:
    """What two loaders cost that were pulled in turns.

    Attributes:
        load_cpu_s_per_batch: CPU seconds of the loader that is measured, all processes.
        reference_cpu_s_per_batch: CPU seconds of the reference loader, all processes.
    """

    load_cpu_s_per_batch: float
    reference_cpu_s_per_batch: float


@dataclass(frozen=True)
class Rounds:
    """The raw value of every round done, in seconds or as a count; one entry a round.

    A round measures every quantity once, one after the other, so that entries of the same round
    can be compared with each other.

    Attributes:
        exposed_s_per_step: From a request for a batch that finds the step done to the next call
            of the step: the device idles. Empty in an older document.
    """

    load_s_per_batch: tuple[float, ...] = ()
    load_cpu_s_per_batch: tuple[float, ...] = ()
    step_s: tuple[float, ...] = ()
    step_synced_s: tuple[float, ...] = ()
    step_shadow_s: tuple[float, ...] = ()
    step_transfer_s: tuple[float, ...] = ()
    train_s_per_step: tuple[float, ...] = ()
    host_s_per_step: tuple[float, ...] = ()
    compilations: tuple[float, ...] = ()
    exposed_s_per_step: tuple[float, ...] = ()


@dataclass(frozen=True)
class Measurement:
    """Everything one session measured.

    Attributes:
        device: Where the step ran.
        host: Where the loader ran.
        versions: Version of every package that matters, by name.
        fingerprint: Names the data and the configuration; only like is compared with like.
        load_s_per_batch: L, wall time of one batch with the loader alone, buffers drained.
        step_s: S0, wall time of one step on resident batches, blocked once a block.
        step_synced_s: S_sync, the same, blocked after every step.
        step_shadow_s: S1, the same while the loader is drained once a step, its data thrown away.
        step_transfer_s: S2, the same with a transfer of a cached host batch before every step.
        train_s_per_step: R, wall time of one step of the real loop.
        headroom: S0 / L; below 1 the loader cannot keep up.
        stall_fraction: (R - S0) / R; 0: the device never waits; 1: it only waits.
        accelerator_utilisation: S0 / R.
        load_cpu_ratio: CPU time of a batch, all processes, over that of a batch of the reference
            loader, pulled in turns: a loader's cost with the machine's speed taken out.
        wait_s: Waits in the real loop.
        sync_probe_fraction: Share of steps whose loss was ready before the next batch was asked
            for, in the real loop. 0: nothing forces a sync; 1: every step does.
        sync_probe_idle_fraction: The same in the S0 loop, which never syncs; near 0, or the
            probe is void.
        worst_tenth_fraction: Share of the stall that the worst tenth of the steps holds.
        compilations: Compilations inside timed windows.
        buffered_batches: Batches the loader's buffers had lent when a drain began.
        buffered_batches_start: Batches in the loader's buffers when a block of real steps began.
        buffered_batches_end: The same when it ended; fewer than at its start by more than a batch
            or two means that the buffers lent speed.
        dispatch_depth: Most steps in flight at once in the real loop.
        host_s_per_step: H, what the loop itself does with a batch when there is nothing to wait
            for: from a batch to the request for the next, on results that are ready.
        blocking_lines: Where the loop stands before a request that finds the step done, the worst
            first; only looked for where training stalls, or a loop seems to wait.
        losses_are_finite: Whether the last loss of every block of real steps was a number.
        loader_processes: Processes that load: 0 when this one does.
        load_overlap_fraction: By the profiler's trace, the part of loading during which the device
            computed; 0: they take turns; 1: loading is hidden. None where no trace could be had.
        gpu: How the GPU fared; None where there is none, or it cannot be asked.
        calibration: The reference loader of `load_cpu_ratio`: only like is compared with like.
        turns: The raw values behind `load_cpu_ratio`, of the loader's first batches.
        timeline: When the last real steps of the last round asked, got, called and were done.
        epoch_batches: Batches after which the loader last ended; None: it did not end.
        within_epochs: Whether no restart of the loader falls into a window whose times count.
        trace: The file that a profiler's trace of some real steps was kept in; "" for none.
        distributions: How all real steps' times and waits spread; None in an older document.
        overhead_fraction: The harness's own part of a step: what its instruments add to a bare
            loop, over S0; None when not measured.
        busy_elsewhere_fraction: Share of the host's CPU time that other programs took.
        batch_bytes: Bytes of one batch as the trainer sees it.
        first_batch_s: Wall time from the loader's start to its first batch.
        drained: Whether the buffers could be drained within the time for it.
        elapsed_s: Wall time of the whole measurement.
        rounds: The raw values.
        findings: What else was seen.
    """

    device: Device
    host: Host
    versions: Mapping[str, str]
    fingerprint: str
    load_s_per_batch: Interval
    step_s: Interval
    step_synced_s: Interval | None
    step_shadow_s: Interval | None
    step_transfer_s: Interval | None
    train_s_per_step: Interval
    headroom: Interval
    stall_fraction: Interval
    accelerator_utilisation: Interval
    load_cpu_ratio: Interval
    wait_s: Waits
    sync_probe_fraction: float
    sync_probe_idle_fraction: float
    worst_tenth_fraction: float
    compilations: int
    buffered_batches: float | None
    dispatch_depth: int
    overhead_fraction: float | None
    busy_elsewhere_fraction: float
    batch_bytes: int
    first_batch_s: float
    drained: bool
    elapsed_s: float
    rounds: Rounds = field(default_factory=Rounds)
    findings: tuple[Finding, ...] = ()
    buffered_batches_start: float | None = None
    buffered_batches_end: float | None = None
    host_s_per_step: Interval | None = None
    blocking_lines: tuple[BlockingLine, ...] = ()
    losses_are_finite: bool = True
    loader_processes: int = 0
    load_overlap_fraction: float | None = None
    gpu: GpuHealth | None = None
    calibration: str = ""
    turns: tuple[CalibrationTurns, ...] = ()
    timeline: tuple[StepTimes, ...] = ()
    distributions: Distributions | None = None
    trace: str = ""
    epoch_batches: int | None = None
    within_epochs: bool = True

    def to_document(self) -> dict[str, Any]:
        """Return the measurement as plain JSON values."""
        document: dict[str, Any] = converter().unstructure(self)
        return {"schema": SCHEMA, **document}


def parse_measurement(document: Mapping[str, Any], where: object) -> Measurement:
    """Build a Measurement from plain JSON values.

    Args:
        document: What `Measurement.to_document` returned.
        where: The file it comes from, for the error message.

    Raises:
        InputError: The document is of another schema, or a field is missing or wrong.
    """
    if document.get("schema") != SCHEMA:
        raise InputError(where, "schema", f"be {SCHEMA}", repr(document.get("schema")))
    values = {name: value for name, value in document.items() if name != "schema"}
    try:
        return converter().structure(values, Measurement)
    except BaseValidationError as error:
        raise InputError(
            where, "measurement", "hold every field", "; ".join(cattrs.transform_error(error))
        ) from error


@cache
def converter() -> cattrs.Converter:
    """Make the converter; JSON knows no infinity, so an unbounded interval has null for it."""
    converter = cattrs.Converter(forbid_extra_keys=True)
    converter.register_unstructure_hook(
        Interval,
        lambda one: {
            "median": one.median,
            "low": one.low if isfinite(one.low) else None,
            "high": one.high if isfinite(one.high) else None,
            "n": one.n,
        },
    )
    converter.register_structure_hook(Interval, _interval_from)
    return converter


def _interval_from(document: Mapping[str, Any], _: type) -> Interval:
    low, high = document["low"], document["high"]
    return Interval(
        median=float(document["median"]),
        low=-inf if low is None else float(low),
        high=inf if high is None else float(high),
        n=int(document["n"]),
    )
