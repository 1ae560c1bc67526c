"""The result of a session: plain, frozen values that are exchanged as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from netpipe.errors import InputError
from netpipe.results.fields import (
    Amount,
    Count,
    Document,
    Fraction,
    MayBeAbsent,
    Must,
    PositiveCount,
    Text,
    parse,
)
from netpipe.results.fields import Interval as Interval
from netpipe.results.start_up import JsonStartUp, StartUp
from netpipe.results.step_times import MAX_TIMELINE_STEPS, Distributions, StepTimes

SCHEMA: Final = "netpipe.measurement/1"
CACHE_WARMS_UP = "cache-warms-up"
"""The finding of a measurement that uses only its later rounds."""

PAUSES = "pauses"
"""The finding of a loader whose pauses can slow training down noticeably."""

DeviceKey = Annotated[str, Must(pattern="^[a-z0-9.+-]+$")]
Measured = Annotated[
    Interval, Must("Measured", containsMedian=True, properties={"n": {"minimum": 1}})
]
Positive = Annotated[
    Measured, Must("Positive", properties={"median": {"exclusiveMinimum": 0, "maximum": 1e12}})
]
Rate = Literal["tokens_per_s", "tokens_per_s_per_device", "mfu"]
Share = Annotated[Measured, Must(properties={"median": {"maximum": 1}})]


@dataclass(frozen=True)
class Device:
    """The accelerator that a step ran on, real or emulated."""

    key: DeviceKey  #: The name of the device's folder of baselines, such as h100-sxm-80gb-x1.
    kind: str  #: The runtime's name for the device.
    platform: str  #: The runtime's name for the platform: cpu, gpu, tpu, emulated or unknown.
    count: PositiveCount = 1  #: Number of devices used.

    @property
    def emulated(self) -> bool:
        """Whether the step is a clock, not a computation."""
        return self.platform == "emulated"

    @property
    def shares_host_cores(self) -> bool:
        """Whether the step runs on the cores that the loader needs."""
        return self.platform == "cpu"

    def complete_fingerprint(self, fingerprint: str) -> str:
        """Add the emulated step to the fingerprint of the data and configuration.

        The kind of an emulated device contains the FLOPs of its step, which depend on the MFU.
        """
        return f"{fingerprint} {self.kind}" if self.emulated else fingerprint


@dataclass(frozen=True)
class HostClass:
    """The properties of a host that determine a loader's speed."""

    cpu: str  #: The processor's model name.
    cores: PositiveCount  #: CPUs that this process may use, by affinity and cgroup quota.
    #: Memory that this process may use: the machine's, or its cgroup's limit.
    memory_bytes: PositiveCount
    container: bool = False  #: Whether the host is a container.
    #: Family, model and stepping, which differ between CPUs that a cloud calls 'Intel Xeon
    #: Processor'; empty if the kernel does not report them.
    cpu_model: MayBeAbsent[str] = ""


@dataclass(frozen=True)
class Host(HostClass):
    """The machine that runs the loader."""

    #: An anonymous id that distinguishes this machine from others of its class; empty if there is
    #: none, as in virtual machines.
    machine: MayBeAbsent[str] = ""


@dataclass(frozen=True)
class Waits:
    """The time a real training step spent inside `next()` of the loader: percentiles in seconds."""

    p50: Amount
    p95: Amount
    p99: Amount
    #: Standard deviation over mean of the time between batches that are pulled flat out. 0: every
    #: batch takes the same time; 1: they are as irregular as a Poisson process.
    cv: Amount


@dataclass(frozen=True)
class Finding:
    """An observation in addition to the verdict."""

    name: str
    message: str


@dataclass(frozen=True)
class BlockingLine:
    """A line of the trainer's loop that blocks until the device is done."""

    file: str
    line: PositiveCount
    code: str
    #: Share of the time from a batch to the next request that the loop spends on this line.
    fraction: Fraction
    working_fraction: Fraction = 0.0  #: Share of that time spent computing; near 0: it only waits.


