"""The result of a session: plain, frozen numbers that travel as JSON."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from netpipe.errors import InputError
from netpipe.results.start_up import StartUp
from netpipe.results.step_times import Distributions, StepTimes

if TYPE_CHECKING:
    from cattrs import Converter

SCHEMA = "netpipe.measurement/1"


@dataclass(frozen=True)
class Device:
    """The accelerator that a step ran on, real or emulated.

    Attributes:
        key: Names the folder of its baselines, such as `h100-sxm-80gb-x1`.
        kind: The runtime's name of the device.
        platform: The runtime's name of the platform: "cpu", "gpu", "tpu"; or "emulated".
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

    def complete_fingerprint(self, fingerprint: str) -> str:
        """Return the name of what is measured, with that of an emulated step.

        The FLOPs of such a step are part of the device's kind: at another MFU it is another step.
        """
        return f"{fingerprint} {self.kind}" if self.emulated else fingerprint


@dataclass(frozen=True)
class Host:
    """The machine that loads, as far as a loader's speed depends on it.

    Attributes:
        cores: CPUs that this process may use, by affinity and cgroup quota.
        memory_bytes: Memory that this process may use.
        cpu_model: The CPU's family, model and stepping, which differ between CPUs that a cloud
            calls "Intel Xeon Processor"; "" where the kernel does not give them.
        machine: An anonymous id of this machine among others of its class; "" where there is none,
            as in virtual machines.
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
    """The time a real training step spent inside `next()` of the loader: percentiles in seconds.

    Attributes:
        cv: Standard deviation over mean of the time between batches when pulled flat out;
            0: every batch takes the same time; 1: as irregular as a Poisson process.
    """

    p50: float
    p95: float
    p99: float
    cv: float


@dataclass(frozen=True)
class Finding:
    """An observation beside the verdict."""

    name: str
    message: str


@dataclass(frozen=True)
class BlockingLine:
    """A line of the trainer's loop that blocks until the device is done.

    Attributes:
        code: The text of the line.
        fraction: Of the time from a batch to the next request, what the loop spends there.
        working_fraction: Of that, the part in which it computes; near 0: it only waits.
    """

    file: str
    line: int
    code: str
    fraction: float
    working_fraction: float = 0.0


@dataclass(frozen=True)
class GpuHealth:
    """The state of the GPU while it was measured.

    Attributes:
        sm_clock_mhz: Clock of its multiprocessors, one entry per round.
        temperature_c: Its temperature in degrees Celsius, one entry per round.
        throttled_rounds: Rounds in which heat or the power supply slowed it down.
        foreign_pids: Other programs' processes that were on it at any time.
    """

    sm_clock_mhz: tuple[float, ...]
    temperature_c: tuple[float, ...]
    throttled_rounds: int
    throttle_reasons: tuple[str, ...]
    foreign_pids: tuple[int, ...]


@dataclass(frozen=True)
class CalibrationTurns:
    """CPU seconds, all processes, of the measured and the reference loader, pulled in turns."""

    load_cpu_s_per_batch: float
    reference_cpu_s_per_batch: float


@dataclass(frozen=True)
class Rounds:
    """The raw values, in seconds or as a count; one entry per round.

    A round measures every quantity once, one after the other, so that entries of the same round
    can be compared with each other.

    Attributes:
        exposed_s_per_step: Time in which the device idles, from a request for a batch that finds
            the step done to the next call of the step. Empty in an older document.
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
        fingerprint: Names the data and the configuration; only equal ones are compared.
        load_s_per_batch: L, wall time of one batch with the loader alone, buffers drained.
        step_s: S0, wall time of one step on resident batches, blocked once at the end.
        step_synced_s: S_sync, the same, blocked after every step.
        step_shadow_s: S1, the same while a batch per step is pulled and thrown away.
        step_transfer_s: S2, the same with a transfer of a cached host batch before every step.
        train_s_per_step: R, wall time of one step of the real loop.
        headroom: S0 / L; below 1 the loader cannot keep up.
        stall_fraction: (R - S0) / R; 0: the device never waits; 1: it only waits.
        accelerator_utilisation: S0 / R.
        load_cpu_ratio: CPU time of a batch, all processes, over that of a batch of the reference
            loader, pulled in turns: a loader's cost without the machine's speed.
        sync_probe_fraction: Of the requests for a batch in the real loop, those that find the step
            before done. 0: nothing forces a sync; 1: every step is synced.
        sync_probe_idle_fraction: The same in the S0 loop, which never syncs; unless it is near 0,
            the probe proves nothing.
        worst_tenth_fraction: Of the stall, what the worst tenth of the steps has.
        compilations: Compilations inside timed windows.
        buffered_batches: Batches in the loader's buffers when a drain began.
        buffered_batches_start: Batches in the loader's buffers when a block of real steps began.
        buffered_batches_end: The same at its end; where it is lower by more than a batch or two,
            the buffers have hidden a slow loader.
        dispatch_depth: Most steps in flight at once in the real loop.
        host_s_per_step: H, the loop's own work from a batch to the request for the next, on
            results that are ready.
        blocking_lines: The lines at which the loop blocks before a request that finds the step
            done, the worst first; only sampled where training stalls, or a loop seems to wait.
        losses_are_finite: Whether the last loss of every block of real steps was a number.
        loader_processes: Worker processes; 0 when this process loads.
        load_overlap_fraction: Of the time of loading, that in which the device computed, by a
            profiler's trace; 0: they take turns; 1: loading is hidden. None without a trace.
        gpu: None where there is no GPU, or its state cannot be read.
        calibration: The reference loader of `load_cpu_ratio`; only equal ones are compared.
        turns: The raw values behind `load_cpu_ratio`, of the loader's first batches.
        timeline: The last real steps of the last round.
        epoch_batches: Batches after which the loader last ended; None: it did not end.
        within_epochs: Whether no restart of the loader fell into a timed window.
        trace: The file with a profiler's trace of some real steps; "" for none.
        storage: The stand-ins that the loader read from, whose times are derived; "" for none.
        distributions: None in an older document.
        overhead_fraction: The time that the harness's instruments add to a bare step, over S0;
            None when not measured.
        busy_elsewhere_fraction: Of the host's CPU time, what other programs took.
        batch_bytes: One batch as the trainer sees it.
        first_batch_s: Wall time from the loader's start to its first batch.
        start_up: The parts of this time and of the import; None in an older document.
        drained: Whether the buffers could be drained within the time for it.
        peak_pss_bytes: Most memory of all processes between blocks, shared pages counted once; None
            in an older document, and where the kernel does not tell.
        growth_bytes_per_batch: Growth of that memory for each batch given, without the pages of
            mapped files; near 0: none.
        growing_process: The process whose memory grows most, as "worker 2 (pid 123)".
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
    storage: str = ""
    epoch_batches: int | None = None
    within_epochs: bool = True
    start_up: StartUp | None = None
    peak_pss_bytes: int | None = None
    growth_bytes_per_batch: Interval | None = None
    growing_process: str = ""

    def to_document(self) -> dict[str, Any]:
        """Return the measurement as plain JSON values."""
        document: dict[str, Any] = converter().unstructure(self)
        return {"schema": SCHEMA, **document}


