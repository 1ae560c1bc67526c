"""The protocol: warm up, drain, then rounds of interleaved blocks; produces a Measurement.

Every round measures each quantity once. Rounds alternate between "step first" and "training
first" (A B B A), so that a machine that grows slower favours neither side.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import ceil
from statistics import median

from netpipe.harness import calibration, processes, stats
from netpipe.harness.clock import Clock
from netpipe.harness.measurement import Device, Finding, Host, Measurement, Rounds, Waits
from netpipe.harness.pull import LoaderFactory, Puller
from netpipe.harness.stepping import BatchesFactory, StepFactory, Stepper, batch_bytes
from netpipe.harness.training import (
    SKIPPED_STEPS,
    Loop,
    TrainBlock,
    late_reading_loop,
    train_block,
)

LEAST_ROUNDS = 6  # below, no interval reaches 95%
_ROUNDS_WANTED = 9
_RESIDENT_BATCHES = 2
_DRAIN_WHEN_ABOVE = 0.8  # of the step time: a faster loader keeps its buffers full anyway
_TIGHT_LOAD = 0.03  # half-widths at which more rounds tell nothing more
_TIGHT_TRAIN = 0.02
_OVERRUN = 2.0  # of the budget, to reach the least number of rounds


@dataclass(frozen=True)
class Subject:
    """What is measured.

    Attributes:
        loader: Makes the loader.
        step: Makes the state and the step.
        loop: The trainer's own loop, or the harness's.
        synthetic: Makes the batches that the step is timed on alone, at least two; the loader's
            first ones when left out.
        fingerprint: Names the data and the configuration of the loader and the step.
    """

    loader: LoaderFactory
    step: StepFactory
    loop: Loop = late_reading_loop
    synthetic: BatchesFactory | None = None
    fingerprint: str = ""


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


@dataclass(frozen=True)
class _Sizes:
    """How much each block of a round does."""

    load_batches: int
    steps: int
    short_steps: int
    train_steps: int

    @classmethod
    def within(cls, round_s: float, load_s: float, step_s: float, group: int) -> "_Sizes":
        loads = _between(8, ceil(0.15 * round_s / load_s), 500)
        return cls(
            load_batches=ceil(loads / group) * group,
            steps=_between(6, ceil(0.15 * round_s / step_s), 200),
            short_steps=_between(4, ceil(0.1 * round_s / step_s), 100),
            train_steps=_between(12, ceil(0.35 * round_s / max(step_s, load_s)), 400),
        )


def _between(least: int, wanted: int, most: int) -> int:
    return min(most, max(least, wanted))


@dataclass
class _Log:
    """What the rounds have shown so far."""

    load_s: list[float] = field(default_factory=list)
    load_cpu_s: list[float] = field(default_factory=list)
    gaps_s: list[float] = field(default_factory=list)
    step_s: list[float] = field(default_factory=list)
    synced_s: list[float] = field(default_factory=list)
    shadow_s: list[float] = field(default_factory=list)
    transfer_s: list[float] = field(default_factory=list)
    train: list[TrainBlock] = field(default_factory=list)
    calibration_s: list[float] = field(default_factory=list)
    lent: list[float] = field(default_factory=list)
    drained: bool = True
    compilations: int = 0

    @property
    def train_s(self) -> list[float]:
        return [block.s_per_step for block in self.train]

    def is_tight(self) -> bool:
        if len(self.load_s) < LEAST_ROUNDS:
            return False
        load = stats.median_interval(self.load_s)
        ratio = stats.ratio_interval(self.train_s, self.step_s)
        return (
            stats.half_width_fraction(load) < _TIGHT_LOAD
            and stats.half_width_fraction(ratio) < _TIGHT_TRAIN
        )


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
        bench = _Bench(subject, puller, clock, budget_s)
        bench.run()
        busy = processes.busy_elsewhere_fraction(host_cpu, processes.read_host_cpu())
        return _summary(bench, place, subject.fingerprint, clock() - started, busy)
    finally:
        puller.close()


class _Bench:
    """The blocks of a round, and the order they are run in."""

    def __init__(self, subject: Subject, puller: Puller, clock: Clock, budget_s: float) -> None:
        self.puller = puller
        self.log = _Log()
        self._loop = subject.loop
        self._clock = clock
        self._budget_s = budget_s
        batches = [puller.first_batch]
        batches += [puller.pull()[0] for _ in range(_RESIDENT_BATCHES - 1)]
        self.batch_bytes = batch_bytes(batches[0])
        self.stepper = Stepper(subject.step, batches, clock, subject.synthetic)

    def run(self) -> None:
        self.warm_up_steps = self.stepper.warm_up()
        # The loader fills its buffers while the step is estimated, so the step comes first.
        self._step_s = self.stepper.resident_s(SKIPPED_STEPS)
        self._load_s = self._estimate_load_s()
        started = self._clock()
        compiled = self.stepper.compilations()
        while not self._is_over(started):
            self._round(step_first=len(self.log.load_s) % 2 == 0)
        self.log.compilations = self.stepper.compilations() - compiled

    def _is_over(self, started: float) -> bool:
        rounds, spent_s = len(self.log.load_s), self._clock() - started
        if rounds < LEAST_ROUNDS:
            return spent_s > _OVERRUN * self._budget_s
        return self.log.is_tight() or spent_s * (rounds + 1) / rounds > self._budget_s

    def _estimate_load_s(self) -> float:
        """Pull until the second half of the pulls is no slower than the first."""
        started, before = self._clock(), 0.0
        while True:
            pulled = self.puller.flat_out(2 * self.puller.group)
            spent = self._clock() - started
            if (before and pulled.s_per_batch < 1.1 * before) or spent > 0.2 * self._budget_s:
                return max(before, pulled.s_per_batch, 1e-9)
            before = max(before, pulled.s_per_batch)

    def _round(self, *, step_first: bool) -> None:
        round_s = self._budget_s / _ROUNDS_WANTED
        sizes = _Sizes.within(round_s, self._load_s, self._step_s, self.puller.group)
        self.log.calibration_s.append(calibration.workload_cpu_s())
        if step_first:
            self._step_blocks(sizes, round_s)
            self._loading_blocks(sizes, round_s)
        else:
            self._loading_blocks(sizes, round_s)
            self._step_blocks(sizes, round_s)
        self._load_s = median(self.log.load_s)
        self._step_s = median(self.log.step_s)

    def _step_blocks(self, sizes: _Sizes, round_s: float) -> None:
        log, stepper = self.log, self.stepper
        self.puller.settle(0.3 * round_s)
        log.step_s.append(stepper.resident_s(sizes.steps))
        log.synced_s.append(stepper.synced_s(sizes.short_steps))
        log.transfer_s.append(stepper.transfer_s(sizes.short_steps))
        log.shadow_s.append(stepper.shadow_s(sizes.short_steps, self.puller, log.step_s[-1]))

    def _loading_blocks(self, sizes: _Sizes, round_s: float) -> None:
        log, puller = self.log, self.puller
        # Drain: what the buffers lend is not the loader's speed.
        drained, lent = puller.drain(self._load_s, limit_s=0.25 * self._budget_s)
        log.drained &= drained
        log.lent.append(lent)
        pulled = puller.flat_out(sizes.load_batches)
        log.load_s.append(pulled.s_per_batch)
        log.load_cpu_s.append(pulled.cpu_s_per_batch)
        log.gaps_s.extend(pulled.gaps_s)
        # A loader near the step's speed starts the loop with empty buffers, where it will end up;
        # a faster one with full ones.
        if log.load_s[-1] <= _DRAIN_WHEN_ABOVE * self._step_s:
            puller.settle(0.3 * round_s)
        log.train.append(
            train_block(puller, self.stepper, self._loop, sizes.train_steps, self._clock)
        )


def _summary(
    bench: _Bench, place: Place, fingerprint: str, elapsed_s: float, busy_elsewhere: float
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
        buffered_batches=median(log.lent) if log.drained else None,
        dispatch_depth=max(block.depth for block in log.train),
        overhead_fraction=None,
        busy_elsewhere_fraction=busy_elsewhere,
        batch_bytes=bench.batch_bytes,
        first_batch_s=bench.puller.first_batch_s,
        drained=log.drained,
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


def _stalls_s(log: _Log) -> list[float]:
    """Return by how much each real step was longer than a step alone."""
    step_s = median(log.step_s)
    return [max(0.0, one - step_s) for block in log.train for one in block.steps_s]


def _findings(bench: _Bench) -> list[Finding]:
    found = []
    if bench.puller.restarts:
        found.append(
            Finding(
                "loader-restarted",
                f"the loader ended {bench.puller.restarts} times and was started again: a loader "
                "that goes on (repeat) gives truer figures",
            )
        )
    if not bench.log.drained:
        found.append(
            Finding(
                "undrained-buffers",
                f"the loader's buffers still lent speed after {max(bench.log.lent):.0f} batches",
            )
        )
    return found