@dataclass(frozen=True)
class GpuHealth:
    """The state of the GPU during the measurement.

    Attributes:
        sm_clock_mhz: Clock rate of the multiprocessors in MHz, one entry per round.
        temperature_c: Temperature in degrees Celsius, one entry per round.
        throttled_rounds: Number of rounds in which heat or the power limit slowed the GPU down.
        foreign_pids: Processes of other programs that used the GPU at any time.
    """

    sm_clock_mhz: tuple[Amount, ...]
    temperature_c: tuple[Amount, ...]
    throttled_rounds: Count
    throttle_reasons: tuple[str, ...]
    foreign_pids: tuple[int, ...]


@dataclass(frozen=True)
class CalibrationTurns:
    """CPU seconds of the measured and the reference loader in all processes, pulled in turns."""

    load_cpu_s_per_batch: Amount
    reference_cpu_s_per_batch: Amount


@dataclass(frozen=True)
class Rounds:
    """The raw values, in seconds or as counts; one entry per round.

    A round measures each quantity once, so the entries of one round can be compared.
    """

    load_s_per_batch: tuple[Amount, ...] = ()
    load_cpu_s_per_batch: tuple[Amount, ...] = ()
    step_s: tuple[Amount, ...] = ()
    step_synced_s: tuple[Amount, ...] = ()
    step_shadow_s: tuple[Amount, ...] = ()
    step_transfer_s: tuple[Amount, ...] = ()
    train_s_per_step: tuple[Amount, ...] = ()
    host_s_per_step: MayBeAbsent[tuple[Amount, ...]] = ()
    compilations: MayBeAbsent[tuple[Amount, ...]] = ()  #: Compilations in the timed windows.
    #: Time in which the device is idle: from a request for a batch that finds the step done to the
    #: next call of the step.
    exposed_s_per_step: MayBeAbsent[tuple[Amount, ...]] = ()
    step_loaded_s: MayBeAbsent[tuple[Amount, ...]] = ()
    #: Share of the host's CPU time that other programs took while the loader ran alone.
    busy_elsewhere_fraction: MayBeAbsent[tuple[Fraction, ...]] = ()

    @property
    def own_step_s(self) -> tuple[float, ...]:
        """Step time on the loader's own batches: S3, or S0 if there are no synthetic batches."""
        return self.step_loaded_s or self.step_s


