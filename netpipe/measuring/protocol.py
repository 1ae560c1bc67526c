"""The protocol: warm up, drain, then rounds of interleaved blocks; produces a Measurement."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import median

from netpipe.clock import Clock
from netpipe.errors import LoaderEndedError
from netpipe.measuring.kept_trace import TraceTarget, keep_trace
from netpipe.measuring.loader_puller import Puller, close_with_timeout
from netpipe.measuring.profiler_trace import NoTraceError
from netpipe.measuring.round_log import RoundLog
from netpipe.measuring.rounds import RoundRunner, Subject
from netpipe.results import statistics
from netpipe.results.measurement import Device, Finding, Host, Measurement, Rounds, Waits
from netpipe.results.step_times import Distributions
from netpipe.session import processes
from netpipe.session.heartbeat import UNWATCHED, Watch

_SLOW_START_S = 10.0  # until the first batch
_LEAST_KEPT_BYTES = 1 << 20  # of a state, before it is worth a word that it is not donated


@dataclass(frozen=True)
class Environment:
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
    place: Environment,
    budget_s: float,
    clock: Clock,
    closing: ExitStack,
    watch: Watch = UNWATCHED,
    trace: TraceTarget | None = None,
) -> Iterator[Measurement]:
    """Measure a loader and a step together.

    Args:
        subject: The loader, the step and the loop.
        place: The device and the host, as they are to be recorded.
        budget_s: Seconds that the rounds may take.
        clock: Seconds.
        closing: Closes the loaders, for the caller to do once the measurement is safe.
        watch: Told of what could hang.
        trace: Where to keep a profiler's trace of some real steps; None: none is taken.

    Yields:
        Everything that was measured; where a trace is to be kept, once without and once with it.

    Raises:
        MisuseError: A factory does not give what it must.
    """
    started, host_cpu = clock(), processes.read_host_cpu()
    watch.enter_phase("making the loader")
    puller = Puller(subject.loader, clock, watch)
    closing.callback(close_with_timeout, puller.close)
    watch.enter_phase("making the step")
    bench = RoundRunner(subject, puller, clock, budget_s)
    closing.callback(close_with_timeout, bench.reference.close)
    bench.run(watch)
    busy = processes.busy_elsewhere_fraction(host_cpu, processes.read_host_cpu())
    if trace is not None:
        bench.log.no_trace = "taking it did not end"
        yield _summary(bench, place, subject.fingerprint, clock() - started, busy)
        watch.enter_phase("a trace of some steps", budget_s)
        watch.begin_rounds()  # it has a budget of its own
        _keep_trace(bench, trace.file(_device(bench, place).key))
    yield _summary(bench, place, subject.fingerprint, clock() - started, busy)


def _device(bench: RoundRunner, place: Environment) -> Device:
    return place.device_of(len(bench.stepper.devices))


def _keep_trace(bench: RoundRunner, file: Path) -> None:
    """Keep a trace of steps that do not count; without one, note why."""
    try:
        keep_trace(bench.train_to_be_seen, file)
    except (NoTraceError, LoaderEndedError) as error:
        bench.log.no_trace = str(error)
    else:
        bench.log.trace, bench.log.no_trace = str(file), ""


def _summary(
    bench: RoundRunner,
    place: Environment,
    fingerprint: str,
    elapsed_s: float,
    busy_elsewhere: float,
) -> Measurement:
    log, stepper = bench.log, bench.stepper
    waits_s = [wait for block in log.train for wait in block.waits_s]
    device = _device(bench, place)
    return Measurement(
        device=device,
        host=place.host,
        versions=place.versions,
        # What follows from FLOPs is another step at another MFU, under the same key.
        fingerprint=f"{fingerprint} {device.kind}" if device.emulated else fingerprint,
        load_s_per_batch=statistics.median_interval(log.load_s),
        step_s=statistics.median_interval(log.step_s),
        step_synced_s=statistics.median_interval(log.synced_s),
        step_shadow_s=statistics.median_interval(log.shadow_s) if log.shadow_s else None,
        step_transfer_s=statistics.median_interval(log.transfer_s),
        train_s_per_step=statistics.median_interval(log.train_s),
        headroom=statistics.ratio_interval(log.step_s, log.load_s),
        stall_fraction=statistics.stall_interval(log.step_s, log.train_s),
        accelerator_utilisation=statistics.ratio_interval(log.step_s, log.train_s),
        load_cpu_ratio=statistics.ratio_interval(
            [turns.load_cpu_s_per_batch for turns in log.turns],
            [turns.reference_cpu_s_per_batch for turns in log.turns],
        ),
        wait_s=Waits(
            p50=statistics.percentile(waits_s, 0.50),
            p95=statistics.percentile(waits_s, 0.95),
            p99=statistics.percentile(waits_s, 0.99),
            cv=statistics.variation(list(chain.from_iterable(log.gaps_s))),
        ),
        sync_probe_fraction=log.probe_fraction,
        sync_probe_idle_fraction=stepper.ready_before_next / max(1, stepper.asked_before_next),
        worst_tenth_fraction=statistics.worst_tenth_fraction(_stalls_s(log)),
        compilations=sum(log.compilations),
        buffered_batches=median(log.lent) if log.mostly_drained else None,
        dispatch_depth=max(block.depth for block in log.train),
        overhead_fraction=log.overhead_s / median(log.step_s),
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
            host_s_per_step=tuple(log.host_s),
            compilations=tuple(log.compilations),
            exposed_s_per_step=tuple(block.exposed_s_per_step for block in log.train),
        ),
        findings=tuple(_findings(bench)),
        buffered_batches_start=_buffered_at_start(log),
        buffered_batches_end=median(log.lent_after_train) if log.lent_after_train else None,
        host_s_per_step=statistics.median_interval(log.host_s),
        blocking_lines=log.blocking_lines,
        losses_are_finite=all(block.finite for block in log.train),
        loader_processes=bench.puller.processes.workers,
        load_overlap_fraction=log.load_overlap_fraction,
        gpu=log.gpu,
        calibration=bench.reference.name,
        turns=tuple(log.turns),
        timeline=log.train[-1].timeline,
        distributions=_distributions(log),
        trace=log.trace,
        epoch_batches=bench.puller.epoch_batches,
        within_epochs=log.within_epochs,
    )


def _distributions(log: RoundLog) -> Distributions:
    steps_s = [one for block in log.train for one in block.steps_s]
    waits_s = [one for block in log.train for one in block.waits_s]
    return Distributions(
        statistics.percentiles(steps_s), statistics.percentiles(waits_s), len(steps_s)
    )


def _buffered_at_start(log: RoundLog) -> float | None:
    """Return what lay in the loader's buffers when the loop began: nothing, or all they hold."""
    if 2 * sum(log.trained_drained) > len(log.trained_drained):
        return 0.0 if log.mostly_drained else None
    return median(log.lent_when_full) if log.lent_when_full else None