def parse_measurement(document: Mapping[str, Any], where: object) -> Measurement:
    """Build a Measurement from what `to_document` returned; `where` is the file, for errors.

    Raises:
        InputError: The document is of another schema, or a field is missing or wrong.
    """
    from cattrs import BaseValidationError, transform_error

    if document.get("schema") != SCHEMA:
        raise InputError(where, "schema", f"be {SCHEMA}", repr(document.get("schema")))
    values = {name: value for name, value in document.items() if name != "schema"}
    try:
        return converter().structure(values, Measurement)
    except BaseValidationError as error:
        found = "; ".join(transform_error(error))
        raise InputError(where, "measurement", "hold every field", found) from error


@cache
def converter() -> "Converter":
    """Return the converter of results; JSON has no infinity, so an unbounded end is null."""
    # Every command imports this module, also one that only prints its help.
    from cattrs import Converter

    converter = Converter(forbid_extra_keys=True)
    converter.register_unstructure_hook(
        Interval,
        lambda interval: {
            name: value if isfinite(value) else None for name, value in asdict(interval).items()
        },
    )
    converter.register_structure_hook(Interval, _parse_interval)
    return converter


def _parse_interval(document: Mapping[str, Any], _: type) -> Interval:
    low, high = document["low"], document["high"]
    return Interval(
        median=float(document["median"]),
        low=-inf if low is None else float(low),
        high=inf if high is None else float(high),
        n=int(document["n"]),
    )
