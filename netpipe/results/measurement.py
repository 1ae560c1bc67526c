"""The result of a session: plain, frozen numbers that travel as JSON.

`netpipe/schemas/measurement.1.json` describes their fields.
"""

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
CACHE_WARMS_UP = "cache-warms-up"
"""The finding of a measurement whose figures are those of its later rounds alone."""


PAUSES = "pauses"
"""The finding of a loader whose pauses can cost training a relevant part of its time."""


@dataclass(frozen=True)
class Device:
    """The accelerator that a step ran on, real or emulated."""

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
    """The machine that loads, as far as a loader's speed depends on it."""

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
    """The time a real training step spent inside `next()` of the loader: percentiles in seconds."""

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
    """A line of the trainer's loop that blocks until the device is done."""

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
    """Everything one session measured."""

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
    tokens_per_s: Interval | None = None
    tokens_per_s_per_device: Interval | None = None
    tokens_unit: str = "tokens"
    mfu: Interval | None = None
    not_known: Mapping[str, str] = field(default_factory=dict)
    trace: str = ""
    storage: str = ""
    epoch_batches: int | None = None
    within_epochs: bool = True
    start_up: StartUp | None = None
    peak_pss_bytes: int | None = None
    growth_bytes_per_batch: Interval | None = None
    growing_process: str = ""
    watched_batches: int = 0

    def to_document(self) -> dict[str, Any]:
        """Return the measurement as plain JSON values."""
        document: dict[str, Any] = converter().unstructure(self)
        return {"schema": SCHEMA, **document}


def parse_measurement(document: Mapping[str, Any], where: object) -> Measurement:
    """Build a Measurement from a document; an InputError names its file, `where`."""
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