@dataclass(frozen=True)
class Measurement(Document):
    """Everything that one session measured, as `netpipe measure --json` prints it."""

    SCHEMA = SCHEMA

    device: Device
    host: Host
    versions: Mapping[str, str]  #: Versions of every package that matters, by name.
    fingerprint: str  #: Identifies the data and configuration; only equal ones are compared.
    load_s_per_batch: Positive  #: L, wall time of one batch with the loader alone, buffers drained.
    step_s: Positive  #: S0, wall time of one step on resident batches, blocked once at the end.
    #: S_sync, the same, but blocked after every step. Null: not measured.
    step_synced_s: Positive | None
    #: S1, the same while one batch per step is pulled and discarded.
    step_shadow_s: Positive | None
    #: S2, the same with a transfer of a cached host batch before every step.
    step_transfer_s: Positive | None
    train_s_per_step: Positive  #: R, wall time of one step of the real loop.
    headroom: Positive  #: S0 / L; below 1 the loader cannot keep up.
    #: (R - S3) / R, or (R - S0) / R without S3; 0: the device never waits; 1: it only waits.
    stall_fraction: Share
    accelerator_utilisation: Positive  #: S0 / R.
    #: CPU time of a batch in all processes, over that of the reference loader, pulled in turns: a
    #: loader's cost, independent of the machine's speed.
    load_cpu_ratio: Positive
    wait_s: Waits  #: Seconds that steps of the real loop waited for their batch.
    #: Share of the requests for a batch in the real loop that find the previous step done. 0:
    #: nothing forces a sync; 1: every step is synced.
    sync_probe_fraction: Fraction
    #: The same in the S0 loop, which never syncs; the probe is only valid if this is near 0.
    sync_probe_idle_fraction: Fraction
    worst_tenth_fraction: Fraction  #: Share of the stall in the worst tenth of the steps.
    compilations: Count  #: Compilations inside timed windows.
    #: Batches in the loader's buffers when a drain began. Null: they could not be drained.
    buffered_batches: Amount | None
    dispatch_depth: Count  #: Highest number of steps in flight in the real loop.
    #: The time that the harness's instruments add to a bare step, over S3. Null: not measured.
    overhead_fraction: Fraction | None
    busy_elsewhere_fraction: Fraction  #: Share of the host's CPU time that other programs took.
    batch_bytes: Count  #: Bytes of one batch as the trainer sees it.
    first_batch_s: Amount  #: Wall time from the loader's start to its first batch.
    drained: bool  #: Whether the buffers could be drained within the time limit.
    elapsed_s: Amount  #: Duration of the whole measurement in seconds.
    rounds: Rounds = field(default_factory=Rounds)
    findings: tuple[Finding, ...] = ()  #: Observations in addition to the verdict.
    #: H, the loop's own work from a batch to the next request, when all results are ready.
    #: Null: not measured.
    host_s_per_step: Measured | None = None
    #: The lines at which the loop blocks before a request that finds the step done, the worst
    #: first. They are sampled only if training stalls or a loop seems to wait.
    blocking_lines: tuple[BlockingLine, ...] = ()
    #: Whether the last loss of every block of real steps was finite.
    losses_are_finite: bool = True
    loader_processes: Count = 0  #: Worker processes; 0: the training process loads.
    gpu: GpuHealth | None = None  #: Null if there is no GPU, or its state cannot be read.
    calibration: str = ""  #: The reference loader of load_cpu_ratio; only equal ones are compared.
    #: The raw values behind load_cpu_ratio, measured on the loader's first batches.
    turns: tuple[CalibrationTurns, ...] = ()
    #: The last real steps of the last round.
    timeline: MayBeAbsent[Annotated[tuple[StepTimes, ...], Must(maxItems=MAX_TIMELINE_STEPS)]] = ()
    distributions: MayBeAbsent[Distributions | None] = None  #: Null in an older document.
    #: Tokens of this host's batch over R, without padding, or examples: see `tokens_unit`. Null:
    #: `not_known` says why, or the document is older and it was not measured.
    tokens_per_s: MayBeAbsent[Positive | None] = None
    tokens_per_s_per_device: MayBeAbsent[Positive | None] = None  #: The same over the devices used.
    #: Tokens are counted by the batch's segmentation or mask. If it has neither, examples are
    #: counted: the rows of its first array.
    tokens_unit: MayBeAbsent[Literal["tokens", "examples"]] = "tokens"
    #: FLOPs of a step over R, over the dense peak of the devices used. For an emulated device, this
    #: is derived: the assumed MFU times S0 / R.
    mfu: MayBeAbsent[Positive | None] = None
    #: Why a rate is null, by the rate's name.
    not_known: MayBeAbsent[Annotated[Mapping[str, str], Mapping[Rate, Text]]] = field(
        default_factory=dict
    )
    #: The file with a profiler's trace of some real steps; empty for none.
    trace: MayBeAbsent[str] = ""
    #: The stand-ins for a storage that the loader read from; times are then derived. Empty: none.
    storage: MayBeAbsent[str] = ""
    #: Number of batches in the loader's first epoch; null: it did not end.
    epoch_batches: MayBeAbsent[PositiveCount | None] = None
    #: Whether the loader was not restarted inside a timed window.
    within_epochs: MayBeAbsent[bool] = True
    #: Null in an older document.
    start_up: MayBeAbsent[Annotated[StartUp | None, JsonStartUp | None]] = None
    #: Peak memory of all processes, read between blocks, with shared pages counted once. Null in an
    #: older document, or if the kernel does not report it.
    peak_pss_bytes: MayBeAbsent[PositiveCount | None] = None
    #: Growth of that memory per batch, without the pages of mapped files and without what this
    #: process has freed; near 0: no growth.
    growth_bytes_per_batch: MayBeAbsent[Measured | None] = None
    #: The process whose memory grows most, such as "worker 2 (pid 123)".
    growing_process: MayBeAbsent[str] = ""
    #: Batches watched for pauses, with the loader alone and in the real loop.
    watched_batches: MayBeAbsent[Count] = 0
    #: S3, as S0, but on the loader's batches. Null: S0 is measured on these, or the document is
    #: older.
    step_loaded_s: MayBeAbsent[Positive | None] = None


def parse_measurement(document: Mapping[str, Any], where: object) -> Measurement:
    """Build a Measurement from its document; arguments and errors as for `parse`."""
    if document.get("schema") != SCHEMA:
        raise InputError(where, "schema", f"be {SCHEMA}", repr(document.get("schema")))
    return parse(document, Measurement, where)
