"""The protocol: warm up, drain, run rounds of interleaved blocks, and yield Measurements."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import wait
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

from netpipe.clock import Clock
from netpipe.device.accelerators import peak_flops
from netpipe.device.detection import installed_versions
from netpipe.device.host import this_host
from netpipe.device.shared_storages import list_shared_storages
from netpipe.errors import LoaderEndedError
from netpipe.jobs import processes
from netpipe.jobs.bounded_calls import call_in_thread
from netpipe.jobs.heartbeat import UNWATCHED, Watch
from netpipe.jobs.targets import Factories
from netpipe.measuring.cache_warming import describe_warm_up, find_warm_round
from netpipe.measuring.footprint_log import FootprintLog
from netpipe.measuring.loader_puller import Puller, close_with_timeout
from netpipe.measuring.rates import compute_rates, find_flops
from netpipe.measuring.round_log import RoundLog
from netpipe.measuring.rounds import RoundRunner
from netpipe.measuring.training.profiler_trace import NoTraceError, keep_trace
from netpipe.results import statistics
from netpipe.results.measurement import Device, Finding, Measurement, Rounds, Waits
from netpipe.results.start_up import StartUp
from netpipe.results.step_times import Distributions
from netpipe.results.units import format_percent

# A worker is idle if it used less than this fraction of the busiest worker's CPU time.
_MAX_IDLE_FRACTION = 0.02
# If the busiest worker used less CPU time than this, idle workers are not reported.
_MIN_WORKER_CPU_S = 0.2
# The parent waits for 5 s once the result is written; a worker may take a second to stop.
_LAST_CLOSE_S = 3.0
_REFERENCE_CLOSE_S = 1.0
# Smallest undonated state worth reporting, in bytes.
_MIN_KEPT_STATE_BYTES = 1 << 20
# Fields of the rounds for which no interval is computed.
_WITHOUT_INTERVAL = (
    "load_cpu_s_per_batch", "compilations", "exposed_s_per_step", "busy_elsewhere_fraction",
)  # fmt: skip

DeviceOf = Callable[[Sequence[Any]], Device]
"""Returns the device, given the devices that the step uses."""


def measure(
    subject: Factories,
    device_of: DeviceOf,
    budget_s: float,
    clock: Clock,
    closing: ExitStack,
    watch: Watch = UNWATCHED,
    trace: Callable[[str], Path] | None = None,
    is_decided: Callable[[Measurement], bool] | None = None,
    report: Callable[[Finding], None] = lambda _: None,
    *,
    halves_on_shared_cores: bool = False,
) -> Iterator[Measurement]:
    """Measure a loader and a step in rounds of `budget_s` seconds in total; yield the measurement.

    It is yielded before and after each operation that may not return: taking a profiler's trace,
    and analysing a step whose FLOPs are not given. The rounds end early if `is_decided` returns
    True for the measurement so far. With `halves_on_shared_cores`, they usually take half of the
    budget if the step runs on the loader's cores. `trace` takes the device key and returns the file
    for a trace of some real steps. The caller closes `closing` once the measurement is safe; this
    closes the loaders and reports whatever the measured loader leaves behind.

    Raises:
        MisuseError: A factory returns something unsuitable.
    """
    # Read this first, because a loader or a step may restrict this process to some cores.
    environment = {"host": this_host(), "versions": installed_versions()}
    started, host_cpu = clock(), processes.read_host_cpu()
    footprints = FootprintLog(clock)
    watch.enter_phase("making the loader")
    puller = Puller(subject.loader, clock, watch)
    closing.callback(close_with_timeout, puller.close)
    watch.enter_phase("making the step")

    def device() -> Device:
        return device_of(runner.stepper.devices)

    def summarize() -> Measurement:
        busy = processes.busy_elsewhere_fraction(host_cpu, processes.read_host_cpu())
        return _summarize(runner, device(), environment, clock() - started, busy)

    decided = None if is_decided is None else lambda: is_decided(summarize())
    runner = RoundRunner(subject, puller, clock, budget_s, watch, footprints, decided)
    closing.callback(close_with_timeout, runner.reference.close)
    runner.run(lambda: halves_on_shared_cores and device().shares_host_cores)
    if trace is not None:
        runner.log.no_trace = "tracing did not end"
        yield summarize()
        watch.enter_phase("a trace of some steps", budget_s)
        # The trace has its own time limit.
        watch.begin_rounds(runner.budget_s)
        file = trace(device().key)
        try:
            keep_trace(runner.train_for_trace, file)
            runner.log.trace, runner.log.no_trace = str(file), ""
        except (NoTraceError, LoaderEndedError) as error:
            runner.log.no_trace = str(error)
    yield summarize()
    if peak_flops(device().kind) is not None:
        watch.enter_phase("counting the FLOPs of a step", budget_s)
        watch.begin_rounds(runner.budget_s)
        find_flops(runner)
        yield summarize()
    closing.callback(_close, runner, report)


def _close(runner: RoundRunner, report: Callable[[Finding], None]) -> None:
    """Close both loaders at the same time, and report whatever the measured one leaves behind."""
    reference = call_in_thread(runner.reference.close)
    if close_with_timeout(runner.puller.close, _LAST_CLOSE_S):
        wait([reference], _REFERENCE_CLOSE_S)
        left = runner.footprints.find_left(runner.puller, runner.batch_bytes)
    else:
        message = f"closing the loader took more than {_LAST_CLOSE_S:g} s, so leaks are not known"
        left = Finding("slow-close", message)
    if left:
        report(left)


def _summarize(
    runner: RoundRunner, device: Device, environment: dict[str, Any], elapsed_s: float, busy: float
) -> Measurement:
    log = runner.log.since(find_warm_round(runner.log.loads) or 0)
    stepper, puller, rounds = runner.stepper, runner.puller, log.columns()
    buffered = [load.buffered for load in log.loads]
    step_s, rest_s = median(rounds.own_step_s), puller.first_batch_s - puller.making_s
    start_up = StartUp(puller.making_s, rest_s, runner.subject.import_s)
    return Measurement(
        **_describe_rounds(rounds),
        **_describe_steps(log, step_s),
        **compute_rates(runner, log, device),
        **environment,
        device=device,
        fingerprint=device.complete_fingerprint(runner.subject.fingerprint),
        storage=" and ".join(list_shared_storages()),
        load_cpu_ratio=statistics.ratio_interval(
            [turns.load_cpu_s_per_batch for turns in log.turns],
            [turns.reference_cpu_s_per_batch for turns in log.turns],
        ),
        sync_probe_fraction=log.probe_fraction,
        sync_probe_idle_fraction=stepper.ready_before_next / max(1, stepper.asked_before_next),
        overhead_fraction=min(1.0, log.overhead_s / step_s),
        busy_elsewhere_fraction=busy,
        batch_bytes=runner.batch_bytes,
        first_batch_s=puller.first_batch_s,
        start_up=start_up,
        buffered_batches=median(buffered) if log.mostly_drained else None,
        drained=log.mostly_drained,
        elapsed_s=elapsed_s,
        findings=(
            *_list_findings(runner, start_up, busy),
            *runner.footprints.findings(within_epochs=log.within_epochs),
        ),
        blocking_lines=log.blocking_lines,
        loader_processes=puller.processes.workers,
        gpu=log.gpu,
        calibration=runner.reference.name,
        turns=tuple(log.turns),
        trace=log.trace,
        epoch_batches=puller.first_epoch_batches,
        within_epochs=log.within_epochs,
        watched_batches=runner.pauses.batches,
        **runner.footprints.describe(),
    )


def _describe_rounds(rounds: Rounds) -> dict[str, Any]:
    ratio_interval = statistics.ratio_interval
    intervals = {
        name: statistics.median_interval(values) if values else None
        for name, values in vars(rounds).items()
        if name not in _WITHOUT_INTERVAL
    }
    return {
        **intervals,
        "rounds": rounds,
        "compilations": int(sum(rounds.compilations)),
        "headroom": ratio_interval(rounds.step_s, rounds.load_s_per_batch),
        "stall_fraction": statistics.stall_interval(rounds.own_step_s, rounds.train_s_per_step),
        "accelerator_utilisation": ratio_interval(rounds.step_s, rounds.train_s_per_step),
    }


def _describe_steps(log: RoundLog, step_s: float) -> dict[str, Any]:
    trains = log.train_blocks
    steps_s = list(chain.from_iterable(train.steps_s for train in trains))
    waits_s = list(chain.from_iterable(train.waits_s for train in trains))
    gaps_s = list(chain.from_iterable(load.pulled.gaps_s for load in log.loads))
    stalls_s = [max(0.0, real_s - step_s) for real_s in steps_s]
    waits = statistics.percentiles(waits_s)
    return {
        "wait_s": Waits(waits[50], waits[95], waits[99], cv=statistics.variation(gaps_s)),
        "worst_tenth_fraction": statistics.worst_tenth_fraction(stalls_s),
        "distributions": Distributions(statistics.percentiles(steps_s), waits, len(steps_s)),
        "dispatch_depth": max(train.depth for train in trains),
        "losses_are_finite": all(train.finite for train in trains),
        "timeline": trains[-1].timeline,
    }


def _list_findings(runner: RoundRunner, start_up: StartUp, busy: float) -> Iterator[Finding]:
    puller, log, stepper = runner.puller, runner.log, runner.stepper
    if runner.long_step:
        yield runner.long_step
    if warm_round := find_warm_round(log.loads):
        yield describe_warm_up(log, warm_round)
    if runner.pauses.matter:
        yield runner.pauses.describe()
    if start_up.is_slow(puller.longest_start_s, busy, puller.start_cpu_s):
        yield Finding("slow-start", start_up.why_slow(puller.longest_start_s))
    elif start_up.is_slow(puller.longest_start_s):
        taken = f"other programs took {format_percent(busy)} of the host's CPU time"
        yield Finding("start-not-judged", f"the start was slow, but {taken}; measure again later")
    if puller.restarts:
        where = "outside all timed windows"
        if not log.within_epochs:
            where = "also inside timed windows: make it repeat"
        yield Finding(
            "loader-restarted",
            f"an epoch of the loader has {puller.epoch_batches} batches; it was started again "
            f"{puller.restarts} times, {where}",
        )
    now_s, before_s = puller.processes.worker_cpu_s(), log.worker_cpu_s
    # A worker that has ended shows 0 seconds, so its work is unknown.
    used_s = [now_s[pid] - before_s.get(pid, 0.0) for pid in now_s]
    used_s = [cpu_s for cpu_s in used_s if cpu_s >= 0]
    used_s += [0.0] * (puller.wanted_workers - len(now_s))
    idle = sum(cpu_s < _MAX_IDLE_FRACTION * max(used_s) for cpu_s in used_s)
    if idle and max(used_s) >= _MIN_WORKER_CPU_S:
        yield Finding(
            "idle-workers",
            f"{idle} of {len(used_s)} worker processes did next to nothing: there may be fewer "
            "files or shards than workers. Give every worker one, or start fewer workers",
        )
    if log.ended:
        yield Finding("loader-ended", log.ended)
    if log.no_trace:
        yield Finding("no-trace", f"no trace was kept: {log.no_trace}")
    if not log.mostly_drained:
        most = max(load.buffered for load in log.loads)
        message = f"the loader's buffers were not empty after {most:.0f} batches"
        yield Finding("undrained-buffers", message)
    if stepper.kept_state_bytes >= _MIN_KEPT_STATE_BYTES:
        yield Finding(
            "donation-missing",
            f"{stepper.kept_state_bytes:,} bytes of the state that a step was given stay allocated "
            "after it: donate the state, jax.jit(step, donate_argnums=0)",
        )
    if not stepper.runs_in_a_thread:
        message = "the step cannot run in a side thread, so S1, its time beside the loader, is not"
        yield Finding("step-needs-its-thread", f"{message} measured")