def _stalls_s(log: RoundLog) -> list[float]:
    """Return by how much each real step was longer than a step alone."""
    step_s = median(log.step_s)
    return [max(0.0, one - step_s) for block in log.train for one in block.steps_s]


def _findings(bench: RoundRunner) -> list[Finding]:
    found = []
    puller = bench.puller
    if puller.longest_start_s > _SLOW_START_S:
        found.append(
            Finding(
                "slow-start",
                f"the loader took {puller.longest_start_s:.0f} s from its start to its first "
                f"batch ({puller.first_batch_s:.0f} s the first time, {puller.making_s:.0f} s of "
                "them in loader()); every start of the training waits as long. Build an index "
                "once and keep it",
            )
        )
    if puller.restarts:
        where = (
            "outside all timed windows"
            if bench.log.within_epochs
            else "also inside timed windows: let it go on (repeat)"
        )
        found.append(
            Finding(
                "loader-restarted",
                f"an epoch of the loader has {puller.epoch_batches} batches; it was started again "
                f"{puller.restarts} times, {where}",
            )
        )
    if bench.log.ended:
        found.append(Finding("loader-ended", bench.log.ended))
    if bench.log.no_trace:
        found.append(Finding("no-trace", f"no trace was kept: {bench.log.no_trace}"))
    if not bench.log.mostly_drained:
        found.append(
            Finding(
                "undrained-buffers",
                f"the loader's buffers still lent speed after {max(bench.log.lent):.0f} batches",
            )
        )
    if bench.stepper.kept_state_bytes >= _LEAST_KEPT_BYTES:
        found.append(
            Finding(
                "donation-missing",
                f"the step leaves {bench.stepper.kept_state_bytes:,} bytes of the state it was "
                "given behind, beside the new one: donate it, jax.jit(step, donate_argnums=0)",
            )
        )
    if not bench.stepper.runs_in_a_thread:
        found.append(
            Finding(
                "step-needs-its-thread",
                "the step cannot run in a side thread, so S1, its time beside the loader, is not "
                "measured",
            )
        )
    return found
